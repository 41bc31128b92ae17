"""`easyfirst diff`: what changed between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from easyfirst.cli.failures import EXIT_CODES, TOO_WRONG
from easyfirst.cli.options import FILE

if TYPE_CHECKING:
    from easyfirst.tables.differences import Differences


@click.command(epilog=EXIT_CODES)
@click.argument("before", metavar="RUN1", type=FILE)
@click.argument("after", metavar="RUN2", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--exit-code", is_flag=True, help="Exit with code 6 if something changed.")
@click.pass_context
def diff(ctx: click.Context, before: Path, after: Path, as_json: bool, exit_code: bool) -> None:
    """Show whether the share of wrong rows, the bad batches or the model changed.

    RUN1 and RUN2 are outputs of 'easyfirst fit'. A number has changed if it moved by more than
    its uncertainty explains.
    """
    from easyfirst.tables.differences import compare_runs
    from easyfirst.tables.outputs import to_json

    found = compare_runs(before, after)
    if as_json:
        click.echo(to_json(found.to_data()))
    else:
        _print(found)
    if exit_code and found.changed:
        ctx.exit(TOO_WRONG)


def _print(found: Differences) -> None:
    from easyfirst.cli.printing import console, print_fact

    out = console()
    for each in found.found:
        print_fact(out, each.what, ("changed: " if each.changed else "unchanged: ") + each.words)
    for note in found.notes:
        print_fact(out, "note", note)
