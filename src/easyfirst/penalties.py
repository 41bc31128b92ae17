"""Penalties on the consensus coefficients, each given by its value and its proximal map.

The intercept is never passed to a penalty.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from easyfirst.contracts import Vector
from easyfirst.plugins import PlugIn


class Penalty(PlugIn, ABC):
    """What large coefficients cost, as a sum over coefficients.

    What solvers may rely on is declared: `smooth` penalties have a `gradient` everywhere, and
    those of the form strength * ||coef||**2 say so by `quadratic_strength`. Any other is handled
    by its proximal map alone.
    """

    smooth: ClassVar[bool] = False

    @abstractmethod
    def value(self, coef: Vector) -> float:
        """Return the penalty of the whole vector."""

    @abstractmethod
    def prox(self, point: Vector, step: float | Vector) -> Vector:
        """Return argmin over z of value(z) + sum((z - point)**2 / (2 * step)).

        `step` may be one number or one per coefficient.
        """

    def gradient(self, coef: Vector) -> Vector:
        """Return the derivative of the value; `smooth` penalties only."""
        raise NotImplementedError(f"{type(self).__name__} is not declared smooth")

    @property
    def quadratic_strength(self) -> float | None:
        """Return a if value(z) = a * ||z||**2, which permits a closed form; None otherwise."""
        return None

    def scaled(self, factor: float) -> Penalty:
        """Return the same penalty, `factor` times as strong."""
        return _Scaled(self, factor)


@dataclass(frozen=True)
class _Scaled(Penalty):
    """Any penalty, times a factor."""

    penalty: Penalty
    factor: float

    def value(self, coef: Vector) -> float:
        return self.factor * self.penalty.value(coef)

    def prox(self, point: Vector, step: float | Vector) -> Vector:
        return self.penalty.prox(point, self.factor * np.asarray(step))


@dataclass(frozen=True)
class NoPenalty(Penalty):
    """No penalty: the value is 0 and the proximal map is the identity.

    With it the consensus step is the plain mean that the paper's Algorithm 1 prints.
    """

    smooth: ClassVar[bool] = True

    @property
    def quadratic_strength(self) -> float:
        """Return 0."""
        return 0.0

    def value(self, coef: Vector) -> float:
        """Return 0."""
        del coef
        return 0.0

    def scaled(self, factor: float) -> NoPenalty:
        """Return the same."""
        del factor
        return self

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

    smooth: ClassVar[bool] = True

    strength: float = 1.0

    def __post_init__(self) -> None:
        """Reject strengths that make the problem unbounded or undefined."""
        _require_strength("strength", self.strength)

    def scaled(self, factor: float) -> Ridge:
        """Return a ridge penalty of another strength."""
        return Ridge(self.strength * factor)

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


@dataclass(frozen=True)
class Lasso(Penalty):
    """strength * sum(|coef|), which sets coefficients to exactly 0.

    Adding it to a sum of squared errors over n rows gives scikit-learn's
    `Lasso(alpha=strength / (2 n))`.

    Examples
    --------
    >>> import numpy as np
    >>> Lasso(1.0).prox(np.array([3.0, -0.2]), step=0.5)
    array([ 2.5, -0. ])
    """

    strength: float = 1.0

    def __post_init__(self) -> None:
        """Reject strengths that make the problem unbounded or undefined."""
        _require_strength("strength", self.strength)

    def value(self, coef: Vector) -> float:
        """Return strength * sum(|coef|)."""
        return float(self.strength * np.sum(np.abs(coef)))

    def prox(self, point: Vector, step: float | Vector) -> Vector:
        """Move each coefficient towards 0 by strength * step, and no further."""
        return _shrunk(point, self.strength * np.asarray(step))


@dataclass(frozen=True)
class ElasticNet(Penalty):
    """l1 * sum(|coef|) + l2 * ||coef||**2.

    Adding it to a sum of squared errors over n rows gives scikit-learn's `ElasticNet` with
    alpha * l1_ratio = l1 / (2 n) and alpha * (1 - l1_ratio) = l2 / n.
    """

    l1: float = 1.0
    l2: float = 1.0

    def __post_init__(self) -> None:
        """Reject strengths that make the problem unbounded or undefined."""
        _require_strength("l1", self.l1)
        _require_strength("l2", self.l2)

    def value(self, coef: Vector) -> float:
        """Return l1 * sum(|coef|) + l2 * ||coef||**2."""
        return float(self.l1 * np.sum(np.abs(coef)) + self.l2 * (coef @ coef))

    def prox(self, point: Vector, step: float | Vector) -> Vector:
        """Move towards 0 by l1 * step, then divide by 1 + 2 * l2 * step."""
        step = np.asarray(step)
        return np.asarray(_shrunk(point, self.l1 * step) / (1.0 + 2.0 * self.l2 * step))


def _shrunk(point: Vector, by: Vector) -> Vector:
    return np.asarray(np.copysign(np.maximum(np.abs(point) - by, 0.0), point))


def _require_strength(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} must be a finite number >= 0, got {value!r}")
