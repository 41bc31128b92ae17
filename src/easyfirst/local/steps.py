"""The steps a worker runs: pure functions of (batch, message to this batch, message to all).

A step may ask the resident's memory for what it computed last time, but returns the same bits
without it. Weights are never sent: they follow from the coefficients and the pace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from easyfirst.contracts import Batch, Matrix, Resident, Vector
from easyfirst.local import passes
from easyfirst.local.weighing import (
    Problem,
    Weighting,
    importance,
    judged_residual,
    pacing,
    residual_at,
    strata_of,
    weigh,
    weigher,
    weights_afresh,
)
from easyfirst.summaries import histogram

NO_MATRIX = np.zeros((0, 0))
ROWS_FOR_MOMENTS = (64, 256)  # least and most per batch; enough to tell position from spread


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
    s = batch.sample_weight
    present = None if s is None else np.flatnonzero(s)
    n_present = batch.n_samples if present is None else int(present.size)
    total = float(batch.n_samples if s is None else s.sum())
    mean = _summed(batch.y, s) / total if total else 0.0
    wanted = min(max(n_present // 8, ROWS_FOR_MOMENTS[0]), ROWS_FOR_MOMENTS[1])
    some = slice(None, None, max(1, n_present // wanted))
    rows = batch.X[some if present is None else present[some]].astype(np.float64)
    squares = rows.power(2) if sp.issparse(rows) else np.square(rows)
    return Description(
        n_samples=batch.n_samples,
        n_weighted=n_present,
        total_weight=total,
        y_mean=mean,
        y_scatter=_summed(np.square(batch.y - mean), s),
        column_sum=np.asarray(rows.sum(axis=0)).ravel(),
        column_square=np.asarray(squares.sum(axis=0)).ravel(),
        column_rows=int(rows.shape[0]),
    )


def summarize(resident: Resident, weighting: Weighting, problem: Problem) -> Vector:
    """Return signed histograms, one per stratum, of the residuals that judge the rows."""
    residual = judged_residual(resident, weighting, problem)
    return _histograms(resident, residual, problem)


def _histograms(resident: Resident, residual: Vector, problem: Problem) -> Vector:
    signed = problem.loss.signed_root(resident.batch.y, residual)
    s = resident.batch.sample_weight
    if problem.far_rule is None:
        return histogram(signed, s, problem.anchor)[None]
    strata = strata_of(resident, problem.far_rule)
    rows = [np.flatnonzero(strata == k) for k in range(problem.far_rule.n_strata)]
    return np.stack(
        [histogram(signed[r], None if s is None else s[r], problem.anchor) for r in rows]
    )


@dataclass(frozen=True)
class Change:
    """From which weights to which: `now` from `before`, and a `reference` known from earlier."""

    now: Weighting
    before: Weighting | None = None
    reference: Weighting | None = None


def form(resident: Resident, change: Change, problem: Problem) -> Statistics:
    """Weigh the rows and return the weighted statistics."""
    row_weights, tally = _weigh_and_count(resident, change, problem)
    inner, rhs = _gram(resident, row_weights, change, problem)
    y_squared = resident.recall("y squared", (), lambda: np.square(resident.batch.y))
    square = float(row_weights @ y_squared)
    paced = pacing(resident, change.now, problem)
    return replace(tally, gram=inner, rhs=rhs, square=square, pacing=paced)


def _gram(
    resident: Resident, row_weights: Vector, change: Change, problem: Problem
) -> tuple[Matrix, Vector]:
    """Return the Gram matrix and right-hand side, from the reference's where few rows differ.

    A pure function of the two sets of weights: the reference's matrix is summed from its rows
    alone, whatever path led here, so a worker that lost it gets the same bits.
    """
    batch, frame, reference = resident.batch, problem.frame, change.reference

    def summed(weighting: Weighting, values: Vector) -> tuple[Matrix, Vector]:
        known: tuple[Matrix, Vector] = resident.recall(
            "gram", weighting, lambda: passes.gram(batch, frame, values, resident.spread)
        )
        return known

    if reference is None:
        return summed(change.now, row_weights)
    base_weights: Vector = resident.recall(
        "reference weights", reference, lambda: weights_afresh(resident, reference, problem)
    )
    if batch.sample_weight is not None:
        base_weights = batch.sample_weight * base_weights
    difference = row_weights - base_weights
    rows = np.flatnonzero(difference)
    if 2 * rows.size > np.count_nonzero(row_weights):
        return summed(change.now, row_weights)
    base, base_rhs = summed(reference, base_weights)

    def of_some(chosen: NDArray[np.intp]) -> tuple[Matrix, Vector]:
        few = Batch(X=batch.X[chosen], y=batch.y[chosen])
        return passes.gram(few, frame, np.abs(difference[chosen]), resident.spread)

    more, more_rhs = of_some(rows[difference[rows] > 0])
    less, less_rhs = of_some(rows[difference[rows] < 0])
    return base + more - less, base_rhs + more_rhs - less_rhs


def sweep(
    resident: Resident, change: Change, problem: Problem
) -> tuple[NDArray[np.float64], Statistics]:
    """Return histograms as `summarize` does, and statistics around the current coefficients.

    `rhs` is D'R r and `square` the weighted loss, r the residuals at the coefficients by which
    the rows are judged; there is no Gram matrix. One pass over the rows does it all, each block
    while it is in cache.
    """
    batch, now = resident.batch, change.now
    assert now.coef is not None
    assert now.whitener is None, "leverage needs a pass of its own"
    old = None if change.before is None else weigh(resident, change.before, problem)
    s, frame = batch.sample_weight, problem.frame
    coef = np.array(now.coef)
    weights_of = None if now.keeps_every_row else weigher(resident, now, problem)
    residuals, weights, rhs = [], [], np.zeros(coef.size)
    for rows, block in passes.blocks(batch, frame):
        r = batch.y[rows] - passes.times(block, frame, coef)
        v = np.ones(r.size) if weights_of is None else weights_of(r, rows)
        pull = v * r if s is None else s[rows] * (v * r)
        rhs += passes.transposed_times(block, frame, pull)
        residuals.append(r)
        weights.append(v)
    residual, v = _end_to_end(residuals), _end_to_end(weights)
    resident.keep("residual", now.coef, residual)
    resident.keep("weights", now, v)
    square = float((v if s is None else s * v) @ np.square(residual))
    return _histograms(resident, residual, problem), _count(s, v, old, rhs, square)


def _end_to_end(parts: Sequence[Vector]) -> Vector:
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0), *parts])


def _weigh_and_count(
    resident: Resident, change: Change, problem: Problem
) -> tuple[Vector, Statistics]:
    """Return the row weights s v, and what can be counted without columns and regularizer."""
    s = resident.batch.sample_weight
    old = None if change.before is None else weigh(resident, change.before, problem)
    v = weigh(resident, change.now, problem)
    return v if s is None else s * v, _count(s, v, old)


def _count(
    s: Vector | None,
    v: Vector,
    old: Vector | None,
    rhs: Vector | None = None,
    square: float = 0.0,
) -> Statistics:
    total = float(v.size if s is None else s.sum())
    return Statistics(
        gram=NO_MATRIX,
        rhs=np.zeros(0) if rhs is None else rhs,
        square=square,
        pacing=0.0,
        weight=_summed(v, s),
        selected=float(np.count_nonzero(v >= 0.5) if s is None else s @ (v >= 0.5)),
        changed=total if old is None else _summed(np.abs(v - old), s),
        total=total,
    )


def _summed(values: Vector, s: Vector | None) -> float:
    """Return the sum of values over the rows, by sample weight if there is one."""
    return float(values.sum() if s is None else s @ values)


def _present(batch: Batch) -> NDArray[np.intp]:
    """Return the rows of positive sample weight."""
    s = batch.sample_weight
    return np.arange(batch.n_samples) if s is None else np.flatnonzero(s)


def influence(resident: Resident, message: tuple[Weighting, float], problem: Problem) -> Vector:
    """Return (sum v, sum psi', sum psi**2, sum psi'**2) with psi = v r; `message` has the scale.

    These totals say how the weighted fit reacts to its rows, from which standard errors follow.
    """
    weighting, scale = message
    assert weighting.coef is not None
    s = resident.batch.sample_weight
    v = weigh(resident, weighting, problem)
    residual = residual_at(resident, weighting.coef, problem)
    return np.array([_summed(term, s) for term in influence_terms(v, residual, scale)])


def influence_terms(v: Vector, residual: Vector, scale: float) -> tuple[Vector, ...]:
    """Return v, psi', psi**2 and psi'**2 of each row."""
    slope = v * (1.0 - (1.0 - v) * np.minimum(np.square(residual / scale), 1400.0))
    return v, slope, np.square(v * residual), np.square(slope)


def sample(resident: Resident, message: tuple[int, int, int], problem: None) -> Batch:
    """Return rows drawn without replacement; `message` is (how many, seed, batch number)."""
    del problem
    quota, seed, number = message
    batch = resident.batch
    present = _present(batch)
    if batch.n_samples == present.size <= quota:
        return Batch(X=batch.X, y=batch.y, sample_weight=batch.sample_weight)
    if present.size > quota:
        rng = np.random.default_rng([seed, number])
        present = np.sort(rng.choice(present, quota, replace=False))
    return Batch(
        X=batch.X[present],
        y=batch.y[present],
        sample_weight=None if batch.sample_weight is None else batch.sample_weight[present],
    )


def triangle(resident: Resident, weighting: Weighting, problem: Problem) -> Matrix:
    """Return the triangular factor of the weighted rows [design, y]."""
    row_weights = importance(resident.batch) * weigh(resident, weighting, problem)
    return passes.triangle(resident.batch, problem.frame, row_weights)


def normal_residual(
    resident: Resident, message: tuple[Weighting, Vector, bool], problem: Problem
) -> Any:
    """Return the weighted normal-equation residual; `message` is (weighting, coef, extended)."""
    weighting, coef, extended = message
    row_weights = importance(resident.batch) * weigh(resident, weighting, problem)
    if extended:
        return passes.extended_normal_residual(resident.batch, problem.frame, row_weights, coef)
    residual = residual_at(resident, tuple(coef.tolist()), problem)
    return passes.normal_residual(resident.batch, problem.frame, row_weights, residual)
