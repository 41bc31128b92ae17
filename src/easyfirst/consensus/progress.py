"""How far the coefficients still are from rest, and how long the next step may be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# A step that shrinks by less than this from one round to the next shows a poor preconditioner.
STALLED = 0.5
LATER_STEPS = 2.0  # what is left, over what the last two steps alone would say
CAREFUL = 0.5  # length of a step where rows are few,
PATIENCE = 15  # and number of steps after which any step shrinks


@dataclass
class Progress:
    """The calibrated steps so far; distances are in standard errors."""

    moved: float = np.inf  # the last step
    left: float = np.inf  # how far the end may still be
    n_steps: int = 0

    def start_anew(self) -> None:
        """Forget the last step: the pace still grows."""
        self.moved = self.left = np.inf

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

    def step_length(self, advice: float, few_rows: bool) -> float:
        """Return the schedule's advice, or less where rows are few, and less and less later on.

        Thresholds follow the fit, and the fit the thresholds: full steps may go back and forth
        between neighbouring selections for ever, above all where residuals are freed of their
        own pull and answer a step more than in proportion.
        """
        self.n_steps += 1
        length = CAREFUL if few_rows else advice
        return length * min(1.0, PATIENCE / self.n_steps) ** 2
