"""Rows that form a bump of their own beside the majority that a fit holds.

Tails thin out with the distance, however long they are. Where a tenth of the rows gathers further
out than fewer do nearer by, there is more than one kind of row, and the fit of the larger kind is
not to be judged by how far it is from the others.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from easyfirst.consensus.starts.found import SampleFit
from easyfirst.contracts import Vector

MAJORITY = 0.5
BUMPS = (3.0, 1.5)  # scales from where rows are counted, in shells that grow by this factor
BUMP = 0.1  # of the rows in one shell are no stray ones,
TWICE, FAR_MORE = 2.0, 6.0  # as many as in one nearer by: more than by chance, than in any tail


def stands_apart(found: SampleFit, weights: Vector) -> bool:
    """Return whether the fit holds most rows and others form a bump beside it."""
    return next(_bumps(found, weights, TWICE), None) is not None


def rows_far_apart(found: SampleFit) -> NDArray[np.bool_]:
    """Return which rows of the sample are a bump, or lie beyond one, behind an emptier stretch."""
    apart = np.zeros(found.sample.n_samples, dtype=bool)
    for rows in _bumps(found, found.sample.weights(found.fit), FAR_MORE):
        apart |= rows
    return apart


def _bumps(found: SampleFit, weights: Vector, times: float) -> Iterator[NDArray[np.bool_]]:
    """Yield the rows of each side from the emptiest shell on that has a bump behind it."""
    fit, sample = found.fit, found.sample
    if float(np.average(weights, weights=sample.counts)) < MAJORITY:
        return
    residual = sample.residual(sample.rows, fit.solution.z) / fit.mixture.scale
    yield from bumps(residual, sample.counts, times)


def bumps(residual: Vector, counts: Vector, times: float) -> Iterator[NDArray[np.bool_]]:
    """Yield likewise rows by their residuals, in scales of the fit."""
    for side in (residual, -residual):
        out = side >= BUMPS[0]
        shell = np.full(side.size, -1)
        shell[out] = np.floor(np.log(side[out] / BUMPS[0]) / np.log(BUMPS[1])).astype(np.intp)
        if not out.any():
            continue
        rows = np.bincount(shell[out], counts[out]) / counts.sum()
        is_bump = (rows >= BUMP) & (rows >= times * np.minimum.accumulate(rows))
        if np.any(is_bump):
            first = int(np.argmax(is_bump))
            yield shell > int(np.argmin(rows[:first]))
