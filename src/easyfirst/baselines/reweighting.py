"""What the reweighting baselines share: weighted fits, and how far a fit moved."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from easyfirst.baselines.base import RowsFit
from easyfirst.baselines.rows import Rows, weighted_fit
from easyfirst.contracts import Vector

NORMAL_MEDIAN = 0.6745  # median of |N(0, 1)|
WITHIN = 2.5  # rows within this many noise scales count as selected
NARROWEST = 1e-10  # least bandwidth, and least residual that tells rows apart, in first scales


def importance(rows: Rows) -> Vector:
    """Return the sample weights, ones if none were given."""
    return np.ones(rows.n_samples) if rows.sample_weight is None else rows.sample_weight


def weighted_median(values: Vector, weights: Vector) -> float:
    """Return the value below which half of the weight lies; a row of weight 2 counts twice."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    low = int(np.searchsorted(total, 0.5 * total[-1] * (1.0 - 1e-12)))
    high = int(np.searchsorted(total, 0.5 * total[-1] * (1.0 + 1e-12)))
    return float(0.5 * (values[order[low]] + values[order[min(high, len(order) - 1)]]))


def noise_scale(residuals: Vector, weights: Vector) -> float:
    """Return the standard deviation of the noise, from the median absolute residual."""
    return weighted_median(np.abs(residuals), weights) / NORMAL_MEDIAN


def reweight(
    rows: Rows,
    weights_of: Callable[[Vector, float], Vector],
    narrower: Callable[[float, Vector, float], float],
    first: float,
    last: float,
    max_iter: int,
    tol: float,
) -> RowsFit:
    """Iterate weighted least squares while a bandwidth shrinks.

    `weights_of(residuals, bandwidth)` weighs the rows, and `narrower(bandwidth, residuals,
    moved)` returns the next bandwidth, `moved` being the root mean square change of the
    predictions. `first` and `last`, the widest and the least bandwidth, are in units of the noise
    scale of the unweighted fit at the start. Ends when the bandwidth stays and the predictions
    move by at most `tol` of that scale.
    """
    counts = importance(rows)
    coef, rank = weighted_fit(rows, counts)
    residuals = rows.residuals(coef)
    scale = noise_scale(residuals, counts)
    everything = np.ones(rows.n_samples, dtype=bool)
    if scale <= np.finfo(np.float64).eps * float(np.max(np.abs(rows.y), initial=0.0)):
        return RowsFit(coef, everything, 1, True, rank)
    bandwidth, converged, n_iter = first * scale, False, 0
    while n_iter < max_iter and not converged:
        n_iter += 1
        weights = weights_of(residuals, bandwidth)
        coef, rank = weighted_fit(rows, counts * weights)
        before, residuals = residuals, rows.residuals(coef)
        moved = float(np.sqrt(counts @ np.square(residuals - before) / counts.sum()))
        following = max(narrower(bandwidth, residuals, moved), max(last, NARROWEST) * scale)
        converged = following >= (1.0 - tol) * bandwidth and moved <= tol * scale
        bandwidth = following
    reach = max(WITHIN * noise_scale(residuals, counts), NARROWEST * scale)
    return RowsFit(coef, np.abs(residuals) <= reach, n_iter, converged, rank)
