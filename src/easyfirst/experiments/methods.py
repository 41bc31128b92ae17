"""Running one method on one problem of the comparison."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from easyfirst.baselines.method import Coefficients, Method, Told
from easyfirst.contracts import Matrix, Vector
from easyfirst.experiments.base import BenchmarkProblem

ROWS_PER_COEF = 3  # that a ratio handed to a method leaves at least, so that it can be fitted


def _told(problem: BenchmarkProblem, last_pace: float | None) -> Told:
    n_coef = problem.X.shape[1] + problem.fit_intercept
    sizes = np.unique(problem.batches, return_counts=True)[1]
    most = np.maximum(1.0 - ROWS_PER_COEF * n_coef / sizes, 0.0)
    ratios = [float(ratio) for ratio in np.minimum(problem.batch_ratios(), most)]
    overall = min(float(1.0 - problem.clean.mean()), max(ratios))
    return Told(problem.fit_intercept, overall, ratios, last_pace, engine="inline")


def _rows(problem: BenchmarkProblem, method: Method) -> tuple[Matrix, Vector, NDArray[np.intp]]:
    if method.rows == "clean":
        rows = problem.clean
        return problem.X[rows], problem.y[rows], problem.batches[rows]
    if method.rows == "all":
        return problem.X, problem.y, problem.batches
    if problem.y_clean is None:
        raise ValueError("this experiment keeps no responses from before the corruption")
    return problem.X, problem.y_clean, problem.batches


@dataclass(frozen=True)
class Outcome:
    """Figures of one fit, how long it took, and "ok" or why there are none."""

    figures: dict[str, float]
    seconds: float
    status: str


def run_method(method: Method, problem: BenchmarkProblem, setting: float | None) -> Outcome:
    """Fit and judge. A method that fails has an infinite error and the reason as its status."""
    X, y, batches = _rows(problem, method)
    unit = problem.unit if method.needs_unit else 1.0
    estimator = method.build(_told(problem, setting))
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # baselines that do not settle are part of the story
            estimator.fit(X, y / unit, **({"batches": batches} if method.takes_batches else {}))
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        return Outcome({"error": np.inf}, time.perf_counter() - start, f"failed: {error}")
    seconds = time.perf_counter() - start
    fit = method.read(estimator)
    models = [Coefficients(model.coef * unit, model.intercept * unit) for model in fit.models]
    measured = [problem.measure(model) for model in models]
    means = {name: float(np.mean([each[name] for each in measured])) for name in measured[0]}
    return Outcome(means | dict(fit.extra), seconds, "ok")
