"""Clean counts and positive amounts around a mean, beside corrupted ones.

Clean rows follow the distribution of their loss: Poisson, or negative binomial where counts vary
more, or gamma. A corrupted value is either one of another row, as where values were swapped, and
then has the distribution that clean values have together; or it lies anywhere, by a step function
of y. Neither depends on what is predicted. Whether a value is zero is a step of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import digamma, gammaln, polygamma, xlogy

from easyfirst.contracts import Matrix, Vector
from easyfirst.summaries import histogram

STEPS_OF_COUNTS = 8, 1.35, 80  # single counts, then the growth and number of steps
OCTAVES = 30  # below and above the spread of amounts, in half ones
# Overdispersions at which counts are compared with their variance.
DISPERSIONS = np.concatenate([[0.0], np.geomspace(1e-3, 20.0, 60)])
PRICE = 1.0  # rows that a step, and that values of other rows, must explain to be believed in
FLOOR = 0.3  # rows per step that are corrupted whatever the data say: no row is ever certain
FIRST_SHARE, FIRST_STRAYED = 0.9, 0.05
FIRST_DISPERSION = 0.3
LARGEST_PREDICTION = 600.0
LEAST = 1e-300
STEPS_OF_NEWTON = 50


@dataclass(frozen=True)
class CountNoise:
    """How clean and corrupted values lie around exp(prediction); without a family, none is known.

    Parameters
    ----------
    family
        "poisson" or "gamma".
    share, strayed
        The shares of clean rows, and of rows with the value of another one.
    dispersion
        Of clean rows: the variance is mean + dispersion mean**2 of counts, dispersion mean**2 of
        amounts.
    edges, usual, levels
        Steps of y: how densely clean values lie there, and corrupted rows per unit of y over all
        rows; usual[k] and levels[k] hold from edges[k] on.
    """

    family: str = ""
    share: float = 1.0
    strayed: float = 0.0
    dispersion: float = 0.0
    edges: tuple[float, ...] = ()
    usual: tuple[float, ...] = ()
    levels: tuple[float, ...] = ()

    @classmethod
    def first(cls, family: str, anchor: float) -> Self:
        """Return what is assumed before any row was seen: any value may be wrong."""
        edges = steps_of(family, anchor)
        some = tuple((0.05 / len(edges) / np.diff([*edges, 4.0 * edges[-1]])).tolist())
        dispersion = 0.0 if family == "poisson" else FIRST_DISPERSION
        return cls(family, FIRST_SHARE, FIRST_STRAYED, dispersion, edges, some, some)

    @property
    def widths(self) -> Vector:
        """The width of each step; the last one ends somewhere."""
        return np.diff(np.append(self.edges, 4.0 * self.edges[-1]))

    def place(self, y: Vector) -> NDArray[np.intp]:
        """Return the number of each value's step."""
        return np.maximum(np.searchsorted(self._edges, y, side="right") - 1, 0)

    def log_density(self, y: Vector, prediction: Vector) -> Vector:
        """Return the logarithm of the density of clean values."""
        eta = np.clip(prediction, -LARGEST_PREDICTION, LARGEST_PREDICTION)
        if self.family == "gamma":
            k = 1.0 / self.dispersion
            constant = k * np.log(k) - gammaln(k)
            return np.asarray(constant + (k - 1.0) * np.log(y) - k * eta - k * _ratio(y, eta))
        mu = np.exp(eta)
        if self.dispersion == 0.0:
            return np.asarray(y * eta - mu - gammaln(y + 1.0))
        r = 1.0 / self.dispersion
        level = np.log1p(mu / r)
        constant = gammaln(y + r) - gammaln(r) - gammaln(y + 1.0) - y * np.log(r)
        return np.asarray(constant + y * (eta - level) - r * level)

    def densities(self, y: Vector, prediction: Vector) -> tuple[Vector, Vector, Vector]:
        """Return those of clean rows, of values of other rows, and of any others, over all rows."""
        place = self.place(y)
        with np.errstate(under="ignore"):
            clean = self.share * np.exp(self.log_density(y, prediction))
        return clean, self.strayed * self._usual[place], self._levels[place]

    def posterior(self, y: Vector, prediction: Vector) -> Vector:
        """Return the probability that each row is clean."""
        clean, strayed, anywhere = self.densities(y, prediction)
        return np.asarray(clean / np.maximum(clean + strayed + anywhere, LEAST))

    def with_share(self, share: float) -> Self:
        """Return the same for rows of which another share is clean."""
        times = (1.0 - share) / max(1.0 - self.share, LEAST)
        levels = tuple((times * self._levels).tolist())
        return replace(self, share=share, strayed=times * self.strayed, levels=levels)

    def residual(self, y: Vector, prediction: Vector) -> Vector:
        """Return the signed root of each row's deviance: about a standard normal if clean."""
        eta = np.clip(prediction, -LARGEST_PREDICTION, LARGEST_PREDICTION)
        mu, a = np.exp(eta), self.dispersion
        if self.family == "gamma":
            ratio = _ratio(y, eta)
            deviance = 2.0 / a * (ratio - 1.0 - np.log(np.maximum(ratio, LEAST)))
        elif a == 0.0:
            deviance = 2.0 * (xlogy(y, y) - y * eta - y + mu)
        else:
            level = np.log1p(a * y) - np.log1p(a * mu)
            deviance = 2.0 * (xlogy(y, y) - y * eta - (y + 1.0 / a) * level)
        return np.copysign(np.sqrt(np.maximum(deviance, 0.0)), y - mu)

    def sharpness(self, prediction: Vector) -> Vector:
        """Return by how much the log density moves with the slope of the loss, minus one half."""
        if self.family == "gamma":
            return np.full(prediction.shape, 1.0 / self.dispersion)
        eta = np.clip(prediction, -LARGEST_PREDICTION, LARGEST_PREDICTION)
        return np.asarray(1.0 / (1.0 + self.dispersion * np.exp(eta)))

    def interval(self, prediction: Vector, coverage: float) -> Matrix:
        """Return the quantiles between which a clean value lies with a probability."""
        eta = np.clip(prediction, -LARGEST_PREDICTION, LARGEST_PREDICTION)
        mu, a = np.exp(eta)[:, None], self.dispersion
        levels = np.array([0.5 - 0.5 * coverage, 0.5 + 0.5 * coverage])
        if self.family == "gamma":
            found = stats.gamma.ppf(levels, 1.0 / a, scale=a * mu)
        elif a == 0.0:
            found = stats.poisson.ppf(levels, mu)
        else:
            found = stats.nbinom.ppf(levels, 1.0 / a, 1.0 / (1.0 + a * mu))
        return np.asarray(np.maximum(found, 0.0))

    @cached_property
    def _edges(self) -> Vector:
        return np.array(self.edges)

    @cached_property
    def _usual(self) -> Vector:
        return np.array(self.usual)

    @cached_property
    def _levels(self) -> Vector:
        return np.array(self.levels)


