"""Values that were filled in: where, and how far the predictions of such rows may be off.

A missing number becomes the median. The true value would have moved the prediction by its distance
from the median times the coefficient, so the prediction of such a row is uncertain by that much
more than others. What this explains is not held against the row.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Vector
from easyfirst.tables.recipe import Recipe

Missing = Mapping[str, NDArray[np.bool_]]

OUTERMOST = 0.005  # of the values at each end, which count as if they were the next ones


def spread_around(values: Vector, fill: float) -> float:
    """Return how far the present values of a column lie from what stands for a missing one."""
    present = values[np.isfinite(values)]
    if not present.size:
        return 0.0
    low, high = np.quantile(present, (OUTERMOST, 1.0 - OUTERMOST))
    return float(np.sqrt(np.mean(np.square(np.clip(present, low, high) - fill))))


def blur_of(
    recipe: Recipe, coef: Vector, spreads: Mapping[str, float], missing: Missing, n_rows: int
) -> Vector | None:
    """Return the standard deviation that filled-in values give each prediction, if there are any.

    The coefficients of the columns that become one number each come first.
    """
    if not missing:
        return None
    variance = np.zeros(n_rows)
    for place, feature in enumerate(recipe.numeric):
        if feature.name in missing:
            size = coef[place] * spreads.get(feature.name, 0.0)
            variance += np.where(missing[feature.name], np.square(size), 0.0)
    return np.asarray(np.sqrt(variance))
