"""Noise whose size differs from row to row: a scale that follows the prediction and the columns.

The logarithm of a row's scale is a piecewise linear function of a fixed prediction plus a linear
function of the columns, kept within what the sample shows. It is a rule that any worker can apply
to its rows, and whose geometric mean over the sample is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Matrix, Vector

KNOTS = (0.02, 0.15, 0.3, 0.5, 0.7, 0.85, 0.98)  # quantiles of the prediction
SMALLEST = 0.02  # of the typical residual: what is smaller says nothing more about a scale
LARGEST = 50.0  # the same for what is larger
PRIOR_ROWS = 20.0  # rows' worth of even noise
ROWS_PER_COLUMN = 30  # from which on columns have a say of their own
MOST_COLUMNS = 60
MOST_RANGE = 3.0  # of the logarithm of a scale, on each side


@dataclass(frozen=True, eq=False)
class ScaleRule:
    """exp of: values at knots of x'reference + intercept, interpolated, plus x'slopes + constant.

    Kept within [-limit, limit]. Without knots every scale is one.
    """

    reference: Vector
    intercept: float
    knots: Vector
    values: Vector
    slopes: Vector
    constant: float
    limit: float = MOST_RANGE

    @classmethod
    def even(cls) -> ScaleRule:
        """Return the rule of noise that is the same for all rows."""
        nothing = np.zeros(0)
        return cls(nothing, 0.0, nothing, nothing, nothing, 0.0)

    @property
    def is_even(self) -> bool:
        """Whether every row has the same scale."""
        return self.knots.size == 0

    @property
    def n_parameters(self) -> int:
        """How many numbers were fitted."""
        return 0 if self.is_even else self.knots.size - 1 + int(np.count_nonzero(self.slopes))

    @cached_property
    def digest(self) -> bytes:
        """A key for a worker's memory."""
        parts = (self.reference, self.knots, self.values, self.slopes)
        numbers = (self.intercept, self.constant, self.limit)
        return b"".join(part.tobytes() for part in parts) + repr(numbers).encode()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScaleRule) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def of(self, X: Any) -> Vector:
        """Return the scale of each row; X is dense or sparse."""
        if self.is_even:
            return np.ones(X.shape[0])
        prediction = np.asarray(X @ self.reference).ravel() + self.intercept
        logarithm = np.interp(prediction, self.knots, self.values) + self.constant
        if np.any(self.slopes):
            logarithm = logarithm + np.asarray(X @ self.slopes).ravel()
        return np.exp(np.clip(logarithm, -self.limit, self.limit))


def fit_scale_rule(
    X: Matrix,
    reference: Vector,
    intercept: float,
    residual: Vector,
    columns: NDArray[np.bool_] | None,
    weights: Vector | None = None,
) -> ScaleRule:
    """Return the rule that the sizes of the residuals suggest.

    Regresses the logarithm of |residual|, in which corrupted rows differ from others by a little
    and at random. `columns` have a say besides the prediction. `weights` leave corrupted rows out
    once they are known.
    """
    size = np.abs(residual)
    weights = np.ones(size.size) if weights is None else weights
    typical = max(float(np.median(size)), 1e-3 * float(size.mean()), np.finfo(float).tiny)
    target = np.log(np.clip(size / typical, SMALLEST, LARGEST))
    target = target - np.average(target, weights=weights)
    prediction = X @ reference + intercept
    knots = np.unique(np.quantile(prediction, KNOTS))
    if knots.size < 2:
        return ScaleRule.even()
    bends = [np.clip(prediction, knots[0], knots[-1])]
    bends += [np.maximum(np.minimum(prediction, knots[-1]) - knot, 0.0) for knot in knots[1:-1]]
    features = np.column_stack(bends)
    used = np.zeros(X.shape[1], dtype=bool)
    if columns is not None:
        used = columns
        features = np.hstack([features, X[:, used]])
    center = np.average(features, axis=0, weights=weights)
    spread = np.sqrt(np.average(np.square(features - center), axis=0, weights=weights))
    spread[spread == 0] = np.inf
    scaled = (features - center) / spread
    weighted = (scaled * weights[:, None]).T
    matrix = weighted @ scaled + PRIOR_ROWS * np.eye(scaled.shape[1])
    coef = np.linalg.solve(matrix, weighted @ target) / spread
    n_bends = len(bends)
    at_knots = np.column_stack([knots, *(np.maximum(knots - knot, 0.0) for knot in knots[1:-1])])
    slopes = np.zeros(X.shape[1])
    slopes[used] = coef[n_bends:]
    rule = ScaleRule(
        reference=reference,
        intercept=intercept,
        knots=knots,
        values=at_knots @ coef[:n_bends],
        slopes=slopes,
        constant=-float(center @ coef),
        limit=min(MOST_RANGE, float(np.quantile(np.abs((features - center) @ coef), 0.99)) + 0.1),
    )
    return rule


def columns_that_may_speak(X: Matrix) -> NDArray[np.bool_] | None:
    """Return which columns vary without a few rows deciding; None where rows are too few."""
    n_rows, n_features = X.shape
    if n_features > MOST_COLUMNS or n_rows < ROWS_PER_COLUMN * n_features:
        return None
    away = np.abs(X - np.median(X, axis=0))
    spread = X.std(axis=0)
    return np.asarray((spread > 0) & (away.max(axis=0) < 12.0 * np.where(spread > 0, spread, 1.0)))
