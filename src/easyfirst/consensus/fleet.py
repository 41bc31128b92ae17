"""A typed face for the workers: what the driver may ask of all batches at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from easyfirst.consensus.statistics import Diagonal, StackedStatistics
from easyfirst.contracts import Batch, LightStep, Matrix, Pace, Spread, Vector, Workers
from easyfirst.local import products, steps, together, weighing
from easyfirst.local.steps import Change, Description
from easyfirst.local.weighing import Problem, Weighting, Whitener
from easyfirst.summaries import LossSummary

# Columns further from zero than this many of their standard deviations are shifted: products
# with the intercept column would otherwise cancel away more than two digits.
FAR_FROM_ZERO = 16.0

# Of y, relative to its mean: residuals that are rounding errors then fall below the finest bin.
LEAST_SPREAD = 2.0**-10

Weightings = Sequence[Weighting]


@dataclass(frozen=True, eq=False)
class Fleet:
    """All batches of one fit, and the problem they work on.

    `spread` lets the cores of the driver share what is done there on a sample of the rows.
    """

    workers: Workers
    problem: Problem
    n_rows: tuple[int, ...]  # rows of positive sample weight in each batch
    total_weight: float  # of all rows: their number, if no weights were given
    column_variance: Vector  # of each column, from some of the rows
    n_features: int
    spread: Spread = map

    @property
    def n_coef(self) -> int:
        """Number of coefficients, the intercept included."""
        return self.n_features + int(self.problem.frame.fit_intercept)

    @property
    def n_batches(self) -> int:
        """Number of batches."""
        return len(self.n_rows)

    @classmethod
    def meet(cls, workers: Workers, problem: Problem, spread: Spread = map) -> Fleet:
        """Ask every batch to describe itself, and settle the frame and the anchor from it."""
        facts: list[Description] = workers.map(LightStep(steps.describe), None, None)
        _require_rows(facts)
        anchor = _spread_of_y(facts, problem.frame.fit_intercept)
        n_rows = tuple(fact.n_weighted for fact in facts)
        frame = problem.frame
        if frame.fit_intercept:
            frame = replace(frame, shift=_shift(facts))
        return cls(
            workers=workers,
            problem=replace(problem, frame=frame, anchor=anchor),
            n_rows=n_rows,
            total_weight=sum(fact.total_weight for fact in facts),
            column_variance=np.square(_columns(facts)[1]),
            n_features=facts[0].column_sum.size,
            spread=spread,
        )

    def every_row(self) -> Weightings:
        """Return the weightings that keep every row of every batch."""
        return [Weighting(coef=None)] * self.n_batches

    def weightings(self, coefs: Matrix, pace: Pace, whitener: Whitener | None = None) -> Weightings:
        """Return what decides the weights: batch i's coefficients coefs[i] and thresholds."""
        # Equal coefficients become one object, which a message to several batches holds once.
        first = tuple(coefs[0].tolist())
        is_first = np.all(coefs == coefs[0], axis=1).tolist()
        return [
            Weighting(
                first if same else tuple(coef.tolist()), pace.for_batch(i), pace.width, whitener
            )
            for i, (coef, same) in enumerate(zip(coefs, is_first, strict=True))
        ]

    def summarize(self, weightings: Weightings) -> LossSummary:
        """Return the histogram of all residuals, as the weightings would judge them."""
        return self._summary(
            weightings, self.workers.map(steps.summarize, weightings, self.problem)
        )

    def _summary(self, weightings: Weightings, counts: Sequence[Vector]) -> LossSummary:
        first = weightings[0]
        assert first.coef is not None
        return LossSummary(
            counts=np.stack(counts),
            anchor=self.problem.anchor,
            n_coef=len(first.coef),
            studentized=first.whitener is not None,
        )

    def form(
        self,
        now: Weightings,
        before: Weightings | None = None,
        reference: Weightings | None = None,
    ) -> StackedStatistics:
        """Weigh all rows and return their statistics, building on a reference where that pays."""
        nothing = [None] * self.n_batches
        changes = list(map(Change, now, before or nothing, reference or nothing))
        # Where most weights are those of a reference, few rows have to be looked at closely.
        step = steps.form if reference is None else LightStep(steps.form)
        return StackedStatistics.stack(self.workers.map(step, changes, self.problem))

    def sweep(
        self, point: Vector, metric: Matrix | Diagonal, now: Weightings, before: Weightings
    ) -> tuple[LossSummary, StackedStatistics]:
        """Weigh all rows by `point` in one pass: their losses, and their statistics around it."""
        changes = list(map(Change, now, before))
        replies = self.workers.map(together.sweep, changes, self.problem)
        losses = self._summary(now, [counts for counts, _ in replies])
        return losses, StackedStatistics.around(point, metric, [tally for _, tally in replies])

    def curve(self, now: Weightings, direction: Vector) -> Vector:
        """Return D'R D direction over all rows."""
        message = (self.problem, direction)
        return np.asarray(np.sum(self.workers.map(products.curve, now, message), axis=0))

    def column_squares(self, now: Weightings) -> Vector:
        """Return the diagonal of D'R D over all rows."""
        replies = self.workers.map(products.column_squares, now, self.problem)
        return np.asarray(np.sum(replies, axis=0))

    def weights(self, now: Weightings) -> list[Vector]:
        """Return the weight of every row, batch by batch."""
        return self.workers.map(weighing.weigh, now, self.problem)

    def influence(self, now: Weightings, scale: float) -> Vector:
        """Return the totals of `steps.influence` over all batches."""
        messages = [(weighting, scale) for weighting in now]
        return np.asarray(
            np.sum(self.workers.map(together.influence, messages, self.problem), axis=0)
        )

    def sample(self, size: int, seed: int) -> list[Batch]:
        """Return about `size` rows, drawn from every batch in proportion to its rows."""
        total = sum(self.n_rows)
        quotas = [min(rows, -(-size * rows // total)) for rows in self.n_rows]
        messages = [(quota, seed, number) for number, quota in enumerate(quotas)]
        return self.workers.map(LightStep(steps.sample), messages, None)

    def triangles(self, now: Weightings) -> list[Matrix]:
        """Return the triangular factor of every batch's weighted rows."""
        return self.workers.map(steps.triangle, now, self.problem)

    def normal_residual(self, now: Weightings, coef: Vector, extended: bool) -> Any:
        """Return D'R(y - D coef) over all rows, on request in extended precision."""
        messages = [(weighting, coef, extended) for weighting in now]
        replies = self.workers.map(steps.normal_residual, messages, self.problem)
        return np.asarray(np.sum(replies, axis=0))


def _require_rows(facts: Sequence[Description]) -> None:
    if not any(fact.n_weighted for fact in facts):
        raise ValueError(
            f"none of the {len(facts)} batches holds a row of positive weight: there is nothing "
            f"to fit"
        )
    widths = [fact.column_sum.size for fact in facts]
    odd = [number for number, width in enumerate(widths) if width != widths[0]]
    if odd:
        raise ValueError(
            f"batch {odd[0]} has {widths[odd[0]]} columns and batch 0 has {widths[0]}: every batch "
            f"must have the same columns"
        )


def _spread_of_y(facts: Sequence[Description], around_mean: bool) -> float:
    """Return the root mean square of y, around its mean if there is an intercept."""
    weight = np.array([fact.total_weight for fact in facts])
    means = np.array([fact.y_mean for fact in facts])
    center = weight @ means / weight.sum() if around_mean else 0.0
    scatter = sum(fact.y_scatter for fact in facts) + weight @ np.square(means - center)
    # The spread of a constant y is rounding: it takes its anchor from the size of y, if it has one.
    spread = float(np.sqrt(scatter / weight.sum()))
    return max(spread, LEAST_SPREAD * abs(float(center))) or 1.0


def _columns(facts: Sequence[Description]) -> tuple[Vector, Vector]:
    """Return mean and standard deviation of every column, from the rows described."""
    rows = sum(fact.column_rows for fact in facts)
    mean = np.sum([fact.column_sum for fact in facts], axis=0) / rows
    square = np.sum([fact.column_square for fact in facts], axis=0) / rows
    return mean, np.sqrt(np.maximum(square - np.square(mean), 0.0))


def _shift(facts: Sequence[Description]) -> Vector | None:
    mean, spread = _columns(facts)
    return mean if np.any(np.abs(mean) > FAR_FROM_ZERO * spread) else None
