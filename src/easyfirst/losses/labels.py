"""Losses of a score for responses that are one of two labels, 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from easyfirst.contracts import Vector
from easyfirst.losses.base import Loss


class _OfLabels(Loss):
    """A loss whose responses are 0 or 1; the prediction is a score, above 0 for label 1."""

    unit_free: ClassVar[bool] = True

    def complaint(self, y: Vector) -> str | None:
        """Return which response is neither 0 nor 1."""
        wrong = y[(y != 0) & (y != 1)]
        if wrong.size == 0:
            return None
        return f"needs responses that are 0 or 1, got {wrong[0]:g}: encode the two labels first"


@dataclass(frozen=True)
class Logistic(_OfLabels):
    """ln(1 + exp(-s * prediction)) with s = 1 for label 1 and -1 for label 0.

    The mean is the probability of label 1. Labels that a plane separates have no best fit without a
    penalty: coefficients then grow until the gradient is below the tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> Logistic().mean(np.array([0.0]))
    array([0.5])
    """

    link: ClassVar[str] = "logit"

    def value(self, y: Vector, prediction: Vector) -> Vector:
        """Return ln(1 + exp(-s * prediction))."""
        return np.logaddexp(0.0, (1.0 - 2.0 * y) * prediction)

    def gradient(self, y: Vector, prediction: Vector) -> Vector:
        """Return the probability of label 1, minus y."""
        sign = 1.0 - 2.0 * y
        return np.asarray(sign * expit(sign * prediction))

    def curvature(self, y: Vector, prediction: Vector) -> Vector:
        """Return the variance of y."""
        return np.asarray(expit(prediction) * expit(-prediction))

    def mean(self, prediction: Vector) -> Vector:
        """Return the probability of label 1."""
        return np.asarray(expit(prediction))


@dataclass(frozen=True)
class SquaredHinge(_OfLabels):
    """max(0, 1 - s * prediction)**2 with s = 1 for label 1 and -1 for label 0: a linear SVM.

    The mean is the score itself, positive for label 1.
    """

    def value(self, y: Vector, prediction: Vector) -> Vector:
        """Return max(0, 1 - s * prediction)**2."""
        return np.square(self._shortfall(y, prediction))

    def gradient(self, y: Vector, prediction: Vector) -> Vector:
        """Return -2 s max(0, 1 - s * prediction)."""
        return 2.0 * (1.0 - 2.0 * y) * self._shortfall(y, prediction)

    def curvature(self, y: Vector, prediction: Vector) -> Vector:
        """Return 2 within the margin, 0 beyond."""
        return np.where(self._shortfall(y, prediction) > 0, 2.0, 0.0)

    @staticmethod
    def _shortfall(y: Vector, prediction: Vector) -> Vector:
        return np.maximum(0.0, 1.0 + (1.0 - 2.0 * y) * prediction)
