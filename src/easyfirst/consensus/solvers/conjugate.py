"""The solution without any square matrix: conjugate gradients on products with the rows.

For thousands of columns, where a Gram matrix would be larger than the data. Workers exchange one
vector per iteration; the diagonal of the Gram matrix serves as the preconditioner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from easyfirst.consensus.fleet import Fleet, Weightings
from easyfirst.consensus.solution import Solution
from easyfirst.consensus.solvers.newton import Minimise
from easyfirst.consensus.statistics import Objective, StackedStatistics
from easyfirst.contracts import Vector

WITHIN_A_ROUND = 0.03  # of the gradient that may be left: the next round has other weights anyway
AT_THE_END = 1e-8
MOST_ITERATIONS = 500


def solve(
    fleet: Fleet,
    weightings: Weightings,
    stats: StackedStatistics,
    objective: Objective,
    z: Vector,
    pull: Vector | float = 0.0,
) -> tuple[Solution, StackedStatistics]:
    """Step from `z`, around which the statistics were gathered, towards the best coefficients.

    `pull` is the strength with which each coefficient is held at `z`. Returns the statistics
    around the new point as well.
    """
    diagonal = _penalty(objective, z)
    gradient = stats.pooled_rhs - stats.pooled_gram @ z
    held = diagonal + pull
    step, curved = _conjugate_gradients(
        lambda direction: fleet.curve(weightings, direction),
        stats.pooled_gram.diagonal() + held,
        held,
        gradient - diagonal * z,
        WITHIN_A_ROUND,
    )
    stats = stats.moved(z, gradient, step, curved)
    z = z + step
    solution = replace(
        Solution.at(z, stats.n_batches),
        primal_residual=0.0,
        dual_residual=0.0,
        rho=0.0,
        lagrangian=objective.value(stats, z),
        agreed=True,
    )
    return solution, stats


def by_products(curve: Callable[[Vector, Vector], Vector], objective: Objective) -> Minimise:
    """Return how to minimise parabolas by products alone; `curve(z, d)` is the Gram matrix's at z.

    As exactly as the gradient is small, so that early steps cost little and late ones converge.
    """

    def minimise(stats: StackedStatistics, z: Vector, held: Vector) -> tuple[Vector, float]:
        diagonal = _penalty(objective, z)
        target = -0.5 * stats.gradient(z) - diagonal * z
        tol = min(WITHIN_A_ROUND, objective.kkt_residual(stats, z) ** 0.5)
        total = stats.pooled_gram.diagonal() + diagonal + held
        step, curved = _conjugate_gradients(
            lambda direction: curve(z, direction), total, diagonal + held, target, tol
        )
        promised = 2.0 * float(target @ step) - float(step @ (curved + diagonal * step))
        return z + step, promised

    return minimise


def refine(
    fleet: Fleet,
    weightings: Weightings,
    stats: StackedStatistics,
    objective: Objective,
    z: Vector,
    tol: float = AT_THE_END,
) -> Vector:
    """Return the coefficients that are best for these weights, to many digits unless told."""
    diagonal = _penalty(objective, z)
    gradient = fleet.normal_residual(weightings, z, extended=False) - diagonal * z
    return (
        z
        + _conjugate_gradients(
            lambda direction: fleet.curve(weightings, direction),
            stats.pooled_gram.diagonal() + diagonal,
            diagonal,
            gradient,
            tol,
        )[0]
    )


def degrees_of_freedom(
    fleet: Fleet, weightings: Weightings, squares: Vector, objective: Objective, seed: int
) -> float:
    """Return about how many the fit of these rows takes, from those inside if some are far.

    That is the trace of their part of the hat matrix, by the response to random signs. `squares`
    is the diagonal of the Gram matrix.
    """
    signs = fleet.probe(weightings, seed)
    diagonal = _penalty(objective, signs)
    response = _conjugate_gradients(
        lambda direction: fleet.curve(weightings, direction),
        squares + diagonal,
        diagonal,
        signs,
        WITHIN_A_ROUND,
    )[0]
    return float(signs @ response)


def _penalty(objective: Objective, z: Vector) -> Vector:
    diagonal = objective.penalty_diagonal(z.size)
    if diagonal is None:
        raise ValueError(
            f"solver='cg' needs a quadratic penalty, got {objective.penalty!r}; use solver='gram'"
        )
    return diagonal


def _conjugate_gradients(
    curve: Callable[[Vector], Vector],
    total: Vector,
    diagonal: Vector,
    target: Vector,
    tol: float,
) -> tuple[Vector, Vector]:
    """Return the step with (G + diagonal) step = target, and G step, up to `tol` of the target.

    `curve` gives G times a direction, and `total` is the diagonal of G + diagonal. Sizes are
    measured in the norm of that, so that nothing depends on the units of columns.
    """
    inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    step, curved, rest = np.zeros_like(target), np.zeros_like(target), target
    scaled = inverse * rest
    size = first = float(rest @ scaled)
    direction = scaled
    for _ in range(MOST_ITERATIONS):
        if size <= tol**2 * first:
            break
        image = curve(direction)
        bend = float(direction @ image + direction @ (diagonal * direction))
        if bend <= 0:  # the rows say nothing about what is left
            break
        length = size / bend
        step, curved = step + length * direction, curved + length * image
        rest = rest - length * (image + diagonal * direction)
        scaled = inverse * rest
        last, size = size, float(rest @ scaled)
        direction = scaled + (size / last) * direction
    return step, curved
