"""Robust regression that guesses the number of clean rows from the residuals (RLHH)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from easyfirst.baselines.base import LinearBaseline, RowsFit
from easyfirst.baselines.checks import require_number, require_whole
from easyfirst.baselines.method import Method, plain
from easyfirst.baselines.rows import Rows
from easyfirst.baselines.thresholding import keep_smallest, typical_residuals
from easyfirst.contracts import Vector


class RLHH(LinearBaseline):
    """Hard thresholding with a heuristic size of the clean set.

    Alternates least squares on the kept rows with keeping the tau rows of smallest absolute
    residual r. With r sorted, h = ceil(n / 2), and for each candidate tau > h the residual
    r[o] nearest to the root mean square of r[1], ..., r[tau - h], tau is feasible if::

        r[tau] <= min(2 * tau * r[o] / o, (r[n] + r[o]) / 2)

    and among feasible sizes the one with the least score is taken::

        ((r[tau] + 1) / tau) / ((r[n] - r[tau]) / (n - tau))

    Parameters
    ----------
    scope
        What to do with batches given to fit: "batches" fits each and averages the
        coefficients, as the authors do; "pooled" ignores them.
    fit_intercept
        Whether to fit an intercept.
    max_iter
        Limit on the iterations; the authors' value is the default.
    tol
        Ends the iteration when the residuals of the kept rows moved by no more than this:
        Euclidean norm over number of rows, in units of y. The authors' value is the default
        and is loose, for 10,000 rows a root mean square change of a tenth.
    engine
        Where the batches are fitted, as in `SelfPacedRegressor`.

    Notes
    -----
    Assumes that more than half of each batch is clean: a candidate below h is never feasible,
    so more than half of the rows are always kept (exactly half if nothing is feasible) and the
    method breaks down beyond one half, in a batch as a whole. The 1 in the score makes the
    choice depend on the unit of y; residuals of clean rows should be of order one or less.

    References
    ----------
    X. Zhang, L. Zhao, A. P. Boedihardjo, C.-T. Lu, "Robust Regression via Heuristic Hard
    Thresholding", IJCAI 2017.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1.0, 1.0, 20)[:, None]
    >>> y = 2.0 * X[:, 0] + 1.0
    >>> y[[3, 11]] = 40.0
    >>> model = RLHH().fit(X, y)
    >>> round(float(model.coef_[0]), 6), bool(model.selected_[3])
    (2.0, False)
    """

    def __init__(
        self,
        *,
        scope: Literal["batches", "pooled"] = "batches",
        fit_intercept: bool = True,
        max_iter: int = 100,
        tol: float = 1e-3,
        engine: Any = "inline",
    ) -> None:
        self.scope = scope
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.engine = engine

    def _check_parameters(self, n_batches: int) -> None:
        super()._check_parameters(n_batches)
        require_whole("max_iter", self.max_iter)
        require_number("tol", self.tol, at_least=0)

    def _fit_rows(self, rows: Rows, index: int) -> RowsFit:
        return keep_smallest(rows, lambda r, _: heuristic_size(r), self.max_iter, self.tol)


def heuristic_size(ordered: Vector) -> int:
    """Return tau for absolute residuals in ascending order.

    Examples
    --------
    >>> import numpy as np
    >>> heuristic_size(np.array([0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 9.0]))
    7
    """
    n = len(ordered)
    half = -(-n // 2)
    sizes = np.arange(half + 1, n)
    if sizes.size == 0:
        return max(half, 1)
    _, place = typical_residuals(ordered, sizes - half)
    last, typical, largest = ordered[sizes - 1], ordered[place - 1], ordered[-1]
    feasible = last <= np.minimum(2.0 * sizes * typical / place, (largest + typical) / 2.0)
    if not feasible.any():
        return half
    with np.errstate(divide="ignore"):
        score = ((last + 1.0) / sizes) / ((largest - last) / (n - sizes))
    return int(sizes[feasible][np.argmin(score[feasible])])


METHODS = (
    Method(
        "rlhh", "RLHH", plain(RLHH), needs_unit=True, compare=("rlhh", "RLHH"), order=7, cost=0.6
    ),
)
