"""`easyfirst reproduce`: run experiments, print their tables, write the report."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from easyfirst.cli.failures import EXIT_CODES

if TYPE_CHECKING:
    from easyfirst.experiments.base import Experiment
    from easyfirst.experiments.runner import Task
    from easyfirst.experiments.tables import Results

EXPERIMENTS = ("fig1a", "fig1b", "fig1c", "batches", "pace", "rental", "adversary")
ALL, REPORT = "all", "report"
QUICK_SEEDS = 2


@click.command(epilog=EXIT_CODES)
@click.argument("what", type=click.Choice([*EXPERIMENTS, ALL, REPORT]))
@click.option("--quick", is_flag=True, help="Small data and two seeds: minutes instead of hours.")
@click.option("--seeds", type=click.IntRange(min=1), help="Data sets per cell [default: 5 or 10].")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Data sets to run in parallel, one per core.",
)
@click.option("--methods", help="Methods to run, separated by commas [default: all].")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Directory of the records; recorded fits are not run again.",
)
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Directory of the rental listings, with folders nyc, la and barcelona.",
)
@click.option(
    "--docs",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("docs"),
    show_default=True,
    help="Where 'report' writes reproduction.md and figures/.",
)
@click.option("--again", is_flag=True, help="Run recorded fits again.")
def reproduce(
    what: str,
    quick: bool,
    seeds: int | None,
    jobs: int,
    methods: str | None,
    out: Path,
    data: Path | None,
    docs: Path,
    again: bool,
) -> None:
    """Run one of the paper's experiments, or all of them, or write the report.

    Records go to OUT and survive an interruption: the same command continues. 'report' writes
    docs/reproduction.md and its figures from the records.
    """
    console = Console(stderr=True)
    records = out / ("quick" if quick else "full")
    if what == REPORT:
        from easyfirst.experiments.report import write_report

        try:
            console.print(f"Wrote {write_report(records, docs, quick=quick)}")
        except FileNotFoundError as error:
            raise click.ClickException(str(error)) from None
        return
    experiments = _experiments(what, quick, data, console)
    chosen = _methods(methods)
    _run(experiments, records, seeds or (QUICK_SEEDS if quick else None), jobs, chosen, again)
    _print(experiments, records)


def _experiments(what: str, quick: bool, data: Path | None, console: Console) -> list[Experiment]:
    from easyfirst.experiments.catalogue import define

    names = list(EXPERIMENTS) if what == ALL else [what]
    if "rental" in names and data is None:
        if what != ALL:
            raise click.UsageError("rental needs --data, the directory with the listings files.")
        console.print("Without --data, the rental experiments are left out.")
        names.remove("rental")
    return [each for name in names for each in define(name, quick=quick, data=data)]


def _methods(listed: str | None) -> list[str] | None:
    from easyfirst.baselines.methods import METHODS

    if listed is None:
        return None
    names = [name.strip() for name in listed.split(",") if name.strip()]
    unknown = [name for name in names if name not in METHODS]
    if unknown or not names:
        raise click.BadParameter(
            f"unknown method: {', '.join(unknown) or 'none given'}; choose from "
            f"{', '.join(METHODS)}",
            param_hint="--methods",
        )
    return names


def _run(
    experiments: Sequence[Experiment],
    records: Path,
    seeds: int | None,
    jobs: int,
    methods: Sequence[str] | None,
    again: bool,
) -> None:
    from easyfirst.experiments.records import Store
    from easyfirst.experiments.runner import plan, run

    tasks = plan(experiments, Store(records), seeds=seeds, methods=methods, again=again)
    console = Console(stderr=True)
    if not tasks:
        console.print("Everything is recorded already.")
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    ) as progress:
        bar = progress.add_task("running", total=sum(task.cost for task in tasks))

        def advance(task: Task) -> None:
            progress.update(bar, advance=task.cost, description=f"{task.spec.key} #{task.seed}")

        try:
            run(tasks, records, jobs=jobs, on_done=advance)
        except FileNotFoundError as error:
            raise click.ClickException(str(error)) from None
        except BrokenProcessPool:
            raise click.ClickException(
                "A worker process died, perhaps for lack of memory. What it had finished is "
                "recorded: run the same command with fewer --jobs to continue."
            ) from None


def _print(experiments: Sequence[Experiment], records: Path) -> None:
    from easyfirst.experiments.records import Store
    from easyfirst.experiments.tables import Results

    results = Results(Store(records).read())
    console = Console()
    for experiment in experiments:
        _print_one(experiment, results, console)


def _print_one(experiment: Experiment, results: Results, console: Console) -> None:
    from easyfirst.experiments.tables import grid, losses

    for series in experiment.series:
        heading, *rows = grid(experiment, results, series)
        table = Table(*heading, title=f"{experiment.title}: {series}", title_justify="left")
        for row in rows:
            table.add_row(*row)
        console.print(table)
    for loss in losses(experiment, results):
        console.print(
            f"lost: {loss.cell.series} {loss.cell.label} to {loss.method.label}, "
            f"+{100 * loss.excess:.1f} % ({loss.reason})",
            highlight=False,
        )
