"""The column to predict: its numbers, rows in which it cannot be right, and whether it makes sense.

A missing code or a word in the target is a wrong row of its own kind: nothing has to be fitted to
see that. Such rows are left out of the fit and listed with that reason.
"""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easyfirst.contracts import Vector
from easyfirst.report.wording import count
from easyfirst.tables import values
from easyfirst.tables.column_reading import Reading
from easyfirst.tables.errors import TableError, require_column
from easyfirst.tables.kinds import ColumnMeaning, Hints, codes_of, understand
from easyfirst.tables.notation import PLAIN, Notation, mixed_marks, mixed_units
from easyfirst.tables.totals import total_rows

MARKED_NUMBER = re.compile(r"[-+]?\d+([.,' \u00a0\u202f]\d+)+")
CLASSES = (
    "to fit classes, use 'easyfirst fit --task classification', in Python easyfirst.tables."
    "TableClassifier"
)
TOTAL = "the row looks like a total of others"
LEAST_DIFFERENT = 20  # values of a target before another column can be said to reproduce it
REPRODUCED = 0.9  # share of rows in which it must
EXACT = 1e-9  # difference, relative to the spread of the target,
CLOSE = 1e-3  # and one that a copy with some noise or rounding has
LEAKAGE_ROWS = 100_000  # that are looked at


class TargetWarning(UserWarning):
    """The target can be fitted, but that may not be what is wanted; the message says why."""


@dataclass(frozen=True, eq=False)
class Response:
    """The target of every row of a table.

    `y` is NaN where there is nothing to fit: the value is missing, or `is_wrong` beyond doubt,
    because it is a missing code, infinite or no number, or because the row sums up others, as in
    `is_total`. `given` is the number in the table.
    """

    y: Vector
    given: Vector
    is_wrong: NDArray[np.bool_]
    is_infinite: NDArray[np.bool_]
    column: Any
    is_total: NDArray[np.bool_] | None = None

    @property
    def n_missing(self) -> int:
        """How many rows have no target at all."""
        return int(np.sum(np.isnan(self.y) & ~self.is_wrong))

    def without_totals(self, is_total: NDArray[np.bool_]) -> Response:
        """Return the same, with some rows that sum up others."""
        is_total = is_total & ~np.isnan(self.y)
        if not is_total.any():
            return self
        y, wrong = np.where(is_total, np.nan, self.y), self.is_wrong | is_total
        return replace(self, y=y, is_wrong=wrong, is_total=is_total)

    def notes(self) -> list[str]:
        """Say which rows are no data."""
        if self.is_total is None:
            return []
        n, first = int(self.is_total.sum()), int(np.argmax(self.is_total))
        one = f"row {first:,} looks like a total of others"
        several = f"{n:,} rows look like totals of others, the first is row {first:,}"
        return [f"{one if n == 1 else several}: not fitted, and listed as wrong"]

    def reason(self, row: int) -> str:
        """Return why the target of a row is wrong."""
        if self.is_total is not None and self.is_total[row]:
            return TOTAL
        if self.is_infinite[row]:
            return "the target is infinite"
        if np.isnan(self.given[row]):
            return f"{str(self.column[row].as_py())!r} is not a number"
        return f"the target {self.given[row]:.15g} looks like a missing code"


def read_target(
    table: pa.Table, target: str, hints: Hints, places: NDArray[np.intp] | None = None
) -> tuple[Reading, list[str]]:
    """Decide how the target is read, and return what to say about that.

    `places` are those of the rows in the whole table, if these are not all.
    """
    require_column(table, target, "target")
    column = values.plain(table[target])
    if column.null_count == len(column):
        return Reading(), []
    found = ColumnMeaning("number")
    if values.is_text(column.type):
        found = understand(target, column, hints, places, digits_are_numbers=True)
        if found.kind != "number":
            raise TableError(_refusal(target, column, found, hints.marks))
    elif values.kind_of(column.type) != "number":
        raise TableError(_refusal(target, column))
    given = found.read(column)
    codes = codes_of(given, "number", hints)
    notes = list(found.notes)
    if codes.said:
        notes.append(codes_note(target, codes.said))
    return replace(found.reading, codes=codes.codes), notes


def codes_note(target: str, said: str) -> str:
    """Say that numbers in the target mean a missing value."""
    return (
        f"target {target!r}: {said} taken as a missing code, equal values far from all others; "
        f"these rows are not fitted, and listed as wrong"
    )


def response(table: pa.Table, target: str, reading: Reading) -> Response:
    """Return the target of every row, read as decided."""
    require_column(table, target, "target")
    column = values.plain(table[target])
    if not _can_be_target(column.type):
        raise TableError(_refusal(target, column))
    given = values.given_numbers(column, reading)
    odd = values.odd_values(column, reading, given)
    if odd is not None:
        require_rare(odd, target)
    found = response_of(column, given, reading)
    return found.without_totals(total_rows(table, target, found.y))


def require_rare(odd: values.TextsAmongNumbers, target: str) -> None:
    """Refuse a target of which too many values are no numbers."""
    if not odd.is_rare:
        raise TableError(f"the target {target!r} must hold numbers, but {odd}; {_remedy(odd)}")


def response_of(column: pa.ChunkedArray, given: Vector, reading: Reading) -> Response:
    """Return the target of every row from what stands in the column, however odd that is."""
    y = np.where(np.isin(given, reading.codes), np.nan, given) if reading.codes else given
    is_wrong = np.isnan(y) & ~np.isnan(given)
    if values.is_text(column.type):
        is_wrong |= np.isnan(given) & ~values.missing_words(column)
    is_infinite = values.infinite(column)
    return Response(y, given, is_wrong | is_infinite, is_infinite, column)


