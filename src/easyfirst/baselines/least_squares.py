"""Least squares: what happens if nothing is done about corrupted rows."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from easyfirst.baselines.base import RowsFit, WeightedBaseline
from easyfirst.baselines.method import Method, plain
from easyfirst.baselines.rows import Rows, weighted_fit


class LeastSquares(WeightedBaseline):
    """Plain least squares: minimises sum(sample_weight * (y - X @ coef - intercept)**2).

    Parameters
    ----------
    scope
        What to do with batches given to fit: "pooled" ignores them; "batches" fits each and
        averages the coefficients.
    fit_intercept
        Whether to fit an intercept.
    engine
        Where the batches are fitted, as in `SelfPacedRegressor`.

    Notes
    -----
    Assumes that every row is clean. One corrupted row can move the coefficients anywhere;
    symmetric corruption independent of X only adds noise, which many rows average out.

    References
    ----------
    A.-M. Legendre, "Nouvelles méthodes pour la détermination des orbites des comètes", 1805.

    Examples
    --------
    >>> import numpy as np
    >>> model = LeastSquares().fit(np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 3.0, 5.0]))
    >>> round(float(model.coef_[0]), 6), round(model.intercept_, 6)
    (2.0, 1.0)
    """

    def __init__(
        self,
        *,
        scope: Literal["batches", "pooled"] = "pooled",
        fit_intercept: bool = True,
        engine: Any = "inline",
    ) -> None:
        self.scope = scope
        self.fit_intercept = fit_intercept
        self.engine = engine

    def _fit_rows(self, rows: Rows, index: int) -> RowsFit:
        everything = np.ones(rows.n_samples, dtype=bool)
        weights = (
            everything.astype(np.float64) if rows.sample_weight is None else rows.sample_weight
        )
        coef, rank = weighted_fit(rows, weights)
        return RowsFit(coef, everything, rank=rank)


METHODS = (
    Method(
        "least-squares",
        "least squares",
        plain(LeastSquares),
        compare=("ols", "least squares"),
        order=20,
        cost=0.1,
    ),
)
