"""What a loss is: the contract that every one of them keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from easyfirst.contracts import Vector
from easyfirst.plugins import PlugIn


class Loss(PlugIn, ABC):
    """How badly a prediction misses, row by row.

    `prediction` is the linear predictor X coef + intercept; `mean` turns it into what y is
    expected to be, so the link belongs to the loss. Values are at least 0.

    What solvers may rely on is declared:

    - `quadratic`: the value is (y - prediction)**2, so that Gram matrices say everything;
    - `convex`: every weighted sum has one minimum; otherwise the fit depends on where it starts,
      and `curvature` must be an upper bound that is nowhere negative;
    - `unit_free`: values do not depend on the unit of y;
    - `link`: by what name `mean` is known, "identity" if it returns the prediction;
    - `noise_family`: the distribution of clean responses that the calibrated pace is to assume,
      "poisson" or "gamma"; None: there is none, except for the squared loss.
    """

    quadratic: ClassVar[bool] = False
    convex: ClassVar[bool] = True
    unit_free: ClassVar[bool] = False
    link: ClassVar[str] = "identity"
    noise_family: ClassVar[str | None] = None

    @abstractmethod
    def value(self, y: Vector, prediction: Vector) -> Vector:
        """Return the loss of each row."""

    @abstractmethod
    def gradient(self, y: Vector, prediction: Vector) -> Vector:
        """Return the derivative of each loss with respect to the prediction."""

    @abstractmethod
    def curvature(self, y: Vector, prediction: Vector) -> Vector:
        """Return the second derivative of each loss, or an upper bound of it; at least 0."""

    def mean(self, prediction: Vector) -> Vector:
        """Return what y is expected to be: the prediction, if there is no link."""
        return prediction

    def complaint(self, y: Vector) -> str | None:
        """Return why these responses cannot be fitted, or None if they can."""
        del y
        return None

    def stages(self, spread: float) -> Sequence[Loss]:
        """Return the losses to minimise one after the other, this one last.

        Easier ones come first where this one is hard to minimise from afar; `spread` is the
        standard deviation of y.
        """
        del spread
        return (self,)

    def at_residual(self, y: Vector, residual: Vector) -> Vector:
        """Return the loss of each row whose prediction is y - residual."""
        return self.value(y, y - residual)

    def signed_root(self, y: Vector, residual: Vector) -> Vector:
        """Return the root of each loss with the sign of the residual."""
        return np.copysign(np.sqrt(self.at_residual(y, residual)), residual)


def require_positive(name: str, value: float) -> None:
    """Refuse what is not a finite number above zero."""
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}")
