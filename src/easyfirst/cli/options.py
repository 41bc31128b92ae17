"""Arguments and options that several commands share."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from easyfirst.tables import TableFormat

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class NamedPath(click.Path):
    """A path, but not an empty text: that would stand for the folder one happens to be in."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Refuse the empty text, as an unset shell variable gives it."""
        if value == "":
            self.fail("the path is empty; give a name, or . for this folder", param, ctx)
        return super().convert(value, param, ctx)


FILE = NamedPath(path_type=Path)


class Share(click.types.FloatParamType):
    """A share of rows: 5%, 5 % or 0.05."""

    name = "share"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the share as a number from 0 to 1."""
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
        except ValueError:
            share = -1.0
        if not 0.0 <= share <= 1.0:
            self.fail(f"{value!r} is not a share between 0% and 100%; write 5% or 0.05", param, ctx)
        return share


class Size(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """An amount of memory: 2GB, 512MiB."""

    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the size in bytes."""
        from easyfirst.engines.memory import as_bytes

        try:
            return as_bytes("the size", value)
        except ValueError:
            self.fail(f"{value!r} is not a size; write 2GB or 512MiB", param, ctx)


fail_above_option = click.option(
    "--fail-above",
    type=Share(),
    metavar="SHARE",
    help="Exit with code 6 if a larger share of the rows looks wrong, for example 5%.",
)

# Not a Path, which would make s3:/bucket of s3://bucket.
data_argument = click.argument("data", type=NamedPath())
model_argument = click.argument("model", type=FILE)
force_option = click.option("--force", is_flag=True, help="Overwrite existing outputs.")
output_option = click.option(
    "-o", "--output", type=FILE, help="File to write [default: standard output]."
)
format_option = click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "json", "parquet"]),
    help="[default: by the ending of --output, else csv]",
)
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Show no progress and no messages.")


def reading_options(command: Decorated) -> Decorated:
    """Add the options that say how a table is written."""
    for option in (
        click.option("--sql", metavar="QUERY", help="Read the result of a database query."),
        click.option(
            "--table", metavar="NAME", help="Table of a database, or sheet of a workbook."
        ),
        click.option("--delimiter", help="CSV delimiter [default: the likeliest of , ; tab |]."),
        click.option(
            "--thousands",
            metavar="MARK",
            help="Thousands separator: , . ' _ or space [default: inferred from the values].",
        ),
        click.option(
            "--decimal",
            metavar="MARK",
            help="Decimal mark: . or , [default: inferred from the values].",
        ),
        click.option(
            "--encoding",
            metavar="NAME",
            help="Text encoding, such as latin-1 [default: inferred from the file].",
        ),
        click.option(
            "--na",
            multiple=True,
            metavar="TEXT",
            help="Text that stands for a missing value, besides NA, NaN, null ...; may be "
            "repeated.",
        ),
    ):
        command = option(command)
    return command


def feature_options(command: Decorated) -> Decorated:
    """Add the options that choose columns."""
    for option in (
        click.option(
            "--features",
            multiple=True,
            metavar="NAMES",
            help="Columns to predict from, separated by commas [default: all that can be used].",
        ),
        click.option(
            "--exclude",
            multiple=True,
            metavar="NAMES",
            help="Columns to leave out, separated by commas.",
        ),
        click.option("-t", "--target", required=True, help="The column to predict."),
    ):
        command = option(command)
    return command


def table_format(
    delimiter: str | None,
    decimal: str | None,
    thousands: str | None,
    encoding: str | None,
    na: tuple[str, ...],
    table: str | None,
    sql: str | None,
) -> TableFormat:
    """Return the format that the reading options describe."""
    from easyfirst.tables import TableFormat
    from easyfirst.tables.notation import DECIMALS, THOUSANDS

    delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter or "", delimiter)
    thousands = {"space": " ", "none": ""}.get(thousands or "-", thousands)
    if delimiter is not None and len(delimiter) != 1:
        raise click.BadParameter(
            f"must be one character, got {delimiter!r}", param_hint="--delimiter"
        )
    _require_mark("--decimal", decimal, DECIMALS)
    _require_mark("--thousands", thousands, ("", *THOUSANDS))
    if decimal is not None and decimal in (delimiter, thousands):
        other = "--delimiter" if decimal == delimiter else "--thousands"
        raise click.UsageError(f"{other} and --decimal are both {decimal!r}")
    if table is not None and sql is not None:
        raise click.UsageError("--table and --sql both say what to read: give one of them")
    return TableFormat(delimiter, decimal, encoding, na, thousands, table, sql)


def _require_mark(option: str, mark: str | None, allowed: tuple[str, ...]) -> None:
    if mark is not None and mark not in allowed:
        marks = [repr(each) for each in allowed if each.strip()]
        *known, last = [*marks, *(["space", "none"] if " " in allowed else [])]
        said = f"must be {', '.join(known)} or {last}, got {mark!r}"
        raise click.BadParameter(said, param_hint=option)


def reading_choices(choices: dict[str, Any]) -> TableFormat:
    """Take the reading options out of all choices of a command, and return the format."""
    known = ("delimiter", "decimal", "thousands", "encoding", "na", "table", "sql")
    return table_format(**{name: choices.pop(name) for name in known})


def check_share(wrong: int, judged: int, most: float | None) -> None:
    """Fail if more rows look wrong than the user allows."""
    from easyfirst.cli.failures import TooManyWrongRows
    from easyfirst.report.wording import percent

    if most is not None and judged and wrong / judged > most:
        raise TooManyWrongRows(
            f"{wrong:,} of {judged:,} rows look wrong ({percent(wrong / judged)}), more than the "
            f"{percent(most)} that --fail-above allows"
        )


def names(given: tuple[str, ...]) -> tuple[str, ...]:
    """Split lists of names at their commas; a name with a comma stands in double quotes.

    Examples
    --------
    >>> names(("area, rooms", '"price, net"'))
    ('area', 'rooms', 'price, net')
    """
    rows = csv.reader(given, skipinitialspace=True)
    return tuple(name.strip() for row in rows for name in row if name.strip())
