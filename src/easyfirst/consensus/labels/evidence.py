"""Whether labels are wrong, or classes overlap: both make labels that no model can tell.

Where classes overlap, the logit of a label goes on rising along the score of the columns: surer
rows are found further out. Flipped labels bend it: beyond some score all rows are equally sure, at
the rate of the flips. So a logistic curve that levels off is compared with one that does not, along
scores by models of other rows, by squares and by products of columns; a level has to be worth half
the logarithm of the number of rows, as in Schwarz's criterion. Overlap is the rule and levels the
exception: without evidence, it is overlap. Only rows in clouds far apart, which say nothing of the
curve between, need none.

Labels by chance that do have levels (three in four on one side of a step, one in four on the
other) look like flipped ones. Nothing in the rows tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logsumexp
from scipy.stats import chi2, norm, rankdata

from easyfirst.contracts import Matrix, Vector

LEAST_LEVEL = 0.002  # no model is believed to be surer
PLACES = 400  # scores that are told apart
STEEPEST = 30.0  # slope along a score of variance one
LEAST_PRICE = float(chi2.isf(0.005, 1)) / 2.0  # of a level: however few rows, no accident
LEVELS_APART = 3.0  # parameters that two levels count for: a score that is skewed looks like one
COLUMNS_FOR_SQUARES, COLUMNS_FOR_PRODUCTS = 200, 8
FAR = 3.0  # standard deviations, beyond which a column is no more curved
GATHERED = 0.85  # of the variance of two levels, from which rows are at either of them
LEAST_DIFFERENT = 0.25  # of the rows, by values of a column and by what models say of them
STARTS = ((0.1, 0.9), (0.3, 0.7), (0.02, 0.7), (0.3, 0.98))


@dataclass(frozen=True, eq=False)
class Levels:
    """A logistic curve between two levels, along a score of mean zero and variance one."""

    low: float
    high: float
    slope: float
    offset: float
    log_likelihood: float

    def at(self, score: Vector) -> Vector:
        """Return the probability of the label at each score."""
        return np.asarray(
            self.low + (self.high - self.low) * expit(self.slope * score + self.offset)
        )


def fitted_levels(score: Vector, own: NDArray[np.bool_], weight: Vector, others: int = 0) -> Levels:
    """Return the curve between levels by which the labels are most probable.

    With a number of `others`, labels are wrong equally often in all classes, and any of the others
    is given as often: one level tells the other one.
    """
    place, rows, hits = _joined(score, own, weight)

    def objective(point: Vector) -> tuple[float, Vector]:
        low, high, slope, offset = _all_four(point, others)
        inner = expit(slope * place + offset)
        seen = np.clip(low + (high - low) * inner, 1e-9, 1.0 - 1e-9)
        pull = (rows - hits) / (1.0 - seen) - hits / seen
        bend = pull * (high - low) * inner * (1.0 - inner)
        value = -float(hits @ np.log(seen) + (rows - hits) @ np.log(1.0 - seen))
        levels = [pull @ (1.0 - inner), pull @ inner]
        if others:
            levels = [levels[1] - levels[0] / others]
        return value, np.array([*levels, bend @ place, bend.sum()])

    limits = [(LEAST_LEVEL, 0.5), (0.5, 1.0 - LEAST_LEVEL), (0.0, STEEPEST), (None, None)]
    first = 1 if others else 0
    fits = [
        minimize(
            objective,
            [*start[first:], 2.0, 0.0],
            jac=True,
            method="L-BFGS-B",
            bounds=limits[first:],
        )
        for start in (STARTS[:2] if others else STARTS)
    ]
    best = min(fits, key=lambda fit: float(fit.fun))
    return Levels(*_all_four(best.x, others), log_likelihood=-float(best.fun))


def _all_four(point: Vector, others: int) -> tuple[float, float, float, float]:
    high, slope, offset = point[-3:].tolist()
    return (1.0 - high) / others if others else float(point[0]), high, slope, offset


@dataclass(frozen=True)
class Evidence:
    """How much more probable labels are if curves level off, as logarithms, parameters paid for.

    Of the class which shows it best, because labels of one class alone may be flipped: labels of
    all are wrong equally often (`alike`), or levels are of any kind (`apart`). `gathered` is how
    far rows are at two levels in the mean of classes, and `price` that of a parameter.
    """

    alike: float
    apart: float
    gathered: float
    price: float

    @property
    def is_enough(self) -> bool:
        """Whether labels look flipped rather than left to chance."""
        return max(self.alike, self.apart) > 0.0 or self.gathered >= GATHERED

    @property
    def has_equal_rates(self) -> bool:
        """Whether a second level is not worth what it costs."""
        return self.apart - self.alike < (2.0 - LEVELS_APART) * self.price


def gathered_share(score: Vector, chance: Vector, own: NDArray[np.bool_], weight: Vector) -> float:
    """Return how far the chances of a label gather at two levels along a score: one if all do.

    Two clouds of rows far apart show no curve between them, but that there are two.
    """
    levels = fitted_levels(score, own, weight)
    mean = float(np.average(chance, weights=weight))
    spread = float(np.average(np.square(chance - mean), weights=weight))
    most = (levels.high - mean) * (mean - levels.low)  # the variance of two values
    return min(spread / most, 1.0) if most > 0.0 else 0.0


def _may_have_clouds(chance: Vector, X: Any) -> bool:
    """Return whether rows that gather say something: rows of a column of few values always do."""
    columns = [chance] if X is None or sp.issparse(X) else [chance, *X.T]
    return all(np.unique(own).size >= LEAST_DIFFERENT * own.size for own in columns)


@dataclass(frozen=True, eq=False)
class LinearLogits:
    """Logits by linear models: those of the other folds, and better ones for either explanation.

    `straight` fits the labels as given, `levelled` has flips inside its likelihood. Both are of all
    rows if these are many for the number of coefficients, `n_fitted`, of which chance explains one
    each; where many rows are alike, a model of the other folds has not seen any like them. Else
    none is fitted to these labels.
    """

    out_of_fold: Matrix
    straight: Matrix
    levelled: Matrix
    n_fitted: int


def are_many(n_rows: float, n_coef: int) -> bool:
    """Return whether rows are so many that chance explains one for each coefficient."""
    return n_coef**2 <= n_rows


def evidence_of_levels(
    flexible: Matrix,
    codes: NDArray[np.intp],
    weight: Vector,
    linear: LinearLogits | None = None,
    X: Any = None,
) -> Evidence:
    """Return what says that labels were flipped.

    `flexible` are probabilities out of fold. The squares of the columns of `X` may be added to the
    score, and where columns are few, their products.
    """
    counted = weight > 0
    total = float(weight.sum())
    shares = np.bincount(codes, weights=weight, minlength=flexible.shape[1])
    found, bends = np.zeros((shares.size, 3)), [np.zeros((0, int(counted.sum())))]
    bends += [bend for bend in bends_of(X, counted) if are_many(total, len(bend))]
    for k in np.flatnonzero(shares > 0).tolist():
        if shares.size == 2 and k == 1:
            found[k] = found[0]  # the same curve, seen from its other end
            continue
        own, s = (codes == k)[counted], weight[counted]
        ranks = rankdata(flexible[counted, k])
        scores = scaled(norm.ppf((ranks - 0.5) / ranks.size))[None]
        chance = flexible[counted, k]
        gathered = gathered_share(scores[0], chance, own, s)
        if gathered >= GATHERED and not _may_have_clouds(chance, X):
            gathered = 0.0
        # What is fitted to these labels is better by chance, by one for each coefficient.
        straight, level = -np.inf, np.full(2, -np.inf)
        if linear is not None:
            others = scaled(against_others(linear.out_of_fold[counted], k))
            scores = np.vstack([scores, others])
            line = against_others(linear.straight[counted], k)
            straight = float(s @ log_expit(np.where(own, line, -line))) - linear.n_fitted
            line = against_others(linear.levelled[counted], k)
            level = _with_levels(line, own, s, shares.size - 1) - linear.n_fitted
        for more in bends:
            score, without = _without_levels(scores, more, own, s)
            straight = max(straight, without - len(more))
            level = np.maximum(level, _with_levels(score, own, s, shares.size - 1) - len(more))
        found[k] = *(level - straight), gathered
    chances = 1 if shares.size == 2 else shares.size  # one of which shows it by chance
    best = int(np.argmax(np.where(shares > 0, found[:, :2].max(axis=1), -np.inf)))
    alike, apart = (found[best, :2] - np.log(chances)).tolist()
    gathered = float(shares @ found[:, 2] / shares.sum())
    return Evidence(alike, apart, gathered, _price(total))


def _price(n_rows: float) -> float:
    return max(0.5 * float(np.log(n_rows)), LEAST_PRICE)


def _with_levels(score: Vector, own: NDArray[np.bool_], weight: Vector, others: int) -> Vector:
    """Return log likelihoods by levels alike and apart, less what their parameters cost."""
    score, price = scaled(score), _price(float(weight.sum()))
    alike = fitted_levels(score, own, weight, others).log_likelihood - price
    apart = fitted_levels(score, own, weight).log_likelihood - LEVELS_APART * price
    return np.array([alike, apart])


def bends_of(X: Any, counted: NDArray[np.bool_]) -> list[Matrix]:
    """Return squares of the columns of dense rows, then squares and products, one line each."""
    if X is None or sp.issparse(X) or X.shape[1] > COLUMNS_FOR_SQUARES:
        return []
    columns = [np.asarray(own, dtype=np.float64) for own in X[counted].T]
    # Columns of two values have no squares.
    curved = [bool(np.any((own > own.min()) & (own < own.max()))) for own in columns]
    columns = [np.clip(scaled(own), -FAR, FAR) for own in columns]
    squares = [
        scaled(np.square(own)) for own, is_curved in zip(columns, curved, strict=True) if is_curved
    ]
    found = [np.stack(squares)] if squares else []
    if 2 <= len(columns) <= COLUMNS_FOR_PRODUCTS:
        pairs = [scaled(a * b) for a, b in combinations(columns, 2)]
        found.append(np.stack(squares + pairs))
    return found


def scaled(score: Vector) -> Vector:
    """Return a score with mean zero and variance one."""
    return np.asarray((score - score.mean()) / max(float(score.std()), 1e-300))


def against_others(logits: Matrix, k: int) -> Vector:
    """Return the logit of one class against all others."""
    return np.asarray(logits[:, k] - logsumexp(np.delete(logits, k, axis=1), axis=1))


def _without_levels(
    scores: Matrix, more: Matrix, own: NDArray[np.bool_], weight: Vector
) -> tuple[Vector, float]:
    """Return the best sum of scores for a logistic curve without levels; its log likelihood."""
    columns = np.vstack([scores, more])
    sign = np.where(own, 1.0, -1.0)

    def objective(point: Vector) -> tuple[float, Vector]:
        margin = sign * (point[:-1] @ columns + point[-1])
        pull = -weight * sign * expit(-margin)
        return -float(weight @ log_expit(margin)), np.append(columns @ pull, pull.sum())

    limits = [*[(0.0, None)] * len(scores), *[(None, None)] * (len(more) + 1)]
    start = np.concatenate([np.full(len(scores), 0.5), np.zeros(len(more) + 1)])
    best = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=limits)
    return np.asarray(best.x[:-1] @ columns), -float(best.fun)


def _joined(score: Vector, own: NDArray[np.bool_], weight: Vector) -> tuple[Vector, Vector, Vector]:
    """Return a score for rows of nearly the same, how many they are, how many have the label."""
    order = np.argsort(score, kind="stable")
    total = np.cumsum(weight[order])
    place = np.minimum((PLACES * (total - 0.5 * weight[order]) / total[-1]), PLACES - 1)
    bins = place.astype(np.intp)
    rows = np.bincount(bins, weights=weight[order], minlength=PLACES).astype(np.float64)
    hits = np.bincount(bins, weights=weight[order] * own[order], minlength=PLACES).astype(float)
    sums = np.bincount(bins, weights=weight[order] * score[order], minlength=PLACES)
    used = rows > 0
    return sums[used] / rows[used], rows[used], hits[used]
