"""The replies of all batches, stacked, and what follows from them by arithmetic alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Matrix, Vector
from easyfirst.local.steps import Statistics
from easyfirst.local.turnover import Sums, Turnover
from easyfirst.penalties import Penalty

# How many times as much as stays in a Gram matrix may leave it: four digits go with that.
LARGEST_LOSS = 1e4
TALLIES = ("pacing", "weight", "selected", "changed", "total")
tallies_of = attrgetter(*TALLIES)


@dataclass(frozen=True, eq=False)
class Diagonal:
    """A Gram matrix of which only the diagonal is known, the rest taken for zero."""

    values: Vector

    def __matmul__(self, vector: Vector) -> Vector:
        return self.values * vector

    def diagonal(self) -> Vector:
        """Return the diagonal."""
        return self.values


@dataclass(frozen=True, eq=False)
class ExpansionPoint:
    """Where a loss was expanded: the point, the loss there, and minus half its gradient.

    Kept beside the parabola, whose value at the point is rounded where the curvature is large.
    """

    point: Vector
    loss: float
    pull: Vector


@dataclass(frozen=True, eq=False)
class StackedStatistics:
    """The weighted statistics of m batches, and their sums in batch order.

    For the squared loss they say everything about the weighted rows: the loss at coefficients c
    is c'G c - 2 b'c + square, for all rows (`pooled_...`) as for each batch (`gram`, `rhs`).
    Where the statistics were gathered `around` a point with a preconditioner, that matrix stands
    for the Gram matrix, and those of single batches are not known. `size` and `squares` give the
    scale of the gradient where the loss is not squared: see `Statistics`.
    """

    pooled_gram: Any  # a Matrix, or a Diagonal where matrices would be too large
    pooled_rhs: Vector
    pooled_square: float
    gram: Vector  # (m, q, q), or of length 0
    rhs: Matrix
    pacing: Vector
    weight: Vector
    selected: Vector
    changed: Vector
    total: Vector
    size: float | None = None
    squares: Vector | None = None
    expansion: ExpansionPoint | None = None

    @classmethod
    def stack(cls, replies: Sequence[Statistics]) -> StackedStatistics:
        """Stack replies in batch order."""
        gram = np.array([reply.gram for reply in replies])
        rhs = np.array([reply.rhs for reply in replies])
        return cls(
            pooled_gram=gram.sum(axis=0),
            pooled_rhs=rhs.sum(axis=0),
            pooled_square=float(np.sum([reply.square for reply in replies])),
            gram=gram,
            rhs=rhs,
            **_tallies(replies),
        )

    @classmethod
    def added(cls, replies: Sequence[Statistics]) -> StackedStatistics:
        """Add up replies in batch order, without those of single batches."""
        gram, rhs = replies[0].gram.copy(), replies[0].rhs.copy()
        for reply in replies[1:]:
            gram += reply.gram
            rhs += reply.rhs
        return cls(
            pooled_gram=gram,
            pooled_rhs=rhs,
            pooled_square=float(np.sum([reply.square for reply in replies])),
            gram=np.zeros((0, rhs.size, rhs.size)),
            rhs=np.zeros((0, rhs.size)),
            **_tallies(replies),
        )

    def turned_over(self, replies: Sequence[Turnover]) -> StackedStatistics | None:
        """Return the statistics after some rows changed sides; None if that cost their digits.

        It does where rows that left were far larger than those that stay.
        """
        came, left = _sums(replies, 1.0), _sums(replies, -1.0)
        gram = self.pooled_gram + came.gram
        gram -= left.gram
        if np.any(np.diagonal(left.gram) > LARGEST_LOSS * np.diagonal(gram)):
            return None
        return replace(
            self,
            pooled_gram=gram,
            pooled_rhs=self.pooled_rhs + came.rhs - left.rhs,
            pooled_square=self.pooled_square + sum(reply.square for reply in replies),
            **_tallies([reply.tally for reply in replies]),
        )

    @classmethod
    def around(
        cls, point: Vector, preconditioner: Matrix | Diagonal, replies: Sequence[Statistics]
    ) -> StackedStatistics:
        """Stack replies that hold D'R(y - D point) for `rhs` and the loss there for `square`.

        The quadratic with curvature `preconditioner` that has this value and gradient at the point
        replaces the exact one; minimising it is a preconditioned gradient step.
        """
        gradient = np.sum([reply.rhs for reply in replies], axis=0)
        loss = float(np.sum([reply.square for reply in replies]))
        moved = preconditioner @ point
        return cls(
            pooled_gram=preconditioner,
            pooled_rhs=moved + gradient,
            pooled_square=loss + float(point @ moved + 2.0 * gradient @ point),
            gram=np.zeros((0, point.size, point.size)),
            rhs=np.zeros((0, point.size)),
            **_tallies(replies),
        )

    @classmethod
    def expanded(cls, point: Vector, replies: Sequence[Statistics]) -> StackedStatistics:
        """Stack the expansions of any loss around a point: the parabola that touches it there."""
        known: Any = np.sum([reply.gram for reply in replies], axis=0)
        preconditioner = Diagonal(known) if known.ndim == 1 else known
        size = float(np.sum([reply.size for reply in replies]))
        squares = np.sum(np.array([reply.squares for reply in replies]), axis=0)
        pull = np.sum([reply.rhs for reply in replies], axis=0)
        expansion = ExpansionPoint(point, float(np.sum([reply.square for reply in replies])), pull)
        stats = cls.around(point, preconditioner, replies)
        return replace(stats, size=size, squares=squares, expansion=expansion)

    def moved(
        self, point: Vector, gradient: Vector, step: Vector, curved: Vector
    ) -> StackedStatistics:
        """Return the statistics around `point` + `step`; `curved` is the true G step.

        `gradient` is D'R(y - D point).
        """
        loss = self.loss(point) - 2.0 * float(gradient @ step) + float(step @ curved)
        there, rest = point + step, gradient - curved
        image = self.pooled_gram @ there
        square = loss + float(there @ image + 2.0 * rest @ there)
        return replace(self, pooled_rhs=image + rest, pooled_square=square)

    def columns_without_spread(self, n_features: int, fit_intercept: bool) -> NDArray[np.intp]:
        """Return which columns do not vary over the weighted rows, as far as that is known."""
        diagonal = self.pooled_gram.diagonal()[:n_features]
        center = np.zeros(n_features)
        if fit_intercept and not isinstance(self.pooled_gram, Diagonal):
            center = np.square(self.pooled_gram[:n_features, -1]) / self.pooled_gram[-1, -1]
        return np.flatnonzero(diagonal - center <= 1e-12 * diagonal)

    def with_tallies_of(self, other: StackedStatistics) -> StackedStatistics:
        """Return the same statistics with the counts of others, of rows weighed alike."""
        return replace(self, **{name: getattr(other, name) for name in TALLIES})

    def with_pacing(self, value: float) -> StackedStatistics:
        """Return the same statistics with another self-paced term, given for all rows at once."""
        return replace(self, pacing=np.array([value]))

    @property
    def matrix(self) -> Matrix | None:
        """The Gram matrix of all weighted rows, if more than its diagonal is known."""
        return None if isinstance(self.pooled_gram, Diagonal) else self.pooled_gram

    @property
    def n_batches(self) -> int:
        """Number of batches."""
        return len(self.total)

    @property
    def n_coef(self) -> int:
        """Number of coefficients, the intercept included."""
        return len(self.pooled_rhs)

    @cached_property
    def changed_share(self) -> float:
        """The share of the total weight that moved since the round before."""
        return float(self.changed.sum() / self.total.sum())

    @property
    def batch_selected_share(self) -> Vector:
        """The share of each batch's rows that has a weight of at least one half."""
        return np.divide(
            self.selected, self.total, out=np.zeros_like(self.total), where=self.total > 0
        )

    def gradient(self, coef: Vector) -> Vector:
        """Return the derivative of the weighted loss of all rows."""
        if self.expansion is not None:
            step = coef - self.expansion.point
            return np.asarray(2.0 * (self.pooled_gram @ step - self.expansion.pull))
        return np.asarray(2.0 * (self.pooled_gram @ coef - self.pooled_rhs))

    def loss(self, coef: Vector) -> float:
        """Return the weighted loss of all rows at the same coefficients."""
        if self.expansion is not None:
            step = coef - self.expansion.point
            curved = self.pooled_gram @ step
            return self.expansion.loss + float(step @ (curved - 2.0 * self.expansion.pull))
        fitted = self.pooled_gram @ coef
        return float(coef @ (fitted - 2.0 * self.pooled_rhs)) + self.pooled_square


