"""Arrow columns as NumPy values: numbers with NaN for missing, categories as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easyfirst.contracts import Vector
from easyfirst.tables import dates, missing_codes
from easyfirst.tables.column_reading import Reading
from easyfirst.tables.errors import TableError
from easyfirst.tables.notation import MOSTLY, PLAIN
from easyfirst.tables.recipe import MISSING, Kind

AS_IT_IS = Reading()


@dataclass(frozen=True)
class TextsAmongNumbers:
    """Texts in a column of numbers: how many, and the first with its row, counted from 0."""

    count: int
    total: int
    first: str
    row: int

    @classmethod
    def of(cls, texts: pa.ChunkedArray, found: Vector, places: NDArray[np.intp]) -> Self | None:
        """Return which of the texts, of rows at these places, were not read; None if all were."""
        wrong = np.isnan(found)
        if not wrong.any():
            return None
        first = int(np.argmax(wrong))
        return cls(int(wrong.sum()), len(texts), str(texts[first].as_py()), int(places[first]))

    @property
    def is_rare(self) -> bool:
        """Whether so few values are no numbers that the others are what the column holds."""
        return self.count <= (1.0 - MOSTLY) * self.total

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


def numbers(column: pa.ChunkedArray, reading: Reading = AS_IT_IS) -> Vector:
    """Return a column as floats; missing, infinite and (in text) unreadable values are NaN."""
    found = given_numbers(column, reading)
    if reading.codes:
        found = np.where(np.isin(found, reading.codes), np.nan, found)
    return found


def given_numbers(column: pa.ChunkedArray, reading: Reading = AS_IT_IS) -> Vector:
    """Return a column as floats, with the numbers that mean a missing value as they are."""
    column = plain(column)
    kind = column.type
    if is_text(kind):
        return _from_text(column, reading)
    if pa.types.is_temporal(kind):
        return _days(column)
    if pa.types.is_null(kind) or pa.types.is_boolean(kind):
        column = column.cast(pa.int8()).cast(pa.float64())
    values = column.cast(pa.float64(), safe=False).to_numpy()
    if not np.all(np.isfinite(values)):
        values = np.where(np.isfinite(values), values, np.nan)
    if reading.date.startswith(dates.EPOCH) or reading.date == dates.YMD:
        return dates.from_numbers(values, reading.date)
    return np.asarray(values)


def infinite(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return where a column holds an infinite number, or says so in text."""
    column = plain(column)
    if pa.types.is_floating(column.type):
        return np.asarray(np.isinf(column.cast(pa.float64()).to_numpy()))
    if not is_text(column.type):
        return np.zeros(len(column), dtype=bool)
    lowered = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    said = pc.is_in(lowered, pa.array(sorted(missing_codes.INFINITE), lowered.type))
    return np.asarray(pc.fill_null(said, False).to_numpy(), dtype=bool)


def odd_values(
    column: pa.ChunkedArray, reading: Reading = AS_IT_IS, found: Vector | None = None
) -> TextsAmongNumbers | None:
    """Return what is neither readable nor a word for missing in a column of text, or None.

    `found` is the column read already.
    """
    column = plain(column)
    if not is_text(column.type):
        return None
    found = given_numbers(column, reading) if found is None else found
    places = np.flatnonzero(~missing_words(column, reading.words))
    if not np.isnan(found[places]).any():
        return None
    return TextsAmongNumbers.of(column.take(pa.array(places)), found[places], places)


def missing_words(column: pa.ChunkedArray, more: tuple[str, ...] = ()) -> NDArray[np.bool_]:
    """Return where a column of text holds nothing, or a word that says so."""
    said = pc.or_(column.is_null(), missing_codes.are_words(column))
    if more:
        said = pc.or_(said, pc.fill_null(pc.is_in(column, pa.array(more, column.type)), False))
    return np.asarray(said.to_numpy(), dtype=bool)


def require_numbers(
    name: str,
    column: pa.ChunkedArray,
    reading: Reading = AS_IT_IS,
    found: Vector | None = None,
) -> None:
    """Refuse a column of which too few values can be read as numbers."""
    column = plain(column)
    odd = odd_values(column, reading, found)
    if odd is not None and not odd.is_rare:
        written = f" as in the table of the fit ({reading.notation})"
        raise TableError(
            f"column {name!r} must hold numbers"
            + (written if reading.notation != PLAIN else "")
            + f", but {odd}"
        )
    if not (is_text(column.type) or pa.types.is_null(column.type) or kind_of(column.type)):
        raise TableError(f"column {name!r} must hold numbers, but its type is {column.type}")


def require_dates(
    name: str,
    column: pa.ChunkedArray,
    reading: Reading = AS_IT_IS,
    found: Vector | None = None,
) -> None:
    """Refuse text that cannot be read as the dates that the model was fitted to."""
    column = plain(column)
    odd = odd_values(column, reading, found)
    if is_text(column.type) and odd is not None and not odd.is_rare:
        form = f" written as {dates.shown(reading.date)}" if reading.date else ""
        raise TableError(
            f"column {name!r} held dates{form} when the model was fitted, and holds other text now "
            f"(such as {odd.first!r}); convert it first, in pandas with pandas.to_datetime"
        )
    if not is_text(column.type):
        require_numbers(name, column, reading)


def require_categories(name: str, column: pa.ChunkedArray, reading: Reading = AS_IT_IS) -> None:
    """Refuse a column whose values have no text."""
    del reading
    kind = plain(column).type
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise TableError(f"column {name!r} must hold categories, but its type is {kind}")


def as_numbers(found: Vector, kind: Kind) -> pa.ChunkedArray:
    """Return what was read from a column of text as a column of a type, to be read no more."""
    missing = np.isnan(found)
    if kind == "date":
        ticks = np.where(missing, 0.0, found) * (1e6 * dates.DAY_SECONDS)
        return pa.chunked_array([pa.array(np.rint(ticks).astype(np.int64), mask=missing)]).cast(
            pa.duration("us")
        )
    if kind == "boolean":
        return pa.chunked_array([pa.array(found == 1.0, mask=missing)])
    return pa.chunked_array([pa.array(found, from_pandas=True)])


def categories(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return a column as an array of texts, missing values as a category of their own."""
    texts = plain(column).cast(pa.string()).fill_null(MISSING)
    return np.asarray(texts.to_numpy(), dtype=object)


def _from_text(column: pa.ChunkedArray, reading: Reading) -> Vector:
    if reading.date.startswith(dates.EPOCH):
        return dates.from_numbers(PLAIN.parse(column), reading.date)
    if reading.date:
        return dates.parse(column, reading.date)
    if reading.truths:
        lowered = pc.utf8_lower(pc.utf8_trim_whitespace(column))
        true, false = (
            pc.fill_null(pc.is_in(lowered, pa.array(words, lowered.type)), False).to_numpy()
            for words in (reading.truths, reading.falsehoods)
        )
        return np.where(true, 1.0, np.where(false, 0.0, np.nan))
    return reading.notation.parse(column)


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
    return np.asarray(np.where(missing, np.nan, ticks / (per_second * dates.DAY_SECONDS)))
