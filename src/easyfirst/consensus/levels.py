"""Giving lost levels another chance: columns whose rows a fit has nearly all set aside.

A column that few rows have (a rare category) is spoilt for least squares by a few wild rows; its
clean rows then never look easy, and a fit that has lost them all says nothing about their
coefficient any more. Shifting that coefficient to where most of its rows agree brings them back, if
they do agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from easyfirst.contracts import Batch, Matrix, Vector
from easyfirst.local import passes
from easyfirst.local.passes import Frame

STARVED = 0.5  # of the overall mean weight: a column whose rows weigh less on average is starved
MOST_SHIFTS = 200  # candidates for one coefficient
AGREEMENT = 2.0  # rows within so many noise scales agree
ROWS_FOR_MEDIAN = 500  # enough to know the value that most rows have


def regain_lost_levels(
    rows: Batch, frame: Frame, weights: Vector, coef: Vector, scale: float
) -> Vector | None:
    """Return coefficients shifted to where the rows of starved columns agree; None if none is."""
    middle = np.median(_dense(rows.X[:: 1 + rows.n_samples // ROWS_FOR_MEDIAN]), axis=0)
    mass, kept = _scatter(rows, middle, weights)
    starved = np.flatnonzero((mass > 0) & (kept < STARVED * np.mean(weights) * mass))
    if starved.size == 0:
        return None
    moved, residual = coef.copy(), rows.y - passes.predict(rows, frame, coef)
    in_frame = middle if frame.shift is None else middle - frame.shift
    for j in starved[np.argsort(-mass[starved], kind="stable")]:
        column = _dense(rows.X[:, [j]])[:, 0] - middle[j]
        shift = _shift_with_most_agreement(column, residual, scale)
        moved[j] += shift
        if frame.fit_intercept:
            moved[-1] -= shift * in_frame[j]
        residual = residual - shift * column
    return moved


def _scatter(rows: Batch, middle: Vector, weights: Vector) -> tuple[Vector, Vector]:
    """Return the squared distances from the middle summed over rows, plainly and by weight."""
    totals = np.zeros((2, rows.n_features))
    both = np.stack([np.ones(rows.n_samples), weights])
    for part in passes.row_slices(rows.n_samples, rows.n_features):
        away = _dense(rows.X[part]) - middle
        totals += both[:, part] @ np.square(away, out=away)
    return totals[0], totals[1]


def _dense(X: Any) -> Matrix:
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


def _shift_with_most_agreement(column: Vector, residual: Vector, scale: float) -> float:
    rows = np.flatnonzero(np.square(column) > 1e-3 * np.max(np.square(column)))
    values, residual = column[rows], residual[rows]
    shifts = residual / values
    if shifts.size > MOST_SHIFTS:
        shifts = np.quantile(shifts, np.linspace(0.05, 0.95, MOST_SHIFTS))
    shifts = np.append(shifts, 0.0)
    near = np.abs(residual - shifts[:, None] * values) < AGREEMENT * scale
    best = int(np.argmax(near.sum(axis=1)))
    agree = near[best]
    if not agree.any():
        return 0.0
    rest = residual[agree] - shifts[best] * values[agree]
    return float(shifts[best] + values[agree] @ rest / (values[agree] @ values[agree]))
