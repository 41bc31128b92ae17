"""One whole fit of classes: how noisy the labels are, what each should be, the linear model.

The default reads the noise off a sample (`label_judging.py`), looks whether some batches have
noise of their own, and fits every row to what its label should be. With a schedule, rounds let in
the easiest labels of every class first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.stats import chi2

from easyfirst.consensus import status
from easyfirst.consensus.fleet import Fleet, joined_rows
from easyfirst.consensus.history import History, RoundRecord
from easyfirst.consensus.labels.judging import SAMPLE_ROWS, Judged, judge_labels
from easyfirst.consensus.labels.linear import (
    LinearFit,
    Preconditioner,
    curvature_of,
    fit_labels,
    penalty_of,
)
from easyfirst.consensus.labels.models import in_coordinates
from easyfirst.consensus.labels.noise import LabelNoise
from easyfirst.consensus.rounds.common import OnRound
from easyfirst.consensus.status import Status
from easyfirst.contracts import EVERY_ROW, Matrix, Pace, Vector
from easyfirst.local import labels
from easyfirst.local.label_rates import RatesByColumns
from easyfirst.local.labels import Labelling, LabelProblem, LabelTally
from easyfirst.schedules import PaceSchedule
from easyfirst.summaries import LossSummary, bin_edges

LEAST_OF_A_CLASS = 0.1  # share of each class that every pace lets in
CHANCE = 1e-3  # that a batch is given noise of its own although it has none
FEW_ROWS_TOLERANCE = 0.01  # times `tol`, where digits cost nothing
UNNOTICED = 0.02  # rate of wrong labels from which batches are compared where none were noticed


@dataclass(frozen=True)
class LabelSettings:
    """How a fit of classes goes; without a schedule, the noise of the labels is estimated."""

    schedule: PaceSchedule | None
    strength: float
    max_rounds: int
    max_iter: int
    tol: float


@dataclass(frozen=True, eq=False)
class FittedLabels:
    """The result of a fit; `labellings` reproduce how much every row counts for every class."""

    problem: LabelProblem
    fit: LinearFit
    labellings: tuple[Labelling, ...]
    tallies: tuple[LabelTally, ...]
    history: History
    status: Status
    noise: LabelNoise | None = None
    pace: float = np.inf
    own_noise: tuple[int, ...] = ()  # the batches whose labels are noisy in a way of their own

    @property
    def has_judge(self) -> bool:
        """Whether there were rows enough to judge labels at all."""
        return self.problem.judge is not None

    @property
    def rates_by_columns(self) -> RatesByColumns | None:
        """How often labels of a row are wrong, where that follows the columns."""
        judge = self.problem.judge
        return None if judge is None else judge.rates


@dataclass(eq=False)
class LabelWork:
    """The batches at work: what they are asked, and a record of each round."""

    fleet: Fleet
    problem: LabelProblem
    settings: LabelSettings
    seed: int
    on_round: OnRound
    records: list[RoundRecord] = field(default_factory=list)
    ended: bool = False
    clock: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        """Draw a sample, in whose coordinates rows are round."""
        fleet = self.fleet
        self.penalty = penalty_of(
            self.settings.strength, fleet.n_coef, self.problem.coordinates.fit_intercept
        )
        self.sample = joined_rows(fleet.sample(SAMPLE_ROWS, self.seed))
        self.share = self.sample.n_samples / max(sum(fleet.n_rows), 1)
        self.begin_at(None)

    def begin_at(self, start: Matrix | None) -> None:
        """Let fits begin at coefficients that are near those of all rows."""
        self.start = start
        curvature = curvature_of(self.sample, self.problem, start) / max(self.share, 1e-300)
        if self.share < 1.0:
            # The sample may not know a rare column: as if one of its rows held each column alone.
            lone = 0.25 * self.fleet.column_variance / max(self.share, 1e-300)
            where = np.arange(lone.size)
            curvature[(where,) * curvature.ndim] += lone
        self.preconditioner = Preconditioner.of(curvature, self.penalty)

    def every_label(self) -> tuple[Labelling, ...]:
        """Return that every label is right."""
        return (Labelling(),) * self.fleet.n_batches

    def fit(self, now: Sequence[Labelling]) -> LinearFit:
        """Fit all rows to what their labels should be."""
        tol = self.settings.tol
        return fit_labels(
            self.fleet.workers,
            labels.expand,
            now,
            self.problem,
            self.preconditioner,
            self.penalty,
            tol,
            self.settings.max_iter,
            start=self.start,
            polished=tol if self.share < 1.0 else FEW_ROWS_TOLERANCE * tol,
        )

    def tally(
        self, now: Sequence[Labelling], before: Sequence[Labelling]
    ) -> tuple[LabelTally, ...]:
        """Count the rows as they are labelled."""
        pairs = list(zip(now, before, strict=True))
        return tuple(self.fleet.workers.map(labels.tally, pairs, self.problem))

    def note(
        self, fit: LinearFit, tallies: Sequence[LabelTally], pace: float, rows: str = "all"
    ) -> None:
        """Write down a round, and ask whether the fit is to end."""
        now = time.perf_counter()
        total = sum(tally.total for tally in tallies)
        record = RoundRecord(
            round=len(self.records),
            rows=rows,
            pace=pace,
            selected=sum(tally.selected for tally in tallies),
            changed=sum(tally.changed for tally in tallies) / max(total, 1e-300),
            objective=fit.objective,
            lagrangian=fit.objective,
            primal_residual=0.0,
            dual_residual=0.0,
            rho=0.0,
            kkt_residual=fit.gradient,
            iterations=fit.iterations,
            seconds=now - self.clock,
            batch_selected_share=tuple(t.selected / max(t.total, 1e-300) for t in tallies),
        )
        self.clock = now
        self.records.append(record)
        self.ended = self.on_round(record) or self.ended


def fit_classes(
    fleet: Fleet, problem: LabelProblem, settings: LabelSettings, seed: int, on_round: OnRound
) -> FittedLabels:
    """Fit all rows; without a schedule, after a look at how noisy the labels are."""
    work = LabelWork(fleet, problem, settings, seed, on_round)
    if settings.schedule is not None:
        return _fit_paced(work, settings.schedule)
    judged = judge_labels(work.sample, problem, work.share * work.penalty, fleet.spread, seed)
    work.problem = replace(problem, judge=judged.judge)
    if judged.start is not None:
        work.begin_at(in_coordinates(judged.start, problem.coordinates))
    now, noise, own = _labelled(work, judged)
    fit = work.fit(now)
    tallies = work.tally(now, work.every_label())
    work.note(fit, tallies, np.inf)
    return FittedLabels(
        problem=work.problem,
        fit=fit,
        labellings=now,
        tallies=tallies,
        history=History(tuple(work.records)),
        status=_judged_status(work, fit, is_judged=judged.judge is not None),
        noise=noise,
        own_noise=own,
    )


def _labelled(
    work: LabelWork, judged: Judged
) -> tuple[tuple[Labelling, ...], LabelNoise, tuple[int, ...]]:
    """Return how rows count by the noise of all batches, and by that of those that differ."""
    noise, every, workers = judged.noise, work.every_label(), work.fleet.workers
    if judged.judge is None or noise.is_unidentified:
        return every, noise, ()
    matrices, own = [noise.matrix] * len(every), tuple[int, ...]()
    if len(every) > 1:
        matrices, own = noise_by_batch(
            noise,
            len(every),
            lambda start: workers.map(labels.own_noise, [start] * len(every), work.problem),
            lambda pairs: workers.map(labels.likelihoods, pairs, work.problem),
        )
    if noise.is_none and not own:
        return every, noise, ()
    follows = judged.judge.rates is not None
    now = tuple(
        Labelling(noise=tuple(map(tuple, matrix.tolist())), by_columns=follows and b not in own)
        for b, matrix in enumerate(matrices)
    )
    weight = np.array([float(rows) for rows in work.fleet.n_rows])
    mean = np.tensordot(weight / weight.sum(), np.stack(matrices), axes=1)
    return now, replace(noise, matrix=mean), own


def noise_by_batch(
    noise: LabelNoise,
    n_batches: int,
    counts_from: Callable[[Matrix], list[Matrix]],
    likelihoods_of: Callable[[list[tuple[Matrix, ...]]], list[Vector]],
) -> tuple[list[Matrix], tuple[int, ...]]:
    """Return the noise of each batch, and which have their own: it differs by more than chance.

    `counts_from` a start asks every batch for expected counts of (right, given) labels;
    `likelihoods_of` noise matrices, several for each batch, asks how likely its labels are.
    """
    start, n_classes = noise.matrix, len(noise.matrix)
    if noise.is_none:
        start = (1.0 - UNNOTICED) * start + UNNOTICED / n_classes
    joints = counts_from(start)
    pooled = _lines(np.sum(joints, axis=0), start)
    owns = [_lines(joint, pooled) for joint in joints]
    gains = [float(a - b) for a, b in likelihoods_of([(own, pooled) for own in owns])]
    limit = float(chi2.isf(CHANCE / n_batches, n_classes * (n_classes - 1)))
    differs = [b for b in range(n_batches) if 2.0 * gains[b] > limit]
    matrices = [noise.matrix] * n_batches
    for b in differs:
        moved = owns[b] if noise.is_none else np.maximum(noise.matrix + owns[b] - pooled, 0.0)
        matrices[b] = moved / moved.sum(axis=1, keepdims=True)
    return matrices, tuple(differs)


def _lines(joint: Matrix, prior: Matrix) -> Matrix:
    counted = joint + labels.PRIOR_ROWS * prior
    return np.asarray(counted / counted.sum(axis=1, keepdims=True))


def _fit_paced(work: LabelWork, schedule: PaceSchedule) -> FittedLabels:
    """Let in the easiest labels of each class first, and more of them from round to round.

    Every class has a pace of its own, because labels of a rare class are all harder than those of
    a common one; and of every class some rows always take part.
    """
    now, paces, done = work.every_label(), None, False
    fit = work.fit(now)
    tallies = work.tally(now, now)
    work.note(fit, tallies, np.inf)
    for _ in range(work.settings.max_rounds):
        if work.ended or done:
            break
        losses = _losses(work, fit)
        paces = _next_paces(schedule, paces, losses)
        before, now = now, _let_in(work, fit, paces, losses)
        tallies = work.tally(now, before)
        fit = work.fit(now)
        work.note(fit, tallies, max(pace.value for pace in paces))
        still = work.records[-1].changed <= work.settings.tol
        done = still and all(schedule.is_final(pace) for pace in paces)
    return FittedLabels(
        problem=work.problem,
        fit=fit,
        labellings=now,
        tallies=tallies,
        history=History(tuple(work.records)),
        status=_status(work, fit, done, all(schedule.is_final(pace) for pace in paces or ())),
        pace=max(pace.value for pace in paces) if paces else EVERY_ROW.value,
    )


def _losses(work: LabelWork, fit: LinearFit) -> list[LossSummary]:
    """Return the losses of each class at these coefficients."""
    at = Labelling(coef=tuple(map(tuple, fit.coef.tolist())))
    counts = work.fleet.workers.map(
        labels.loss_histograms, [at] * work.fleet.n_batches, work.problem
    )
    stacked = np.stack(counts)
    return [
        LossSummary(stacked[:, k : k + 1], anchor=1.0, n_coef=work.fleet.n_coef)
        for k in range(work.problem.n_classes)
    ]


def _next_paces(
    schedule: PaceSchedule, paces: list[Pace] | None, losses: list[LossSummary]
) -> list[Pace]:
    if paces is None:
        return [schedule.first(own) for own in losses]
    return [schedule.next(pace, own) for pace, own in zip(paces, losses, strict=True)]


def _let_in(
    work: LabelWork, fit: LinearFit, paces: list[Pace], losses: list[LossSummary]
) -> tuple[Labelling, ...]:
    thresholds = tuple(
        max(pace.value, _loss_of_the_easiest(own)) for pace, own in zip(paces, losses, strict=True)
    )
    at = tuple(map(tuple, fit.coef.tolist()))
    return (Labelling(coef=at, thresholds=thresholds),) * work.fleet.n_batches


def _loss_of_the_easiest(losses: LossSummary) -> float:
    """Return a loss that lets in the easiest rows of a class, at least one."""
    counts = np.cumsum(losses.merged.sum(axis=0))
    last = int(np.searchsorted(counts, LEAST_OF_A_CLASS * counts[-1]))
    return float(bin_edges(losses.anchor)[last + 1]) ** 2


def _judged_status(work: LabelWork, fit: LinearFit, is_judged: bool) -> Status:
    """Return how a fit without rounds ended."""
    if work.ended:
        return Status("callback", "Stopped by a callback after the fit.", converged=True)
    if fit.converged:
        steps = "1 step" if fit.iterations == 1 else f"{fit.iterations} steps"
        first = "Labels were judged, then the fit" if is_judged else "The fit"
        return Status("converged", f"{first} converged in {steps}.", converged=True)
    return Status(
        "max_iter",
        f"The fit had not converged within {work.settings.max_iter} steps; raise max_iter, or use "
        f"a stronger penalty=Ridge(...) if the rows do not determine every coefficient.",
        converged=False,
    )


def _status(work: LabelWork, fit: LinearFit, done: bool, is_final: bool = True) -> Status:
    rounds = len(work.records) - 1
    if work.ended:
        return status.stopped_by_callback(rounds)
    if not done:
        return status.out_of_rounds(rounds, work.records[-1].changed, is_final)
    if not fit.converged:
        return status.out_of_steps(rounds, work.settings.max_iter)
    return status.converged(rounds)


def count_classes(fleet: Fleet) -> tuple[Vector, Vector]:
    """Return the distinct values of y in all batches, in order, and their sample weights."""
    replies = fleet.workers.map(labels.count_labels, None, None)
    values = np.unique(np.concatenate([values for values, _ in replies]))
    weights = np.zeros(values.size)
    for own, weight in replies:
        weights[np.searchsorted(values, own)] += weight
    return values, weights
