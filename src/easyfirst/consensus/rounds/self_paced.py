"""Self-paced learning by a schedule, the paper's outer loop: pace, weights, fit, again.

Round 0 fits all rows. Each round then takes the next pace, weighs the rows by the last
coefficients, and fits the weighted rows, until the pace is final and no weight changes any more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from easyfirst.consensus.fleet import Fleet, Weightings
from easyfirst.consensus.history import IterationRecord
from easyfirst.consensus.rounds.common import (
    OnRound,
    Recorder,
    RoundSettings,
    RoundsResult,
    how_it_ended,
    nothing_selected,
)
from easyfirst.consensus.solution import Solution, everywhere
from easyfirst.consensus.solvers import gathered
from easyfirst.consensus.solvers.outputs import EachOutput
from easyfirst.consensus.solvers.ways import Fit, Pooled, Solver, Task, solver_named
from easyfirst.consensus.statistics import Objective, StackedStatistics
from easyfirst.contracts import EVERY_ROW, Matrix, Pace
from easyfirst.summaries import N_BINS, LossSummary

# With weights per iteration, the most iterations at a pace that will grow anyway: later paces
# correct what is left, and the selection may flicker for hundreds of iterations.
WHILE_GROWING = 30

# What a schedule sees that does not look at the losses.
UNSEEN = LossSummary(np.zeros((1, 1, 2, N_BINS)), anchor=1.0)


def run(
    fleet: Fleet, objective: Objective, settings: RoundSettings, on_round: OnRound
) -> RoundsResult:
    """Go from a fit of all rows to a fit of the rows that the final pace selects."""
    schedule = settings.schedule
    solver = _solver(fleet, objective, settings)
    recorder = Recorder(fleet, objective, settings.rows)
    rounds = _Rounds(fleet, settings, solver)
    fit, pace, losses, done = solver.fit_every_row(), None, None, False
    ended = on_round(recorder.note(fit, pace))
    for number in range(1, settings.max_rounds + 1):
        if ended or done:
            break
        losses = (
            rounds.summarize(fit.solution, pace or EVERY_ROW) if schedule.reads_losses else UNSEEN
        )
        pace = schedule.first(losses) if pace is None else schedule.next(pace, losses)
        last, fit = fit, rounds.fit(fit, pace, number)
        ended = on_round(recorder.note(fit, pace))
        still = last.exactly and fit.statistics.changed_share <= settings.tol
        done = still and schedule.is_final(pace)
    return RoundsResult(
        solution=fit.solution,
        pace=pace or EVERY_ROW,
        weightings=fit.weightings,
        statistics=fit.statistics,
        losses=losses,
        status=how_it_ended(settings, recorder.n_rounds, fit, pace, ended, done),
        history=recorder.history,
    )


def _solver(fleet: Fleet, objective: Objective, settings: RoundSettings) -> Solver:
    if fleet.problem.n_outputs == 1:
        admm = settings.admm
        if settings.update_weights == "iteration" and fleet.problem.loss.quadratic:
            admm = replace(admm, place="driver" if admm.place == "auto" else admm.place)
        solver = solver_named(settings.solver, fleet, objective, admm)
        if isinstance(solver, Pooled) and gathered.are_few(fleet):
            return gathered.Gathered(solver)
        return solver
    # The targets share their Gram matrices, which consensus on the workers does not know.
    admm = replace(settings.admm, place="driver")
    of_one = Objective(objective.penalty, objective.fit_intercept)
    solver = solver_named(settings.solver, fleet, of_one, admm)
    return EachOutput(fleet, objective, admm, solver)


@dataclass(frozen=True, eq=False)
class _Rounds:
    """How one round leads from the last fit to the next."""

    fleet: Fleet
    settings: RoundSettings
    solver: Solver

    def summarize(self, solution: Solution, pace: Pace) -> LossSummary:
        """Return the losses of all rows at these coefficients."""
        return self.fleet.summarize(self.fleet.weightings(self._points(solution), pace))

    def fit(self, last: Fit, pace: Pace, number: int) -> Fit:
        """Fit the rows that the pace selects."""
        if self.settings.update_weights == "iteration":
            return self._alternate(last, pace, number)
        now, stats = self._weigh(last, pace)
        changes = stats.changed_share > self.settings.tol
        # Roughly while the weights will change anyway; once exactly, for good.
        grows = not self.settings.schedule.is_final(pace)
        roughly = grows or (changes and not last.exactly)
        return self.solver.solve(Task(now, stats, last.solution, number, roughly=roughly))

    def _weigh(self, last: Fit, pace: Pace) -> tuple[Weightings, StackedStatistics]:
        now = self.fleet.weightings(self._points(last.solution), pace)
        stats = self.solver.weigh(now, last.weightings, pace, last.solution.z)
        if stats.weight.sum() == 0:
            raise nothing_selected(pace, self.summarize(last.solution, EVERY_ROW))
        return now, stats

    def _alternate(self, fit: Fit, pace: Pace, number: int) -> Fit:
        """Weigh the rows again after every iteration while that changes them, then agree."""
        settings = self.settings
        limit = settings.admm.max_iter
        if not settings.schedule.is_final(pace):
            limit = min(limit, WHILE_GROWING)
        records: list[IterationRecord] = []
        agreed = False
        for _ in range(limit):
            now, stats = self._weigh(fit, pace)
            still = stats.changed_share <= settings.tol
            if still and agreed:
                fit = Fit(now, stats, fit.solution)
                break
            step = None if still else 1
            fit = self.solver.solve(Task(now, stats, fit.solution, number, max_iter=step))
            agreed = still and fit.solution.agreed
            records += fit.solution.iterations
            if len(records) >= limit:
                break
        numbered = (replace(record, iteration=k) for k, record in enumerate(records, start=1))
        return replace(fit, solution=replace(fit.solution, iterations=tuple(numbered)))

    def _points(self, solution: Solution) -> Matrix:
        """Return the coefficients by which each batch judges its rows."""
        if self.settings.weights_from == "batch":
            return solution.coefs
        return everywhere(solution.z, self.fleet.n_batches)
