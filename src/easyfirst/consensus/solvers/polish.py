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
from numpy.typing import NDArray

from easyfirst.consensus.fleet import Fleet, Weightings
from easyfirst.consensus.solution import everywhere
from easyfirst.consensus.solvers import conjugate
from easyfirst.consensus.solvers.gram import is_well_conditioned, solve_normal, variances
from easyfirst.consensus.statistics import Diagonal, Objective, StackedStatistics
from easyfirst.contracts import EVERY_ROW, Matrix, Vector

MAX_REFINEMENTS = 8
# Variance of a column among the weighted rows, over that of all rows as if none were out, below
# which rows of vanishing weight are all that is left of it.
COLLAPSED = 1e-4
LARGEST_RESIDUAL = 2.0  # by which a polish may raise it, over all rows
MOST_COEFFICIENTS = 5000  # triangles of more would not fit beside the data
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Polished:
    """The coefficients, and whether the rows were found to determine all of them.

    Where they do not, the least-norm solution of the rounds is kept; columns that have lost their
    rows keep the coefficients that the rounds gave them.
    """

    coef: Vector
    is_full_rank: bool


def polish(
    fleet: Fleet,
    objective: Objective,
    stats: StackedStatistics,
    weightings: Weightings,
    z: Vector,
) -> Polished:
    """Return the exact coefficients for fixed weights and a quadratic penalty.

    `z` is where the rounds ended, and is returned where no better point is found: the matrix of
    the last round may belong to other weights than these, so the gain is measured.
    """
    diagonal = objective.penalty_diagonal(z.size)
    if diagonal is None:
        return Polished(z, is_full_rank=False)
    if isinstance(stats.pooled_gram, Diagonal):
        refined = conjugate.refine(fleet, weightings, stats, objective, z)
        return Polished(refined, is_full_rank=False)
    penalised = stats.pooled_gram + np.diag(diagonal)

    def gap(coef: Vector, extended: bool) -> Vector:
        pull = fleet.normal_residual(weightings, coef, extended)
        return np.asarray(pull - diagonal.astype(pull.dtype) * coef, dtype=np.float64)

    kept = _with_support(fleet, objective, penalised)
    if is_well_conditioned(penalised[np.ix_(kept, kept)]):
        return _one_step(penalised, kept, z, lambda coef: gap(coef, False), objective)
    if z.size > MOST_COEFFICIENTS or kept.size < z.size:
        return Polished(z, is_full_rank=False)
    triangle = _merge(fleet.triangles(weightings), diagonal)
    polished = _solve_triangle(triangle, z, lambda coef: gap(coef, True))
    falls = _gain(polished.coef - z, gap(z, True), gap(polished.coef, True)) >= 0.0
    return polished if falls and _stays_near(fleet, polished.coef, z) else Polished(z, False)


def _with_support(fleet: Fleet, objective: Objective, matrix: Matrix) -> NDArray[np.intp]:
    """Return the coefficients whose columns the weighted rows, or a penalty, say something of."""
    there = COLLAPSED * fleet.total_weight * fleet.column_variance
    supported = variances(matrix, objective.fit_intercept) > there
    return np.flatnonzero(np.append(supported, True) if objective.fit_intercept else supported)


def _one_step(
    matrix: Matrix,
    kept: NDArray[np.intp],
    z: Vector,
    gap: Callable[[Vector], Vector],
    objective: Objective,
) -> Polished:
    """Refine some of the coefficients by a matrix that serves well enough, if that helps."""
    step, before = np.zeros(z.size), gap(z)
    some = matrix[np.ix_(kept, kept)]
    step[kept] = solve_normal(some, before[kept], objective.fit_intercept)[0]
    if _gain(step, before, gap(z + step)) < 0.0:
        return Polished(z, is_full_rank=False)
    return Polished(z + step, is_full_rank=kept.size == z.size)


def _gain(step: Vector, before: Vector, after: Vector) -> float:
    """Return by how much a step lowers the objective, given the gaps at both of its ends.

    For fixed weights the objective is quadratic, so its gradients there tell that exactly.
    """
    return float(step @ (before + after))


def _stays_near(fleet: Fleet, coef: Vector, z: Vector) -> bool:
    """Return whether no row, in or out, is taken much further away than the furthest one was."""

    def furthest(point: Vector) -> float:
        points = everywhere(point, fleet.n_batches)
        return fleet.summarize(fleet.weightings(points, EVERY_ROW)).loss_quantile(1.0)

    bound = max(np.sqrt(furthest(z)), fleet.problem.anchor)
    return bool(np.sqrt(furthest(coef)) <= LARGEST_RESIDUAL * bound)


def _merge(triangles: list[Matrix], diagonal: Vector) -> Matrix:
    """Return the triangular factor of all rows, the penalty's rows included."""
    rows = np.sqrt(diagonal[diagonal > 0, None]) * np.eye(diagonal.size)[diagonal > 0]
    penalty = np.hstack([rows, np.zeros((len(rows), 1))])
    return np.asarray(np.linalg.qr(np.vstack([*triangles, penalty]), mode="r"))


def _solve_triangle(triangle: Matrix, z: Vector, gap: Callable[[Vector], Vector]) -> Polished:
    """Solve the least-squares problem held by a triangle, then refine while that helps."""
    q = z.size
    if triangle.shape[0] < q:
        return Polished(z, is_full_rank=False)
    norms = np.linalg.norm(triangle[:q, :q], axis=0)
    if not np.all(norms > 0):
        return Polished(z, is_full_rank=False)
    factor = triangle[:q, :q] / norms
    singular = la.svdvals(factor, check_finite=False)
    if singular[-1] <= singular[0] * EPS * q:
        return Polished(z, is_full_rank=False)
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
    return Polished(coef, is_full_rank=True)
