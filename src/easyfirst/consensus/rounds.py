"""The outer loop: fit, look at the losses, choose the pace, weigh the rows, fit again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import sub
from typing import Any, Literal

import numpy as np

from easyfirst.consensus import admm, conjugate, gram, status
from easyfirst.consensus.admm import AdmmSettings
from easyfirst.consensus.fleet import Fleet, Weightings
from easyfirst.consensus.gram import Tether, is_well_conditioned
from easyfirst.consensus.history import History, IterationRecord, RoundRecord
from easyfirst.consensus.progress import Progress
from easyfirst.consensus.solution import Solution
from easyfirst.consensus.statistics import Diagonal, Objective, StackedStatistics
from easyfirst.consensus.status import Status
from easyfirst.contracts import EVERY_ROW, Ledger, Matrix, Pace, Vector
from easyfirst.errors import NoRowSelectedError
from easyfirst.local.weighing import Whitener
from easyfirst.schedules import Calibrated, PaceSchedule
from easyfirst.summaries import N_BINS, LossSummary

# With weights per iteration, the most iterations at a pace that will grow anyway: later paces
# correct what is left, and the selection may flicker for hundreds of iterations.
WHILE_GROWING = 30

# Share of the weight that may change before Gram matrices are summed anew: until then, each round
# costs only the rows that changed.
DRIFT = 0.1

# What a schedule sees that does not look at the losses.
UNSEEN = LossSummary(np.zeros((1, 1, 2, N_BINS)), anchor=1.0)

TETHER = 1e-4  # pull of the last coefficients, in rows per row

# Called after each round; returning True ends the fit.
OnRound = Callable[[RoundRecord], bool]


@dataclass(frozen=True)
class RoundSettings:
    """How the rounds go; the batches and the objective are given separately.

    `studentize` frees residuals of their own row's pull once the pace is final; `rows` names the
    rows at work in the records.
    """

    schedule: PaceSchedule
    solver: Literal["admm", "gram", "cg"] = "gram"
    admm: AdmmSettings = field(default_factory=AdmmSettings)
    weights_from: Literal["consensus", "batch"] = "consensus"
    update_weights: Literal["round", "iteration"] = "round"
    max_rounds: int = 200
    tol: float = 1e-6
    studentize: bool = False
    rows: Literal["all", "sample"] = "all"


@dataclass(frozen=True, eq=False)
class Start:
    """Where to begin instead of at a fit of all rows.

    With a scale, the residuals are calibrated near it at once; without, the pace grows first.
    `pace` and `gram` are those of the fit that the start comes from, by which the first residuals
    can be freed of their own pull. With a `metric`, rounds use that matrix instead of forming
    their own as long as the steps shrink: one pass over the rows per round, no X'X. It is the
    rows' own, or borrowed from a sample of them.
    """

    coef: Vector
    scale: float | None = None
    pace: Pace = EVERY_ROW
    gram: Matrix | None = None
    metric: Literal["own", "borrowed"] | None = None


@dataclass(frozen=True, eq=False)
class RoundsResult:
    """Where the rounds ended; `weightings` reproduce the weights of every row.

    `is_refined` says that the solution already is a step of refinement away from the
    coefficients by which the rows were weighed.
    """

    solution: Solution
    pace: Pace
    weightings: Weightings
    statistics: StackedStatistics
    losses: LossSummary | None
    status: Status
    history: History
    is_refined: bool = False


def run(
    fleet: Fleet,
    objective: Objective,
    settings: RoundSettings,
    on_round: OnRound,
    start: Start | None = None,
) -> RoundsResult:
    """Go from a fit of all rows, or from `start`, to a fit of the rows the pace lets in."""
    walk = _Walk(fleet, objective, settings)
    walk.begin(start)
    ended = start is None and on_round(walk.record())
    done = False
    for _ in range(settings.max_rounds):
        if ended or done:
            break
        walk.advance(start)
        ended = on_round(walk.record())
        done = walk.is_done()
    walk.read_out()
    assert walk.stats is not None
    return RoundsResult(
        solution=walk.solution,
        pace=walk.pace or EVERY_ROW,
        weightings=walk.before,
        statistics=walk.stats,
        losses=walk.losses,
        status=_status(walk, ended, done),
        history=History(tuple(walk.rounds), tuple(walk.iterations)),
        is_refined=walk.is_borrowed and walk.judged_by is not None,
    )


@dataclass
class _Walk:
    """One fit on its way: the state between two rounds, and the steps from one to the next."""

    fleet: Fleet
    objective: Objective
    settings: RoundSettings
    solution: Solution = field(init=False)
    before: Weightings = field(init=False)
    stats: StackedStatistics | None = None
    gram: Matrix | None = None  # of the rows behind the current solution
    metric: Matrix | None = None  # a stand-in for the next one, as long as it serves
    is_borrowed: bool = False  # whether that is from a sample
    reference: Weightings | None = None  # weights whose Gram matrices the workers build on
    drift: float = 0.0  # share of the weight that changed since those
    pace: Pace | None = None
    losses: LossSummary | None = None
    number: int = 0
    progress: Progress = field(default_factory=Progress)
    judged_by: Vector | None = None  # coefficients of the last round, if one pass did it all
    rounds: list[RoundRecord] = field(default_factory=list)
    iterations: list[IterationRecord] = field(default_factory=list)
    _clock: float = field(default_factory=time.perf_counter)
    _booked: Ledger = field(init=False)

    def __post_init__(self) -> None:
        """Leave out what was spent before."""
        spent = self.fleet.workers.ledger
        self._booked = replace(spent, seconds=list(spent.seconds))

    def begin(self, start: Start | None) -> None:
        """Fit all rows, or take the start as the first solution."""
        self.before = self.fleet.every_row()
        if start is not None:
            self.solution = Solution.at(start.coef, self.fleet.n_batches)
            self.number = 1  # round 0 is a fit of all rows, which the start replaces
            self.gram = start.gram
            if start.metric is not None and self._permits_a_metric():
                self.metric, self.is_borrowed = start.gram, start.metric == "borrowed"
            return
        if self.settings.solver == "cg":
            self.solution = Solution.at(np.zeros(self.fleet.n_coef), self.fleet.n_batches)
            now = self.fleet.weightings(self._points(), EVERY_ROW)
            self.stats = self._gather(now, EVERY_ROW, None)
            self.before = now
        else:
            self.stats = self.fleet.form(self.before)
            self.gram = self.stats.pooled_gram
        self.solution = self._solve(self.stats, self.settings, None)

    def advance(self, start: Start | None) -> None:
        """Do one round: losses, pace, weights, fit."""
        schedule = self.settings.schedule
        self.judged_by = None
        if self.metric is not None:
            self._sweep(self.metric, self.pace or (EVERY_ROW if start is None else start.pace))
            return
        points = self._points()
        judged = self.pace or (EVERY_ROW if start is None else start.pace)
        self.losses = self._look(points, judged) if schedule.reads_losses else UNSEEN
        if self.pace is not None:
            self.pace = schedule.next(self.pace, self.losses)
        elif start is not None and start.scale is not None and isinstance(schedule, Calibrated):
            self.pace = schedule.calibrate(self.losses, start.scale)
        else:
            self.pace = schedule.first(self.losses)
        last = self.solution.z
        if self.settings.update_weights == "round":
            self._weigh()
            assert self.stats is not None
            self.solution = self._solve(self.stats, self.settings, self.solution)
        else:
            self._alternate()
        self._stretch(last)
        serves = self._permits_a_metric() and np.isfinite(self.progress.moved)
        if serves and self.gram is not None and is_well_conditioned(self.gram):
            self.metric, self.is_borrowed = self.gram, False

    def is_done(self) -> bool:
        """Return whether the pace is final and nothing moves any more."""
        if self.pace is None or not self.settings.schedule.is_final(self.pace):
            return False
        still = self.changed_share <= self.settings.tol
        return still or self.progress.left <= self.settings.schedule.step_tolerance

    def read_out(self) -> None:
        """Where the pace is read off the residuals, read it once more at the last coefficients."""
        schedule = self.settings.schedule
        if self.pace is None or not schedule.is_final(self.pace) or not schedule.step_tolerance:
            return
        if self.is_borrowed and self.judged_by is not None:
            # The residuals there are known, and the next step is small.
            points = np.tile(self.judged_by, (self.fleet.n_batches, 1))
            self.before = self.fleet.weightings(points, self.pace)
            return
        whitener = self._whitener(self.pace)
        points = self._points()
        self.losses = self.fleet.summarize(self.fleet.weightings(points, self.pace, whitener))
        self.pace = schedule.next(self.pace, self.losses)
        self.before = self.fleet.weightings(points, self.pace, whitener)

    @property
    def changed_share(self) -> float:
        """The share of weight that moved in the last round."""
        return np.inf if self.stats is None else self.stats.changed_share

    def record(self) -> RoundRecord:
        """Write down the round that has just ended."""
        assert self.stats is not None
        now = time.perf_counter()
        record = RoundRecord(
            round=self.number,
            rows=self.settings.rows,
            pace=(self.pace or EVERY_ROW).value,
            selected=float(self.stats.selected.sum()),
            changed=self.stats.changed_share,
            objective=self.objective.value(self.stats, self.solution.z),
            lagrangian=self.solution.lagrangian,
            primal_residual=self.solution.primal_residual,
            dual_residual=self.solution.dual_residual,
            rho=self.solution.rho,
            kkt_residual=self.objective.kkt_residual(self.stats, self.solution.z),
            iterations=len(self.solution.iterations),
            seconds=now - self._clock,
            batch_selected_share=tuple(self.stats.batch_selected_share.tolist()),
            **self._spent(),
        )
        self._clock = now
        self.number += 1
        self.rounds.append(record)
        self.iterations.extend(self.solution.iterations)
        return record

    def _permits_a_metric(self) -> bool:
        """Return whether rounds can do without Gram matrices.

        Consensus needs those of single batches, and residuals freed of their own pull need one
        for every round.
        """
        settings = self.settings
        by_round = settings.update_weights == "round" and not settings.studentize
        calibrated = isinstance(settings.schedule, Calibrated)
        return settings.solver == "gram" and by_round and calibrated

    def _sweep(self, metric: Matrix, pace: Pace) -> None:
        """Do one round in one pass over the rows: weigh them by the last pace, find the next.

        A pace that lags behind by one round changes the step by second order only: around the
        truth, rows pull evenly to both sides whatever the threshold.
        """
        last = self.solution.z
        now = self.fleet.weightings(self._points(), pace)
        self.stats = self._gather(now, pace, metric)
        assert self.losses is not None
        if self.stats.weight.sum() == 0:
            raise _nothing_selected(pace, self.losses)
        self.before, self.judged_by = now, last
        self.pace = self.settings.schedule.next(pace, self.losses)
        self.solution = self._solve(self.stats, self.settings, self.solution)
        self._stretch(last)

    def _spent(self) -> dict[str, Any]:
        """Return what the ledger of the workers has gained since the last round."""
        now, then = self.fleet.workers.ledger, self._booked
        self._booked = replace(now, seconds=list(now.seconds))
        return {
            "messages": now.messages - then.messages,
            "bytes_sent": now.bytes_sent - then.bytes_sent,
            "bytes_received": now.bytes_received - then.bytes_received,
            "batch_seconds": tuple(map(sub, now.seconds, then.seconds)),
        }

    def _gather(self, now: Weightings, pace: Pace, metric: Matrix | None) -> StackedStatistics:
        """Look at all rows in one pass: their losses, and their statistics around the consensus."""
        known = Diagonal(self.fleet.column_squares(now)) if metric is None else metric
        self.losses, stats = self.fleet.sweep(self.solution.z, known, now, self.before)
        if pace.value == np.inf:
            return stats
        rule = self.fleet.problem.regularizer.with_width(pace.width)
        # The self-paced term is only recorded, so the histogram's word for it is enough.
        return stats.with_pacing(self.losses.self_paced_value(rule, pace.value))

    def _look(self, points: Matrix, judged: Pace) -> LossSummary:
        """Return the losses of all rows at these coefficients."""
        return self.fleet.summarize(self.fleet.weightings(points, judged, self._whitener(judged)))

    def _weigh(self) -> None:
        """Weigh the rows by the current coefficients and pace."""
        assert self.pace is not None
        points = self._points()
        now = self.fleet.weightings(points, self.pace, self._whitener(self.pace))
        if self.settings.solver == "cg":
            self.stats = self._gather(now, self.pace, None)
        else:
            self.stats = self.fleet.form(now, self.before, self.reference)
            self._choose_reference(now)
        if self.stats.weight.sum() == 0:
            raise _nothing_selected(self.pace, self._look(points, EVERY_ROW))
        self.before = now
        self.gram = None if self.settings.solver == "cg" else self.stats.pooled_gram

    def _choose_reference(self, now: Weightings) -> None:
        """Let the next rounds build on this one until too many weights have changed."""
        assert self.stats is not None
        self.drift += self.stats.changed_share
        if self.reference is None:
            self.reference, self.drift = now, 0.0
        elif self.drift > DRIFT:
            self.reference = None

    def _alternate(self) -> None:
        """Weigh the rows again after every iteration while that changes them, then agree."""
        settings = self.settings
        assert self.pace is not None
        one_iteration = replace(settings, admm=replace(settings.admm, max_iter=1))
        is_final = settings.schedule.is_final(self.pace)
        limit = settings.admm.max_iter if is_final else min(settings.admm.max_iter, WHILE_GROWING)
        records: list[IterationRecord] = []
        agreed = False
        for _ in range(limit):
            self._weigh()
            assert self.stats is not None
            still = self.stats.changed_share <= settings.tol
            if still and agreed:
                break
            step = settings if still else one_iteration
            self.solution = self._solve(self.stats, step, self.solution)
            agreed = still and self.solution.agreed
            records += self.solution.iterations
            if len(records) >= limit:
                break
        numbered = (replace(record, iteration=k) for k, record in enumerate(records, start=1))
        self.solution = replace(self.solution, iterations=tuple(numbered))

    def _solve(
        self, stats: StackedStatistics, settings: RoundSettings, start: Solution | None
    ) -> Solution:
        if settings.solver == "gram":
            return gram.solve(stats, self.objective, self._tether(start))
        if settings.solver == "cg":
            tether = self._tether(start)
            solution, self.stats = conjugate.solve(
                self.fleet,
                self.before,
                stats,
                self.objective,
                self.solution.z,
                0.0 if tether is None else tether.strength,
            )
            return solution
        return admm.solve(stats, self.objective, settings.admm, start, self.number)

    def _tether(self, last: Solution | None) -> Tether | None:
        if last is None or not isinstance(self.settings.schedule, Calibrated):
            return None
        fleet = self.fleet
        variance = np.append(fleet.column_variance, 1.0)[: last.z.size]
        return Tether(last.z, TETHER * fleet.total_weight * variance)

    def _stretch(self, last: Vector) -> None:
        """Measure the step in standard errors, and lengthen it as the schedule advises."""
        schedule = self.settings.schedule
        assert self.stats is not None
        assert self.pace is not None
        assert self.losses is not None
        if self.pace.width is None or not schedule.is_final(self.pace):
            self.progress.start_anew()
            return
        step = self.solution.z - last
        length = 1.0
        if self.settings.solver != "admm":
            advice = schedule.stretch(self.pace, self.losses)
            length = self.progress.step_length(advice, few_rows=self.settings.studentize)
            self.solution = self.solution.moved_to(last + length * step)
        size = float(step @ self._curve(step))
        moved = length * float(np.sqrt(max(size, 0.0) / (0.5 * self.pace.width * step.size)))
        if self.progress.note(moved, by_metric=self.metric is not None):
            self.metric = None

    def _curve(self, direction: Vector) -> Vector:
        """Return the weighted Gram matrix times a direction."""
        if self.settings.solver == "cg":
            return self.fleet.curve(self.before, direction)
        assert self.stats is not None
        return np.asarray(self.stats.pooled_gram @ direction)

    def _points(self) -> Matrix:
        """Return the coefficients by which each batch judges its rows."""
        if self.settings.weights_from == "batch":
            return self.solution.coefs
        return np.tile(self.solution.z, (self.fleet.n_batches, 1))

    def _whitener(self, pace: Pace) -> Whitener | None:
        wanted = self.settings.studentize and self.settings.schedule.is_final(pace)
        if not wanted or self.gram is None:
            return None
        diagonal = self.objective.penalty_diagonal(self.solution.z.size)
        return Whitener(gram.inverse_root(self.gram, diagonal))


def _nothing_selected(pace: Pace, losses: LossSummary) -> NoRowSelectedError:
    low, middle, high = (losses.loss_quantile(share) for share in (0.01, 0.5, 0.99))
    return NoRowSelectedError(
        f"The pace {pace.value:.3g} lets in none of the rows: at this point their losses have a "
        f"median of {middle:.3g}, and 98 % of them lie between {low:.3g} and {high:.3g}. Give a "
        f"pace on that scale, rescale y, or use pace=None, which needs no scale."
    )


def _status(walk: _Walk, ended: bool, done: bool) -> Status:
    settings = walk.settings
    rounds = sum(record.round > 0 for record in walk.rounds)
    if ended:
        return status.stopped_by_callback(rounds)
    if not done:
        final = walk.pace is not None and settings.schedule.is_final(walk.pace)
        return status.out_of_rounds(rounds, walk.changed_share, final)
    if not walk.solution.agreed:
        return status.out_of_iterations(rounds, settings.admm.max_iter)
    return status.converged(rounds)
