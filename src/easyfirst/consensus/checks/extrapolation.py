"""What to predict where hardly any row was: along directions that few rows know, and far out.

Nearly equal columns leave a direction along which all rows together spread less than one typical
row does along a column. Its coefficient may be significant, if only because rounding errors of the
columns follow a curve, and be fatal all the same: a row that is off the others there is predicted
thousands of standard deviations away. Likewise a slope that suits the middle of a column with long
tails predicts rows far out beyond any y. Both are given up where that costs the other rows little.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from easyfirst.consensus.robust.huber import robust_scale
from easyfirst.consensus.solvers.gram import solve_normal, without_weak_directions
from easyfirst.consensus.starts.sample import Sample
from easyfirst.contracts import Matrix, Vector
from easyfirst.local.design import dense

CAP = 8.0  # scales beyond which a miss counts no more, as long as the prediction is possible
STEEPEST = 10.0  # standard deviations of y per one of a direction that hardly any row knows
SOME = 0.1  # of the largest weight: rows that count have at least so much
FIRMLY = 10.0  # rows' worth of pull of a row that is predicted beyond any y
MOST_PULLS = 5
LITTLE = 0.07  # more that rows may miss by, for what might be,
MORE = 0.1  # and for what is seen to be
FEW = 0.01  # of the rows: more than these are a part of the table and not single rows far out


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


def supported(
    sample: Sample, weights: Vector, gram: Matrix, stands_for: float, coef: Vector
) -> tuple[Vector, NDArray[np.intp]]:
    """Return the coefficients with zero in directions that hardly any row knows, if that is cheap.

    A change by one standard deviation along a direction is not expected to move y by more than a
    few of its own. Where all rows together leave its effect more uncertain than that, they say
    nothing about a row that is off by as much. And the columns that differ in such directions. A
    row of the sample stands for so many rows of the matrix.
    """
    nothing = np.zeros(0, dtype=np.intp)
    total, y = float(weights.sum()), sample.rows.y
    if not total > 0.0:
        return coef, nothing
    residual = y - sample.fleet.problem.design(sample.rows).times(coef)
    middle = float(weights @ y) / total
    spread, noise = float(weights @ np.square(y - middle)), float(weights @ np.square(residual))
    if not spread > 0.0:
        return coef, nothing
    least = noise / (np.square(STEEPEST) * spread) / (total * stands_for)
    has_intercept = sample.fleet.problem.coordinates.fit_intercept
    left, columns = without_weak_directions(coef, gram, has_intercept, least)
    kept = _counting(weights)
    is_cheap = columns.size > 0 and _costs(sample, kept, coef, left) < LITTLE
    return (left, columns) if is_cheap else (coef, nothing)


def _counting(weights: Vector) -> NDArray[np.bool_]:
    return np.asarray(weights > SOME * float(weights.max(initial=0.0)))


def _costs(sample: Sample, rows: NDArray[np.bool_], before: Vector, after: Vector) -> float:
    """Return by which share other coefficients miss these rows by more, up to a cap."""
    design, y = sample.fleet.problem.design(sample.rows), sample.rows.y
    misses = [np.abs(y - design.times(coef))[rows] for coef in (before, after)]
    cap = CAP * robust_scale(misses[0])
    old, new = (
        float(np.average(np.minimum(miss, cap), weights=sample.counts[rows])) for miss in misses
    )
    return new / max(old, 1e-300) - 1.0


def restrained(
    sample: Sample, weights: Vector, gram: Matrix, stands_for: float, coef: Vector
) -> Vector:
    """Return coefficients that predict no row of the sample beyond any y, if that costs little.

    A fit that follows the other rows may predict a row far out in X where no y ever was. Whatever
    its y, that is wrong: such a row pulls firmly to the end of the range of y, all others as
    before. Where that costs the others more than a little, it is taken to be wrong in X, and
    nothing is changed. `weights` are those of clean rows, however hard they pull; a row of the
    sample stands for so many rows of the matrix.
    """
    design, y = sample.fleet.problem.design(sample.rows), sample.rows.y
    kept = _counting(weights)
    if not kept.any():
        return coef
    bounds = Bounds.of(y[kept])
    low, high = float(y[kept].min()), float(y[kept].max())
    has_intercept = sample.fleet.problem.coordinates.fit_intercept
    first = design.times(coef)
    far, changed, prediction = np.zeros(len(y), dtype=bool), coef, first
    pull = FIRMLY * stands_for
    for _ in range(MOST_PULLS):
        # A row whose own y lies out there as well is not predicted too far.
        overshoots = (prediction > y) == (prediction > bounds.low)
        beyond = (bounds.excess(prediction) > 0.0) & overshoots
        if not np.any(beyond & ~far):
            break
        far |= beyond
        rows = design.dense(np.flatnonzero(far))
        missing = pull * (rows.T @ (np.clip(first[far], low, high) - first[far]))
        changed = coef + solve_normal(gram + pull * (rows.T @ rows), missing, has_intercept)[0]
        prediction = design.times(changed)
    if changed is coef or float(np.mean(far)) > FEW:
        return coef
    return changed if _costs(sample, kept & ~far, coef, changed) < MORE else coef


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
