"""Recovering rare columns: those whose rows a fit has nearly all set aside.

A column that few rows have (a rare category) is ruined for least squares by a few gross outliers;
its clean rows then never look easy, and a fit that has lost them all says nothing about their
coefficient any more. Shifting that coefficient to where most of its rows agree brings them back, if
they do agree.
"""

from __future__ import annotations

import numpy as np

from easyfirst.contracts import Batch, Vector
from easyfirst.local.design import Coordinates, Design, dense, row_slices

STARVED = 0.5  # of the overall mean weight: a column whose rows weigh less on average is starved
MOST_SHIFTS = 200  # candidates for one coefficient
AGREEMENT = 2.0  # rows within so many noise scales agree
ROWS_FOR_MEDIAN = 500  # enough to know the value that most rows have


def recover_rare_columns(
    rows: Batch, coordinates: Coordinates, weights: Vector, coef: Vector, scale: float
) -> Vector | None:
    """Return coefficients shifted to where the rows of starved columns agree; None if none is."""
    middle = np.median(dense(rows.X[:: 1 + rows.n_samples // ROWS_FOR_MEDIAN]), axis=0)
    mass, kept = _scatter(rows, middle, weights)
    starved = np.flatnonzero((mass > 0) & (kept < STARVED * np.mean(weights) * mass))
    if starved.size == 0:
        return None
    moved, residual = coef.copy(), rows.y - Design(rows.X, coordinates).times(coef)
    shifted_middle = coordinates.shifted(middle)
    for j in starved[np.argsort(-mass[starved], kind="stable")]:
        column = dense(rows.X[:, [j]])[:, 0] - middle[j]
        shift = _shift_with_most_agreement(column, residual, scale)
        moved[j] += shift
        if coordinates.fit_intercept:
            moved[-1] -= shift * shifted_middle[j]
        residual = residual - shift * column
    return moved


def _scatter(rows: Batch, middle: Vector, weights: Vector) -> tuple[Vector, Vector]:
    """Return the squared distances from the middle summed over rows, plainly and by weight."""
    totals = np.zeros((2, rows.n_features))
    both = np.stack([np.ones(rows.n_samples), weights])
    for part in row_slices(rows.n_samples, rows.n_features):
        away = dense(rows.X[part]) - middle
        totals += both[:, part] @ np.square(away, out=away)
    return totals[0], totals[1]


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
