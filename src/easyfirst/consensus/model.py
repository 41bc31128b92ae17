"""One whole fit, from the fleet to the fitted values: start, rounds, what the result is worth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from easyfirst.consensus.averaging import averaged
from easyfirst.consensus.checks.diagnosis import (
    SecondModelEvidence,
    doubts_about,
    doubts_where_nothing_is_explained,
    find_second_model,
)
from easyfirst.consensus.checks.extrapolation import far_predictions
from easyfirst.consensus.checks.far_group import notes_about_a_far_group
from easyfirst.consensus.checks.knee import with_knee
from easyfirst.consensus.checks.long_tail import doubts_about_a_long_tail
from easyfirst.consensus.checks.misfit import Misfit, misfit_of
from easyfirst.consensus.checks.plateau import doubts_about_a_plateau
from easyfirst.consensus.checks.second_group import doubts_about_a_second_group
from easyfirst.consensus.checks.second_opinion import Opinion, may_be_second_guessed, second_opinion
from easyfirst.consensus.checks.transforming import Advice, advised_transform
from easyfirst.consensus.ending import Ending, concluded
from easyfirst.consensus.fitted import Calibration, FittedModel
from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.judged import by_noise, counting_aside
from easyfirst.consensus.other_noise import SampleAhead, with_its_noise
from easyfirst.consensus.rounds import calibrated as calibrated_rounds
from easyfirst.consensus.rounds import of_noise as noise_rounds
from easyfirst.consensus.rounds import self_paced
from easyfirst.consensus.rounds.common import OnRound, RoundSettings
from easyfirst.consensus.rounds.of_counts import count_errors, fit_counts, residual_noise
from easyfirst.consensus.rounds.of_noise import NoiseState
from easyfirst.consensus.solvers.freedom import effective_coefficients
from easyfirst.consensus.starts import wide as wide_start
from easyfirst.consensus.starts.found import SampleFit
from easyfirst.consensus.starts.point_masses import (
    doubts_about_a_majority,
    doubts_about_masses,
    notes_about_masses,
)
from easyfirst.consensus.starts.sample import studentizes
from easyfirst.consensus.starts.search import find_start, thorough
from easyfirst.consensus.statistics import Objective
from easyfirst.noise import ScaleRule
from easyfirst.schedules import Calibrated

Judging = Literal["no", "advise", "choose"]  # of transformations of y


def fit_model(
    fleet: Fleet,
    objective: Objective,
    settings: RoundSettings,
    seed: int,
    exactly: bool,
    on_round: OnRound,
    judging: Judging = "no",
) -> FittedModel | Advice:
    """Fit all rows; `exactly` solves once more for the final weights.

    `judging` says whether to look for a better transformation of y: the result knows what to
    "advise", or it is the advice itself if one is to "choose".
    """
    ending = Ending(exactly, center=settings.center)
    if not isinstance(settings.schedule, Calibrated):
        result = self_paced.run(fleet, objective, settings, on_round)
        return concluded(fleet, objective, result, ending)
    if not fleet.problem.loss.quadratic:
        return _fit_counts(fleet, objective, settings, seed, on_round)
    fleet = replace(fleet, n_effective=effective_coefficients(fleet, objective, seed))
    if settings.solver == "cg":  # Without square matrices, no sample can be asked first.
        return _fit_wide(fleet, objective, settings, seed, ending, on_round)
    asked = _ask_sample(fleet, objective, settings, seed, on_round)
    advice = _advice(fleet, asked, judging)
    if advice is not None and judging == "choose":
        return advice
    return replace(_fit_after(asked, fleet, objective, settings, ending, on_round), advice=advice)


def _fit_counts(
    fleet: Fleet, objective: Objective, settings: RoundSettings, seed: int, on_round: OnRound
) -> FittedModel:
    """Fit counts or amounts beside corrupted ones."""
    found = fit_counts(fleet, objective, settings, seed, on_round)
    seen, state = found.seen, found.state
    calibration = Calibration(
        noise=residual_noise(seen),
        scale_rule=ScaleRule.even(),
        clean_mass=seen.clean_residuals.ravel(),
        anchor=1.0,
        n_coef=fleet.n_coef,
        batch_shares=tuple(state.shares.tolist()),
        corrupted_interval=found.interval,
        standard_errors=count_errors(fleet, objective, found),
        counts=state.noise,
    )
    fitted = concluded(fleet, objective, found.rounds, Ending(exactly=False))
    return replace(fitted, calibration=calibration, doubts=found.doubts)


def _fit_wide(
    fleet: Fleet,
    objective: Objective,
    settings: RoundSettings,
    seed: int,
    ending: Ending,
    on_round: OnRound,
) -> FittedModel:
    """Fit more columns than a square matrix is formed of."""
    fleet, result = wide_start.run(fleet, objective, settings, seed, on_round)
    fitted = with_its_noise(fleet, objective, result, None, ending, on_round, None)
    doubts = doubts_about(result, SecondModelEvidence(), fitted.noise)
    return replace(counting_aside(fitted), doubts=doubts)


@dataclass(frozen=True, eq=False)
class _Asked:
    """What a sample says before all rows are fitted."""

    found: SampleFit
    second_model: SecondModelEvidence
    opinion: Opinion

    @property
    def plain_start(self) -> NoiseState | None:
        """Where a plain robust fit begins, if the sample prefers one."""
        return self.opinion.start if self.opinion.is_preferred else None


def _ask_sample(
    fleet: Fleet, objective: Objective, settings: RoundSettings, seed: int, on_round: OnRound
) -> _Asked:
    found = find_start(fleet, objective, settings, seed, on_round)
    found, second_model = find_second_model(found)
    return _Asked(found, second_model, second_opinion(found, second_model.is_rival))


def _advice(fleet: Fleet, asked: _Asked, judging: Judging) -> Advice | None:
    """Return which transformation of y the sample asks for, if that is wanted and possible."""
    is_noticed = judging == "advise" and asked.opinion.structure.is_noticed
    if fleet.least_y > 0.0 and (judging == "choose" or is_noticed):
        return advised_transform(asked.found, asked.opinion)
    return None


def _fit_after(
    asked: _Asked,
    fleet: Fleet,
    objective: Objective,
    settings: RoundSettings,
    ending: Ending,
    on_round: OnRound,
) -> FittedModel:
    """Fit all rows by what the sample said, and read the noise off their residuals."""
    found, opinion = asked.found, asked.opinion
    fleet = _told(fleet, found)
    if found.whole.n_samples >= sum(fleet.n_rows):
        settings = thorough(settings)
    few = studentizes(fleet.total_weight, fleet.n_coef)
    settings = replace(found.settled(settings), studentize=few)
    ending = replace(ending, sample=found.sample if settings.leaves_out_weak else None)
    ahead = SampleAhead.of(found, fleet, objective, ending, on_round)
    if asked.plain_start is not None:
        start = with_knee(found, asked.plain_start)
        fitted = _fit_plainly(fleet, objective, start, ending, on_round, ahead)
        doubts = doubts_where_nothing_is_explained(found, fitted.noise or asked.plain_start.noise)
    else:
        result, around = found.fit, opinion.start
        by_sample = None if ahead is None else ahead.by_its_noise(fleet, around)
        if found.beside is not None and around is None:
            state = found.beside.state(fleet.total_weight)
            more = noise_rounds.run(fleet, objective, state, on_round)
            fitted = by_noise(fleet, objective, more, state, ending)
        elif by_sample is None:
            begun = found.start(fleet)
            result = calibrated_rounds.run(fleet, objective, settings, on_round, begun)
            kind = opinion.accident.kind
            fitted = with_its_noise(
                fleet, objective, result, around, ending, on_round, ahead, found, kind
            )
        else:
            fitted = by_sample
        if opinion.start is None:
            fitted = averaged(found, fitted, fleet, ending)
        doubts = doubts_about(result, asked.second_model, fitted.noise)
    return replace(
        counting_aside(fitted),
        history=found.fit.history.followed_by(fitted.history),
        doubts=(*doubts, *_about_values(found), *_about_distances(found, fitted)),
        opinion=opinion,
        notes=(*notes_about_masses(found.masses), *_about_far_rows(found, fitted)),
        far=far_predictions(found.sample, fitted.coef),
        misfit=_misfit(found, opinion, fitted),
        growing=() if opinion.is_preferred else asked.second_model.between,
    )


def _told(fleet: Fleet, found: SampleFit) -> Fleet:
    """Return the fleet with what the sample found out about rows and columns."""
    variance = np.maximum(fleet.column_variance, found.sample.fleet.column_variance)
    problem = replace(fleet.problem, far_rule=found.far_rule, aside=found.aside, cell=found.cell)
    return replace(fleet, problem=problem, column_variance=variance)


def _fit_plainly(
    fleet: Fleet,
    objective: Objective,
    start: NoiseState,
    ending: Ending,
    on_round: OnRound,
    ahead: SampleAhead | None,
) -> FittedModel:
    """Fit all rows by a plain robust fit: none is set aside for lying far out in X."""
    fleet = replace(fleet, problem=replace(fleet.problem, far_rule=None))
    fitted = None if ahead is None else ahead.fitted(fleet, start)
    if fitted is not None:
        return fitted
    result = noise_rounds.run(fleet, objective, start, on_round)
    return by_noise(fleet, objective, result, start, ending)


def _about_values(found: SampleFit) -> tuple[str, ...]:
    """Return doubts about values of y that many rows share."""
    masses, whole = found.masses, found.whole
    if not may_be_second_guessed(whole.fleet.problem):
        return doubts_about_masses(masses)
    return (*doubts_about_masses(masses), *doubts_about_a_majority(whole.rows.y, masses))


def _about_distances(found: SampleFit, fitted: FittedModel) -> tuple[str, ...]:
    """Return doubts about how far rows lie from the fit, whether set aside or not."""
    known = fitted.calibration
    if known is None or not may_be_second_guessed(found.sample.fleet.problem):
        return ()
    around = found.sample, fitted.coef, known.noise, known.scale_rule
    return (
        doubts_about_a_second_group(*around)
        or doubts_about_a_long_tail(*around)
        or doubts_about_a_plateau(*around)
    )


def _about_far_rows(found: SampleFit, fitted: FittedModel) -> tuple[str, ...]:
    """Return notes about rows that are set aside far out in X."""
    known = fitted.calibration
    if known is None or not may_be_second_guessed(found.sample.fleet.problem):
        return ()
    return notes_about_a_far_group(found, fitted.coef, known.noise, known.scale_rule)


def _misfit(found: SampleFit, opinion: Opinion, fitted: FittedModel) -> Misfit:
    known = fitted.calibration
    if known is None:
        return Misfit()
    return misfit_of(found, opinion, fitted.coef, known.noise, known.scale_rule)
