"""How far the coefficients still are from rest, and how long the next step may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from easyfirst.contracts import Vector

# A step that shrinks by less than this from one round to the next shows a poor preconditioner.
STALLED = 0.5
LATER_STEPS = 2.0  # what is left, over what the last two steps alone would say
CAREFUL = 0.5  # length of a first step where rows are few, and of those that do not fall,
PATIENCE = 15  # and number of steps after which any step shrinks


@dataclass
class Progress:
    """The calibrated steps so far; distances are in standard errors."""

    moved: float = np.inf  # the last step
    left: float = np.inf  # how far the end may still be
    n_steps: int = 0
    last: tuple[Vector, float] | None = None  # the last step as it was advised, and its length

    def start_anew(self) -> None:
        """Forget the last step: the pace still grows."""
        self.moved = self.left = np.inf
        self.last = None

    def note(self, moved: float, preconditioned: bool) -> bool:
        """Record a step; return whether steps with this preconditioner converge too slowly."""
        last, self.moved, self.left = self.moved, moved, moved
        if not (preconditioned and np.isfinite(last)):
            return False
        shrunk = moved / max(last, 1e-300)
        if shrunk > STALLED:
            return True
        # Steps shrink geometrically, the later ones more slowly.
        self.left = LATER_STEPS * moved * shrunk / (1.0 - shrunk)
        return False

    def length_by_advice(self, advice: float) -> float:
        """Return the schedule's advice, and less and less of it later on."""
        self.n_steps += 1
        return advice * self._patience

    def length_of_few_rows(self, step: Vector, curve: Callable[[Vector], Vector]) -> float:
        """Return how much of a step to take where rows are few; `curve` applies the Gram matrix.

        Thresholds follow the fit, and the fit the thresholds: full steps may go back and forth
        between neighbouring selections for ever, above all where residuals are freed of their
        own pull and answer a step more than in proportion. So the first step is cut in half; how
        the next one differs from it tells the length that would have led to rest.
        """
        self.n_steps += 1
        length = CAREFUL
        if self.last is not None:
            before, taken = self.last
            fallen = before - step
            bent = curve(fallen)
            size, fall = float(fallen @ bent), float(before @ bent)
            # Steps that do not fall lead away from where there is no rest: how far is not known.
            length = taken * fall / size if size > 0.0 and fall > 0.0 else CAREFUL
            length = min(max(length, CAREFUL), 1.0)  # shorter steps would seem to be at rest
        length *= self._patience
        self.last = (step, length)
        return length

    @property
    def _patience(self) -> float:
        return min(1.0, PATIENCE / self.n_steps) ** 2
