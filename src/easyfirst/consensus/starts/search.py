"""Finding where to begin: several fits of a sample of the rows, and the choice between them.

The sample is drawn across all batches and fitted here, on the driver. The first fit begins at
least squares. Others leave rows aside that lie far out in X, or begin at least absolute deviations
or at elemental subsets; they run only where they could matter. The fit that gathers the most clean
rows per unit of scale wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from easyfirst.calibration import shortfall
from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.history import RoundRecord
from easyfirst.consensus.robust.absolute import absolute_start
from easyfirst.consensus.robust.huber import bisquare, robust_scale, weighted_fit
from easyfirst.consensus.rounds.calibrated import Start
from easyfirst.consensus.rounds.common import OnRound, RoundSettings, RoundsResult
from easyfirst.consensus.solvers.gram import (
    is_well_conditioned,
    relative_range,
    solve_normal,
    solve_where_supported,
    variances,
)
from easyfirst.consensus.starts.coarse_targets import grid_cell, is_exact_by_chance
from easyfirst.consensus.starts.elemental import (
    MOST_COEFFICIENTS,
    MOST_COEFFICIENTS_OF_FEW_ROWS,
    MOST_ROWS,
    elemental_starts,
)
from easyfirst.consensus.starts.gross_rows import gross_rows
from easyfirst.consensus.starts.half_clean import likelier_fit
from easyfirst.consensus.starts.leverage import far_rules
from easyfirst.consensus.starts.point_masses import (
    PointMass,
    judged_masses,
    point_masses,
    with_weights,
)
from easyfirst.consensus.starts.rare_columns import recover_rare_columns
from easyfirst.consensus.starts.sample import (
    FEW_PER_COEFFICIENT,
    SCREENED_FEATURES,
    Sample,
    studentizes,
)
from easyfirst.consensus.starts.short_runs import ends_of
from easyfirst.consensus.starts.voting import Vote, leaves_a_tail
from easyfirst.consensus.starts.wide_leverage import wide_far_rule
from easyfirst.consensus.statistics import Objective
from easyfirst.contracts import Matrix, Pace, Spread, Vector
from easyfirst.local.design import dense
from easyfirst.local.far_rows import FarRule
from easyfirst.workers import FOR_A_THREAD

SMALLEST_SAMPLE, LARGEST_SAMPLE, ROWS_PER_COEFFICIENT = 20_000, 50_000, 125
GROWTH, MOST_GROWTH = 3, 9  # a sample whose fit is hollow is drawn again, larger
HOLLOW = 0.025  # shortfall of rows in the middle that a good fit does not reach
ROWS_FOR_RULES = (2000, 5000)  # least and most rows by which distances in X are judged
SURELY = 5.0  # standard errors by which a prediction moves
MATTERS = 3.0  # squared move of the fit without the far rows, in units of what chance explains
LEAST_BAND = 30  # rows of a band that has a clean share of its own
WORTH_PRECONDITIONING = 3  # rows per sampled row from which products with X are cheaper than X'X
CHANCES = 4  # that lost columns are given
ALIKE = 1.5  # how much further than by chance two Gram matrices may lie apart and be the same
TRUSTED_BESIDES = 4  # trusted rows besides one per coefficient from which they make a start
ROWS_FOR_ABSOLUTE = (2000, 12)  # and per coefficient: enough for a start
LOST = 1e-4  # support of a direction by the kept rows, over that by all rows, that is none
PLAINLY_SUPPORTED = 1e-3  # reciprocal condition number from which nothing was lost
CLOSE = 0.33  # noise around few rows that agree, over that of all: more is so by chance
NEARER = 0.8  # the median deviation of another start, over the fit's own, from which it is tried
CLEARLY_BETTER = 0.01  # in log of clean share over scale
LIKELIER = 3.0  # by log-likelihood, of two fits with peaks as high
PLAIN_MAJORITY = 0.7  # of the rows: a fit that suits as many is not that of an edge
MUCH_BETTER = 0.2  # the same, for rows inside where the far ones are to have no say

_First = TypeVar("_First")
_Second = TypeVar("_Second")


@dataclass(frozen=True, eq=False)
class SampleFit:
    """The chosen fit of a sample, the sample it was found on, and which rows are far out in X."""

    fit: RoundsResult
    sample: Sample
    far: NDArray[np.bool_] | None = None
    masses: tuple[PointMass, ...] = ()
    cell: float = 0.0  # to which y is rounded, if the fit is exact for no other reason
    drawn: Sample | None = None  # the sample with the rows that were set aside, if there are any

    @property
    def whole(self) -> Sample:
        """All rows that were drawn."""
        return self.drawn or self.sample

    @property
    def aside(self) -> tuple[float, ...]:
        """Values of y whose rows took no part."""
        return tuple(mass.value for mass in self.masses if mass.is_aside)

    def settled(self, settings: RoundSettings) -> RoundSettings:
        """Return settings for all rows that take for granted what the sample did."""
        known = self.sample.settings.calibrated
        schedule = replace(
            settings.calibrated, granted=known.granted, per_coefficient=known.per_coefficient
        )
        return replace(settings, schedule=schedule)

    @property
    def far_rule(self) -> FarRule | None:
        """The rule that keeps far rows apart, if the fit needs it."""
        return self.sample.fleet.problem.far_rule

    def start(self, fleet: Fleet) -> Start:
        """Return where the fit of all rows begins.

        Where the sample is much smaller than the data, its Gram matrix preconditions the
        first rounds on all rows; likewise where it is all of the data. Several batches have clean
        shares of their own, which the sample's rounds did not know, but that changes the matrix
        by little.
        """
        times = fleet.total_weight / self.whole.fleet.total_weight
        start = continued(self.fit, times)
        n_rows, n_sampled = sum(fleet.n_rows), self.whole.n_samples
        is_same = n_rows == n_sampled
        saves = is_same or n_rows >= WORTH_PRECONDITIONING * n_sampled
        if start.gram is None or not (saves and is_well_conditioned(start.gram)):
            return start
        start = replace(start, pace=self._pace_of_all(fleet.n_batches))
        if is_same:
            return replace(start, preconditioner="own")
        return replace(start, gram=times * self._preconditioner(), preconditioner="borrowed")

    def _preconditioner(self) -> Matrix:
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


def no_callback(record: RoundRecord) -> bool:
    """Say nothing about rounds of fits that are only compared with others."""
    del record
    return False


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


def best_fit_of(sample: Sample, seed: int) -> RoundsResult:
    """Return the best fit of a sample from all starts, none of its rows set aside beforehand."""
    return _best_fit(sample, seed, no_callback).fit


def first_size(fleet: Fleet) -> int:
    """Return how many rows the first sample takes, if there are as many."""
    wanted = ROWS_PER_COEFFICIENT * fleet.n_coef
    return int(np.clip(wanted, SMALLEST_SAMPLE, LARGEST_SAMPLE))


def continued(fit: RoundsResult, times: float = 1.0) -> Start:
    """Return the end of one fit as the start of another on `times` as many rows."""
    if not fit.is_calibrated:
        return Start(fit.solution.z)
    return Start(
        coef=fit.solution.z,
        scale=fit.mixture.scale,
        pace=replace(fit.pace, thresholds=None),
        gram=times * fit.statistics.pooled_gram,
    )


def thorough(settings: RoundSettings) -> RoundSettings:
    """Return settings for few rows: more rounds cost nothing there."""
    precision = settings.calibrated.precision / 10.0
    return replace(settings, schedule=replace(settings.calibrated, precision=precision))


def is_hollow(fit: RoundsResult) -> bool:
    """Return whether the fit misses rows in the middle that its clean part should have."""
    if not fit.is_calibrated:
        return True
    mixture = fit.mixture
    return shortfall(fit.known_losses, mixture) > float(HOLLOW + 2.0 / np.sqrt(mixture.clean))


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
        lambda: _screens_that_matter(sample, rng),
    )
    if first.status.code == "callback":
        return SampleFit(first, sample)
    fits = [first]
    starts = chain([known] if known else [], _other_starts(sample, fits, screens, rng))
    ends: list[Start] = []
    for start in _distinct(sample, first, starts, ends):
        fit = sample.fit(no_callback, start)
        if fit.is_calibrated:
            fits.append(fit)
    if screens:
        inside = screens[0].score <= 1
        voters = inside if voters is None else inside & voters
    best = _choose(sample, fits, voters)
    sample, best = likelier_fit(sample, best, ends, voters)
    found = SampleFit(_with_rare_columns_recovered(sample, best), sample)
    if not screens:
        return found
    found = _freed_from_far_rows(_keep_far_rows_apart(found, screens[0]), screens[0])
    return replace(found, far=screens[0].score > 1)


def _best_wide_fit(sample: Sample, on_round: OnRound) -> SampleFit:
    """Return the fit of all rows, or one begun without far rows that is better for the others.

    Of so many columns each fit costs much: no other start is tried.
    """
    first, X = sample.fit(on_round), sample.rows.X
    rule = wide_far_rule(X[::2], X[1::2])
    screen = _Screen(rule, rule.score(X))
    inside = screen.score <= 1
    if first.status.code == "callback" or np.sum(~inside) < LEAST_BAND:
        return SampleFit(first, sample)
    fits = [first]
    if _depends_on_far_rows(sample, first, inside.astype(np.float64)):
        screened = sample.only(inside).fit(no_callback)
        if screened.is_calibrated:
            fits.append(sample.fit(no_callback, continued(screened)))
    found = SampleFit(_choose(sample, fits, inside), sample)
    return replace(_keep_far_rows_apart(found, screen), far=~inside)


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
    judges = dense(sample.rows.X[others[:: max(1, others.size // few)]])
    rules = far_rules(dense(sample.rows.X[rows]), judges)
    if not np.any(rules[0].score(judges) > 1):
        return ()
    return [_Screen(rule, rule.score(sample.rows.X)) for rule in rules]


def _distinct(
    sample: Sample, first: RoundsResult, starts: Iterator[Start], ends: list[Start]
) -> Iterator[Start]:
    """Yield where the starts lead, if elsewhere than to the first fit, each place once.

    Of many rows the starts are few, and each of them depends on what became of the last. Of few,
    `ends` takes note of all places, that of the first fit too.
    """
    is_plain = sample.rows.sample_weight is None and sample.objective.is_unpenalised
    is_few = sample.n_samples <= MOST_ROWS and sample.trusted.size == 0
    if not (is_few and is_plain and first.is_calibrated):
        yield from starts
        return
    known = [start for start in (continued(first), *starts) if start.scale]
    design, y = sample.design()
    led = ends_of(design, y, [start.coef for start in known], [s.scale for s in known if s.scale])
    reached: list[int] = []
    for number in range(len(known)):
        if not any(led.is_with(number, other) for other in reached):
            reached.append(number)
            ends.append(Start(led.coefs[number], float(led.scales[number])))
    yield from ends[1:]


def _other_starts(
    sample: Sample,
    fits: list[RoundsResult],
    screens: Sequence[_Screen],
    rng: np.random.Generator,
) -> Iterator[Start]:
    """Yield starts that could lead elsewhere than the fits made so far."""
    is_few = sample.n_samples <= MOST_ROWS
    for screen in screens:
        kept = (screen.score <= 1).astype(np.float64)
        if np.all(kept > 0):
            continue
        # Asked at a fit that far rows have captured, they seem not to matter.
        if is_few or _depends_on_far_rows(sample, _choose(sample, fits), kept):
            screened = sample.only(kept).fit(no_callback)
            if screened.is_calibrated:
                yield continued(screened)
    yield from _absolute_starts(sample, _choose(sample, fits))
    n_coef = sample.fleet.n_coef
    if n_coef <= (MOST_COEFFICIENTS_OF_FEW_ROWS if is_few else MOST_COEFFICIENTS):
        design, y = sample.design()
        if is_few:
            all_rows = weighted_fit(design, y, np.ones(y.size))
            rest = max(len(y) - n_coef, 1)
            yield Start(all_rows, float(np.sqrt(np.sum((y - design @ all_rows) ** 2) / rest)))
        for coef, scale in elemental_starts(design, y, rng):
            yield Start(coef, scale)
    if sample.trusted.size:
        yield from _trusted_starts(sample, fits)


def _absolute_starts(sample: Sample, best: RoundsResult) -> Iterator[Start]:
    """Yield a start at least absolute deviations, if rows are few or the best fit is doubtful.

    Of many rows, only where it lies much nearer to most of them than that fit does.
    """
    is_few = sample.n_samples <= MOST_ROWS
    q = sample.fleet.n_coef
    if not is_few and not is_hollow(best) and _supports_all(sample, best):
        return
    enough = max(ROWS_FOR_ABSOLUTE[0], ROWS_FOR_ABSOLUTE[1] * q)
    rows = np.arange(0, sample.n_samples, -(-sample.n_samples // enough))
    design, y = sample.design(rows)
    coef, scale = absolute_start(design, y, sample.objective.fit_intercept)
    theirs, ours = (np.median(np.abs(y - design @ z)) for z in (coef, best.solution.z))
    if scale > 0 and (is_few or theirs < NEARER * ours):
        yield Start(coef, scale)
    if scale > 0 and sample.n_samples <= FEW_PER_COEFFICIENT * q:
        yield from _closer_starts(design, y, coef)


def _closer_starts(design: Matrix, y: Vector, coef: Vector) -> Iterator[Start]:
    """Yield a start that closes in on rows that agree, if they agree better than by chance.

    Of few rows per coefficient, elemental subsets are never clean, and the noise around least
    absolute deviations is that of their own error.
    """
    n, q = design.shape
    closer = bisquare(design, y, coef, np.ones(n))
    scale = robust_scale(y - design @ closer) / max(1.0 - q / n, 0.25)
    left = y - design @ weighted_fit(design, y, np.ones(n))
    if scale < CLOSE * np.sqrt(np.sum(np.square(left)) / max(n - q, 1)):
        yield Start(closer, scale)


def _supports_all(sample: Sample, fit: RoundsResult) -> bool:
    """Return whether the kept rows plainly say something of every direction."""
    matrix = fit.statistics.pooled_gram
    left = variances(matrix, sample.objective.fit_intercept)
    there = sample.fleet.total_weight * sample.fleet.column_variance
    return bool(np.all(left > LOST * there)) and is_well_conditioned(matrix, PLAINLY_SUPPORTED)


def _trusted_starts(sample: Sample, fits: list[RoundsResult]) -> Iterator[Start]:
    """Yield a start from the trusted rows alone, and one from what a distrusted fit sets aside."""
    n_coef = sample.fleet.n_coef
    left = sample.trusted.size - n_coef
    if left >= TRUSTED_BESIDES:
        design, y = sample.design(sample.trusted)
        coef = weighted_fit(design, y, np.ones(y.size))
        scale = float(np.sqrt(np.sum(np.square(y - design @ coef)) / left))
        # Rows that took no part are further away: the coefficients have errors of their own.
        yield Start(coef, scale * float(np.sqrt(1.0 + n_coef / sample.trusted.size)))
    best = _choose(sample, fits)
    if best.is_calibrated and sample.trusted_share(best) < 0.5:
        aside = sample.untrusting_weights(best) < 0.5
        if aside.sum() >= 2 * n_coef:
            others = sample.only(aside.astype(np.float64)).fit(no_callback)
            if others.is_calibrated:
                yield continued(others)


def _with_rare_columns_recovered(sample: Sample, fit: RoundsResult) -> RoundsResult:
    """Return the fit, or a better one that keeps rows of rare columns that this one has lost."""
    fit = _with_lost_directions(sample, fit)
    for _ in range(CHANCES):
        if not fit.is_calibrated:
            break
        scale = fit.mixture.scale
        where = sample.fleet.problem.coordinates
        coef = recover_rare_columns(sample.rows, where, sample.weights(fit), fit.solution.z, scale)
        if coef is None:
            break
        other = sample.fit(no_callback, Start(coef, scale))
        if not other.is_calibrated or _peak(sample, other) <= _peak(sample, fit) + 1e-4:
            break
        fit = other
    return fit


def _with_lost_directions(sample: Sample, fit: RoundsResult) -> RoundsResult:
    """Return the fit, or one as good with zero in directions of which the kept rows say nothing.

    An early fit to gross outliers may have given those any value, at which their rows stay out.
    """
    if not fit.is_calibrated or _supports_all(sample, fit):
        return fit
    if not sample.objective.is_unpenalised:  # a penalty has its own say on open directions
        return fit
    known, every = fit.statistics, sample.gram_of_every_row()
    coef = solve_where_supported(
        known.pooled_gram, known.pooled_rhs, every, LOST, sample.objective.fit_intercept
    )
    other = sample.fit(no_callback, Start(coef, fit.mixture.scale))
    as_good = other.is_calibrated and _peak(sample, other) > _peak(sample, fit) - CLEARLY_BETTER
    return other if as_good else fit


def _keep_far_rows_apart(found: SampleFit, screen: _Screen) -> SampleFit:
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


def _freed_from_far_rows(found: SampleFit, screen: _Screen) -> SampleFit:
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


def _bands(screen: _Screen) -> tuple[float, ...]:
    """Return where bands of far rows begin that hold enough rows."""
    return tuple(cut for cut in screen.rule.cuts if np.sum(screen.score > cut) >= LEAST_BAND)


def _depends_on_far_rows(sample: Sample, fit: RoundsResult, kept: Vector) -> bool:
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


def _choose(
    sample: Sample, fits: Sequence[RoundsResult], voters: NDArray[np.bool_] | None = None
) -> RoundsResult:
    """Return the fit with the highest peak: clean share over scale, majorities first.

    A fit that holds a minority of the rows replaces another only if its likelihood is higher as
    well: a few rows in a tight lump have a high peak and explain nothing. Where some rows are
    trusted, a fit that agrees with clearly more of them comes first. Only `voters` have a
    vote: a cluster far out in X, or rows that share their y, agree with the fit that they have
    captured.
    """
    calibrated = [fit for fit in fits if fit.is_calibrated]
    if not calibrated:
        return fits[0]
    if sample.n_samples <= MOST_ROWS and len(calibrated) > 1:
        calibrated = [fit for fit in calibrated if not _is_an_edge(sample, fit)] or calibrated
    votes = {id(fit): Vote.on(sample, fit, voters) for fit in calibrated}
    ranked = sorted(calibrated, key=lambda fit: not votes[id(fit)].is_of_majority)
    best = ranked[0]
    for fit in ranked[1:]:
        if sample.is_more_trusted(fit, best):
            best = fit
        if fit is best or sample.is_more_trusted(best, fit):
            continue
        ours, theirs = votes[id(fit)], votes[id(best)]
        higher = ours.peak > theirs.peak + CLEARLY_BETTER
        is_even = abs(ours.peak - theirs.peak) <= CLEARLY_BETTER
        if is_even and ours.likelihood > theirs.likelihood + LIKELIER:
            best = fit
        if higher and (ours.is_of_majority or ours.mean_log > theirs.mean_log):
            best = fit
    return best


def _is_an_edge(sample: Sample, fit: RoundsResult) -> bool:
    """Return whether a fit may suit only the densest rows of skewed noise."""
    return fit.mixture.share < PLAIN_MAJORITY and leaves_a_tail(sample, fit)


def _peak(sample: Sample, fit: RoundsResult) -> float:
    return Vote.on(sample, fit).peak
