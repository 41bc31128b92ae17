"""The exact one-message solution: add the Gram matrices of all batches and solve once."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.linalg as la

from easyfirst.consensus.solution import Solution
from easyfirst.consensus.statistics import Diagonal, Objective, StackedStatistics
from easyfirst.contracts import Matrix, Vector

# Below this reciprocal condition number of the column-scaled Gram matrix, Cholesky has lost
# every digit and directions without information are cut off instead.
SINGULAR = 1e-14
# Reciprocal condition number of the scaled matrix from which no digit needs a second thought.
WELL_CONDITIONED = 1e-6


@dataclass(frozen=True, eq=False)
class Tether:
    """A weak pull towards the last coefficients, for those that the weighted rows say nothing of.

    It leaves the place where the rounds come to rest as it is, and keeps a level whose rows are
    all out for the moment where it was, instead of at zero, where they would stay out for ever.
    """

    point: Vector
    strength: Vector


def solve(stats: StackedStatistics, objective: Objective, tether: Tether | None = None) -> Solution:
    """Minimise losses plus a quadratic penalty with all batches at the same coefficients."""
    diagonal = objective.penalty_diagonal(stats.n_coef)
    if diagonal is None:
        raise ValueError(
            f"solver='gram' needs a quadratic penalty, got {objective.penalty!r}; use solver='admm'"
        )
    matrix, rhs = stats.pooled_gram + np.diag(diagonal), stats.pooled_rhs
    if tether is not None:
        matrix = matrix + np.diag(tether.strength)
        rhs = rhs + tether.strength * tether.point
    z, _ = solve_normal(matrix, rhs)
    return Solution(
        z=z,
        coefs=np.tile(z, (stats.n_batches, 1)),
        duals=np.zeros((stats.n_batches, stats.n_coef)),
        primal_residual=0.0,
        dual_residual=0.0,
        rho=0.0,
        lagrangian=objective.value(stats, z),
        agreed=True,
    )


def rank(stats: StackedStatistics, objective: Objective) -> int:
    """Return how many directions the weighted rows and a quadratic penalty determine."""
    diagonal = objective.penalty_diagonal(stats.n_coef)
    penalty = np.zeros(stats.n_coef) if diagonal is None else diagonal
    if isinstance(stats.pooled_gram, Diagonal):
        return int(np.sum(stats.pooled_gram.diagonal() + penalty > 0))
    return solve_normal(stats.pooled_gram + np.diag(penalty), stats.pooled_rhs)[1]


def solve_normal(gram: Matrix, rhs: Vector) -> tuple[Vector, int]:
    """Solve gram @ z = rhs for a positive semidefinite matrix; returns (z, rank).

    Columns are scaled to unit diagonal first, so the answer does not depend on their units.
    Where the matrix is singular, z is the solution of least norm in the scaled coordinates.
    """
    norms = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    used = norms > 0
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=used)
    matrix = gram * scale[:, None] * scale
    target = rhs * scale
    matrix[~used, ~used] = 1.0
    solved = _cholesky(matrix, target)
    if solved is None:
        solved, rank = _least_norm(matrix, target)
    else:
        rank = len(rhs)
    return solved * scale, rank - int(np.sum(~used))


def is_well_conditioned(gram: Matrix, least: float = WELL_CONDITIONED) -> bool:
    """Return whether the reciprocal condition number of the column-scaled matrix is above `least`.

    With the default, Cholesky and refinement keep full accuracy.
    """
    norms = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    if not np.all(norms > 0):
        return False
    factored = _factor(gram / norms[:, None] / norms)
    return factored is not None and factored[1] > least


def relative_range(gram: Matrix, other: Matrix) -> tuple[float, float]:
    """Return the least and the greatest x'gram x / x'other x; (0, inf) if `other` is singular."""
    try:
        values = la.eigh(gram, other, eigvals_only=True, check_finite=False)
    except la.LinAlgError:
        return 0.0, np.inf
    return float(values[0]), float(values[-1])


def inverse_diagonal(gram: Matrix) -> Vector:
    """Return the diagonal of the inverse; infinite for coefficients that the rows leave open.

    Open are those that the rows do not determine, alone or in combination with others.
    """
    norms = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    scaled = gram * scale[:, None] * scale
    factored = _factor(scaled)
    if factored is not None and factored[1] > WELL_CONDITIONED:
        (invert,) = la.get_lapack_funcs(("potri",), (scaled,))
        return np.asarray(np.diagonal(invert(factored[0], lower=True)[0]) * np.square(scale))
    values, vectors = la.eigh(scaled, check_finite=False)
    kept = values > values[-1] * SINGULAR * len(values)
    basis = vectors[:, kept]
    diagonal = np.sum(np.square(basis) / values[kept], axis=1) * np.square(scale)
    is_open = np.sum(np.square(basis), axis=1) < 1.0 - 1e-6
    return np.where(is_open, np.inf, diagonal)


def inverse_root(gram: Matrix, diagonal: Vector | None) -> Matrix:
    """Return a matrix R with R R' the inverse of gram + diagonal (least-norm where singular)."""
    matrix = gram if diagonal is None else gram + np.diag(diagonal)
    norms = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    scaled = matrix * scale[:, None] * scale
    factored = _factor(scaled)
    if factored is not None and factored[1] > WELL_CONDITIONED:
        identity = np.eye(len(scale))
        root = la.solve_triangular(factored[0], identity, lower=True, trans="T", check_finite=False)
        return np.asarray(scale[:, None] * root)
    values, vectors = la.eigh(scaled, check_finite=False)
    kept = values > values[-1] * SINGULAR * len(values)
    return np.asarray(scale[:, None] * vectors[:, kept] / np.sqrt(values[kept]))


def _cholesky(matrix: Matrix, target: Vector) -> Vector | None:
    factored = _factor(matrix)
    if factored is None or factored[1] < SINGULAR:
        return None
    return np.asarray(la.cho_solve((factored[0], True), target, check_finite=False))


def _factor(matrix: Matrix) -> tuple[Matrix, float] | None:
    """Return the lower Cholesky factor and the reciprocal condition number in the 1-norm."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", la.LinAlgWarning)
            factor = la.cho_factor(matrix, lower=True, check_finite=False)[0]
    except la.LinAlgError:
        return None
    (condition,) = la.get_lapack_funcs(("pocon",), (matrix,))
    reciprocal, _ = condition(factor, np.linalg.norm(matrix, 1), uplo="L")
    return factor, float(reciprocal)


def _least_norm(matrix: Matrix, target: Vector) -> tuple[Vector, int]:
    values, vectors = la.eigh(matrix, check_finite=False)
    kept = values > values[-1] * SINGULAR * len(values)
    basis = vectors[:, kept]
    return basis @ ((basis.T @ target) / values[kept]), int(kept.sum())
