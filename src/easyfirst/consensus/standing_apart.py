"""Whether rows form a bump of their own beside the majority that a fit holds."""

from __future__ import annotations

import numpy as np

from easyfirst.consensus.starts import SampleFit
from easyfirst.contracts import Vector

MAJORITY = 0.5
BUMPS = (3.0, 1.5)  # scales from where rows are counted, in shells that grow by this factor
BUMP = 0.1  # of the rows in one shell are no stray ones,
TWICE = 2.0  # as many as in one nearer by


def stands_apart(found: SampleFit, weights: Vector) -> bool:
    """Return whether the fit holds most rows and others form a bump of their own beside it.

    Tails thin out with the distance, however long they are. Where a tenth of the rows gathers
    further out than fewer do nearer by, there is more than one kind of row, and the fit of the
    larger kind is not to be judged by how far it is from the others.
    """
    fit, sample = found.fit, found.sample
    scale = fit.mixture.scale
    if float(np.average(weights, weights=sample.counts)) < MAJORITY:
        return False
    residual = sample.residual(sample.rows, fit.solution.z) / scale
    for side in (residual, -residual):
        out = side >= BUMPS[0]
        shell = np.floor(np.log(side[out] / BUMPS[0]) / np.log(BUMPS[1])).astype(np.intp)
        rows = np.bincount(shell, sample.counts[out]) / sample.counts.sum()
        if rows.size and np.any((rows >= BUMP) & (rows >= TWICE * np.minimum.accumulate(rows))):
            return True
    return False