NO_COUNTS = CountNoise()


@dataclass(frozen=True, eq=False)
class CountTally:
    """What the rows of a batch say about the noise, by sample weight.

    `spread` holds sums of squared residuals over the variance at each of `DISPERSIONS`, or the sum
    of the deviances of amounts. The histograms are those of residuals, of clean and of all rows.
    """

    clean: float
    strayed: float
    total: float
    overlap: float  # sum of v (1 - v): rows that are neither clearly clean nor clearly wrong
    information: float  # about the share
    log_likelihood: float
    usual: Vector
    anywhere: Vector
    spread: Vector
    clean_residuals: Matrix
    residuals: Matrix

    @classmethod
    def of(cls, noise: CountNoise, y: Vector, prediction: Vector, v: Vector, s: Vector) -> Self:
        """Count rows whose probabilities of being clean are given."""
        clean, strayed, anywhere = noise.densities(y, prediction)
        wrong = (1.0 - v) / np.maximum(strayed + anywhere, LEAST)
        place, n = noise.place(y), len(noise.edges)
        residual, kept = noise.residual(y, prediction), s * v
        share = min(max(noise.share, 1e-6), 1.0 - 1e-6)
        score = v / share - (1.0 - v) / (1.0 - share)
        return cls(
            clean=float(kept.sum()),
            strayed=float(s @ (wrong * strayed)),
            total=float(s.sum()),
            overlap=float(kept @ (1.0 - v)),
            information=float(s @ np.square(score)),
            log_likelihood=float(s @ np.log(np.maximum(clean + strayed + anywhere, LEAST))),
            usual=np.bincount(place, kept, n).astype(np.float64),
            anywhere=np.bincount(place, s * wrong * anywhere, n).astype(np.float64),
            spread=_spread(noise.family, y, prediction, kept),
            clean_residuals=histogram(residual, kept, 1.0),
            residuals=histogram(residual, s, 1.0),
        )

    @classmethod
    def joined(cls, tallies: list[Self]) -> Self:
        """Add up those of all batches."""
        names = cls.__dataclass_fields__
        return cls(**{name: sum(getattr(each, name) for each in tallies) for name in names})


