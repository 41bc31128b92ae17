"""`easyfirst review`: a page on this machine to decide which suspicious rows are really wrong."""

from __future__ import annotations

import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easyfirst.cli.failures import EXIT_CODES
from easyfirst.cli.options import FILE, quiet_option, reading_options, table_format

if TYPE_CHECKING:
    from easyfirst.review.session import ReviewSession


@click.command(epilog=EXIT_CODES)
@click.argument("run", type=FILE)
@click.argument("data", required=False)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port to listen on [default: any free one].",
)
@click.option(
    "--idle",
    type=click.FloatRange(min=0.0),
    default=60.0,
    show_default=True,
    metavar="MINUTES",
    help="Stop after this long without activity; 0: never.",
)
@click.option("--open", "open_browser", is_flag=True, help="Open the page in your browser.")
@quiet_option
@reading_options
def review(
    run: Path,
    data: str | None,
    port: int,
    idle: float,
    open_browser: bool,
    quiet: bool,
    **reading: Any,
) -> None:
    """Review the suspicious rows of RUN in the browser: wrong, right, or to be fixed.

    RUN is the output of 'easyfirst fit', DATA its table if that has moved. The page is served
    on this machine alone, at the address that is printed. Every decision is saved at once in
    RUN/decisions.csv, for 'easyfirst fit --decisions' and 'easyfirst apply'.
    """
    from easyfirst.cli.models import fitted_table, load_table_model, read_for
    from easyfirst.review.app import Review
    from easyfirst.review.neighbours import Neighbours
    from easyfirst.review.rows import SuspectRows
    from easyfirst.review.serving import LoopbackServer
    from easyfirst.review.session import ReviewSession
    from easyfirst.tables.decisions import DECISIONS_FILE, DecisionLog

    model = load_table_model(run)
    data = data or fitted_table(run)
    table = read_for(model, data, table_format(**reading))
    places, found = model.suspects_with_places(table)
    rows = SuspectRows(found, places, table, model.target)
    if not len(rows):
        click.echo(f"None of the {table.num_rows:,} rows looks wrong: nothing to review.")
        return
    path = run / DECISIONS_FILE
    server = LoopbackServer(port, 60.0 * idle or None)
    details = {"file": Path(data).name, "target": model.target, "decisions": str(path)}
    with DecisionLog(path) as log:
        session = ReviewSession(rows, log)
        page = Review(session, Neighbours(model, rows), details, server.end)
        with suppress(KeyboardInterrupt):  # the usual way to end it
            server.run(page.application(), lambda url: _announce(url, session, path, open_browser))
    if not quiet:
        _conclude(session, data, path)


def _announce(url: str, session: ReviewSession, path: Path, open_browser: bool) -> None:
    click.echo(f"{len(session.rows):,} rows to review at\n\n    {url}\n")
    click.echo(f"Decisions are saved in {path} as you make them. Ctrl-C ends the review.", err=True)
    if open_browser and not webbrowser.open(url):
        click.echo("No browser could be opened; use the address above.", err=True)


def _conclude(session: ReviewSession, data: str, path: Path) -> None:
    counts = session.counts()
    click.echo(
        f"{counts['all'] - counts['open']:,} of {counts['all']:,} rows decided: "
        f"{counts['wrong']:,} wrong, {counts['right']:,} right, {counts['fix']:,} to be fixed."
    )
    if counts["all"] > counts["open"]:
        click.echo(f"Next: easyfirst fit {data} --decisions {path} ...", err=True)
