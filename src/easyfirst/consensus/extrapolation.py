"""Whether to follow directions in which the rows hardly differ out to where new rows may lie.

Nearly equal columns leave a direction along which all rows together spread less than one typical
row does along a column. Its coefficient may be significant, if only because rounding errors of the
columns follow a curve, and be fatal all the same: a row that is off the others there is predicted
thousands of standard deviations away. Where such rows exist, they tell: each is predicted by a fit
without it, with those directions and with zero in them, and what misses by less on the whole wins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from easyfirst.consensus.gram import inverse_root, solve_normal, weakest_direction
from easyfirst.consensus.huber import robust_scale
from easyfirst.consensus.sample import Sample
from easyfirst.contracts import Matrix, Vector
from easyfirst.local.design import dense

CAP = 8.0  # scales beyond which a miss counts no more, as long as the prediction is possible
CLEARLY = 0.01  # smaller the mean miss has to be
LONE = 0.9  # leverage from which the fit without a row is made anew
MOST_LONE = 32
MOST_COEFFICIENTS = 500


@dataclass(frozen=True)
class Bounds:
    """The range of y, extended by its width: a prediction beyond is wrong whatever y is."""

    low: float
    high: float

    @classmethod
    def of(cls, y: Vector) -> Bounds:
        """Return the bounds that some rows set."""
        low, high = float(y.min()), float(y.max())
        return cls(2.0 * low - high, 2.0 * high - low)

    def excess(self, prediction: Vector) -> Vector:
        """Return how far predictions lie beyond."""
        return np.maximum(np.maximum(prediction - self.high, self.low - prediction), 0.0)


def misses(y: Vector, prediction: Vector, cap: float, bounds: Bounds) -> Vector:
    """Return |y - prediction| up to a cap, plus how far the prediction is beyond the bounds.

    A wrong y costs no more than the cap; a prediction that no y can justify costs all it is worth.
    """
    return np.minimum(np.abs(y - prediction), cap) + bounds.excess(prediction)


def least_support(sample: Sample, weights: Vector, gram: Matrix) -> float:
    """Return below which support directions get zero, in rows' worth per row; 0 for none.

    `weights` are what the rows of the sample count for in the fit, and `gram` is the matrix of the
    fit: the sample is looked at only if that has a direction with less than one row's worth.
    """
    coordinates, n_coef = sample.fleet.problem.coordinates, sample.fleet.n_coef
    total = float(weights.sum())
    if n_coef > MOST_COEFFICIENTS or not total > n_coef:
        return 0.0
    least = 1.0 / total
    if weakest_direction(gram, coordinates.fit_intercept) >= least:
        return 0.0
    left_out, bounds = _LeftOut(sample, weights), Bounds.of(sample.rows.y)
    with_all = left_out.predictions(0.0)
    if not np.any(bounds.excess(with_all) > 0.0):
        return 0.0
    cap = CAP * robust_scale(sample.rows.y - with_all)
    every, some = (
        float(np.average(misses(sample.rows.y, prediction, cap, bounds), weights=sample.counts))
        for prediction in (with_all, left_out.predictions(least))
    )
    return least if some < (1.0 - CLEARLY) * every else 0.0


@dataclass(frozen=True)
class FarPredictions:
    """How many rows are predicted beyond any y, and in which column they are furthest out."""

    n_rows: int
    column: int


def far_predictions(sample: Sample, coef: Vector) -> FarPredictions | None:
    """Return what is known of rows that are predicted beyond the range of y, and by its width."""
    rows, problem = sample.rows, sample.fleet.problem
    prediction = problem.design(rows).times(coef)
    beyond = np.flatnonzero(Bounds.of(rows.y).excess(prediction) > 0.0)
    if not beyond.size:
        return None
    middle = 0.0 if sp.issparse(rows.X) else np.median(rows.X, axis=0)
    away = dense(rows.X[beyond]) - middle
    parts = np.abs(away * problem.coordinates.to_user(coef)[0])
    return FarPredictions(beyond.size, int(np.argmax(parts.sum(axis=0))))


class _LeftOut:
    """Rows of the sample, each to be predicted by the weighted fit of the others."""

    def __init__(self, sample: Sample, weights: Vector) -> None:
        self.design = sample.fleet.problem.design(sample.rows)
        self.y, self.weights = sample.rows.y, weights
        self.has_intercept = sample.fleet.problem.coordinates.fit_intercept
        self.gram, self.rhs = self.design.gram(weights, self.y, sample.fleet.spread)

    def predictions(self, least: float) -> Vector:
        """Return the predictions, directions with less support than `least` left out."""
        coef = solve_normal(self.gram, self.rhs, self.has_intercept, least)[0]
        root = inverse_root(self.gram, None, self.has_intercept, least)
        leverage = self.weights * self.design.leverage(root)
        residual = self.y - self.design.times(coef)
        predicted = self.y - residual / np.maximum(1.0 - leverage, 1.0 - LONE)
        lone = np.flatnonzero(leverage > LONE)
        lone = lone[np.argsort(-leverage[lone], kind="stable")[:MOST_LONE]]
        predicted[lone] = self._anew(lone, least)
        return np.asarray(predicted)

    def _anew(self, rows: NDArray[np.intp], least: float) -> Vector:
        """Return the predictions of rows that decide about a direction alone."""
        predicted = np.zeros(len(rows))
        for number, (row, d) in enumerate(zip(rows, self.design.dense(rows), strict=True)):
            weight = self.weights[row]
            gram, rhs = self.gram - weight * np.outer(d, d), self.rhs - weight * self.y[row] * d
            predicted[number] = d @ solve_normal(gram, rhs, self.has_intercept, least)[0]
        return predicted