def read_anew(noise: CountNoise, seen: CountTally, n_coef: int) -> CountNoise:
    """Return the noise that makes the rows most likely, one step of expectation maximisation.

    A step that explains less than `PRICE` rows besides what others explain is given up: its
    corrupted rows would be those that the clean part has by chance.
    """
    strayed = max(seen.strayed - PRICE, 0.0)
    anywhere = np.maximum(seen.anywhere - PRICE, 0.0)
    total = max(seen.clean + strayed + float(anywhere.sum()), LEAST)
    widths = noise.widths
    levels = np.maximum(anywhere / total, FLOOR / max(seen.total, 1.0) / len(widths)) / widths
    usual = seen.usual / max(seen.clean, LEAST) / widths
    return replace(
        noise,
        share=seen.clean / total,
        strayed=strayed / total,
        dispersion=_dispersion(noise.family, seen, max(seen.clean - n_coef, 1.0)),
        usual=tuple(usual.tolist()),
        levels=tuple(levels.tolist()),
    )


@lru_cache(maxsize=8)
def steps_of(family: str, anchor: float) -> tuple[float, ...]:
    """Return where the steps of y begin: at single counts, then in proportion to y."""
    if family == "gamma":
        octaves = np.arange(-2 * OCTAVES, 2 * OCTAVES + 1) / 2.0
        return (0.0, *(anchor * np.exp2(octaves)).tolist())
    single, growth, n_steps = STEPS_OF_COUNTS
    further = np.round(single * growth ** np.arange(n_steps))
    return tuple(np.unique(np.concatenate([np.arange(single), further])).astype(float).tolist())


def _ratio(y: Vector, eta: Vector) -> Vector:
    return np.asarray(np.exp(np.minimum(np.log(np.maximum(y, LEAST)) - eta, LARGEST_PREDICTION)))


def _spread(family: str, y: Vector, prediction: Vector, kept: Vector) -> Vector:
    eta = np.clip(prediction, -LARGEST_PREDICTION / 4.0, LARGEST_PREDICTION / 4.0)
    if family == "gamma":
        ratio = _ratio(y, eta)
        return np.array([float(kept @ (2.0 * (ratio - 1.0 - np.log(np.maximum(ratio, LEAST)))))])
    mu = np.exp(eta)
    pearson = kept * np.square(y - mu) / mu
    return np.array([float(np.sum(pearson / (1.0 + a * mu))) for a in DISPERSIONS.tolist()])


def _dispersion(family: str, seen: CountTally, left: float) -> float:
    """Return the dispersion by which squared residuals are as large as their variance."""
    if family == "gamma":
        return 1.0 / _shape(max(float(seen.spread[0]) / left, 1e-12))
    excess = seen.spread - left
    if excess[0] <= 0.0:
        return 0.0
    return float(np.interp(0.0, -excess, DISPERSIONS))


def _shape(deviance: float) -> float:
    """Return the shape k of a gamma whose mean deviance, 2 (ln k - digamma(k)), is given."""
    k = max(1.0 / deviance, 1e-3)
    for _ in range(STEPS_OF_NEWTON):
        off = 2.0 * (np.log(k) - digamma(k)) - deviance
        slope = 2.0 * (1.0 / k - float(polygamma(1, k)))
        step = min(max(off / (slope * k), -1.0), 1.0)  # of ln k
        k *= float(np.exp(-step))
        if abs(step) < 1e-12:
            break
    return float(min(max(k, 1e-3), 1e12))
