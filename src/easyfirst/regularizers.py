"""Self-paced regularizers f(v; pace): the rules that turn a row's loss into its weight.

The weights of a round minimise, row by row, v * loss + f(v; pace) over v in [0, 1]. Each class
gives that minimiser in closed form (`weights`), the value of f itself (`value`), and says how
it derives its own constants from the one pace. All of them are homogeneous: multiplying the
losses and the pace by the same factor leaves the weights alone.

`pace` may be one number or one per row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import xlogy

from easyfirst.contracts import Vector

LARGEST_EXPONENT = 700.0  # keeps exp within range for rows that are out anyway


class SelfPacedRegularizer(ABC):
    """The self-paced term of the objective, separable over rows.

    `is_all_or_nothing` says that weights are one value below the pace and another above it.
    """

    is_all_or_nothing: ClassVar[bool] = False

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


def _positive(name: str, value: float, more_than: float = 0.0) -> None:
    if not (np.isfinite(value) and value > more_than):
        raise ValueError(f"{name} must be a finite number > {more_than:g}, got {value!r}")


@dataclass(frozen=True)
class Hard(SelfPacedRegularizer):
    """The paper's rule: f = -pace * v, so v = 1 where loss < pace and 0 elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> Hard().weights(np.array([0.5, 1.0, 2.0]), pace=1.0)
    array([1., 0., 0.])
    """

    is_all_or_nothing: ClassVar[bool] = True

    def weights(self, losses: Vector, pace: float | Vector) -> Vector:
        """Return 1 where the loss is strictly below the pace."""
        return (losses < pace).astype(np.float64)

    def value(self, weights: Vector, pace: float | Vector) -> Vector:
        """Return -pace * v."""
        return np.asarray(-pace * weights)


@dataclass(frozen=True)
class Linear(SelfPacedRegularizer):
    """f = pace * (v**2 / 2 - v), so v = max(0, 1 - loss / pace)."""

    def weights(self, losses: Vector, pace: float | Vector) -> Vector:
        """Fall linearly from 1 at no loss to 0 at the pace."""
        return np.maximum(0.0, 1.0 - losses / pace)

    def value(self, weights: Vector, pace: float | Vector) -> Vector:
        """Return pace * (v**2 / 2 - v)."""
        return np.asarray(pace * (0.5 * np.square(weights) - weights))


@dataclass(frozen=True)
class Polynomial(SelfPacedRegularizer):
    """f = pace * (v**t / t - v), so v = (1 - loss / pace)**(1 / (t - 1)) below the pace.

    `degree` is t > 1: 2 is `Linear`, large values approach `Hard`.
    """

    degree: float = 3.0

    def __post_init__(self) -> None:
        """Reject degrees for which f is not strictly convex."""
        _positive("degree", self.degree, more_than=1.0)

    def weights(self, losses: Vector, pace: float | Vector) -> Vector:
        """Return (1 - loss / pace)**(1 / (degree - 1)), 0 from the pace on."""
        rest = np.maximum(0.0, 1.0 - losses / pace)
        return np.asarray(rest ** (1.0 / (self.degree - 1.0)))

    def value(self, weights: Vector, pace: float | Vector) -> Vector:
        """Return pace * (v**degree / degree - v)."""
        return np.asarray(pace * (weights**self.degree / self.degree - weights))


@dataclass(frozen=True)
class Mixture(SelfPacedRegularizer):
    """Hard below `inner * pace`, zero above `outer * pace`, hyperbolic between.

    With upper = outer * pace, lower = inner * pace and z = upper * lower / (upper - lower):
    f = -z * ln(v + z / upper), and v = z / loss - z / upper between the two.
    """

    inner: float = 2.0 / 3.0
    outer: float = 1.5

    def __post_init__(self) -> None:
        """Reject an empty or inverted band."""
        _positive("inner", self.inner)
        _positive("outer", self.outer, more_than=self.inner)

    def _constants(self, pace: float | Vector) -> tuple[float | Vector, float | Vector]:
        upper = self.outer * pace
        return upper, upper * self.inner / (self.outer - self.inner)

    def weights(self, losses: Vector, pace: float | Vector) -> Vector:
        """Return 1, then z / loss - z / upper, then 0."""
        upper, z = self._constants(pace)
        return np.clip(z / np.maximum(losses, self.inner * pace) - z / upper, 0.0, 1.0)

    def value(self, weights: Vector, pace: float | Vector) -> Vector:
        """Return -z * ln(v + z / upper)."""
        upper, z = self._constants(pace)
        return np.asarray(-z * np.log(weights + z / upper))


@dataclass(frozen=True)
class Welsch(SelfPacedRegularizer):
    """f = g (v ln v - v + 1) with g = scale * pace, so v = exp(-loss / g): never quite zero."""

    scale: float = 1.0

    def __post_init__(self) -> None:
        """Reject scales that are not positive."""
        _positive("scale", self.scale)

    def weights(self, losses: Vector, pace: float | Vector) -> Vector:
        """Return exp(-loss / (scale * pace))."""
        return np.exp(-losses / (self.scale * pace))

    def value(self, weights: Vector, pace: float | Vector) -> Vector:
        """Return scale * pace * (v ln v - v + 1)."""
        return np.asarray(self.scale * pace * (xlogy(weights, weights) - weights + 1.0))


@dataclass(frozen=True)
class Entropic(SelfPacedRegularizer):
    """A soft step: v = 1 / (1 + exp((loss - pace) / width)).

    f = -pace * v + width * (v ln v + (1 - v) ln(1 - v)). With Gaussian clean residuals of
    variance s**2 among locally flat corrupted ones, width = 2 s**2 makes v the posterior
    probability that the row is clean. `width` is in units of the loss; None means `softness`
    times the pace, and a calibrated schedule replaces it round by round.
    """

    softness: float = 0.25
    width: float | None = None

    def __post_init__(self) -> None:
        """Reject widths that make the step undefined."""
        _positive("softness", self.softness)
        if self.width is not None:
            _positive("width", self.width)

    def with_width(self, width: float | None) -> Entropic:
        """Return this rule with another width; None keeps its own."""
        return self if width is None else Entropic(self.softness, width)

    def _width(self, pace: float | Vector) -> float | Vector:
        return self.softness * pace if self.width is None else self.width

    def weights(self, losses: Vector, pace: float | Vector) -> Vector:
        """Return the logistic function of (pace - loss) / width."""
        # By hand, because scipy's expit is slow where exp overflows: at every corrupted row.
        weights = np.asarray((losses - pace) / self._width(pace))
        np.minimum(weights, LARGEST_EXPONENT, out=weights)
        np.exp(weights, out=weights)
        weights += 1.0
        return np.reciprocal(weights, out=weights)

    def value(self, weights: Vector, pace: float | Vector) -> Vector:
        """Return -pace * v + width * (v ln v + (1 - v) ln(1 - v))."""
        entropy = xlogy(weights, weights) + xlogy(1.0 - weights, 1.0 - weights)
        return np.asarray(-pace * weights + self._width(pace) * entropy)
