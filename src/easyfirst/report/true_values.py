"""Where true values lie around predictions, as the rows that look clean show it.

Their distances from the predictions, in noise scales, follow a mixture of half-normal densities on
either side: any that falls off from the center, by a long tail or a shoulder, and differently on
either side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
from scipy.special import ndtr
from scipy.stats import t as student

from easyfirst.contracts import Matrix, Vector

SCALES = 0.35 * np.sqrt(2.0) ** np.arange(14)  # of the parts, to 32 noise scales
DEGREES = 5.0  # of freedom of the noise before any row was seen, so that no tail is impossible
PRIOR_ROWS = 8.0
ROUNDS = 60
N_BINS, WIDEST = 400, 150.0
N_KNOTS, FARTHEST = 2001, 300.0
LEAST = -690.0  # logarithm of a density that is none


@dataclass(frozen=True, eq=False)
class TrueValues:
    """The log density of true values, at evenly spaced places of a bent axis."""

    level: Vector

    @classmethod
    def around(cls, clean: Vector | None = None) -> Self:
        """Learn from the distances of clean rows from their predictions, in noise scales."""
        if clean is None:
            return cls(np.array(_usual()))
        inside = clean[np.isfinite(clean)]
        edges = np.linspace(-_bent(WIDEST), _bent(WIDEST), N_BINS + 1)
        counts = np.histogram(np.clip(_bent(inside), edges[0], edges[-1]), edges)[0]
        return cls(_level(counts + np.array(_prior_bins())))

    def quantiles(self, n: int) -> Vector:
        """Return distances in noise scales that stand for `n` equally probable parts."""
        grid = _unbent(np.linspace(-_bent(FARTHEST), _bent(FARTHEST), N_KNOTS))
        density = np.exp(self.level)
        mass = np.append(0.0, np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(grid)))
        return np.interp((np.arange(n) + 0.5) / n, mass / mass[-1], grid)

    def log_density(self, distance: Vector) -> Vector:
        """Return the log density at distances from the predictions, in noise scales."""
        place = (_bent(distance) / _bent(FARTHEST) + 1.0) * (0.5 * (N_KNOTS - 1))
        with np.errstate(invalid="ignore"):
            inside = (place >= 0.0) & (place <= N_KNOTS - 1)
        left = np.clip(np.where(inside, place, 0.0).astype(np.intp), 0, N_KNOTS - 2)
        level = self.level[left] + (place - left) * (self.level[left + 1] - self.level[left])
        return np.asarray(np.where(inside, level, LEAST))


def _level(counts: Vector) -> Vector:
    """Fit the mixture to rows counted in bins."""
    edges = np.linspace(-_bent(WIDEST), _bent(WIDEST), N_BINS + 1)
    density = _parts(_unbent(0.5 * (edges[1:] + edges[:-1])))
    share = np.full(density.shape[1], 1.0 / density.shape[1])
    for _ in range(ROUNDS):
        whole = np.maximum(density @ share, 1e-300)
        share = share * (density.T @ (counts / whole)) / counts.sum()
    grid = _unbent(np.linspace(-_bent(FARTHEST), _bent(FARTHEST), N_KNOTS))
    return np.asarray(np.log(np.maximum(_parts(grid) @ share, np.exp(LEAST))))


def _parts(distance: Vector) -> Matrix:
    """Return the density of each part at distances, shape (distances, parts)."""
    size = np.abs(distance)[:, None] / SCALES
    half = np.sqrt(2.0 / np.pi) / SCALES * np.exp(-0.5 * np.square(size))
    below = (distance < 0)[:, None]
    return np.concatenate([np.where(below, half, 0.0), np.where(below, 0.0, half)], axis=1)


def _bent(distance: Vector | float) -> Vector:
    """Return distances on an axis that is straight near zero and logarithmic far out."""
    return np.asarray(np.arcsinh(2.0 * np.asarray(distance)))


def _unbent(place: Vector) -> Vector:
    return np.asarray(0.5 * np.sinh(place))


@lru_cache(maxsize=1)
def _prior_bins() -> tuple[float, ...]:
    edges = _unbent(np.linspace(-_bent(WIDEST), _bent(WIDEST), N_BINS + 1))
    return tuple((PRIOR_ROWS * np.diff(student.cdf(edges, DEGREES))).tolist())


@lru_cache(maxsize=1)
def _usual() -> tuple[float, ...]:
    """Return what is assumed where no clean rows are known: nearly normal noise."""
    edges = _unbent(np.linspace(-_bent(WIDEST), _bent(WIDEST), N_BINS + 1))
    normal = 10.0 * PRIOR_ROWS * np.diff(ndtr(edges))
    return tuple(_level(normal + np.array(_prior_bins())).tolist())
