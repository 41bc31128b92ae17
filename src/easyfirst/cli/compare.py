"""`easyfirst compare`: our method beside others, on rows that none has seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from easyfirst.cli.config import config_option
from easyfirst.cli.failures import EXIT_CODES
from easyfirst.cli.options import (
    data_argument,
    feature_options,
    names,
    quiet_option,
    reading_choices,
    reading_options,
)

if TYPE_CHECKING:
    from easyfirst.tables.comparison import Comparison, ComparisonPlan


@click.command(epilog=EXIT_CODES)
@data_argument
@feature_options
@click.option(
    "--share",
    type=click.FloatRange(0.0, 1.0, min_open=True),
    default=0.5,
    show_default=True,
    help="Share of held-out errors that count, smallest first; choose it below that of clean rows.",
)
@click.option(
    "--trusted",
    metavar="NAME",
    help="Column to judge by instead: true/false or 0/1 marks rows known to be right; other "
    "numbers are the true target.",
)
@click.option("--methods", help="Methods to compare, separated by commas [default: all].")
@click.option(
    "--folds",
    type=click.IntRange(2, 100),
    default=5,
    show_default=True,
    help="Folds of the cross-validation.",
)
@click.option(
    "--sample",
    type=click.IntRange(min=0),
    default=20_000,
    show_default=True,
    help="Rows to compare on, drawn at random; 0 takes all.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Seed of the folds and of the sample.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
@quiet_option
@reading_options
@config_option()
def compare(
    data: str,
    as_json: bool,
    quiet: bool,
    **choices: Any,
) -> None:
    """Compare easyfirst with other methods on the table DATA, by cross-validation.

    Every method is fitted to the same rows and judged on others, by the same share of the
    errors or by a column that you trust; never by the weights of our own fit.
    """
    from easyfirst.cli.progress import LiveProgress
    from easyfirst.tables import comparison, read_table

    form = reading_choices(choices)
    plan = _plan(choices)
    progress = LiveProgress(quiet)
    with progress:
        progress.stage(f"Reading {data}")
        table = read_table(data, form)
        progress.stage("Comparing")
        found = comparison.compare(table, plan, progress.detail)
    if found.n_compared < found.n_rows:
        progress.say(
            f"Note: compared on {found.n_compared:,} of {found.n_rows:,} rows (see --sample)"
        )
    _print_json(found) if as_json else _print(found)


def _plan(choices: dict[str, Any]) -> ComparisonPlan:
    from easyfirst.baselines.methods import COMPARED
    from easyfirst.tables.comparison import ComparisonPlan

    methods = names((choices["methods"],)) if choices["methods"] is not None else ()
    unknown = [name for name in methods if name not in COMPARED]
    if unknown or (choices["methods"] is not None and not methods):
        raise click.BadParameter(
            f"unknown method: {', '.join(unknown) or 'none given'}; choose from "
            f"{', '.join(COMPARED)}",
            param_hint="--methods",
        )
    return ComparisonPlan(
        target=choices["target"],
        features=names(choices["features"]) or None,
        exclude=names(choices["exclude"]),
        share=choices["share"],
        trusted=choices["trusted"],
        methods=methods,
        folds=choices["folds"],
        sample=choices["sample"],
        seed=choices["seed"],
    )


def _print_json(found: Comparison) -> None:
    from easyfirst.tables.outputs import to_json

    scores = [
        {
            "method": score.name,
            "error": score.error,
            "spread": score.spread,
            "errors": score.errors,
            "seconds": score.seconds,
            "failure": score.failure,
        }
        for score in found.scores
    ]
    click.echo(
        to_json(
            {
                "yardstick": found.yardstick,
                "rows": found.n_rows,
                "compared": found.n_compared,
                "scores": scores,
            }
        )
    )


def _print(found: Comparison) -> None:
    from easyfirst.cli.printing import console, print_fact, print_table

    best = found.scores[0].error
    rows = [
        (
            score.label,
            "failed" if score.failure else score.error,
            None if score.failure else score.spread,
            None if score.failure or not best else f"{score.error / best:.2f}",
            f"{score.seconds:.2f}",
        )
        for score in found.scores
    ]
    title = found.yardstick[0].upper() + found.yardstick[1:]
    heads = ("method", "error", "± over folds", "times the best", "seconds")
    out = console()
    print_table(out, title, heads, rows, left=("method",))
    for score in found.scores:
        if score.failure:
            print_fact(out, f"{score.label} failed", score.failure)
