"""Targets of few different values: grades, small counts, ratings, months.

Rows that share a value are fitted exactly by that value alone, and rows on a coarse grid by many a
plane. Such a fit has no noise at all, so no other can be likelier, and every row off the plane
looks wrong. It says something only where most rows lie on it and have more values than it has
coefficients. Elsewhere a plain fit is returned, and a value stands for the cell of the grid around
it: the noise is that which gives such cells their shares.
"""

from __future__ import annotations

import numpy as np

from easyfirst.calibration import ROUNDING
from easyfirst.consensus.rounds.common import RoundsResult
from easyfirst.consensus.starts.sample import Sample
from easyfirst.contracts import Vector

ROWS_PER_VALUE = 5  # from which y is on a grid; measured values hardly ever repeat
CONVINCING = 0.5  # share of the rows that an exact fit has to explain


def grid_cell(y: Vector) -> float:
    """Return the width to which y is rounded: that of most rows; 0 where values hardly repeat."""
    values, counts = np.unique(y, return_counts=True)
    if values.size < 2 or y.size < ROWS_PER_VALUE * values.size:
        return 0.0
    gaps = np.diff(values)
    nearest = np.minimum(np.append(gaps, np.inf), np.append(np.inf, gaps))
    by_size = np.argsort(nearest, kind="stable")
    middle = np.searchsorted(np.cumsum(counts[by_size]), 0.5 * y.size)
    return float(nearest[by_size][middle])


def has_few_values(y: Vector) -> bool:
    """Return whether y is on a coarse grid, or most rows share one value."""
    counts = np.unique(y, return_counts=True)[1]
    return bool(y.size >= ROWS_PER_VALUE * counts.size or counts.max() > CONVINCING * y.size)


def is_exact_by_chance(sample: Sample, fit: RoundsResult) -> bool:
    """Return whether some rows are fitted exactly, and are a minority or of few different y.

    Coefficients can bring a plane through as many values of y as there are of them, by columns
    that tell groups of rows apart.
    """
    if not fit.is_calibrated or fit.mixture.scale > 2.0 * ROUNDING * sample.fleet.problem.anchor:
        return False
    is_kept = sample.weights(fit) >= 0.5
    if np.all(is_kept):
        return False
    n_values = np.unique(sample.rows.y[is_kept]).size
    return fit.mixture.share < CONVINCING or n_values <= sample.fleet.n_coef
