"""Passes over the rows that judge them by a noise model: where the fit is drawn, what it is worth.

`draw` forms no matrix. `conclude` is the last pass of a fit, and gathers in one go all that is told
of it in the end: histogram, Gram matrix, what standard errors need, the middle of the clean rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from easyfirst.contracts import Block, Matrix, Resident, Vector
from easyfirst.local.steps import (
    Change,
    Statistics,
    form,
    residual_histograms,
    scatter,
    weigh_and_count,
)
from easyfirst.local.weighing import (
    NoiseRule,
    Problem,
    importance,
    residual_at,
    row_scales,
    row_weights,
    weigh,
)


@dataclass(frozen=True)
class Conclusion:
    """What is asked of the last pass.

    Residuals are counted around `center`, and their middle is sought near it by the rule `middle`;
    `scale` is that of the noise.
    """

    change: Change
    scale: float
    center: float
    middle: NoiseRule


@dataclass(frozen=True, eq=False)
class Concluded:
    """What a batch replies to a `Conclusion`.

    `formed` is what `form` returns and `drawn` what `draw` does; (`outer`, `weight`, `slope`) is
    what `scatter` returns. `center_pull` is how hard the residuals pull at the center, and
    `center_slope` how fast that falls with each coefficient.
    """

    counts: Vector
    formed: Statistics
    drawn: Statistics
    outer: Matrix
    weight: float
    slope: float
    center_pull: float
    center_slope: Vector


def draw(resident: Resident, change: Change, problem: Problem) -> tuple[Vector, Statistics]:
    """Return histograms as `summarize` does, and statistics around the current coefficients.

    `rhs` is D'R r and `square` the weighted loss, r the residuals at the coefficients by which
    the rows are judged; there is no Gram matrix.
    """
    return _counts(resident, change, problem, 0.0), _drawn(resident, change, problem)


def conclude(resident: Resident, asked: Conclusion, problem: Problem) -> Concluded:
    """Gather what the end of a fit needs, in one pass."""
    change = asked.change
    outer, weight, slope = scatter(resident, (change.now, asked.scale), problem)
    pull, falls = _at_center(resident, asked, problem)
    return Concluded(
        counts=_counts(resident, change, problem, asked.center),
        formed=form(resident, change, problem),
        drawn=_drawn(resident, change, problem),
        outer=outer,
        weight=weight,
        slope=slope,
        center_pull=pull,
        center_slope=falls,
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


def _counts(resident: Resident, change: Change, problem: Problem, center: float) -> Vector:
    weighting = change.now
    assert weighting.noise_rule is not None
    assert weighting.coef is not None
    away = residual_at(resident, weighting.coef, problem) - center
    scaled = np.asarray(away / row_scales(resident, weighting.noise_rule))
    return np.asarray(residual_histograms(Block.of(resident), scaled, problem)[0])


def _drawn(resident: Resident, change: Change, problem: Problem) -> Statistics:
    _, (tally,) = weigh_and_count(Block.of(resident), [change], problem)
    assert change.now.coef is not None
    residual = residual_at(resident, change.now.coef, problem)
    pull = row_weights(resident, change.now, problem) * residual
    rhs = problem.design(resident.batch).transposed_times(pull)
    return replace(tally, rhs=rhs, square=float(pull @ residual))


def _at_center(resident: Resident, asked: Conclusion, problem: Problem) -> tuple[float, Vector]:
    """Return the sum of s w r around the center, and its slope by each coefficient.

    Beyond the knee a row pulls no harder however far it is, so that it has no slope.
    """
    weighting, rule = asked.change.now, asked.middle
    assert weighting.coef is not None
    own = row_scales(resident, rule)
    away = residual_at(resident, weighting.coef, problem) - asked.center
    v = importance(resident.batch) * weigh(resident, weighting, problem)
    pull = v * rule.pull(away / own, own)
    slope = np.where(rule.is_held(away / own, own), 0.0, pull)
    return float(pull @ away), problem.design(resident.batch).transposed_times(slope)
