"""How much of being behind the best of several methods is chance: it is the least of means."""

from __future__ import annotations

import numpy as np
from _small_cells import Array

HALVINGS = 200


def within(ratios: Array, near: float) -> int:
    """Return in how many cells a method is near, where there is something to compare with."""
    return int(np.sum(ratios[np.isfinite(ratios)] <= near))


def over_the_best(means: Array) -> Array:
    """Return each method's mean over that of the best one; cells by methods."""
    return means / np.nanmin(means, axis=1, keepdims=True)


def halves(errors: list[Array], near: float, seed: int = 0) -> tuple[float, float, float]:
    """Return in which share of the cells which method is near to the best other one of one half.

    `errors` has an array of samples by methods for each cell, our own first. Three cases: ours
    beside the best other of the same half; ours beside the other that is best on the other half;
    and this one itself beside the best other of the half.
    """
    rng = np.random.default_rng(seed)
    counts = np.zeros(3)
    for _ in range(HALVINGS):
        for cell in errors:
            order = rng.permutation(len(cell))
            first, second = (_means(cell[part]) for part in np.array_split(order, [len(cell) // 2]))
            best = 1 + int(np.nanargmin(first[1:]))
            least = np.nanmin(second[1:])
            ours, chosen = second[0], second[best]
            counts += [ours <= near * least, ours <= near * chosen, chosen <= near * least]
    return tuple((counts / (HALVINGS * len(errors))).tolist())


def _means(errors: Array) -> Array:
    """Return the mean of each method; infinite for one without any answer."""
    known = np.isfinite(errors)
    total = np.where(known, errors, 0.0).sum(axis=0)
    return np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.inf)
