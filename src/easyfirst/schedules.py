"""Pace schedules: how the pace grows from round to round.

A schedule is a value; what it remembers between rounds is in the `Pace` it returned last.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from easyfirst.calibration import (
    GRANTED,
    ROUGHLY,
    CleanMixture,
    clean_shares,
    fit_mixture,
    information,
    keep_everything,
)
from easyfirst.contracts import Pace
from easyfirst.plugins import PlugIn
from easyfirst.summaries import LossSummary

SETTLED, FOLLOWED = 0.01, 20  # change of a quantile that is none, and steps that it is followed
PLAINLY_CLEAN = 0.75  # share of clean rows above which a growing pace may leap


class PaceSchedule(PlugIn, ABC):
    """Choose the pace of each round from a summary of the current losses.

    A schedule that takes no look at the losses sets `reads_losses` to False: they are then not
    summed up, and it is given an empty summary.
    """

    reads_losses: ClassVar[bool] = True

    @abstractmethod
    def first(self, losses: LossSummary) -> Pace:
        """Return the pace of the first self-paced round."""

    @abstractmethod
    def next(self, pace: Pace, losses: LossSummary) -> Pace:
        """Return the pace that follows; a final pace may be followed by itself."""

    @abstractmethod
    def is_final(self, pace: Pace) -> bool:
        """Return whether the pace grows no further."""


@dataclass(frozen=True)
class Geometric(PaceSchedule):
    """The paper's schedule: start, start * factor, ... and never beyond the ceiling.

    The pace is in units of the loss, so it has to fit the scale of y: the defaults are the
    paper's and suit clean noise with a standard deviation near 0.3.

    Examples
    --------
    >>> schedule = Geometric(start=0.5, factor=1.5, ceiling=1.0)
    >>> pace = Pace(0.5)
    >>> [pace := schedule.next(pace, None) for _ in range(2)][-1].value
    1.0
    """

    reads_losses: ClassVar[bool] = False

    start: float = 0.1
    factor: float = 1.1
    ceiling: float = 1.0

    def __post_init__(self) -> None:
        """Reject schedules that do not reach their ceiling."""
        if not 0 < self.start <= self.ceiling:
            raise ValueError(
                f"start must be > 0 and at most the ceiling {self.ceiling!r}, got {self.start!r}"
            )
        if not math.isfinite(self.ceiling):
            raise ValueError(
                f"ceiling must be finite, got {self.ceiling!r}; Constant() keeps every row"
            )
        if not (self.factor > 1 and math.isfinite(self.factor)):
            raise ValueError(f"factor must be a finite number > 1, got {self.factor!r}")

    def first(self, losses: LossSummary) -> Pace:
        """Return the start."""
        del losses
        return Pace(self.start)

    def next(self, pace: Pace, losses: LossSummary) -> Pace:
        """Multiply by the factor, up to the ceiling."""
        del losses
        return Pace(min(pace.value * self.factor, self.ceiling), step=pace.step + 1)

    def is_final(self, pace: Pace) -> bool:
        """Return whether the ceiling is reached."""
        return pace.value >= self.ceiling


@dataclass(frozen=True)
class Constant(PaceSchedule):
    """One pace for all rounds; `Constant(math.inf)` keeps every row."""

    reads_losses: ClassVar[bool] = False

    pace: float = math.inf

    def __post_init__(self) -> None:
        """Reject a pace that could select nothing by definition."""
        if not self.pace > 0:
            raise ValueError(f"pace must be > 0, got {self.pace!r}")

    def first(self, losses: LossSummary) -> Pace:
        """Return the pace."""
        del losses
        return Pace(self.pace)

    def next(self, pace: Pace, losses: LossSummary) -> Pace:
        """Return the same pace."""
        del losses
        return Pace(self.pace, step=pace.step + 1)

    def is_final(self, pace: Pace) -> bool:
        """Return True."""
        del pace
        return True


@dataclass(frozen=True)
class FinalPace(Pace):
    """A pace that follows the losses no longer."""


@dataclass(frozen=True)
class Quantile(PaceSchedule):
    """Let in a growing share of the rows, whatever the scale of their losses.

    The pace of step t is the loss below which min(start + t * step, end) of the total sample
    weight lies at the current coefficients. `end` should not exceed the share of clean rows.
    The pace of the last share follows the losses until it has settled within one percent, for at
    most 20 steps: then it stays, because rows on the edge could come and go for ever.
    """

    start: float = 0.5
    end: float = 0.75
    step: float = 0.05

    def __post_init__(self) -> None:
        """Reject shares outside (0, 1] or in the wrong order."""
        if not 0 < self.start <= self.end <= 1:
            raise ValueError(
                f"shares must satisfy 0 < start <= end <= 1, got {self.start!r} and {self.end!r}"
            )
        if not self.step > 0:
            raise ValueError(f"step must be > 0, got {self.step!r}")

    def share(self, pace_step: int) -> float:
        """Return the share of rows that a step selects."""
        return min(self.start + pace_step * self.step, self.end)

    def first(self, losses: LossSummary) -> Pace:
        """Return the loss quantile of the first share."""
        return Pace(losses.loss_quantile(self.start))

    def next(self, pace: Pace, losses: LossSummary) -> Pace:
        """Return the loss quantile of the next share, or the last pace once that has settled."""
        step = pace.step + 1
        if self.is_final(pace):
            return FinalPace(pace.value, step=step)
        value = losses.loss_quantile(self.share(step))
        has_settled = abs(value - pace.value) <= SETTLED * pace.value
        if self.share(pace.step) < self.end:
            return Pace(value, step=step)
        if has_settled or self.share(step - FOLLOWED) >= self.end:
            return FinalPace(pace.value, step=step)
        return Pace(value, step=step)

    def is_final(self, pace: Pace) -> bool:
        """Return whether the pace of the last share has settled."""
        return isinstance(pace, FinalPace)


@dataclass(frozen=True, kw_only=True)
class CalibratedPace(Pace):
    """A pace that was read off the residuals, with the mixture it was read from."""

    mixture: CleanMixture
    shares: tuple[float, ...]  # of clean rows, in each batch


def has_too_few_rows(total: float, n_coef: float, per_coefficient: float = 2.0) -> bool:
    """Return whether so few rows are left over that wrong ones are fitted as closely as others."""
    return total < per_coefficient * n_coef + 3


@dataclass(frozen=True)
class Calibrated(PaceSchedule):
    """Grow the pace until clean and corrupted rows can be told apart, then read it off them.

    While growing, the pace is hard: it starts at a few rows per coefficient and is multiplied by
    `growth` each round. Every round a mixture of clean and corrupted residuals is fitted,
    starting from the scale of the rows selected so far; once the pace is wider than the clean
    part, thresholds and width come from the mixture alone and the weights become the
    probability that a row is clean. There is nothing to tune, on any scale of X and y.

    Parameters
    ----------
    growth
        Factor on the pace per round of the growing phase; its square while the rows look clean
        but for a few, where little can go wrong on the way.
    precision
        Rounds end when the coefficients move by less than so many of their standard errors.
    granted
        Share of few rows (a hundred for few coefficients) that is taken as clean: the noise is at
        least as large as their residuals. Where the rows clearly speak against it, half of them.
    per_coefficient
        Rows per coefficient (and three besides) below which every row is kept, but for those that
        are wrong by many times the noise.
    """

    growth: float = 2.0
    precision: float = 0.1
    granted: float = GRANTED
    per_coefficient: float = 2.0

    def __post_init__(self) -> None:
        """Reject a growth that does not grow and a precision that is none."""
        if not (self.growth > 1 and math.isfinite(self.growth)):
            raise ValueError(f"growth must be a finite number > 1, got {self.growth!r}")
        if not 0 < self.precision <= 1:
            raise ValueError(f"precision must lie in (0, 1], got {self.precision!r}")
        if not 0 < self.granted <= 1:
            raise ValueError(f"granted must lie in (0, 1], got {self.granted!r}")
        if not (self.per_coefficient >= 1 and math.isfinite(self.per_coefficient)):
            raise ValueError(
                f"per_coefficient must be a finite number >= 1, got {self.per_coefficient!r}"
            )

    @property
    def step_tolerance(self) -> float:
        """Return the precision."""
        return self.precision

    def first(self, losses: LossSummary) -> Pace:
        """Return the loss below which a few rows per coefficient lie, or 3 % of many rows."""
        q = losses.n_coef
        if has_too_few_rows(losses.total, q, self.per_coefficient):
            return self.keep_every_row(losses)
        few = min(_half(losses), 4.0 * q + 20.0)
        return _hard(losses.loss_quantile(max(few / losses.total, 0.03)), step=0)

    def next(self, pace: Pace, losses: LossSummary) -> Pace:
        """Grow while the selected rows look like a part of the clean ones, then calibrate."""
        step = pace.step + 1
        if has_too_few_rows(losses.total, losses.n_coef, self.per_coefficient):
            return self.keep_every_row(losses)
        if isinstance(pace, CalibratedPace):
            return self.calibrate(losses, pace.mixture, step)
        q = losses.n_coef
        selected = losses.weight_below(pace.value)
        if selected < min(2.0 * q, 0.9 * _half(losses)):  # the fit moved away from its rows
            return _hard(self.first(losses).value, step)
        spent = max(1.0 - q / selected, 0.25)
        start = math.sqrt(losses.mean_loss_below(pace.value) / spent)
        mixture = fit_mixture(losses, start, max_iter=60, tol=ROUGHLY, granted=self.granted)
        # A handful of rows can always be fitted exactly: that alone is no clean part.
        enough = information(losses, mixture)[1] > min(1.5 * q + 30.0, 0.3 * losses.total)
        wide = math.sqrt(pace.value) > 2.5 * mixture.scale
        if (wide and enough) or selected >= losses.total:
            return self.calibrate(losses, mixture, step)
        growth = self.growth**2 if mixture.share > PLAINLY_CLEAN else self.growth
        return _hard(pace.value * growth, step)

    def calibrate(
        self, losses: LossSummary, near: float | CleanMixture, step: int = 0
    ) -> CalibratedPace:
        """Return the pace that the mixture near a scale, or near another mixture, prescribes."""
        mixture = fit_mixture(losses, near, granted=self.granted)
        shares = clean_shares(losses, mixture)
        thresholds = mixture.thresholds(shares.ravel()).reshape(*shares.shape, 2).tolist()
        totals = losses.counts.sum(axis=(2, 3))
        by_batch = np.sum(shares * totals, axis=1) / np.maximum(totals.sum(axis=1), 1e-300)
        overall = float(np.mean(mixture.thresholds(np.array([mixture.share]))))
        return CalibratedPace(
            value=overall,
            step=step,
            width=mixture.width,
            thresholds=tuple(tuple((b, a) for b, a in batch) for batch in thresholds),
            mixture=mixture,
            shares=tuple(by_batch.tolist()),
        )

    def keep_every_row(self, losses: LossSummary) -> CalibratedPace:
        """Return a pace that keeps all rows: of a handful, or of many that agree on nothing."""
        rest = max(losses.total - losses.n_coef, 1.0)
        mean_loss = losses.mean_loss_below(math.inf)
        mixture = keep_everything(losses, math.sqrt(mean_loss * losses.total / rest))
        n_batches, n_bands = losses.counts.shape[:2]
        return CalibratedPace(
            value=math.inf,
            width=mixture.width,
            thresholds=(((math.inf, math.inf),) * n_bands,) * n_batches,
            mixture=mixture,
            shares=(1.0,) * n_batches,
        )

    def is_final(self, pace: Pace) -> bool:
        """Return whether the pace was read off a mixture."""
        return isinstance(pace, CalibratedPace)

    def stretch(self, pace: Pace, losses: LossSummary) -> float:
        """Return the Newton step's length over the weighted fit's, for independent columns."""
        if not isinstance(pace, CalibratedPace):
            return 1.0
        weight, worth = information(losses, pace.mixture)
        if weight <= 0:
            return 1.0
        return min(max(weight / max(worth, 1e-9 * weight), 0.5), 2.5)


def _half(losses: LossSummary) -> float:
    """Return the least number of rows that cannot be fitted by others than most rows."""
    return (losses.total + losses.n_coef + 1.0) / 2.0


def _hard(value: float, step: int) -> Pace:
    """Return a pace whose width is nothing beside it: a soft regularizer becomes hard."""
    return Pace(value, step=step, width=1e-9 * value)
