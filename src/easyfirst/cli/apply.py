"""`easyfirst apply`: the table as decisions leave it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easyfirst.cli.failures import EXIT_CODES
from easyfirst.cli.options import FILE, force_option, quiet_option, reading_options, table_format

if TYPE_CHECKING:
    from easyfirst.tables.deciding import Decided


@click.command(epilog=EXIT_CODES)
@click.argument("run", type=FILE)
@click.argument("data", required=False)
@click.option(
    "-o", "--output", type=FILE, required=True, help="File to write, for example fixed.csv."
)
@click.option(
    "--decisions", type=FILE, metavar="FILE", help="Decisions [default: RUN/decisions.csv]."
)
@click.option("--keep-wrong", is_flag=True, help="Keep rows that were marked as wrong.")
@quiet_option
@force_option
@reading_options
def apply(
    run: Path,
    data: str | None,
    output: Path,
    decisions: Path | None,
    keep_wrong: bool,
    quiet: bool,
    force: bool,
    **reading: Any,
) -> None:
    """Write the table of RUN with the fixes that were accepted and without the wrong rows.

    RUN is the output of 'easyfirst fit', with the decisions of 'easyfirst review'; DATA is its
    table if that has moved. From CSV to CSV, every other byte stays as it is.
    """
    import pyarrow as pa

    from easyfirst.cli.models import fitted_table, load_table_model, read_for
    from easyfirst.tables.applying import decided_csv, decided_table, is_csv
    from easyfirst.tables.decisions import DECISIONS_FILE, read_decisions
    from easyfirst.tables.outputs import format_of, new_file, require_free_file, write_plain

    require_free_file(output, force)
    kind = "csv" if is_csv(output.name) else format_of(output)
    model = load_table_model(run)
    data = data or fitted_table(run)
    form = table_format(**reading)
    path = decisions or run / DECISIONS_FILE
    made = read_decisions(path, of_labels=hasattr(model, "classes_"))
    table = read_for(model, data, form)
    decided = model.decided(table, path, made)
    with new_file(output, force) as partial:
        if kind == "csv" and is_csv(data):
            content = decided_csv(data, form, table, decided, keep_wrong)
            with pa.output_stream(str(partial), compression=_compression(output)) as file:
                file.write(content)
        else:
            write_plain(decided_table(table, decided, keep_wrong), kind, partial)
    if not quiet:
        _conclude(decided, output, keep_wrong)


def _compression(output: Path) -> str | None:
    from easyfirst.tables.csv_files import PACKED

    return PACKED.get(output.suffix.lower())


def _conclude(decided: Decided, output: Path, keep_wrong: bool) -> None:
    from easyfirst.report.wording import count

    for note in decided.notes()[1:]:
        click.echo(f"Note: {note}", err=True)
    fixed = count(len({edit.row for edit in decided.edits}), "row")
    wrong = count(len(decided.rejected), "wrong row")
    kept = decided.n_rows - (0 if keep_wrong else len(decided.rejected))
    what = "kept (--keep-wrong)" if keep_wrong else "left out"
    click.echo(f"Wrote {output}: {count(kept, 'row')}; {fixed} fixed, {wrong} {what}.", err=True)
