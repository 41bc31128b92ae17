"""Where true values lie around predictions, as the table itself shows it.

Their distances from the predictions, in noise scales, follow a mixture of half-normal and, far out,
uniform densities on either side: any that falls off from the center, by a long tail or a shoulder,
and differently on either side. It is learned from the rows that look clean and from those wrong
rows that no mistake explains.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Self

import numpy as np
from scipy.special import logsumexp, ndtr
from scipy.stats import t as student

from easyfirst.contracts import Matrix, Vector

SCALES = 0.35 * np.sqrt(2.0) ** np.arange(14)  # of the half-normal parts, to 32 noise scales
REACHES = 32.0 * np.sqrt(2.0) ** np.arange(5)  # of the uniform parts, to 128
DEGREES = 5.0  # of freedom of the noise before any row was seen
PRIOR_ROWS = 8.0
N_BINS, WIDEST = 400, 150.0
FARTHEST = 1e4
LEAST = -690.0  # logarithm of a density that is none


@dataclass(frozen=True, eq=False)
class TrueValues:
    """The density of true values: rows in each part, first of the side below."""

    rows: Vector

    @classmethod
    def expected(cls) -> Self:
        """Return what is assumed before any row was seen, as so many rows."""
        return cls(np.array(_expected()))

    def log_density(self, distance: Vector) -> Vector:
        """Return the log density at distances from the predictions, in noise scales."""
        grid, level = self._table
        found = np.interp(bent(distance), grid, level)
        return np.asarray(np.where(np.isnan(found), LEAST, found))

    @cached_property
    def _table(self) -> tuple[Vector, Vector]:
        grid = np.linspace(-bent(FARTHEST), bent(FARTHEST), 4001)
        far = unbent(grid)
        with np.errstate(divide="ignore"):
            share = np.log(self.rows / self.rows.sum())
        return grid, np.maximum(logsumexp(parts(far) + share, axis=1), LEAST)


def parts(distance: Vector) -> Matrix:
    """Return the log density of each part at distances, shape (distances, parts)."""
    size = np.abs(np.asarray(distance))[:, None]
    normal = 0.5 * np.log(2.0 / np.pi) - np.log(SCALES) - 0.5 * np.square(size / SCALES)
    uniform = np.where(size <= REACHES, -np.log(REACHES), -np.inf)
    half = np.concatenate([normal, uniform], axis=1)
    below = (np.asarray(distance) < 0)[:, None]
    sides = [np.where(below, half, -np.inf), np.where(below, -np.inf, half)]
    return np.concatenate(sides, axis=1)


def bent(distance: Vector | float) -> Vector:
    """Return distances on an axis that is straight near zero and logarithmic far out."""
    return np.asarray(np.arcsinh(2.0 * np.asarray(distance)))


def unbent(place: Vector) -> Vector:
    """Return distances from their places on that axis."""
    return np.asarray(0.5 * np.sinh(place))


@dataclass(frozen=True, eq=False)
class CleanRows:
    """Distances of rows that look clean, counted in bins."""

    count: Vector

    @classmethod
    def of(cls, distance: Vector) -> Self:
        """Count rows."""
        inside = distance[np.isfinite(distance)]
        edges = np.linspace(-bent(WIDEST), bent(WIDEST), N_BINS + 1)
        return cls(np.histogram(np.clip(bent(inside), edges[0], edges[-1]), edges)[0] * 1.0)

    @classmethod
    def usual(cls, n_rows: float) -> Self:
        """Return so many rows that are not known, with normal noise."""
        edges = unbent(np.linspace(-bent(WIDEST), bent(WIDEST), N_BINS + 1))
        return cls(n_rows * np.diff(ndtr(edges)))

    @cached_property
    def density(self) -> Matrix:
        """The density of each part in each bin."""
        edges = np.linspace(-bent(WIDEST), bent(WIDEST), N_BINS + 1)
        return np.exp(parts(unbent(0.5 * (edges[1:] + edges[:-1]))))

    def shared(self, rows: Vector) -> Vector:
        """Return how many of these rows each part has, if the parts have so many rows."""
        joint = self.density * rows
        return np.asarray(
            self.count @ (joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300))
        )

    def log_likelihood(self, share: Vector) -> float:
        """Return that of these rows, if the parts have such shares."""
        return float(self.count @ np.log(np.maximum(self.density @ share, 1e-300)))


@lru_cache(maxsize=1)
def _expected() -> tuple[float, ...]:
    """Return the rows of the prior by part: those of a t-distribution."""
    one = CleanRows(_bins_of_t())
    n_parts = 2 * (SCALES.size + REACHES.size)
    rows = np.full(n_parts, PRIOR_ROWS / n_parts)
    for _ in range(500):
        rows = one.shared(rows)
    return tuple(rows.tolist())


def _bins_of_t() -> Vector:
    edges = unbent(np.linspace(-bent(WIDEST), bent(WIDEST), N_BINS + 1))
    return np.asarray(PRIOR_ROWS * np.diff(student.cdf(edges, DEGREES)))
