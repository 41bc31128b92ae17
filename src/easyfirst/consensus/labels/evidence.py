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
from scipy.special import expit, log_expit
from scipy.stats import chi2, norm, rankdata

from easyfirst.consensus.labels.levels import LEAST_LEVEL, Curve, Levels, scaled
from easyfirst.contracts import Matrix, Vector

LEAST_PRICE = float(chi2.isf(0.005, 1)) / 2.0  # of a level: however few rows, no accident
LEVELS_APART = 3.0  # parameters that two levels count for: a score that is skewed looks like one
COLUMNS_FOR_SQUARES, COLUMNS_FOR_PRODUCTS = 200, 8
FAR = 3.0  # scales of a column, beyond which it is cut off
QUARTILES = float(norm.ppf(0.75) - norm.ppf(0.25))  # how far apart they are in a normal column
STILL_THERE = 0.8  # of the variance of a column: less, and it is another one without its ends
LEAST_RATE = 0.01  # of wrong labels: fewer are as if there were none
GATHERED = 0.85  # of the variance of two levels, from which rows are at either of them
# Per row: less may be another shape of overlap, such as heavy tails, whose misfit grows with rows.
FAINT = 0.04
LEAST_APART = 0.3  # two levels: nearer ones are two halves of one cloud
LEAST_DIFFERENT = 0.25  # of the rows, by values of a column and by what models say of them


@dataclass(frozen=True, eq=False)
class Evidence:
    """How much more probable labels are if their curve levels off, as logarithms.

    Labels of both classes are wrong equally often (`alike`), or levels are of any kind (`apart`);
    parameters are paid for, at a `price` each. `gathered` is how far rows are at two levels, which
    says less if some column is grained: it has few values. `levels` are those that are worth most,
    or at which rows gather; `without` is the logarithm for a curve without levels, and `curve` the
    one that fits best with levels alike, which costs `paid`. `closest` fits best at any cost.
    """

    alike: float
    apart: float
    gathered: float
    is_grained: bool
    price: float
    levels: Levels
    without: float
    curve: Curve
    paid: float
    closest: Curve

    def is_beyond(self, chance: float) -> bool:
        """Return whether labels look flipped rather than left to chance."""
        if max(self.levels.low, 1.0 - self.levels.high) < LEAST_RATE:
            return False
        return max(self.alike, self.apart) > chance or self.has_clouds

    @property
    def is_gathered(self) -> bool:
        """Whether hardly any rows are between both classes."""
        return self.gathered >= GATHERED

    @property
    def is_faint(self) -> bool:
        """Whether rows lie between both classes, and levels tell little of each."""
        worth = max(self.alike, self.apart)
        return not self.is_gathered and worth < FAINT * float(self.curve.rows.sum())

    @property
    def has_clouds(self) -> bool:
        """Whether rows are in two clouds, and that is not what their columns make of any labels."""
        return self.is_gathered and (not self.is_grained or self.is_likely)

    @property
    def is_likely(self) -> bool:
        """Whether labels look flipped, if those of other classes are: all levels cost as one."""
        return max(self.alike, self.apart + (LEVELS_APART - 1.0) * self.price) > 0.0

    @property
    def has_equal_rates(self) -> bool:
        """Whether a second level is not worth what it costs."""
        return self.apart - self.alike < (2.0 - LEVELS_APART) * self.price

    @property
    def may_be_half(self) -> bool:
        """Whether labels look flipped, and a level where most of a class are is not worth more.

        A level of right labels lies there, too, where the surest rows of a class often are not of
        it. Along a score that fits less well, misfit would look like a level.
        """
        if max(self.alike, self.apart) <= 0.0:
            return False
        gain = self.closest.beyond_half().log_likelihood - self.closest.apart().log_likelihood
        return gain < self.price

    def at_level(self, high: float) -> float:
        """Return how much more probable labels are with a known level, which costs nothing."""
        return self.curve.at_level(high).log_likelihood - self.paid - self.without


def gathered_share(levels: Levels, chance: Vector, own: NDArray[np.bool_], weight: Vector) -> float:
    """Return how far the chances of a label gather at two levels along a score: one if all do.

    Two clouds of rows far apart show no curve between them, but that there are two. What chances
    vary by accident is not what labels vary with, so the latter counts, less its standard error.
    """
    if levels.high - levels.low < LEAST_APART:
        return 0.0
    share = weight / weight.sum()
    mean, products = float(share @ own), (chance - share @ chance) * (own - share @ own)
    spread = float(share @ products)
    error = float(np.sqrt(share**2 @ np.square(products - spread)))
    most = (levels.high - mean) * (mean - levels.low)  # the variance of two values
    return min((spread - error) / most, 1.0) if most > 0.0 else 0.0


def _is_grained(chance: Vector, X: Any) -> bool:
    """Return whether rows gather anyway: those of a column of few values always do."""
    columns = [chance] if X is None or sp.issparse(X) else [chance, *X.T]
    return any(np.unique(own).size < LEAST_DIFFERENT * own.size for own in columns)


