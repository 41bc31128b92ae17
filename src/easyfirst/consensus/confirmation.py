"""Few passes over all rows to where a noise model leads, the way having been found on a sample.

The rounds of `noise_rounds` run on the sample until nothing moves there. All rows then correct the
coefficients by steps with the sample's curvature: each is one pass that forms no matrix, judges
rows by the noise as the pass before saw it, and sees it anew. The last pass also tells all that is
asked of a fit in the end, and moves it once more by what it saw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from easyfirst.consensus.fleet import Fleet, Weightings
from easyfirst.consensus.inference import Scatter
from easyfirst.consensus.rounds import of_noise as noise_rounds
from easyfirst.consensus.rounds.common import Center, OnRound, Recorder, RoundsResult
from easyfirst.consensus.rounds.of_noise import NoiseState
from easyfirst.consensus.solution import Solution
from easyfirst.consensus.solvers import gram
from easyfirst.consensus.solvers.gram import (
    ProximalTerm,
    is_well_conditioned,
    relative_range,
)
from easyfirst.consensus.solvers.ways import Fit
from easyfirst.consensus.starts.found import no_callback
from easyfirst.consensus.starts.sample import Sample
from easyfirst.consensus.statistics import Objective, StackedStatistics
from easyfirst.contracts import Matrix, Vector
from easyfirst.local.confirming import Conclusion, Measured, conclude, curvature, draw, measure
from easyfirst.local.steps import Change
from easyfirst.local.weighing import NoiseRule
from easyfirst.noise import fit_noise, likely_shares
from easyfirst.summaries import LossSummary

MOST_STEPS = 3  # before the last pass
READINGS = 2  # steps after which the noise is read off no more
STILL = 0.05  # standard errors: what is left beyond the last pass
FIRST_RATE = 0.2  # of each step over the one before, as long as it is not known
FLATTEST = 0.2  # curvature that is trusted, over that of the weighted rows
PROX_STRENGTH = 1e-4  # pull of the last coefficients, in rows per row
# Matrices are those of so many rows, at least, if there are more by a factor: standard errors are
# then known to a percent or so.
ROWS_FOR_ERRORS, ROWS_PER_COEFFICIENT, WORTH_DRAWING = 50_000, 250, 2.0
FEWEST_OF_A_COLUMN = 400.0  # rows that a column's sum of squares is spread over


@dataclass(frozen=True, eq=False)
class Begun:
    """What a sample says: the noise and the coefficients, and how to go on with all rows.

    `curve` is the curvature that all rows are expected to have, `shares` those of the bands, and
    `offset` where the clean rows have their middle.
    """

    at: NoiseState
    curve: Matrix
    shares: Matrix
    offset: float
    middle: NoiseRule
    is_open: bool  # whether more rows may ask for another kind of noise


@dataclass(frozen=True, eq=False)
class Confirmed:
    """Where the rows lead: the rounds, the noise around the fit, its histogram, what errors need.

    `state` has the middle of the clean rows in its intercept where the noise is skewed or another
    middle was asked for.
    """

    result: RoundsResult
    state: NoiseState
    losses: LossSummary
    scatter: Scatter


def begin(
    sample: Sample,
    start: NoiseState,
    center: Center,
    times: float,
    settles: bool = True,
    is_open: bool = False,
) -> Begun:
    """Run the rounds on the sample, each row of which stands for `times` rows.

    Without `settles`, the coefficients and the noise are those of all rows already. If `is_open`,
    the kind of noise was read off nothing but these residuals.
    """
    fleet, at = sample.fleet, start
    if settles:
        at = noise_rounds.settle(fleet, sample.objective, start, no_callback)[1]
    read, losses = noise_rounds.read_anew(fleet, at)
    offset = 0.0
    if sample.objective.fit_intercept and _is_off(read, center):
        offset = noise_rounds.clean_center(fleet, read, losses, center)
    shares = likely_shares(losses, at.noise)
    curve = times * _curvature(fleet, fleet.judged(at.coef, at.rule, shares))
    return Begun(at, curve, shares, offset, noise_rounds.center_rule(read, center), is_open)


def confirm(
    fleet: Fleet, objective: Objective, begun: Begun, center: Center, on_round: OnRound
) -> Confirmed | None:
    """Go to where all rows lead; None if the sample's curvature does not serve them."""
    recorder = Recorder(fleet, objective, "all", first=1)
    at, before, ended = begun.at, fleet.every_row(), False
    shares = np.repeat(begun.shares, fleet.n_batches, axis=0)
    last, left = np.inf, np.inf
    for number in range(MOST_STEPS):
        now = fleet.judged(at.coef, at.rule, shares)
        losses, stats = _drawn(fleet, at.coef, begun.curve, now, before)
        solution = _solved(fleet, objective, stats, at.coef)
        ended = on_round(recorder.note(Fit(now, stats, solution), noise_rounds.pace_of(at.noise)))
        size = _size(solution.z - at.coef, begun, objective.fit_intercept)
        if number == 0 and begun.is_open:
            found = fit_noise(losses, at.noise)
            at = replace(at, noise=found.model, kind=found.kind)
        elif number < READINGS:
            at = replace(at, noise=fit_noise(losses, at.noise, at.kind, at.noise).model)
        shares = likely_shares(losses, at.noise)
        at, before = replace(at, coef=solution.z), now
        rate = FIRST_RATE if last == np.inf else size / max(last, 1e-300)
        # Earlier steps may grow where they follow the noise, which is seen anew.
        if number >= READINGS and size > max(last, 1.0):
            return None
        last, left = size, size * min(rate, 1.0) ** 2
        if ended or left < STILL:
            break
    return _concluded(fleet, objective, begun, at, shares, before, center, recorder, ended)


