"""The trivial baseline: no column means anything."""

from __future__ import annotations

from typing import Any

import numpy as np

from easyfirst.baselines.base import LinearBaseline, RowsFit
from easyfirst.baselines.method import Method, plain
from easyfirst.baselines.rows import Rows


class Zeros(LinearBaseline):
    """Coefficients of zero; the intercept, if wanted, is the median of y.

    A method whose error is no smaller than this one's has learned nothing. Its L2 error is the
    length of the true coefficients, one in the paper's synthetic data.

    Parameters
    ----------
    fit_intercept
        Whether to predict the median of y; without, the prediction is zero.

    Notes
    -----
    Assumes nothing about X. The median stands until half of the responses are corrupted.

    References
    ----------
    P. J. Huber, "Robust Estimation of a Location Parameter", Annals of Mathematical
    Statistics, 1964, for the median.

    Examples
    --------
    >>> import numpy as np
    >>> model = Zeros().fit(np.eye(3), np.array([1.0, 2.0, 90.0]))
    >>> model.coef_.tolist(), model.intercept_
    ([0.0, 0.0, 0.0], 2.0)
    """

    def __init__(self, *, fit_intercept: bool = True) -> None:
        self.fit_intercept = fit_intercept

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn not to expect a good score."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def _fit_rows(self, rows: Rows, index: int) -> RowsFit:
        coef = np.zeros(rows.n_coef)
        if self.fit_intercept:
            coef[-1] = np.median(rows.y)
        return RowsFit(coef, np.ones(rows.n_samples, dtype=bool), n_iter=0)


METHODS = (Method("zeros", "zeros", plain(Zeros), order=21, cost=0.02),)
