"""The loop that RLHH and HRR share: fit, rank the residuals, decide how many rows to keep."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from easyfirst.baselines.base import RowsFit
from easyfirst.baselines.rows import Rows, SubsetLeastSquares
from easyfirst.contracts import Vector

# From the sorted absolute residuals and the size before, the number of rows to keep.
SizeRule = Callable[[Vector, int], int]


def keep_smallest(rows: Rows, size_rule: SizeRule, max_iter: int, tol: float) -> RowsFit:
    """Alternate least squares on the kept rows and keeping the rows of smallest residual.

    Ends when the kept rows repeat, or when their absolute residuals moved by at most `tol` in
    the authors' measure: the Euclidean norm of the change divided by the number of rows.
    """
    solver = SubsetLeastSquares(rows)
    kept = np.ones(rows.n_samples, dtype=bool)
    size, before = rows.n_samples, np.zeros(rows.n_samples)
    n_iter, converged = 0, False
    while n_iter < max_iter and not converged:
        n_iter += 1
        coef = solver.fit(kept)
        residuals = np.abs(rows.residuals(coef))
        order = np.argsort(residuals, kind="stable")
        size = size_rule(residuals[order], size)
        chosen = order[:size]
        moved = float(np.linalg.norm(residuals[chosen] - before[chosen]))
        before = residuals
        now = np.zeros(rows.n_samples, dtype=bool)
        now[chosen] = True
        converged = moved <= max(tol * size, rows.rounding) or np.array_equal(now, kept)
        kept = now
    return RowsFit(solver.refined(coef), kept, n_iter, converged, solver.rank)


def typical_residuals(ordered: Vector, counts: NDArray[np.intp]) -> tuple[Vector, NDArray[np.intp]]:
    """Return the root mean square of the `counts` smallest residuals, and its place among all.

    The place of q is the 1-based position of the residual nearest to it, the first one where
    several are equally near. One prefix sum and one binary search serve all counts together.
    """
    prefix = np.cumsum(np.square(ordered))
    q = np.sqrt(prefix[counts - 1] / counts)
    above = np.clip(np.searchsorted(ordered, q), 1, len(ordered) - 1) if len(ordered) > 1 else 0
    below = np.maximum(np.asarray(above) - 1, 0)
    nearer_below = np.abs(ordered[below] - q) <= np.abs(ordered[above] - q)
    nearest = ordered[np.where(nearer_below, below, above)]
    return q, np.searchsorted(ordered, nearest, side="left") + 1
