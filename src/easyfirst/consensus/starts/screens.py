"""Rows far out in X: whether a fit depends on them, and a fit that keeps them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from easyfirst.consensus.rounds.common import RoundsResult
from easyfirst.consensus.solvers.gram import solve_normal
from easyfirst.consensus.starts.computed_columns import computed_columns
from easyfirst.consensus.starts.found import SampleFit, continued, no_callback
from easyfirst.consensus.starts.leverage import far_rules
from easyfirst.consensus.starts.sample import SCREENED_FEATURES, Sample
from easyfirst.consensus.starts.voting import Vote
from easyfirst.contracts import Matrix, Vector
from easyfirst.local.design import dense
from easyfirst.local.far_rows import FarRule

ROWS_FOR_RULES = (2000, 5000)  # least and most rows by which distances in X are judged
SURELY = 5.0  # standard errors by which a prediction moves
MATTERS = 3.0  # squared move of the fit without the far rows, in units of what chance explains
LEAST_BAND = 30  # rows of a band that has a clean share of its own
# In log of clean share over scale, for rows inside where the far ones are to have no say.
MUCH_BETTER = 0.2


@dataclass(frozen=True, eq=False)
class Screen:
    """A rule for far rows, and the scores of the sample's rows by it."""

    rule: FarRule
    score: Vector


def screens_that_matter(sample: Sample, rng: np.random.Generator) -> Sequence[Screen]:
    """Return rules for far rows, found on some of the rows; none if they call none of those far."""
    n = sample.n_samples
    few = int(np.clip(6 * sample.rows.n_features, *ROWS_FOR_RULES))
    rows = np.arange(n) if n <= few else np.sort(rng.choice(n, few, replace=False))
    others = _all_but(rows, n) if n >= 2 * few else rows
    judges = dense(sample.rows.X[others[:: max(1, others.size // few)]])
    X = dense(sample.rows.X[rows])
    rules = far_rules(X, judges)
    if _calls_none_far(rules, judges):
        return ()
    computed = computed_columns(X)
    if np.any(computed):
        rules = far_rules(X, judges, ~computed)
        if _calls_none_far(rules, judges):
            return ()
    return [Screen(rule, rule.score(sample.rows.X)) for rule in rules]


def _all_but(rows: NDArray[np.intp], n: int) -> NDArray[np.intp]:
    others = np.ones(n, dtype=bool)
    others[rows] = False
    return np.flatnonzero(others)


def _calls_none_far(rules: Sequence[FarRule], judges: Matrix) -> bool:
    return not np.any(rules[0].score(judges) > 1)


def keep_far_rows_apart(found: SampleFit, screen: Screen) -> SampleFit:
    """Fit again with bands of far rows, if those hold fewer clean rows than the inside does.

    Bad rows far out in X come near the fit by chance now and then, and each pulls like a hundred
    rows inside; their own clean share is what tells them apart.
    """
    sample, fit = found.sample, found.fit
    if not fit.is_calibrated:
        return found
    rule, score = screen.rule, screen.score
    cuts = _bands(screen)
    v = sample.weights(fit)
    inside = float(np.mean(v[score <= 1]))
    for cut in cuts:
        outside = v[score > cut]
        chance = 4.0 * np.sqrt(max(inside * (1.0 - inside), 0.01) / outside.size)
        if np.mean(outside) < inside - 0.05 - chance:
            apart = sample.with_far_rule(replace(rule, cuts=cuts))
            return SampleFit(apart.fit(no_callback, continued(fit)), apart)
    return found


def freed_from_far_rows(found: SampleFit, screen: Screen) -> SampleFit:
    """Return the fit, or one that suits the rows inside much better with far ones in bands.

    Bad rows that lie far out in all directions draw any fit of all rows to themselves, wherever it
    begins: some of them are always near it, and each of those pulls like many rows inside.
    """
    sample, inside = found.sample, screen.score <= 1
    cuts = _bands(screen)
    if not cuts or found.far_rule is not None or not found.fit.is_calibrated:
        return found
    screened = sample.only(inside).fit(no_callback)
    if not screened.is_calibrated:
        return found
    least = Vote.on(sample, found.fit, inside).peak + MUCH_BETTER
    alone = Vote.around(sample, screened.solution.z, screened.mixture.scale, inside)
    if alone.peak <= least or not alone.is_of_majority:
        return found
    apart = sample.with_far_rule(replace(screen.rule, cuts=cuts))
    fit = apart.fit(no_callback, continued(screened))
    if not fit.is_calibrated or Vote.on(apart, fit, inside).peak <= least:
        return found
    return SampleFit(fit, apart)


def _bands(screen: Screen) -> tuple[float, ...]:
    """Return where bands of far rows begin that hold enough rows."""
    return tuple(cut for cut in screen.rule.cuts if np.sum(screen.score > cut) >= LEAST_BAND)


def depends_on_far_rows(sample: Sample, fit: RoundsResult, kept: Vector) -> bool:
    """Return whether the fit moves further than chance when the far rows are left out."""
    if not fit.is_calibrated:
        return True
    v = sample.weights(fit)
    inside = v * kept
    q = fit.solution.z.size
    if inside.sum() < 2 * q:
        return True
    step, gram = sample.step_without(np.flatnonzero(kept == 0), fit)
    chance = fit.mixture.scale**2 * q * max(v.sum() / inside.sum() - 1.0, 0.02)
    if step @ gram @ step > MATTERS * chance:
        return True
    # What chance does in thousands of directions hides what a cluster does in its own.
    is_wide = sample.rows.n_features > SCREENED_FEATURES
    return is_wide and _moves_their_mean(sample, fit, v * (1.0 - kept) * sample.counts, step, gram)


def _moves_their_mean(
    sample: Sample, fit: RoundsResult, weights: Vector, step: Vector, gram: Matrix
) -> bool:
    """Return whether the prediction for the mean of these rows moves further than chance."""
    if weights.sum() < LEAST_BAND:
        return False
    problem = sample.fleet.problem
    mean = problem.design(sample.rows).transposed_times(weights) / weights.sum()
    spread = solve_normal(gram, mean, problem.coordinates.fit_intercept)[0]
    return bool(abs(mean @ step) > SURELY * fit.mixture.scale * np.sqrt(max(mean @ spread, 0.0)))
