"""How far predictions of rows are off, told by another model.

Where rows of one kind are predicted well and those of another badly, whatever is predicted for
them, noise of one size would make the latter look wrong. The logarithm of a residual's size is
learned from X, out of fold like everything else: corrupted rows have little hold on a logarithm.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import HistGradientBoostingRegressor

from easyfirst.contracts import Vector
from easyfirst.estimators.out_of_fold import as_numbers, fitted
from easyfirst.estimators.paced_rows import Fits, Rows
from easyfirst.noise.row_scale import LARGEST, SMALLEST

LEAST_ROWS = 200  # from which a model of sizes is worth its fits


def told_sizes(rows: Rows, fits: Fits, residual: Vector, weight: Vector) -> Vector:
    """Return the logarithm of how far off each row is expected to be; zeros where nothing can tell.

    `weight` is how much each row has to say about it.
    """
    if np.count_nonzero(weight) < LEAST_ROWS or sp.issparse(rows.X):
        return np.zeros(residual.size)
    about = replace(rows, X=as_numbers(rows.X), y=_logarithms(residual))
    return np.asarray(fits.ask(_model(fits), about, weight))


def model_of_sizes(rows: Rows, fits: Fits, residual: Vector, weight: Vector) -> Any:
    """Return a model of the sizes of all rows, for new ones."""
    fits.count += 1
    return fitted(_model(fits), as_numbers(rows.X), _logarithms(residual), weight)


def sizes_by(model: Any, X: Any) -> Vector:
    """Return what a model of sizes says of rows; None knows nothing."""
    if model is None:
        return np.zeros(X.shape[0])
    return np.asarray(model.predict(as_numbers(X)), dtype=np.float64)


def _logarithms(residual: Vector) -> Vector:
    size = np.abs(residual)
    typical = max(float(np.median(size)), 1e-3 * float(size.mean()), np.finfo(float).tiny)
    return np.log(np.clip(size / typical, SMALLEST, LARGEST))


def _model(fits: Fits) -> HistGradientBoostingRegressor:
    return HistGradientBoostingRegressor(
        max_iter=30, max_leaf_nodes=8, early_stopping=False, random_state=fits.seed
    )
