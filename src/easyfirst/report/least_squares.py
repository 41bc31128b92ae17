"""Least squares on all rows, clean or not: what the corrupted rows would have done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from easyfirst.consensus.solvers.gram import solve_normal
from easyfirst.contracts import Vector
from easyfirst.estimators.findings import Findings
from easyfirst.estimators.judging import JudgedRows
from easyfirst.local.design import Coordinates, Design, centre

MOST_COLUMNS = 3000  # beyond, the comparison would cost more than the fit


@dataclass(frozen=True, eq=False)
class Comparison:
    """Least squares beside the fitted model.

    `values` are its coefficients, the intercept last if there is one; `error` and `own_error` are
    the root mean square errors of both on the rows that look clean, each row counted by its
    weight.
    """

    values: Vector
    error: float
    own_error: float


def compare_with_least_squares(findings: Findings, X: Any, rows: JudgedRows) -> Comparison | None:
    """Fit all rows by least squares.

    None where there are too many columns to bother, or where the model is not linear.
    """
    if X.shape[1] > MOST_COLUMNS or not findings.coef.size:
        return None
    transform = findings.transform
    values = least_squares(X, transform.of(rows.given), findings.intercept is not None)
    tail = values[findings.coef.size :]
    predicted = transform.back(X @ values[: findings.coef.size] + (tail[0] if tail.size else 0.0))
    return Comparison(
        values=values,
        error=_weighted_rms(rows.given - predicted, rows.weight),
        own_error=_weighted_rms(rows.given - rows.predicted, rows.weight),
    )


def least_squares(X: Any, y: Vector, with_intercept: bool) -> Vector:
    """Return the coefficients of least norm; the intercept is last."""
    shift = centre(X, None) if with_intercept else None
    coordinates = Coordinates(with_intercept, shift)
    offset = float(np.mean(y)) if with_intercept else 0.0
    gram, rhs = Design(X, coordinates).gram(np.ones(y.size), y - offset)
    coef, intercept = coordinates.to_user(solve_normal(gram, rhs, with_intercept)[0])
    return np.append(coef, intercept + offset) if with_intercept else coef


def _weighted_rms(residual: Vector, weights: Vector) -> float:
    total = float(np.sum(weights))
    return float(np.sqrt(np.sum(weights * np.square(residual)) / total)) if total else float("nan")
