"""Whether a positive target had better be fitted as its logarithm or its square root.

Rows of the sample are fitted plainly on each scale, each with the noise that it asks for there. A
density of the transformed target times the slope of the transformation is a density of y, so the
fits can be compared by how likely they make the rows. Corrupted rows have no say: beside every fit
stands the same density of y whatever the row, which bounds what a row can cost, and a row far from
all fits is worth the same to each of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from easyfirst.consensus.checks.robust_rows import RobustRows
from easyfirst.consensus.checks.second_opinion import Opinion
from easyfirst.consensus.rounds.of_noise import NoiseState
from easyfirst.consensus.starts.asked_rows import spread_rows
from easyfirst.consensus.starts.found import SampleFit
from easyfirst.consensus.starts.sample import SCREENED_FEATURES
from easyfirst.contracts import Vector
from easyfirst.noise import Kind
from easyfirst.noise.zones import NEAR
from easyfirst.transforms import IDENTITY, LOG, SQRT, TargetTransform

ROWS = (2000, 12)  # at the most, or so many per coefficient
FEWEST_ROWS = 30
NO_MATTER = 0.1  # share of rows of which a fit is taken to say nothing
CELLS = 24  # of the histogram of y that speaks for those
CLEARLY, BY_FAR = 0.03, 0.1  # log-likelihood per row that a transformation has to gain,
SURELY = 4.0  # in standard errors
SMALLER = 0.98  # the mean miss of y has to be, over that of the fit to y, if the gain is not by far
KIND = Kind(has_skew=True, has_tails=True, zones=NEAR)  # the noise that all others are cases of


@dataclass(frozen=True)
class Advice:
    """A transformation that makes the rows likelier, and what else it changes.

    `gain` is log-likelihood per row; `wrong` and `wrong_before` are the shares of rows that look
    wrong with and without it, `error` the mean miss in units of y over that without.
    """

    transform: TargetTransform
    gain: float
    wrong: float
    wrong_before: float
    error: float


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A fit to a transformed target, judged as one to y."""

    transform: TargetTransform
    score: Vector  # log-likelihood of each row
    miss: Vector  # in units of y
    clean: Vector  # the probability of it


def advised_transform(found: SampleFit, opinion: Opinion) -> Advice | None:
    """Return the transformation of a positive target that is clearly and surely better, if any."""
    sample = found.sample
    few = sample.n_samples < max(2 * sample.fleet.n_coef + 3, FEWEST_ROWS)
    if few or sample.rows.n_features > SCREENED_FEATURES or not np.all(sample.rows.y > 0.0):
        return None
    most = max(ROWS[0], ROWS[1] * sample.fleet.n_coef)
    rows = spread_rows(found, most, opinion.far_rows_vote)
    table = RobustRows.of(sample, rows)
    plain = _candidate(table, IDENTITY, table.huber_fit(KIND))
    if found.fit.is_calibrated:
        ours = _candidate(table, IDENTITY, table.around(found.fit.solution.z, KIND))
        plain = max(plain, ours, key=lambda each: float(each.score.mean()))
    others = []
    for transform in (SQRT, LOG):
        moved = replace(table, y=transform.of(table.y))
        others.append(_candidate(table, transform, moved.huber_fit(KIND)))
    best = max(others, key=lambda each: float(each.score.mean()))
    return _compared(best, plain)


def _compared(best: _Candidate, plain: _Candidate) -> Advice | None:
    difference = best.score - plain.score
    gain = float(difference.mean())
    error = float(difference.std() / np.sqrt(difference.size))
    clean = np.maximum(best.clean, plain.clean)
    missed = float(clean @ best.miss) / max(float(clean @ plain.miss), 1e-300)
    # A scale on which corrupted rows pass for clean ones gains by these, and loses by the others.
    both = np.minimum(best.clean, plain.clean)
    among_clean = float(both @ difference) / max(float(both.sum()), 1e-300)
    most = 1.0 if gain > BY_FAR else SMALLER
    if gain < CLEARLY or gain < SURELY * error or among_clean < 0.0 or missed > most:
        return None
    wrong, before = (float(np.mean(each.clean < 0.5)) for each in (best, plain))
    return Advice(best.transform, gain, wrong, before, missed)


def _candidate(table: RobustRows, transform: TargetTransform, at: NoiseState) -> _Candidate:
    """Judge a fit to the transformed target of a table of y."""
    predicted = table.design @ at.coef
    scale = at.scale_rule.of(table.X)
    residual = (transform.of(table.y) - predicted) / scale
    clean = at.noise.clean_density(residual) / (at.noise.share * scale)
    density = clean * np.exp(transform.log_slope(table.y))
    score = np.log((1.0 - NO_MATTER) * density + NO_MATTER * _whatever_the_row(table.y))
    return _Candidate(
        transform,
        score,
        np.abs(table.y - transform.back(predicted)),
        at.noise.posterior(residual),
    )


def _whatever_the_row(y: Vector) -> Vector:
    """Return the density of y in a histogram with as many rows in every cell."""
    edges = np.unique(np.quantile(y, np.linspace(0.0, 1.0, CELLS + 1)))
    if edges.size < 2:
        return np.ones(y.size)
    counts, _ = np.histogram(y, edges)
    cell = np.clip(np.searchsorted(edges, y, side="right") - 1, 0, edges.size - 2)
    return np.asarray(((counts + 0.5) / (y.size * np.diff(edges)))[cell])
