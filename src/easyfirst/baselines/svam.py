"""Reweighting with Gaussian weights that grow sharper: sequential variance-altered MLE (SVAM)."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from easyfirst.baselines.base import RowsFit, WeightedBaseline
from easyfirst.baselines.checks import require_number, require_whole
from easyfirst.baselines.method import Method, plain
from easyfirst.baselines.reweighting import importance, noise_scale, reweight
from easyfirst.baselines.rows import Rows
from easyfirst.contracts import Vector


class SVAM(WeightedBaseline):
    """Weighted least squares with weights exp(-beta * residual**2 / 2) and a growing beta.

    Starts from least squares on all rows and a beta so small that the weights are nearly
    equal, then multiplies beta by `growth` after each fit until 1 / sqrt(beta) is `width`
    times the noise scale (1.48 median absolute residuals) of the current fit.

    Parameters
    ----------
    start
        The first beta, in inverse squared noise scales of the first fit.
    growth
        What beta is multiplied by.
    width
        The final 1 / sqrt(beta) in noise scales. The default keeps about 95 % of the
        efficiency of least squares on clean normal noise.
    scope
        What to do with batches given to fit: "pooled" ignores them; "batches" fits each and
        averages the coefficients.
    fit_intercept
        Whether to fit an intercept.
    max_iter
        Limit on the weighted fits.
    tol
        Ends the fits when beta stands and the predictions move by no more than this share of
        the first noise scale.
    engine
        Where the batches are fitted, as in `SelfPacedRegressor`.

    Notes
    -----
    Assumes corrupted responses but sound X, and a minority of corrupted rows: the noise scale
    that ends the growth of beta comes from a median, so beyond one half it is too large and
    the result falls back towards least squares (the authors tune the end by cross-validation
    instead). Corruption that follows another model, or leverage, can catch the early fits.
    `selected_` are the rows within 2.5 noise scales at the end.

    References
    ----------
    B. Mukhoty, D. Dey, P. Kar, "Corruption-Tolerant Algorithms for Generalized Linear Models",
    AAAI 2023.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1.0, 1.0, 20)[:, None]
    >>> y = 2.0 * X[:, 0] + 1.0
    >>> y[[3, 11]] = 40.0
    >>> model = SVAM().fit(X, y)
    >>> round(float(model.coef_[0]), 6), bool(model.selected_[3])
    (2.0, False)
    """

    def __init__(
        self,
        *,
        start: float = 0.01,
        growth: float = 4.0,
        width: float = 2.0,
        scope: Literal["batches", "pooled"] = "pooled",
        fit_intercept: bool = True,
        max_iter: int = 200,
        tol: float = 1e-4,
        engine: Any = "inline",
    ) -> None:
        self.start = start
        self.growth = growth
        self.width = width
        self.scope = scope
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.engine = engine

    def _check_parameters(self, n_batches: int) -> None:
        super()._check_parameters(n_batches)
        require_number("start", self.start, more_than=0)
        require_number("growth", self.growth, more_than=1)
        require_number("width", self.width, more_than=0)
        require_whole("max_iter", self.max_iter)
        require_number("tol", self.tol, more_than=0)

    def _fit_rows(self, rows: Rows, index: int) -> RowsFit:
        counts = importance(rows)

        def narrower(bandwidth: float, residuals: Vector, moved: float) -> float:
            del moved
            floor = self.width * noise_scale(residuals, counts)
            return min(bandwidth, max(bandwidth / math.sqrt(self.growth), floor))

        return reweight(
            rows,
            weights_of=_gaussian,
            narrower=narrower,
            first=1.0 / math.sqrt(self.start),
            last=0.0,
            max_iter=self.max_iter,
            tol=self.tol,
        )


def _gaussian(residuals: Vector, bandwidth: float) -> Vector:
    """Return exp(-(residual / bandwidth)**2 / 2)."""
    return np.asarray(np.exp(-0.5 * np.square(residuals / bandwidth)))


METHODS = (
    Method(
        "svam", "SVAM", plain(SVAM), needs_unit=True, compare=("svam", "SVAM"), order=16, cost=0.8
    ),
)
