"""Noise around a calibrated fit that is not the one its pace was read from, and where it leads."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from easyfirst.consensus import confirmation
from easyfirst.consensus.checks.knee import with_knee
from easyfirst.consensus.checks.second_opinion import may_be_second_guessed
from easyfirst.consensus.ending import Ending, concluded
from easyfirst.consensus.fitted import FittedModel
from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.inference import errors_of
from easyfirst.consensus.judged import by_mixture, by_noise, judged_by_noise
from easyfirst.consensus.rounds import of_noise as noise_rounds
from easyfirst.consensus.rounds.common import OnRound, RoundsResult
from easyfirst.consensus.rounds.of_noise import NoiseState
from easyfirst.consensus.starts.found import SampleFit
from easyfirst.consensus.starts.search import first_size
from easyfirst.consensus.statistics import Objective
from easyfirst.noise import Kind, ScaleRule, fit_noise, normal_fits

MUCH_WIDER = 2.0  # noise than the one that rounds began with: it is that of other rows
MOVED = 1.5  # standard errors per coefficient: the same,
MOVED_OF_NOISE = 0.4  # if predictions move by as many scales of the noise
NEARLY_ALL = 0.95  # clean share from which a fit is about that of all rows
# Rows: of more, a test would show that a normal and a flat part do not fit; of fewer, nothing can.
FEWEST, FEW = 40, 2000


def with_its_noise(
    fleet: Fleet,
    objective: Objective,
    result: RoundsResult,
    around: NoiseState | None,
    ending: Ending,
    on_round: OnRound,
    ahead: SampleAhead | None,
    found: SampleFit | None = None,
    kind: Kind | None = None,
) -> FittedModel:
    """Read the noise off the residuals of calibrated rounds, and go on where it says so.

    `kind` is that of the noise around the fit where the rounds began, if it was looked at.
    """
    if not result.is_calibrated:
        return concluded(fleet, objective, result, ending)
    mixture = result.mixture
    seen = NoiseSeen.at(fleet, result, around, kind)
    if seen is None:
        return by_mixture(fleet, objective, result, mixture, ending)
    if not seen.leads(fleet, objective):
        return by_noise(fleet, objective, result, seen.around, ending)
    start = seen.around if found is None else with_knee(found, seen.around)
    if ahead is not None:
        fitted = ahead.fitted(fleet, start, settles=around is not None)
        if fitted is not None and not seen.wandered(fitted.rounds):
            return replace(fitted, history=result.history.followed_by(fitted.history))
    more = noise_rounds.run(fleet, objective, start, on_round)
    if seen.wandered(more):
        return by_mixture(fleet, objective, result, mixture, ending)
    result = replace(more, history=result.history.followed_by(more.history))
    return by_noise(fleet, objective, result, start, ending)


@dataclass(frozen=True, eq=False)
class NoiseSeen:
    """Noise around a calibrated fit that a normal and a flat part do not describe."""

    around: NoiseState
    result: RoundsResult
    is_other: bool  # whether only the corrupted part differs from what was thought

    @classmethod
    def at(
        cls,
        fleet: Fleet,
        result: RoundsResult,
        around: NoiseState | None,
        kind: Kind | None = None,
    ) -> NoiseSeen | None:
        """Look at the residuals of a fit; None if they are as its pace takes them to be."""
        losses, mixture = result.known_losses, result.mixture
        keeps_all = result.pace.value == np.inf or not may_be_second_guessed(fleet.problem)
        is_even = around is None or around.scale_rule.is_even
        fits = is_even and normal_fits(losses, mixture)
        # Far rows in bands of their own are told by where they lie: they are no tail of the others.
        is_banded = fleet.problem.far_rule is not None
        can_tell = FEWEST <= losses.total <= FEW
        is_settled = is_banded or not can_tell or mixture.share > NEARLY_ALL
        if keeps_all or (fits and is_settled):
            return None
        if around is not None and not fits:
            return cls(around, result, is_other=False)
        # Noise with long tails or skew may fit as well, and no row be wrong.
        if fits and kind is not None and _is_beside_steps(kind):
            return None
        read = fit_noise(losses, mixture)
        if fits and _is_beside_steps(read.kind):
            return None
        state = NoiseState(result.solution.z, read.model, ScaleRule.even(), read.kind)
        # Only the corrupted part differs from what was thought: weights by it are better.
        return cls(state, result, is_other=read.model.is_normal)

    def leads(self, fleet: Fleet, objective: Objective) -> bool:
        """Return whether the fit is to go on by this noise."""
        is_even = self.around.scale_rule.is_even
        # Least squares of nearly all rows, and the noise is not normal: far rows pull too hard.
        is_plain = is_even and self.result.mixture.share > NEARLY_ALL
        has_matrix = self.result.statistics.matrix is not None
        is_quadratic = objective.penalty_diagonal(fleet.n_coef) is not None
        is_odd = self.is_other or is_plain or not self.around.noise.is_normal or not is_even
        return is_odd and has_matrix and is_quadratic

    def wandered(self, more: RoundsResult) -> bool:
        """Return whether few rows have led further rounds to where corrupted ones seem clean."""
        wide = np.sqrt(0.5 * (more.pace.width or 0.0))
        known = max(self.around.noise.scale, self.result.mixture.scale)
        step = more.solution.z - self.result.solution.z
        matrix = self.result.statistics.matrix
        # Other weights for rows that are about the same move the fit within its own error. Of many
        # rows, that is less than what a bump moves a fit by that takes it for a flat part.
        moved = 0.0 if matrix is None else float(step @ matrix @ step)
        rows = self.result.statistics.weight.sum()
        is_far = moved > known**2 * max(MOVED**2 * step.size, MOVED_OF_NOISE**2 * rows)
        return self.is_other and bool(wide > MUCH_WIDER * known or is_far)


def _is_beside_steps(kind: Kind) -> bool:
    return kind.zones is not None and not kind.has_bump


@dataclass(frozen=True, eq=False)
class SampleAhead:
    """A sample that is smaller than the data: it goes ahead, and all rows confirm where it led."""

    found: SampleFit
    objective: Objective
    ending: Ending
    on_round: OnRound

    @classmethod
    def of(
        cls,
        found: SampleFit | None,
        fleet: Fleet,
        objective: Objective,
        ending: Ending,
        on_round: OnRound,
    ) -> SampleAhead | None:
        """Return the sample's part in a fit, if a first one is not all of the rows."""
        if found is None or first_size(fleet) >= sum(fleet.n_rows):
            return None
        return cls(found, objective, ending, on_round)

    def by_its_noise(self, fleet: Fleet, around: NoiseState | None) -> FittedModel | None:
        """Return the fit by the noise of the sample, if that is other than normal already there."""
        fit = self.found.fit
        seen = NoiseSeen.at(fleet, fit, around) if fit.is_calibrated else None
        # That only the corrupted part is another is for all rows to say: it may be by chance.
        if seen is None or seen.is_other or not seen.leads(fleet, self.objective):
            return None
        start = with_knee(self.found, seen.around)
        return self.fitted(fleet, start, is_open=around is None)

    def fitted(
        self, fleet: Fleet, start: NoiseState, settles: bool = True, is_open: bool = False
    ) -> FittedModel | None:
        """Return the fit that few passes over all rows make of this start; None if they do not."""
        found, objective, center = self.found, self.objective, self.ending.center
        sample = replace(found.sample, fleet=replace(found.sample.fleet, problem=fleet.problem))
        times = fleet.total_weight / found.whole.fleet.total_weight
        begun = confirmation.begin(sample, start, center, times, settles, is_open)
        confirmed = confirmation.confirm(fleet, objective, begun, center, self.on_round)
        if confirmed is None:
            return None
        result, at = confirmed.result, confirmed.state
        fitted = concluded(fleet, objective, result, self.ending)
        if not np.array_equal(fitted.coef, result.solution.z):  # weak directions were left out
            return by_noise(fleet, objective, result, at, self.ending)
        errors = np.full(fleet.n_coef, np.nan)
        if objective.penalty.smooth:
            errors = errors_of(fleet, confirmed.scatter, result.statistics.pooled_gram)
        return judged_by_noise(fitted, at, confirmed.losses, errors)
