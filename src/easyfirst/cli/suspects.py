"""`easyfirst suspects`: the worst rows of a table, with reasons."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easyfirst.cli.failures import EXIT_CODES
from easyfirst.cli.options import (
    check_share,
    data_argument,
    fail_above_option,
    force_option,
    model_argument,
    output_option,
    reading_options,
    table_format,
)
from easyfirst.cli.results import TEXT

if TYPE_CHECKING:
    import pyarrow as pa

TOP = 20


@click.command(epilog=EXIT_CODES)
@model_argument
@data_argument
@click.option(
    "--top",
    type=click.IntRange(min=1),
    help=f"Number of rows, worst first [default: {TOP} as text, else all that look wrong].",
)
@output_option
@click.option(
    "--format",
    "kind",
    type=click.Choice([TEXT, "csv", "json", "parquet"]),
    help="[default: by the ending of --output, else text]",
)
@click.option("--values", is_flag=True, help="Add the columns of DATA.")
@fail_above_option
@force_option
@reading_options
def suspects(
    model: Path,
    data: str,
    top: int | None,
    output: Path | None,
    kind: str | None,
    values: bool,
    fail_above: float | None,
    force: bool,
    **reading: Any,
) -> None:
    """List the rows of DATA that look wrong to MODEL, the worst first, each with the reason.

    MODEL is a model file or the output of 'easyfirst fit'. DATA may be the table of the fit, or
    a new one with the same columns and the target.
    """
    from easyfirst.cli.models import load_table_model, read_for
    from easyfirst.cli.results import deliver, result_kind
    from easyfirst.tables.origins import Origins
    from easyfirst.tables.runs import with_values

    kind = result_kind(kind, output, force, default=TEXT)
    if kind == TEXT and output is not None:
        raise click.UsageError("--format text is for the screen: omit --output")
    fitted = load_table_model(model)
    form = table_format(**reading)
    table = read_for(fitted, data, form)
    origins = Origins.of(data, table, form.encoding, form.delimiter)
    judged = replace(fitted.judged(table), origins=origins)
    places, found = judged.suspects(TOP if top is None and kind == TEXT else top)
    if kind == TEXT:
        _print(found, table.num_rows, top, [pattern.words for pattern in judged.patterns])
    else:
        found = origins.beside(places, found)
        whole = with_values(found, table.take(places)) if values else found
        deliver(whole, kind, output, force)
    check_share(judged.wrong_places.size, judged.n_given, fail_above)


def _print(found: pa.Table, n_rows: int, top: int | None, patterns: list[str]) -> None:
    from easyfirst.cli.printing import console, print_fact, print_suspects

    records = found.to_pylist()
    if top is None:
        records = [record for record in records if record["is_label_issue"]]
    if not records:
        click.echo(f"None of the {n_rows:,} rows looks wrong.")
        return
    print_suspects(console(), records, f"The {len(records)} most suspicious of {n_rows:,} rows")
    for words in patterns:
        print_fact(console(), "pattern", words)
