"""Finding where to begin: several fits of a sample of the rows, and the choice between them.

The sample is drawn across all batches and fitted here, on the driver. The first fit begins at
least squares. Others leave rows aside that lie far out in X, or begin at elemental subsets; they
run only where they could matter. The fit that gathers the most clean rows per unit of scale wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from easyfirst.calibration import CleanMixture, log_likelihood, shortfall
from easyfirst.consensus.elemental import MOST_COEFFICIENTS, MOST_ROWS, elemental_starts
from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.gram import is_well_conditioned, relative_range, solve_normal
from easyfirst.consensus.history import RoundRecord
from easyfirst.consensus.levels import regain_lost_levels
from easyfirst.consensus.leverage import far_rules
from easyfirst.consensus.rounds import OnRound, RoundSettings, RoundsResult, Start
from easyfirst.consensus.sample import SCREENED_FEATURES, Sample, dense_rows, studentizes
from easyfirst.consensus.statistics import Objective
from easyfirst.contracts import Matrix, Pace, Spread, Vector
from easyfirst.local.strata import FarRule
from easyfirst.schedules import Calibrated, CalibratedPace

SMALLEST_SAMPLE, LARGEST_SAMPLE, ROWS_PER_COEFFICIENT = 20_000, 50_000, 125
GROWTH, MOST_GROWTH = 3, 9  # a sample whose fit is hollow is drawn again, larger
HOLLOW = 0.025  # shortfall of rows in the middle that a good fit does not reach
ROWS_FOR_RULES = (2000, 5000)  # least and most rows by which distances in X are judged
MATTERS = 3.0  # squared move of the fit without the far rows, in units of what chance explains
LEAST_STRATUM = 30  # rows of a stratum that has a clean share of its own
WORTH_A_METRIC = 3  # rows per sampled row from which products with X are cheaper than X'X
CHANCES = 4  # that lost levels are given
ALIKE = 1.5  # how much further than by chance two Gram matrices may lie apart and be the same
CLEARLY_BETTER = 0.01  # in log of clean share over scale

_First = TypeVar("_First")
_Second = TypeVar("_Second")


@dataclass(frozen=True, eq=False)
class Found:
    """The chosen fit of a sample, and the sample it was found on."""

    fit: RoundsResult
    sample: Sample

    @property
    def far_rule(self) -> FarRule | None:
        """The rule that keeps far rows apart, if the fit needs it."""
        return self.sample.fleet.problem.far_rule

    def start(self, fleet: Fleet) -> Start:
        """Return where the fit of all rows begins.

        Where the sample is much smaller than the data, its Gram matrix serves as the metric of
        the first rounds on all rows; likewise where it is all of the data in one batch. Several
        batches have clean shares of their own, which the sample's rounds did not know.
        """
        times = fleet.total_weight / self.sample.fleet.total_weight
        start = continued(self.fit, times)
        n_rows, n_sampled = sum(fleet.n_rows), self.sample.n_samples
        is_same = n_rows == n_sampled and fleet.n_batches == 1
        saves = is_same or n_rows >= WORTH_A_METRIC * n_sampled
        if start.gram is None or not (saves and is_well_conditioned(start.gram)):
            return start
        start = replace(start, pace=self._pace_of_all(fleet.n_batches))
        if is_same:
            return replace(start, metric="own")
        return replace(start, gram=times * self._metric(), metric="borrowed")

    def _metric(self) -> Matrix:
        """Return the sample's weighted Gram matrix, or a better estimate of what all rows have.

        If corruption takes no account of X, the matrix of all sampled rows has the same shape as
        that of the weighted ones, and far less noise where those are few.
        """
        statistics = self.fit.statistics
        weighted, n_kept = statistics.pooled_gram, float(statistics.weight.sum())
        every = (n_kept / self.sample.fleet.total_weight) * self.sample.gram_of_every_row()
        chance = np.sqrt(min(len(every) / max(n_kept, 1.0), 0.8))
        low, high = relative_range(weighted, every)
        alike = low > (1.0 - chance) ** 2 / ALIKE and high < ALIKE * (1.0 + chance) ** 2
        return every if alike else weighted

    def _pace_of_all(self, n_batches: int) -> Pace:
        """Return the sample's pace with its thresholds in every batch."""
        pace = self.fit.pace
        assert pace.thresholds is not None
        return replace(pace, thresholds=pace.thresholds * n_batches)


def unheard(record: RoundRecord) -> bool:
    """Say nothing about rounds of fits that are only compared with others."""
    del record
    return False


