"""Rules whose weights fade: no loss is so large that its weight is quite 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import xlogy

from easyfirst.contracts import Vector
from easyfirst.regularizers.base import SelfPacedRegularizer, require_positive

LARGEST_EXPONENT = 700.0  # keeps exp within range for rows that are out anyway


@dataclass(frozen=True)
class Entropic(SelfPacedRegularizer):
    """A soft step: v = 1 / (1 + exp((loss - pace) / width)).

    f = -pace * v + width * (v ln v + (1 - v) ln(1 - v)). With Gaussian clean residuals of
    variance s**2 among locally flat corrupted ones, width = 2 s**2 makes v the posterior
    probability that the row is clean. `width` is in units of the loss; None means `softness`
    times the pace, and a calibrated schedule replaces it round by round.
    """

    is_posterior: ClassVar[bool] = True

    softness: float = 0.25
    width: float | None = None

    def __post_init__(self) -> None:
        """Reject widths that make the step undefined."""
        require_positive("softness", self.softness)
        if self.width is not None:
            require_positive("width", self.width)

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


@dataclass(frozen=True)
class LogisticWeight(SelfPacedRegularizer):
    """v = (1 + exp(-k)) / (1 + exp(k (loss / pace - 1))), with k the `sharpness` (Xu).

    f = (pace / k) ((c - v) ln(c - v) + v ln v - k v) with c = 1 + exp(-k).
    """

    sharpness: float = 4.0

    def __post_init__(self) -> None:
        """Reject a sharpness that is not positive."""
        require_positive("sharpness", self.sharpness)

    def weights(self, losses: Vector, pace: float | Vector) -> Vector:
        """Fall from 1 at no loss through about one half at the pace."""
        k = self.sharpness
        exponent = np.minimum(k * (losses / pace - 1.0), LARGEST_EXPONENT)
        return np.asarray((1.0 + np.exp(-k)) / (1.0 + np.exp(exponent)))

    def value(self, weights: Vector, pace: float | Vector) -> Vector:
        """Return (pace / k) ((c - v) ln(c - v) + v ln v - k v)."""
        k, rest = self.sharpness, 1.0 + np.exp(-self.sharpness) - weights
        entropy = xlogy(rest, rest) + xlogy(weights, weights)
        return np.asarray(pace / k * (entropy - k * weights))


@dataclass(frozen=True)
class Welsch(SelfPacedRegularizer):
    """f = g (v ln v - v + 1) with g = scale * pace, so v = exp(-loss / g): never quite zero."""

    scale: float = 1.0

    def __post_init__(self) -> None:
        """Reject scales that are not positive."""
        require_positive("scale", self.scale)

    def weights(self, losses: Vector, pace: float | Vector) -> Vector:
        """Return exp(-loss / (scale * pace))."""
        return np.exp(-losses / (self.scale * pace))

    def value(self, weights: Vector, pace: float | Vector) -> Vector:
        """Return scale * pace * (v ln v - v + 1)."""
        return np.asarray(self.scale * pace * (xlogy(weights, weights) - weights + 1.0))


@dataclass(frozen=True)
class CauchyWeight(SelfPacedRegularizer):
    """v = 1 / (1 + loss / g) with g = scale * pace, the weights of Cauchy's loss.

    f = g (v - ln v - 1).
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        """Reject scales that are not positive."""
        require_positive("scale", self.scale)

    def weights(self, losses: Vector, pace: float | Vector) -> Vector:
        """Return 1 / (1 + loss / (scale * pace))."""
        return np.asarray(1.0 / (1.0 + losses / (self.scale * pace)))

    def value(self, weights: Vector, pace: float | Vector) -> Vector:
        """Return g (v - ln v - 1)."""
        return np.asarray(self.scale * pace * (weights - np.log(_above_zero(weights)) - 1.0))


@dataclass(frozen=True)
class HuberWeight(SelfPacedRegularizer):
    """v = min(1, sqrt(pace / loss)), the weights of Huber's loss; f = pace (1 / v - 1).

    Rows far out keep a say: their pull is bounded, but does not vanish.
    """

    def weights(self, losses: Vector, pace: float | Vector) -> Vector:
        """Return 1 up to the pace, then sqrt(pace / loss)."""
        return np.asarray(1.0 / np.sqrt(np.maximum(losses / pace, 1.0)))

    def value(self, weights: Vector, pace: float | Vector) -> Vector:
        """Return pace (1 / v - 1)."""
        return np.asarray(pace * (1.0 / _above_zero(weights) - 1.0))


@dataclass(frozen=True)
class GemanMcClure(SelfPacedRegularizer):
    """v = (g / (g + loss))**2 with g = scale * pace; f = g (sqrt(v) - 1)**2."""

    scale: float = 1.0

    def __post_init__(self) -> None:
        """Reject scales that are not positive."""
        require_positive("scale", self.scale)

    def weights(self, losses: Vector, pace: float | Vector) -> Vector:
        """Return (1 + loss / (scale * pace))**-2."""
        return np.asarray(np.square(1.0 / (1.0 + losses / (self.scale * pace))))

    def value(self, weights: Vector, pace: float | Vector) -> Vector:
        """Return g (sqrt(v) - 1)**2."""
        return np.asarray(self.scale * pace * np.square(np.sqrt(weights) - 1.0))


def _above_zero(weights: Vector) -> Vector:
    return np.maximum(weights, 1e-300)
