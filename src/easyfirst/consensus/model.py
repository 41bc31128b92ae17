"""One whole fit, from the fleet to the fitted values: start, rounds, polish, what it is worth."""

from __future__ import annotations

from dataclasses import dataclass, replace

from easyfirst.calibration import CleanMixture, corrupted_interval
from easyfirst.consensus.diagnosis import doubts_about
from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.history import History
from easyfirst.consensus.inference import standard_errors
from easyfirst.consensus.polish import polish
from easyfirst.consensus.rounds import OnRound, RoundSettings, RoundsResult, Start, run
from easyfirst.consensus.starts import Found, find_start, mixture_of, studentizes
from easyfirst.consensus.statistics import Objective
from easyfirst.consensus.status import Status
from easyfirst.contracts import Vector
from easyfirst.schedules import Calibrated, CalibratedPace
from easyfirst.summaries import LossSummary


@dataclass(frozen=True, eq=False)
class Calibration:
    """What a calibrated fit knows besides its coefficients."""

    mixture: CleanMixture
    losses: LossSummary
    batch_shares: tuple[float, ...]
    corrupted_interval: tuple[float, float]
    standard_errors: Vector

    @property
    def corrupted_fraction(self) -> float:
        """The estimated share of corrupted rows."""
        return 1.0 - self.mixture.share


@dataclass(frozen=True, eq=False)
class FittedModel:
    """The result of a fit, in the solver's coordinates; `fleet` can weigh its rows."""

    fleet: Fleet
    coef: Vector
    rounds: RoundsResult
    history: History
    status: Status
    calibration: Calibration | None
    doubts: tuple[str, ...]


def fit_model(
    fleet: Fleet,
    objective: Objective,
    settings: RoundSettings,
    seed: int,
    exactly: bool,
    on_round: OnRound,
) -> FittedModel:
    """Fit all rows; `exactly` solves once more for the final weights."""
    found: Found | None = None
    start: Start | None = None
    if isinstance(settings.schedule, Calibrated):
        found = find_start(fleet, objective, settings, seed, on_round)
        fleet = replace(fleet, problem=replace(fleet.problem, far_rule=found.far_rule))
        n_rows, n_coef = sum(fleet.n_rows), found.fit.solution.z.size
        settings = replace(settings, studentize=studentizes(n_rows, n_coef))
        start = found.start(n_rows)
    result = run(fleet, objective, settings, on_round, start)
    coef = result.solution.z
    if exactly:
        coef = polish(fleet, objective, result.statistics, result.weightings, coef)
    calibration = _calibration(fleet, result)
    doubts = () if found is None else doubts_about(result, found)
    return FittedModel(
        fleet=fleet,
        coef=coef,
        rounds=result,
        history=_joined(found, result),
        status=result.status,
        calibration=calibration,
        doubts=doubts,
    )


def _calibration(fleet: Fleet, result: RoundsResult) -> Calibration | None:
    if not isinstance(result.pace, CalibratedPace) or result.losses is None:
        return None
    mixture = mixture_of(result)
    return Calibration(
        mixture=mixture,
        losses=result.losses,
        batch_shares=result.pace.shares,
        corrupted_interval=corrupted_interval(result.losses, mixture),
        standard_errors=standard_errors(
            fleet, result.weightings, mixture.scale, result.statistics.pooled_gram
        ),
    )


def _joined(found: Found | None, result: RoundsResult) -> History:
    """Return the history of the start and of the rounds on all rows as one."""
    if found is None:
        return result.history
    first = found.fit.history
    offset = len(first.rounds)
    return History(
        first.rounds + tuple(replace(r, round=r.round + offset) for r in result.history.rounds),
        first.iterations
        + tuple(replace(i, round=i.round + offset) for i in result.history.iterations),
    )
