"""One whole fit, from the fleet to the fitted values: start, rounds, polish, what it is worth."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from easyfirst.calibration import CleanMixture, corrupted_interval, mass_quantile, signed_quantile
from easyfirst.consensus import (
    calibrated_rounds,
    confirmation,
    noise_rounds,
    self_paced,
    wide_start,
)
from easyfirst.consensus.calibrated_rounds import Start
from easyfirst.consensus.count_rounds import count_errors, fit_counts, residual_noise
from easyfirst.consensus.diagnosis import (
    SecondModelEvidence,
    doubts_about,
    doubts_where_nothing_is_explained,
    find_second_model,
)
from easyfirst.consensus.extrapolation import (
    FarPredictions,
    far_predictions,
    restrained,
    supported,
)
from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.freedom import effective_coefficients
from easyfirst.consensus.gram import rank, without_constant_columns
from easyfirst.consensus.half_clean import granting
from easyfirst.consensus.history import History
from easyfirst.consensus.inference import errors_of, sandwich_errors, standard_errors
from easyfirst.consensus.misfit import Misfit, misfit_of
from easyfirst.consensus.noise_rounds import NoiseState
from easyfirst.consensus.point_masses import doubts_about_masses, notes_about_masses
from easyfirst.consensus.polish import polish
from easyfirst.consensus.rounds import Center, OnRound, RoundSettings, RoundsResult
from easyfirst.consensus.sample import Sample, studentizes
from easyfirst.consensus.second_opinion import Opinion, may_be_second_guessed, second_opinion
from easyfirst.consensus.solution import everywhere
from easyfirst.consensus.starts import SampleFit, find_start, first_size, thorough
from easyfirst.consensus.statistics import Diagonal, Objective
from easyfirst.consensus.status import Status
from easyfirst.consensus.transforming import Advice, advised_transform
from easyfirst.contracts import Matrix, Resident, Vector
from easyfirst.local.weighing import row_weights
from easyfirst.noise import (
    NoiseModel,
    ScaleRule,
    clean_mass,
    fit_noise,
    likely_shares,
    normal_fits,
    of_mixture,
    share_interval,
)
from easyfirst.noise.counts import NO_COUNTS, CountNoise
from easyfirst.schedules import Calibrated
from easyfirst.summaries import LossSummary

Judging = Literal["no", "advise", "choose"]  # of transformations of y

MUCH_WIDER = 2.0  # noise than the one that rounds began with: it is that of other rows
NEARLY_ALL = 0.95  # clean share from which a fit is about that of all rows


@dataclass(frozen=True, eq=False)
class Calibration:
    """What a calibrated fit knows besides its coefficients.

    `clean_mass` holds the expected number of clean rows in each bin, below and above zero.
    `standard_errors` are not a number where regularizer or penalty permit none. Rows whose y is
    one of the values `aside` are wrong, whatever their residual. For counts and amounts, rows are
    judged by `counts`, and `noise` is about the roots of their deviances.
    """

    noise: NoiseModel
    scale_rule: ScaleRule
    clean_mass: Vector
    anchor: float
    n_coef: int
    batch_shares: tuple[float, ...]
    corrupted_interval: tuple[float, float]
    standard_errors: Vector
    aside: tuple[float, ...] = ()
    counts: CountNoise = NO_COUNTS

    @property
    def is_of_counts(self) -> bool:
        """Whether the noise is that of counts or amounts."""
        return bool(self.counts.family)

    @property
    def has_standard_errors(self) -> bool:
        """Whether standard errors are known."""
        return not np.all(np.isnan(self.standard_errors))

    @property
    def corrupted_fraction(self) -> float:
        """The estimated share of corrupted rows."""
        return 1.0 - self.noise.share

    def is_aside(self, y: Vector) -> NDArray[np.bool_]:
        """Return which rows are wrong for their y alone."""
        return np.isin(y, self.aside)

    def bounds(self, coverage: float) -> tuple[float, float]:
        """Return between which residuals a new clean row lies, with this probability.

        In units of the row's own scale, which `scale_rule` gives.

        From the residuals of the clean rows, each counted by its weight. They are smaller than
        those of new rows by the share of the rows that the coefficients took.
        """
        clean = max(self.noise.clean, 1.0)
        level = min(coverage * (1.0 + 1.0 / clean), 1.0)
        taken = min(self.n_coef / clean, 0.9)
        inflation = float(np.sqrt((1.0 + taken) / (1.0 - taken)))
        mass = self.clean_mass.reshape(2, -1)
        if self.noise.is_symmetric:
            half = inflation * mass_quantile(mass.sum(axis=0), self.anchor, level)
            return -half, half
        tail = 0.5 * (1.0 - level)
        return (
            inflation * signed_quantile(mass, self.anchor, tail),
            inflation * signed_quantile(mass, self.anchor, 1.0 - tail),
        )


@dataclass(frozen=True, eq=False)
class FittedModel:
    """The result of a fit, in the solver's coordinates; `fleet` can weigh its rows.

    `redundant` are columns that differ in directions which were left out of the coefficients;
    `far` is about rows that are predicted beyond any y; errors grow along the columns `growing`.
    """

    fleet: Fleet
    coef: Vector
    rank: int
    rounds: RoundsResult
    history: History
    status: Status
    calibration: Calibration | None = None
    doubts: tuple[str, ...] = ()
    opinion: Opinion = field(default_factory=Opinion)
    advice: Advice | None = None
    notes: tuple[str, ...] = ()
    redundant: tuple[int, ...] = ()
    far: FarPredictions | None = None
    misfit: Misfit = field(default_factory=Misfit)
    growing: tuple[int, ...] = ()

    @property
    def noise(self) -> NoiseModel | None:
        """The noise around the coefficients, where it is known."""
        return None if self.calibration is None else self.calibration.noise


@dataclass(frozen=True, eq=False)
class Ending:
    """How a fit ends: whether solved once more, who judges weak directions, where it aims."""

    exactly: bool
    sample: Sample | None = None
    center: Center = "middle"


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
    if isinstance(settings.schedule, Calibrated) and not fleet.problem.loss.quadratic:
        return _fit_counts(fleet, objective, settings, seed, on_round)
    if isinstance(settings.schedule, Calibrated):
        free = effective_coefficients(fleet, objective, seed)
        fleet = replace(fleet, n_effective=free)
        return _fit_calibrated(fleet, objective, settings, seed, exactly, on_round, judging)
    result = self_paced.run(fleet, objective, settings, on_round)
    return _fitted(fleet, objective, result, Ending(exactly))


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
    fitted = _fitted(fleet, objective, found.rounds, Ending(exactly=False))
    return replace(fitted, calibration=calibration, doubts=found.doubts)


def _fit_calibrated(
    fleet: Fleet,
    objective: Objective,
    settings: RoundSettings,
    seed: int,
    exactly: bool,
    on_round: OnRound,
    judging: Judging,
) -> FittedModel | Advice:
    """Find a start on a sample, fit all rows from it, read the noise off their residuals."""
    found: SampleFit | None = None
    start: Start | None = None
    second_model, opinion = SecondModelEvidence(), Opinion()
    ending = Ending(exactly, center=settings.center)
    advice: Advice | None = None
    # Without square matrices, starts cannot be compared on a sample.
    if settings.solver != "cg":
        found = find_start(fleet, objective, settings, seed, on_round)
        found, second_model = find_second_model(found)
        opinion = second_opinion(found, second_model.is_rival)
        if fleet.least_y > 0.0 and (
            judging == "choose" or (judging == "advise" and opinion.structure.is_noticed)
        ):
            advice = advised_transform(found, opinion)
            if advice is not None and judging == "choose":
                return advice
        problem = replace(
            fleet.problem,
            far_rule=found.far_rule,
            aside=found.aside,
            cell=found.cell,
        )
        fleet = replace(fleet, problem=problem)
        seen = np.maximum(fleet.column_variance, found.sample.fleet.column_variance)
        fleet = replace(fleet, column_variance=seen)
        if found.whole.n_samples >= sum(fleet.n_rows):
            settings = thorough(settings)
        few = studentizes(fleet.total_weight, fleet.n_coef)
        settings = replace(granting(settings, found.granted), studentize=few)
        start = found.start(fleet)
        ending = replace(ending, sample=found.sample if settings.leaves_out_weak else None)
    ahead = _Ahead.of(found, fleet, objective, ending, on_round)
    fitted: FittedModel | None = None
    if opinion.start is not None and opinion.is_preferred:
        fleet = replace(fleet, problem=replace(fleet.problem, far_rule=None))
        fitted = None if ahead is None else ahead.fitted(fleet, opinion.start)
        if fitted is None:
            result = noise_rounds.run(fleet, objective, opinion.start, on_round)
            fitted = _by_noise(fleet, objective, result, opinion.start, ending)
        doubts = doubts_where_nothing_is_explained(found, fitted.noise or opinion.start.noise)
    else:
        if found is not None and ahead is not None:
            result, fitted = found.fit, ahead.by_its_noise(fleet, opinion.start)
        if fitted is None:
            if found is None:
                fleet, result = wide_start.run(fleet, objective, settings, seed, on_round)
            else:
                result = calibrated_rounds.run(fleet, objective, settings, on_round, start)
            around = opinion.start
            fitted = _with_its_noise(fleet, objective, result, around, ending, on_round, ahead)
        doubts = doubts_about(result, second_model, fitted.noise)
    masses = found.masses if found else ()
    return replace(
        _counting_aside(fitted),
        history=_joined(found, fitted.rounds),
        doubts=(*doubts, *doubts_about_masses(masses)),
        opinion=opinion,
        advice=advice,
        notes=notes_about_masses(masses),
        far=far_predictions(found.sample, fitted.coef) if found else None,
        misfit=_misfit(found, opinion, fitted),
        growing=() if opinion.is_preferred else second_model.between,
    )


def _misfit(found: SampleFit | None, opinion: Opinion, fitted: FittedModel) -> Misfit:
    known = fitted.calibration
    if found is None or known is None:
        return Misfit()
    return misfit_of(found, opinion, fitted.coef, known.noise, known.scale_rule)


def _counting_aside(fitted: FittedModel) -> FittedModel:
    """Return the fit with rows that were set aside counted among the corrupted ones."""
    found, losses, fleet = fitted.calibration, fitted.rounds.losses, fitted.fleet
    if found is None or losses is None or not fleet.problem.aside:
        return fitted
    noise, kept = found.noise, losses.total / fleet.total_weight
    rows = losses.counts.sum(axis=(1, 2, 3)) / np.array(fleet.n_rows)
    is_counted = fleet.total_weight == sum(fleet.n_rows)
    shares = np.array(found.batch_shares) * (rows if is_counted else kept)
    low, high = found.corrupted_interval
    calibration = replace(
        found,
        noise=replace(
            noise,
            total=noise.total / kept,
            share=noise.share * kept,
            levels=tuple(kept * level for level in noise.levels),
        ),
        batch_shares=tuple(shares.tolist()),
        corrupted_interval=(1.0 - (1.0 - low) * kept, 1.0 - (1.0 - high) * kept),
        aside=fleet.problem.aside,
    )
    return replace(fitted, calibration=calibration)


def _with_its_noise(
    fleet: Fleet,
    objective: Objective,
    result: RoundsResult,
    around: NoiseState | None,
    ending: Ending,
    on_round: OnRound,
    ahead: _Ahead | None,
) -> FittedModel:
    """Read the noise off the residuals of calibrated rounds, and go on where it says so."""
    if not result.is_calibrated:
        return _fitted(fleet, objective, result, ending)
    mixture = result.mixture
    seen = _NoiseSeen.at(fleet, result, around)
    if seen is None:
        return _by_mixture(fleet, objective, result, mixture, ending)
    if not seen.leads(fleet, objective):
        return _by_noise(fleet, objective, result, seen.around, ending)
    if ahead is not None:
        fitted = ahead.fitted(fleet, seen.around, settles=around is not None)
        if fitted is not None and not seen.wandered(fitted.rounds):
            return replace(fitted, history=result.history.followed_by(fitted.history))
    more = noise_rounds.run(fleet, objective, seen.around, on_round)
    if seen.wandered(more):
        return _by_mixture(fleet, objective, result, mixture, ending)
    result = replace(more, history=result.history.followed_by(more.history))
    return _by_noise(fleet, objective, result, seen.around, ending)


@dataclass(frozen=True, eq=False)
class _NoiseSeen:
    """Noise around a calibrated fit that a normal and a flat part do not describe."""

    around: NoiseState
    result: RoundsResult
    is_other: bool  # whether only the corrupted part differs from what was thought

    @classmethod
    def at(cls, fleet: Fleet, result: RoundsResult, around: NoiseState | None) -> _NoiseSeen | None:
        """Look at the residuals of a fit; None if they are as its pace takes them to be."""
        keeps_all = result.pace.value == np.inf or not may_be_second_guessed(fleet.problem)
        is_even = around is None or around.scale_rule.is_even
        if keeps_all or (is_even and normal_fits(result.known_losses, result.mixture)):
            return None
        if around is not None:
            return cls(around, result, is_other=False)
        read = fit_noise(result.known_losses, result.mixture)
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
        return self.is_other and bool(wide > MUCH_WIDER * known)


@dataclass(frozen=True, eq=False)
class _Ahead:
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
    ) -> _Ahead | None:
        """Return the sample's part in a fit, if a first one is not all of the rows."""
        if found is None or first_size(fleet) >= sum(fleet.n_rows):
            return None
        return cls(found, objective, ending, on_round)

    def by_its_noise(self, fleet: Fleet, around: NoiseState | None) -> FittedModel | None:
        """Return the fit by the noise of the sample, if that is other than normal already there."""
        fit = self.found.fit
        seen = _NoiseSeen.at(fleet, fit, around) if fit.is_calibrated else None
        # That only the corrupted part is another is for all rows to say: it may be by chance.
        if seen is None or seen.is_other or not seen.leads(fleet, self.objective):
            return None
        return self.fitted(fleet, seen.around, is_open=around is None)

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
        fitted = _fitted(fleet, objective, result, self.ending)
        if not np.array_equal(fitted.coef, result.solution.z):  # weak directions were left out
            return _by_noise(fleet, objective, result, at, self.ending)
        errors = np.full(fleet.n_coef, np.nan)
        if objective.penalty.smooth:
            errors = errors_of(fleet, confirmed.scatter, result.statistics.pooled_gram)
        return _judged_by_noise(fitted, at, confirmed.losses, errors)


