"""What a self-paced regularizer is: the contract that every one of them keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from easyfirst.contracts import Vector
from easyfirst.plugins import PlugIn


class SelfPacedRegularizer(PlugIn, ABC):
    """The self-paced term of the objective.

    `separable` says that a row's weight depends on its own loss alone, and not on the other rows of
    its batch; `is_all_or_nothing` that weights are one value below the pace and another above it;
    `is_posterior` that, with the width of a calibrated pace, they are the probability that a row
    is clean, whose slope standard errors need.
    """

    separable: ClassVar[bool] = True
    is_all_or_nothing: ClassVar[bool] = False
    is_posterior: ClassVar[bool] = False

    @abstractmethod
    def weights(self, losses: Vector, pace: float | Vector) -> Vector:
        """Return argmin over v in [0, 1] of v * losses + f(v; pace)."""

    @abstractmethod
    def value(self, weights: Vector, pace: float | Vector) -> Vector:
        """Return f(v; pace) of each row."""

    def with_width(self, width: float | None) -> SelfPacedRegularizer:
        """Return this rule with the softness that a schedule prescribes, if it has one."""
        del width
        return self


def require_positive(name: str, value: float, more_than: float = 0.0) -> None:
    """Refuse what is not a finite number above a bound."""
    if not (np.isfinite(value) and value > more_than):
        raise ValueError(f"{name} must be a finite number > {more_than:g}, got {value!r}")