def _sums(replies: Sequence[Turnover], sign: float) -> Sums:
    """Return the sums over the rows that count more than before, or less, in batch order."""
    by = sign * np.concatenate([reply.by for reply in replies])
    counted = by > 0
    rows = np.concatenate([reply.rows for reply in replies])[counted]
    weights, y = by[counted], np.concatenate([reply.y for reply in replies])[counted]
    rhs = rows.T @ (weights * y)
    if np.any(weights != 1.0):
        rows = rows * np.sqrt(weights)[:, None]
    gram = rows.T @ rows
    for reply in replies:
        sums = reply.came if sign > 0 else reply.left
        if sums is not None:
            gram, rhs = gram + sums.gram, rhs + sums.rhs
    return Sums(gram, rhs)


def _tallies(replies: Sequence[Statistics]) -> dict[str, Any]:
    columns = np.array([tallies_of(reply) for reply in replies]).T
    return dict(zip(TALLIES, columns, strict=True))


@dataclass(frozen=True)
class Objective:
    """The problem that a round solves for fixed weights: losses plus penalty.

    The last coefficient is the intercept if there is one, and is not penalised.
    """

    penalty: Penalty
    fit_intercept: bool

    @property
    def is_unpenalised(self) -> bool:
        """Whether nothing draws the coefficients away from the best fit."""
        return self.penalty.quadratic_strength == 0

    def slopes(self, coef: Vector) -> Vector:
        """Return the penalised part of the coefficients."""
        return coef[:-1] if self.fit_intercept else coef

    def penalty_diagonal(self, size: int) -> Vector | None:
        """Return the diagonal that a quadratic penalty adds to the Gram matrix."""
        strength = self.penalty.quadratic_strength
        return None if strength is None else _diagonal(strength, size, self.fit_intercept)

    def prox(self, point: Vector, step: Vector) -> Vector:
        """Return the proximal map of the penalty, the identity on the intercept."""
        moved = self.penalty.prox(self.slopes(point), self.slopes(step))
        return np.append(moved, point[-1]) if self.fit_intercept else moved

    def value(self, stats: StackedStatistics, coef: Vector) -> float:
        """Return losses + self-paced term + penalty with every batch at the same coefficients."""
        penalty = self.penalty.value(self.slopes(coef))
        return stats.loss(coef) + float(stats.pacing.sum()) + penalty

    def kkt_residual(self, stats: StackedStatistics, coef: Vector) -> float:
        """Return how far the coefficients are from optimal, free of every unit.

        The gradient's entry for column j is divided by twice the norms of that column and of
        y over the weighted rows: a cosine, 0 at the optimum and at most about 1. Where the
        penalty has kinks, the gradient is that of a proximal step: how far it moves, per length.
        """
        gradient = stats.gradient(coef)
        diagonal = stats.pooled_gram.diagonal() if stats.squares is None else stats.squares
        diagonal = np.maximum(diagonal, 0.0)
        if self.penalty.smooth:
            slope_gradient = self.penalty.gradient(self.slopes(coef))
            gradient[: slope_gradient.size] += slope_gradient
        else:
            step = 0.5 / np.where(diagonal > 0, diagonal, 1.0)
            gradient = (coef - self.prox(coef - step * gradient, step)) / step
        size = stats.pooled_square if stats.size is None else stats.size
        norms = 2.0 * np.sqrt(diagonal * max(size, 0.0))
        sizes = np.abs(gradient)
        return float(np.divide(sizes, norms, out=np.zeros_like(sizes), where=norms > 0).max())


@lru_cache(maxsize=8)
def _diagonal(strength: float, size: int, fit_intercept: bool) -> Vector:
    diagonal = np.full(size, strength)
    if fit_intercept:
        diagonal[-1] = 0.0
    diagonal.flags.writeable = False
    return diagonal