def find_start(
    fleet: Fleet, objective: Objective, settings: RoundSettings, seed: int, on_round: OnRound
) -> Found:
    """Fit a sample from several starts and return the best fit."""
    n_rows = sum(fleet.n_rows)
    wanted = ROWS_PER_COEFFICIENT * fleet.n_coef
    basic = int(np.clip(wanted, SMALLEST_SAMPLE, LARGEST_SAMPLE))
    size = min(n_rows, basic)
    if studentizes(fleet.total_weight, fleet.n_coef):
        settings = thorough(settings)
    while True:
        sample = Sample.draw(fleet, objective, settings, size, seed)
        found = _best_fit(sample, seed, on_round)
        if found.fit.status.code == "callback" or not is_hollow(found.fit):
            return found
        if size >= min(n_rows, MOST_GROWTH * basic):
            return found
        # The clean part was stretched over corrupted rows; more clean rows make it stand out.
        size = min(n_rows, GROWTH * size)


def continued(fit: RoundsResult, times: float = 1.0) -> Start:
    """Return the end of one fit as the start of another on `times` as many rows."""
    if not isinstance(fit.pace, CalibratedPace):
        return Start(fit.solution.z)
    return Start(
        coef=fit.solution.z,
        scale=mixture_of(fit).scale,
        pace=replace(fit.pace, thresholds=None),
        gram=times * fit.statistics.pooled_gram,
    )


def thorough(settings: RoundSettings) -> RoundSettings:
    """Return settings for few rows: more rounds cost nothing there."""
    assert isinstance(settings.schedule, Calibrated)
    schedule = replace(settings.schedule, precision=settings.schedule.precision / 10.0)
    return replace(settings, schedule=schedule)


def mixture_of(fit: RoundsResult) -> CleanMixture:
    """Return the mixture that a calibrated fit ended with."""
    if not isinstance(fit.pace, CalibratedPace):
        raise ValueError("the fit ended before its pace was calibrated")
    return fit.pace.mixture


def is_hollow(fit: RoundsResult) -> bool:
    """Return whether the fit misses rows in the middle that its clean part should have."""
    if not isinstance(fit.pace, CalibratedPace) or fit.losses is None:
        return True
    mixture = mixture_of(fit)
    return shortfall(fit.losses, mixture) > float(HOLLOW + 2.0 / np.sqrt(mixture.clean))


def _best_fit(sample: Sample, seed: int, on_round: OnRound) -> Found:
    rng = np.random.default_rng(seed)
    few_rows = sample.n_samples < sample.fleet.n_coef + 2
    if sample.rows.n_features > SCREENED_FEATURES or few_rows:
        return Found(sample.fit(on_round), sample)
    # Distances in X need no fit, and a core is idle now and then while the first one runs.
    first, screens = _side_by_side(
        sample.fleet.spread,
        lambda: sample.fit(on_round),
        lambda: _screens_that_matter(sample, rng),
    )
    if first.status.code == "callback":
        return Found(first, sample)
    fits = [first]
    for start in _other_starts(sample, fits, screens, rng):
        fit = sample.fit(unheard, start)
        if isinstance(fit.pace, CalibratedPace):
            fits.append(fit)
    found = Found(_with_lost_levels(sample, _choose(fits)), sample)
    return _keep_far_rows_apart(found, screens[0]) if screens else found


def _side_by_side(
    spread: Spread, first: Callable[[], _First], second: Callable[[], _Second]
) -> tuple[_First, _Second]:
    """Return the results of both, the second found in another thread where cores may be shared."""
    if spread is map:
        return first(), second()
    with ThreadPoolExecutor(1, "easyfirst-beside") as beside:
        later = beside.submit(second)
        return first(), later.result()


@dataclass(frozen=True, eq=False)
class _Screen:
    """A rule for far rows, and the scores of the sample's rows by it."""

    rule: FarRule
    score: Vector


