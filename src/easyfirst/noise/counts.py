"""Clean counts and positive amounts around a mean, beside corrupted ones.

Clean rows follow the distribution of their loss: Poisson, or negative binomial where counts vary
more, or gamma. A corrupted value is one of three kinds. It is a multiple of what it should be, as
where a unit or a digit is wrong, by a factor of a few on a grid. Or it is that of another row, as
where values were swapped, and then has the distribution that clean values have together. Or it
lies anywhere, by a step function of y. Only the first kind depends on what is predicted; without
it, multiples would be thought to lie anywhere, and with them large clean values of rows that have
small ones. Whether a value is zero is a step of its own.
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

STEPS_OF_COUNTS = 32, 1.35, 75  # single counts, then the growth and number of steps
OCTAVES = 30  # below and above the spread of amounts, in half ones
# Overdispersions at which counts are compared with their variance.
DISPERSIONS = np.concatenate([[0.0], np.geomspace(1e-3, 20.0, 60)])
PRICE = 1.0  # rows that a step, and that values of other rows, must explain to be believed in
# By which values are multiplied, in half octaves. Smaller ones are hardly told from clean values.
FACTORS = np.exp2(np.array([*range(-20, -3), *range(4, 21)]) / 2.0)
BETWEEN = 0.03  # variance of a logarithm, for factors between two of these
FRACTION = 0.8  # of its factor that a multiple of a count is at least, as no count is below one
FLOOR = 0.3  # rows per step that are corrupted whatever the data say: no row is ever certain
FIRST_SHARE, FIRST_WRONG = 0.85, 0.05  # of each kind of corrupted rows
FIRST_DISPERSION = 0.3
LARGEST_PREDICTION = 600.0
LEAST = 1e-300
STEPS_OF_NEWTON = 50


@dataclass(frozen=True, eq=False)
class Densities:
    """Of values that are clean, multiplied (one line per factor), of other rows, and anywhere."""

    clean: Vector
    multiplied: Matrix
    strayed: Vector
    anywhere: Vector

    @cached_property
    def corrupted(self) -> Vector:
        """That of all that is not clean."""
        return np.asarray(self.multiplied.sum(axis=0) + self.strayed + self.anywhere)

    @property
    def clean_share(self) -> Vector:
        """The probability that each row is clean."""
        return np.asarray(self.clean / np.maximum(self.clean + self.corrupted, LEAST))


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
    multiples
        The shares of rows whose value was multiplied by each of `FACTORS`.
    edges, usual, levels
        Steps of y: how densely clean values lie there, and corrupted rows per unit of y over all
        rows; usual[k] and levels[k] hold from edges[k] on.
    """

    family: str = ""
    share: float = 1.0
    strayed: float = 0.0
    dispersion: float = 0.0
    multiples: tuple[float, ...] = ()
    edges: tuple[float, ...] = ()
    usual: tuple[float, ...] = ()
    levels: tuple[float, ...] = ()

    @classmethod
    def first(cls, family: str, anchor: float, y: Vector, s: Vector) -> Self:
        """Return what is assumed before any prediction: any value may be wrong, in any way.

        `y` are values of some rows and `s` their weights, as which those of other rows lie.
        """
        blank = cls(family, edges=steps_of(family, anchor))
        n, widths = len(blank.edges), blank.widths
        usual = np.bincount(blank.place(y), s, n) / max(float(s.sum()), LEAST) / widths
        return replace(
            blank,
            share=FIRST_SHARE,
            strayed=FIRST_WRONG,
            dispersion=0.0 if family == "poisson" else FIRST_DISPERSION,
            multiples=(FIRST_WRONG / FACTORS.size,) * FACTORS.size,
            usual=tuple(usual.tolist()),
            levels=tuple((FIRST_WRONG / n / widths).tolist()),
        )

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

    def densities(self, y: Vector, prediction: Vector) -> Densities:
        """Return the densities of clean and of corrupted values, over all rows."""
        place = self.place(y)
        with np.errstate(under="ignore"):
            clean = self.share * np.exp(self.log_density(y, prediction))
        multiplied = self._multiplied(y, prediction)
        return Densities(clean, multiplied, self.strayed * self._usual[place], self._levels[place])

    def _multiplied(self, y: Vector, prediction: Vector) -> Matrix:
        """Return the density of multiples, one line per factor that some rows have.

        That of a gamma, which is as wide as that of clean values; zeros are no multiples.
        """
        eta = np.clip(prediction, -LARGEST_PREDICTION / 4.0, LARGEST_PREDICTION / 4.0)
        by_chance = np.exp(-eta) if self.family == "poisson" else np.zeros(y.shape)
        # One over the variance of the logarithm of a clean value, about.
        k = 1.0 / (self.dispersion + BETWEEN + by_chance)
        found = np.zeros((self._present.size, y.size))
        logs = np.log(np.maximum(y, LEAST))
        constant = k * np.log(k) - gammaln(k) - logs
        for line, number in enumerate(self._present.tolist()):
            ratio = logs - eta - np.log(FACTORS[number])
            with np.errstate(under="ignore", over="ignore"):
                density = np.exp(constant + k * (ratio - np.exp(ratio)))
            least = FRACTION * FACTORS[number] if self.family == "poisson" else 0.0
            found[line] = np.where(y > least, self.multiples[number] * density, 0.0)
        return found

    def by_factor(self, present: Vector) -> Vector:
        """Return one number per factor, zero for those that no row has."""
        found = np.zeros(len(self.multiples))
        found[self._present] = present
        return found

    def posterior(self, y: Vector, prediction: Vector) -> Vector:
        """Return the probability that each row is clean."""
        return self.densities(y, prediction).clean_share

    def with_share(self, share: float) -> Self:
        """Return the same for rows of which another share is clean."""
        times = (1.0 - share) / max(1.0 - self.share, LEAST)
        return replace(
            self,
            share=share,
            strayed=times * self.strayed,
            multiples=tuple((times * np.array(self.multiples)).tolist()),
            levels=tuple((times * self._levels).tolist()),
        )

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
    def _present(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.multiples)

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
    multiples: Vector
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
        found = noise.densities(y, prediction)
        wrong = s * (1.0 - v) / np.maximum(found.corrupted, LEAST)
        place, n = noise.place(y), len(noise.edges)
        residual, kept = noise.residual(y, prediction), s * v
        share = min(max(noise.share, 1e-6), 1.0 - 1e-6)
        score = v / share - (1.0 - v) / (1.0 - share)
        return cls(
            clean=float(kept.sum()),
            multiples=noise.by_factor(found.multiplied @ wrong),
            strayed=float(wrong @ found.strayed),
            total=float(s.sum()),
            overlap=float(kept @ (1.0 - v)),
            information=float(s @ np.square(score)),
            log_likelihood=float(s @ np.log(np.maximum(found.clean + found.corrupted, LEAST))),
            usual=np.bincount(place, kept, n).astype(np.float64),
            anywhere=np.bincount(place, wrong * found.anywhere, n).astype(np.float64),
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
    multiples = np.maximum(seen.multiples - PRICE, 0.0)
    anywhere = np.maximum(seen.anywhere - PRICE, 0.0)
    total = max(seen.clean + strayed + float(multiples.sum() + anywhere.sum()), LEAST)
    widths = noise.widths
    levels = np.maximum(anywhere / total, FLOOR / max(seen.total, 1.0) / len(widths)) / widths
    usual = seen.usual / max(seen.clean, LEAST) / widths
    return replace(
        noise,
        share=seen.clean / total,
        strayed=strayed / total,
        multiples=tuple((multiples / total).tolist()),
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
