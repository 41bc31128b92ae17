"""The rows of a small table on the driver: sent there once, they need no message per round.

A round of few rows is little work, and most of its time would go into messages about it. For
weights of all or nothing, what a round has to know follows from the rows that changed sides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from easyfirst.consensus.fleet import Fleet, Weightings, joined_rows
from easyfirst.consensus.solvers.ways import DRIFT, Fit, Pooled, Solver, Task
from easyfirst.consensus.statistics import LARGEST_LOSS, StackedStatistics
from easyfirst.contracts import Batch, Matrix, Pace, Vector
from easyfirst.local.screening import reach_of_rounding
from easyfirst.local.turnover import Sums
from easyfirst.local.weighing import Problem

MOST_ENTRIES = 1 << 20  # of the design matrix: 8 MiB, a message like that of a first sample
SUMMED_AGAIN = 1 << 13  # entries of kept rows up to which they are summed up in every round


def are_few(fleet: Fleet) -> bool:
    """Return whether the rows are so few, and weighed so simply, that the driver takes them."""
    problem = fleet.problem
    is_simple = problem.regularizer.is_all_or_nothing and problem.n_outputs == 1
    return is_simple and sum(fleet.n_rows) * fleet.n_coef <= MOST_ENTRIES


class Gathered(Solver):
    """A closed form for all batches together, of rows that the driver holds."""

    def __init__(self, solver: Pooled) -> None:
        super().__init__(solver.fleet, solver.objective, solver.settings)
        self._solver, self._rows = solver, _Rows.of(solver.fleet)
        self._last = self._rows.all_of_them()
        self._solved: Fit | None = None

    def fit_every_row(self) -> Fit:
        """Fit all rows."""
        return self.solve(Task(self.fleet.every_row(), self._last))

    def weigh(
        self, now: Weightings, before: Weightings, pace: Pace, z: Vector
    ) -> StackedStatistics:
        """Return the Gram matrix of the weighted rows."""
        del now, before
        self._last = self._rows.turned_over(self._last, z, pace)
        return self._last

    def solve(self, task: Task) -> Fit:
        """Solve the normal equations of all rows, unless they are those of the round before."""
        known, stats = self._solved, task.stats
        if known is None or known.statistics.pooled_gram is not stats.pooled_gram:
            self._solved = self._solver.solve(task)
            return self._solved
        value = self.objective.value(stats, known.solution.z)
        return Fit(task.now, stats, known.solution.again(task.number, value))


@dataclass(eq=False)
class _Rows:
    """The rows of all batches, which of them the last round kept, and since when sums drift."""

    rows: Batch
    problem: Problem
    columns: Matrix  # the design matrix, whose products round alike wherever it came from
    batch_of: NDArray[np.intp]
    totals: Vector  # weight of every batch
    farthest: tuple[float, float]  # the norm of the longest row, and the largest |y|
    kept: NDArray[np.bool_]
    drift: float = np.inf

    @classmethod
    def of(cls, fleet: Fleet) -> _Rows:
        """Send for the rows."""
        parts = fleet.sample(sum(fleet.n_rows), 0)
        rows, problem = joined_rows(parts), fleet.problem
        columns = np.ascontiguousarray(problem.design(rows).dense())
        batch_of = np.repeat(np.arange(len(parts)), [part.n_samples for part in parts])
        totals = np.bincount(batch_of, rows.sample_weight, minlength=len(parts))
        squares = np.einsum("ij,ij->i", columns, columns)
        farthest = (np.sqrt(np.max(squares)), np.max(np.abs(rows.y)))
        everyone = np.ones(rows.n_samples, dtype=bool)
        return cls(rows, problem, columns, batch_of, totals.astype(float), farthest, everyone)

    def all_of_them(self) -> StackedStatistics:
        """Return the statistics of every row."""
        sums, square = self._sums(slice(None))
        nothing = np.zeros_like(self.totals)
        return _statistics(sums, square, nothing, self.totals, self.totals, self.totals)

    def turned_over(self, last: StackedStatistics, z: Vector, pace: Pace) -> StackedStatistics:
        """Weigh the rows by `z` and return the statistics of those that are kept."""
        kept = self._kept(z, pace.value)
        turned = (kept != self.kept).nonzero()[0]
        self.kept = kept
        if turned.size:
            changed = self._by_batch(turned)
            sums, square = self._sums_of_kept(last, turned, float(changed.sum()))
            chosen = self._by_batch(kept.nonzero()[0])
        else:
            changed = np.zeros_like(self.totals)
            sums, square = Sums(last.pooled_gram, last.pooled_rhs), last.pooled_square
            chosen = last.weight
        pacing = np.zeros_like(self.totals)
        if pace.value < np.inf:
            out, into = self.problem.regularizer.value(np.array([0.0, 1.0]), pace.value).tolist()
            pacing = into * chosen + out * (self.totals - chosen)
        return _statistics(sums, square, pacing, chosen, changed, self.totals)

    def _by_batch(self, index: NDArray[np.intp]) -> Vector:
        """Return what some rows count for in every batch."""
        if len(self.totals) == 1 and self.rows.sample_weight is None:
            return np.array([float(index.size)])
        s = self.rows.sample_weight
        own = None if s is None else s[index]
        found = np.bincount(self.batch_of[index], own, minlength=len(self.totals))
        return found.astype(np.float64, copy=False)

    def _sums_of_kept(
        self, last: StackedStatistics, turned: NDArray[np.intp], changed: float
    ) -> tuple[Sums, float]:
        """Return the sums over the rows that are kept, from the last ones where few turned."""
        self.drift += changed / float(self.totals.sum())
        kept = self.kept.nonzero()[0]
        few = kept.size * self.columns.shape[1] <= SUMMED_AGAIN
        if self.drift <= DRIFT and not few and turned.size < kept.size:
            came, more = self._sums(turned[self.kept[turned]])
            left, less = self._sums(turned[~self.kept[turned]])
            gram = last.pooled_gram + came.gram
            gram -= left.gram
            # Else digits are lost: rows that left were far larger than those that stay.
            if np.all(np.diagonal(left.gram) <= LARGEST_LOSS * np.diagonal(gram)):
                rhs = last.pooled_rhs + came.rhs - left.rhs
                return Sums(gram, rhs), last.pooled_square + more - less
        self.drift = 0.0
        return self._sums(kept if kept.size < self.kept.size else slice(None))

    def _sums(self, index: slice | NDArray[np.intp]) -> tuple[Sums, float]:
        rows, y, s = self.columns[index], self.rows.y[index], self.rows.sample_weight
        if s is None:
            return Sums(rows.T @ rows, rows.T @ y), float(y @ y)
        weighted = s[index] * y
        rhs, square = rows.T @ weighted, float(weighted @ y)
        rows = rows * np.sqrt(s[index])[:, None]
        return Sums(rows.T @ rows, rhs), square

    def _kept(self, z: Vector, pace: float) -> NDArray[np.bool_]:
        """Return which rows the pace selects, by the very operations of a batch near the edge."""
        if pace == np.inf:
            return np.ones(self.kept.size, dtype=bool)
        kept = self._judged(z, pace)
        return kept if self.rows.trusted is None else kept | self.rows.trusted

    def _judged(self, z: Vector, pace: float) -> NDArray[np.bool_]:
        problem, y = self.problem, self.rows.y
        design = problem.design(self.rows)

        def weights(y: Vector, residual: Vector) -> NDArray[np.bool_]:
            losses = problem.loss.at_residual(y, residual)
            return np.asarray(problem.regularizer.weights(losses, pace) > 0.0)

        if design.sums_in_fixed_order:
            return weights(y, y - design.times(z))
        residual = y - self.columns @ z
        kept = weights(y, residual)
        norm, size = self.farthest
        reach = reach_of_rounding(z, norm, size)
        # "Not further" rather than "nearer": a reach that overflowed settles nothing.
        far = np.abs(np.abs(residual) - np.sqrt(pace)) > reach
        if not far.all():
            close = (~far).nonzero()[0]
            kept[close] = weights(y[close], design.times_by_column(close, z, y[close]))
        return kept


def _statistics(
    sums: Sums, square: float, pacing: Vector, chosen: Vector, changed: Vector, totals: Vector
) -> StackedStatistics:
    q = sums.rhs.size
    none = np.zeros((0, q, q)), np.zeros((0, q))
    return StackedStatistics(
        sums.gram, sums.rhs, square, *none, pacing, chosen, chosen, changed, totals
    )
