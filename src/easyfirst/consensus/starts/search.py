"""Finding where to begin: several fits of a sample of the rows, and the choice between them.

The sample is drawn across all batches and fitted here, on the driver. The first fit begins at
least squares. Others leave rows aside that lie far out in X, or begin at least absolute deviations
or at elemental subsets; they run only where they could matter. The fit that gathers the most clean
rows per unit of scale wins.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.rounds.calibrated import Start
from easyfirst.consensus.rounds.common import OnRound, RoundSettings
from easyfirst.consensus.starts.candidates import distinct, other_starts
from easyfirst.consensus.starts.choice import choose
from easyfirst.consensus.starts.coarse_targets import grid_cell, is_exact_by_chance
from easyfirst.consensus.starts.found import SampleFit, continued, is_hollow, no_callback
from easyfirst.consensus.starts.gross_rows import gross_rows
from easyfirst.consensus.starts.half_clean import fit_beside_a_bump, likelier_fit
from easyfirst.consensus.starts.lost_columns import with_rare_columns_recovered
from easyfirst.consensus.starts.point_masses import judged_masses, point_masses, with_weights
from easyfirst.consensus.starts.sample import SCREENED_FEATURES, Sample, studentizes
from easyfirst.consensus.starts.screens import (
    LEAST_BAND,
    Screen,
    depends_on_far_rows,
    freed_from_far_rows,
    keep_far_rows_apart,
    screens_that_matter,
)
from easyfirst.consensus.starts.wide_leverage import wide_far_rule
from easyfirst.consensus.statistics import Objective
from easyfirst.contracts import Spread
from easyfirst.workers import FOR_A_THREAD

SMALLEST_SAMPLE, LARGEST_SAMPLE, ROWS_PER_COEFFICIENT = 20_000, 50_000, 125
GROWTH, MOST_GROWTH = 3, 9  # a sample whose fit is hollow is drawn again, larger

_First = TypeVar("_First")
_Second = TypeVar("_Second")


def find_start(
    fleet: Fleet, objective: Objective, settings: RoundSettings, seed: int, on_round: OnRound
) -> SampleFit:
    """Fit a sample from several starts and return the best fit."""
    n_rows, basic = sum(fleet.n_rows), first_size(fleet)
    size = min(n_rows, basic)
    if studentizes(fleet.total_weight, fleet.n_coef):
        settings = thorough(settings)
    while True:
        sample = Sample.draw(fleet, objective, settings, size, seed)
        found = _fit_beside_masses(sample, seed, on_round)
        found = _without_gross_rows(found)
        if is_exact_by_chance(found.sample, found.fit):
            found = replace(found, cell=grid_cell(found.sample.rows.y))
        if found.fit.status.code == "callback" or not is_hollow(found.fit):
            return found
        if size >= min(n_rows, MOST_GROWTH * basic):
            return found
        # The clean part was stretched over corrupted rows; more clean rows make it stand out.
        size = min(n_rows, GROWTH * size)


def _without_gross_rows(found: SampleFit) -> SampleFit:
    """Return the fit, or one without gross rows where too few are there to tell more."""
    gross = None if found.fit.status.code == "callback" else gross_rows(found.sample)
    if gross is None:
        return found
    fit = gross.sample.fit(no_callback, gross.start)
    fit = replace(fit, history=found.fit.history.followed_by(fit.history))
    return replace(found, fit=fit, sample=gross.sample)


def best_fit_of(sample: Sample, seed: int) -> SampleFit:
    """Return the best fit of a sample from all starts, none of its rows set aside beforehand."""
    return _best_fit(sample, seed, no_callback)


def first_size(fleet: Fleet) -> int:
    """Return how many rows the first sample takes, if there are as many."""
    wanted = ROWS_PER_COEFFICIENT * fleet.n_coef
    return int(np.clip(wanted, SMALLEST_SAMPLE, LARGEST_SAMPLE))


def thorough(settings: RoundSettings) -> RoundSettings:
    """Return settings for few rows: more rounds cost nothing there."""
    precision = settings.calibrated.precision / 10.0
    return replace(settings, schedule=replace(settings.calibrated, precision=precision))


def _fit_beside_masses(sample: Sample, seed: int, on_round: OnRound) -> SampleFit:
    """Return the best fit, without the rows of point masses of y that are mistakes."""
    masses, y = point_masses(sample), sample.rows.y
    if not masses:
        return _best_fit(sample, seed, on_round)
    others = sample.only(~np.isin(y, [mass.value for mass in masses]))
    found = _best_fit(others, seed, on_round)
    if found.fit.status.code == "callback":
        return found
    if found.fit.is_calibrated:
        scale = found.fit.mixture.scale
        masses = judged_masses(sample, masses, found.fit.solution.z, scale)
    aside = [mass.value for mass in masses if mass.is_aside]
    if len(aside) < len(masses):
        others = sample.only(~np.isin(y, aside)) if aside else sample
        # All rows of a value are fitted exactly by itself, which says nothing for that fit.
        speaks = ~np.isin(others.rows.y, [mass.value for mass in masses])
        found = _best_fit(others, seed, on_round, speaks, continued(found.fit))
        masses = with_weights(masses, others.rows.y, found.sample.weights(found.fit))
    return replace(found, masses=masses, drawn=sample)


def _best_fit(
    sample: Sample,
    seed: int,
    on_round: OnRound,
    voters: NDArray[np.bool_] | None = None,
    known: Start | None = None,
) -> SampleFit:
    """Return the best fit by the votes of these rows, from all starts and a known one."""
    rng = np.random.default_rng(seed)
    few_rows = sample.n_samples < sample.fleet.n_coef + 2
    if few_rows:
        return SampleFit(sample.fit(on_round), sample)
    if sample.rows.n_features > SCREENED_FEATURES:
        return _best_wide_fit(sample, on_round)
    # Distances in X need no fit, and a core is idle now and then while the first one runs.
    is_long = sample.n_samples * sample.rows.n_features >= FOR_A_THREAD
    first, screens = _side_by_side(
        sample.fleet.spread if is_long else map,
        lambda: sample.fit(on_round),
        lambda: screens_that_matter(sample, rng),
    )
    if first.status.code == "callback":
        return SampleFit(first, sample)
    fits = [first]
    starts = chain([known] if known else [], other_starts(sample, fits, screens, rng))
    begun: list[Start] = []
    ends: list[Start] = []
    for start in distinct(sample, first, starts, begun, ends):
        fit = sample.fit(no_callback, start)
        if fit.is_calibrated:
            fits.append(fit)
    if screens:
        inside = screens[0].score <= 1
        voters = inside if voters is None else inside & voters
    best = choose(sample, fits, voters)
    beside = fit_beside_a_bump(sample, best, begun, voters)
    if beside is not None:
        sample, best, normals = beside
        found = SampleFit(best, sample, beside=normals)
    else:
        sample, best = likelier_fit(sample, best, ends, voters)
        found = SampleFit(with_rare_columns_recovered(sample, best), sample)
    found = replace(found, begun=tuple(begun))
    if not screens:
        return found
    found = freed_from_far_rows(keep_far_rows_apart(found, screens[0]), screens[0])
    return replace(found, far=screens[0].score > 1)


def _best_wide_fit(sample: Sample, on_round: OnRound) -> SampleFit:
    """Return the fit of all rows, or one begun without far rows that is better for the others.

    Of so many columns each fit costs much: no other start is tried.
    """
    first, X = sample.fit(on_round), sample.rows.X
    rule = wide_far_rule(X[::2], X[1::2])
    screen = Screen(rule, rule.score(X))
    inside = screen.score <= 1
    if first.status.code == "callback" or np.sum(~inside) < LEAST_BAND:
        return SampleFit(first, sample)
    fits = [first]
    if depends_on_far_rows(sample, first, inside.astype(np.float64)):
        screened = sample.only(inside).fit(no_callback)
        if screened.is_calibrated:
            fits.append(sample.fit(no_callback, continued(screened)))
    found = SampleFit(choose(sample, fits, inside), sample)
    return replace(keep_far_rows_apart(found, screen), far=~inside)


def _side_by_side(
    spread: Spread, first: Callable[[], _First], second: Callable[[], _Second]
) -> tuple[_First, _Second]:
    """Return the results of both, the second found in another thread where cores may be shared."""
    if spread is map:
        return first(), second()
    with ThreadPoolExecutor(1, "easyfirst-beside") as beside:
        later = beside.submit(second)
        return first(), later.result()
