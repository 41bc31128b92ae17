"""Passes over the rows that judge them by a noise model: where the fit is drawn, what it is worth.

`draw` and `conclude` read the columns once. `conclude` is the last pass of a fit, and gathers all
that is told of it in the end: histogram, what standard errors need, the middle of the clean rows.
Its matrices are those of some rows, drawn at random, where these are enough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from easyfirst.contracts import Block, Matrix, Resident, Vector
from easyfirst.local.steps import Change, Statistics, residual_histograms, tally, weights_before
from easyfirst.local.weighing import (
    NoiseRule,
    Problem,
    importance,
    residual_at,
    row_scales,
    weigh,
    weigher,
)

SEED = 0  # of the rows that matrices are formed of: the same in every fit, and other in each batch


@dataclass(frozen=True)
class Conclusion:
    """What is asked of the last pass.

    Residuals are counted around `center`, and their middle is sought near it by the rule `middle`.
    Matrices are formed of `quota` rows of the batch, drawn by its `number`; of all without a quota.
    """

    change: Change
    center: float
    middle: NoiseRule
    quota: int | None = None
    number: int = 0


@dataclass(frozen=True, eq=False)
class Measured:
    """The matrices behind standard errors: sums over rows, each for those that it stands for.

    gram = sum s w d d', outer = sum s psi**2 d d', weight = sum s w, slope = sum s psi', with
    psi = w r the pull of a row. `fourths` = sum (s w d**2)**2 says of how few rows a diagonal entry
    of `gram` may be the sum; it is zero where all rows were asked. `center_slope` is how fast the
    pull at the center falls with each coefficient.
    """

    gram: Matrix
    outer: Matrix
    weight: float
    slope: float
    fourths: Vector
    center_slope: Vector


@dataclass(frozen=True, eq=False)
class Concluded:
    """What a batch replies to a `Conclusion`.

    `drawn` is what `draw` returns, and `center_pull` how hard the residuals pull at the center.
    """

    counts: Vector
    drawn: Statistics
    measured: Measured
    center_pull: float


def draw(resident: Resident, change: Change, problem: Problem) -> tuple[Vector, Statistics]:
    """Return histograms as `summarize` does, and statistics around the current coefficients.

    `rhs` is D'R r and `square` the weighted loss, r the residuals at the coefficients by which
    the rows are judged; there is no Gram matrix.
    """
    statistics = _drawn(resident, change, problem)
    return _counts(resident, change, problem, 0.0), statistics


def conclude(resident: Resident, asked: Conclusion, problem: Problem) -> Concluded:
    """Gather what the end of a fit needs, in one pass."""
    drawn = _drawn(resident, asked.change, problem)
    pull, away, _ = _at_center(resident, asked, problem, slice(None))
    return Concluded(
        counts=_counts(resident, asked.change, problem, asked.center),
        drawn=drawn,
        measured=measure(resident, asked, problem),
        center_pull=float(pull @ away),
    )


def measure(resident: Resident, asked: Conclusion, problem: Problem) -> Measured:
    """Return the matrices of a batch, or what they are by the rows drawn from it."""
    weighting, batch = asked.change.now, resident.batch
    rule = weighting.noise_rule
    assert rule is not None
    assert weighting.coef is not None
    rows, design = _drawn_rows(resident, asked), problem.design(batch)
    times = 1.0
    if not isinstance(rows, slice):
        design, times = design.rows(rows), batch.n_samples / max(rows.size, 1)
    s, v = times * importance(batch)[rows], weigh(resident, weighting, problem)[rows]
    residual = residual_at(resident, weighting.coef, problem)[rows]
    own = _of_rows(row_scales(resident, rule), rows)
    scaled = residual / own
    counted = s * v * rule.pull(scaled, own)
    squares = np.divide(np.square(counted * residual), s, out=np.zeros_like(s), where=s > 0)
    pull, _, is_held = _at_center(resident, asked, problem, rows)
    target = batch.y[rows]
    return Measured(
        gram=design.gram(counted, target, resident.spread)[0],
        outer=design.gram(squares, target, resident.spread)[0],
        weight=float(counted.sum()),
        slope=float(s @ rule.slope(v, scaled, own)),
        fourths=np.zeros(design.n_coef) if isinstance(rows, slice) else design.fourths(counted),
        # Beyond the knee a row pulls no harder however far it is, so that it has no slope.
        center_slope=design.transposed_times(np.where(is_held, 0.0, times * pull)),
    )


def curvature(resident: Resident, change: Change, problem: Problem) -> Matrix:
    """Return sum s psi' d d': how fast the pull of the rows changes with the coefficients.

    Rows at the edge of the clean ones have a negative slope: their weight falls faster than their
    residual grows.
    """
    weighting = change.now
    rule = weighting.noise_rule
    assert rule is not None
    assert weighting.coef is not None
    batch, own = resident.batch, row_scales(resident, rule)
    residual = residual_at(resident, weighting.coef, problem) / own
    slope = rule.slope(weigh(resident, weighting, problem), residual, own)
    counted, design = importance(batch) * slope, problem.design(batch)
    more, less = (
        design.gram(np.maximum(part, 0.0), batch.y, resident.spread)[0]
        for part in (counted, -counted)
    )
    return np.asarray(more - less)


def _drawn(resident: Resident, change: Change, problem: Problem) -> Statistics:
    """Judge the rows and draw the fit by them, each piece of the columns while it is in cache."""
    weighting, batch = change.now, resident.batch
    rule = weighting.noise_rule
    assert rule is not None
    assert weighting.coef is not None
    block, coef = Block.of(resident), np.array(weighting.coef)
    old = weights_before(block, [change], problem)
    own, s = row_scales(resident, rule), importance(batch)
    probabilities = weigher(block, [weighting], problem)
    residual, v, pull = (np.empty(batch.n_samples) for _ in range(3))
    rhs = np.zeros(coef.size)
    for piece in problem.design(batch).pieces():
        rows = piece.rows
        r = residual[rows] = batch.y[rows] - piece.times(coef)
        scales = _of_rows(own, rows)
        w = v[rows] = probabilities(np.asarray(r / scales), rows)
        pull[rows] = s[rows] * w * rule.pull(r / scales, scales) * r
        rhs += piece.transposed_times(pull[rows])[0]
    resident.keep("residual", weighting.coef, residual)
    resident.keep("weights", weighting, v)
    (counted,) = tally(block, v, old, None)
    return replace(counted, rhs=rhs, square=float(pull @ residual))


def _counts(resident: Resident, change: Change, problem: Problem, center: float) -> Vector:
    weighting = change.now
    assert weighting.noise_rule is not None
    assert weighting.coef is not None
    away = residual_at(resident, weighting.coef, problem) - center
    scaled = np.asarray(away / row_scales(resident, weighting.noise_rule))
    return np.asarray(residual_histograms(Block.of(resident), scaled, problem)[0])


def _at_center(
    resident: Resident, asked: Conclusion, problem: Problem, rows: slice | NDArray[np.intp]
) -> tuple[Vector, Vector, NDArray[np.bool_]]:
    """Return s w around the center, how far rows lie from it, and which lie beyond the knee."""
    weighting, rule = asked.change.now, asked.middle
    assert weighting.coef is not None
    own = _of_rows(row_scales(resident, rule), rows)
    away = residual_at(resident, weighting.coef, problem)[rows] - asked.center
    v = importance(resident.batch)[rows] * weigh(resident, weighting, problem)[rows]
    return v * rule.pull(away / own, own), away, rule.is_held(away / own, own)


def _drawn_rows(resident: Resident, asked: Conclusion) -> slice | NDArray[np.intp]:
    """Return the rows that matrices are formed of.

    They are drawn at random: every k-th row of a table that is in order may be one like the last.
    Sparse ones cost little.
    """
    n = resident.batch.n_samples
    if asked.quota is None or asked.quota >= n or sp.issparse(resident.batch.X):
        return slice(None)
    rng = np.random.default_rng([SEED, asked.number])
    return np.sort(rng.choice(n, asked.quota, replace=False))


def _of_rows(values: Vector | float, rows: slice | NDArray[np.intp]) -> Vector | float:
    return values if isinstance(values, float) else values[rows]