def _by_mixture(
    fleet: Fleet,
    objective: Objective,
    result: RoundsResult,
    mixture: CleanMixture,
    ending: Ending,
) -> FittedModel:
    """Return the fit with the noise that its pace was read from."""
    losses = result.known_losses
    noise = of_mixture(mixture)
    calibration = Calibration(
        noise=noise,
        scale_rule=ScaleRule.even(),
        clean_mass=clean_mass(losses, noise).ravel(),
        anchor=losses.anchor,
        n_coef=losses.n_coef,
        batch_shares=result.calibrated_pace.shares,
        corrupted_interval=corrupted_interval(losses, mixture),
        standard_errors=_standard_errors(fleet, objective, result, mixture.scale),
    )
    return replace(_fitted(fleet, objective, result, ending), calibration=calibration)


def _by_noise(
    fleet: Fleet,
    objective: Objective,
    result: RoundsResult,
    around: NoiseState,
    ending: Ending,
) -> FittedModel:
    """Return the fit with the noise read off the residuals of all rows, and rows judged by it.

    The intercept is moved to what is to be predicted: the middle of the clean rows by Huber's rule,
    so their mean where they are symmetric and towards their median where not, or what was chosen.
    """
    fitted = _fitted(fleet, objective, result, ending)
    errors = np.full(fleet.n_coef, np.nan)
    if objective.penalty.smooth:
        errors = sandwich_errors(
            fleet, result.weightings, around.noise.scale, result.statistics.pooled_gram
        )
    at, losses = noise_rounds.read_anew(fleet, replace(around, coef=fitted.coef))
    is_off = ending.center != "middle" or not at.noise.is_symmetric
    if objective.fit_intercept and is_off:
        offset = noise_rounds.clean_center(fleet, at, losses, ending.center)
        moved = np.append(at.coef[:-1], at.coef[-1] + offset)
        at, losses = noise_rounds.read_anew(fleet, replace(at, coef=moved))
    return _judged_by_noise(fitted, at, losses, errors)


