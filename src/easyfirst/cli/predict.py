"""`easyfirst predict`: predictions for the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easyfirst.cli.failures import EXIT_CODES
from easyfirst.cli.options import (
    data_argument,
    force_option,
    format_option,
    model_argument,
    output_option,
    quiet_option,
    reading_options,
    table_format,
)

if TYPE_CHECKING:
    import pyarrow as pa


@click.command(epilog=EXIT_CODES)
@model_argument
@data_argument
@output_option
@format_option
@click.option(
    "--interval",
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    metavar="COVERAGE",
    help="Add prediction intervals for clean rows with this coverage, for example 0.9.",
)
@click.option(
    "--row-id", metavar="NAME", help="Column that identifies the rows [default: the fit's]."
)
@quiet_option
@force_option
@reading_options
def predict(
    model: Path,
    data: str,
    output: Path | None,
    kind: str | None,
    interval: float | None,
    row_id: str | None,
    quiet: bool,
    force: bool,
    **reading: Any,
) -> None:
    """Predict every row of DATA with MODEL, a model file or the output of 'easyfirst fit'.

    DATA is a raw table with the columns of the fit; the target may be absent.
    """
    from easyfirst.cli.models import load_table_model, read_for
    from easyfirst.cli.results import deliver, result_kind

    kind = result_kind(kind, output, force)
    fitted = load_table_model(model)
    table = read_for(fitted, data, table_format(**reading))
    deliver(_predicted(fitted, table, interval, row_id), kind, output, force, quiet)
    if not quiet:
        _warn_unseen(fitted, table)


def _predicted(model: Any, table: pa.Table, interval: float | None, row_id: str | None) -> pa.Table:
    import pyarrow as pa

    from easyfirst.tables.base import row_names

    columns: dict[str, Any] = {
        "row_id": row_names(table, row_id or model.row_id, required=row_id is not None),
        "prediction": model.predict(table),
    }
    if hasattr(model, "classes_"):
        if interval is not None:
            raise click.UsageError(
                "--interval is for models of numbers, and this one predicts classes: omit it; the "
                "column 'probability' says how sure each prediction is"
            )
        chances = model.predict_proba(table)
        columns["probability"] = chances.max(axis=1) if len(chances) else []
    if interval is not None:
        bounds = model.predict_interval(table, interval)
        columns |= {"lower": bounds[:, 0], "upper": bounds[:, 1]}
    return pa.table(columns)


def _warn_unseen(model: Any, table: pa.Table) -> None:
    from easyfirst.report.wording import count

    for name, unseen in model.unseen(table).items():
        click.echo(
            f"Note: column {name!r}: {count(unseen, 'row')} with a category that the fit "
            f"has no coefficient for; taken as rare, or as the one that others are compared with",
            err=True,
        )
