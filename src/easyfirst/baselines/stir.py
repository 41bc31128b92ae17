"""Iteratively reweighted least squares with a growing truncation (STIR)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from easyfirst.baselines.base import RowsFit, WeightedBaseline
from easyfirst.baselines.checks import require_number, require_whole
from easyfirst.baselines.method import Method, plain
from easyfirst.baselines.reweighting import reweight
from easyfirst.baselines.rows import Rows
from easyfirst.contracts import Vector


class STIR(WeightedBaseline):
    """Least absolute deviations by reweighting, the weights truncated in stages.

    Repeats weighted least squares with weights 1 / max(|residual|, 1 / M). Once the
    predictions move by less than half of 1 / M, M is multiplied by `growth`.

    Parameters
    ----------
    start
        The first M, counted in the inverse noise scale (1.48 median absolute residuals) of the
        least-squares fit from which it all starts, so that the unit of y is of no matter. The
        authors use 10 with residuals of order one.
    growth
        What M is multiplied by; the authors tune it between 1.01 and 3.01.
    scope
        What to do with batches given to fit: "pooled" ignores them; "batches" fits each and
        averages the coefficients.
    fit_intercept
        Whether to fit an intercept.
    max_iter
        Limit on the weighted fits.
    tol
        Ends the stages when 1 / M is down to this share of the noise scale and the predictions
        move by no more.
    engine
        Where the batches are fitted, as in `SelfPacedRegressor`.

    Notes
    -----
    Assumes corrupted responses but sound X: a weight falls with the residual alone, and never
    to zero, so leverage points break it. Proven for an adversary with up to about a fifth of
    the rows; symmetric corruption is survived longer, at the efficiency of the absolute loss,
    0.64 for normal noise. `selected_` are the rows within 2.5 noise scales at the end.

    References
    ----------
    B. Mukhoty, G. Gopakumar, P. Jain, P. Kar, "Globally-convergent Iteratively Reweighted
    Least Squares for Robust Regression Problems", AISTATS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1.0, 1.0, 20)[:, None]
    >>> y = 2.0 * X[:, 0] + 1.0
    >>> y[[3, 11]] = 40.0
    >>> model = STIR(tol=1e-8).fit(X, y)
    >>> round(float(model.coef_[0]), 6), bool(model.selected_[3])
    (2.0, False)
    """

    def __init__(
        self,
        *,
        start: float = 10.0,
        growth: float = 3.0,
        scope: Literal["batches", "pooled"] = "pooled",
        fit_intercept: bool = True,
        max_iter: int = 200,
        tol: float = 1e-3,
        engine: Any = "inline",
    ) -> None:
        self.start = start
        self.growth = growth
        self.scope = scope
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.engine = engine

    def _check_parameters(self, n_batches: int) -> None:
        super()._check_parameters(n_batches)
        require_number("start", self.start, more_than=0)
        require_number("growth", self.growth, more_than=1)
        require_whole("max_iter", self.max_iter)
        require_number("tol", self.tol, more_than=0)

    def _fit_rows(self, rows: Rows, index: int) -> RowsFit:
        return reweight(
            rows,
            weights_of=_truncated,
            narrower=self._narrower,
            first=1.0 / self.start,
            last=self.tol,
            max_iter=self.max_iter,
            tol=self.tol,
        )

    def _narrower(self, truncation: float, residuals: Vector, moved: float) -> float:
        return truncation / self.growth if moved <= 0.5 * truncation else truncation


def _truncated(residuals: Vector, truncation: float) -> Vector:
    """Return 1 / max(|residual|, truncation), scaled so that the largest weight is one."""
    return np.asarray(truncation / np.maximum(np.abs(residuals), truncation))


METHODS = (
    Method(
        "stir", "STIR", plain(STIR), needs_unit=True, compare=("stir", "STIR"), order=15, cost=0.6
    ),
)
