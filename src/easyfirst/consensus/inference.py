"""What a calibrated fit is worth: standard errors of its coefficients.

The weighted fit solves sum psi(r) d = 0 with psi(r) = v(r) r. Rows near the threshold pull less
than their weight says, because moving them changes their weight too; the naive formula on the
kept rows ignores that and is too small.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from easyfirst.consensus.fleet import Fleet, Weightings
from easyfirst.consensus.solvers.gram import (
    inverse_diagonal,
    inverse_root,
    is_well_conditioned,
    solve_normal,
)
from easyfirst.consensus.statistics import Diagonal
from easyfirst.contracts import Matrix, Vector

LEAST_WORTH = 1e-300


def standard_errors(
    fleet: Fleet, weightings: Weightings, scale: float, gram: Matrix | Diagonal
) -> Vector:
    """Return the standard error of every coefficient, the intercept's last if there is one.

    cov = sum(psi**2) (S0 - q) / (S1 - q S2 / S1)**2 * G^-1 with S0 = sum v, S1 = sum psi',
    S2 = sum psi'**2 and G the weighted Gram matrix: the sandwich for rows whose corruption does
    not depend on X. The terms in q are for few clean rows per coefficient; without corruption
    the formula is that of least squares. Coefficients that the rows do not determine have an
    infinite standard error. Where only the diagonal of the Gram matrix is known, columns are
    taken for uncorrelated.
    """
    weight, slope, pull, slope_squared = fleet.influence(weightings, scale)
    q = fleet.n_coef
    rest = max(weight - q, 1.0)
    worth = max(slope - q * slope_squared / max(slope, 1e-300), 1.0)
    inverse = _inverse_diagonal(gram, weight)
    shift = fleet.problem.coordinates.shift
    if shift is not None:
        inverse[-1] = _at_zero(gram, inverse, shift)
    known = np.isfinite(inverse)  # an exact fit times an unknown coefficient is still unknown
    inverse[known] *= pull * rest / worth**2
    return np.asarray(np.sqrt(inverse))


class Scatter(NamedTuple):
    """Sums over all rows, psi = w r being the pull of one: psi**2 d d', w and psi'."""

    outer: Matrix
    weight: float
    slope: float


def sandwich_errors(
    fleet: Fleet, weightings: Weightings, scale: float, gram: Matrix | Diagonal
) -> Vector:
    """Return standard errors that hold whatever the noise depends on."""
    if isinstance(gram, Diagonal):
        return standard_errors(fleet, weightings, scale, gram)
    return errors_of(fleet, Scatter(*fleet.scatter(weightings, scale)), gram)


def errors_of(fleet: Fleet, scatter: Scatter, gram: Matrix) -> Vector:
    """Return the standard errors that these sums give.

    cov = (sum w / sum psi')**2 n / (n - q) G^-1 (sum psi**2 d d') G^-1, with psi = w r the pull of
    a row and G the weighted Gram matrix: the sandwich of White, for rows whose pull is not linear.
    Where few rows pull by how far off they are, the fit goes through some of them, and more seem to
    lie there than do: Huber's correction, 1 + q (1 / sum psi' - 1 / n), is for that.
    """
    outer, weight, slope = scatter
    q = fleet.n_coef
    root = inverse_root(gram, None)
    inverse = root @ root.T
    shift = fleet.problem.coordinates.shift
    if shift is not None:
        inverse[-1] -= shift @ inverse[:-1]  # the intercept is meant where the columns are zero
    variance = np.einsum("ij,ij->i", inverse @ outer, inverse)
    few = weight / max(weight - q, 1.0)
    if is_well_conditioned(gram):
        unknown = np.zeros(len(gram), dtype=bool)
    else:
        unknown = np.isinf(inverse_diagonal(gram))
    worth = max(slope, 0.2 * weight)
    drawn = 1.0 + q * max(1.0 / max(worth, 1.0) - 1.0 / fleet.total_weight, 0.0)
    errors = np.sqrt(np.maximum(variance, 0.0) * few) * drawn * weight / max(worth, LEAST_WORTH)
    return np.where(unknown, np.inf, errors)


def _at_zero(gram: Matrix | Diagonal, inverse: Vector, shift: Vector) -> float:
    """Return the intercept's entry where the columns are zero, not where the shifted ones are."""
    if isinstance(gram, Diagonal) or not np.all(np.isfinite(inverse)):
        return float(inverse[-1] + np.sum(np.square(shift[shift != 0]) * inverse[:-1][shift != 0]))
    where = np.append(-shift, 1.0)
    return float(where @ solve_normal(gram, where, True)[0])


def _inverse_diagonal(gram: Matrix | Diagonal, weight: float) -> Vector:
    if not isinstance(gram, Diagonal):
        return inverse_diagonal(gram)
    # Of a random design: each other column takes the worth of a row.
    taken = min(len(gram.values) / max(weight, 1.0), 0.9)
    inverse = np.full(gram.values.shape, np.inf)
    np.divide(1.0, (1.0 - taken) * gram.values, where=gram.values > 0, out=inverse)
    return inverse
