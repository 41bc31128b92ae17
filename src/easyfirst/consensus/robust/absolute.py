"""A fit of some rows by least absolute deviations: a start that gross outliers do not ruin.

Least squares follows rows that are off by a thousand noise scales wherever they are, and columns
that are nearly collinear turn that into coefficients which no easy-first round comes back from.
Absolute deviations give every such row the pull of an ordinary one.
"""

from __future__ import annotations

import numpy as np

from easyfirst.consensus.robust.huber import least_absolute_deviations, rounding_of
from easyfirst.consensus.solvers.gram import NO_SPREAD, supported_basis
from easyfirst.contracts import Matrix, Vector

LEAST_SUPPORT = 1e-7  # of a direction of X, over the best supported one's: less is left at zero
SETTLED = 1e-2  # scales: a move of predictions that matters to no start
QUARTILE_OF_NORMAL = 0.31863936396437515  # |z| below which a quarter of N(0, 1) lies


def absolute_start(design: Matrix, y: Vector, has_intercept: bool) -> tuple[Vector, float]:
    """Return the coefficients of least absolute deviations and a scale of the rows near them.

    The scale is that of the closest quarter of the rows, which holds while fewer than half of the
    rows or so are gross outliers; it is zero where they are fitted exactly.
    """
    mean = design[:, :-1].mean(axis=0) if has_intercept else np.zeros(design.shape[1])
    columns = design[:, :-1] if has_intercept else design
    centred = columns - mean
    size = np.square(columns).sum(axis=0)
    centred[:, np.square(centred).sum(axis=0) <= NO_SPREAD * size] = 0.0  # rounding of a constant
    basis = supported_basis(centred.T @ centred, LEAST_SUPPORT)
    ones = [np.ones((len(y), 1))] if has_intercept else []
    supported = np.hstack([centred @ basis, *ones])
    coef = least_absolute_deviations(supported, y, np.ones(len(y)), SETTLED)
    scale = float(np.quantile(np.abs(y - supported @ coef), 0.25)) / QUARTILE_OF_NORMAL
    scale = scale if scale > rounding_of(y) else 0.0
    slopes = basis @ coef[: basis.shape[1]]
    return (np.append(slopes, coef[-1] - mean @ slopes) if has_intercept else slopes), scale
