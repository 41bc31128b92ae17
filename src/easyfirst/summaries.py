"""The fixed-size picture of all residuals that the driver sees: one histogram per batch.

Bins are log-spaced in |residual| relative to an `anchor` (the spread of y), separately for each
sign, so that the picture neither depends on the unit of y nor hides one-sided corruption. For a
loss other than the squared one, the signed root of the loss takes the residual's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from easyfirst.contracts import Vector

BINS_PER_OCTAVE = 16
LOWEST_OCTAVE = -36  # anything smaller than anchor * 2**-36 counts as an exact fit
HIGHEST_OCTAVE = 16  # anything larger than anchor * 2**16 counts as infinitely far
N_BINS = (HIGHEST_OCTAVE - LOWEST_OCTAVE) * BINS_PER_OCTAVE + 2


def histogram(residuals: Vector, sample_weight: Vector | None, anchor: float) -> Vector:
    """Count residuals in signed log-spaced bins; returns shape (2, N_BINS): below, above zero."""
    with np.errstate(divide="ignore"):
        octave = np.log2(np.abs(residuals) / anchor)
    position = np.clip((octave - LOWEST_OCTAVE) * BINS_PER_OCTAVE, -1.0, N_BINS - 2.0)
    index = np.floor(position).astype(np.intp) + 1 + N_BINS * (residuals > 0)
    counts = np.bincount(index, weights=sample_weight, minlength=2 * N_BINS)
    return counts.reshape(2, N_BINS).astype(np.float64)


def bin_edges(anchor: float) -> Vector:
    """Return the N_BINS + 1 edges in |residual|, from 0 to infinity."""
    octaves = LOWEST_OCTAVE + np.arange(N_BINS - 1) / BINS_PER_OCTAVE
    return np.concatenate(([0.0], anchor * np.exp2(octaves), [np.inf]))


@dataclass(frozen=True, eq=False)
class LossSummary:
    """The residuals of every batch at the current coefficients, as histograms.

    `counts` has shape (n_batches, 2, N_BINS): sums of sample weights below and above zero.
    """

    counts: Vector
    anchor: float

    @classmethod
    def merge(cls, histograms: Sequence[Vector], anchor: float) -> LossSummary:
        """Stack the replies of all batches, in batch order."""
        return cls(counts=np.stack(histograms), anchor=anchor)

    @cached_property
    def merged(self) -> Vector:
        """Counts over all batches, shape (2, N_BINS)."""
        return np.asarray(self.counts.sum(axis=0))

    @property
    def total(self) -> float:
        """The sum of all sample weights."""
        return float(self.merged.sum())

    def loss_quantile(self, share: float) -> float:
        """Return the loss below which `share` of the total weight lies.

        Exact to the width of a bin, inside which the logarithm is taken as uniform.
        """
        counts = self.merged.sum(axis=0)
        cumulative = np.cumsum(counts)
        target = share * cumulative[-1]
        index = int(np.searchsorted(cumulative, target))
        index = min(max(index, 0), int(np.flatnonzero(counts)[-1]))
        edges = bin_edges(self.anchor)
        if index == 0:
            return float(edges[1]) ** 2
        if index == N_BINS - 1:
            return float("inf")
        inside = (target - cumulative[index - 1]) / counts[index] if counts[index] else 1.0
        root = edges[index] * (edges[index + 1] / edges[index]) ** float(np.clip(inside, 0, 1))
        return float(root) ** 2
