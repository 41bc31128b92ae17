"""All-or-nothing weights that skip most rows.

Between two rounds the coefficients move by little, and a row's residual by no more than its norm
times that. Rows that were further than this from the threshold stay on their side of it; only the
others are predicted anew. What is remembered decides which rows those are, never how they are
judged: a row nearer to the threshold than rounding errors reach is judged by one fixed sequence of
operations, so weights have the same bits whoever computes them, with or without a memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Block, Matrix, Vector

if TYPE_CHECKING:
    from easyfirst.local.weighing import Problem, Weighting

# Share of the rows near the threshold from which a pass over all of them costs no more.
TOO_MANY = 0.3
ROUNDING = float(np.finfo(np.float64).eps)
# Places that residuals may date from; beyond, all rows are predicted anew.
MOST_PLACES = 1000


@dataclass(frozen=True, eq=False)
class Sightings:
    """The size of each row's residual when it was last predicted, and at which of the places."""

    places: Matrix  # coefficients, one row each
    sizes: Vector
    place_of: NDArray[np.int16]

    def bounds(self, coef: Vector, norms: Vector) -> tuple[Vector, Vector]:
        """Return the least and the greatest size that residuals can have at `coef`."""
        slack = _slack(coef)
        away = np.linalg.norm(self.places - coef, axis=1)
        # The sizes that numbers are rounded from; |y| is at most a residual plus a prediction.
        rounded = np.linalg.norm(coef) + 3.0 * np.linalg.norm(self.places, axis=1)
        reach = norms * (away + slack * (rounded + away))[self.place_of]
        return self.sizes * (1.0 - 2.0 * slack) - reach, self.sizes * (1.0 + 2.0 * slack) + reach

    def updated(self, coef: Vector, rows: NDArray[np.intp], residual: Vector) -> Sightings:
        """Return what is known after some rows were predicted at `coef`.

        A copy: whoever else works on this batch may be reading.
        """
        sizes, place_of = self.sizes.copy(), self.place_of.copy()
        sizes[rows], place_of[rows] = np.abs(residual), len(self.places)
        return Sightings(np.vstack([self.places, coef]), sizes, place_of)


def is_all_or_nothing(weighting: Weighting, problem: Problem) -> bool:
    """Return whether a row's weight depends only on the side of one threshold it lies on."""
    if not (problem.regularizer.is_all_or_nothing and problem.loss.quadratic):
        return False
    if problem.n_outputs > 1:
        return False
    plain = weighting.coef is not None and weighting.whitener is None
    return plain and weighting.single is not None


def screened_weights(block: Block, weighting: Weighting, problem: Problem) -> Vector:
    """Return the weight of each row, predicting only those that may have changed sides."""
    assert weighting.single is not None
    batch, coef = block.rows, np.array(weighting.coef)
    norms = _norms(block, problem)
    sightings: Sightings | None = block.latest("sightings")
    if sightings is None or len(sightings.places) >= MOST_PLACES:
        return _anew(block, weighting, problem)
    least, greatest = sightings.bounds(coef, norms)
    threshold = np.sqrt(weighting.single)
    inside = greatest < threshold
    rows = np.flatnonzero(~(inside | (least > threshold)))
    if rows.size > TOO_MANY * batch.n_samples:
        return _anew(block, weighting, problem)
    weights: Vector = inside.astype(np.float64)
    if rows.size:
        residual = batch.y[rows] - problem.design(batch).times_of(rows, coef)
        weights[rows] = settled_weights(block, weighting, problem)(residual, rows)
        block.keep("sightings", (), sightings.updated(coef, rows, residual))
    return weights


def _anew(block: Block, weighting: Weighting, problem: Problem) -> Vector:
    batch, coef = block.rows, np.array(weighting.coef)
    residual = batch.y - problem.design(batch).times(coef)
    nowhere = np.zeros(batch.n_samples, dtype=np.int16)
    block.keep("sightings", (), Sightings(coef[None], np.abs(residual), nowhere))
    return settled_weights(block, weighting, problem)(residual, slice(None))


def settled_weights(
    block: Block, weighting: Weighting, problem: Problem
) -> Callable[[Vector, slice | NDArray[np.intp]], Vector]:
    """Return the function that weighs some rows by their residuals, whatever their rounding."""
    pace = weighting.single
    assert pace is not None
    batch, coef = block.rows, np.array(weighting.coef)
    design = problem.design(batch)
    norms = _norms(block, problem)

    def judge(y: Vector, residual: Vector) -> Vector:
        return problem.regularizer.weights(problem.loss.at_residual(y, residual), pace)

    def weights_of(residual: Vector, rows: slice | NDArray[np.intp]) -> Vector:
        y = batch.y[rows]
        weights = judge(y, residual)
        if design.sums_in_fixed_order:
            return weights
        reach = reach_of_rounding(coef, norms[rows], np.abs(y))
        # "Not further" rather than "nearer": a reach that overflowed settles nothing.
        close = np.flatnonzero(~(np.abs(np.abs(residual) - np.sqrt(pace)) > reach))
        if close.size:
            numbers = np.arange(batch.n_samples)[rows][close]
            settled = design.times_by_column(numbers, coef, y[close])
            weights[close] = judge(y[close], settled)
        return weights

    return weights_of


def reach_of_rounding(coef: Vector, norms: Any, sizes: Any) -> Any:
    """Return how far rounding takes residuals of rows with these norms, and sizes of y, at most."""
    return _slack(coef) * (norms * np.sqrt(coef @ coef) + sizes)


def _slack(coef: Vector) -> float:
    """Return how far rounding takes a residual at most, relative to the sizes it is made of."""
    return 4 * (coef.size + 8) * ROUNDING


def _norms(block: Block, problem: Problem) -> Vector:
    norms: Vector = block.recall("norms", (), problem.design(block.rows).norms)
    return norms
