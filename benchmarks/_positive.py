"""Positive targets of known nature, and mistakes that leave them positive."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Rng = np.random.Generator


def _design(rng: Rng, n: int) -> NDArray[np.float64]:
    return np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 2, (n, 2))])


def _additive(noise: Callable[[Rng, int], Vector], height: float) -> Callable[[Rng, int], tuple]:
    """Return targets height + X b + noise, of which a linear model is right."""

    def make(rng: Rng, n: int) -> tuple[NDArray[np.float64], Vector]:
        X = _design(rng, 3 * n)
        y = height + X @ [1.0, -0.6, 0.4, 0.8, -0.5] + noise(rng, 3 * n)
        kept = np.flatnonzero(y > 0.05)[:n]
        return X[kept], y[kept]

    return make


def _multiplicative(spread: float, effect: float, power: float) -> Callable[[Rng, int], tuple]:
    """Return targets whose square root or logarithm is linear with even noise."""

    def make(rng: Rng, n: int) -> tuple[NDArray[np.float64], Vector]:
        X = _design(rng, n)
        linear = effect * (X @ [1.0, -0.6, 0.4, 0.8, -0.5]) + spread * rng.normal(size=n)
        return X, np.exp(5.0 + linear) if power == 0 else np.square(np.maximum(6.0 + linear, 0.1))

    return make


RIGHT_AS_IT_IS = {
    "normal, mean 4 sd": _additive(lambda rng, n: 0.5 * rng.normal(size=n), 6.0),
    "normal, mean 2.5 sd": _additive(lambda rng, n: rng.normal(size=n), 4.5),
    "t(3)": _additive(lambda rng, n: 0.4 * rng.standard_t(3, size=n), 6.0),
    "Laplace": _additive(lambda rng, n: 0.4 * rng.laplace(size=n), 6.0),
    "normal, mean 50 sd": _additive(lambda rng, n: 0.5 * rng.normal(size=n), 75.0),
}
BETTER_LOGARITHM = {
    "log-normal, noise 0.2": _multiplicative(0.2, 0.3, 0.0),
    "log-normal, noise 0.5": _multiplicative(0.5, 0.5, 0.0),
    "log-normal, noise 0.4, weak": _multiplicative(0.4, 0.15, 0.0),
}
BETTER_ROOT = {"squared normal": _multiplicative(0.7, 1.0, 0.5)}


def corrupted(y: Vector, kind: str, share: float, rng: Rng) -> Vector:
    """Return y with a share of it wrong."""
    y, n = y.copy(), len(y)
    rows = rng.permutation(n)[: round(share * n)]
    if kind == "times 10":
        y[rows] *= 10.0
    elif kind == "divided by 10":
        y[rows] /= 10.0
    elif kind == "either":
        y[rows] *= np.where(rng.random(rows.size) < 0.5, 10.0, 0.1)
    elif kind == "times 1000":
        y[rows] *= 1000.0
    elif kind == "uniform":
        y[rows] = rng.uniform(0.0, 3.0 * y.max(), rows.size)
    elif kind == "shuffled":
        y[rows] = y[rng.permutation(rows)]
    elif kind == "capped":
        y = np.minimum(y, np.quantile(y, 1.0 - share))
    elif kind == "one value":
        y[rows] = np.round(np.median(y), 1)
    elif kind == "block shifted":
        start = int(rng.integers(0, n - rows.size))
        y[start : start + rows.size] += 3.0 * y.std()
    elif kind == "doubled":
        y[rows] *= 2.0
    return y


KINDS = (
    "times 10",
    "divided by 10",
    "either",
    "times 1000",
    "uniform",
    "shuffled",
    "capped",
    "one value",
    "block shifted",
    "doubled",
)