def _screens_that_matter(sample: Sample, rng: np.random.Generator) -> Sequence[_Screen]:
    """Return rules for far rows, found on some of the rows; none if they call none of those far."""
    n = sample.n_samples
    few = int(np.clip(6 * sample.rows.n_features, *ROWS_FOR_RULES))
    rows = np.arange(n) if n <= few else np.sort(rng.choice(n, few, replace=False))
    others = np.setdiff1d(np.arange(n), rows) if n >= 2 * few else rows
    judges = dense_rows(sample.rows.X[others[:: max(1, others.size // few)]])
    rules = far_rules(dense_rows(sample.rows.X[rows]), judges)
    if not np.any(rules[0].score(judges) > 1):
        return ()
    return [_Screen(rule, rule.score(sample.rows.X)) for rule in rules]


def _other_starts(
    sample: Sample,
    fits: list[RoundsResult],
    screens: Sequence[_Screen],
    rng: np.random.Generator,
) -> Iterator[Start]:
    """Yield starts that could lead elsewhere than the fits made so far."""
    for screen in screens:
        kept = (screen.score <= 1).astype(np.float64)
        if _depends_on_far_rows(sample, _choose(fits), kept):
            screened = sample.only(kept).fit(unheard)
            if isinstance(screened.pace, CalibratedPace):
                yield continued(screened)
    n_coef = sample.fleet.n_coef
    if n_coef <= MOST_COEFFICIENTS:
        design, y = sample.design()
        if sample.n_samples <= MOST_ROWS:
            all_rows = solve_normal(design.T @ design, design.T @ y)[0]
            rest = max(len(y) - n_coef, 1)
            yield Start(all_rows, float(np.sqrt(np.sum((y - design @ all_rows) ** 2) / rest)))
        for coef, scale in elemental_starts(design, y, rng):
            yield Start(coef, scale)


def _with_lost_levels(sample: Sample, fit: RoundsResult) -> RoundsResult:
    """Return the fit, or a better one that keeps rows of levels which this one has lost."""
    for _ in range(CHANCES):
        if not isinstance(fit.pace, CalibratedPace):
            break
        scale = mixture_of(fit).scale
        coef = regain_lost_levels(
            sample.rows, sample.fleet.problem.frame, sample.weights(fit), fit.solution.z, scale
        )
        if coef is None:
            break
        other = sample.fit(unheard, Start(coef, scale))
        if not isinstance(other.pace, CalibratedPace) or _peak(other) <= _peak(fit) + 1e-4:
            break
        fit = other
    return fit


def _keep_far_rows_apart(found: Found, screen: _Screen) -> Found:
    """Fit again with strata of far rows, if those hold fewer clean rows than the inside does.

    Bad rows far out in X come near the fit by chance now and then, and each pulls like a hundred
    rows inside; their own clean share is what tells them apart.
    """
    sample, fit = found.sample, found.fit
    if not isinstance(fit.pace, CalibratedPace):
        return found
    rule, score = screen.rule, screen.score
    cuts = tuple(cut for cut in rule.cuts if np.sum(score > cut) >= LEAST_STRATUM)
    v = sample.weights(fit)
    inside = float(np.mean(v[score <= 1]))
    for cut in cuts:
        outside = v[score > cut]
        chance = 4.0 * np.sqrt(max(inside * (1.0 - inside), 0.01) / outside.size)
        if np.mean(outside) < inside - 0.05 - chance:
            apart = sample.with_far_rule(replace(rule, cuts=cuts))
            return Found(apart.fit(unheard, continued(fit)), apart)
    return found


def _depends_on_far_rows(sample: Sample, fit: RoundsResult, kept: Vector) -> bool:
    """Return whether the fit moves further than chance when the far rows are left out."""
    if np.all(kept > 0):
        return False
    if not isinstance(fit.pace, CalibratedPace):
        return True
    v = sample.weights(fit)
    inside = v * kept
    q = fit.solution.z.size
    if inside.sum() < 2 * q:
        return True
    step, gram = sample.step_without(np.flatnonzero(kept == 0), fit)
    chance = mixture_of(fit).scale ** 2 * q * max(v.sum() / inside.sum() - 1.0, 0.02)
    return bool(step @ gram @ step > MATTERS * chance)


def _choose(fits: Sequence[RoundsResult]) -> RoundsResult:
    """Return the fit with the highest peak: clean share over scale, majorities first.

    A fit that holds a minority of the rows replaces another only if its likelihood is higher as
    well: a few rows in a tight lump have a high peak and explain nothing.
    """
    calibrated = [fit for fit in fits if isinstance(fit.pace, CalibratedPace)]
    if not calibrated:
        return fits[0]
    ranked = sorted(calibrated, key=lambda fit: mixture_of(fit).share < 0.5)
    best = ranked[0]
    for fit in ranked[1:]:
        higher = _peak(fit) > _peak(best) + CLEARLY_BETTER
        majority = mixture_of(fit).share >= 0.5
        if higher and (majority or _likelihood(fit) > _likelihood(best)):
            best = fit
    return best


def _peak(fit: RoundsResult) -> float:
    mixture = mixture_of(fit)
    return float(np.log(max(mixture.share, 1e-300) / mixture.free_scale))


def _likelihood(fit: RoundsResult) -> float:
    assert fit.losses is not None
    return log_likelihood(fit.losses, mixture_of(fit))
