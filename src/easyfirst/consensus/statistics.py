"""The replies of all batches, stacked, and what follows from them by arithmetic alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from easyfirst.contracts import Matrix, Vector
from easyfirst.local.steps import Statistics
from easyfirst.penalties import Penalty


@dataclass(frozen=True, eq=False)
class StackedStatistics:
    """The weighted statistics of m batches: gram is (m, q, q), rhs (m, q), the rest (m,).

    For the squared loss they say everything about the weighted rows: the loss of batch i at
    coefficients c is c'G_i c - 2 b_i'c + square_i.
    """

    gram: Vector
    rhs: Matrix
    square: Vector
    pacing: Vector
    weight: Vector
    selected: Vector
    changed: Vector
    total: Vector

    @classmethod
    def stack(cls, replies: Sequence[Statistics]) -> StackedStatistics:
        """Stack replies in batch order."""
        return cls(
            **{
                name: np.array([getattr(reply, name) for reply in replies])
                for name in cls.__dataclass_fields__
            }
        )

    @property
    def n_batches(self) -> int:
        """Number of batches."""
        return len(self.square)

    @cached_property
    def pooled_gram(self) -> Matrix:
        """The Gram matrix of all rows, added up in batch order."""
        return np.asarray(self.gram.sum(axis=0))

    @cached_property
    def pooled_rhs(self) -> Vector:
        """The right-hand side of all rows, added up in batch order."""
        return np.asarray(self.rhs.sum(axis=0))

    @property
    def changed_share(self) -> float:
        """The share of the total weight that moved since the round before."""
        return float(self.changed.sum() / self.total.sum())

    @property
    def batch_selected_share(self) -> Vector:
        """The share of each batch's rows that has a weight of at least one half."""
        return np.divide(
            self.selected, self.total, out=np.zeros_like(self.total), where=self.total > 0
        )

    def losses(self, coefs: Matrix) -> float:
        """Return the weighted loss of all batches, batch i at coefs[i]."""
        fitted = np.matmul(self.gram, coefs[:, :, None])[:, :, 0]
        return float(np.sum(coefs * (fitted - 2.0 * self.rhs)) + self.square.sum())


@dataclass(frozen=True)
class Objective:
    """The problem that a round solves for fixed weights: losses plus penalty.

    The last coefficient is the intercept if there is one, and is not penalised.
    """

    penalty: Penalty
    fit_intercept: bool

    def slopes(self, coef: Vector) -> Vector:
        """Return the penalised part of the coefficients."""
        return coef[:-1] if self.fit_intercept else coef

    def penalty_diagonal(self, size: int) -> Vector | None:
        """Return the diagonal that a quadratic penalty adds to the Gram matrix."""
        strength = self.penalty.quadratic_strength
        if strength is None:
            return None
        diagonal = np.full(size, strength)
        if self.fit_intercept:
            diagonal[-1] = 0.0
        return diagonal

    def prox(self, point: Vector, step: Vector) -> Vector:
        """Return the proximal map of the penalty, the identity on the intercept."""
        moved = self.penalty.prox(self.slopes(point), self.slopes(step))
        return np.append(moved, point[-1]) if self.fit_intercept else moved

    def value(self, stats: StackedStatistics, coef: Vector) -> float:
        """Return losses + self-paced term + penalty with every batch at the same coefficients."""
        same = np.broadcast_to(coef, stats.rhs.shape)
        return (
            stats.losses(same) + float(stats.pacing.sum()) + self.penalty.value(self.slopes(coef))
        )

    def kkt_residual(self, stats: StackedStatistics, coef: Vector) -> float:
        """Return how far the coefficients are from optimal, free of every unit.

        The gradient's entry for column j is divided by twice the norms of that column and of
        y over the weighted rows: a cosine, 0 at the optimum and at most about 1.
        """
        gradient = 2.0 * (stats.pooled_gram @ coef - stats.pooled_rhs)
        slope_gradient = self.penalty.gradient(self.slopes(coef))
        gradient[: slope_gradient.size] += slope_gradient
        diagonal = np.diagonal(stats.pooled_gram)
        norms = 2.0 * np.sqrt(np.maximum(diagonal, 0.0) * stats.square.sum())
        sizes = np.abs(gradient)
        return float(np.max(np.divide(sizes, norms, out=np.zeros_like(sizes), where=norms > 0)))
