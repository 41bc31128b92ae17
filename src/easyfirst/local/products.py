"""Steps for fits that form no square matrix: products with the weighted design."""

from __future__ import annotations

import numpy as np

from easyfirst.contracts import Resident, Vector
from easyfirst.local.derivatives import Expansion, predicted
from easyfirst.local.weighing import Problem, Weighting, bands_of, importance, weigh


def curve(
    resident: Resident, weighting: Weighting, message: tuple[Problem, Vector, Expansion | None]
) -> Vector:
    """Return D'R D direction; `message` holds the problem, the direction and an expansion.

    Where an expansion is given, rows count by half their loss's curvature there, too.
    """
    problem, direction, expansion = message
    batch = resident.batch
    row_weights = importance(batch) * weigh(resident, weighting, problem)
    if expansion is not None:
        prediction = predicted(resident, expansion.coef, problem)
        row_weights = 0.5 * row_weights * expansion.loss.curvature(batch.y, prediction)
    return problem.design(batch).curve(row_weights, direction)


def column_squares(resident: Resident, weighting: Weighting, problem: Problem) -> Vector:
    """Return the diagonal of D'R D."""
    batch = resident.batch
    row_weights = importance(batch) * weigh(resident, weighting, problem)
    return problem.design(batch).squares(row_weights)


def probe(resident: Resident, message: tuple[Weighting, int, int], problem: Problem) -> Vector:
    """Return D'R^(1/2) u for random signs u; rows that are far out in X have none.

    `message` holds the weighting, a seed and the number of the batch.
    """
    weighting, seed, number = message
    batch = resident.batch
    signs = np.random.default_rng([seed, number]).choice([-1.0, 1.0], batch.n_samples)
    if problem.far_rule is not None:
        signs *= bands_of(resident, problem.far_rule) == 0
    row_weights = importance(batch) * weigh(resident, weighting, problem)
    return problem.design(batch).transposed_times(signs * np.sqrt(row_weights))
