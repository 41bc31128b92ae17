"""Several targets at once: the rows are weighed for all of them, the coefficients are each one's.

For given weights the targets have nothing but the weighted Gram matrix in common, so each is solved
for by the solver of one. Coefficients of all targets are one vector, target by target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np

from easyfirst.consensus.fleet import Weightings
from easyfirst.consensus.history import IterationRecord
from easyfirst.consensus.solution import Solution
from easyfirst.consensus.solvers.ways import Fit, Solver, Task
from easyfirst.consensus.statistics import Objective, StackedStatistics
from easyfirst.contracts import Pace, Vector
from easyfirst.local import outputs
from easyfirst.local.steps import Change, Statistics


@dataclass(frozen=True, eq=False)
class OutputStatistics(StackedStatistics):
    """The statistics of the first target, and those of every one."""

    of_each: tuple[StackedStatistics, ...] = ()

    @classmethod
    def of(cls, replies: Sequence[Statistics]) -> OutputStatistics:
        """Stack replies whose `rhs` has a line and whose `square` has an entry per target."""
        rhs = np.array([reply.rhs for reply in replies])
        square = np.sum([reply.square for reply in replies], axis=0)
        whole = StackedStatistics.stack(replies)
        of_each = tuple(
            replace(
                whole,
                rhs=rhs[:, j],
                pooled_rhs=rhs[:, j].sum(axis=0),
                pooled_square=float(square[j]),
            )
            for j in range(square.size)
        )
        return cls(**vars(of_each[0]), of_each=of_each)


class OutputObjective(Objective):
    """The sum of the problems of all targets, which share the self-paced term."""

    def value(self, stats: StackedStatistics, coef: Vector) -> float:
        """Return losses + self-paced term + penalties."""
        return _total(
            [super(OutputObjective, self).value(*each) for each in _each(stats, coef)], stats
        )

    def kkt_residual(self, stats: StackedStatistics, coef: Vector) -> float:
        """Return how far the coefficients of the worst target are from optimal."""
        return max(super(OutputObjective, self).kkt_residual(*each) for each in _each(stats, coef))


@dataclass(eq=False)
class EachOutput(Solver):
    """Weigh the rows for all targets, then solve for each by the solver of one."""

    of_one: Solver

    def fit_every_row(self) -> Fit:
        """Fit all rows."""
        now = self.fleet.every_row()
        return self.solve(Task(now, self._form(now, None)))

    def weigh(
        self, now: Weightings, before: Weightings, pace: Pace, z: Vector
    ) -> StackedStatistics:
        """Return the Gram matrices of the weighted rows."""
        del pace, z
        return self._form(now, before)

    def solve(self, task: Task) -> Fit:
        """Solve for one target after the other."""
        of_each = _of_each(task.stats)
        starts = [None] * len(of_each) if task.last is None else _split(task.last, len(of_each))
        fits = [
            self.of_one.solve(replace(task, stats=stats, last=start))
            for stats, start in zip(of_each, starts, strict=True)
        ]
        return Fit(task.now, task.stats, _joined([fit.solution for fit in fits], task.stats))

    def _form(self, now: Weightings, before: Weightings | None) -> OutputStatistics:
        nothing = [None] * len(now)
        changes = list(map(Change, now, before or nothing))
        return OutputStatistics.of(
            self.fleet.workers.map(outputs.form, changes, self.fleet.problem)
        )


def _of_each(stats: StackedStatistics) -> tuple[StackedStatistics, ...]:
    assert isinstance(stats, OutputStatistics)
    return stats.of_each


def _each(stats: StackedStatistics, coef: Vector) -> list[tuple[StackedStatistics, Vector]]:
    of_each = _of_each(stats)
    return list(zip(of_each, coef.reshape(len(of_each), -1), strict=True))


def _total(values: Sequence[float], stats: StackedStatistics) -> float:
    """Return the sum of objectives that each hold the self-paced term, with that once."""
    return sum(values) - (len(values) - 1) * float(stats.pacing.sum())


def _split(solution: Solution, n_outputs: int) -> list[Solution]:
    parts = zip(
        np.split(solution.z, n_outputs),
        np.split(solution.coefs, n_outputs, axis=1),
        np.split(solution.duals, n_outputs, axis=1),
        strict=True,
    )
    return [replace(solution, z=z, coefs=coefs, duals=duals) for z, coefs, duals in parts]


def _joined(solutions: Sequence[Solution], stats: StackedStatistics) -> Solution:
    last = max(solutions, key=lambda each: len(each.iterations))
    return Solution(
        z=np.concatenate([each.z for each in solutions]),
        coefs=np.hstack([each.coefs for each in solutions]),
        duals=np.hstack([each.duals for each in solutions]),
        primal_residual=_norm([each.primal_residual for each in solutions]),
        dual_residual=_norm([each.dual_residual for each in solutions]),
        rho=last.rho,
        lagrangian=_total([each.lagrangian for each in solutions], stats),
        agreed=all(each.agreed for each in solutions),
        iterations=tuple(_side_by_side([each.iterations for each in solutions], stats)),
    )


def _side_by_side(
    runs: Sequence[Sequence[IterationRecord]], stats: StackedStatistics
) -> list[IterationRecord]:
    """Return one record per iteration; a target that has agreed stays where it was."""
    records, now = [], [run[-1] for run in runs if run]
    for found in zip_longest(*runs):
        now = [new or old for new, old in zip(found, now, strict=True)]
        records.append(
            replace(
                max(now, key=lambda record: record.iteration),
                primal_residual=_norm([record.primal_residual for record in now]),
                dual_residual=_norm([record.dual_residual for record in now]),
                lagrangian=_total([record.lagrangian for record in now], stats),
                seconds=sum(record.seconds for record in found if record is not None),
            )
        )
    return records


def _norm(parts: Sequence[float]) -> float:
    return float(np.linalg.norm(parts))
