"""Corruption that the paper did not test: other models, one-sided errors, leverage, odd noise."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from sklearn.utils import check_random_state

from easyfirst.contracts import Matrix, Vector
from easyfirst.datasets.synthetic import REACH, CorruptedRegression

Kind = Literal[
    "other_model",
    "one_sided",
    "scattered_leverage",
    "leverage_cluster",
    "heavy_tails",
    "heteroscedastic",
    "laplace",
    "exponential",
    "lognormal",
    "proportional",
]
FAR = 10.0  # standard deviations from the centre of X at which bad leverage lies
CLUSTER_VARIANCE = 0.25
CORRUPTED_NOISE = 0.1
LEVEL = 4.0  # intercept of "proportional", so that predictions are positive
LOGARITHMIC = 0.5  # standard deviation of the logarithm of "lognormal"


def make_adversarial_regression(
    kind: Kind,
    n_samples: int = 20_000,
    n_features: int = 100,
    *,
    corruption_ratio: float = 0.2,
    n_batches: int = 10,
    noise_variance: float = 0.1,
    random_state: int | np.random.RandomState | None = None,
) -> CorruptedRegression:
    """Draw linear data with one kind of hostile corruption.

    Coefficients and X are as in `make_corrupted_regression`; R is five times the largest clean
    |y|. Rows are assigned to batches at random.

    Parameters
    ----------
    kind
        "other_model": corrupted rows follow y = X @ other + noise, with standard normal `other`.
        "one_sided": y + U(0, R). "scattered_leverage": every coordinate of x scaled to ten
        standard deviations, y uniform in +-R. "leverage_cluster": x = 10 e_1 + N(0, I / 4) and
        y = -2 R, so that they agree on a wrong slope. The others have uniform corruption as in the
        paper and clean noise of mean zero and the same variance: "heavy_tails" is Student's t(3),
        "laplace", "exponential" and "lognormal" (of sigma 1/2) are named after what they are,
        "heteroscedastic" has a standard deviation proportional to exp(x_1 / 2), and
        "proportional" one proportional to the expected y, which is 4 + X @ coef there.
    n_samples, n_features, n_batches
        Sizes, in all.
    corruption_ratio
        Share of corrupted rows.
    noise_variance
        Variance of the clean noise.
    random_state
        Seed.

    Examples
    --------
    >>> data = make_adversarial_regression("one_sided", 1000, 5, random_state=0)
    >>> int((~data.clean).sum())
    200
    """
    if kind not in get_args(Kind):
        raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}, got {kind!r}")
    if not 0 <= corruption_ratio < 1:
        raise ValueError(f"corruption_ratio must lie in [0, 1), got {corruption_ratio!r}")
    rng = check_random_state(random_state)
    coef = rng.uniform(size=n_features)
    coef /= np.linalg.norm(coef)
    X = rng.standard_normal((n_samples, n_features))
    level = LEVEL if kind == "proportional" else 0.0
    expected = X @ coef + level
    noise = _noise(kind, X, expected, rng) * np.sqrt(noise_variance)
    y = expected + noise
    bad = rng.permutation(n_samples)[: round(n_samples * corruption_ratio)]
    reach = REACH * float(np.max(np.abs(y)))
    X[bad], y[bad] = _corrupt(kind, X[bad], y[bad], noise[bad], coef, reach, rng, level)
    clean = np.ones(n_samples, dtype=bool)
    clean[bad] = False
    batches = np.sort(rng.randint(n_batches, size=n_samples))
    return CorruptedRegression(X=X, y=y, batches=batches, clean=clean, coef=coef)


def _noise(kind: str, X: Matrix, expected: Vector, rng: np.random.RandomState) -> Vector:
    """Return clean noise of mean zero and variance one."""
    n = len(X)
    if kind == "heavy_tails":
        return np.asarray(rng.standard_t(3, size=n) / np.sqrt(3.0))
    if kind == "laplace":
        return np.asarray(rng.laplace(size=n) / np.sqrt(2.0))
    if kind == "exponential":
        return np.asarray(rng.exponential(size=n) - 1.0)
    if kind == "lognormal":
        growth = np.exp(LOGARITHMIC**2)
        logarithm = LOGARITHMIC * rng.standard_normal(n)
        return np.asarray((np.exp(logarithm) / np.sqrt(growth) - 1.0) / np.sqrt(growth - 1.0))
    noise = rng.standard_normal(n)
    if kind == "heteroscedastic":
        return np.asarray(noise * np.exp(X[:, 0] / 2.0) / np.exp(0.25))
    if kind == "proportional":
        return np.asarray(noise * expected / np.sqrt(LEVEL**2 + 1.0))
    return noise


def _corrupt(
    kind: str,
    X: Matrix,
    y: Vector,
    noise: Vector,
    coef: Vector,
    reach: float,
    rng: np.random.RandomState,
    level: float,
) -> tuple[Matrix, Vector]:
    """Return what becomes of the rows that are corrupted."""
    n, p = X.shape
    if kind == "other_model":
        other = rng.standard_normal(p)
        return X, np.asarray(X @ other + noise)
    if kind == "one_sided":
        return X, np.asarray(y + rng.uniform(0, reach, size=n))
    if kind == "scattered_leverage":
        return FAR * X, np.asarray(rng.uniform(-reach, reach, size=n))
    if kind == "leverage_cluster":
        cluster = np.sqrt(CLUSTER_VARIANCE) * rng.standard_normal((n, p))
        cluster[:, 0] += FAR
        return cluster, np.full(n, -2.0 * reach)
    quiet = CORRUPTED_NOISE * rng.standard_normal(n)
    return X, np.asarray(X @ coef + level + quiet + rng.uniform(-reach, reach, size=n))
