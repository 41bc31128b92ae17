"""Where else a fit of a sample could begin than at least squares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from easyfirst.consensus.robust.absolute import absolute_start
from easyfirst.consensus.robust.huber import bisquare, robust_scale, weighted_fit
from easyfirst.consensus.rounds.calibrated import Start
from easyfirst.consensus.rounds.common import RoundsResult
from easyfirst.consensus.starts.choice import choose
from easyfirst.consensus.starts.elemental import (
    MOST_COEFFICIENTS,
    MOST_COEFFICIENTS_OF_FEW_ROWS,
    MOST_ROWS,
    elemental_starts,
)
from easyfirst.consensus.starts.found import continued, is_hollow, no_callback
from easyfirst.consensus.starts.lost_columns import supports_all
from easyfirst.consensus.starts.sample import FEW_PER_COEFFICIENT, Sample
from easyfirst.consensus.starts.screens import Screen, depends_on_far_rows
from easyfirst.consensus.starts.short_runs import ends_of
from easyfirst.consensus.starts.voting import one_sided_rest
from easyfirst.contracts import Matrix, Vector

TRUSTED_BESIDES = 4  # trusted rows besides one per coefficient from which they make a start
ROWS_FOR_ABSOLUTE = (2000, 12)  # and per coefficient: enough for a start
CLOSE = 0.33  # noise around few rows that agree, over that of all: more is so by chance
STRIPS = 20  # as many strips of rows are compared by how densely these lie
DENSER = 2.0  # than around the fit
NEARER = 0.8  # the median deviation of another start, over the fit's own, from which it is tried


def distinct(
    sample: Sample,
    first: RoundsResult,
    starts: Iterator[Start],
    begun: list[Start],
    ends: list[Start],
) -> Iterator[Start]:
    """Yield where the starts lead, if elsewhere than to the first fit, each place once.

    Of many rows the starts are few, and each of them depends on what became of the last. Of few,
    `begun` takes note of all starts and `ends` of all places, those of the first fit too.
    """
    is_plain = sample.rows.sample_weight is None and sample.objective.is_unpenalised
    is_few = sample.n_samples <= MOST_ROWS and sample.trusted.size == 0
    if not (is_few and is_plain and first.is_calibrated):
        yield from starts
        return
    known = [start for start in (continued(first), *starts) if start.scale]
    begun.extend(known)
    design, y = sample.design()
    led = ends_of(design, y, [start.coef for start in known], [s.scale for s in known if s.scale])
    reached: list[int] = []
    for number in range(len(known)):
        if not any(led.is_with(number, other) for other in reached):
            reached.append(number)
            ends.append(Start(led.coefs[number], float(led.scales[number])))
    yield from ends[1:]


def other_starts(
    sample: Sample,
    fits: list[RoundsResult],
    screens: Sequence[Screen],
    rng: np.random.Generator,
) -> Iterator[Start]:
    """Yield starts that could lead elsewhere than the fits made so far."""
    is_few = sample.n_samples <= MOST_ROWS
    for screen in screens:
        kept = (screen.score <= 1).astype(np.float64)
        if np.all(kept > 0):
            continue
        # Asked at a fit that far rows have captured, they seem not to matter.
        if is_few or depends_on_far_rows(sample, choose(sample, fits), kept):
            screened = sample.only(kept).fit(no_callback)
            if screened.is_calibrated:
                yield continued(screened)
    yield from _absolute_starts(sample, choose(sample, fits))
    if not is_few:
        yield from _starts_where_dense(sample, choose(sample, fits))
    n_coef = sample.fleet.n_coef
    if is_few:
        yield from _starts_of_all_rows(sample)
    if n_coef <= (MOST_COEFFICIENTS_OF_FEW_ROWS if is_few else MOST_COEFFICIENTS):
        for coef, scale in elemental_starts(*sample.design(), rng):
            yield Start(coef, scale)
    if sample.trusted.size:
        yield from _trusted_starts(sample, fits)


def _absolute_starts(sample: Sample, best: RoundsResult) -> Iterator[Start]:
    """Yield a start at least absolute deviations, if rows are few or the best fit is doubtful.

    Of many rows, only where it lies much nearer to most of them than that fit does.
    """
    is_few = sample.n_samples <= MOST_ROWS
    q = sample.fleet.n_coef
    if not is_few and not is_hollow(best) and supports_all(sample, best):
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


def _starts_of_all_rows(sample: Sample) -> Iterator[Start]:
    """Yield least squares, and the same with the intercept amid the densest half of the residuals.

    Rows that are shifted as one leave the slopes of all rows right, but for chance, and the
    intercept between both kinds of rows.
    """
    design, y = sample.design()
    n, q = design.shape
    coef = weighted_fit(design, y, np.ones(n))
    residual = np.sort(y - design @ coef)
    yield Start(coef, float(np.sqrt(np.sum(np.square(residual)) / max(n - q, 1))))
    if sample.objective.fit_intercept:
        majority = n // 2 + 1
        widths = residual[majority - 1 :] - residual[: n - majority + 1]
        dense = residual[np.argmin(widths) :][:majority]
        yield Start(np.append(coef[:-1], coef[-1] + dense.mean()), float(dense.std()))


def _starts_where_dense(sample: Sample, best: RoundsResult) -> Iterator[Start]:
    """Yield a start with the intercept where the residuals lie densest, if that is elsewhere.

    Errors on one side in most rows move the middle of the residuals to where these rows are, and
    hardly change the slopes. The rows without errors are then a dense strip away from the middle.
    """
    if not sample.objective.fit_intercept or sample.trusted.size:
        return
    residual = np.sort(sample.residual(sample.rows, best.solution.z))
    k = residual.size // STRIPS
    widths = residual[k:] - residual[:-k]
    first = int(np.argmin(widths))
    width = float(widths[first])
    around = 2.0 * float(np.partition(np.abs(residual), k)[k])
    if width <= 0.0 or around <= DENSER * width:
        return
    middle = 0.5 * float(residual[first] + residual[first + k])
    begun = Start(np.append(best.solution.z[:-1], best.solution.z[-1] + middle), width)
    fit = sample.fit(no_callback, begun)
    if fit.is_calibrated and one_sided_rest(sample, fit) == "plateau":
        yield continued(fit)


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
    best = choose(sample, fits)
    if best.is_calibrated and sample.trusted_share(best) < 0.5:
        aside = sample.untrusting_weights(best) < 0.5
        if aside.sum() >= 2 * n_coef:
            others = sample.only(aside.astype(np.float64)).fit(no_callback)
            if others.is_calibrated:
                yield continued(others)
