"""The methods that are timed side by side: each maps (X, y, clean) to coefficients."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import HuberRegressor, LinearRegression, Ridge, SGDRegressor

from easyfirst import SelfPacedRegressor
from easyfirst.baselines import Torrent

NOISE = 0.1
FLOOR = "normal equations (floor)"
ORACLE = "oracle (clean rows)"
DEFAULT = "**SelfPacedRegressor()**"
PAPER = "**SelfPacedRegressor.paper(n_batches=10)**"
LEAST_SQUARES = "scikit-learn LinearRegression"
HUBER = "scikit-learn HuberRegressor"
NAIVE = "self-paced learning, naive"

Fit = Callable[..., np.ndarray]


def make(n: int, p: int, ratio: float, seed: int = 0):
    """Return X, y, which rows are clean, and the true coefficients."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    coef = rng.random(p)
    coef /= np.linalg.norm(coef)
    y = X @ coef + NOISE * rng.standard_normal(n)
    clean = rng.random(n) >= ratio
    reach = 5 * np.abs(y[clean]).max()
    y[~clean] += rng.uniform(-reach, reach, size=int(np.sum(~clean)))
    return X, y, clean, coef


def normal_equations(X, y, clean):
    """Solve for all rows by NumPy."""
    return np.linalg.solve(X.T @ X, X.T @ y)


def oracle(X, y, clean):
    """Solve for the clean rows by NumPy."""
    return normal_equations(X[clean], y[clean], clean)


def naive_self_paced(X, y, clean):
    """Fit the paper's schedule on pooled rows, selecting and solving afresh every round."""
    coef = np.linalg.solve(X.T @ X + np.eye(X.shape[1]), X.T @ y)
    pace, selected = 0.1, None
    for _ in range(200):
        now = np.square(y - X @ coef) < pace
        if pace >= 1.0 and selected is not None and np.array_equal(now, selected):
            break
        rows, target, selected = X[now], y[now], now
        coef = np.linalg.solve(rows.T @ rows + np.eye(X.shape[1]), rows.T @ target)
        pace = min(1.1 * pace, 1.0)
    return coef


def torrent(X, y, clean):
    """Fit TORRENT with the true share of corrupted rows, which nobody knows."""
    return Torrent(corruption_ratio=float(np.mean(~clean))).fit(X, y).coef_


def skglm_huber(X, y, clean):
    """Fit skglm's Huber loss with the threshold that the true noise asks for."""
    from skglm import GeneralizedLinearEstimator
    from skglm.datafits import Huber
    from skglm.penalties import L1
    from skglm.solvers import AndersonCD

    solver = AndersonCD(fit_intercept=False, tol=1e-6)
    model = GeneralizedLinearEstimator(Huber(1.345 * NOISE), L1(1e-12), solver)
    return model.fit(X, y).coef_


def of(model) -> Fit:
    """Return a fit function for an estimator, created afresh each time."""
    return lambda X, y, clean=None: model().fit(X, y).coef_


DENSE: dict[str, Fit] = {
    FLOOR: normal_equations,
    ORACLE: oracle,
    "scikit-learn Ridge(cholesky)": of(lambda: Ridge(alpha=1e-9, solver="cholesky")),
    LEAST_SQUARES: of(LinearRegression),
    HUBER: of(lambda: HuberRegressor(max_iter=1000)),
    "scikit-learn SGDRegressor(huber)": of(lambda: SGDRegressor(loss="huber", random_state=0)),
    "TORRENT given the true ratio": torrent,
}
SPARSE: dict[str, Fit] = {
    "scikit-learn Ridge(sparse_cg)": of(lambda: Ridge(alpha=1e-6, solver="sparse_cg")),
    "scikit-learn SGDRegressor(huber)": of(lambda: SGDRegressor(loss="huber", random_state=0)),
    DEFAULT: of(SelfPacedRegressor),
}
LEFT_OUT: list[str] = []
if importlib.util.find_spec("skglm"):
    DENSE["skglm Huber given the noise"] = skglm_huber
else:
    LEFT_OUT.append("skglm")
DENSE |= {
    NAIVE: naive_self_paced,
    PAPER: of(lambda: SelfPacedRegressor.paper(n_batches=10)),
    DEFAULT: of(SelfPacedRegressor),
}
