"""The fixed-size picture of all residuals that the driver sees: one histogram per batch.

Bins are log-spaced in |residual| relative to an `anchor` (the spread of y), separately for each
sign, so that the picture neither depends on the unit of y nor hides one-sided corruption. For a
loss other than the squared one, the signed root of the loss takes the residual's place.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Vector

BINS_PER_OCTAVE = 16
LOWEST_OCTAVE = -36  # anything smaller than anchor * 2**-36 counts as an exact fit
HIGHEST_OCTAVE = 16  # anything larger than anchor * 2**16 counts as infinitely far
BELOW_EVERY_BIN = 2.0 ** (LOWEST_OCTAVE - 1.0 / 32.0)
PARTS_OF_A_CELL = 16
N_BINS = (HIGHEST_OCTAVE - LOWEST_OCTAVE) * BINS_PER_OCTAVE + 2


def histogram(
    residuals: Vector, sample_weight: Vector | None, anchor: float, cell: float = 0.0
) -> Vector:
    """Count residuals in signed log-spaced bins; returns shape (2, N_BINS): below, above zero."""
    return np.asarray(histograms(residuals, sample_weight, anchor, None, 1, cell)[0])


def histograms(
    residuals: Vector,
    sample_weight: Vector | None,
    anchor: float,
    group: NDArray[np.intp] | None,
    n_groups: int,
    cell: float = 0.0,
) -> Vector:
    """Return the histogram of every group of residuals; `group` has each one's number.

    A residual of a rounded y stands for all that lie in a `cell` of this width around it.
    """
    if cell:
        shifts = cell * ((np.arange(PARTS_OF_A_CELL) + 0.5) / PARTS_OF_A_CELL - 0.5)
        parts = (histograms(residuals + s, sample_weight, anchor, group, n_groups) for s in shifts)
        return np.asarray(sum(parts) / PARTS_OF_A_CELL)
    index = _bins(residuals, anchor)
    if group is not None:
        index += 2 * N_BINS * group
    counts = np.bincount(index, weights=sample_weight, minlength=2 * N_BINS * n_groups)
    return counts.reshape(n_groups, 2, N_BINS).astype(np.float64)


def _bins(residuals: Vector, anchor: float) -> NDArray[np.intp]:
    """Return the number of each residual's bin, those above zero after those below."""
    position = np.abs(residuals)
    position /= anchor
    np.maximum(position, BELOW_EVERY_BIN, out=position)
    np.log2(position, out=position)
    position *= BINS_PER_OCTAVE
    position += 1.0 - LOWEST_OCTAVE * BINS_PER_OCTAVE
    np.minimum(position, N_BINS - 1.0, out=position)
    index = position.astype(np.intp)  # none is negative, so cutting off is rounding down
    index += N_BINS * (residuals > 0)
    return index


@lru_cache(maxsize=8)
def bin_edges(anchor: float) -> Vector:
    """Return the N_BINS + 1 edges in |residual|, from 0 to infinity."""
    octaves = LOWEST_OCTAVE + np.arange(N_BINS - 1) / BINS_PER_OCTAVE
    edges = np.concatenate(([0.0], anchor * np.exp2(octaves), [np.inf]))
    edges.flags.writeable = False  # shared by all who ask
    return edges


class Rule(Protocol):
    """What turns losses into weights, as far as a summary needs to know it."""

    def weights(self, losses: Vector, pace: float) -> Vector:
        """Return the weight of each loss."""
        ...

    def value(self, weights: Vector, pace: float) -> Vector:
        """Return the self-paced term of each weight."""
        ...


@dataclass(frozen=True, eq=False)
class LossSummary:
    """The residuals of every batch at the current coefficients, as histograms.

    `counts` has shape (n_batches, n_bands, 2, N_BINS): sums of sample weights below and above
    zero, for each band of the rows (one band unless far rows are kept apart).
    `n_coef` coefficients were fitted to these rows; `studentized` says that each residual was
    already freed of its row's own pull on them. `trusted`, of shape (2, N_BINS), counts those of
    the rows that are known to be right.
    """

    counts: Vector
    anchor: float
    n_coef: int = 0
    studentized: bool = False
    trusted: Vector | None = None

    @cached_property
    def merged(self) -> Vector:
        """Counts over all batches and bands, shape (2, N_BINS)."""
        return np.asarray(self.counts.sum(axis=(0, 1)))

    @property
    def total(self) -> float:
        """The sum of all sample weights."""
        return float(self.merged.sum())

    def self_paced_value(self, rule: Rule, pace: float) -> float:
        """Return the sum of f(v; pace) over all rows, each bin at its middle."""
        edges = bin_edges(self.anchor)
        middles = np.append(edges[:-2] * edges[1:-1], edges[-2] ** 2)
        values = rule.value(rule.weights(middles, pace), pace)
        return float(self.merged.sum(axis=0) @ values)

    def entropy(self) -> float:
        """Return minus the mean log density of the residuals, read off the histogram."""
        width = np.diff(bin_edges(self.anchor)[:-1])
        counts = self.merged[:, :-1]
        filled = counts > 0
        density = counts / (counts.sum() * width)
        return float(-np.sum(counts[filled] * np.log(density[filled])) / counts.sum())

    def mean_loss_below(self, pace: float) -> float:
        """Return the mean loss of the rows below the pace, each bin at its middle."""
        edges = bin_edges(self.anchor)
        last = max(2, int(np.searchsorted(edges, np.sqrt(pace)))) if pace < np.inf else N_BINS
        counts = self.merged.sum(axis=0)[: min(last, N_BINS - 1)]
        middles = edges[: len(counts)] * edges[1 : len(counts) + 1]
        return float(counts @ middles / max(counts.sum(), 1e-300))

    def weight_below(self, pace: float) -> float:
        """Return the sum of sample weights of the rows below the pace, to a bin's width."""
        last = int(np.searchsorted(bin_edges(self.anchor), np.sqrt(max(pace, 0.0))))
        return float(self.merged[:, :last].sum())

    def loss_quantile(self, share: float) -> float:
        """Return the loss below which `share` of the total weight lies.

        Exact to the width of a bin, inside which the logarithm is taken as uniform.
        """
        counts = self.merged.sum(axis=0)
        if not np.any(counts):
            return float("nan")
        share = min(max(share, 0.0), 1.0)
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
