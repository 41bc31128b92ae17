"""Results as text for people, on standard output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from easyfirst.report.wording import LONGEST_NAME, number, percent, visible

PLAIN_WIDTH = 120  # where standard output is no terminal
MOST_COEFFICIENTS = 60
MOST_RATES = 12
MOST_CLASSES = 8  # with a column of coefficients
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


def print_label_noise(
    out: Console, classes: Sequence[str], noise: Sequence[Sequence[float]]
) -> None:
    """Print how often labels of one class are given as another, the most frequent first."""
    rates = [
        (rate, right, given)
        for right, line in zip(classes, noise, strict=True)
        for given, rate in zip(classes, line, strict=True)
        if given != right and rate > 0.0
    ]
    rates.sort(key=lambda each: -each[0])
    if rates:
        rows = [(right, given, percent(rate)) for rate, right, given in rates[:MOST_RATES]]
        heads = ("right label", "given as", "how often")
        print_table(out, "Wrong labels", heads, rows, left=heads[:2])


def print_suspects(out: Console, rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print suspicious rows with their reasons."""
    heads = ("row", "quality", "likely fix", "reason")
    records = [
        (row["row_id"], float(row["label_quality"]), _fix(row), row["reason"]) for row in rows
    ]
    print_table(out, title, heads, records, left=("row", "likely fix", "reason"))


def _fix(row: Mapping[str, Any]) -> str:
    """Return the likely fix with the value it gives."""
    fix, value = row["likely_fix"], row["fixed_value"]
    if fix is None or value is None or value != value or isinstance(value, str):
        return fix or ""
    return f"{fix}: {number(value)}"


def print_coefficients(out: Console, records: Sequence[Mapping[str, Any]]) -> None:
    """Print coefficients with standard errors and intervals, if there are any."""
    if not records:  # of a model that is not linear
        return
    if "class" in records[0]:
        records = _by_column(records)
    shown = records if len(records) <= MOST_COEFFICIENTS else records[: MOST_COEFFICIENTS - 1]
    heads: dict[Any, str] = {
        "name": "column",
        "coef": "coefficient",
        "std_err": "std. error",
        "t": "t",
    }
    heads |= {"lower": "95 % from", "upper": "to"}
    heads |= {key: key[1] for key in records[0] if isinstance(key, tuple)}
    keys = [key for key in heads if key in records[0]]
    rows = [[_short(record[key]) for key in keys] for record in shown]
    print_table(out, "Coefficients", [heads[key] for key in keys], rows, left=("column",))
    if len(shown) < len(records):
        out.print(f"  and {len(records) - len(shown):,} more in the summary file")


def _short(value: Any) -> Any:
    """Cut a long name in the middle: categories that are sentences often differ at their ends."""
    if not isinstance(value, str) or len(value) <= LONGEST_NAME:
        return value
    half = LONGEST_NAME // 2
    return f"{value[: half - 1]}…{value[-half:]}"


def _by_column(records: Sequence[Mapping[str, Any]]) -> list[dict[Any, Any]]:
    """Return coefficients of classes with one record per column of the table.

    Keys of the values are pairs, as a class may have any name.
    """
    found: dict[str, dict[Any, Any]] = {}
    for each in records:
        line = found.setdefault(each["name"], {"name": each["name"]})
        if len(line) <= MOST_CLASSES:
            line["class", each["class"]] = each["coef"]
    return list(found.values())
