"""One whole fit, from the fleet to the fitted values: start, rounds, polish, what it is worth."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from easyfirst.calibration import (
    CleanMixture,
    clean_mass,
    corrupted_interval,
    mass_quantile,
)
from easyfirst.consensus.diagnosis import Rivalry, doubts_about, look_for_rivals
from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.gram import rank
from easyfirst.consensus.history import History
from easyfirst.consensus.inference import standard_errors
from easyfirst.consensus.polish import polish
from easyfirst.consensus.rounds import OnRound, RoundSettings, RoundsResult, Start, run
from easyfirst.consensus.sample import studentizes
from easyfirst.consensus.starts import Found, find_start, mixture_of, thorough
from easyfirst.consensus.statistics import Objective
from easyfirst.consensus.status import Status
from easyfirst.contracts import Vector
from easyfirst.schedules import Calibrated, CalibratedPace


@dataclass(frozen=True, eq=False)
class Calibration:
    """What a calibrated fit knows besides its coefficients.

    `clean_mass` holds the expected number of clean rows in each bin of |residual|.
    """

    mixture: CleanMixture
    clean_mass: Vector
    anchor: float
    n_coef: int
    batch_shares: tuple[float, ...]
    corrupted_interval: tuple[float, float]
    standard_errors: Vector

    @property
    def corrupted_fraction(self) -> float:
        """The estimated share of corrupted rows."""
        return 1.0 - self.mixture.share

    def half_width(self, coverage: float) -> float:
        """Return how far from its prediction a new clean row lies, with this probability.

        From the residuals of the clean rows, each counted by its weight. They are smaller than
        those of new rows by the share of the rows that the coefficients took.
        """
        clean = self.mixture.clean
        level = min(coverage * (1.0 + 1.0 / clean), 1.0)
        taken = min(self.n_coef / clean, 0.9)
        inflation = np.sqrt((1.0 + taken) / (1.0 - taken))
        return float(inflation * mass_quantile(self.clean_mass, self.anchor, level))


@dataclass(frozen=True, eq=False)
class FittedModel:
    """The result of a fit, in the solver's coordinates; `fleet` can weigh its rows."""

    fleet: Fleet
    coef: Vector
    rank: int
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
    rivalry = Rivalry()
    # Without square matrices, starts cannot be compared: the pace grows on all rows.
    if isinstance(settings.schedule, Calibrated) and settings.solver != "cg":
        found = find_start(fleet, objective, settings, seed, on_round)
        found, rivalry = look_for_rivals(found)
        fleet = replace(fleet, problem=replace(fleet.problem, far_rule=found.far_rule))
        seen = np.maximum(fleet.column_variance, found.sample.fleet.column_variance)
        fleet = replace(fleet, column_variance=seen)
        if found.sample.n_samples >= sum(fleet.n_rows):
            settings = thorough(settings)
        few = studentizes(fleet.total_weight, fleet.n_coef)
        settings = replace(settings, studentize=few)
        start = found.start(fleet)
    result = run(fleet, objective, settings, on_round, start)
    coef, settled = result.solution.z, False
    if exactly and not result.is_refined:
        polished = polish(fleet, objective, result.statistics, result.weightings, coef)
        coef, settled = polished.coef, polished.settled
    calibration = _calibration(fleet, result)
    return FittedModel(
        fleet=fleet,
        coef=coef,
        rank=coef.size if settled else rank(result.statistics, objective),
        rounds=result,
        history=_joined(found, result),
        status=result.status,
        calibration=calibration,
        doubts=doubts_about(result, rivalry),
    )


def _calibration(fleet: Fleet, result: RoundsResult) -> Calibration | None:
    if not isinstance(result.pace, CalibratedPace) or result.losses is None:
        return None
    mixture = mixture_of(result)
    return Calibration(
        mixture=mixture,
        clean_mass=clean_mass(result.losses, mixture),
        anchor=result.losses.anchor,
        n_coef=result.losses.n_coef,
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
    offset = first.rounds[-1].round if first.rounds else 0
    return History(
        first.rounds + tuple(replace(r, round=r.round + offset) for r in result.history.rounds),
        first.iterations
        + tuple(replace(i, round=i.round + offset) for i in result.history.iterations),
    )
