"""The outer loop: fit, look at the losses, choose the pace, weigh the rows, fit again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from easyfirst.consensus import admm, gram, status
from easyfirst.consensus.admm import AdmmSettings
from easyfirst.consensus.fleet import Fleet, Weightings
from easyfirst.consensus.history import History, IterationRecord, RoundRecord
from easyfirst.consensus.solution import Solution
from easyfirst.consensus.statistics import Objective, StackedStatistics
from easyfirst.consensus.status import Status
from easyfirst.contracts import EVERY_ROW, Pace, Vector
from easyfirst.errors import NoRowSelectedError
from easyfirst.schedules import PaceSchedule
from easyfirst.summaries import LossSummary

# With weights per iteration, the most iterations at a pace that will grow anyway: later paces
# correct what is left, and the selection may flicker for hundreds of iterations.
WHILE_GROWING = 30

# Called after each round; returning True ends the fit.
OnRound = Callable[[RoundRecord], bool]


@dataclass(frozen=True)
class RoundSettings:
    """How the rounds go; the batches and the objective are given separately."""

    schedule: PaceSchedule
    solver: Literal["admm", "gram"] = "gram"
    admm: AdmmSettings = field(default_factory=AdmmSettings)
    weights_from: Literal["consensus", "batch"] = "consensus"
    update_weights: Literal["round", "iteration"] = "round"
    max_rounds: int = 200
    tol: float = 1e-6


@dataclass(frozen=True, eq=False)
class RoundsResult:
    """Where the rounds ended; `weightings` reproduce the weights of every row."""

    solution: Solution
    pace: Pace
    weightings: Weightings
    statistics: StackedStatistics
    status: Status
    history: History


def run(
    fleet: Fleet, objective: Objective, settings: RoundSettings, on_round: OnRound
) -> RoundsResult:
    """Go from a fit of all rows, round by round, to a fit of the rows the pace lets in."""
    log = _Log(objective)
    before = fleet.every_row()
    stats = fleet.form(before, None)
    solution = _solve(stats, objective, settings, None, round_number=0)
    pace: Pace | None = None
    ended = on_round(log.write(EVERY_ROW, stats, solution))
    for round_number in range(1, settings.max_rounds + 1):
        if ended:
            break
        losses = fleet.summarize(_points(solution, settings))
        pace = (
            settings.schedule.first(losses)
            if pace is None
            else settings.schedule.next(pace, losses)
        )
        before, stats, solution = _one_round(
            fleet, objective, settings, before, solution, pace, losses, round_number
        )
        ended = on_round(log.write(pace, stats, solution))
        if settings.schedule.is_final(pace) and stats.changed_share <= settings.tol:
            break
    return RoundsResult(
        solution=solution,
        pace=pace or EVERY_ROW,
        weightings=before,
        statistics=stats,
        status=_status(settings, log, pace, stats, solution, ended),
        history=log.history(),
    )


def _one_round(
    fleet: Fleet,
    objective: Objective,
    settings: RoundSettings,
    before: Weightings,
    solution: Solution,
    pace: Pace,
    losses: LossSummary,
    round_number: int,
) -> tuple[Weightings, StackedStatistics, Solution]:
    """Weigh the rows by the pace and fit them; with weights per iteration, alternate."""
    if settings.update_weights == "round":
        now = fleet.weightings(_points(solution, settings), pace)
        stats = fleet.form(now, before)
        _require_a_selection(stats, pace, losses)
        return now, stats, _solve(stats, objective, settings, solution, round_number)
    return _alternate(fleet, objective, settings, before, solution, pace, losses, round_number)


def _alternate(
    fleet: Fleet,
    objective: Objective,
    settings: RoundSettings,
    before: Weightings,
    solution: Solution,
    pace: Pace,
    losses: LossSummary,
    round_number: int,
) -> tuple[Weightings, StackedStatistics, Solution]:
    """Weigh the rows again after every iteration while that changes them, then agree."""
    one_iteration = replace(settings, admm=replace(settings.admm, max_iter=1))
    records: list[IterationRecord] = []
    agreed = False
    is_final = settings.schedule.is_final(pace)
    limit = settings.admm.max_iter if is_final else min(settings.admm.max_iter, WHILE_GROWING)
    for _ in range(limit):
        now = fleet.weightings(_points(solution, settings), pace)
        stats = fleet.form(now, before)
        _require_a_selection(stats, pace, losses)
        before = now
        still = stats.changed_share <= settings.tol
        if still and agreed:
            break
        solution = _solve(
            stats, objective, settings if still else one_iteration, solution, round_number
        )
        agreed = still and solution.agreed
        records += solution.iterations
        if len(records) >= limit:
            break
    numbered = (replace(record, iteration=k) for k, record in enumerate(records, start=1))
    return before, stats, replace(solution, iterations=tuple(numbered))


def _solve(
    stats: StackedStatistics,
    objective: Objective,
    settings: RoundSettings,
    start: Solution | None,
    round_number: int,
) -> Solution:
    if settings.solver == "gram":
        return gram.solve(stats, objective)
    return admm.solve(stats, objective, settings.admm, start, round_number)


def _points(solution: Solution, settings: RoundSettings) -> Vector:
    """Return the coefficients by which each batch judges its rows."""
    if settings.weights_from == "batch":
        return solution.coefs
    return np.tile(solution.z, (len(solution.coefs), 1))


def _require_a_selection(stats: StackedStatistics, pace: Pace, losses: LossSummary) -> None:
    if stats.weight.sum() > 0:
        return
    low, middle, high = (losses.loss_quantile(share) for share in (0.01, 0.5, 0.99))
    raise NoRowSelectedError(
        f"The pace {pace.value:.3g} lets in none of the rows: at this point their losses have a "
        f"median of {middle:.3g}, and 98 % of them lie between {low:.3g} and {high:.3g}. Give a "
        f"pace on that scale, rescale y, or use pace=None, which needs no scale."
    )


def _status(
    settings: RoundSettings,
    log: _Log,
    pace: Pace | None,
    stats: StackedStatistics,
    solution: Solution,
    ended: bool,
) -> Status:
    rounds = len(log.rounds) - 1
    if ended:
        return status.stopped_by_callback(rounds)
    final = pace is not None and settings.schedule.is_final(pace)
    if not (final and stats.changed_share <= settings.tol):
        return status.out_of_rounds(rounds, stats.changed_share, final)
    if not solution.agreed:
        return status.out_of_iterations(rounds, settings.admm.max_iter)
    return status.converged(rounds)


@dataclass
class _Log:
    """Collects the records of a fit."""

    objective: Objective
    rounds: list[RoundRecord] = field(default_factory=list)
    iterations: list[IterationRecord] = field(default_factory=list)
    _began: float = field(default_factory=time.perf_counter)

    def write(self, pace: Pace, stats: StackedStatistics, solution: Solution) -> RoundRecord:
        """Record the round that has just ended."""
        now = time.perf_counter()
        record = RoundRecord(
            round=len(self.rounds),
            pace=pace.value,
            selected=float(stats.selected.sum()),
            changed=stats.changed_share,
            objective=self.objective.value(stats, solution.z),
            lagrangian=solution.lagrangian,
            primal_residual=solution.primal_residual,
            dual_residual=solution.dual_residual,
            rho=solution.rho,
            kkt_residual=self.objective.kkt_residual(stats, solution.z),
            iterations=len(solution.iterations),
            seconds=now - self._began,
            batch_selected_share=tuple(stats.batch_selected_share.tolist()),
        )
        self._began = now
        self.rounds.append(record)
        self.iterations.extend(solution.iterations)
        return record

    def history(self) -> History:
        """Return everything recorded so far."""
        return History(tuple(self.rounds), tuple(self.iterations))
