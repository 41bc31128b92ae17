"""Penalties on the consensus coefficients, each given by its value and its proximal map.

The intercept is never passed to a penalty.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from easyfirst.contracts import Vector


class Penalty(ABC):
    """What large coefficients cost."""

    @abstractmethod
    def value(self, coef: Vector) -> float:
        """Return the penalty of the whole vector."""

    @abstractmethod
    def prox(self, point: Vector, step: float | Vector) -> Vector:
        """Return argmin over z of value(z) + sum((z - point)**2 / (2 * step)).

        `step` may be one number or one per coefficient.
        """

    @abstractmethod
    def gradient(self, coef: Vector) -> Vector:
        """Return the derivative of the value (a subgradient where there is a kink)."""

    @property
    @abstractmethod
    def quadratic_strength(self) -> float | None:
        """Return a if value(z) = a * ||z||**2, which permits a closed form; None otherwise."""


@dataclass(frozen=True)
class NoPenalty(Penalty):
    """No penalty: the value is 0 and the proximal map is the identity.

    With it the consensus step is the plain mean that the paper's Algorithm 1 prints.
    """

    @property
    def quadratic_strength(self) -> float:
        """Return 0."""
        return 0.0

    def value(self, coef: Vector) -> float:
        """Return 0."""
        del coef
        return 0.0

    def prox(self, point: Vector, step: float | Vector) -> Vector:
        """Return the point itself."""
        del step
        return point

    def gradient(self, coef: Vector) -> Vector:
        """Return zeros."""
        return np.zeros_like(coef)


@dataclass(frozen=True)
class Ridge(Penalty):
    """strength * ||coef||**2, with no factor 1/2; `Ridge(1.0)` is the paper's term.

    Adding it to a sum of squared errors gives scikit-learn's `Ridge(alpha=strength)`.

    Examples
    --------
    >>> import numpy as np
    >>> Ridge(1.0).prox(np.array([3.0]), step=0.5)
    array([1.5])
    """

    strength: float = 1.0

    def __post_init__(self) -> None:
        """Reject strengths that make the problem unbounded or undefined."""
        if not (math.isfinite(self.strength) and self.strength >= 0):
            raise ValueError(f"strength must be a finite number >= 0, got {self.strength!r}")

    @property
    def quadratic_strength(self) -> float:
        """Return the strength."""
        return self.strength

    def value(self, coef: Vector) -> float:
        """Return strength * ||coef||**2."""
        return float(self.strength * (coef @ coef))

    def prox(self, point: Vector, step: float | Vector) -> Vector:
        """Return point / (1 + 2 * strength * step)."""
        return np.asarray(point / (1.0 + 2.0 * self.strength * np.asarray(step)))

    def gradient(self, coef: Vector) -> Vector:
        """Return 2 * strength * coef."""
        return 2.0 * self.strength * coef
