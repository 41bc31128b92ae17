"""The steps a worker runs: pure functions of (batch, message to this batch, message to all).

A step may ask the resident's memory for what it computed last time, but returns the same bits
without it. Weights are never sent: they follow from the coefficients and the pace.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from easyfirst.contracts import Batch, Matrix, Resident, Vector
from easyfirst.local import passes
from easyfirst.local.passes import Frame
from easyfirst.losses import Loss
from easyfirst.regularizers import SelfPacedRegularizer
from easyfirst.summaries import histogram

ROWS_FOR_MOMENTS = 256  # per batch; enough to tell a column's position from its spread


@dataclass(frozen=True, eq=False)
class Problem:
    """What stays the same for the whole fit; sent with every step."""

    frame: Frame
    loss: Loss
    regularizer: SelfPacedRegularizer
    anchor: float = 1.0


@dataclass(frozen=True)
class Weighting:
    """All that decides the weights of one batch: coefficients, thresholds, width."""

    coef: tuple[float, ...] | None  # a tuple, so that equal weightings compare equal
    below: float = np.inf
    above: float = np.inf
    width: float | None = None

    @property
    def keeps_every_row(self) -> bool:
        """Return whether all weights are one whatever the losses."""
        return self.coef is None or (self.below == np.inf and self.above == np.inf)


@dataclass(frozen=True, eq=False)
class Description:
    """First facts about a batch: sizes, moments of y, moments of a few rows of X."""

    n_samples: int
    n_weighted: int
    total_weight: float
    y_mean: float
    y_scatter: float
    column_sum: Vector
    column_square: Vector
    column_rows: int


@dataclass(frozen=True, eq=False)
class Statistics:
    """What one batch tells the driver about its weighted rows.

    Sums are over rows with sample weight s and self-paced weight v: gram = sum s v d d',
    rhs = sum s v d y, square = sum s v y**2, pacing = sum s f(v), weight = sum s v,
    selected = sum s [v >= 1/2], changed = sum s |v - v before|.
    """

    gram: Matrix
    rhs: Vector
    square: float
    pacing: float
    weight: float
    selected: float
    changed: float
    total: float


def describe(resident: Resident, message: None, problem: None) -> Description:
    """Describe the batch before anything is fitted."""
    del message, problem
    batch = resident.batch
    s = _importance(batch)
    present = np.flatnonzero(s)
    total = float(s.sum())
    mean = float(s @ batch.y) / total if total else 0.0
    few = present[:: max(1, present.size // ROWS_FOR_MOMENTS)]
    rows = batch.X[few]
    rows = rows.toarray() if sp.issparse(rows) else np.asarray(rows, dtype=np.float64)
    return Description(
        n_samples=batch.n_samples,
        n_weighted=int(present.size),
        total_weight=total,
        y_mean=mean,
        y_scatter=float(s @ np.square(batch.y - mean)),
        column_sum=rows.sum(axis=0, dtype=np.float64),
        column_square=np.square(rows, dtype=np.float64).sum(axis=0),
        column_rows=int(few.size),
    )


def summarize(resident: Resident, coef: tuple[float, ...], problem: Problem) -> Vector:
    """Return the signed histogram of the residuals at `coef`."""
    residual = _residual(resident, coef, problem)
    batch = resident.batch
    if not problem.loss.quadratic:
        losses = problem.loss.value(batch.y, batch.y - residual)
        residual = np.copysign(np.sqrt(losses), residual)
    return histogram(residual, batch.sample_weight, problem.anchor)


def form(
    resident: Resident, message: tuple[Weighting, Weighting | None], problem: Problem
) -> Statistics:
    """Weigh the rows and return the weighted statistics; `message` is (now, before)."""
    now, before = message
    batch = resident.batch
    s = _importance(batch)
    old = None if before is None else weigh(resident, before, problem)
    v = weigh(resident, now, problem)
    row_weights = s * v
    inner, rhs = resident.recall(
        "gram", _digest(row_weights), lambda: passes.gram(batch, problem.frame, row_weights)
    )
    return Statistics(
        gram=inner,
        rhs=rhs,
        square=float(row_weights @ np.square(batch.y)),
        pacing=0.0 if now.keeps_every_row else float(s @ _pacing(resident, v, now, problem)),
        weight=float(row_weights.sum()),
        selected=float(s @ (v >= 0.5)),
        changed=float(s.sum() if old is None else s @ np.abs(v - old)),
        total=float(s.sum()),
    )


def weigh(resident: Resident, weighting: Weighting, problem: Problem) -> Vector:
    """Return the self-paced weight of each row, the paper's v."""

    def compute() -> Vector:
        batch = resident.batch
        if weighting.coef is None or weighting.keeps_every_row:
            return np.ones(batch.n_samples)
        residual = _residual(resident, weighting.coef, problem)
        losses = problem.loss.value(batch.y, batch.y - residual)
        rule = problem.regularizer.with_width(weighting.width)
        return rule.weights(losses, _thresholds(residual, weighting))

    weights: Vector = resident.recall("weights", weighting, compute)
    return weights


def triangle(resident: Resident, weighting: Weighting, problem: Problem) -> Matrix:
    """Return the triangular factor of the weighted rows [design, y]."""
    row_weights = _importance(resident.batch) * weigh(resident, weighting, problem)
    return passes.triangle(resident.batch, problem.frame, row_weights)


def normal_residual(
    resident: Resident, message: tuple[Weighting, Vector, bool], problem: Problem
) -> Vector:
    """Return the weighted normal-equation residual; `message` is (weighting, coef, extended)."""
    weighting, coef, extended = message
    row_weights = _importance(resident.batch) * weigh(resident, weighting, problem)
    return passes.normal_residual(resident.batch, problem.frame, row_weights, coef, extended)


def _digest(values: Vector) -> bytes:
    return hashlib.blake2b(values.tobytes(), digest_size=16).digest()


def _importance(batch: Batch) -> Vector:
    return np.ones(batch.n_samples) if batch.sample_weight is None else batch.sample_weight


def _residual(resident: Resident, coef: tuple[float, ...], problem: Problem) -> Vector:
    def compute() -> Vector:
        batch = resident.batch
        return batch.y - passes.predict(batch, problem.frame, np.array(coef))

    residual: Vector = resident.recall("residual", coef, compute)
    return residual


def _thresholds(residual: Vector, weighting: Weighting) -> float | Vector:
    if weighting.below == weighting.above:
        return weighting.above
    return np.where(residual < 0, weighting.below, weighting.above)


def _pacing(resident: Resident, v: Vector, weighting: Weighting, problem: Problem) -> Vector:
    rule = problem.regularizer.with_width(weighting.width)
    if weighting.below == weighting.above:
        return rule.value(v, weighting.above)
    assert weighting.coef is not None
    residual = _residual(resident, weighting.coef, problem)
    return rule.value(v, _thresholds(residual, weighting))
