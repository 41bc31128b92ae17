"""Losses: elementwise functions of (y, prediction), each with two derivatives.

A loss returns one number per row. Sums and means are taken elsewhere, because self-paced
learning needs to see every row's own loss.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from easyfirst.contracts import Vector


class Loss(ABC):
    """How badly a prediction misses, row by row.

    `quadratic` is a capability: it says that weighted sums of this loss are determined by the
    weighted Gram matrix, which permits closed-form steps.
    """

    quadratic: ClassVar[bool] = False

    @abstractmethod
    def value(self, y: Vector, prediction: Vector) -> Vector:
        """Return the loss of each row."""

    def at_residual(self, y: Vector, residual: Vector) -> Vector:
        """Return the loss of each row whose prediction is y - residual."""
        return self.value(y, y - residual)

    def signed_root(self, y: Vector, residual: Vector) -> Vector:
        """Return the root of each loss with the sign of the residual."""
        return np.copysign(np.sqrt(self.at_residual(y, residual)), residual)

    @abstractmethod
    def gradient(self, y: Vector, prediction: Vector) -> Vector:
        """Return the derivative of each loss with respect to the prediction."""

    @abstractmethod
    def curvature(self, y: Vector, prediction: Vector) -> Vector:
        """Return the second derivative of each loss, or an upper bound of it."""


@dataclass(frozen=True)
class Squared(Loss):
    """Squared error: value = (y - prediction)**2, with no factor 1/2, as in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> Squared().value(np.array([3.0, 1.0]), np.array([1.0, 1.0]))
    array([4., 0.])
    """

    quadratic: ClassVar[bool] = True

    def value(self, y: Vector, prediction: Vector) -> Vector:
        """Return (y - prediction)**2."""
        return np.square(y - prediction)

    def at_residual(self, y: Vector, residual: Vector) -> Vector:
        """Return residual**2."""
        return np.square(residual)

    def signed_root(self, y: Vector, residual: Vector) -> Vector:
        """Return the residual."""
        return residual

    def gradient(self, y: Vector, prediction: Vector) -> Vector:
        """Return 2 (prediction - y)."""
        return 2.0 * (prediction - y)

    def curvature(self, y: Vector, prediction: Vector) -> Vector:
        """Return 2 for every row."""
        return np.full(np.shape(y), 2.0)
