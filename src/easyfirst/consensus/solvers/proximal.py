"""A quadratic plus a penalty that has kinks: accelerated proximal gradient on the Gram matrix."""

from __future__ import annotations

import numpy as np
import scipy.linalg as la

from easyfirst.consensus.statistics import Objective
from easyfirst.contracts import Matrix, Vector

MOST_STEPS = 20_000
ENOUGH = 1e-14  # of a step, relative to the coefficients, both in units of the columns


def minimise(gram: Matrix, rhs: Vector, objective: Objective, start: Vector) -> Vector:
    """Return argmin over z of z'gram z - 2 rhs'z + penalty(z), from `start`.

    FISTA with restarts (O'Donoghue and Candes): momentum is dropped whenever it leads uphill.
    Steps are per column, so nothing depends on their units.
    """
    norms = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    norms[norms == 0] = 1.0
    scaled = gram / norms[:, None] / norms
    largest = float(la.eigvalsh(scaled, subset_by_index=[len(rhs) - 1] * 2, check_finite=False)[0])
    step = 0.5 / (max(largest, 1e-300) * np.square(norms))
    z, ahead, momentum = start, start, 1.0
    for _ in range(MOST_STEPS):
        last = z
        z = objective.prox(ahead - step * (2.0 * (gram @ ahead - rhs)), step)
        moved = z - last
        if np.max(np.abs(moved) * norms) <= ENOUGH * np.max(np.abs(z) * norms, initial=1e-300):
            # A step from a point ahead may be small by chance; one from z itself may not.
            if momentum == 1.0:
                break
            ahead, momentum = z, 1.0
            continue
        if np.sum((ahead - z) * moved * np.square(norms)) > 0:
            ahead, momentum = z, 1.0
            continue
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        ahead = z + ((momentum - 1.0) / following) * moved
        momentum = following
    return z
