"""Self-paced learning without a network of workers: pooled, or batch by batch and averaged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from easyfirst.baselines.base import RowsFit, WeightedBaseline
from easyfirst.baselines.checks import require_number, require_whole
from easyfirst.baselines.method import Method, plain
from easyfirst.baselines.rows import Mask, Rows, SubsetLeastSquares
from easyfirst.consensus.rounds.self_paced import UNSEEN
from easyfirst.contracts import Pace, Vector
from easyfirst.errors import NoRowSelectedError
from easyfirst.losses import Squared
from easyfirst.regularizers import Hard
from easyfirst.schedules import Geometric


class SPL(WeightedBaseline):
    """Kumar's self-paced learning with squared loss and hard weights.

    Starts from least squares on all rows, then repeats: keep the rows with
    (y - prediction)**2 < pace, fit them by least squares, multiply the pace by `factor` up to
    `ceiling`. Ends when the pace is at its ceiling and the kept rows repeat.

    Parameters
    ----------
    start, factor, ceiling
        The pace, in units of y squared. The defaults are the paper's and suit clean noise with
        a standard deviation near 0.3.
    scope
        What to do with batches given to fit: "batches" fits each and averages the
        coefficients, which is the column SPL of the paper; "pooled" ignores them, which is
        what the distributed method converges to.
    fit_intercept
        Whether to fit an intercept.
    max_iter
        Limit on the rounds.
    engine
        Where the batches are fitted, as in `SelfPacedRegressor`.

    Attributes
    ----------
    pace_
        The final pace.

    Notes
    -----
    Assumes that the first fit, of all rows, is good enough for its easiest rows to be mostly
    clean, and that the pace fits the scale of y: a ceiling far above the clean losses lets
    corrupted rows in, one below them wastes clean rows. A pace that would keep no row is
    skipped. Corruption that follows another linear model or bad leverage can own the easy
    rows. Averaging over batches removes the noise but not the bias of bad batches.

    References
    ----------
    M. P. Kumar, B. Packer, D. Koller, "Self-Paced Learning for Latent Variable Models",
    NIPS 2010.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1.0, 1.0, 20)[:, None]
    >>> y = 2.0 * X[:, 0] + 1.0
    >>> y[[3, 11]] = 4.0
    >>> model = SPL().fit(X, y)
    >>> round(float(model.coef_[0]), 6), bool(model.selected_[3])
    (2.0, False)
    """

    def __init__(
        self,
        *,
        start: float = 0.1,
        factor: float = 1.1,
        ceiling: float = 1.0,
        scope: Literal["batches", "pooled"] = "batches",
        fit_intercept: bool = True,
        max_iter: int = 200,
        engine: Any = "inline",
    ) -> None:
        self.start = start
        self.factor = factor
        self.ceiling = ceiling
        self.scope = scope
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.engine = engine

    def _check_parameters(self, n_batches: int) -> None:
        super()._check_parameters(n_batches)
        for name in ("start", "factor", "ceiling"):
            require_number(name, getattr(self, name), more_than=0)
        require_whole("max_iter", self.max_iter)
        self._schedule()

    def _schedule(self) -> Geometric:
        return Geometric(self.start, self.factor, self.ceiling)

    def _fit_rows(self, rows: Rows, index: int) -> RowsFit:
        solver = SubsetLeastSquares(rows)
        schedule = self._schedule()
        kept: Mask = np.ones(rows.n_samples, dtype=bool)
        coef = solver.fit(kept)
        pace = schedule.first(UNSEEN)
        n_iter, converged = 0, False
        while n_iter < self.max_iter and not converged:
            n_iter += 1
            losses = Squared().value(rows.y, rows.design.times(coef))
            pace, now = _next_selection(schedule, pace, losses, rows.sample_weight)
            converged = schedule.is_final(pace) and np.array_equal(now, kept)
            kept = now
            coef = solver.fit(kept)
            if not schedule.is_final(pace):
                pace = schedule.next(pace, UNSEEN)
        return RowsFit(
            solver.refined(coef), kept, n_iter, converged, solver.rank, last_pace=pace.value
        )

    def _store_runs(self, fits: Sequence[RowsFit], center: Vector | None) -> None:
        self.pace_ = fits[-1].last_pace


def _next_selection(
    schedule: Geometric, pace: Pace, losses: Vector, sample_weight: Vector | None
) -> tuple[Pace, Mask]:
    """Return the rows below the pace, or below the first later pace that keeps any."""
    counts = np.ones(len(losses)) if sample_weight is None else sample_weight
    while True:
        kept = Hard().weights(losses, pace.value) > 0
        if np.any(counts[kept] > 0):
            return pace, kept
        if schedule.is_final(pace):
            raise NoRowSelectedError(
                f"Even the final pace {pace.value:.3g} selects no row: their losses "
                f"start at {losses[counts > 0].min():.3g}. Rescale y or raise the ceiling."
            )
        pace = schedule.next(pace, UNSEEN)


TOLD = "a pace that fits the noise scale of the data"
METHODS = (
    Method(
        "spl",
        "SPL",
        plain(partial(SPL, start=1.0, ceiling=1.0)),
        told=TOLD,
        needs_unit=True,
        order=9,
        cost=0.5,
    ),
    Method(
        "spl-growing",
        "SPL, growing pace",
        plain(SPL),
        told=TOLD,
        needs_unit=True,
        compare=("spl", "SPL"),
        order=10,
        cost=0.5,
    ),
    Method(
        "spl-pooled",
        "SPL, pooled",
        plain(partial(SPL, scope="pooled")),
        told=TOLD,
        needs_unit=True,
        order=14,
        cost=0.5,
    ),
)