def _concluded(
    fleet: Fleet,
    objective: Objective,
    begun: Begun,
    at: NoiseState,
    shares: Matrix,
    before: Weightings,
    center: Center,
    recorder: Recorder,
    ended: bool,
) -> Confirmed:
    """Make the last pass, and return the fit with all that is told of it."""
    now = fleet.judged(at.coef, at.rule, shares)
    asked = _conclusions(fleet, begun, now, before)
    replies = fleet.workers.map(conclude, asked, fleet.problem)
    measured = _added([each.measured for each in replies])
    if not _is_supported(measured):
        asked = [replace(each, quota=None) for each in asked]
        measured = _added(fleet.workers.map(measure, asked, fleet.problem))
    drawn = [each.drawn for each in replies]
    around = StackedStatistics.around(at.coef, begun.curve, drawn)
    statistics = StackedStatistics.around(at.coef, measured.gram, drawn)
    solution = _solved(fleet, objective, around, at.coef)
    losses = fleet.summary(now, [each.counts for each in replies])
    found = fit_noise(losses, at.noise)
    state = replace(at, coef=solution.z, noise=found.model, kind=found.kind)
    if objective.fit_intercept and (begun.offset != 0.0 or _is_off(state, center)):
        pull, falls = sum(each.center_pull for each in replies), measured.center_slope
        # The coefficients move by a last step, and the middle of the rows with them.
        moved = pull - float(falls @ (solution.z - at.coef))
        middle = begun.offset + (moved / float(falls[-1]) if falls[-1] > 0 else 0.0)
        state = replace(state, coef=np.append(solution.z[:-1], solution.z[-1] + middle))
    fit, pace = Fit(now, statistics, solution), noise_rounds.pace_of(at.noise)
    recorder.note(fit, pace)
    result = noise_rounds.result_of(fit, losses, pace, recorder, ended)
    scatter = Scatter(measured.outer, measured.weight, measured.slope)
    return Confirmed(result, state, losses, scatter)


def _conclusions(
    fleet: Fleet, begun: Begun, now: Weightings, before: Weightings
) -> list[Conclusion]:
    """Return what each batch is asked in the last pass, its part of the rows for the matrices."""
    total, wanted = sum(fleet.n_rows), max(ROWS_FOR_ERRORS, ROWS_PER_COEFFICIENT * fleet.n_coef)
    share = wanted / total if total > WORTH_DRAWING * wanted else None
    return [
        Conclusion(
            Change(new, old),
            begun.offset,
            begun.middle,
            None if share is None else int(np.ceil(share * n_rows)),
            number,
        )
        for number, (new, old, n_rows) in enumerate(zip(now, before, fleet.n_rows, strict=True))
    ]


def _added(parts: Sequence[Measured]) -> Measured:
    """Return the sums over all batches, in their order."""
    names = [field.name for field in fields(Measured)]
    return Measured(**{name: sum(getattr(part, name) for part in parts) for name in names})


def _is_supported(measured: Measured) -> bool:
    """Return whether each column's sum of squares, and so its error, is that of enough rows.

    Of a rare category, hardly any row may be among those drawn.
    """
    if not np.any(measured.fourths):
        return True
    squares = np.square(np.diagonal(measured.gram))
    return bool(
        np.all(squares >= FEWEST_OF_A_COLUMN * measured.fourths)
        and np.all(squares > 0.0)
        and is_well_conditioned(measured.gram)
    )


def _is_off(at: NoiseState, center: Center) -> bool:
    return center != "middle" or not at.noise.is_symmetric


def _drawn(
    fleet: Fleet, point: Vector, curve: Matrix, now: Weightings, before: Weightings
) -> tuple[LossSummary, StackedStatistics]:
    replies = fleet.workers.map(draw, list(map(Change, now, before)), fleet.problem)
    losses = fleet.summary(now, [counts for counts, _ in replies])
    return losses, StackedStatistics.around(point, curve, [tally for _, tally in replies])


def _solved(
    fleet: Fleet, objective: Objective, stats: StackedStatistics, point: Vector
) -> Solution:
    variance = np.append(fleet.column_variance, 1.0)[: point.size]
    prox_term = ProximalTerm(point, PROX_STRENGTH * fleet.total_weight * variance)
    return gram.solve(stats, objective, prox_term)


def _size(step: Vector, begun: Begun, has_intercept: bool) -> float:
    """Return the length of a step in standard errors.

    Where the noise is skewed, its center and the intercept move together, and where the middle of
    the rows lies is asked in the end: the intercept then goes with the slopes.
    """
    curve, noise = begun.curve, begun.at.noise
    if has_intercept and not noise.is_symmetric and curve[-1, -1] > 0.0:
        step = np.append(step[:-1], -float(curve[-1, :-1] @ step[:-1]) / curve[-1, -1])
    squared = float(step @ curve @ step) / step.size
    return float(np.sqrt(max(squared, 0.0))) / noise.spread


def _curvature(fleet: Fleet, now: Weightings) -> Matrix:
    """Return the curvature of the rows' pull, nowhere much below that of the weighted rows."""
    changes = [Change(weighting) for weighting in now]
    found = np.sum(fleet.workers.map(curvature, changes, fleet.problem), axis=0)
    plain = fleet.form(now).pooled_gram
    flattest = relative_range(found, plain)[0]
    return np.asarray(found + max(FLATTEST - flattest, 0.0) * plain)
