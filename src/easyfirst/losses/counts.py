"""Deviances with a log link, for responses whose spread grows with their mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import xlogy

from easyfirst.contracts import Vector
from easyfirst.losses.base import Loss

LARGEST_EXPONENT = 700.0  # keeps exp within range; no sensible mean lies beyond


class _WithLogLink(Loss):
    """A loss whose prediction is the logarithm of the mean."""

    unit_free: ClassVar[bool] = True
    link: ClassVar[str] = "log"

    def mean(self, prediction: Vector) -> Vector:
        """Return exp(prediction)."""
        return _exp(prediction)


@dataclass(frozen=True)
class PoissonDeviance(_WithLogLink):
    """2 (y ln(y / mu) - y + mu) with mu = exp(prediction), for counts."""

    noise_family: ClassVar[str | None] = "poisson"

    def complaint(self, y: Vector) -> str | None:
        """Return which response is negative."""
        wrong = y[y < 0]
        return f"needs responses >= 0, got {wrong[0]:g}" if wrong.size else None

    def value(self, y: Vector, prediction: Vector) -> Vector:
        """Return the unit deviance."""
        value = 2.0 * (xlogy(y, y) - y * prediction - y + _exp(prediction))
        return np.asarray(np.maximum(value, 0.0))

    def gradient(self, y: Vector, prediction: Vector) -> Vector:
        """Return 2 (mu - y)."""
        return 2.0 * (_exp(prediction) - y)

    def curvature(self, y: Vector, prediction: Vector) -> Vector:
        """Return 2 mu."""
        return 2.0 * _exp(prediction)


@dataclass(frozen=True)
class GammaDeviance(_WithLogLink):
    """2 (y / mu - 1 - ln(y / mu)) with mu = exp(prediction), for positive amounts."""

    noise_family: ClassVar[str | None] = "gamma"

    def complaint(self, y: Vector) -> str | None:
        """Return which response is not positive."""
        wrong = y[y <= 0]
        return f"needs responses > 0, got {wrong[0]:g}" if wrong.size else None

    def value(self, y: Vector, prediction: Vector) -> Vector:
        """Return the unit deviance."""
        off = np.log(y) - prediction  # ln(y / mu)
        return 2.0 * np.maximum(_exp(off) - 1.0 - off, 0.0)

    def gradient(self, y: Vector, prediction: Vector) -> Vector:
        """Return 2 (1 - y / mu)."""
        return 2.0 * (1.0 - _exp(np.log(y) - prediction))

    def curvature(self, y: Vector, prediction: Vector) -> Vector:
        """Return 2 y / mu."""
        return 2.0 * _exp(np.log(y) - prediction)


def _exp(values: Vector) -> Vector:
    return np.exp(np.minimum(values, LARGEST_EXPONENT))
