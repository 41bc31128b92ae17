"""A batch's own part of a consensus iteration: its weighted loss plus a pull towards a center.

    minimise over w:  sum s v loss(y, D w)  +  1/2 sum rho (w - center)**2

by Newton steps from a warm start. The curvature is factored at an anchor and used as long as it
leads on; a step that shrinks the gradient too little moves the anchor to where the step ends. The
driver keeps the anchor and sends it with every message, so a worker that lost its factor builds the
same one again, and the reply is a function of the batch and the message alone. For the squared
loss, the curvature is the same everywhere: one factor per round, one step per iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg as la

from easyfirst.contracts import Resident, Vector
from easyfirst.local.derivatives import evaluated
from easyfirst.local.design import Design
from easyfirst.local.weighing import Problem, Weighting, digest_of, importance, weigh
from easyfirst.losses import Loss

MOST_STEPS = 100
LEADS_ON = 0.3  # share of the gradient that may be left after a step with an older factor
SHORTEST = 1e-10  # step, in Newton steps


@dataclass(frozen=True, eq=False)
class Pull:
    """The message to one batch: where it is drawn to, and where it was last."""

    weighting: Weighting
    center: Vector
    start: Vector
    anchor: Vector


@dataclass(frozen=True, eq=False)
class Terms:
    """The message to all: the loss, the strength of the pull, and how exactly to solve.

    `tolerance` bounds the gradient, each entry over the root of rho.
    """

    problem: Problem
    loss: Loss
    rho: Vector
    tolerance: float


@dataclass(frozen=True, eq=False)
class Response:
    """The batch's coefficients, the value of its loss there, and where its factor is from."""

    coef: Vector
    loss: float
    anchor: Vector


def respond(resident: Resident, pull: Pull, terms: Terms) -> Response:
    """Solve the batch's subproblem."""
    batch, rho, loss = resident.batch, terms.rho, terms.loss
    design = terms.problem.design(batch)
    row_weights = importance(batch) * weigh(resident, pull.weighting, terms.problem)

    def objective(prediction: Vector, coef: Vector) -> float:
        values = evaluated(loss, "value", batch.y, prediction)
        return float(row_weights @ values + 0.5 * rho @ np.square(coef - pull.center))

    def gradient(prediction: Vector, coef: Vector) -> Vector:
        slope = evaluated(loss, "gradient", batch.y, prediction)
        drawn = design.transposed_times(row_weights * slope)
        return np.asarray(drawn + rho * (coef - pull.center))

    coef, anchor = pull.start, pull.anchor
    prediction = design.times(coef)
    value, slope = objective(prediction, coef), gradient(prediction, coef)
    for _ in range(MOST_STEPS):
        size = _size(slope, rho)
        if size <= terms.tolerance:
            break
        factor = _factor(resident, pull.weighting, row_weights, anchor, terms)
        step = -factor.solve(slope)
        change = design.times(step)
        promised, length = float(slope @ step), 1.0
        while length > SHORTEST:
            there, ahead = coef + length * step, prediction + length * change
            reached = objective(ahead, there)
            if reached <= value + 1e-4 * length * promised or loss.quadratic:
                break
            length *= 0.5
        follows = gradient(ahead, there)
        is_rounding = abs(reached - value) <= 1e-14 * abs(value)
        if length <= SHORTEST or (is_rounding and _size(follows, rho) >= size):
            if np.array_equal(anchor, coef):
                break
            anchor = coef
            continue
        coef, prediction, value, slope = there, ahead, reached, follows
        if not loss.quadratic and _size(slope, rho) > LEADS_ON * size:
            anchor = coef
    losses = evaluated(loss, "value", batch.y, prediction)
    return Response(coef, float(row_weights @ losses), anchor)


def _size(slope: Vector, rho: Vector) -> float:
    return float(np.sqrt(np.sum(np.square(slope) / rho)))


@dataclass(frozen=True, eq=False)
class _OfColumns:
    """The Cholesky factor of the curvature plus rho: for batches with more rows than columns."""

    factor: Any

    def solve(self, slope: Vector) -> Vector:
        return np.asarray(la.cho_solve(self.factor, slope, check_finite=False))


@dataclass(frozen=True, eq=False)
class _OfRows:
    """The same by Woodbury's formula: a matrix as large as the number of rows that bend."""

    design: Design
    roots: Vector  # of the curvature of every row
    rows: Any
    rho: Vector
    factor: Any

    def solve(self, slope: Vector) -> Vector:
        scaled = slope / self.rho
        image = self.roots * self.design.times(scaled)
        inner = np.zeros_like(image)
        inner[self.rows] = la.cho_solve(self.factor, image[self.rows], check_finite=False)
        back = self.design.transposed_times(self.roots * inner)
        return np.asarray(scaled - back / self.rho)


def _factor(
    resident: Resident, weighting: Weighting, row_weights: Vector, anchor: Vector, terms: Terms
) -> _OfColumns | _OfRows:
    batch, loss = resident.batch, terms.loss
    design = terms.problem.design(batch)

    def compute() -> _OfColumns | _OfRows:
        curvature = evaluated(loss, "curvature", batch.y, design.times(anchor))
        bend = row_weights * curvature
        rows = np.flatnonzero(bend)
        if rows.size < terms.rho.size:
            roots = np.sqrt(bend)
            matrix = design.outer(rows, 1.0 / terms.rho)
            matrix *= roots[rows, None] * roots[rows]
            matrix[np.diag_indices(rows.size)] += 1.0
            factor = la.cho_factor(matrix, lower=True, check_finite=False)
            return _OfRows(design, roots, rows, terms.rho, factor)
        matrix = design.gram(bend, batch.y, resident.spread)[0]
        matrix[np.diag_indices(terms.rho.size)] += terms.rho
        return _OfColumns(la.cho_factor(matrix, lower=True, check_finite=False))

    place = None if loss.quadratic else digest_of(anchor)
    key = (weighting, loss, place, digest_of(terms.rho))
    found: _OfColumns | _OfRows = resident.recall("factor", key, compute)
    return found
