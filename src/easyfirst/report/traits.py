"""Columns as the groups of rows they make: categories, or ranges of ordered values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Vector
from easyfirst.report.wording import number, visible

FEWEST_ROWS = 5  # of a group
MOST_CATEGORIES = 500  # of a column, the most frequent
RANGES = 10  # ranges of equally many rows that ordered values are cut into


@dataclass(frozen=True, eq=False)
class Trait:
    """One column as numbered groups, `codes` of which -1 is none.

    Where it is `ordered`, neighbouring groups together are groups too. `phrase` says in words
    what the rows of the groups from a first to a last one have in common.
    """

    name: str
    codes: NDArray[np.intp]
    n_codes: int
    ordered: bool
    phrase: Callable[[int, int], str]

    def bounds(self) -> NDArray[np.intp]:
        """Return first and last code of every group, shape (groups, 2)."""
        if not self.ordered:
            return np.repeat(np.arange(self.n_codes)[:, None], 2, axis=1)
        every = [
            (first, last)
            for first in range(self.n_codes)
            for last in range(first, self.n_codes)
            if last - first < self.n_codes - 1
        ]
        return np.asarray(every, dtype=np.intp).reshape(-1, 2)

    def counts(self, rows: NDArray[np.bool_]) -> Vector:
        """Return how many of some rows each of the groups of `bounds` has."""
        inside = self.codes[rows]
        total = np.append(0, np.cumsum(np.bincount(inside[inside >= 0], minlength=self.n_codes)))
        first, last = self.bounds().T
        return np.asarray(total[last + 1] - total[first], dtype=np.float64)

    def within(self, first: int, last: int) -> NDArray[np.bool_]:
        """Return which rows are in a group."""
        return np.asarray((self.codes >= first) & (self.codes <= last))


def categories(name: str, codes: NDArray[np.intp], levels: Sequence[Any]) -> Trait | None:
    """Return a column of categories; None if it makes no groups. A code of -1 is no category."""
    counts = np.bincount(codes[codes >= 0], minlength=len(levels))
    frequent = np.argsort(-counts, kind="stable")[:MOST_CATEGORIES]
    frequent = frequent[counts[frequent] >= FEWEST_ROWS]
    if len(frequent) < 1 or np.max(counts) == codes.size:
        return None
    renumbered = np.full(len(levels) + 1, -1, dtype=np.intp)  # the last is for -1
    renumbered[frequent] = np.arange(len(frequent))
    shown = [visible(levels[each]) for each in frequent]
    phrase = lambda first, last: f"{visible(name)} = {shown[first]}"  # noqa: E731
    return Trait(name, renumbered[codes], len(frequent), False, phrase)


def ranges(
    name: str,
    values: Vector,
    write: Callable[[float], str] = number,
    phrase: Callable[[str, str], str] | None = None,
    n_ranges: int = RANGES,
) -> Trait | None:
    """Return an ordered column, cut into ranges of about equally many rows; NaN is no value."""
    present = np.isfinite(values)
    if np.sum(present) < FEWEST_ROWS * n_ranges:
        return None
    inner = np.unique(np.quantile(values[present], np.linspace(0, 1, n_ranges + 1)[1:-1]))
    codes = np.full(values.size, -1, dtype=np.intp)
    codes[present] = np.searchsorted(inner, values[present], side="right")
    used, codes[present] = np.unique(codes[present], return_inverse=True)
    if used.size < 2:
        return None
    low = np.full(used.size, np.inf)
    high = np.full(used.size, -np.inf)
    np.minimum.at(low, codes[present], values[present])
    np.maximum.at(high, codes[present], values[present])

    def words(first: int, last: int) -> str:
        start, end = write(float(low[first])), write(float(high[last]))
        if phrase is not None:
            return phrase(start, end)
        return f"{visible(name)} " + (f"= {start}" if start == end else f"from {start} to {end}")

    return Trait(name, codes, int(used.size), True, words)


def each_of(found: Sequence[Trait | None]) -> Iterator[Trait]:
    """Yield the columns that make groups."""
    return (trait for trait in found if trait is not None)
