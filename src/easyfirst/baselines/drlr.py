"""Distributed robust regression: heuristic fits of the batches, then a robust vote (DRLR)."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np

from easyfirst.baselines.base import LinearBaseline, RowsFit
from easyfirst.baselines.checks import require_choice, require_number, require_whole
from easyfirst.baselines.consolidation import consolidate, majority
from easyfirst.baselines.method import Method, plain
from easyfirst.baselines.rows import Rows
from easyfirst.baselines.thresholding import keep_smallest, typical_residuals
from easyfirst.contracts import Matrix, Vector

LEAST_ROWS_PER_COEF = 3  # the authors never keep fewer rows than three per coefficient


class DRLR(LinearBaseline):
    """Heuristic robust regression in each batch, then the centre of the closest majority.

    In each batch, least squares on the kept rows alternates with keeping the tau rows of
    smallest absolute residual r. With r sorted and q the root mean square of the first
    floor(tau - n / 2), tau is the largest size not above the one before with::

        r[tau] <= 2 * tau * q / (position of the residual nearest q)

    Then, of m batches, the floor(m / 2) + 1 whose coefficients lie closest together are found,
    and their geometric median or mean is the model.

    Parameters
    ----------
    consolidation
        "median" takes the geometric median, as the paper says; "mean" the arithmetic mean, as
        the authors' program does.
    fit_intercept
        Whether to fit an intercept.
    max_iter
        Limit on the iterations in a batch; the authors' value is the default.
    tol
        Ends them when the residuals of the kept rows moved by no more than this: Euclidean
        norm over number of rows, in units of y. The authors' value is the default.
    engine
        Where the batches are fitted, as in `SelfPacedRegressor`.

    Attributes
    ----------
    trusted_
        Which batches are in the majority.
    selected_
        Which rows were kept, in trusted batches; no row of another batch counts.

    Notes
    -----
    Assumes that most batches have most of their rows clean. From m / 2 bad batches on, the
    majority must contain bad ones and the error jumps. A batch that is mostly corrupted by
    symmetric noise looks consistent to the size rule, which then keeps every row of it. If no
    size qualifies, three rows per coefficient are kept.

    References
    ----------
    X. Zhang, L. Zhao, A. P. Boedihardjo, C.-T. Lu, "Online and Distributed Robust Regressions
    under Adversarial Data Corruption", ICDM 2017.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.tile(np.linspace(-1.0, 1.0, 20), 3)[:, None]
    >>> batches = np.repeat([0, 1, 2], 20)
    >>> y = np.where(batches == 1, -5.0, 2.0) * X[:, 0]
    >>> model = DRLR().fit(X, y, batches=batches)
    >>> round(float(model.coef_[0]), 6), model.trusted_.tolist()
    (2.0, [True, False, True])
    """

    def __init__(
        self,
        *,
        consolidation: Literal["median", "mean"] = "median",
        fit_intercept: bool = True,
        max_iter: int = 100,
        tol: float = 1e-3,
        engine: Any = "inline",
    ) -> None:
        self.consolidation = consolidation
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.engine = engine

    def _check_parameters(self, n_batches: int) -> None:
        super()._check_parameters(n_batches)
        require_choice("consolidation", self.consolidation, "median", "mean")
        require_whole("max_iter", self.max_iter)
        require_number("tol", self.tol, at_least=0)

    def _fit_rows(self, rows: Rows, index: int) -> RowsFit:
        lowest = LEAST_ROWS_PER_COEF * rows.n_coef
        return keep_smallest(
            rows, lambda r, before: consistent_size(r, before, lowest), self.max_iter, self.tol
        )

    def _combine(self, coefs: Matrix) -> Vector:
        members = majority(coefs)
        self.trusted_ = np.zeros(len(coefs), dtype=bool)
        self.trusted_[members] = True
        return consolidate(coefs, members, self.consolidation)

    def _counts(self, index: int) -> bool:
        return bool(self.trusted_[index])


def consistent_size(ordered: Vector, before: int, lowest: int) -> int:
    """Return the largest size from `before` down to `lowest` that its own smaller half supports.

    Examples
    --------
    >>> import numpy as np
    >>> consistent_size(np.array([0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 9.0]), before=8, lowest=3)
    7
    """
    n = len(ordered)
    lowest = min(lowest, before)
    sizes = np.arange(max(lowest, -(-n // 2) + 1), before + 1)
    if sizes.size == 0:
        return lowest
    q, place = typical_residuals(ordered, np.floor(sizes - n / 2).astype(np.intp))
    feasible = np.flatnonzero(ordered[sizes - 1] <= 2.0 * sizes * q / place)
    return int(sizes[feasible[-1]]) if feasible.size else lowest


METHODS = (
    Method(
        "drlr",
        "DRLR",
        plain(partial(DRLR, consolidation="mean")),
        needs_unit=True,
        order=8,
        cost=0.1,
    ),
    Method(
        "drlr-median",
        "DRLR, geometric median",
        plain(DRLR),
        needs_unit=True,
        compare=("drlr", "DRLR"),
        order=11,
        cost=0.1,
    ),
)
