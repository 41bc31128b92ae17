"""Hard thresholding with a known corruption ratio: TORRENT, and TORR25 for an unsure one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from easyfirst.baselines.base import LinearBaseline, RowsFit
from easyfirst.baselines.checks import require_choice, require_number, require_whole
from easyfirst.baselines.method import Coefficients, Method, MethodFit
from easyfirst.baselines.rows import Mask, Rows, SubsetLeastSquares, to_user
from easyfirst.contracts import Vector

Variant = Literal["fc", "gradient", "hybrid"]

LEAST_ROWS_PER_COEF = 3  # what a run of TORR25 above the given ratio keeps at least


@dataclass(frozen=True)
class Rule:
    """How TORRENT proceeds, apart from the ratio."""

    variant: Variant
    switch: float
    max_iter: int
    tol: float


class Torrent(LinearBaseline):
    """Regression on the rows of smallest residual, their number given.

    Starts from all n rows and repeats: update the coefficients on the kept rows, then keep the
    n - round(corruption_ratio * n) rows of smallest absolute residual.

    Parameters
    ----------
    corruption_ratio
        The share of rows to leave out, in [0, 1): at least the true share of corrupted rows.
        One number, or one per batch in the order of the sorted ids.
    variant
        The update: "fc" (fully corrective) is least squares on the kept rows; "gradient" is
        one step of steepest descent on their squared error, with the exact step length;
        "hybrid" takes gradient steps while the kept rows change a lot, then "fc".
    switch
        For "hybrid": least squares once at most this share of all rows is new among the kept.
    scope
        What to do with batches given to fit: "batches" fits each and averages the
        coefficients; "pooled" ignores them.
    fit_intercept
        Whether to fit an intercept.
    max_iter
        Limit on the iterations. 100 is the value of the authors of DSPL.
    tol
        Ends the iteration when the absolute residuals of the kept rows moved by no more than
        this: Euclidean norm over n, in units of y. 0 goes on until the kept rows repeat, which
        "gradient" has no use for.
    engine
        Where the batches are fitted, as in `SelfPacedRegressor`.

    Notes
    -----
    Assumes that the ratio is known: below the true one, corrupted rows stay in; far above it,
    clean rows are wasted, those with the largest noise first. The theory covers an adversary
    who has seen everything and corrupts a few per cent of the responses; symmetric corruption
    that ignores X is survived far beyond. Corrupted X can break it with few rows. With noise
    in the clean rows the error does not vanish as n grows.

    References
    ----------
    K. Bhatia, P. Jain, P. Kar, "Robust Regression via Hard Thresholding", NIPS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1.0, 1.0, 20)[:, None]
    >>> y = 2.0 * X[:, 0] + 1.0
    >>> y[[3, 11]] = 40.0
    >>> model = Torrent(corruption_ratio=0.1).fit(X, y)
    >>> round(float(model.coef_[0]), 6), bool(model.selected_[3])
    (2.0, False)
    """

    def __init__(
        self,
        *,
        corruption_ratio: float | Sequence[float] = 0.25,
        variant: Variant = "fc",
        switch: float = 0.05,
        scope: Literal["batches", "pooled"] = "batches",
        fit_intercept: bool = True,
        max_iter: int = 100,
        tol: float = 1e-5,
        engine: Any = "inline",
    ) -> None:
        self.corruption_ratio = corruption_ratio
        self.variant = variant
        self.switch = switch
        self.scope = scope
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.engine = engine

    def _check_parameters(self, n_batches: int) -> None:
        super()._check_parameters(n_batches)
        check_ratio(self.corruption_ratio, n_batches)
        require_choice("variant", self.variant, "fc", "gradient", "hybrid")
        require_number("switch", self.switch, at_least=0)
        require_whole("max_iter", self.max_iter)
        require_number("tol", self.tol, at_least=0)

    def _fit_rows(self, rows: Rows, index: int) -> RowsFit:
        rule = Rule(self.variant, self.switch, self.max_iter, self.tol)
        return hard_threshold(rows, [ratio_of_batch(self.corruption_ratio, index)], rule)[0]


class Torrent25(LinearBaseline):
    """TORRENT for ratios from 25 % below to 25 % above the given one.

    The paper's TORR25: it shows what not knowing the ratio costs, and reports the mean of the
    errors of all runs, for which `ratio_coef_` has the coefficients of each. As an estimator
    it is the mean of the runs.

    Parameters
    ----------
    corruption_ratio
        The middle of the range, in [0, 1); one number, or one per batch.
    spread
        Half the width of the range, relative to the middle.
    n_ratios
        Number of equally spaced ratios. A ratio above the given one is cut down to leave at
        least three rows per coefficient; the paper does not say what became of ratios above 1.
    scope, fit_intercept, max_iter, tol
        As in `Torrent`.
    engine
        Where the batches are fitted, as in `SelfPacedRegressor`.

    Attributes
    ----------
    factors_
        What the given ratio was multiplied by in each run.
    ratio_coef_, ratio_intercept_
        The model of each run, batches averaged: one row per factor.
    coef_, intercept_
        Their mean.
    selected_
        The rows that at least half of the runs kept.

    Notes
    -----
    Assumes and breaks as `Torrent` does, run by run. With as few rows as coefficients a run
    would only interpolate noise and its error alone decide the mean, hence the cut. All runs
    advance together and share the passes over the rows.

    References
    ----------
    X. Zhang, L. Zhao, Z. Chen, C.-T. Lu, "Distributed Self-Paced Learning in Alternating
    Direction Method of Multipliers", IJCAI 2018.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1.0, 1.0, 20)[:, None]
    >>> y = 2.0 * X[:, 0]
    >>> y[[3, 11]] = 40.0
    >>> model = Torrent25(corruption_ratio=0.2).fit(X, y)
    >>> model.ratio_coef_.shape, float(np.ptp(model.ratio_coef_).round(6))
    ((21, 1), 0.0)
    """

    def __init__(
        self,
        *,
        corruption_ratio: float | Sequence[float] = 0.25,
        spread: float = 0.25,
        n_ratios: int = 21,
        scope: Literal["batches", "pooled"] = "batches",
        fit_intercept: bool = True,
        max_iter: int = 100,
        tol: float = 1e-5,
        engine: Any = "inline",
    ) -> None:
        self.corruption_ratio = corruption_ratio
        self.spread = spread
        self.n_ratios = n_ratios
        self.scope = scope
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.engine = engine

    def _check_parameters(self, n_batches: int) -> None:
        super()._check_parameters(n_batches)
        check_ratio(self.corruption_ratio, n_batches)
        require_number("spread", self.spread, at_least=0)
        require_whole("n_ratios", self.n_ratios)
        require_whole("max_iter", self.max_iter)
        require_number("tol", self.tol, at_least=0)

    def _fit_rows(self, rows: Rows, index: int) -> RowsFit:
        ratio = ratio_of_batch(self.corruption_ratio, index)
        highest = max(ratio, 1.0 - LEAST_ROWS_PER_COEF * rows.n_coef / rows.n_samples)
        ratios = np.clip(self._factors() * ratio, 0.0, highest)
        runs = hard_threshold(rows, ratios.tolist(), Rule("fc", 0.0, self.max_iter, self.tol))
        coefs = np.array([run.coef for run in runs])
        votes = np.sum([run.selected for run in runs], axis=0)
        return RowsFit(
            coef=coefs.mean(axis=0),
            selected=2 * votes >= len(runs),
            n_iter=max(run.n_iter for run in runs),
            converged=all(run.converged for run in runs),
            rank=min(run.rank or 0 for run in runs),
            runs=coefs,
        )

    def _store_runs(self, fits: Sequence[RowsFit], center: Vector | None) -> None:
        self.factors_ = self._factors()
        runs = np.mean([fit.runs for fit in fits if fit.runs is not None], axis=0)
        self.ratio_coef_, self.ratio_intercept_ = to_user(runs, center)

    def _factors(self) -> Vector:
        return np.linspace(1.0 - self.spread, 1.0 + self.spread, self.n_ratios)


def check_ratio(ratio: float | Sequence[float], n_batches: int) -> None:
    """Reject shares outside [0, 1) and the wrong number of them."""
    values = np.asarray(ratio, dtype=np.float64)
    if values.ndim > 0 and values.shape != (n_batches,):
        raise ValueError(
            f"corruption_ratio must be one number or one per batch, got shape {values.shape} "
            f"for {n_batches} batches"
        )
    if not np.all((values >= 0) & (values < 1)):
        raise ValueError(f"corruption_ratio must lie in [0, 1), got {ratio!r}")


def ratio_of_batch(ratio: float | Sequence[float], index: int) -> float:
    """Return the ratio that holds in one batch."""
    values = np.asarray(ratio, dtype=np.float64)
    return float(values[index] if values.ndim else values)


def hard_threshold(rows: Rows, ratios: Sequence[float], rule: Rule) -> list[RowsFit]:
    """Run TORRENT for several ratios side by side; the passes over the rows are shared."""
    n = rows.n_samples
    everything = np.ones(n, dtype=bool)
    start = SubsetLeastSquares(rows)
    if rule.variant == "fc":
        start.fit(everything)
    runs = [_Run(rows, start.copy(), max(1, n - round(n * ratio)), everything) for ratio in ratios]
    active = list(runs)
    for _ in range(rule.max_iter):
        if not active:
            break
        _update(rows, active, rule)
        residuals = rows.residuals(np.column_stack([run.coef for run in active]))
        for run, column in zip(active, residuals.T, strict=True):
            run.keep(np.ascontiguousarray(column), rule)
        active = [run for run in active if not run.converged]
    return [run.result() for run in runs]


def _update(rows: Rows, runs: Sequence[_Run], rule: Rule) -> None:
    descending = [run for run in runs if not run.corrects(rule)]
    for run in runs:
        run.exact = run.corrects(rule)
        if run.exact:
            run.coef = run.solver.fit(run.kept)
    if not descending:
        return
    pulls = np.column_stack([run.kept * run.residuals for run in descending])
    downhill = np.asarray(rows.design.X.T @ pulls)
    along = np.asarray(rows.design.X @ downhill)
    for run, direction, change in zip(descending, downhill.T, along.T, strict=True):
        curvature = float(np.sum(np.square(change[run.kept])))
        step = float(direction @ direction) / curvature if curvature > 0 else 0.0
        run.coef = run.coef + step * direction


class _Run:
    """TORRENT at one ratio, between two passes over the rows."""

    def __init__(self, rows: Rows, solver: SubsetLeastSquares, size: int, kept: Mask) -> None:
        self.solver = solver
        self.size = size
        self.kept = kept
        self.n_new = rows.n_samples
        self.coef = np.zeros(rows.n_coef)
        self.residuals: Vector = rows.y
        self.rounding = rows.rounding
        self.exact = False
        self.n_iter = 0
        self.converged = False

    def corrects(self, rule: Rule) -> bool:
        """Return whether the next update is least squares."""
        few_new = self.n_new <= rule.switch * len(self.kept)
        return rule.variant == "fc" or (rule.variant == "hybrid" and few_new)

    def keep(self, residuals: Vector, rule: Rule) -> None:
        """Keep the rows of smallest residual and note whether anything still moves."""
        sizes, before = np.abs(residuals), np.abs(self.residuals)
        now = np.zeros(len(sizes), dtype=bool)
        now[_smallest(sizes, self.size)] = True
        first = self.n_iter == 0
        # The set of all rows, at the start, was no choice: what is kept first is all new.
        self.n_new = self.size if first else int(np.count_nonzero(now & ~self.kept))
        repeats = self.exact and np.array_equal(now, self.kept)
        moved = float(np.linalg.norm((sizes - before)[now]))
        self.n_iter += 1
        least = max(rule.tol * len(sizes), self.rounding)
        self.converged = repeats or (moved <= least and not first)
        self.kept, self.residuals = now, residuals

    def result(self) -> RowsFit:
        """Return where the run ended."""
        coef = self.solver.refined(self.coef) if self.exact else self.coef
        rank = self.solver.rank if self.exact else len(self.coef)
        return RowsFit(coef, self.kept, self.n_iter, self.converged, rank)


def _smallest(values: Vector, count: int) -> Any:
    """Return the positions of the smallest values; equal ones enter in their order."""
    if count >= len(values):
        return slice(None)
    bound = np.partition(values, count - 1)[count - 1]
    below = np.flatnonzero(values < bound)
    level = np.flatnonzero(values == bound)[: count - below.size]
    return np.concatenate([below, level])


def _all_ratios(model: Any) -> MethodFit:
    """Return every run of TORR25: the paper averages their errors."""
    pairs = zip(model.ratio_coef_, model.ratio_intercept_, strict=True)
    return MethodFit(tuple(Coefficients(coef, float(intercept)) for coef, intercept in pairs))


TOLD = "the true corruption ratio of every batch"
METHODS = (
    Method(
        "torr",
        "TORR",
        lambda told: Torrent(corruption_ratio=told.ratios, fit_intercept=told.fit_intercept),
        told=TOLD,
        needs_unit=True,
        compare=("torrent", "TORRENT"),
        order=5,
        cost=0.4,
    ),
    Method(
        "torr25",
        "TORR25",
        lambda told: Torrent25(corruption_ratio=told.ratios, fit_intercept=told.fit_intercept),
        read=_all_ratios,
        told=TOLD + ", up to 25 %",
        needs_unit=True,
        compare=("torrent25", "TORRENT, ratios 25 % around"),
        order=6,
        cost=4.0,
    ),
    Method(
        "torr-pooled",
        "TORR, pooled",
        lambda told: Torrent(
            corruption_ratio=told.corruption_ratio,
            scope="pooled",
            fit_intercept=told.fit_intercept,
        ),
        told="the true corruption ratio",
        needs_unit=True,
        order=13,
        cost=0.5,
    ),
)
