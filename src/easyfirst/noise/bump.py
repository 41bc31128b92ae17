"""Corrupted rows that lie together: one normal beside the clean part instead of steps.

A number added to some rows, or another unit, leaves a second bump. As a step function it takes as
many parameters as it has steps, and the rows between the two are judged by whichever step they lie
on; a normal has three, and falls off towards the clean part as fast as the rows do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from easyfirst.calibration import PSEUDO_ROWS
from easyfirst.contracts import Matrix, Vector
from easyfirst.noise.model import NoiseModel

APART = 3.0  # of its own standard deviations, from the clean part's center: nearer is a tail


FINE, FAR = 0.125, 6.0  # of a bump's standard deviations: how wide steps are, how far they go


@dataclass(frozen=True)
class TwoNormals:
    """Clean rows around zero, and a bump of corrupted ones."""

    share: float  # of clean rows
    scale: float
    location: float
    spread: float

    def noise(self, total: float) -> NoiseModel:
        """Return the noise model of so many rows, the bump in fine steps."""
        z = np.arange(-FAR, FAR + FINE, FINE)
        levels = np.diff(ndtr(z)) * (1.0 - self.share) / (FINE * self.spread)
        least = 2.0 * PSEUDO_ROWS / total / (abs(self.location) + FAR * self.spread) / 2.0
        return NoiseModel(
            total=total,
            share=self.share,
            center=0.0,
            below=self.scale,
            above=self.scale,
            dof=np.inf,
            edges=(-np.inf, *(self.location + self.spread * z).tolist()),
            levels=(least, *(levels + least).tolist(), least),
        )


@dataclass(eq=False)
class Bump:
    """A normal of corrupted rows over bins of the residual, for some kinds of noise.

    Its rates are densities in the bins, over all rows; `locations` and `spreads` have a number for
    every kind.
    """

    kinds: slice
    ends: Vector  # of the bins, one more than there are
    locations: Vector
    spreads: Vector

    @classmethod
    def of(cls, kinds: slice, middle: Vector, width: Vector) -> Bump:
        """Prepare for bins in increasing order."""
        nowhere = np.zeros(kinds.stop - kinds.start)
        return cls(
            kinds, np.append(middle - 0.5 * width, middle[-1] + 0.5 * width[-1]), *2 * [nowhere]
        )

    def even(self, rate: float) -> Matrix:
        """Return the same rate in all bins."""
        return np.full((len(self.locations), len(self.ends) - 1), rate)

    def rates(self, corrupted: Matrix, total: float, scale: Vector) -> Matrix:
        """Return the density of the normal that suits these corrupted rows best.

        It is no narrower than the clean part: wrong rows have the noise of the others at least.
        """
        width = np.diff(self.ends)
        middle = self.ends[:-1] + 0.5 * width
        rows = np.maximum(corrupted.sum(axis=1), 1e-3)
        self.locations = corrupted @ middle / rows
        away = np.square(middle - self.locations[:, None]) + np.square(width) / 12.0
        variance = np.sum(corrupted * away, axis=1) / rows
        self.spreads = np.maximum(np.sqrt(variance), scale[self.kinds])
        z = (self.ends - self.locations[:, None]) / self.spreads[:, None]
        inside = np.diff(ndtr(z), axis=1) * (rows / total)[:, None] / width
        # A fraction of a row may lie anywhere.
        return np.asarray(inside + 2.0 * PSEUDO_ROWS / total / (self.ends[-1] - self.ends[0]))

    def density(self, rates: Matrix) -> Matrix:
        """Return the rates in all bins."""
        return rates

    def n_parameters(self, number: int) -> float:
        """Return what is paid for: share, location and spread; no price will do for a tail."""
        at = number - self.kinds.start
        is_apart = abs(self.locations[at]) >= APART * self.spreads[at]
        return 3.0 if is_apart else np.inf

    def steps(self, rates: Vector) -> tuple[Vector, Vector]:
        """Return where each bin begins, and the rates there."""
        return np.append(-np.inf, self.ends[1:-1]), rates
