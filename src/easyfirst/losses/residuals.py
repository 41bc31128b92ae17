"""Losses of the residual r = y - prediction, for responses that are any number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from easyfirst.contracts import Vector
from easyfirst.losses.base import Loss, require_positive

SHRINK = 0.1  # from one stage to the next


@dataclass(frozen=True)
class Squared(Loss):
    """Squared error: value = r**2, with no factor 1/2, as in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> Squared().value(np.array([3.0, 1.0]), np.array([1.0, 1.0]))
    array([4., 0.])
    """

    quadratic: ClassVar[bool] = True

    def value(self, y: Vector, prediction: Vector) -> Vector:
        """Return r**2."""
        return np.square(y - prediction)

    def at_residual(self, y: Vector, residual: Vector) -> Vector:
        """Return residual**2."""
        return np.square(residual)

    def signed_root(self, y: Vector, residual: Vector) -> Vector:
        """Return the residual."""
        return residual

    def gradient(self, y: Vector, prediction: Vector) -> Vector:
        """Return -2 r."""
        return 2.0 * (prediction - y)

    def curvature(self, y: Vector, prediction: Vector) -> Vector:
        """Return 2 for every row."""
        return np.full(np.shape(y), 2.0)


@dataclass(frozen=True)
class Huber(Loss):
    """r**2 up to |r| = delta, then 2 delta |r| - delta**2; `delta` is in units of y.

    `HuberRegressor(epsilon)` of scikit-learn minimises it with `delta = epsilon * scale_`.
    """

    delta: float = 1.35

    def __post_init__(self) -> None:
        """Reject deltas that are not positive."""
        require_positive("delta", self.delta)

    def value(self, y: Vector, prediction: Vector) -> Vector:
        """Return r**2, linear from delta on."""
        size = np.abs(y - prediction)
        inner = np.minimum(size, self.delta)
        return inner * (2.0 * size - inner)

    def gradient(self, y: Vector, prediction: Vector) -> Vector:
        """Return -2 r, clipped at 2 delta."""
        return 2.0 * np.clip(prediction - y, -self.delta, self.delta)

    def curvature(self, y: Vector, prediction: Vector) -> Vector:
        """Return 2 up to delta, 0 beyond."""
        return np.where(np.abs(y - prediction) <= self.delta, 2.0, 0.0)


@dataclass(frozen=True)
class Pinball(Loss):
    """The quantile loss: level * r for r > 0, (level - 1) * r for r < 0; smooth at 0.

    Minimised by the conditional quantile of that `level`; 0.5 is half the absolute error. Within
    `smoothing` of 0, in units of y, the kink is replaced by a parabola, so that for a side's
    slope s the value is s r**2 / (2 smoothing), and s (|r| - smoothing / 2) beyond. Coefficients
    move by about as much as the smoothing; a fit starts with a coarse one and shrinks it tenfold
    from stage to stage.
    """

    level: float = 0.5
    smoothing: float = 1e-3

    def __post_init__(self) -> None:
        """Reject levels outside (0, 1), and no smoothing at all."""
        if not 0 < self.level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {self.level!r}")
        require_positive("smoothing", self.smoothing)

    def stages(self, spread: float) -> Sequence[Loss]:
        """Return the same loss with the smoothing shrinking from the spread of y to its own."""
        return _shrinking(self, spread)

    def value(self, y: Vector, prediction: Vector) -> Vector:
        """Return the smoothed quantile loss."""
        r = y - prediction
        return self._slope(r) * _smoothed_size(r, self.smoothing)

    def gradient(self, y: Vector, prediction: Vector) -> Vector:
        """Return minus the side's slope, less within the smoothing."""
        r = y - prediction
        return -self._slope(r) * np.clip(r, -self.smoothing, self.smoothing) / self.smoothing

    def curvature(self, y: Vector, prediction: Vector) -> Vector:
        """Return the larger slope / smoothing within the smoothing, 0 beyond."""
        inside = np.abs(y - prediction) <= self.smoothing
        return np.where(inside, self._slope(y - prediction) / self.smoothing, 0.0)

    def _slope(self, residual: Vector) -> Vector:
        return np.where(residual > 0, self.level, 1.0 - self.level)


@dataclass(frozen=True)
class Absolute(Loss):
    """|r|, smooth at 0: r**2 / (2 smoothing) within `smoothing`, |r| - smoothing / 2 beyond.

    As `Pinball` of level one half, times two.
    """

    smoothing: float = 1e-3

    def __post_init__(self) -> None:
        """Reject no smoothing at all."""
        require_positive("smoothing", self.smoothing)

    def stages(self, spread: float) -> Sequence[Loss]:
        """Return the same loss with the smoothing shrinking from the spread of y to its own."""
        return _shrinking(self, spread)

    def value(self, y: Vector, prediction: Vector) -> Vector:
        """Return the smoothed size of r."""
        return _smoothed_size(y - prediction, self.smoothing)

    def gradient(self, y: Vector, prediction: Vector) -> Vector:
        """Return minus the sign of r, less within the smoothing."""
        return np.clip(prediction - y, -self.smoothing, self.smoothing) / self.smoothing

    def curvature(self, y: Vector, prediction: Vector) -> Vector:
        """Return 1 / smoothing within the smoothing, 0 beyond."""
        return np.where(np.abs(y - prediction) <= self.smoothing, 1.0 / self.smoothing, 0.0)


@dataclass(frozen=True)
class Cauchy(Loss):
    """scale**2 ln(1 + (r / scale)**2): r**2 near 0, hardly growing far out; not convex.

    `scale` is in units of y. Rows far out pull less and less, so a fit depends on where it
    starts: at the fit of the round before, and in the first at zero.
    """

    convex: ClassVar[bool] = False

    scale: float = 1.0

    def __post_init__(self) -> None:
        """Reject scales that are not positive."""
        require_positive("scale", self.scale)

    def value(self, y: Vector, prediction: Vector) -> Vector:
        """Return scale**2 ln(1 + (r / scale)**2)."""
        # Not by log1p of a square, which may overflow, where that is exact enough.
        u = np.abs((y - prediction) / self.scale)
        small = np.log1p(np.square(np.minimum(u, 1.0)))
        return self.scale**2 * np.where(u < 1.0, small, 2.0 * np.log(np.hypot(1.0, u)))

    def gradient(self, y: Vector, prediction: Vector) -> Vector:
        """Return -2 r / (1 + (r / scale)**2)."""
        return (prediction - y) * self.curvature(y, prediction)

    def curvature(self, y: Vector, prediction: Vector) -> Vector:
        """Return 2 / (1 + (r / scale)**2), the curvature of a parabola that is nowhere below."""
        return 2.0 / np.square(np.hypot(1.0, (y - prediction) / self.scale))


def _smoothed_size(residual: Vector, smoothing: float) -> Vector:
    size = np.abs(residual)
    inner = np.minimum(size, smoothing)
    return size - inner + np.square(inner) / (2.0 * smoothing)


def _shrinking(loss: Pinball | Absolute, spread: float) -> Sequence[Loss]:
    coarse: list[Loss] = []
    smoothing = spread
    while smoothing > loss.smoothing:
        coarse.append(replace(loss, smoothing=smoothing))
        smoothing *= SHRINK
    return (*coarse, loss)
