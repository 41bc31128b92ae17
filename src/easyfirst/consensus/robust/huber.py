"""A plain robust fit of some rows: Huber's, from least absolute deviations.

It sets no row aside, so it cannot lock onto a part of the rows as a fit with probabilities can. On
a table that the linear model does not describe it is the safer answer.
"""

from __future__ import annotations

import numpy as np

from easyfirst.consensus.solvers.gram import weighted_least_squares
from easyfirst.contracts import Matrix, Vector
from easyfirst.local.design import Design

KNEE = 1.345  # in scales: 95 % as efficient as least squares on normal rows
REACH = 4.685  # the same for Tukey's weights, beyond which a row has none
MEDIAN_TO_SCALE = 1.4826  # of |residual|, for the normal
MOST_STEPS = 30
STILL = 1e-3  # of a scale: a step that moves predictions by less is the last


def robust_scale(residual: Vector, counts: Vector | None = None) -> float:
    """Return the normal-consistent median of |residual|; a trace of the mean where that is zero.

    `counts` is how many rows each one stands for.
    """
    size = np.abs(residual)
    middle = float(np.median(size)) if counts is None else _median(size, counts)
    return max(MEDIAN_TO_SCALE * middle, 1e-9 * float(size.mean()), np.finfo(float).tiny)


def _median(values: Vector, counts: Vector) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(counts[order])
    return float(values[order[np.searchsorted(reached, 0.5 * reached[-1])]])


def least_absolute_deviations(
    design: Matrix, y: Vector, counts: Vector, precision: float = STILL
) -> Vector:
    """Return the coefficients with the least sum of |residual|, by weights of 1 / |residual|.

    Residuals below `precision`, in scales, count as equal, and steps below it end the descent.
    """
    coef = weighted_fit(design, y, counts)
    smallest = rounding_of(y) or 1.0
    for _ in range(MOST_STEPS):
        residual = y - design @ coef
        scale = robust_scale(residual, counts)
        size = np.maximum(np.abs(residual), max(precision * scale, smallest))
        before, coef = coef, weighted_fit(design, y, counts / size)
        if _moved(design, coef - before) < precision * scale:
            break
    return coef


def rounding_of(y: Vector) -> float:
    """Return the size below which residuals are rounding errors, all that an exact fit leaves."""
    size = np.abs(y)
    return 1e-12 * (float(np.median(size)) or float(size.max(initial=0.0)))


def huber(design: Matrix, y: Vector, start: Vector, counts: Vector) -> Vector:
    """Return Huber's coefficients, the scale being the median residual's."""
    coef = start
    for _ in range(MOST_STEPS):
        residual = y - design @ coef
        scale = robust_scale(residual, counts)
        pull = KNEE * scale / np.maximum(np.abs(residual), KNEE * scale)
        before, coef = coef, weighted_fit(design, y, counts * pull)
        if _moved(design, coef - before) < STILL * scale:
            break
    return coef


def bisquare(design: Matrix, y: Vector, start: Vector, counts: Vector) -> Vector:
    """Return the coefficients that Tukey's weights lead to, the scale being the median residual's.

    Where coefficients are nearly as many as rows, half of the residuals are small around any fit,
    and so is that scale: the fit closes in on rows that agree, if its start is near most of them.
    """
    coef = start
    for _ in range(MOST_STEPS):
        residual = y - design @ coef
        scale = robust_scale(residual, counts)
        weight = np.square(np.maximum(1.0 - np.square(residual / (REACH * scale)), 0.0))
        before, coef = coef, weighted_fit(design, y, counts * weight)
        if _moved(design, coef - before) < STILL * scale:
            break
    return coef


def weighted_fit(design: Matrix, y: Vector, weights: Vector) -> Vector:
    """Return the weighted least-squares coefficients."""
    has_intercept = bool(np.all(design[:, -1:] == 1.0)) and design.shape[1] > 0
    return weighted_least_squares(Design(design), y, weights, has_intercept)[0]


def _moved(design: Matrix, step: Vector) -> float:
    return float(np.sqrt(np.mean(np.square(design @ step))))
