"""Rules that leave rows out altogether: the weight is 0 from some loss on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from easyfirst.contracts import Vector
from easyfirst.regularizers.base import SelfPacedRegularizer, require_positive


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
        require_positive("degree", self.degree, more_than=1.0)

    def weights(self, losses: Vector, pace: float | Vector) -> Vector:
        """Return (1 - loss / pace)**(1 / (degree - 1)), 0 from the pace on."""
        rest = np.maximum(0.0, 1.0 - losses / pace)
        return np.asarray(rest ** (1.0 / (self.degree - 1.0)))

    def value(self, weights: Vector, pace: float | Vector) -> Vector:
        """Return pace * (v**degree / degree - v)."""
        return np.asarray(pace * (weights**self.degree / self.degree - weights))


@dataclass(frozen=True)
class Logarithmic(SelfPacedRegularizer):
    """v = ln(strength * loss / pace + z) / ln z below the pace, with z = 1 - strength (Jiang).

    f = (pace / strength) (z v - z**v / ln z). A `strength` near 0 is `Linear`; near 1, weights
    fall at once from small losses on.
    """

    strength: float = 0.9

    def __post_init__(self) -> None:
        """Reject strengths outside (0, 1)."""
        if not 0 < self.strength < 1:
            raise ValueError(f"strength must lie between 0 and 1, got {self.strength!r}")

    def weights(self, losses: Vector, pace: float | Vector) -> Vector:
        """Fall from 1 at no loss to 0 at the pace, steeply at first."""
        z = 1.0 - self.strength
        scaled = np.minimum(self.strength * (losses / pace), self.strength)
        return np.asarray(np.clip(np.log(scaled + z) / np.log(z), 0.0, 1.0))

    def value(self, weights: Vector, pace: float | Vector) -> Vector:
        """Return (pace / strength) (z v - z**v / ln z)."""
        z = 1.0 - self.strength
        return np.asarray(pace / self.strength * (z * weights - z**weights / np.log(z)))


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
        require_positive("inner", self.inner)
        require_positive("outer", self.outer, more_than=self.inner)

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
class SoftMixture(SelfPacedRegularizer):
    """Hard for small losses, zero from the pace on, falling with the root of the loss between.

    With u = sqrt(pace) and g = softness * u: f = g**2 / (v + g / u), and
    v = g (1 / sqrt(loss) - 1 / u) from sqrt(loss) = u g / (u + g) on (Zhao).
    """

    softness: float = 1.0

    def __post_init__(self) -> None:
        """Reject a softness that is not positive."""
        require_positive("softness", self.softness)

    def weights(self, losses: Vector, pace: float | Vector) -> Vector:
        """Return 1, then softness * (sqrt(pace / loss) - 1), then 0."""
        share = np.maximum(losses / pace, np.square(self.softness / (1.0 + self.softness)))
        return np.clip(self.softness * (1.0 / np.sqrt(share) - 1.0), 0.0, 1.0)

    def value(self, weights: Vector, pace: float | Vector) -> Vector:
        """Return g**2 / (v + softness)."""
        return np.asarray(self.softness**2 * pace / (weights + self.softness))


@dataclass(frozen=True)
class TruncatedSquares(SelfPacedRegularizer):
    """Graduated truncation: 1 up to k / (k + 1) of the pace, 0 from (k + 1) / k of it on.

    Between, v = sqrt(k (k + 1) pace / loss) - k; f = k pace (1 - v) / (k + v). A large
    `sharpness` k is `Hard`.
    """

    sharpness: float = 1.0

    def __post_init__(self) -> None:
        """Reject a sharpness that is not positive."""
        require_positive("sharpness", self.sharpness)

    def weights(self, losses: Vector, pace: float | Vector) -> Vector:
        """Return 1, then sqrt(k (k + 1) pace / loss) - k, then 0."""
        k = self.sharpness
        share = np.maximum(losses / pace, k / (k + 1.0))
        return np.asarray(np.clip(np.sqrt(k * (k + 1.0)) / np.sqrt(share) - k, 0.0, 1.0))

    def value(self, weights: Vector, pace: float | Vector) -> Vector:
        """Return k pace (1 - v) / (k + v)."""
        k = self.sharpness
        return np.asarray(k * pace * (1.0 - weights) / (k + weights))


@dataclass(frozen=True)
class Diverse(SelfPacedRegularizer):
    """Hard weights that draw from every batch: SPLD (Jiang), with the batches as groups.

    f = -pace sum(v) - diversity * pace * ||v||_2 over the rows of a batch, so the row with the i-th
    smallest loss of its batch takes part where its loss is below
    pace * (1 + diversity / (sqrt(i) + sqrt(i - 1))). Of a batch of hard rows, the easiest are taken
    all the same: harmful where whole batches are bad, so keep `diversity` small there, or give
    `fit(batches=...)` groups that are not bad as a whole.
    """

    separable: ClassVar[bool] = False

    diversity: float = 1.0

    def __post_init__(self) -> None:
        """Reject a diversity that is not positive."""
        require_positive("diversity", self.diversity)

    def weights(self, losses: Vector, pace: float | Vector) -> Vector:
        """Return 1 for the rows that take part; `losses` are those of a whole batch."""
        rank = np.empty(losses.size)
        rank[np.argsort(losses, kind="stable")] = np.arange(1.0, losses.size + 1.0)
        bonus = self.diversity / (np.sqrt(rank) + np.sqrt(rank - 1.0))
        return (losses < pace * (1.0 + bonus)).astype(np.float64)

    def value(self, weights: Vector, pace: float | Vector) -> Vector:
        """Return each row's part of -pace sum(v) - diversity * pace * ||v||_2."""
        norm = max(float(np.linalg.norm(weights)), 1e-300)
        return np.asarray(-pace * (weights + self.diversity * np.square(weights) / norm))
