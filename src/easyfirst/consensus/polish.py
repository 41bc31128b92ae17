"""The last step: solve once more for the final weights, as exactly as the rows allow.

The normal equations square the condition number of the design. Where it is small that costs
nothing that one step of refinement does not repair; where it is large, the triangular factors
of the batches are stacked and decomposed again (TSQR), which never forms a Gram matrix, and
refined with residuals in extended precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg as la

from easyfirst.consensus import conjugate
from easyfirst.consensus.fleet import Fleet, Weightings
from easyfirst.consensus.gram import is_well_conditioned, solve_normal
from easyfirst.consensus.statistics import Diagonal, Objective, StackedStatistics
from easyfirst.contracts import Matrix, Vector

MAX_REFINEMENTS = 8
MOST_COEFFICIENTS = 5000  # triangles of more would not fit beside the data
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Polished:
    """The coefficients, and whether the rows were found to determine all of them.

    Where they do not, the least-norm solution of the rounds is kept.
    """

    coef: Vector
    settled: bool


def polish(
    fleet: Fleet,
    objective: Objective,
    stats: StackedStatistics,
    weightings: Weightings,
    z: Vector,
) -> Polished:
    """Return the exact coefficients for fixed weights and a quadratic penalty.

    `z` is where the rounds ended, and is returned where no better point is found.
    """
    diagonal = objective.penalty_diagonal(z.size)
    if diagonal is None:
        return Polished(z, settled=False)
    if isinstance(stats.pooled_gram, Diagonal):
        refined = conjugate.refine(fleet, weightings, stats, objective, z)
        return Polished(refined, settled=False)
    penalised = stats.pooled_gram + np.diag(diagonal)

    def gap(coef: Vector, extended: bool) -> Vector:
        pull = fleet.normal_residual(weightings, coef, extended)
        return np.asarray(pull - diagonal.astype(pull.dtype) * coef, dtype=np.float64)

    if is_well_conditioned(penalised):
        return Polished(z + solve_normal(penalised, gap(z, False))[0], settled=True)
    if z.size > MOST_COEFFICIENTS:
        return Polished(z, settled=False)
    triangle = _merge(fleet.triangles(weightings), diagonal)
    return _solve_triangle(triangle, z, lambda coef: gap(coef, True))


def _merge(triangles: list[Matrix], diagonal: Vector) -> Matrix:
    """Return the triangular factor of all rows, the penalty's rows included."""
    rows = np.sqrt(diagonal[diagonal > 0, None]) * np.eye(diagonal.size)[diagonal > 0]
    penalty = np.hstack([rows, np.zeros((len(rows), 1))])
    return np.asarray(np.linalg.qr(np.vstack([*triangles, penalty]), mode="r"))


def _solve_triangle(triangle: Matrix, z: Vector, gap: Callable[[Vector], Vector]) -> Polished:
    """Solve the least-squares problem held by a triangle, then refine while that helps."""
    q = z.size
    if triangle.shape[0] < q:
        return Polished(z, settled=False)
    norms = np.linalg.norm(triangle[:q, :q], axis=0)
    if not np.all(norms > 0):
        return Polished(z, settled=False)
    factor = triangle[:q, :q] / norms
    singular = la.svdvals(factor, check_finite=False)
    if singular[-1] <= singular[0] * EPS * q:
        return Polished(z, settled=False)
    coef = la.solve_triangular(factor, triangle[:q, q], check_finite=False) / norms
    last = np.inf
    for _ in range(MAX_REFINEMENTS):
        half = la.solve_triangular(factor, gap(coef) / norms, trans="T", check_finite=False)
        scaled_move = la.solve_triangular(factor, half, check_finite=False)
        size = float(np.linalg.norm(scaled_move))
        if not size < 0.5 * last:
            break
        coef = coef + scaled_move / norms
        last = size
        if size <= EPS * float(np.linalg.norm(coef * norms)):
            break
    return Polished(coef, settled=True)