def require_sense(y: Vector, target: str, n_rows: int | None = None) -> None:
    """Refuse a target that nothing can be learnt about, and warn of one with two values.

    `y` may be its different values alone, of `n_rows` rows.
    """
    n_rows = y.size if n_rows is None else n_rows
    if np.all(y == y[0]):
        raise TableError(
            f"the target {target!r} has the value {y[0]:.15g} in all {count(n_rows, 'row')}: "
            f"there is nothing to predict; choose another column with --target"
        )
    others = y[y != y[0]]
    if np.all(others == others[0]):
        low, high = sorted((float(y[0]), float(others[0])))
        warnings.warn(
            f"The target {target!r} has only two values, {low:.15g} and {high:.15g}. A regression "
            f"predicts numbers between them; {CLASSES}.",
            TargetWarning,
            stacklevel=3,
        )


def warn_of_leakage(columns: Iterable[tuple[str, Vector]], y: Vector, target: str) -> None:
    """Warn of columns that give the target away: a copy, or the same in another unit."""
    step = y.size // LEAKAGE_ROWS + 1
    y = y[::step]
    if np.unique(y[: 10 * LEAST_DIFFERENT]).size < LEAST_DIFFERENT:
        return
    found = [(name, column[::step]) for name, column in columns]
    for name, column in found:
        share, how = _reproduced(column, y, EXACT), "exactly"
        # Where it is the only column, a close relation is what one hopes for.
        if share < REPRODUCED and len(found) > 1:
            share, how = _reproduced(column, y, CLOSE), f"to {100 * CLOSE:g} % of its range"
        if share >= REPRODUCED:
            where = "" if share == 1.0 else f" in {100 * share:.3g} % of the rows"
            warnings.warn(
                f"{name!r} reproduces {target!r} {how}{where}: leakage? If it is not known when "
                f"you predict, leave it out with --exclude {shlex.quote(name)}.",
                TargetWarning,
                stacklevel=3,
            )


def _reproduced(x: Vector, y: Vector, tolerance: float) -> float:
    """Return the share of rows in which y is the same linear function of x, or nearly so."""
    present = ~np.isnan(x)
    x, y = x[present], y[present]
    if x.size < LEAST_DIFFERENT or np.all(x == x[0]):
        return 0.0
    # Lines through pairs of rows; if most rows lie on one line, so do most pairs.
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, x.size, (2, 200))
    apart = x[first] != x[second]
    first, second = first[apart], second[apart]
    if first.size < LEAST_DIFFERENT:
        return 0.0
    slope = float(np.median((y[second] - y[first]) / (x[second] - x[first])))
    offset = float(np.median(y - slope * x))
    low, high = np.percentile(y, (5.0, 95.0))
    off = max(tolerance * float(high - low), EXACT * abs(offset), 1e-300)
    on_line = np.abs(y - slope * x - offset) <= off
    enough = slope != 0.0 and np.unique(y[on_line][: 50 * LEAST_DIFFERENT]).size >= LEAST_DIFFERENT
    return float(np.mean(on_line)) if enough else 0.0


def _can_be_target(kind: pa.DataType) -> bool:
    known = values.is_text(kind) or pa.types.is_null(kind)
    return known or values.kind_of(kind) == "number"


def _refusal(
    target: str,
    column: pa.ChunkedArray,
    found: ColumnMeaning | None = None,
    marks: Notation = PLAIN,
) -> str:
    """Say why a column is no target."""
    if found is None:
        hint = f" ({CLASSES})" if pa.types.is_boolean(column.type) else ""
        return (
            f"the target {target!r} must hold numbers, but its type is {column.type}{hint}; "
            f"choose another column with --target"
        )
    if found.kind == "boolean":
        words = ", ".join(map(repr, (*found.reading.truths, *found.reading.falsehoods)))
        return f"the target {target!r} must hold numbers, but it holds the words {words}; {CLASSES}"
    if found.kind == "date":
        return (
            f"the target {target!r} must hold numbers, but it holds dates such as "
            f"{str(column.drop_null()[0])!r}; choose another column with --target"
        )
    units = mixed_units(column.drop_null())
    if units:
        listed = ", ".join(map(repr, units))
        return f"the target {target!r} mixes the units {listed}; convert all values to one of them"
    ways = mixed_marks(column.drop_null())
    if ways:
        return (
            f"the target {target!r} writes numbers in two ways, {' and '.join(map(repr, ways))}; "
            f"write all values in one of them"
        )
    odd = values.odd_values(column, Reading(marks))
    assert odd is not None
    n_texts = len(pc.unique(column))
    names = n_texts > 0.5 * odd.total and odd.count > 0.5 * odd.total
    if names and not MARKED_NUMBER.fullmatch(odd.first):
        return (
            f"the target {target!r} holds {n_texts:,} different texts, which are names rather than "
            f"numbers or classes; choose another column with --target"
        )
    return f"the target {target!r} must hold numbers, but {odd}; {_remedy(odd)}"


def _remedy(odd: values.TextsAmongNumbers) -> str:
    """Return what to do about texts in the target, judging by how the first one looks."""
    if MARKED_NUMBER.fullmatch(odd.first):
        return "say how numbers are written with --decimal and --thousands"
    if odd.count > 0.5 * odd.total:
        return f"choose another column with --target, or, {CLASSES}"
    meant = shlex.quote(odd.first)
    return f"fix the column, or say that such texts mean a missing value (--na {meant})"
