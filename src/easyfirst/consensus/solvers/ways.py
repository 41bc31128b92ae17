"""The ways to solve a round's weighted problem, each with the statistics that it asks for."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from easyfirst.consensus.fleet import Fleet, Weightings
from easyfirst.consensus.solution import Solution
from easyfirst.consensus.solvers import admm, conjugate, gram, newton
from easyfirst.consensus.solvers.admm import AdmmSettings, OnDriver
from easyfirst.consensus.solvers.gram import Equations, ProximalTerm
from easyfirst.consensus.solvers.on_workers import OnWorkers
from easyfirst.consensus.statistics import Diagonal, Objective, StackedStatistics
from easyfirst.contracts import EVERY_ROW, Matrix, Pace, Vector
from easyfirst.local.derivatives import Expansion
from easyfirst.losses import Loss
from easyfirst.summaries import LossSummary

SolverName = Literal["admm", "gram", "cg"]

# Share of the weight that may change before Gram matrices are summed again: until then, each round
# costs only the rows that changed.
DRIFT = 0.1

# Numbers in the Gram matrices of all batches up to which consensus is iterated on the driver.
LARGEST_STACK = 1 << 25

# What may be left of the gradient where there is no closed form: while the pace grows, because the
# weights will change anyway, and in the end (as a share of the tolerance for consensus).
ROUGHLY, EXACTLY = 1e-6, 1e-2


@dataclass(frozen=True, eq=False)
class Fit:
    """The rows as they are weighed, what was learned about them, and the best coefficients.

    `exactly` says that the solution was not cut short because the weights would change anyway.
    """

    weightings: Weightings
    statistics: StackedStatistics
    solution: Solution
    exactly: bool = True


@dataclass(frozen=True, eq=False)
class Task:
    """The weighted problem of a round, and how it is to be solved.

    `last` is where the round before ended, to start from; a `prox_term` holds coefficients there.
    Iterative solvers take at most `max_iter` steps, and stop early where `roughly` will do because
    the weights change anyway.
    """

    now: Weightings
    stats: StackedStatistics
    last: Solution | None = None
    number: int = 0
    prox_term: ProximalTerm | None = None
    max_iter: int | None = None
    roughly: bool = False


@dataclass(eq=False)
class Solver(ABC):
    """Weigh the rows, then find the coefficients that are best for the weighted rows.

    `is_exact` solvers return the optimum, so that the way to it can be lengthened;
    `accepts_preconditioner` says that statistics around a point will do in place of Gram matrices.
    """

    is_exact: ClassVar[bool] = True
    accepts_preconditioner: ClassVar[bool] = False

    fleet: Fleet
    objective: Objective
    settings: AdmmSettings

    @abstractmethod
    def fit_every_row(self) -> Fit:
        """Fit all rows, whatever their losses."""

    @abstractmethod
    def weigh(
        self, now: Weightings, before: Weightings, pace: Pace, z: Vector
    ) -> StackedStatistics:
        """Return the statistics of the rows; `z` is where the last fit ended."""

    @abstractmethod
    def solve(self, task: Task) -> Fit:
        """Return the best coefficients for the weighted rows."""

    def curve(self, fit: Fit, direction: Vector) -> Vector:
        """Return the weighted Gram matrix times a direction."""
        return np.asarray(fit.statistics.pooled_gram @ direction)


@dataclass(eq=False)
class _WithMatrices(Solver):
    """A solver that knows the Gram matrix of every batch.

    Rounds build on the matrices of a `reference` until too many weights have changed since.
    """

    reference: Weightings | None = None
    drift: float = 0.0

    def fit_every_row(self) -> Fit:
        """Fit all rows."""
        now = self.fleet.every_row()
        return self.solve(Task(now, self.fleet.form(now)))

    def weigh(
        self, now: Weightings, before: Weightings, pace: Pace, z: Vector
    ) -> StackedStatistics:
        """Return the Gram matrices of the weighted rows."""
        del pace, z
        stats = self.fleet.form(now, before, self.reference)
        self.drift += stats.changed_share
        if self.reference is None:
            self.reference, self.drift = now, 0.0
        elif self.drift > DRIFT:
            self.reference = None
        return stats


@dataclass(eq=False)
class Pooled(Solver):
    """Add up the Gram matrices of all batches and solve once.

    Where rows are in or out, a round adds those that came and takes off those that left, until too
    many did since the sums were last formed.
    """

    accepts_preconditioner: ClassVar[bool] = True

    known: StackedStatistics | None = None
    drift: float = 0.0
    equations: Equations | None = None  # the last ones, which a preconditioner shares

    def fit_every_row(self) -> Fit:
        """Fit all rows."""
        now = self.fleet.every_row()
        return self.solve(Task(now, self.fleet.form(now, pooled=True)))

    def weigh(
        self, now: Weightings, before: Weightings, pace: Pace, z: Vector
    ) -> StackedStatistics:
        """Return the Gram matrix of the weighted rows."""
        del pace, z
        stats = None
        if self.known is not None and self.drift <= DRIFT:
            stats = self.known.turned_over(self.fleet.turnover(now, before))
        if stats is None:
            stats, self.drift = self.fleet.form(now, before, pooled=True), 0.0
        else:
            self.drift += stats.changed_share
        if self.fleet.problem.regularizer.is_all_or_nothing:
            self.known = stats
        return stats

    def solve(self, task: Task) -> Fit:
        """Solve the normal equations of all rows."""
        return Fit(task.now, task.stats, self.solution(task))

    def solution(self, task: Task) -> Solution:
        """Return the solution of the normal equations."""
        matrix, term = task.stats.pooled_gram, task.prox_term
        if self.equations is None or not self.equations.are_those_of(matrix, term):
            self.equations = Equations.of(matrix, self.objective, term)
        return gram.solve(task.stats, self.objective, term, equations=self.equations)


class Agreed(Pooled):
    """Consensus where nobody asked for the way to it: the point at which the batches agree.

    That is the solution for all rows together. The history shows one iteration that ends there.
    """

    def solve(self, task: Task) -> Fit:
        """Solve the normal equations of all rows, and say so as an iteration."""
        began, stats = time.perf_counter(), task.stats
        solution = self.solution(task)
        solution = admm.at_the_end(solution, stats, self.objective, task.number, began)
        return Fit(task.now, stats, solution)


class Consensus(_WithMatrices):
    """Iterate over the Gram matrices of the batches until they agree, as the paper does."""

    is_exact: ClassVar[bool] = False

    def solve(self, task: Task) -> Fit:
        """Iterate from where the last round ended."""
        settings = _limited(self.settings, task.max_iter)
        batches = OnDriver(task.stats, self.objective, settings)
        solution = admm.solve(batches, task.stats, self.objective, settings, task.last, task.number)
        return Fit(task.now, task.stats, solution)


@dataclass(eq=False)
class ConsensusOnWorkers(Solver):
    """Iterate where the rows are: any loss, and nothing but coefficients on the way."""

    is_exact: ClassVar[bool] = False

    anchors: Matrix | None = None  # of the batches' factors

    def fit_every_row(self) -> Fit:
        """Fit all rows, from zero, by easier losses first where the loss has some."""
        fleet, now = self.fleet, self.fleet.every_row()
        solution: Solution | None = None
        for loss in fleet.problem.loss.stages(fleet.spread_of_y):
            z = np.zeros(fleet.n_coef) if solution is None else solution.z
            stats = fleet.expand(now, None, Expansion(z, loss, diagonal=True))
            fit = self._solve(Task(now, stats, solution, roughly=True), loss)
            solution = fit.solution
        return fit

    def weigh(
        self, now: Weightings, before: Weightings, pace: Pace, z: Vector
    ) -> StackedStatistics:
        """Return the gradient of the weighted rows and the diagonal of their curvature."""
        del pace
        return self.fleet.expand(now, before, Expansion(z, self.fleet.problem.loss, diagonal=True))

    def solve(self, task: Task) -> Fit:
        """Iterate from where the last round ended."""
        return self._solve(task, self.fleet.problem.loss)

    def _solve(self, task: Task, loss: Loss) -> Fit:
        settings = _limited(self.settings, task.max_iter)
        if task.roughly:
            settings = replace(settings, tol=max(ROUGHLY, settings.tol))
        if self.anchors is None:
            self.anchors = np.zeros((self.fleet.n_batches, self.fleet.n_coef))
        batches = OnWorkers(
            self.fleet, task.now, task.stats, self.objective, settings, loss, self.anchors
        )
        solution = admm.solve(batches, task.stats, self.objective, settings, task.last, task.number)
        self.anchors = batches.anchors
        return Fit(task.now, batches.statistics_at(solution.z), solution, exactly=not task.roughly)


class ConjugateGradients(Solver):
    """Solve by products with the rows alone."""

    def fit_every_row(self) -> Fit:
        """Fit all rows, from zero."""
        nothing = Solution.at(np.zeros(self.fleet.n_coef), self.fleet.n_batches)
        now = self.fleet.weightings(nothing.coefs, EVERY_ROW)
        stats = self.weigh(now, self.fleet.every_row(), EVERY_ROW, nothing.z)
        return self.solve(Task(now, stats, nothing))

    def weigh(
        self, now: Weightings, before: Weightings, pace: Pace, z: Vector
    ) -> StackedStatistics:
        """Return the statistics around `z`."""
        known = Diagonal(self.fleet.column_squares(now))
        return around(self.fleet, z, known, now, before, pace)[1]

    def solve(self, task: Task) -> Fit:
        """Step from where the statistics were gathered."""
        assert task.last is not None
        pull = 0.0 if task.prox_term is None else task.prox_term.strength
        solution, stats = conjugate.solve(
            self.fleet, task.now, task.stats, self.objective, task.last.z, pull
        )
        return Fit(task.now, stats, solution)

    def curve(self, fit: Fit, direction: Vector) -> Vector:
        """Return the weighted Gram matrix times a direction, by a pass over the rows."""
        return self.fleet.curve(fit.weightings, direction)


@dataclass(eq=False)
class Newton(Solver):
    """Any loss on all rows at once, by matrices or, without any, by products with the rows."""

    by_products: bool = False

    def fit_every_row(self) -> Fit:
        """Fit all rows, from zero, by easier losses first where the loss has some."""
        now, z = self.fleet.every_row(), np.zeros(self.fleet.n_coef)
        for loss in self.fleet.problem.loss.stages(self.fleet.spread_of_y):
            stats = self._expand(now, None, z, loss)
            fit = self._solve(Task(now, stats, Solution.at(z, 1), roughly=True), loss)
            z = fit.solution.z
        return fit

    def weigh(
        self, now: Weightings, before: Weightings, pace: Pace, z: Vector
    ) -> StackedStatistics:
        """Return the statistics around `z`."""
        del pace
        return self._expand(now, before, z, self.fleet.problem.loss)

    def solve(self, task: Task) -> Fit:
        """Step from where the statistics were gathered."""
        return self._solve(task, self.fleet.problem.loss)

    def _expand(
        self, now: Weightings, before: Weightings | None, z: Vector, loss: Loss
    ) -> StackedStatistics:
        return self.fleet.expand(now, before, Expansion(z, loss, diagonal=self.by_products))

    def _solve(self, task: Task, loss: Loss) -> Fit:
        assert task.last is not None
        fleet, now = self.fleet, task.now

        def curve(point: Vector, direction: Vector) -> Vector:
            return fleet.curve(now, direction, Expansion(point, loss))

        minimise = partial(conjugate.by_products, curve) if self.by_products else newton.by_matrix
        solution, there = newton.solve(
            lambda point: self._expand(now, now, point, loss),
            minimise(self.objective),
            self.objective,
            task.stats,
            task.last.z,
            ROUGHLY if task.roughly else EXACTLY * self.settings.tol,
            _limited(self.settings, task.max_iter).max_iter,
        )
        stats = there.with_tallies_of(task.stats)
        return Fit(now, stats, solution, exactly=not task.roughly)


def solver_named(
    name: SolverName, fleet: Fleet, objective: Objective, settings: AdmmSettings
) -> Solver:
    """Return the solver that a user asked for, in the form that the loss permits.

    Consensus runs on the driver where the loss is quadratic and the Gram matrices of all batches
    together have at most `LARGEST_STACK` entries; else on the workers.
    """
    quadratic = fleet.problem.loss.quadratic
    if name == "admm":
        fits = fleet.n_batches * fleet.n_coef**2 <= LARGEST_STACK
        place = settings.place
        if place == "auto":
            if quadratic and fits and admm.has_closed_form(objective, settings):
                return Agreed(fleet, objective, settings)
            place = "driver" if quadratic and fits else "workers"
        kind = Consensus if place == "driver" else ConsensusOnWorkers
        return kind(fleet, objective, settings)
    if not quadratic:
        return Newton(fleet, objective, settings, by_products=name == "cg")
    return (Pooled if name == "gram" else ConjugateGradients)(fleet, objective, settings)


def _limited(settings: AdmmSettings, max_iter: int | None) -> AdmmSettings:
    return settings if max_iter is None else replace(settings, max_iter=max_iter)


def around(
    fleet: Fleet,
    z: Vector,
    known: Matrix | Diagonal,
    now: Weightings,
    before: Weightings,
    pace: Pace,
) -> tuple[LossSummary, StackedStatistics]:
    """Look at all rows in one pass: their losses, and their statistics around `z`."""
    losses, stats = fleet.sweep(z, known, now, before)
    if pace.value == np.inf:
        return losses, stats
    rule = fleet.problem.regularizer.with_width(pace.width)
    # The self-paced term is only recorded, so the histogram's word for it is enough.
    return losses, stats.with_pacing(losses.self_paced_value(rule, pace.value))
