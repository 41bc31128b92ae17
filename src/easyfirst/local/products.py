"""Steps for fits that form no square matrix: products with the weighted design."""

from __future__ import annotations

from easyfirst.contracts import Resident, Vector
from easyfirst.local import passes
from easyfirst.local.weighing import Problem, Weighting, importance, weigh


def curve(resident: Resident, weighting: Weighting, message: tuple[Problem, Vector]) -> Vector:
    """Return D'R D direction; `message` holds the problem and the direction."""
    problem, direction = message
    batch, frame = resident.batch, problem.frame
    row_weights = importance(batch) * weigh(resident, weighting, problem)
    total = passes.zeros(batch, frame)
    for rows, block in passes.blocks(batch, frame):
        image = row_weights[rows] * passes.times(block, frame, direction)
        total += passes.transposed_times(block, frame, image)
    return total


def column_squares(resident: Resident, weighting: Weighting, problem: Problem) -> Vector:
    """Return the diagonal of D'R D."""
    batch, frame = resident.batch, problem.frame
    row_weights = importance(batch) * weigh(resident, weighting, problem)
    total = passes.zeros(batch, frame)
    for rows, block in passes.blocks(batch, frame):
        total += passes.column_squares(block, frame, row_weights[rows])
    return total
