"""Rounds whose pace is read off the residuals, on all rows or on a sample of them.

From a fit of all rows the pace grows until clean and corrupted rows can be told apart; from a
`Start` with a scale it is read off at once. A round is either a fit of its own (losses, pace,
weights, solve) or, where a matrix close to the right one is known, a sweep: one pass over the
rows that forms no matrix. In the end the pace is read off once more at the last coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from easyfirst.consensus.fleet import Fleet, Weightings
from easyfirst.consensus.progress import Progress
from easyfirst.consensus.rounds.common import (
    OnRound,
    Recorder,
    RoundSettings,
    RoundsResult,
    how_it_ended,
)
from easyfirst.consensus.solution import Solution, everywhere
from easyfirst.consensus.solvers import gram
from easyfirst.consensus.solvers.gram import ProximalTerm, is_well_conditioned
from easyfirst.consensus.solvers.ways import Fit, Solver, Task, around, solver_named
from easyfirst.consensus.statistics import Objective, StackedStatistics
from easyfirst.contracts import EVERY_ROW, Matrix, Pace, Vector
from easyfirst.local.weighing import Whitener
from easyfirst.schedules import Calibrated, CalibratedPace
from easyfirst.summaries import LossSummary

MANY_COLUMNS = 500  # beyond, a Gram matrix of the rows costs as much as hundreds of passes
SAME_ROWS = 0.1  # share of the weight that may change before a matrix is that of other rows
PROX_STRENGTH = 1e-4  # pull of the last coefficients, in rows per row
RUN_AWAY = 16.0  # spreads of y: no noise around a fit of some of the rows is that wide


@dataclass(frozen=True, eq=False)
class Start:
    """Where to begin instead of at a fit of all rows.

    With a scale, the residuals are calibrated near it at once; without, the pace grows first.
    `pace` and `gram` are those of the fit that the start comes from, by which the first residuals
    can be freed of their own pull. With a `preconditioner`, rounds use the matrix `gram` instead of
    forming their own as long as the steps shrink: one pass over the rows per round, no X'X. It is
    the rows' own, or borrowed from a sample of them.
    """

    coef: Vector
    scale: float | None = None
    pace: Pace = EVERY_ROW
    gram: Matrix | None = None
    preconditioner: Literal["own", "borrowed"] | None = None


def run(
    fleet: Fleet,
    objective: Objective,
    settings: RoundSettings,
    on_round: OnRound,
    start: Start | None = None,
) -> RoundsResult:
    """Go from a fit of all rows, or from `start`, to calibrated weights and their fit."""
    # Steps are measured by the Gram matrix, which consensus on the workers does not know.
    solver = solver_named(settings.solver, fleet, objective, replace(settings.admm, place="driver"))
    # Round 0 is a fit of all rows, which a start replaces.
    recorder = Recorder(fleet, objective, settings.rows, first=0 if start is None else 1)
    if start is None:
        rounds = _Rounds.from_every_row(fleet, settings, solver)
        ended = on_round(recorder.note(rounds.fit, None))
    else:
        rounds, ended = _Rounds.from_start(fleet, settings, solver, start), False
    done = False
    for _ in range(settings.max_rounds):
        if ended or done:
            break
        rounds.advance(recorder.number)
        ended = on_round(recorder.note(rounds.fit, rounds.pace))
        done = rounds.is_done()
    rounds.read_out()
    return RoundsResult(
        solution=rounds.solution,
        pace=rounds.pace,
        weightings=rounds.weightings,
        statistics=rounds.fit.statistics,
        losses=rounds.losses,
        status=how_it_ended(settings, recorder.n_rounds, rounds.fit, rounds.pace, ended, done),
        history=recorder.history,
        is_refined=rounds.borrowed_from is not None,
    )


@dataclass(eq=False)
class _Rounds:
    """The state between two rounds, and the steps from one to the next."""

    fleet: Fleet
    settings: RoundSettings
    solver: Solver
    solution: Solution
    weightings: Weightings
    pace: Pace  # by which the last fit judged its rows
    statistics: StackedStatistics | None = None
    first_scale: float | None = None  # near which the first pace is read off
    gram: Matrix | None = None  # of the rows behind the solution
    preconditioner: Matrix | None = None  # a stand-in for the next one, as long as it serves
    is_borrowed: bool = False  # whether that is from a sample
    drift: float = np.inf  # share of the weight that changed since that was formed, if known
    borrowed_from: Vector | None = None  # where a last round by a borrowed preconditioner began
    losses: LossSummary | None = None
    is_first: bool = True
    whitener: Whitener | None = None  # by which the last fit judged its rows
    gram_of_every_row: Matrix | None = None
    root_of_every_row: Matrix | None = None  # of the inverse Gram matrix
    fresh_whitener: Whitener | None = None  # of the matrix and the step as they are now
    keeps_every_row: bool = False  # since none looked clean any more
    ahead: Vector | None = None  # the part of the last step that was not taken
    progress: Progress = field(default_factory=Progress)

    @classmethod
    def from_every_row(cls, fleet: Fleet, settings: RoundSettings, solver: Solver) -> _Rounds:
        """Begin at a fit of all rows."""
        fit = solver.fit_every_row()
        rounds = cls(fleet, settings, solver, fit.solution, fit.weightings, EVERY_ROW)
        rounds._take(fit)
        rounds.gram_of_every_row = fit.statistics.matrix
        return rounds

    @classmethod
    def from_start(
        cls, fleet: Fleet, settings: RoundSettings, solver: Solver, start: Start
    ) -> _Rounds:
        """Begin at the end of another fit."""
        solution = Solution.at(start.coef, fleet.n_batches)
        rounds = cls(
            fleet,
            settings,
            solver,
            solution,
            fleet.every_row(),
            start.pace,
            first_scale=start.scale,
            gram=start.gram,
        )
        if start.preconditioner is not None and rounds._permits_preconditioner:
            rounds.preconditioner, rounds.is_borrowed = (
                start.gram,
                start.preconditioner == "borrowed",
            )
        return rounds

    @property
    def fit(self) -> Fit:
        """The last round's fit."""
        assert self.statistics is not None, "no round has ended yet"
        return Fit(self.weightings, self.statistics, self.solution)

    @property
    def schedule(self) -> Calibrated:
        """The schedule, which knows how to read a pace off the residuals."""
        return self.settings.calibrated

    def advance(self, number: int) -> None:
        """Do one round."""
        last = self.solution.z
        self.borrowed_from = None
        if self.preconditioner is not None:
            self._sweep(self.preconditioner, number)
            self.drift += self.fit.statistics.changed_share
            self._settle(last)
            return
        self._fit_anew(number)
        self._settle(last)
        serves = self._permits_preconditioner and np.isfinite(self.progress.moved)
        if serves and self.gram is not None and is_well_conditioned(self.gram):
            self.preconditioner, self.is_borrowed, self.drift = self.gram, False, 0.0

    def is_done(self) -> bool:
        """Return whether the pace is final and nothing moves any more."""
        if not self.schedule.is_final(self.pace):
            return False
        still = self.fit.statistics.changed_share <= self.settings.tol
        return still or self.progress.left <= self.schedule.step_tolerance

    def read_out(self) -> None:
        """Read the pace once more, at the last coefficients."""
        if not self.schedule.is_final(self.pace):
            return
        if self.borrowed_from is not None:
            # The residuals there are known, and the next step is small.
            points = everywhere(self.borrowed_from, self.fleet.n_batches)
            self.weightings = self.fleet.weightings(points, self.pace)
            return
        points = self._points()
        # By the last whitener: a newer one might let rows in that the last fit knows nothing of.
        judged = self.fleet.weightings(points, self.pace, self.whitener)
        self.losses = self.fleet.summarize(judged)
        self.pace = self._next_pace(self.losses)
        self.weightings = self.fleet.weightings(points, self.pace, self.whitener)

    def _fit_anew(self, number: int) -> None:
        """Do one round as a fit of its own: losses, pace, weights, solve."""
        points = self._points()
        judged = self.fleet.weightings(points, self.pace, self._whitener())
        self.losses = self.fleet.summarize(judged)
        self.pace = self._next_pace(self.losses)
        self.whitener = self._whitener()
        now = self.fleet.weightings(points, self.pace, self.whitener)
        stats = self.solver.weigh(now, self.weightings, self.pace, self.solution.z)
        if stats.weight.sum() == 0:
            now = self._give_up(self.losses)
            stats = self.solver.weigh(now, self.weightings, self.pace, self.solution.z)
        self._take(self.solver.solve(Task(now, stats, self.solution, number, self._prox_term())))

    def _sweep(self, preconditioner: Matrix, number: int) -> None:
        """Do one round in one pass over the rows: weigh them by the last pace, find the next.

        A pace that lags behind by one round changes the step by second order only: around the
        truth, rows pull evenly to both sides whatever the threshold.
        """
        last = self.solution
        now = self.fleet.weightings(self._points(), self.pace)
        self.losses, stats = around(
            self.fleet, last.z, preconditioner, now, self.weightings, self.pace
        )
        if stats.weight.sum() == 0:
            now = self._give_up(self.losses)
            self.losses, stats = around(
                self.fleet, last.z, preconditioner, now, self.weightings, self.pace
            )
        self.pace = self._next_pace(self.losses)
        task = Task(now, stats, last, number, self._prox_term())
        self._take(self.solver.solve(task), keeps_gram=True)
        self.borrowed_from = last.z if self.is_borrowed else None
        self.is_first = False

    def _take(self, fit: Fit, keeps_gram: bool = False) -> None:
        self.weightings, self.statistics = fit.weightings, fit.statistics
        self.solution = fit.solution
        if not keeps_gram:
            self.gram, self.fresh_whitener = fit.statistics.matrix, None

    def _give_up(self, losses: LossSummary) -> Weightings:
        """Keep every row from now on: no row is more likely clean than not."""
        self.keeps_every_row = True
        self.pace = self.schedule.keep_every_row(losses)
        return self.fleet.weightings(self._points(), self.pace)

    def _next_pace(self, losses: LossSummary) -> Pace:
        if isinstance(self.pace, CalibratedPace):
            # From round to round, a fit of few rows that no other one holds may miss them by more.
            self.keeps_every_row |= self.pace.mixture.scale > RUN_AWAY * losses.anchor
        if self.keeps_every_row:
            return self.schedule.keep_every_row(losses)
        if not self.is_first:
            return self.schedule.next(self.pace, losses)
        self.is_first = False
        if self.first_scale is None:
            return self.schedule.first(losses)
        return self.schedule.calibrate(losses, self.first_scale)

    @property
    def _permits_preconditioner(self) -> bool:
        """Whether rounds can do without Gram matrices.

        Consensus needs those of single batches, and residuals freed of their own pull need one
        for every round.
        """
        return self.solver.accepts_preconditioner and not self.settings.studentize

    def _prox_term(self) -> ProximalTerm:
        fleet = self.fleet
        variance = np.append(fleet.column_variance, 1.0)[: self.solution.z.size]
        return ProximalTerm(self.solution.z, PROX_STRENGTH * fleet.total_weight * variance)

    def _settle(self, last: Vector) -> None:
        """Measure the step in standard errors, and lengthen it as the schedule advises."""
        assert self.losses is not None
        if self.pace.width is None or not self.schedule.is_final(self.pace):
            self.progress.start_anew()
            self.ahead = self.fresh_whitener = None
            return
        step = self.solution.z - last
        length = 1.0
        if self.solver.is_exact:
            if self.settings.studentize:
                length = self.progress.length_of_few_rows(step, self._curve)
            else:
                advice = self.schedule.stretch(self.pace, self.losses)
                length = self.progress.length_by_advice(advice)
            self.solution = self.solution.moved_to(last + length * step)
            self.ahead, self.fresh_whitener = (1.0 - length) * step, None
        size = float(step @ self._curve(step))
        moved = length * float(np.sqrt(max(size, 0.0) / (0.5 * self.pace.width * step.size)))
        stalled = self.progress.note(moved, preconditioned=self.preconditioner is not None)
        # A matrix of nearly the same rows is not what holds the steps up: the scale still falls. A
        # new one saves a few passes all the same, which is worth it where columns are few.
        is_cheap = self.fleet.n_coef <= MANY_COLUMNS
        if stalled and (is_cheap or self.drift > SAME_ROWS):
            self.preconditioner = None

    def _curve(self, direction: Vector) -> Vector:
        return self.solver.curve(self.fit, direction)

    def _points(self) -> Matrix:
        """Return the coefficients by which each batch judges its rows."""
        if self.settings.weights_from == "batch":
            return self.solution.coefs
        return everywhere(self.solution.z, self.fleet.n_batches)

    def _whitener(self) -> Whitener | None:
        wanted = self.settings.studentize and self.schedule.is_final(self.pace)
        if not wanted or self.gram is None:
            return None
        if self.root_of_every_row is None:
            if self.gram_of_every_row is None:
                everyone = self.fleet.form(self.fleet.every_row())
                self.gram_of_every_row = everyone.pooled_gram
            self.root_of_every_row = self._inverse_root(self.gram_of_every_row)
        if self.fresh_whitener is None:
            root = self._inverse_root(self.gram)
            self.fresh_whitener = Whitener(root, self.root_of_every_row, self.ahead)
        return self.fresh_whitener

    def _inverse_root(self, matrix: Matrix) -> Matrix:
        objective = self.solver.objective
        diagonal = objective.penalty_diagonal(self.solution.z.size)
        return gram.inverse_root(matrix, diagonal, objective.fit_intercept)
