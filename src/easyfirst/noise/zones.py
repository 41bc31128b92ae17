"""Corrupted rows as a step function of the residual, over the bins of a signed histogram.

Near the center the steps may rise outwards but not fall, so that whatever peaks in the middle is
clean; further out they are free.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from easyfirst.calibration import PSEUDO_ROWS
from easyfirst.contracts import Matrix, Vector
from easyfirst.noise.model import LEAST
from easyfirst.summaries import N_BINS, LossSummary, bin_edges

NEAR = (0.0, 1.2, 2.2, 3.2, 4.2, 5.2, 8.0)  # zones of the corrupted part, in normal scales
FAR = (8.0, 12.0, 18.0, 27.0, 40.0, 60.0, 100.0, 200.0, 1000.0)  # as they are paid for
# A level that reaches into the void beyond the last row would make the rows before it unlikely.
FINE = (*FAR[:6], *(60.0 * 1.25 ** np.arange(1, 65)).tolist())
RISING = 5  # zones from the center within which the corrupted part may not fall
FINEST = 1.0 / 16.0  # of a scale: bins below are taken together
COARSER = 2  # bins that are taken together elsewhere
VAST = 1e200  # rate: of a pool that is none


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts in signed bins, and where the bins lie in units of the scale they are laid out by."""

    counts: Vector
    middle: Vector
    width: Vector
    scale: float

    @classmethod
    def of(cls, losses: LossSummary, scale: float) -> Histogram:
        """Take bins together that say nothing more apart, and leave empty ends out."""
        edges = bin_edges(losses.anchor)
        merged = losses.merged
        filled = np.flatnonzero(merged.sum(axis=0))
        end = min(
            max(int(filled[-1]) + 1, int(np.searchsorted(edges, NEAR[-1] * scale))), N_BINS - 1
        )
        first = min(max(int(np.searchsorted(edges, FINEST * scale)), 1), end - 1)
        cuts = np.unique(np.append(np.arange(first, end, COARSER), end))
        sides = np.add.reduceat(merged[:, :end], np.append(0, cuts[:-1]), axis=1)
        sides[:, -1] += merged[:, end:].sum(axis=1)  # what lies beyond every bin
        ends = np.append(0.0, edges[cuts])
        middle, width = 0.5 * (ends[1:] + ends[:-1]), np.diff(ends)
        return cls(
            counts=np.concatenate([sides[0][::-1], sides[1]]),
            middle=np.concatenate([-middle[::-1], middle]),
            width=np.concatenate([width[::-1], width]),
            scale=scale,
        )

    @cached_property
    def total(self) -> float:
        """The number of rows."""
        return float(self.counts.sum())

    def _cuts(self, near: tuple[float, ...]) -> Vector:
        """Return where zones end, in scales, as far as there are rows."""
        reach = np.searchsorted(FINE, self.middle[-1] / self.scale)
        return np.append(near[1:], FINE[1 : max(int(reach), 1)])

    def zones(self, near: tuple[float, ...]) -> NDArray[np.intp]:
        """Return the zone of every bin: from far below zero to far above."""
        cuts = self._cuts(near)
        distance = np.searchsorted(cuts, np.abs(self.middle) / self.scale, side="right")
        n = len(cuts) + 1
        return np.where(self.middle < 0, n - 1 - distance, n + distance)

    def zone_edges(self, near: tuple[float, ...]) -> Vector:
        """Return where each zone begins."""
        cuts = self._cuts(near) * self.scale
        return np.concatenate([[-np.inf], -cuts[::-1], [0.0], cuts])