def _judged_by_noise(
    fitted: FittedModel, at: NoiseState, losses: LossSummary, errors: Vector
) -> FittedModel:
    """Return the fit at coefficients around which all rows have this noise, judged by it."""
    calibration = Calibration(
        noise=at.noise,
        scale_rule=at.scale_rule,
        clean_mass=clean_mass(losses, at.noise).ravel(),
        anchor=losses.anchor,
        n_coef=losses.n_coef,
        batch_shares=_by_batch(losses, likely_shares(losses, at.noise)),
        corrupted_interval=share_interval(losses, at.noise),
        standard_errors=errors,
    )
    weightings = noise_rounds.judged(fitted.fleet, at, losses)
    rounds = replace(fitted.rounds, weightings=weightings)
    return replace(fitted, coef=at.coef, rounds=rounds, calibration=calibration)


def _by_batch(losses: LossSummary, shares: Matrix) -> tuple[float, ...]:
    totals = losses.counts.sum(axis=(2, 3))
    means = np.sum(shares * totals, axis=1) / np.maximum(totals.sum(axis=1), 1e-300)
    return tuple(means.tolist())


def _fitted(
    fleet: Fleet, objective: Objective, result: RoundsResult, ending: Ending
) -> FittedModel:
    """Return what the rounds found, solved once more on request."""
    coef, is_full_rank = result.solution.z, False
    problem = fleet.problem
    is_exact = result.is_refined or not (problem.loss.quadratic and problem.n_outputs == 1)
    if ending.exactly and not is_exact:
        polished = polish(fleet, objective, result.statistics, result.weightings, coef)
        coef, is_full_rank = polished.coef, polished.is_full_rank
        result = _weighed_by(fleet, result, coef)
    found, (coef, redundant) = coef, _supported(fleet, objective, result, coef, ending.sample)
    if not np.array_equal(coef, found):
        result = _judged_at(fleet, result, coef)
    return FittedModel(
        fleet=fleet,
        redundant=redundant,
        coef=coef,
        rank=coef.size if is_full_rank else _rank(fleet, objective, result),
        rounds=result,
        history=result.history,
        status=result.status,
    )


