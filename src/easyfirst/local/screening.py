"""All-or-nothing weights without a look at most rows.

Between two rounds the coefficients move by little, and a row's residual by no more than its norm
times that. Rows that were further than this from the threshold stay on their side of it; only the
others are predicted anew. What is remembered decides which rows those are, never how they are
judged: a row nearer to the threshold than rounding errors reach is judged by one fixed sequence of
operations, so weights have the same bits whoever computes them, with or without a memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from easyfirst.contracts import Batch, Matrix, Resident, Vector
from easyfirst.local import passes
from easyfirst.local.passes import Frame
from easyfirst.losses import Squared

if TYPE_CHECKING:
    from easyfirst.local.weighing import Problem, Weighting

# Share of the rows near the threshold from which a pass over all of them costs no more.
TOO_MANY = 0.3
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
    if not (problem.regularizer.is_all_or_nothing and isinstance(problem.loss, Squared)):
        return False
    plain = weighting.coef is not None and weighting.whitener is None
    return plain and weighting.single is not None


def screened_weights(resident: Resident, weighting: Weighting, problem: Problem) -> Vector:
    """Return the weight of each row, predicting only those that may have changed sides."""
    assert weighting.single is not None
    batch, frame, coef = resident.batch, problem.frame, np.array(weighting.coef)
    norms = _norms(resident, frame)
    sightings: Sightings | None = resident.latest("sightings")
    if sightings is None or len(sightings.places) >= MOST_PLACES:
        return _anew(resident, weighting, problem)
    least, greatest = sightings.bounds(coef, norms)
    threshold = np.sqrt(weighting.single)
    inside = greatest < threshold
    rows = np.flatnonzero(~(inside | (least > threshold)))
    if rows.size > TOO_MANY * batch.n_samples:
        return _anew(resident, weighting, problem)
    weights: Vector = inside.astype(np.float64)
    if rows.size:
        residual = batch.y[rows] - passes.predict_some(batch, frame, coef, rows)
        weights[rows] = settled_weights(resident, weighting, problem)(residual, rows)
        resident.keep("sightings", (), sightings.updated(coef, rows, residual))
    return weights


def _anew(resident: Resident, weighting: Weighting, problem: Problem) -> Vector:
    batch, coef = resident.batch, np.array(weighting.coef)
    residual = batch.y - passes.predict(batch, problem.frame, coef)
    nowhere = np.zeros(batch.n_samples, dtype=np.int16)
    resident.keep("sightings", (), Sightings(coef[None], np.abs(residual), nowhere))
    return settled_weights(resident, weighting, problem)(residual, slice(None))


def settled_weights(
    resident: Resident, weighting: Weighting, problem: Problem
) -> Callable[[Vector, slice | NDArray[np.intp]], Vector]:
    """Return the function that weighs some rows by their residuals, whatever their rounding."""
    pace = weighting.single
    assert pace is not None
    batch, frame, coef = resident.batch, problem.frame, np.array(weighting.coef)
    norms, slack, size = _norms(resident, frame), _slack(coef), np.linalg.norm(coef)

    def judge(y: Vector, residual: Vector) -> Vector:
        return problem.regularizer.weights(problem.loss.at_residual(y, residual), pace)

    def weights_of(residual: Vector, rows: slice | NDArray[np.intp]) -> Vector:
        y = batch.y[rows]
        weights = judge(y, residual)
        if sp.issparse(batch.X):  # whose rows are summed entry by entry, wherever they stand
            return weights
        reach = slack * (norms[rows] * size + np.abs(y))
        # "Not further" rather than "nearer": a reach that overflowed settles nothing.
        close = np.flatnonzero(~(np.abs(np.abs(residual) - np.sqrt(pace)) > reach))
        if close.size:
            numbers = np.arange(batch.n_samples)[rows][close]
            weights[close] = judge(y[close], fixed_residual(batch, frame, coef, numbers))
        return weights

    return weights_of


def fixed_residual(batch: Batch, frame: Frame, coef: Vector, numbers: NDArray[np.intp]) -> Vector:
    """Return residuals of dense rows by adding up one column after the other.

    Products of matrices sum in an order that depends on where a row stands in its block.
    """
    residual = np.empty(numbers.size)
    for rows in passes.row_slices(numbers.size, batch.n_features):
        block = np.asarray(batch.X[numbers[rows]], dtype=np.float64)
        total = np.array(batch.y[numbers[rows]], dtype=np.float64)
        for j in range(batch.n_features):
            column = block[:, j] if frame.shift is None else block[:, j] - frame.shift[j]
            total -= column * coef[j]
        residual[rows] = total - coef[-1] if frame.fit_intercept else total
    return residual


def _slack(coef: Vector) -> float:
    """Return how far rounding takes a residual at most, relative to the sizes it is made of."""
    return float(4 * (coef.size + 8) * np.finfo(np.float64).eps)


def _norms(resident: Resident, frame: Frame) -> Vector:
    """Return a bound on the norm of each design row, the numbers it is computed from included."""

    def compute() -> Vector:
        batch = resident.batch
        squares = np.empty(batch.n_samples)
        for rows, block in passes.blocks(batch, frame):
            if sp.issparse(block):
                squares[rows] = np.asarray(block.power(2).sum(axis=1)).ravel()
            else:
                squares[rows] = np.einsum("ij,ij->i", block, block)
        norms = np.sqrt(squares) + float(frame.fit_intercept)
        if sp.issparse(batch.X) and frame.shift is not None:
            norms += np.linalg.norm(frame.shift)
        return np.asarray(norms * (1.0 + 1e-9))

    norms: Vector = resident.recall("norms", (), compute)
    return norms