@dataclass(frozen=True, eq=False)
class Zones:
    """The zones of the corrupted part that some of the kinds share, from the center outwards.

    `member` has a row for every bin and a one for its zone, those below zero coming first; zones
    of both sides have the same widths.
    """

    near: tuple[float, ...]
    kinds: slice
    edges: Vector
    member: Matrix
    counts: Vector
    width: Vector
    pools: _Pools

    @classmethod
    def of(cls, data: Histogram, near: tuple[float, ...], kinds: slice) -> Zones:
        """Lay out the zones of some kinds."""
        edges = data.zone_edges(near)
        n = len(edges) // 2
        zone = data.zones(near)
        outwards = np.where(zone < n, n - 1 - zone, zone)
        member = np.eye(2 * n)[outwards]
        width = (data.width @ member)[:n]
        pools = _Pools.of(width[: min(RISING, len(near) - 1)])
        return cls(near, kinds, edges, member, data.counts @ member, width, pools)

    def even(self, rate: float) -> Matrix:
        """Return the same rate in all zones."""
        return np.full((self.kinds.stop - self.kinds.start, self.member.shape[1]), rate)

    def density(self, rates: Matrix) -> Matrix:
        """Return the rates in all bins."""
        return np.asarray(rates @ self.member.T)

    def rates(self, corrupted: Matrix, total: float, scale: Vector) -> Matrix:
        """Return the corrupted rows per unit in every zone, over all rows."""
        del scale
        rows = (corrupted @ self.member).reshape(len(corrupted), 2, -1)
        n_near, n_rising = len(self.near) - 1, len(self.pools.means)
        own = self.width[:n_near]
        rows[..., :n_near] += PSEUDO_ROWS / max(float(own.sum()), LEAST) * own
        rates = rows / np.maximum(self.width, LEAST)
        if n_rising > 1:
            rates[..., :n_rising] = self.pools.rising(rows[..., :n_rising])
        return np.asarray(rates.reshape(len(corrupted), -1) / total)

    def levels(self, rates: Vector) -> Vector:
        """Return the rates from far below zero to far above."""
        n = len(self.width)
        return np.concatenate([rates[:n][::-1], rates[n:]])

    def n_parameters(self, number: int) -> float:
        """Return what is paid for: the steps near the center, and zones further out with rows."""
        del number
        used = self.levels(self.counts) > 0
        return (2.0 if len(self.near) == 2 else 8.0) + 0.5 * _far_zones(used, self.near)

    def steps(self, rates: Vector) -> tuple[Vector, Vector]:
        """Return where each zone begins, and the rates there."""
        return self.edges, self.levels(rates)


@dataclass(frozen=True, eq=False)
class _Pools:
    """All ways to take neighbouring zones together.

    `means` takes the counts of n zones to the mean rates of n * n pools, by where they begin and
    end; `after` is vast for those that end before they begin.
    """

    means: Matrix
    after: Matrix

    @classmethod
    def of(cls, width: Vector) -> _Pools:
        """Prepare for zones of these widths."""
        n = np.arange(len(width))
        begin, end = n[:, None], n[None, :]
        inside = (begin <= n[:, None, None]) & (n[:, None, None] <= end)
        means = inside / np.maximum(np.einsum("zbe,z->be", inside, width), LEAST)
        after = begin > end
        return cls(means.reshape(len(n), -1), np.where(after, VAST, 0.0))

    def rising(self, rows: Vector) -> Vector:
        """Return the most likely rates that do not fall.

        That of a zone is the largest, over where a pool may begin, of the smallest mean rate over
        where it may end.
        """
        means = (rows @ self.means).reshape(*rows.shape, -1) + self.after
        least = np.minimum.accumulate(means[..., ::-1], axis=-1)[..., ::-1]
        return np.asarray((least - 2.0 * self.after).max(axis=-2))


def _far_zones(used: NDArray[np.bool_], near: tuple[float, ...]) -> int:
    """Return how many zones hold rows beyond those near, fine ones taken together."""
    middle, n_near = len(used) // 2, len(near) - 1
    together = np.searchsorted(FAR, FINE, side="right")
    sides = used[: middle - n_near][::-1], used[middle + n_near :]
    return sum(np.unique(together[: side.size][side]).size for side in sides)
