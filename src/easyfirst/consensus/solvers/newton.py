"""Any loss on all rows at once: damped Newton steps, each one message to every batch and back.

A step expands the weighted loss around the current coefficients (value, gradient, curvature),
minimises the parabola plus the penalty, and is taken if the objective falls as promised. If not,
the next one is held back by a damping that grows tenfold, and shrinks again after each success.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from easyfirst.consensus.solution import Solution
from easyfirst.consensus.solvers import gram
from easyfirst.consensus.solvers.gram import ProximalTerm
from easyfirst.consensus.statistics import Objective, StackedStatistics
from easyfirst.contracts import Vector

PROMISED = 1e-4  # share of the promised decrease that a step must bring
ROUNDING = 1e-13  # relative error of the objective, within which a smaller gradient decides
LEAST_DAMPING, MOST_DAMPING = 1e-8, 1e8  # relative to the curvature

# Statistics of the weighted rows around given coefficients.
Expand = Callable[[Vector], StackedStatistics]

# The best coefficients for the parabola around some, held back there with given strengths, and by
# how much the objective falls on the way if it is that parabola.
Minimise = Callable[[StackedStatistics, Vector, Vector], tuple[Vector, float]]


def solve(
    expand: Expand,
    minimise: Minimise,
    objective: Objective,
    first: StackedStatistics,
    start: Vector,
    tol: float,
    max_iter: int,
) -> tuple[Solution, StackedStatistics]:
    """Minimise from `start`, around which `first` was expanded, until the gradient is below tol.

    Returns the statistics around the solution as well.
    """
    z, stats, damping = start, first, 0.0
    held = strength(stats)
    for _ in range(max_iter):
        if objective.kkt_residual(stats, z) <= tol or damping > MOST_DAMPING:
            break
        step, promised = minimise(stats, z, damping * held)
        # Where no row bends, only a damped step leads anywhere.
        there = None if np.array_equal(step, z) else expand(step)
        if there is not None and _is_better(objective, stats, z, there, step, promised):
            z, stats = step, there
            damping = 0.0 if damping <= LEAST_DAMPING else 0.1 * damping
            held = np.maximum(held, strength(stats))
        else:
            damping = max(10.0 * damping, LEAST_DAMPING)
    solution = replace(
        Solution.at(z, stats.n_batches),
        primal_residual=0.0,
        dual_residual=0.0,
        rho=0.0,
        lagrangian=objective.value(stats, z),
        agreed=objective.kkt_residual(stats, z) <= max(tol, 1e-8),
    )
    return solution, stats


def by_matrix(objective: Objective) -> Minimise:
    """Return how to minimise parabolas whose Gram matrix is known."""

    def minimise(stats: StackedStatistics, z: Vector, held: Vector) -> tuple[Vector, float]:
        diagonal = objective.penalty_diagonal(z.size)
        if diagonal is None:
            there = gram.solve(stats, objective, ProximalTerm(z, held), start=z).z
            return there, objective.value(stats, z) - objective.value(stats, there)
        # For the step alone, which has all its digits even where it is short.
        matrix = stats.pooled_gram + np.diag(diagonal)
        target = -0.5 * stats.gradient(z) - diagonal * z
        step, _ = gram.solve_normal(matrix + np.diag(held), target)
        return z + step, float(step @ (2.0 * target - matrix @ step))

    return minimise


def _is_better(
    objective: Objective,
    stats: StackedStatistics,
    z: Vector,
    there: StackedStatistics,
    step: Vector,
    promised: float,
) -> bool:
    """Return whether the objective falls as the parabola promised, as far as rounding can tell."""
    before, after = objective.value(stats, z), objective.value(there, step)
    if not np.isfinite(after):
        return False
    if abs(before - after) <= ROUNDING * abs(before):
        return objective.kkt_residual(there, step) < objective.kkt_residual(stats, z)
    return before - after >= PROMISED * max(promised, 0.0)


def strength(stats: StackedStatistics) -> Vector:
    """Return the curvature along each coefficient, at least the rows' mean curvature there.

    Where no row bends at the moment, the diagonal of the Gram matrix would hold nothing back.
    """
    assert stats.squares is not None
    diagonal = np.maximum(stats.pooled_gram.diagonal(), 0.0)
    total = float(stats.squares.sum())
    mean = float(diagonal.sum()) / total if total > 0 else 0.0
    return np.asarray(np.maximum(diagonal, (mean or 1.0) * stats.squares))
