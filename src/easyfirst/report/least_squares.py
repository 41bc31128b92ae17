"""Least squares on all rows, clean or not: what the corrupted rows would have done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp

from easyfirst.contracts import Matrix, Vector
from easyfirst.report.facts import FitFacts
from easyfirst.report.suspects import JudgedRows

BLOCK_ROWS = 8192
MOST_COLUMNS = 3000  # beyond, the comparison would cost more than the fit
SMALLEST_SHARE = 1e-12  # of the largest eigenvalue: directions below are not determined


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


def compare_with_least_squares(facts: FitFacts, X: Any, rows: JudgedRows) -> Comparison | None:
    """Fit all rows by least squares; None where there are too many columns to bother."""
    if X.shape[1] > MOST_COLUMNS:
        return None
    values = least_squares(X, rows.given, facts.intercept is not None)
    tail = values[facts.coef.size :]
    predicted = X @ values[: facts.coef.size] + (tail[0] if tail.size else 0.0)
    return Comparison(
        values=values,
        error=_weighted_rms(rows.given - predicted, rows.weight),
        own_error=_weighted_rms(rows.given - rows.predicted, rows.weight),
    )


def least_squares(X: Any, y: Vector, with_intercept: bool) -> Vector:
    """Return the coefficients of least norm, a block of rows at a time; the intercept is last.

    Columns are centred and scaled first, so that forming the Gram matrix loses few digits.
    """
    n, p = X.shape
    mean, spread = _moments(X, with_intercept)
    gram, moment = np.zeros((p, p)), np.zeros(p)
    offset = float(np.mean(y)) if with_intercept else 0.0
    for start in range(0, n, BLOCK_ROWS):
        block = (_dense(X[start : start + BLOCK_ROWS]) - mean) / spread
        gram += block.T @ block
        moment += block.T @ (y[start : start + BLOCK_ROWS] - offset)
    solution = la.lstsq(gram, moment, cond=SMALLEST_SHARE)[0] / spread
    return np.append(solution, offset - mean @ solution) if with_intercept else solution


def _moments(X: Any, centred: bool) -> tuple[Vector, Vector]:
    """Return the columns' means (zeros if not centred) and their spread around them."""
    n, p = X.shape
    blocks = range(0, n, BLOCK_ROWS)
    mean = np.zeros(p)
    if centred:
        mean = sum((_dense(X[i : i + BLOCK_ROWS]).sum(axis=0) for i in blocks), mean) / n
    squares = np.zeros(p)
    for i in blocks:
        squares += np.square(_dense(X[i : i + BLOCK_ROWS]) - mean).sum(axis=0)
    spread = np.sqrt(squares / n)
    return mean, np.where(spread > 0, spread, 1.0)


def _dense(block: Any) -> Matrix:
    return np.asarray(block.toarray() if sp.issparse(block) else block, dtype=np.float64)


def _weighted_rms(residual: Vector, weights: Vector) -> float:
    total = float(np.sum(weights))
    return float(np.sqrt(np.sum(weights * np.square(residual)) / total)) if total else float("nan")
