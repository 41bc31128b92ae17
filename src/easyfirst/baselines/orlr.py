"""Robust regression online: one batch at a time, a window of estimates, a robust vote (ORLR)."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np

from easyfirst.baselines.base import RowsFit
from easyfirst.baselines.checks import require_whole
from easyfirst.baselines.consolidation import majority
from easyfirst.baselines.drlr import DRLR
from easyfirst.baselines.method import Method, plain
from easyfirst.baselines.rows import Rows, centre_of, to_user
from easyfirst.contracts import Vector
from easyfirst.engines.blas import one_blas_thread
from easyfirst.estimators import validation
from easyfirst.sources.arrays import rows_by_id


class ORLR(DRLR):
    """Keep the estimates of a window of batches and consolidate them after each new one.

    A batch is fitted as `DRLR` fits it. While the window has room its estimate is added; once
    it is full, the oldest estimate outside the closest majority makes room. The model is the
    centre of the majority among the estimates in the window.

    Parameters
    ----------
    window
        Number of estimates to remember; the authors' experiments use the default.
    consolidation, fit_intercept, max_iter, tol
        As in `DRLR`.

    Attributes
    ----------
    batch_coef_, batch_intercept_
        The estimates in the window, oldest first.
    trusted_
        Which of them are in the majority.
    n_batches_seen_
        Batches so far.
    selected_
        Rows kept in the data of the last call, whether or not their batch is trusted.

    Notes
    -----
    Assumes that most batches in the window are mostly clean; a majority of bad batches among
    them takes over the model and, since trusted estimates are not replaced, may stay. Nothing
    of a batch is remembered but its coefficients, so batches should be of similar size.

    References
    ----------
    X. Zhang, L. Zhao, A. P. Boedihardjo, C.-T. Lu, "Online and Distributed Robust Regressions
    under Adversarial Data Corruption", ICDM 2017.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1.0, 1.0, 20)[:, None]
    >>> model = ORLR(window=3)
    >>> for slope in (2.0, -5.0, 2.0):
    ...     model = model.partial_fit(X, slope * X[:, 0])
    >>> round(float(model.coef_[0]), 6), model.n_batches_seen_
    (2.0, 3)
    """

    def __init__(
        self,
        *,
        window: int = 7,
        consolidation: Literal["median", "mean"] = "median",
        fit_intercept: bool = True,
        max_iter: int = 100,
        tol: float = 1e-3,
    ) -> None:
        super().__init__(
            consolidation=consolidation, fit_intercept=fit_intercept, max_iter=max_iter, tol=tol
        )
        self.window = window

    def fit(self, X: Any, y: Any = None, *, batches: Any = None) -> Self:
        """Forget earlier batches and take the given ones in the order of their ids.

        Parameters
        ----------
        X
            Rows by features, dense or sparse.
        y
            One number per row.
        batches
            An id per row. None: one batch.
        """
        return self._take(X, y, batches, restart=True)

    def partial_fit(self, X: Any, y: Any = None, *, batches: Any = None) -> Self:
        """Take one more batch or, with ids, several in the order of their ids.

        Parameters
        ----------
        X
            Rows by features, dense or sparse.
        y
            One number per row.
        batches
            An id per row. None: one batch.
        """
        return self._take(X, y, batches, restart=not hasattr(self, "n_batches_seen_"))

    def _take(self, X: Any, y: Any, batches: Any, restart: bool) -> Self:
        self._check_parameters(1)
        if not restart:
            validation.prediction_rows(self, X)
        source = validation.training_source(self, X, y, None, batches, None)
        center = centre_of(source.X, None, self.fit_intercept)
        if restart:
            # Distances between estimates compare intercepts at this point, fixed from here on.
            self._center = center
            self._window = np.empty((0, source.X.shape[1] + bool(self.fit_intercept)))
            self.n_batches_seen_ = 0
        everything = slice(0, source.X.shape[0])
        parts = [everything] if source.batches is None else rows_by_id(source.batches)
        self.selected_ = np.zeros(source.X.shape[0], dtype=bool)
        fits = []
        for part in parts:
            with one_blas_thread():
                fit = self._fit_rows(Rows.of(source.X[part], source.y[part], None, center), 0)
            fits.append(fit)
            self.selected_[part] = fit.selected
            self._remember(fit, center)
        self._store(self._window, self._center)
        self._report(fits)
        return self

    def _check_parameters(self, n_batches: int) -> None:
        super()._check_parameters(n_batches)
        require_whole("window", self.window)

    def _remember(self, fit: RowsFit, center: Vector | None) -> None:
        estimate = _moved(fit.coef, center, self._center)
        kept = self._window
        if len(kept) >= self.window:
            outside = np.setdiff1d(np.arange(len(kept)), majority(kept))
            kept = np.delete(kept, outside[0] if outside.size else 0, axis=0)
        self._window = np.vstack([kept, estimate])
        self.n_batches_seen_ += 1


def _moved(coef: Vector, start: Vector | None, goal: Vector | None) -> Vector:
    """Return the coefficients with the intercept taken at another point."""
    if start is None or goal is None:
        return coef
    slopes, intercepts = to_user(coef[None, :], start)
    return np.append(slopes[0], intercepts[0] + slopes[0] @ goal)


METHODS = (
    Method(
        "orlr", "ORLR", plain(ORLR), needs_unit=True, compare=("orlr", "ORLR"), order=12, cost=0.1
    ),
)
