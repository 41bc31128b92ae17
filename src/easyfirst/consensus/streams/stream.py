"""Rows that arrive batch by batch: a bounded state from which a model can be had at any time.

Sums over the weighted rows hold what all rows said, but cannot take back a row that was let in by
mistake. A reservoir, an even sample of all rows seen, can: it is fitted anew from time to time.
Rows of the sample that count less or more since then stand for those that are gone, and the sums
are corrected by as much; where they contradict the sample by more than chance, they begin again
from its rows.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from easyfirst.consensus.solvers.gram import solve_normal
from easyfirst.consensus.streams.drift import BatchSummary, DriftWatch
from easyfirst.contracts import Matrix, Vector

RESERVOIR_ROWS = 10_000
SUMMARIES = 100  # batches of which a summary is kept
RENEWED = 0.25  # share of the reservoir after which it is fitted anew
# Chance to stay from which the rows of the reservoir correct the sums. A smaller sample knows less
# of how much rows count than the sums do, which hold what several samples said.
KNOWS_MOST = 0.5
CONTRADICTED = 4.0  # standard errors of the reservoir's fit by which sums are given up


@dataclass(eq=False)
class Reservoir:
    """An even sample of all rows seen, or one in which older rows are rarer.

    Each row draws a key, and those with the largest stay. With a half-life, keys of later rows are
    larger, so that a row is half as likely to stay as one that came a half-life later.
    """

    seed: int
    most: int = RESERVOIR_ROWS
    X: Matrix | None = None
    y: Vector = field(default_factory=lambda: np.empty(0))
    keys: Vector = field(default_factory=lambda: np.empty(0))
    times: Vector = field(default_factory=lambda: np.empty(0))  # in half-lives
    counted: Vector = field(default_factory=lambda: np.empty(0))  # weight of each row in the sums
    dropped: float = -np.inf  # the largest key that did not stay
    seen: int = 0
    age: float = 0.0  # half-lives so far
    renewed: int = 0  # rows that came in since the last fit

    def add(self, X: Matrix, y: Vector, half_life: float | None) -> NDArray[np.bool_]:
        """Let rows in, and return which of them stay for now."""
        drawn = np.random.default_rng([self.seed, self.seen]).gumbel(size=y.size)
        times = np.arange(1, y.size + 1) / half_life if half_life else np.zeros(y.size)
        times += self.age
        before = self.y.size
        self.X = X.copy() if self.X is None else np.vstack([self.X, X])
        self.y, self.times = np.append(self.y, y), np.append(self.times, times)
        self.keys = np.append(self.keys, drawn + np.log(2.0) * times)
        self.counted = np.append(self.counted, np.zeros(y.size))
        self.seen, self.age = self.seen + y.size, float(times[-1]) if y.size else self.age
        stays = self._chosen()
        self.renewed += int(stays[before:].sum())
        return stays[before:]

    def _chosen(self) -> NDArray[np.bool_]:
        """Keep the rows with the largest keys, and return which these are."""
        stays = np.ones(self.keys.size, dtype=bool)
        if self.keys.size > self.most:
            stays[np.argsort(-self.keys, kind="stable")[self.most :]] = False
            self.dropped = max(self.dropped, float(self.keys[~stays].max()))
            assert self.X is not None
            self.X, self.y, self.keys = self.X[stays], self.y[stays], self.keys[stays]
            self.times, self.counted = self.times[stays], self.counted[stays]
        return stays

    @property
    def ages(self) -> Vector:
        """How much each row still counts, by its age."""
        return np.asarray(np.exp2(self.times - self.age))

    @property
    def chances(self) -> Vector:
        """How likely each row was to draw a larger key than those that did not stay."""
        above = np.minimum(np.log(2.0) * self.times - self.dropped, 99.0)
        return np.asarray(-np.expm1(-np.exp(above)))

    @property
    def is_due(self) -> bool:
        """Whether so many rows are new that it is to be fitted anew."""
        return self.renewed >= RENEWED * self.y.size


@dataclass(eq=False)
class Sums:
    """Weighted sums over rows around a center: all that weighted least squares needs."""

    center: Vector
    fit_intercept: bool
    gram: Matrix
    rhs: Vector
    weight: float = 0.0

    @classmethod
    def none(cls, center: Vector, fit_intercept: bool) -> Sums:
        """Return sums over no rows."""
        q = center.size + int(fit_intercept)
        return cls(center, fit_intercept, np.zeros((q, q)), np.zeros(q))

    def add(self, X: Matrix, y: Vector, weight: Vector, decay: float = 1.0) -> None:
        """Add rows, after what was there has lost some of its weight; a weight may be negative."""
        design = self.design(X)
        self.gram = decay * self.gram + (design * weight[:, None]).T @ design
        self.rhs = decay * self.rhs + design.T @ (weight * y)
        self.weight = decay * self.weight + float(weight.sum())

    def design(self, X: Matrix) -> Matrix:
        """Return rows around the center, with a column of ones for the intercept."""
        around = X - self.center
        return np.column_stack([around, np.ones(len(X))]) if self.fit_intercept else around

    def solved(self, penalty: float) -> tuple[Vector, float]:
        """Return coefficients and intercept; `penalty` is the strength of a quadratic one."""
        q = len(self.gram)
        costs = np.full(q, penalty)
        if self.fit_intercept:
            costs[-1] = 0.0
        z = solve_normal(self.gram + np.diag(costs), self.rhs, self.fit_intercept)[0]
        if not self.fit_intercept:
            return z, 0.0
        return z[:-1], float(z[-1] - self.center @ z[:-1])


@dataclass(eq=False)
class Stream:
    """All that is kept of the rows seen: its size does not depend on how many there were."""

    reservoir: Reservoir
    sums: Sums | None = None
    watch: DriftWatch = field(default_factory=DriftWatch)
    summaries: deque[BatchSummary] = field(default_factory=lambda: deque(maxlen=SUMMARIES))

    @property
    def is_due(self) -> bool:
        """Whether the reservoir is to be fitted."""
        return self.sums is None or self.reservoir.is_due

    def add(
        self,
        X: Matrix,
        y: Vector,
        counts: Vector,
        stays: NDArray[np.bool_],
        half_life: float | None,
    ) -> None:
        """Add a batch to the sums; `counts` is how much its rows count, before they age."""
        assert self.sums is not None
        left = np.arange(y.size)[::-1] / half_life if half_life else np.zeros(y.size)
        decay = float(np.exp2(-y.size / half_life)) if half_life else 1.0
        self.sums.add(X, y, counts * np.exp2(-left), decay)
        held = self.reservoir
        held.counted[held.y.size - int(stays.sum()) :] = counts[stays]

    def correct(self, y: Vector, counts: Vector, fit_intercept: bool) -> None:
        """Bring the sums to what the rows of the reservoir, whose y these are, count now."""
        held = self.reservoir
        held.renewed = 0
        assert held.X is not None
        chances, begins = held.chances, self.sums is None
        if self.sums is None:
            self.sums = Sums.none(held.X.mean(axis=0) * fit_intercept, fit_intercept)
            held.counted = np.zeros(y.size)
        if begins or float(chances.mean()) >= KNOWS_MOST:
            self.sums.add(held.X, y, held.ages / chances * (counts - held.counted))
            held.counted = counts


def contradicts(
    X: Matrix, ours: tuple[Vector, float], theirs: tuple[Vector, float], scale: float, clean: float
) -> bool:
    """Return whether two fits differ by more than chance where the rows are.

    `theirs` was fitted to so many `clean` rows with noise of this scale.
    """
    apart = X @ (ours[0] - theirs[0]) + (ours[1] - theirs[1])
    error = scale * np.sqrt((ours[0].size + 1.0) / max(clean, 1.0))
    return bool(np.sqrt(np.mean(np.square(apart))) > CONTRADICTED * max(error, 1e-300))