def _supported(
    fleet: Fleet,
    objective: Objective,
    result: RoundsResult,
    coef: Vector,
    sample: Sample | None,
) -> tuple[Vector, tuple[int, ...]]:
    """Return the coefficients without directions that are better left out, and their columns."""
    matrix = result.statistics.matrix
    if sample is None or matrix is None or not objective.is_unpenalised:
        return coef, ()
    coef = without_constant_columns(coef, matrix, objective.fit_intercept)
    weights = row_weights(Resident(sample.rows), result.weightings[0], fleet.problem)
    stands_for = fleet.total_weight / float(sample.counts.sum())
    coef, columns = supported(sample, weights, matrix, stands_for, coef)
    coef = restrained(sample, weights, matrix, stands_for, coef)
    return coef, tuple(columns.tolist())


def _rank(fleet: Fleet, objective: Objective, result: RoundsResult) -> int:
    """Return how many coefficients the kept rows determine, whether or not their loss bends."""
    stats = result.statistics
    if stats.squares is None:
        return rank(stats, objective)
    if stats.matrix is None:
        return rank(replace(stats, pooled_gram=Diagonal(stats.squares)), objective)
    return rank(fleet.form(result.weightings), objective)


def _weighed_by(fleet: Fleet, result: RoundsResult, coef: Vector) -> RoundsResult:
    """Return the result with its rows weighed by these coefficients, if one set judged them all."""
    last = result.solution.z
    judges = {weighting.coef for weighting in result.weightings}
    if judges != {tuple(last.tolist())} or np.array_equal(coef, last):
        return result
    return _judged_at(fleet, result, coef)


def _judged_at(fleet: Fleet, result: RoundsResult, coef: Vector) -> RoundsResult:
    """Return the result moved to other coefficients, with its rows weighed by them."""
    points = everywhere(coef, fleet.n_batches)
    whitener = result.weightings[0].whitener
    return replace(
        result,
        solution=result.solution.moved_to(coef),
        weightings=fleet.weightings(points, result.pace, whitener),
    )


def _standard_errors(
    fleet: Fleet, objective: Objective, result: RoundsResult, scale: float
) -> Vector:
    """Return standard errors where the formula holds: weights of known slope, a smooth penalty."""
    if not (fleet.problem.regularizer.is_posterior and objective.penalty.smooth):
        return np.full(fleet.n_coef, np.nan)
    return standard_errors(fleet, result.weightings, scale, result.statistics.pooled_gram)


def _joined(found: SampleFit | None, result: RoundsResult) -> History:
    """Return the history of the start and of the rounds on all rows as one."""
    return result.history if found is None else found.fit.history.followed_by(result.history)
