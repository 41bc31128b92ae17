"""`easyfirst fit`: a table in, a folder with model, rows, report and summary out."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easyfirst.cli.clusters import ENGINES, connected
from easyfirst.cli.config import config_option
from easyfirst.cli.failures import EXIT_CODES
from easyfirst.cli.options import (
    FILE,
    data_argument,
    feature_options,
    force_option,
    names,
    quiet_option,
    reading_options,
    table_format,
)

if TYPE_CHECKING:
    from easyfirst.cli.progress import LiveProgress
    from easyfirst.tables import TableModel
    from easyfirst.tables.runs import Run


@click.command(epilog=EXIT_CODES)
@data_argument
@feature_options
@click.option(
    "-o",
    "--output",
    type=FILE,
    default=Path("run"),
    show_default=True,
    help="Directory of the results.",
)
@click.option(
    "--row-id", metavar="NAME", help="Column that names the rows [default: count from 0]."
)
@click.option("--batches", metavar="NAME", help="Column with an id per row; same id, same batch.")
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="threads",
    show_default=True,
    help="Where the fit runs.",
)
@click.option("--address", help="Of the running cluster, for dask, ray and spark.")
@click.option("--jobs", type=click.IntRange(min=1), help="Threads [default: every core].")
@click.option("--ridge", type=click.FloatRange(min=0.0), help="Penalty on large coefficients.")
@click.option("--no-intercept", is_flag=True, help="Fit no constant.")
@click.option("--max-rounds", type=click.IntRange(min=1), default=200, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), help="Of the sample that finds the start.")
@click.option("--no-report", is_flag=True, help="Write no report.html.")
@click.option("--show-rows", is_flag=True, help="Show values of suspicious rows in the report.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@quiet_option
@force_option
@reading_options
@config_option()
def fit(
    data: Path,
    output: Path,
    no_report: bool,
    show_rows: bool,
    as_json: bool,
    quiet: bool,
    force: bool,
    delimiter: str | None,
    decimal: str,
    encoding: str,
    na: tuple[str, ...],
    **choices: Any,
) -> None:
    """Fit the table DATA (Parquet or CSV) and find the rows that look wrong.

    Columns of numbers, categories, dates and truth values are used as they are, missing values
    filled in. OUTPUT receives model.safetensors, rows.parquet (what the fit thinks of every
    row), report.html and summary.json.
    """
    from easyfirst.cli.progress import LiveProgress
    from easyfirst.tables.outputs import new_directory
    from easyfirst.tables.runs import RUN_FILES, FitRequest, fit_run

    form = table_format(delimiter, decimal, encoding, na)
    progress = LiveProgress(quiet)
    report = not no_report and _can_draw(progress)
    request = FitRequest(data, _model(choices, progress), form, report, show_rows)
    with (
        new_directory(output, RUN_FILES, force) as folder,
        connected(choices["engine"], choices["address"]),
        progress,
    ):
        run = fit_run(request, folder, progress.stage)
    _explain(run, progress)
    _print(run, output, as_json, quiet)


def _can_draw(progress: LiveProgress) -> bool:
    """Whether a report can be written; its pictures need a package that fits do not."""
    found = importlib.util.find_spec("matplotlib") is not None
    if not found:
        progress.say("Note: no report.html; it needs: pip install 'easyfirst[tool,plot]'")
    return found


def _model(choices: dict[str, Any], progress: LiveProgress) -> TableModel:
    from easyfirst.estimators import SelfPacedRegressor
    from easyfirst.penalties import Ridge
    from easyfirst.tables import TableModel

    regressor = SelfPacedRegressor(
        engine=choices["engine"],
        n_jobs=choices["jobs"],
        penalty=Ridge(choices["ridge"]) if choices["ridge"] else None,
        fit_intercept=not choices["no_intercept"],
        max_rounds=choices["max_rounds"],
        random_state=choices["seed"],
        callbacks=[progress],  # type: ignore[list-item]  # any object with these methods will do
    )
    return TableModel(
        choices["target"],
        features=names(choices["features"]) or None,
        exclude=names(choices["exclude"]),
        row_id=choices["row_id"],
        batches=choices["batches"],
        regressor=regressor,
    )


def _explain(run: Run, progress: LiveProgress) -> None:
    """Say what happened to the table, and what the fit warns of."""
    for note in run.model.notes_:
        progress.say(f"Note: {note}")
    for each in run.model.recipe_.left_out:
        progress.say(f"Note: column {each.name!r} {each.reason}: left out")
    for doubt in run.doubts:
        click.echo(f"Warning: {doubt}", err=True)


def _print(run: Run, output: Path, as_json: bool, quiet: bool) -> None:
    from easyfirst.tables.outputs import to_json

    summary = run.summary()
    if as_json:
        click.echo(to_json(summary))
    elif not quiet:
        _print_summary(summary, output)


def _print_summary(summary: dict[str, Any], output: Path) -> None:
    from easyfirst.cli.printing import (
        console,
        print_coefficients,
        print_fact,
        print_suspects,
        print_table,
    )
    from easyfirst.report.wording import number, percent

    out = console()
    rows, (low, high) = summary["rows"], summary["corrupted_interval"]
    print_coefficients(out, summary["coefficients"])
    facts = [
        ("rows that look wrong", f"{rows['look_wrong']:,} of {rows['fitted']:,}"),
        (
            "estimated corrupted share",
            f"{percent(summary['corrupted_share'])} "
            f"(95 % interval {percent(low)} to {percent(high)})",
        ),
        ("noise scale", number(summary["noise_scale"])),
        ("fit", summary["status"]["message"]),
        (
            "seconds",
            ", ".join(f"{name} {value:.1f}" for name, value in summary["seconds"].items()),
        ),
        ("written to", str(output)),
    ]
    if summary["suspects"]:
        count = len(summary["suspects"])
        print_suspects(out, summary["suspects"], f"The {count} most suspicious rows")
    if summary["batches"]:
        worst = [(each["batch"], each["clean_share"]) for each in summary["batches"][:5]]
        print_table(out, "Worst batches", ("batch", "clean share"), worst, left=("batch",))
    for name, value in facts:
        print_fact(out, name, value)
