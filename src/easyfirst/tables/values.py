"""Arrow columns as NumPy values: numbers with NaN for missing, categories as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easyfirst.contracts import Vector
from easyfirst.tables.errors import TableError
from easyfirst.tables.recipe import MISSING, Kind

NUMBER = r"^[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?$"
MOSTLY = 0.95  # share of numbers above which other texts in a column are taken as missing
DAY_SECONDS = 86_400.0


@dataclass(frozen=True)
class Odd:
    """Texts in a column of numbers: how many, and the first with its row, counted from 0."""

    count: int
    total: int
    first: str
    row: int

    def __str__(self) -> str:
        """Return them as a part of a sentence."""
        return (
            f"{self.count:,} of {self.total:,} values are not numbers, the first {self.first!r} "
            f"in row {self.row:,}"
        )


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without dictionary encoding, and text in the type that all functions take."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.string()) if str(column.type) == "string_view" else column


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def kind_of(kind: pa.DataType) -> Kind | None:
    """Return what a column of this type is, if the type alone can tell."""
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return "date"
    return None


def numbers(column: pa.ChunkedArray) -> Vector:
    """Return a column as floats; missing, infinite and (in text) unreadable values are NaN."""
    column = plain(column)
    kind = column.type
    if is_text(kind):
        column = _parsed(column)
    elif pa.types.is_null(kind) or pa.types.is_boolean(kind):
        column = column.cast(pa.int8()).cast(pa.float64())
    elif pa.types.is_temporal(kind):
        return _days(column)
    values = column.cast(pa.float64(), safe=False).to_numpy()
    if not np.all(np.isfinite(values)):
        values = np.where(np.isfinite(values), values, np.nan)
    return np.asarray(values)


def odd_values(column: pa.ChunkedArray) -> Odd | None:
    """Return what is not a number in a column of text, or None."""
    if not is_text(column.type):
        return None
    wrong = pc.and_(pc.is_valid(column), pc.invert(_reads_as_number(column)))
    wrong = np.asarray(wrong.to_numpy(), dtype=bool)
    if not wrong.any():
        return None
    row = int(np.argmax(wrong))
    total = len(column) - column.null_count
    return Odd(int(wrong.sum()), total, str(column[row].as_py()), row)


def require_numbers(name: str, column: pa.ChunkedArray) -> None:
    """Refuse a column of which too few values can be read as numbers."""
    column = plain(column)
    odd = odd_values(column)
    if odd is not None and odd.count > (1.0 - MOSTLY) * odd.total:
        raise TableError(f"column {name!r} must hold numbers, but {odd}")
    if not (is_text(column.type) or pa.types.is_null(column.type) or kind_of(column.type)):
        raise TableError(f"column {name!r} must hold numbers, but its type is {column.type}")


def require_dates(name: str, column: pa.ChunkedArray) -> None:
    """Refuse text where the model was fitted to dates: read as a number it means another day."""
    if is_text(plain(column).type):
        first = next((value for value in column.drop_null().to_pylist()), None)
        raise TableError(
            f"column {name!r} held dates when the model was fitted, and holds text now (such as "
            f"{first!r}); convert it first, in pandas with pandas.to_datetime"
        )
    require_numbers(name, column)


def require_categories(name: str, column: pa.ChunkedArray) -> None:
    """Refuse a column whose values have no text."""
    kind = plain(column).type
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise TableError(f"column {name!r} must hold categories, but its type is {kind}")


def categories(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return a column as an array of texts, missing values as a category of their own."""
    texts = plain(column).cast(pa.string()).fill_null(MISSING)
    return np.asarray(texts.to_numpy(), dtype=object)


def _reads_as_number(column: pa.ChunkedArray) -> pa.ChunkedArray:
    trimmed = pc.utf8_trim_whitespace(column)
    return pc.fill_null(pc.match_substring_regex(trimmed, NUMBER), False)


def _parsed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    trimmed = pc.utf8_trim_whitespace(column)
    readable = pc.if_else(_reads_as_number(column), trimmed, pa.scalar(None, trimmed.type))
    return pc.replace_substring_regex(readable, r"^\+", "").cast(pa.float64())


def _days(column: pa.ChunkedArray) -> Vector:
    """Return dates and times as days since 1970, times of day and durations as days."""
    kind = column.type
    if pa.types.is_date(kind):
        column = column.cast(pa.timestamp("s"))
    unit = column.type.unit
    per_second = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit]
    if pa.types.is_time32(column.type):
        column = column.cast(pa.int32())
    missing = np.asarray(column.is_null().to_numpy(), dtype=bool)
    ticks = column.cast(pa.int64()).fill_null(0).to_numpy()
    return np.asarray(np.where(missing, np.nan, ticks / (per_second * DAY_SECONDS)))
