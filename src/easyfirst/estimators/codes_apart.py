"""Values of y that many rows share and that lie apart from all others, such as -999.

No model should learn them, not even the first one: wherever chance gathers them, it would follow
them. They are taken for wrong unless X tells which rows have them, as it does where a machine is
either off, and y zero, or on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor

from easyfirst.consensus.starts.point_masses import TELLS, PointMass, shared_values
from easyfirst.estimators import validation
from easyfirst.estimators.paced_rows import Fits, Rows

MOST = 0.5  # share of the rows up to which the others say what y is


def codes_apart(rows: Rows, fits: Fits, estimator: Any, seed: int) -> tuple[PointMass, ...]:
    """Return the values apart that X does not tell about, none of which a trusted row has."""
    found = []
    for mass in shared_values(rows.y):
        if not mass.is_apart:
            continue
        has_it = rows.y == mass.value
        share = float(np.average(has_it, weights=rows.weight))
        if share > MOST or np.any(rows.trusted & has_it):
            continue
        if not _is_told(has_it, rows, fits, estimator, seed):
            found.append(replace(mass, share=share, is_aside=True))
    return tuple(found) if sum(mass.share for mass in found) <= MOST else ()


def _is_told(has_it: NDArray[np.bool_], rows: Rows, fits: Fits, estimator: Any, seed: int) -> bool:
    """Return whether X tells a good part of which rows have a value."""
    if validation.is_dense_and_numeric(rows.X):
        estimator = HistGradientBoostingRegressor(
            max_iter=50, early_stopping=False, random_state=seed
        )
    given = has_it.astype(np.float64)
    told = fits.ask(estimator, replace(rows, y=given), rows.weight)
    spread = np.square(given - np.average(given, weights=rows.weight))
    left = float(rows.weight @ np.square(given - told) / (rows.weight @ spread))
    return 1.0 - left >= TELLS
