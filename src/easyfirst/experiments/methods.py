"""The methods of the comparison, each configured as the paper or its authors' programs do."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.baselines import (
    DRLR,
    ORLR,
    RLHH,
    SPL,
    STIR,
    SVAM,
    LeastSquares,
    Torrent,
    Torrent25,
    Zeros,
)
from easyfirst.contracts import Matrix, Vector
from easyfirst.estimators import SelfPacedRegressor
from easyfirst.experiments.base import Coefficients, Fit, Method, Problem
from easyfirst.schedules import Geometric

ROWS_PER_COEF = 3  # that a ratio handed to a method leaves at least, so that it can be fitted
FIRST_PACE = 0.012  # where the paper's fig. 2 begins
UNCONVERGED = {"rho": 1.0, "over_relaxation": 1.0, "max_iter": 50}

RATIO = "the true corruption ratio of every batch"
SCALE = "a pace that fits the noise scale of the data"


def _told_ratios(problem: Problem) -> list[float]:
    n_coef = problem.X.shape[1] + problem.fit_intercept
    sizes = np.unique(problem.batches, return_counts=True)[1]
    most = np.maximum(1.0 - ROWS_PER_COEF * n_coef / sizes, 0.0)
    return [float(ratio) for ratio in np.minimum(problem.batch_ratios(), most)]


def _only_clean(problem: Problem) -> tuple[Matrix, Vector, NDArray[np.intp]]:
    rows = problem.clean
    return problem.X[rows], problem.y[rows], problem.batches[rows]


def _uncorrupted(problem: Problem) -> tuple[Matrix, Vector, NDArray[np.intp]]:
    if problem.y_clean is None:
        raise ValueError("this experiment keeps no responses from before the corruption")
    return problem.X, problem.y_clean, problem.batches


def _default(problem: Problem, setting: float | None) -> Any:
    del setting
    return SelfPacedRegressor(fit_intercept=problem.fit_intercept, engine="inline")


def _paper(problem: Problem, setting: float | None) -> Any:
    del setting
    return SelfPacedRegressor.paper(fit_intercept=problem.fit_intercept, engine="inline")


def _unconverged(problem: Problem, setting: float | None) -> Any:
    return _paper(problem, setting).set_params(**UNCONVERGED)


def _paper_until(problem: Problem, setting: float | None) -> Any:
    """Return the paper's method, with a pace that ends at the setting.

    The Gram solver gives what a converged ADMM gives, in less time.
    """
    if setting is None:
        raise ValueError("this method needs the pace at which to end")
    pace = Geometric(start=min(FIRST_PACE, setting), factor=1.1, ceiling=setting)
    return SelfPacedRegressor.paper(
        fit_intercept=problem.fit_intercept, engine="inline", solver="gram", pace=pace
    )


def _torrent(problem: Problem, setting: float | None) -> Any:
    del setting
    return Torrent(corruption_ratio=_told_ratios(problem), fit_intercept=problem.fit_intercept)


def _torrent_pooled(problem: Problem, setting: float | None) -> Any:
    del setting
    ratio = min(float(1.0 - problem.clean.mean()), max(_told_ratios(problem)))
    return Torrent(corruption_ratio=ratio, scope="pooled", fit_intercept=problem.fit_intercept)


def _torrent25(problem: Problem, setting: float | None) -> Any:
    del setting
    return Torrent25(corruption_ratio=_told_ratios(problem), fit_intercept=problem.fit_intercept)


@dataclass(frozen=True)
class _Plain:
    """A baseline with fixed parameters; a class, because it has to travel between processes."""

    kind: type
    parameters: tuple[tuple[str, Any], ...] = ()

    def __call__(self, problem: Problem, setting: float | None) -> Any:
        del setting
        return self.kind(fit_intercept=problem.fit_intercept, **dict(self.parameters))


def _read_one(model: Any) -> Fit:
    return Fit((Coefficients(np.asarray(model.coef_), float(model.intercept_)),))


def _read_ratios(model: Any) -> Fit:
    """Return every run of TORR25: the paper averages their errors."""
    pairs = zip(model.ratio_coef_, model.ratio_intercept_, strict=True)
    return Fit(tuple(Coefficients(coef, float(intercept)) for coef, intercept in pairs))


def _read_lagrangian(model: Any) -> Fit:
    return Fit(_read_one(model).models, {"lagrangian": model.history_.rounds[-1].lagrangian})


_ALL = (
    Method(
        "oracle",
        "oracle: least squares on the clean rows",
        _Plain(LeastSquares),
        rows=_only_clean,
        kind="limit",
        cost=0.1,
    ),
    Method(
        "clean-labels",
        "limit: least squares on uncorrupted labels",
        _Plain(LeastSquares),
        rows=_uncorrupted,
        kind="limit",
        cost=0.1,
    ),
    Method(
        "clean-labels-easyfirst",
        "limit: easyfirst on uncorrupted labels",
        _default,
        rows=_uncorrupted,
        kind="limit",
        cost=0.8,
    ),
    Method("easyfirst", "easyfirst, default", _default, kind="ours", cost=0.8),
    Method(
        "dspl",
        "DSPL, converged",
        _paper,
        told=SCALE,
        needs_unit=True,
        cost=1.3,
    ),
    Method("dspl-as-is", "DSPL, converged, y as it is", _paper, cost=1.3),
    Method(
        "dspl-rho1",
        "DSPL, rho = 1, 50 iterations",
        _unconverged,
        told=SCALE,
        needs_unit=True,
        cost=1.8,
    ),
    Method(
        "dspl-until",
        "DSPL, pace ends here",
        _paper_until,
        read=_read_lagrangian,
        told=SCALE,
        needs_setting=True,
        cost=1.0,
    ),
    Method("torr", "TORR", _torrent, told=RATIO, needs_unit=True, cost=0.4),
    Method(
        "torr-pooled",
        "TORR, pooled",
        _torrent_pooled,
        told="the true corruption ratio",
        needs_unit=True,
        cost=0.5,
    ),
    Method(
        "torr25",
        "TORR25",
        _torrent25,
        read=_read_ratios,
        told=RATIO + ", up to 25 %",
        needs_unit=True,
        cost=4.0,
    ),
    Method("rlhh", "RLHH", _Plain(RLHH), needs_unit=True, cost=0.6),
    Method(
        "drlr",
        "DRLR",
        _Plain(DRLR, (("consolidation", "mean"),)),
        needs_unit=True,
        cost=0.1,
    ),
    Method("drlr-median", "DRLR, geometric median", _Plain(DRLR), needs_unit=True, cost=0.1),
    Method("orlr", "ORLR", _Plain(ORLR), needs_unit=True, cost=0.1),
    Method(
        "spl",
        "SPL",
        _Plain(SPL, (("start", 1.0), ("ceiling", 1.0))),
        told=SCALE,
        needs_unit=True,
        cost=0.5,
    ),
    Method("spl-growing", "SPL, growing pace", _Plain(SPL), told=SCALE, needs_unit=True, cost=0.5),
    Method(
        "spl-pooled",
        "SPL, pooled",
        _Plain(SPL, (("scope", "pooled"),)),
        told=SCALE,
        needs_unit=True,
        cost=0.5,
    ),
    Method("stir", "STIR", _Plain(STIR), needs_unit=True, cost=0.6),
    Method("svam", "SVAM", _Plain(SVAM), needs_unit=True, cost=0.8),
    Method("least-squares", "least squares", _Plain(LeastSquares), cost=0.1),
    Method("zeros", "zeros", _Plain(Zeros), cost=0.02),
)
METHODS = {method.name: method for method in _ALL}

# What runs in every recovery experiment, in the order of the tables.
RECOVERY = (
    "oracle",
    "easyfirst",
    "dspl",
    "torr",
    "torr25",
    "rlhh",
    "drlr",
    "spl",
    "spl-growing",
    "drlr-median",
    "orlr",
    "torr-pooled",
    "spl-pooled",
    "stir",
    "svam",
    "least-squares",
    "zeros",
)


@dataclass(frozen=True)
class Outcome:
    """Figures of one fit, how long it took, and "ok" or why there are none."""

    figures: dict[str, float]
    seconds: float
    status: str


def run_method(method: Method, problem: Problem, setting: float | None) -> Outcome:
    """Fit and judge. A method that fails has an infinite error and the reason as its status."""
    X, y, batches = (problem.X, problem.y, problem.batches)
    if method.rows is not None:
        X, y, batches = method.rows(problem)
    unit = problem.unit if method.needs_unit else 1.0
    estimator = method.build(problem, setting)
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # baselines that do not settle are part of the story
            estimator.fit(X, y / unit, batches=batches)
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        return Outcome({"error": np.inf}, time.perf_counter() - start, f"failed: {error}")
    seconds = time.perf_counter() - start
    fit = (method.read or _read_one)(estimator)
    models = [Coefficients(model.coef * unit, model.intercept * unit) for model in fit.models]
    measured = [problem.measure(model) for model in models]
    means = {name: float(np.mean([each[name] for each in measured])) for name in measured[0]}
    return Outcome(means | dict(fit.extra), seconds, "ok")
