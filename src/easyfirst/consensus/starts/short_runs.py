"""Where several starts lead, by a few cheap steps for all of them at once.

Of a dozen starts on few rows nearly all end in the same fit, and a whole fit for each costs far
more than the answer. So every start takes some steps of weighted least squares side by side, with
weights by a normal beside a flat part; those that end together are fitted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from easyfirst.calibration import ROUNDING
from easyfirst.contracts import Matrix, Vector

STEPS = 25
READINGS = 3  # of the noise, per step
WINDOW = 8.0  # scales within which the rest of the rows is taken as flat
SETTLED = 1e-3  # squared step per coefficient, in squared standard errors
TOGETHER = 0.02  # the same, for two ends that are one
SAME_SCALE = 0.02  # difference in log scale of two ends that are one
SAME_VALUE = 1e-6  # range of a column over its size that is none
TRACE = 1e-10  # of ridge, which keeps the system of a bad start regular


@dataclass(frozen=True, eq=False)
class Ends:
    """The coefficients, scales and weighted Gram matrices at which the starts ended."""

    coefs: Matrix
    scales: Vector
    grams: NDArray[np.float64]

    def is_with(self, number: int, other: int) -> bool:
        """Return whether two starts ended together."""
        apart = self.coefs[number] - self.coefs[other]
        size = float(apart @ self.grams[other] @ apart) / apart.size
        near = size <= TOGETHER * float(self.scales[other]) ** 2
        ratio = abs(float(np.log(self.scales[number] / self.scales[other])))
        return near and ratio <= SAME_SCALE


def ends_of(design: Matrix, y: Vector, coefs: Sequence[Vector], scales: Sequence[float]) -> Ends:
    """Follow every start for some steps; columns of the design may have any units."""
    norms = np.sqrt(np.mean(np.square(design), axis=0))
    # Of several constant columns one is the intercept; the others would only share its part.
    constant = np.flatnonzero(np.ptp(design, axis=0) <= SAME_VALUE * norms)[:-1]
    norms[norms == 0] = 1.0
    design = design / norms
    design[:, constant] = 0.0
    unit = float(np.abs(y).max(initial=0.0)) or 1.0
    y = y / unit
    at = np.array(coefs) * norms / unit
    q = design.shape[1]
    state = _Noise.around(y - at @ design.T, np.maximum(np.array(scales) / unit, ROUNDING), q)
    for _ in range(STEPS):
        weights = state.weights
        grams = np.matmul(design.T * weights[:, None, :], design)
        size = np.maximum(np.trace(grams, axis1=1, axis2=2), 1.0)
        grams += (TRACE / q) * size[:, None, None] * np.eye(q)
        last, at = at, np.linalg.solve(grams, ((weights * y) @ design)[..., None])[..., 0]
        state = _Noise.around(y - at @ design.T, state.scales, q, state.clean)
        step = at - last
        size = np.einsum("ki,kij,kj->k", step, grams, step) / q
        if np.all(size <= SETTLED * np.square(state.scales)):
            break
    return Ends(unit * at / norms, unit * state.scales, grams * np.outer(norms, norms))


@dataclass(frozen=True, eq=False)
class _Noise:
    """For every start: the scale, how many rows of each sign are clean, and each row's weight."""

    scales: Vector
    clean: Matrix
    weights: Matrix

    @classmethod
    def around(
        cls,
        residual: Matrix,
        scales: Vector,
        q: int,
        clean: Matrix | None = None,
    ) -> _Noise:
        """Read the noise off residuals, by some steps of maximum likelihood.

        The flat part has a level of its own on either side: errors often go one way.
        """
        n = residual.shape[1]
        size = np.abs(residual)
        above = residual > 0
        clean = np.full((2, len(size)), 0.25 * n) if clean is None else clean
        least = np.maximum(np.quantile(size, min((q + 1.0) / n, 1.0), axis=1), ROUNDING)
        for _ in range(READINGS):
            inside = size < WINDOW * scales[:, None]
            rows = np.array([np.sum(inside & ~above, axis=1), np.sum(inside & above, axis=1)])
            levels = (np.maximum(rows - clean, 0.0) + 0.35) / (WINDOW * scales)
            level = np.where(above, levels[1][:, None], levels[0][:, None])
            square = np.square(size / scales[:, None])
            height = clean.sum(axis=0) / (scales * np.sqrt(2.0 * np.pi))
            density = height[:, None] * np.exp(-0.5 * square)
            weights = np.where(inside, density / (density + level), 0.0)
            clean = np.array([np.sum(weights * ~above, axis=1), np.sum(weights * above, axis=1)])
            total = np.maximum(clean.sum(axis=0), 1e-3)
            variance = np.sum(weights * np.square(size), axis=1) / total
            variance /= np.maximum(1.0 - q / total, 0.25)
            scales = np.maximum(np.sqrt(variance), least)
        return cls(scales, clean, weights)
