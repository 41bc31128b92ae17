"""Rounds on all rows whose weights come from a noise model instead of a pace.

Each round weighs the rows by the noise model at the current coefficients, solves, and reads the
noise off the new residuals. Once coefficients and noise belong together, the rounds are over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from easyfirst.calibration import signed_quantile
from easyfirst.consensus import status
from easyfirst.consensus.fleet import Fleet, Weightings
from easyfirst.consensus.robust.huber import KNEE
from easyfirst.consensus.rounds.common import Center, OnRound, Recorder, RoundsResult
from easyfirst.consensus.solvers import gram
from easyfirst.consensus.solvers.gram import Equations, ProximalTerm
from easyfirst.consensus.solvers.ways import Fit
from easyfirst.consensus.statistics import Objective, StackedStatistics
from easyfirst.contracts import Matrix, Pace, Vector
from easyfirst.local.weighing import NoiseRule
from easyfirst.noise import Kind, NoiseModel, ScaleRule, clean_mass, fit_noise, likely_shares
from easyfirst.noise.fitting import MOST_OF_MINORITY
from easyfirst.summaries import LossSummary

MOST_ROUNDS = 25
READINGS = 3  # rounds after which the noise is read off no more
NARROW = 0.05  # of the noise: a knee at which Huber's middle is the median
STILL = 0.05  # standard errors: a smaller step is the last
SAME_ROWS = 0.02  # share of the weight that may change before rows are others
SAME_NOISE = 0.5  # of a spread: noise that is narrower is that of other rows
FEW_COLUMNS = 100
MAJORITY = 0.5
PROX_STRENGTH = 1e-4  # pull of the last coefficients, in rows per row


@dataclass(frozen=True, eq=False)
class NoiseState:
    """Coefficients to go on from, and the noise around them.

    A noise that is `given` is not read off the rows again, and each of them pulls by Huber's rule.
    The `knee` of that rule is in spreads of the noise, and so is the one by which the middle of the
    clean rows is sought, if that is another.
    """

    coef: Vector
    noise: NoiseModel
    scale_rule: ScaleRule
    kind: Kind
    is_precise: bool = False
    is_given: bool = False
    knee: float = KNEE
    middle_knee: float | None = None

    @property
    def rule(self) -> NoiseRule:
        """How rows are judged and pull.

        With normal noise of one scale, or of known scales, a clean row pulls however far it is if
        corrupted ones are told from it. If none is, those that pass for noise pull no harder than
        a row at the knee.
        """
        is_even = self.scale_rule.is_even or self.is_precise
        is_known = self.noise.is_normal and is_even and not self.is_given
        knee = (
            np.inf if is_known and self.noise.has_corrupted_part else self.knee * self.noise.spread
        )
        return NoiseRule(self.noise, (self.noise.share,), knee, self.scale_rule, self.is_precise)


def run(fleet: Fleet, objective: Objective, start: NoiseState, on_round: OnRound) -> RoundsResult:
    """Go from coefficients and the noise around them to where neither changes any more."""
    return settle(fleet, objective, start, on_round)[0]


def settle(
    fleet: Fleet, objective: Objective, start: NoiseState, on_round: OnRound
) -> tuple[RoundsResult, NoiseState]:
    """Return how the rounds went, and the coefficients and the noise at their end."""
    recorder = Recorder(fleet, objective, "all", first=1)
    at, before = start, fleet.every_row()
    losses, weigher = losses_at(fleet, at), _Weigher(fleet)
    equations: Equations | None = None
    ended, since = False, 0
    for number in range(MOST_ROUNDS):
        if number - since < READINGS and not at.is_given:
            at = replace(at, noise=fit_noise(losses, at.noise, at.kind, at.noise).model)
        now = judged(fleet, at, losses)
        statistics = weigher.weigh(at.coef, now, before)
        variance = np.append(fleet.column_variance, 1.0)[: at.coef.size]
        prox_term = ProximalTerm(at.coef, PROX_STRENGTH * fleet.total_weight * variance)
        matrix = statistics.pooled_gram
        if equations is None or not equations.are_those_of(matrix, prox_term):
            equations = Equations.of(matrix, objective, prox_term)
        solution = gram.solve(statistics, objective, prox_term, equations=equations)
        step, at, before = solution.z - at.coef, replace(at, coef=solution.z), now
        losses = losses_at(fleet, at)
        ended = on_round(recorder.note(Fit(now, statistics, solution), pace_of(at.noise)))
        size = float(step @ statistics.pooled_gram @ step) / step.size
        still = np.sqrt(max(size, 0.0)) < STILL * at.noise.spread
        if ended:
            break
        if number == READINGS and not at.is_given:
            anew = read_anew(fleet, at)[0]
            if _asks_for_more(anew, at):
                at, since = anew, number + 1
                losses = losses_at(fleet, at)
                continue
        if still and number - since >= READINGS:
            break
    # Rows at the edge may come and go for ever; how far that moves the fit is within chance.
    fit = Fit(now, statistics, solution)
    result = result_of(fit, losses, pace_of(at.noise), recorder, ended)
    return result, at


def _asks_for_more(anew: NoiseState, at: NoiseState) -> bool:
    """Return whether the same rows have tails or skew that their noise did not have before."""
    kind, than = anew.kind, at.kind
    is_more = kind.has_tails > than.has_tails or kind.has_skew > than.has_skew
    # Where many rows are fitted exactly, they have a noise of their own.
    return is_more and anew.noise.spread > SAME_NOISE * at.noise.spread


def result_of(
    fit: Fit, losses: LossSummary, pace: Pace, recorder: Recorder, ended: bool
) -> RoundsResult:
    """Return the result of rounds that came to rest at a fit, or that a callback `ended`."""
    rounds = recorder.n_rounds
    return RoundsResult(
        solution=fit.solution,
        pace=pace,
        weightings=fit.weightings,
        statistics=fit.statistics,
        losses=losses,
        status=status.stopped_by_callback(rounds) if ended else status.converged(rounds),
        history=recorder.history,
        is_refined=True,
    )


@dataclass(eq=False)
class _Weigher:
    """Weighs the rows of each round, with the Gram matrix of an earlier one while it serves.

    It serves while the rows are nearly the same: it then decides how fast the rounds come to rest,
    and not where. Of few columns, a matrix costs no more than a pass over the rows.
    """

    fleet: Fleet
    matrix: Matrix | None = None
    drift: float = 0.0

    def weigh(self, coef: Vector, now: Weightings, before: Weightings) -> StackedStatistics:
        """Return the statistics of the weighted rows."""
        if self.matrix is not None:
            statistics = self.fleet.pull(coef, self.matrix, now, before)
            self.drift += statistics.changed_share
            if self.drift <= SAME_ROWS:
                return statistics
        statistics, self.drift = self.fleet.form(now, before, pooled=True), 0.0
        if self.fleet.n_coef > FEW_COLUMNS:
            self.matrix = statistics.matrix
        return statistics


def read_anew(fleet: Fleet, at: NoiseState) -> tuple[NoiseState, LossSummary]:
    """Return the same coefficients with the noise that all rows have around them."""
    losses = losses_at(fleet, at)
    if at.kind.has_bump:  # coefficients and noise were chosen together
        return replace(at, noise=fit_noise(losses, at.noise, at.kind, at.noise).model), losses
    # Likewise, all rows are not those of a fit of few.
    most = MOST_OF_MINORITY * at.noise.share if at.noise.share < MAJORITY else 1.0
    found = fit_noise(losses, at.noise, may_have_bump=False, most=most)
    if found.model.share < MAJORITY <= at.noise.share:
        # Rows that lie close together are not those of the fit, which is one of all rows.
        found = fit_noise(losses, at.noise, replace(at.kind, zones=None), at.noise)
    return replace(at, noise=found.model, kind=found.kind), losses


def judged(fleet: Fleet, at: NoiseState, losses: LossSummary) -> Weightings:
    """Return the weightings by the noise, each batch and band with its own clean share."""
    return fleet.judged(at.coef, at.rule, likely_shares(losses, at.noise))


def clean_center(fleet: Fleet, at: NoiseState, losses: LossSummary, center: Center) -> float:
    """Return where the clean rows' residuals have their middle (Huber's), mean or median.

    The median is Huber's middle with a knee of a few hundredths of the noise. With a close knee, it
    is sought from where the histogram has the median.
    """
    now = fleet.judged(at.coef, center_rule(at, center), likely_shares(losses, at.noise))
    if center == "mean" or (center == "middle" and at.middle_knee is None):
        return fleet.clean_center(now)
    return fleet.clean_center(
        now, signed_quantile(clean_mass(losses, at.noise), losses.anchor, 0.5)
    )


def center_rule(at: NoiseState, center: Center) -> NoiseRule:
    """Return how clean rows pull at their middle, their mean or their median."""
    if center == "middle":
        if at.middle_knee is None:
            return at.rule
        return replace(at.rule, knee=at.middle_knee * at.noise.spread)
    knee = np.inf if center == "mean" else NARROW * at.noise.spread
    return replace(at.rule, knee=knee, is_precise=False)


def losses_at(fleet: Fleet, at: NoiseState) -> LossSummary:
    """Return the histogram of the residuals, in units of their rows' scales."""
    return fleet.summarize(fleet.judged(at.coef, at.rule, np.ones((fleet.n_batches, 1))))


def pace_of(noise: NoiseModel) -> Pace:
    """Return the loss at which a row is as likely clean as corrupted, as the pace of the record."""
    value = noise.reach**2 if noise.has_corrupted_part else np.inf
    return Pace(value, width=2.0 * noise.scale**2)
