"""Kinds of small data: how rows are drawn, which of them are wrong, and in what way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SIGNAL = 2.0  # norm of the coefficients, in standard deviations of the noise
FAR, OFF = 8.0, 15.0  # how far out bad leverage lies, and how far off its y is

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Spoil = Callable[[np.random.Generator, Array, Array, Flags], None]
Noise = Callable[[np.random.Generator, Array, Array], Array]


def gaussian_design(rng: np.random.Generator, n: int, p: int) -> Array:
    """Return independent normal columns."""
    return rng.normal(size=(n, p))


def normal_noise(rng: np.random.Generator, X: Array, signal: Array) -> Array:
    """Return noise of standard deviation one."""
    return rng.normal(size=len(X))


@dataclass(frozen=True)
class Cell:
    """A kind of data; `spoil` corrupts the rows that are not clean, in place."""

    name: str
    n: int
    p: int
    share: float
    spoil: Spoil
    design: Callable[[np.random.Generator, int, int], Array] = gaussian_design
    pick: Callable[[np.random.Generator, Array, float], Flags] | None = None
    noise: Noise = normal_noise

    def draw(self, seed: int) -> tuple[Array, Array, Flags, Array]:
        """Return X, y, which rows are clean, and the coefficients with the intercept last."""
        rng = np.random.default_rng([seed, self.n, self.p])
        X = self.design(rng, self.n, self.p)
        coef = rng.normal(size=self.p)
        coef *= SIGNAL / np.linalg.norm(coef)
        signal = X @ coef + 1.0
        y = signal + self.noise(rng, X, signal)
        if self.pick is None:
            bad = np.zeros(self.n, dtype=bool)
            bad[rng.choice(self.n, round(self.share * self.n), replace=False)] = True
        else:
            bad = self.pick(rng, y, self.share)
        self.spoil(rng, X, y, bad)
        return X, y, ~bad, np.append(coef, 1.0)


def nothing(rng: np.random.Generator, X: Array, y: Array, bad: Flags) -> None:
    """Leave all rows as they are."""


def uniform(rng: np.random.Generator, X: Array, y: Array, bad: Flags) -> None:
    """Add U(-30, 30)."""
    y[bad] += rng.uniform(-30, 30, int(bad.sum()))


def shift(by: float) -> Spoil:
    """Return what adds the same number to every bad row."""

    def spoil(rng: np.random.Generator, X: Array, y: Array, bad: Flags) -> None:
        y[bad] += by

    return spoil


def value(to: float) -> Spoil:
    """Return what sets y to one number."""

    def spoil(rng: np.random.Generator, X: Array, y: Array, bad: Flags) -> None:
        y[bad] = to

    return spoil


def capped(rng: np.random.Generator, X: Array, y: Array, bad: Flags) -> None:
    """Set y to the least of the bad ones."""
    y[bad] = y[bad].min()


def copies(rng: np.random.Generator, X: Array, y: Array, bad: Flags) -> None:
    """Make all bad rows copies of one, whose y is wrong."""
    first = np.flatnonzero(bad)[0]
    X[bad], y[bad] = X[first], y[first] + 10.0


def cluster(rng: np.random.Generator, X: Array, y: Array, bad: Flags) -> None:
    """Put the bad rows far out in one direction, tightly, with a y that is far off."""
    n, p = int(bad.sum()), X.shape[1]
    out = rng.normal(size=p)
    X[bad] = FAR * out / np.linalg.norm(out) + 0.1 * rng.normal(size=(n, p))
    y[bad] = y[bad].mean() + OFF + 0.1 * rng.normal(size=n)


def scattered(rng: np.random.Generator, X: Array, y: Array, bad: Flags) -> None:
    """Put the bad rows far out, each in a direction of its own, with the y that they had."""
    X[bad] *= FAR / np.linalg.norm(X[bad], axis=1, keepdims=True)


def good_leverage(rng: np.random.Generator, n: int, p: int) -> Array:
    """Return normal columns in which a tenth of the rows lies far out."""
    X = rng.normal(size=(n, p))
    X[: n // 10] *= FAR / np.sqrt(p)
    return X


def one_hot(rng: np.random.Generator, n: int, p: int) -> Array:
    """Return levels of which most are rare, and one number."""
    share = np.append(0.55, np.linspace(0.01, 0.07, p - 1))
    level = rng.choice(p, n, p=share / share.sum())
    return np.column_stack([np.eye(p)[level][:, 1:], rng.normal(size=n)])


def largest(rng: np.random.Generator, y: Array, share: float) -> Flags:
    """Return the rows of largest y."""
    return np.asarray(y > np.quantile(y, 1.0 - share))


def heavy_tails(rng: np.random.Generator, X: Array, signal: Array) -> Array:
    """Return Student's t(3) of standard deviation one."""
    return rng.standard_t(3, len(X)) / np.sqrt(3.0)


def laplace(rng: np.random.Generator, X: Array, signal: Array) -> Array:
    """Return Laplace noise of standard deviation one."""
    return rng.laplace(scale=np.sqrt(0.5), size=len(X))


