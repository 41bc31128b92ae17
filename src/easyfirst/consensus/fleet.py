"""A typed face for the workers: what the driver may ask of all batches at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from easyfirst.consensus.statistics import Diagonal, StackedStatistics
from easyfirst.contracts import Batch, Matrix, Pace, Spread, Vector, Workers
from easyfirst.local import derivatives, products, steps, subproblem, weighing
from easyfirst.local.derivatives import Expansion
from easyfirst.local.design import stacked
from easyfirst.local.steps import Change, Description
from easyfirst.local.subproblem import Pull, Response, Terms
from easyfirst.local.turnover import Turnover, turnover
from easyfirst.local.weighing import NoiseRule, Problem, Weighting, Whitener
from easyfirst.losses import Loss
from easyfirst.summaries import LossSummary

# Columns further from zero than this many of their standard deviations are shifted: products
# with the intercept column would otherwise cancel away more than two digits.
FAR_FROM_ZERO = 16.0

# Of y, relative to its mean: residuals that are rounding errors then fall below the finest bin.
STEPS_TO_CENTER = 6  # of Huber's rule
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
    spread_of_y: float = 1.0
    least_y: float = -np.inf
    entries_per_row: float = 0.0  # of X that are stored
    n_effective: int | None = None  # coefficients that a penalty leaves free, where that is known

    @property
    def n_coef(self) -> int:
        """Number of coefficients, the intercept included."""
        return self.n_features + int(self.problem.coordinates.fit_intercept)

    @property
    def n_batches(self) -> int:
        """Number of batches."""
        return len(self.n_rows)

    @classmethod
    def meet(cls, workers: Workers, problem: Problem, spread: Spread = map) -> Fleet:
        """Ask every batch to describe itself, and settle the coordinates and the anchor from it."""
        descriptions: list[Description] = workers.map(steps.describe, None, problem.loss)
        _require_rows(descriptions)
        _require_suitable_y(descriptions, problem.loss)
        spread_of_y = _spread_of_y(descriptions, problem.coordinates.fit_intercept)
        anchor = 1.0 if problem.loss.unit_free else spread_of_y
        n_rows = tuple(each.n_weighted for each in descriptions)
        coordinates = problem.coordinates
        if coordinates.fit_intercept:
            coordinates = replace(coordinates, shift=_shift(descriptions))
        return cls(
            workers=workers,
            problem=replace(
                problem,
                coordinates=coordinates,
                anchor=anchor,
                has_trusted=any(each.n_trusted for each in descriptions),
            ),
            n_rows=n_rows,
            total_weight=sum(each.total_weight for each in descriptions),
            column_variance=np.square(_columns(descriptions)[1]),
            n_features=descriptions[0].column_sum.size,
            spread=spread,
            spread_of_y=spread_of_y,
            least_y=min(each.y_least for each in descriptions),
            entries_per_row=sum(each.n_entries for each in descriptions)
            / max(sum(each.n_samples for each in descriptions), 1),
        )

    def every_row(self) -> Weightings:
        """Return the weightings that keep every row of every batch."""
        return [Weighting(coef=None)] * self.n_batches

    def weightings(self, coefs: Matrix, pace: Pace, whitener: Whitener | None = None) -> Weightings:
        """Return what decides the weights: batch i's coefficients coefs[i] and thresholds."""
        # Equal coefficients become one object, which a message to several batches holds once.
        first = tuple(coefs[0].tolist())
        is_one = coefs.strides[0] == 0  # a single line, `everywhere`
        is_first = [True] * len(coefs) if is_one else np.all(coefs == coefs[0], axis=1).tolist()
        if pace.thresholds is None and all(is_first):
            return [Weighting(first, pace.for_batch(0), pace.width, whitener)] * len(coefs)
        return [
            Weighting(
                first if same else tuple(coef.tolist()), pace.for_batch(i), pace.width, whitener
            )
            for i, (coef, same) in enumerate(zip(coefs, is_first, strict=True))
        ]

    def judged(self, coef: Vector, rule: NoiseRule, shares: Matrix) -> Weightings:
        """Return weightings by a noise model; shares[i] are those of batch i's bands."""
        at = tuple(coef.tolist())
        return [
            Weighting(at, noise_rule=replace(rule, shares=tuple(own))) for own in shares.tolist()
        ]

    def clean_center(self, now: Weightings, start: float = 0.0) -> float:
        """Return the middle of the clean rows' residuals, by the pull of their rule."""
        center = start
        for _ in range(STEPS_TO_CENTER):
            messages = [(weighting, center) for weighting in now]
            replies = self.workers.map(steps.clean_pull, messages, self.problem)
            pull, weight = np.sum(replies, axis=0).tolist()
            center += pull / weight if weight > 0 else 0.0
        return center

    def scatter(self, now: Weightings, scale: float) -> tuple[Matrix, float, float]:
        """Return the totals of `steps.scatter` over all batches."""
        messages = [(weighting, scale) for weighting in now]
        replies = self.workers.map(steps.scatter, messages, self.problem)
        outer = np.sum([reply[0] for reply in replies], axis=0)
        return outer, sum(reply[1] for reply in replies), sum(reply[2] for reply in replies)

    def summarize(self, weightings: Weightings) -> LossSummary:
        """Return the histogram of all residuals, as the weightings would judge them."""
        return self.summary(weightings, self.workers.map(steps.summarize, weightings, self.problem))

    def summary(self, weightings: Weightings, counts: Sequence[Vector]) -> LossSummary:
        """Return the histograms of all batches, as the weightings judge their rows."""
        first = weightings[0]
        assert first.coef is not None
        every, trusted = np.stack(counts), None
        if self.problem.has_trusted:
            every, trusted = every[:, :-1], every[:, -1].sum(axis=0)
        return LossSummary(
            counts=every,
            trusted=trusted,
            anchor=self.problem.anchor,
            n_coef=len(first.coef) if self.n_effective is None else self.n_effective,
            studentized=first.whitener is not None,
        )

    def form(
        self,
        now: Weightings,
        before: Weightings | None = None,
        reference: Weightings | None = None,
        pooled: bool = False,
    ) -> StackedStatistics:
        """Weigh all rows and return their statistics, building on a reference where that pays.

        With `pooled`, Gram matrices are added up, and those of single batches are not kept.
        """
        nothing = [None] * self.n_batches
        changes = list(map(Change, now, before or nothing, reference or nothing))
        replies = self.workers.map(steps.form, changes, self.problem)
        return (StackedStatistics.added if pooled else StackedStatistics.stack)(replies)

    def pull(
        self, point: Vector, preconditioner: Matrix, now: Weightings, before: Weightings
    ) -> StackedStatistics:
        """Weigh all rows by `point` and return their statistics around it, without a matrix."""
        replies = self.workers.map(steps.pull, list(map(Change, now, before)), self.problem)
        return StackedStatistics.around(point, preconditioner, replies)

    def turnover(self, now: Weightings, before: Weightings) -> list[Turnover]:
        """Weigh all rows and return those whose weight changed, batch by batch."""
        return self.workers.map(turnover, list(map(Change, now, before)), self.problem)

    def sweep(
        self, point: Vector, preconditioner: Matrix | Diagonal, now: Weightings, before: Weightings
    ) -> tuple[LossSummary, StackedStatistics]:
        """Weigh all rows by `point` in one pass: their losses, and their statistics around it."""
        changes = list(map(Change, now, before))
        replies = self.workers.map(steps.sweep, changes, self.problem)
        losses = self.summary(now, [counts for counts, _ in replies])
        return losses, StackedStatistics.around(
            point, preconditioner, [tally for _, tally in replies]
        )

    def expand(
        self, now: Weightings, before: Weightings | None, expansion: Expansion
    ) -> StackedStatistics:
        """Weigh all rows and return the statistics of any loss around given coefficients."""
        nothing = [None] * self.n_batches
        changes = list(map(Change, now, before or nothing))
        replies = self.workers.map(derivatives.expand, changes, (self.problem, expansion))
        return StackedStatistics.expanded(expansion.coef, replies)

    def curve(
        self, now: Weightings, direction: Vector, expansion: Expansion | None = None
    ) -> Vector:
        """Return D'R D direction over all rows, which may count by their curvature, too."""
        message = (self.problem, direction, expansion)
        return _added(self.workers.map(products.curve, now, message))

    def column_squares(self, now: Weightings) -> Vector:
        """Return the diagonal of D'R D over all rows."""
        return _added(self.workers.map(products.column_squares, now, self.problem))

    def probe(self, now: Weightings, seed: int) -> Vector:
        """Return D'R^(1/2) u for random signs u, without rows that are far out in X."""
        messages = [(weighting, seed, number) for number, weighting in enumerate(now)]
        return _added(self.workers.map(products.probe, messages, self.problem))

    def respond(self, pulls: Sequence[Pull], terms: Terms) -> list[Response]:
        """Let every batch solve its part of a consensus iteration."""
        return self.workers.map(subproblem.respond, pulls, terms)

    def weights(self, now: Weightings) -> list[Vector]:
        """Return the weight of every row, batch by batch."""
        return self.workers.map(weighing.weights_of, now, self.problem)

    def influence(self, now: Weightings, scale: float) -> Vector:
        """Return the totals of `steps.influence` over all batches."""
        messages = [(weighting, scale) for weighting in now]
        return np.asarray(np.sum(self.workers.map(steps.influence, messages, self.problem), axis=0))

    def sample(self, size: int, seed: int) -> list[Batch]:
        """Return about `size` rows, drawn from every batch in proportion to its rows."""
        total = sum(self.n_rows)
        quotas = [min(rows, -(-size * rows // total)) for rows in self.n_rows]
        messages = [(quota, seed, number) for number, quota in enumerate(quotas)]
        return self.workers.map(steps.sample, messages, None)

    def triangles(self, now: Weightings) -> list[Matrix]:
        """Return the triangular factor of every batch's weighted rows."""
        return self.workers.map(steps.triangle, now, self.problem)

    def normal_residual(self, now: Weightings, coef: Vector, extended: bool) -> Any:
        """Return D'R(y - D coef) over all rows, on request in extended precision."""
        at = tuple(coef.tolist())
        messages = [(weighting, at, extended) for weighting in now]
        return _added(self.workers.map(steps.normal_residual, messages, self.problem))


def _added(replies: Sequence[Vector]) -> Vector:
    """Return the sum of vectors, in order, without a matrix of all of them."""
    total = replies[0].copy()
    for reply in replies[1:]:
        total += reply
    return total


def _require_rows(descriptions: Sequence[Description]) -> None:
    if not any(each.n_weighted for each in descriptions):
        raise ValueError(
            f"none of the {len(descriptions)} batches holds a row of positive weight: there is "
            f"nothing to fit"
        )
    widths = [each.column_sum.size for each in descriptions]
    odd = [number for number, width in enumerate(widths) if width != widths[0]]
    if odd:
        raise ValueError(
            f"batch {odd[0]} has {widths[odd[0]]} columns and batch 0 has {widths[0]}: every batch "
            f"must have the same columns"
        )


def _require_suitable_y(descriptions: Sequence[Description], loss: Loss) -> None:
    for number, each in enumerate(descriptions):
        if each.complaint is not None:
            raise ValueError(f"loss={loss!r} {each.complaint} (batch {number})")


def _spread_of_y(descriptions: Sequence[Description], around_mean: bool) -> float:
    """Return the root mean square of y, around its mean if there is an intercept."""
    weight = np.array([each.total_weight for each in descriptions])
    means = np.array([each.y_mean for each in descriptions])
    center = weight @ means / weight.sum() if around_mean else np.zeros(means.shape[1:])
    between = np.sum(weight @ np.square(means - center))
    scatter = sum(each.y_scatter for each in descriptions) + between
    # The spread of a constant y is rounding: it takes its anchor from the size of y, if it has one.
    spread = float(np.sqrt(scatter / weight.sum()))
    return max(spread, LEAST_SPREAD * float(np.max(np.abs(center)))) or 1.0


def _columns(descriptions: Sequence[Description]) -> tuple[Vector, Vector]:
    """Return mean and standard deviation of every column, from the rows described."""
    rows = sum(each.column_rows for each in descriptions)
    mean = _added([each.column_sum for each in descriptions]) / rows
    square = _added([each.column_square for each in descriptions]) / rows
    return mean, np.sqrt(np.maximum(square - np.square(mean), 0.0))


def _shift(descriptions: Sequence[Description]) -> Vector | None:
    mean, spread = _columns(descriptions)
    return mean if np.any(np.abs(mean) > FAR_FROM_ZERO * spread) else None


def joined_rows(batches: Sequence[Batch]) -> Batch:
    """Return the rows of all batches as one."""
    if len(batches) == 1:
        return batches[0]
    xs = [batch.X for batch in batches]
    weights = [batch.sample_weight for batch in batches if batch.sample_weight is not None]
    trusted = [batch.trusted for batch in batches if batch.trusted is not None]
    return Batch(
        X=stacked(xs),
        y=np.concatenate([batch.y for batch in batches]),
        sample_weight=np.concatenate(weights) if weights else None,
        trusted=np.concatenate(trusted) if trusted else None,
    )
