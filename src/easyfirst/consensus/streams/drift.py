"""Whether new batches differ from earlier ones: in their clean share, or in their noise.

Both numbers are compared with their median over earlier batches, in standard deviations of what
chance makes of a batch of that size, and differences are added up (a CUSUM chart): a large change
raises the alarm at once, a small one after some batches.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from easyfirst.contracts import Vector

SLACK = 0.75  # standard deviations of a batch that are no change
LIMIT = 10.0  # sum of the others at which the alarm is raised
FIRST = 8  # batches that are only learned from
LEAST_ROWS = 20  # of a batch that is compared
KNOWN = 100  # batches of which the median is known: it follows slowly
WIDE = 1.4826  # normal scale of a median distance
FEW = 4.0  # how many more times the variance of few values may be, times their number
LARGEST = 6.0  # standard deviations: beyond, a batch counts as much as one there


@dataclass(frozen=True)
class BatchSummary:
    """What one batch looked like: rows, share of clean ones, logarithm of their typical error."""

    rows: int
    clean_share: float
    log_noise: float

    @classmethod
    def of(cls, weights: Vector, scaled: Vector) -> BatchSummary:
        """Sum up a batch, from weights and residuals in noise scales."""
        clean = weights >= 0.5
        size = np.abs(scaled[clean])
        typical = float(np.mean(np.minimum(size, 4.0))) if size.size else 1.0
        return cls(weights.size, float(np.mean(weights)), float(np.log(max(typical, 1e-12))))


@dataclass(frozen=True)
class Drift:
    """A change: in which batch it was noticed, of what, from which value to which."""

    batch: int
    what: Literal["clean share", "noise"]
    before: float
    now: float

    def __str__(self) -> str:
        """Say what has changed."""
        if self.what == "noise":
            return (
                f"The noise of clean rows is {self.now / self.before:.2g} times what it was "
                f"(batch {self.batch})."
            )
        return (
            f"The share of clean rows went from {100 * self.before:.0f} % to "
            f"{100 * self.now:.0f} % (batch {self.batch})."
        )


@dataclass(eq=False)
class _Chart:
    """One number per batch: the last ones that were no change, and what exceeds them, added up.

    By medians, so that a few odd batches among those learned from hide no later change.
    """

    values: deque[float] = field(default_factory=lambda: deque(maxlen=KNOWN))
    high: float = 0.0
    low: float = 0.0

    @property
    def middle(self) -> float:
        """The median of what was learned."""
        return float(np.median(self.values))

    def moves(self, value: float, chance: float) -> bool:
        """Take in a value whose variance by chance is known; return whether it is an alarm."""
        count = len(self.values)
        if count >= FIRST:
            middle = self.middle
            spread = WIDE * float(np.median(np.abs(np.array(self.values) - middle)))
            # Of few values the median distance may be small by chance.
            known = max(chance, spread**2 * (1.0 + FEW / count)) * (1.0 + 0.5 * np.pi / count)
            z = float(np.clip((value - middle) / max(np.sqrt(known), 1e-12), -LARGEST, LARGEST))
            self.high = max(0.0, self.high + z - SLACK)
            self.low = max(0.0, self.low - z - SLACK)
            if max(self.high, self.low) > LIMIT:
                return True
            if max(self.high, self.low) > 0.5 * LIMIT:
                return False  # what may be a change is not learned
        self.values.append(value)
        return False


@dataclass(eq=False)
class DriftWatch:
    """Charts of the clean share and of the noise; after an alarm both begin anew."""

    share: _Chart = field(default_factory=_Chart)
    noise: _Chart = field(default_factory=_Chart)
    batches: int = 0

    def look(self, batch: BatchSummary) -> Drift | None:
        """Take in a batch, and return what has changed."""
        self.batches += 1
        if batch.rows < LEAST_ROWS:
            return None
        known = float(np.clip(self.share.middle, 0.01, 0.99)) if self.share.values else 0.9
        clean = max(batch.rows * batch.clean_share, 1.0)
        charts = (
            ("clean share", self.share, batch.clean_share, known * (1.0 - known) / batch.rows),
            ("noise", self.noise, batch.log_noise, 0.6 / clean),  # of log mean |z|, normal z
        )
        alarms = [
            (what, chart, value)
            for what, chart, value, chance in charts
            if chart.moves(value, chance)
        ]
        if not alarms:
            return None
        what, chart, value = alarms[0]
        before, now = (
            (chart.middle, value) if what == "clean share" else np.exp([chart.middle, value])
        )
        self.share, self.noise = _Chart(), _Chart()
        return Drift(self.batches - 1, what, float(before), float(now))  # type: ignore[arg-type]
