"""Summaries of columns that take bounded memory however many rows there are.

They are exact as long as a column has no more different values than they have room for; beyond
that, frequent values and counts stay exact or nearly so, and quantiles have a small error in rank.
All of them are deterministic: the same pieces in the same order give the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Vector
from easyfirst.tables.filling import OUTERMOST, Sides, sides_of

MOST_LEVELS = 50_000  # different texts of a column that are counted at a time
MOST_HASHES = 16_384  # different values by which a column's share of different ones is known


class NumberSketch:
    """Numbers with their counts: minimum, maximum, median, and how far they lie from a value."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._values, self._counts = np.empty(0), np.empty(0, dtype=np.int64)
        self._waiting: list[Vector] = []
        self._n_waiting = 0
        self.n = 0
        self.low, self.high = np.inf, -np.inf
        self.is_exact = True

    def add(self, numbers: Vector) -> None:
        """Take in numbers, none of which is NaN."""
        if not numbers.size:
            return
        self.n += numbers.size
        self.low = min(self.low, float(numbers.min()))
        self.high = max(self.high, float(numbers.max()))
        self._waiting.append(np.array(numbers))
        self._n_waiting += numbers.size
        if self._n_waiting > self._room:
            self._settle()

    def median(self) -> float:
        """Return the median; the mean of the two middle ones where there is no single one."""
        self._settle()
        middle = self._ranked(np.array([(self.n - 1) // 2, self.n // 2]))
        return float(np.mean(middle))

    def spread_around(self, fill: float) -> Sides:
        """Return how far the numbers lie from what stands for a missing one, the outermost cut."""
        if not self.n:
            return 0.0, 0.0
        self._settle()
        low, high = self._quantile(OUTERMOST), self._quantile(1.0 - OUTERMOST)
        return sides_of(np.clip(self._values, low, high) - fill, self._counts.astype(np.float64))

    def _quantile(self, share: float) -> float:
        place = share * (self.n - 1)
        below = int(place)
        first, second = self._ranked(np.array([below, min(below + 1, self.n - 1)]))
        return float(first + (second - first) * (place - below))

    def _ranked(self, ranks: NDArray[np.intp]) -> Vector:
        """Return the numbers at places of the sorted column."""
        ends = np.cumsum(self._counts)
        return np.asarray(self._values[np.searchsorted(ends, ranks, side="right")])

    def _settle(self) -> None:
        """Sort what is waiting into the rest, and join neighbours where there is no room."""
        if not self._waiting:
            return
        new, counts = np.unique(np.concatenate(self._waiting), return_counts=True)
        values = np.concatenate([self._values, new])
        weights = np.concatenate([self._counts, counts])
        self._waiting, self._n_waiting = [], 0
        order = np.argsort(values, kind="stable")
        values, weights = values[order], weights[order]
        first = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
        values, weights = values[first], np.add.reduceat(weights, first)
        if values.size > self._room:
            values, weights = self._joined(values, weights)
        self._values, self._counts = values, weights

    def _joined(
        self, values: Vector, weights: NDArray[np.int64]
    ) -> tuple[Vector, NDArray[np.int64]]:
        """Let one number stand for neighbours that together are few; frequent ones stay alone."""
        self.is_exact = False
        step = 2.0 * weights.sum() / self._room
        ends = np.cumsum(weights)
        group = np.floor((ends - 0.5 * weights) / step)
        starts = np.append(True, group[1:] != group[:-1])
        frequent = np.flatnonzero(weights > step)
        starts[frequent] = True
        starts[frequent[frequent + 1 < values.size] + 1] = True
        first = np.flatnonzero(starts)
        totals = np.add.reduceat(weights, first)
        # The number in the middle of each group, by weight.
        before = np.append(0, np.cumsum(totals)[:-1])
        middle = np.searchsorted(ends, before + 0.5 * totals, side="left")
        return values[middle], totals


class LevelSketch:
    """Texts with their counts; where they are too many, rare ones are forgotten."""

    def __init__(self, room: int = MOST_LEVELS) -> None:
        self._room = room
        self.counts: dict[str, int] = {}
        self.n_forgotten = 0

    def add(self, counts: Mapping[str, int]) -> None:
        """Take in texts with their counts."""
        mine = self.counts
        for text, count in counts.items():
            mine[text] = mine.get(text, 0) + count
        if len(mine) > self._room:
            kept = sorted(mine.items(), key=lambda pair: (-pair[1], pair[0]))[: self._room // 2]
            self.n_forgotten += len(mine) - len(kept)
            self.counts = dict(kept)


class IdSketch:
    """What tells ids from other whole numbers: different values, their order and their range."""

    def __init__(self, room: int = MOST_HASHES) -> None:
        self._room, self._reach = room, 2**64 - 1
        self._hashes, self._counts = np.empty(0, np.uint64), np.empty(0, np.int64)
        self._last = -np.inf
        self.is_whole, self.ascends = True, True

    def add(self, numbers: Vector) -> None:
        """Take in numbers, none of which is NaN, in the order of the rows."""
        if not self.is_whole or not numbers.size:
            return
        self.is_whole = bool(np.all(numbers == np.rint(numbers)))
        if self.ascends:
            self.ascends = bool(numbers[0] >= self._last and np.all(np.diff(numbers) >= 0.0))
            self._last = float(numbers[-1])
        hashes = hashed(np.ascontiguousarray(numbers + 0.0).view(np.uint64))
        hashes = hashes[hashes <= np.uint64(self._reach)]
        joined, place = np.unique(np.concatenate([self._hashes, hashes]), return_inverse=True)
        counts = np.append(self._counts, np.ones(hashes.size, np.int64))
        self._hashes = joined
        self._counts = np.bincount(place, weights=counts, minlength=joined.size).astype(np.int64)
        while self._hashes.size > self._room:
            self._reach //= 2
            near = self._hashes <= np.uint64(self._reach)
            self._hashes, self._counts = self._hashes[near], self._counts[near]

    @property
    def different(self) -> float:
        """The share of different values; exact where these are few, else from some of them."""
        total = int(self._counts.sum())
        return self._hashes.size / total if total else 0.0


class PatternSketch:
    """A digest of the rows in which a column is missing."""

    def __init__(self) -> None:
        self._digest = blake2b(digest_size=16)
        self.n_missing = 0

    def add(self, missing: NDArray[np.bool_]) -> None:
        """Take in which rows of the next piece are missing."""
        self.n_missing += int(np.count_nonzero(missing))
        self._digest.update(np.packbits(missing).tobytes())

    def digest(self) -> bytes:
        """Return the digest; columns that are missing in the same rows have the same."""
        return self._digest.digest()


def hashed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers that look random, the same for the same keys (the mixer of SplitMix64)."""
    with np.errstate(over="ignore"):
        mixed = keys + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(mixed ^ (mixed >> np.uint64(31)))
