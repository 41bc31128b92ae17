"""Transformations of a positive target: the model is fitted to them, and users see their own y.

They are powers, with the logarithm in the place of the power zero. All of them grow with y, so
that quantiles, and with them intervals, keep their meaning on the way back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Vector

SMALLEST = 1e-300  # what stands for values without a logarithm where rows are only judged
MAX_NAMED = 5  # rows listed in a message before "and k more"


@dataclass(frozen=True)
class TargetTransform:
    """A power of y: 1, 1/2, or 0 for the logarithm.

    Examples
    --------
    >>> LOG.back(LOG.of(np.array([1.0, 20.0]))).round(12).tolist()
    [1.0, 20.0]
    >>> SQRT.of(np.array([9.0])).tolist()
    [3.0]
    """

    power: float

    @property
    def is_identity(self) -> bool:
        """Whether y stays as it is."""
        return self.power == 1.0

    @property
    def name(self) -> str | None:
        """What the parameter `target_transform` calls it."""
        return {0.0: "log", 0.5: "sqrt"}.get(self.power)

    def label(self, target: str = "y") -> str:
        """Return the transformed target in words."""
        return target if self.name is None else f"{self.name}({target})"

    def has(self, y: Vector) -> NDArray[np.bool_]:
        """Return which values can be transformed."""
        if self.is_identity:
            return np.ones(np.shape(y), dtype=bool)
        return np.asarray(y > 0.0 if self.power == 0.0 else y >= 0.0)

    def of(self, y: Vector) -> Vector:
        """Return the transformed values.

        Values that have none lie as far below all others as a number can: they are not fitted,
        but a model may be asked what it thinks of them.
        """
        if self.is_identity:
            return y
        # Contiguous, because a processor may round a strided array by other instructions.
        y = np.ascontiguousarray(y, dtype=np.float64)
        if self.power == 0.0:
            return np.log(np.maximum(y, SMALLEST))
        return np.copysign(np.sqrt(np.abs(y)), y)

    def back(self, transformed: Vector) -> Vector:
        """Return the values of y; nothing below zero comes from a square root."""
        if self.is_identity:
            return transformed
        transformed = np.ascontiguousarray(transformed, dtype=np.float64)
        if self.power == 0.0:
            with np.errstate(over="ignore"):
                return np.exp(transformed)
        return np.square(np.maximum(transformed, 0.0))

    def log_slope(self, y: Vector) -> Vector:
        """Return the logarithm of how fast the transformed values grow with y.

        A density of transformed values times this is one of y. Minus infinity where y has no
        transformed value.
        """
        if self.is_identity:
            return np.zeros(np.shape(y))
        constant = 0.0 if self.power == 0.0 else np.log(self.power)
        size = np.maximum(y, SMALLEST)
        return np.asarray(
            np.where(self.has(y), constant + (self.power - 1.0) * np.log(size), -np.inf)
        )

    def complaint(self, y: Vector, names: NDArray[np.generic] | None = None) -> str | None:
        """Return what is wrong with values that cannot be transformed, naming their rows."""
        wrong = np.flatnonzero(~self.has(y))
        if not wrong.size:
            return None
        ids = wrong if names is None else names[wrong]
        more = f" and {wrong.size - MAX_NAMED:,} more" if wrong.size > MAX_NAMED else ""
        listed = ", ".join(str(each) for each in ids[:MAX_NAMED].tolist())
        bound = "> 0" if self.power == 0.0 else ">= 0"
        return (
            f"target_transform={self.name!r} needs y {bound}, but {wrong.size:,} of {y.size:,} "
            f"rows have no such value (row {listed}{more}; the smallest is {float(np.min(y)):g}): "
            f"drop or correct these rows, or fit without a transformation"
        )


IDENTITY, SQRT, LOG = TargetTransform(1.0), TargetTransform(0.5), TargetTransform(0.0)
TRANSFORMS: dict[str | None, TargetTransform] = {None: IDENTITY, "log": LOG, "sqrt": SQRT}
