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

data_argument = click.argument("data", type=FILE)
model_argument = click.argument("model", type=FILE)
force_option = click.option("--force", is_flag=True, help="Replace outputs that exist.")
output_option = click.option(
    "-o", "--output", type=FILE, help="File to write [default: standard output]."
)
format_option = click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "json", "parquet"]),
    help="[default: by the ending of --output, else csv]",
)
quiet_option = click.option("-q", "--quiet", is_flag=True, help="No progress and no messages.")


def reading_options(command: Decorated) -> Decorated:
    """Add the options that say how a CSV file is written."""
    for option in (
        click.option("--delimiter", help="Between two values [default: , ; tab or |]."),
        click.option(
            "--decimal", default=".", show_default=True, help="The decimal mark of numbers."
        ),
        click.option("--encoding", default="utf-8", show_default=True, help="Of the text."),
        click.option(
            "--na",
            multiple=True,
            metavar="TEXT",
            help="A text that means a missing value, besides NA, NaN, null ...; can be repeated.",
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
    delimiter: str | None, decimal: str, encoding: str, na: tuple[str, ...]
) -> TableFormat:
    """Return the format that the reading options describe."""
    from easyfirst.tables import TableFormat

    delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter or "", delimiter)
    for name, value in (("--delimiter", delimiter), ("--decimal", decimal)):
        if value is not None and len(value) != 1:
            raise click.BadParameter(f"must be one character, got {value!r}", param_hint=name)
    if delimiter == decimal:
        raise click.UsageError(f"--delimiter and --decimal are both {decimal!r}")
    return TableFormat(delimiter, decimal, encoding, na)


def names(given: tuple[str, ...]) -> tuple[str, ...]:
    """Split lists of names at their commas; a name with a comma stands in double quotes.

    Examples
    --------
    >>> names(("area, rooms", '"price, net"'))
    ('area', 'rooms', 'price, net')
    """
    rows = csv.reader(given, skipinitialspace=True)
    return tuple(name.strip() for row in rows for name in row if name.strip())
