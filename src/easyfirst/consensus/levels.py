"""Giving lost levels another chance: columns whose rows a fit has nearly all set aside.

A column that few rows have (a rare category) is spoilt for least squares by a few wild rows; its
clean rows then never look easy, and a fit that has lost them all says nothing about their
coefficient any more. Shifting that coefficient to where most of its rows agree brings them back, if
they do agree.
"""

from __future__ import annotations

import numpy as np

from easyfirst.contracts import Matrix, Vector

STARVED = 0.5  # of the overall mean weight: a column whose rows weigh less on average is starved
MOST_SHIFTS = 200  # candidates for one coefficient
AGREEMENT = 2.0  # rows within so many noise scales agree


def regain_lost_levels(
    design: Matrix, y: Vector, weights: Vector, coef: Vector, scale: float, fit_intercept: bool
) -> Vector | None:
    """Return coefficients shifted to where the rows of starved columns agree; None if none is."""
    p = design.shape[1] - int(fit_intercept)
    middle = np.median(design[:, :p], axis=0)
    columns = design[:, :p] - middle
    mass = np.einsum("ij,ij->j", columns, columns)
    kept = weights @ np.square(columns)
    starved = np.flatnonzero((mass > 0) & (kept < STARVED * np.mean(weights) * mass))
    if starved.size == 0:
        return None
    moved, residual = coef.copy(), y - design @ coef
    for j in starved[np.argsort(-mass[starved], kind="stable")]:
        shift = _shift_with_most_agreement(columns[:, j], residual, scale)
        moved[j] += shift
        if fit_intercept:
            moved[-1] -= shift * middle[j]
        residual = residual - shift * columns[:, j]
    return moved


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
