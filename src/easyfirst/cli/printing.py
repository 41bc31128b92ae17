"""Results as text for people, on standard output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from easyfirst.report.wording import number, visible

PLAIN_WIDTH = 120  # where standard output is no terminal
MOST_COEFFICIENTS = 60
LONGEST = 1000  # characters of one value


def console() -> Console:
    """Return standard output: as wide as the terminal, or wide enough for whole sentences."""
    found = Console()
    return found if found.is_terminal else Console(width=PLAIN_WIDTH)


def print_table(
    out: Console,
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    left: Iterable[str] = (),
) -> None:
    """Print a table; columns named in `left` hold text, the others numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for name in columns:
        text = name in left
        table.add_column(name, justify="left" if text else "right", overflow="fold")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    out.print(table, highlight=False, markup=False)


def cell(value: Any) -> Any:
    """Return a value as text in which nothing is markup."""
    if isinstance(value, float):
        return Text(number(value))
    return Text("" if value is None else visible(value, LONGEST))


def print_fact(out: Console, name: str, value: str) -> None:
    """Print a line with a name and what it is."""
    text = f"{visible(name, LONGEST) + ': ':<27}{visible(value, LONGEST)}"
    out.print(text, highlight=False, markup=False, soft_wrap=True)


def print_suspects(out: Console, rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print suspicious rows with their reasons."""
    print_table(
        out,
        title,
        ("row", "weight", "reason"),
        [(row["row_id"], float(row["weight"]), row["reason"]) for row in rows],
        left=("row", "reason"),
    )


def print_coefficients(out: Console, records: Sequence[Mapping[str, Any]]) -> None:
    """Print coefficients with standard errors and intervals, if there are any."""
    shown = records if len(records) <= MOST_COEFFICIENTS else records[: MOST_COEFFICIENTS - 1]
    heads = {"name": "column", "coef": "coefficient", "std_err": "std. error", "t": "t"}
    heads |= {"lower": "95 % from", "upper": "to"}
    keys = [key for key in heads if key in records[0]]
    rows = [[record[key] for key in keys] for record in shown]
    print_table(out, "Coefficients", [heads[key] for key in keys], rows, left=("column",))
    if len(shown) < len(records):
        out.print(f"  and {len(records) - len(shown):,} more in the summary file")
