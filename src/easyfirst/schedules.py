"""Pace schedules: how the pace grows from round to round.

A schedule is a value; what it remembers between rounds is in the `Pace` it returned last.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from easyfirst.contracts import Pace
from easyfirst.summaries import LossSummary


class PaceSchedule(ABC):
    """Choose the pace of each round from a summary of the current losses."""

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

    start: float = 0.1
    factor: float = 1.1
    ceiling: float = 1.0

    def __post_init__(self) -> None:
        """Reject schedules that do not reach their ceiling."""
        if not 0 < self.start <= self.ceiling:
            raise ValueError(
                f"start must be > 0 and at most the ceiling {self.ceiling!r}, got {self.start!r}"
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
class Quantile(PaceSchedule):
    """Let in a growing share of the rows, whatever the scale of their losses.

    The pace of step t is the loss below which min(start + t * step, end) of the total sample
    weight lies at the current coefficients. `end` should not exceed the share of clean rows.
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
        """Return the share of rows that a step lets in."""
        return min(self.start + pace_step * self.step, self.end)

    def first(self, losses: LossSummary) -> Pace:
        """Return the loss quantile of the first share."""
        return Pace(losses.loss_quantile(self.start))

    def next(self, pace: Pace, losses: LossSummary) -> Pace:
        """Return the loss quantile of the next share, at the current losses."""
        step = pace.step + 1
        return Pace(losses.loss_quantile(self.share(step)), step=step)

    def is_final(self, pace: Pace) -> bool:
        """Return whether the last share is reached."""
        return self.share(pace.step) >= self.end