def exponential(rng: np.random.Generator, X: Array, signal: Array) -> Array:
    """Return exponential noise of mean zero."""
    return rng.exponential(size=len(X)) - 1.0


def lognormal(rng: np.random.Generator, X: Array, signal: Array) -> Array:
    """Return lognormal(.75) noise of mean zero and standard deviation one."""
    mean, growth = np.exp(0.75**2 / 2), np.exp(0.75**2)
    return (rng.lognormal(sigma=0.75, size=len(X)) - mean) / (mean * np.sqrt(growth - 1.0))


def uneven(rng: np.random.Generator, X: Array, signal: Array) -> Array:
    """Return noise whose size grows with the first column."""
    return np.exp(X[:, 0] / 2.0) * rng.normal(size=len(X))


def proportional(rng: np.random.Generator, X: Array, signal: Array) -> Array:
    """Return noise in proportion to what is predicted."""
    return 0.5 * np.abs(signal) * rng.normal(size=len(X))


KNOWN = [
    Cell("200 x 12 one-hot, uniform 10 %", 200, 12, 0.1, uniform, one_hot),
    Cell("200 x 12 one-hot, uniform 20 %", 200, 12, 0.2, uniform, one_hot),
    Cell("200 x 12 one-hot, uniform 30 %", 200, 12, 0.3, uniform, one_hot),
    Cell("100 x 40, clean", 100, 40, 0.0, nothing),
    Cell("100 x 40, uniform 10 %", 100, 40, 0.1, uniform),
    Cell("100 x 40, uniform 20 %", 100, 40, 0.2, uniform),
    Cell("100 x 40, uniform 30 %", 100, 40, 0.3, uniform),
    Cell("100 x 40, shift 10 sd 20 %", 100, 40, 0.2, shift(10.0)),
    Cell("500 x 5, capped 30 %", 500, 5, 0.3, capped, pick=largest),
    Cell("500 x 5, copies 30 %", 500, 5, 0.3, copies),
    Cell("500 x 5, zeros 30 %", 500, 5, 0.3, value(0.0)),
    Cell("500 x 20, one far value 40 %", 500, 20, 0.4, value(20.0)),
    Cell("100 x 10, one far value 30 %", 100, 10, 0.3, value(20.0)),
    Cell("100 x 10, shift 10 sd 30 %", 100, 10, 0.3, shift(10.0)),
    Cell("200 x 20, shift 10 sd 30 %", 200, 20, 0.3, shift(10.0)),
    Cell("50 x 3, shift 5 sd 30 %", 50, 3, 0.3, shift(5.0)),
    Cell("50 x 3, shift 10 sd 40 %", 50, 3, 0.4, shift(10.0)),
    Cell("500 x 15, cluster 20 %", 500, 15, 0.2, cluster),
    Cell("1000 x 15, cluster 20 %", 1000, 15, 0.2, cluster),
    Cell("500 x 5, cluster 20 %", 500, 5, 0.2, cluster),
    Cell("500 x 5, cluster 30 %", 500, 5, 0.3, cluster),
    Cell("500 x 5, scattered bad leverage 20 %", 500, 5, 0.2, scattered),
    Cell("100 x 5, clean", 100, 5, 0.0, nothing),
    Cell("100 x 5, uniform 40 %", 100, 5, 0.4, uniform),
]
SIZES = ((20, 1), (20, 3), (30, 3), (50, 5), (100, 10), (200, 20))
KINDS: list[tuple[str, float, Spoil]] = [
    ("clean", 0.0, nothing),
    ("uniform 20 %", 0.2, uniform),
    ("uniform 40 %", 0.4, uniform),
    ("shift 5 sd 20 %", 0.2, shift(5.0)),
    ("shift 10 sd 40 %", 0.4, shift(10.0)),
    ("cluster 20 %", 0.2, cluster),
]
NOISES: list[tuple[str, Noise]] = [
    ("t(3)", heavy_tails),
    ("Laplace", laplace),
    ("exponential", exponential),
    ("lognormal", lognormal),
    ("sd exp(x / 2)", uneven),
    ("sd in proportion to the prediction", proportional),
]
FEW = ((24, 20), (40, 20), (60, 20), (100, 20))
CELLS = (
    KNOWN
    + [Cell(f"{n} x {p}, {name}", n, p, share, bad) for n, p in SIZES for name, share, bad in KINDS]
    + [Cell(f"{n} x {p}, one bad leverage point", n, p, 1 / n, cluster) for n, p in SIZES]
    + [Cell(f"{n} x {p}, good leverage", n, p, 0.0, nothing, good_leverage) for n, p in SIZES[2:]]
    + [Cell(f"50 x 3, {name} noise", 50, 3, 0.0, nothing, noise=noise) for name, noise in NOISES]
    + [
        Cell(f"200 x 10, {name} noise", 200, 10, 0.0, nothing, noise=noise)
        for name, noise in NOISES
    ]
    + [Cell(f"{n} x {p}, uniform 10 %", n, p, 0.1, uniform) for n, p in FEW]
)