@dataclass(frozen=True, eq=False)
class LinearLogits:
    """Logits by linear models: those of the other folds, and better ones for either explanation.

    `straight` fits the labels as given, `levelled` has flips inside its likelihood. Both are of all
    rows if these are many for the number of coefficients, `n_fitted`, of which chance explains one
    each; where many rows are alike, a model of the other folds has not seen any like them. Else
    none is fitted to these labels.
    """

    out_of_fold: Any
    straight: Any
    levelled: Any
    n_fitted: int

    def between(self, first: int, second: int, rows: NDArray[np.intp]) -> LinearLogits:
        """Return the logits of one class against another, of some rows."""
        own, straight, levelled = (
            logits[rows, first] - logits[rows, second]
            for logits in (self.out_of_fold, self.straight, self.levelled)
        )
        return LinearLogits(own, straight, levelled, self.n_fitted)


def are_many(n_rows: float, n_coef: int) -> bool:
    """Return whether rows are so many that chance explains one for each coefficient."""
    return n_coef**2 <= n_rows


def evidence_of_levels(
    chance: Vector,
    own: NDArray[np.bool_],
    weight: Vector,
    linear: LinearLogits | None = None,
    X: Any = None,
) -> Evidence:
    """Return what says that labels of two classes were flipped.

    `chance` is the probability of the first of both classes out of fold, and `own` says which rows
    are given it. The squares of the columns of `X` may be added to the score, and where columns are
    few, their products.
    """
    total, price = float(weight.sum()), price_of(float(weight.sum()))
    ranks = rankdata(chance)
    scores = scaled(norm.ppf((ranks - 0.5) / ranks.size))[None]
    clouds = Curve.of(scores[0], own, weight).apart()
    without, curves = -np.inf, []
    if linear is not None:
        # What is fitted to these labels is better by chance, by one for each coefficient.
        scores = np.vstack([scores, scaled(linear.out_of_fold)])
        fitted = float(weight @ log_expit(np.where(own, linear.straight, -linear.straight)))
        without = fitted - linear.n_fitted
        curves = [(Curve.of(scaled(linear.levelled), own, weight), linear.n_fitted)]
    bends = [bend for bend in bends_of(X) if are_many(total, len(bend))]
    for more in [np.zeros((0, own.size)), *bends]:
        score, fitted = _without_levels(scores, more, own, weight)
        without = max(without, fitted - len(more))
        curves.append((Curve.of(scaled(score), own, weight), len(more)))
    # A better score is no level: each may explain the labels without.
    no_level = [curve.at_level(1.0 - LEAST_LEVEL).log_likelihood - paid for curve, paid in curves]
    without = max(without, *no_level)
    alike, alike_worth, best = _most_worth([curve.alike() for curve, _ in curves], curves)
    all_apart = [curve.apart() for curve, _ in curves]
    apart, apart_worth, _ = _most_worth(all_apart, curves)
    closest = int(np.argmax([levels.log_likelihood for levels in all_apart]))
    worths = (alike_worth - price - without, apart_worth - LEVELS_APART * price - without)
    return Evidence(
        alike=worths[0],
        apart=worths[1],
        gathered=gathered_share(clouds, chance, own, weight),
        is_grained=_is_grained(chance, X),
        price=price,
        levels=clouds if max(worths) <= 0.0 else (alike, apart)[int(np.argmax(worths))],
        without=without,
        curve=curves[best][0],
        paid=float(curves[best][1]),
        closest=curves[closest][0],
    )


def _most_worth(found: list[Levels], curves: list[tuple[Curve, int]]) -> tuple[Levels, float, int]:
    """Return the best levels, their log likelihood less what their score costs, and their place."""
    worth = [levels.log_likelihood - paid for levels, (_, paid) in zip(found, curves, strict=True)]
    best = int(np.argmax(worth))
    return found[best], worth[best], best


def price_of(n_rows: float) -> float:
    """Return what a parameter costs."""
    return max(0.5 * float(np.log(n_rows)), LEAST_PRICE)


def bends_of(X: Any) -> list[Matrix]:
    """Return what a linear score leaves out, one line each: bends of columns, then products too.

    Columns far out in some rows are cut off there, because no linear score is right for those
    and the others; columns of two values have no squares.
    """
    if X is None or sp.issparse(X) or X.shape[1] > COLUMNS_FOR_SQUARES:
        return []
    columns = [_cut_off(np.asarray(own, dtype=np.float64)) for own in X.T]
    bends = [scaled(own) for own, is_far, _ in columns if is_far]
    bends += [scaled(np.square(own)) for own, _, is_curved in columns if is_curved]
    found = [np.stack(bends)] if bends else []
    if 2 <= len(columns) <= COLUMNS_FOR_PRODUCTS:
        pairs = [scaled(a * b) for (a, *_), (b, *_) in combinations(columns, 2)]
        found.append(np.stack(bends + pairs))
    return found


def _cut_off(column: Vector) -> tuple[Vector, bool, bool]:
    """Return a column of scale one without what is far out; whether that was much; if it is curved.

    What is far out must not decide about the scale.
    """
    low, middle, high = np.quantile(column, (0.25, 0.5, 0.75))
    scale = (high - low) / QUARTILES if high > low else float(column.std())
    away = (column - middle) / max(float(scale), 1e-300)
    found = np.clip(away, -FAR, FAR)
    is_curved = bool(np.any((column > column.min()) & (column < column.max())))
    left = float(np.square(found - found.mean()).sum())
    return found, left < STILL_THERE * float(np.square(away - away.mean()).sum()), is_curved


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
