"""Whether X tells which rows were set aside and how far off they are: then the model is wrong.

Mistakes strike rows whatever their columns hold. Where small trees, fitted to other rows of a
sample, can tell the rows that were set aside from the rest, and predict on which side of the model
they lie, the rows follow a rule that the model does not have. So they do where trees predict
much of the residuals themselves, although hardly a row was set aside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from easyfirst.consensus.extrapolation import Bounds
from easyfirst.consensus.second_opinion import RobustRows, may_be_second_guessed, spread_rows
from easyfirst.consensus.starts import SampleFit
from easyfirst.contracts import Matrix, Vector
from easyfirst.noise import NoiseModel, ScaleRule

ROWS = 3000  # of the sample
MOST_COLUMNS = 200  # beyond, trees cost more than the fit
LOOKED_AT, GROUPS = 20, 10  # columns that trees see, and groups of rows by which they are chosen
LEAST_SET_ASIDE = 30  # rows from which they are compared with the others
FOLDS = 3
DEPTH, LEAF = 4, 50  # of the trees: a leaf holds one in so many rows
CLIPPED = 5.0  # noise scales: beyond, a residual counts as much as one there
TOLD = 0.75  # area under the curve that is better than chance by a margin,
CHANCE = 5.0  # and by so many standard errors
SIDES = 0.05  # share of the variance of residuals by which sides are told
MUCH = 0.3  # and by which the model is wrong whatever was set aside
AS_MUCH = 0.5  # importance over the largest from which a column is named
MOST_NAMED = 3
ROUNDED = 1e-10  # noise over the range of y, at which only rounding is left


@dataclass(frozen=True)
class Misfit:
    """How well X tells rows set aside (area under the curve) and residuals (share of variance).

    `sided` is for the residuals of all rows, `explained` for those of rows that were kept.
    `columns` are those that tell most, `aside` is the share of rows that were set aside.
    """

    told: float = 0.5
    sided: float = 0.0
    explained: float = 0.0
    aside: float = 0.0
    columns: tuple[int, ...] = ()

    @property
    def tells_rows(self) -> bool:
        """Whether the rows set aside differ in X from the others."""
        return self.told >= TOLD and self.sided >= SIDES

    @property
    def is_doubtful(self) -> bool:
        """Whether the model is probably wrong, not the rows."""
        return self.tells_rows or self.explained >= MUCH


def misfit_of(found: SampleFit, coef: Vector, noise: NoiseModel, rule: ScaleRule) -> Misfit:
    """Return how well X tells what a fit leaves over, on rows of the sample."""
    sample = found.sample
    p, fits = sample.rows.n_features, may_be_second_guessed(sample.fleet.problem)
    if not fits or not sample.objective.is_unpenalised or not 0 < p <= MOST_COLUMNS:
        return Misfit()
    rows = spread_rows(found, ROWS)
    if len(rows) < max(10 * LEAST_SET_ASIDE, 10 * p):
        return Misfit()
    table = RobustRows.of(sample, rows)
    if noise.spread <= ROUNDED * float(np.ptp(table.y)):
        return Misfit()  # what is left over is rounding, which follows X as well
    prediction = table.design @ coef
    residual = (table.y - prediction) / rule.of(table.X)
    aside = noise.posterior(residual) < 0.5
    scale = max(noise.spread, 1e-300)
    # A row that is predicted beyond any y is wrong in X itself, which no curve explains.
    within = Bounds.of(table.y).excess(prediction) == 0.0
    # Trees look at the order alone, so ranks tell them as much, and do not overflow.
    X = rankdata(table.X[within], axis=0)
    clipped = np.clip(residual[within] / scale, -CLIPPED, CLIPPED)
    columns = _telling(X, clipped)
    misfit = _told_by(X[:, columns], clipped, aside[within])
    return replace(misfit, columns=tuple(columns[list(misfit.columns)].tolist()))


def _telling(X: Matrix, residual: Vector) -> NDArray[np.intp]:
    """Return the columns to look at: of many, those whose groups differ most in their residuals.

    Trees of a hundred columns would take as long as a pass over a million rows.
    """
    n, p = X.shape
    if p <= LOOKED_AT or not n:
        return np.arange(p)
    group = np.minimum((GROUPS * X / (n + 1.0)).astype(np.intp), GROUPS - 1)
    between = np.zeros(p)
    for column in range(p):
        rows = np.bincount(group[:, column], minlength=GROUPS)
        total = np.bincount(group[:, column], weights=residual, minlength=GROUPS)
        between[column] = np.sum(np.square(total) / np.maximum(rows, 1))
    return np.sort(np.argsort(-between, kind="stable")[:LOOKED_AT])


def _told_by(X: Matrix, residual: Vector, aside: NDArray[np.bool_]) -> Misfit:
    """Let trees tell residuals, and which rows were set aside, of rows that they have not seen."""
    size = {"max_depth": DEPTH, "min_samples_leaf": max(len(X) // LEAF, 5), "random_state": 0}
    tree, kept, told = DecisionTreeRegressor(**size), ~aside, 0.5
    sided, weights = _explained(tree, X, residual)
    explained = sided
    if aside.any():
        explained, weights = _explained(tree, X[kept], residual[kept])
    if min(aside.sum(), kept.sum()) >= LEAST_SET_ASIDE and sided >= SIDES:
        chance, telling = _out_of_fold(DecisionTreeClassifier(**size), X, aside.astype(np.float64))
        told = _area_beyond_chance(chance, aside)
        weights = telling if told >= TOLD else weights
    order = np.argsort(-weights, kind="stable")[:MOST_NAMED]
    named = order[weights[order] >= AS_MUCH * weights.max()]
    return Misfit(told, sided, explained, float(aside.mean()), tuple(named.tolist()))


def _explained(tree: DecisionTreeRegressor, X: Matrix, residual: Vector) -> tuple[float, Vector]:
    """Return the share of the variance that trees of other rows tell, and what columns matter."""
    total = float(np.sum(np.square(residual - residual.mean()))) if residual.size else 0.0
    if residual.size < 10 * LEAST_SET_ASIDE or total == 0.0:
        return 0.0, np.zeros(X.shape[1])
    predicted, weights = _out_of_fold(tree, X, residual)
    return max(1.0 - float(np.sum(np.square(residual - predicted))) / total, 0.0), weights


def _out_of_fold(
    tree: DecisionTreeClassifier | DecisionTreeRegressor, X: Matrix, y: Vector
) -> tuple[Vector, Vector]:
    """Return what trees of other rows say of every row, and how much each column matters."""
    fold, said, weights = np.arange(len(X)) % FOLDS, np.empty(len(X)), np.zeros(X.shape[1])
    for number in range(FOLDS):
        own = fold == number
        fitted = tree.fit(X[~own], y[~own])
        is_chance = isinstance(tree, DecisionTreeClassifier)
        told = fitted.predict_proba(X[own])[:, -1] if is_chance else fitted.predict(X[own])
        said[own], weights = told, weights + fitted.feature_importances_
    return said, weights


def _area_beyond_chance(score: Vector, member: NDArray[np.bool_]) -> float:
    """Return the area under the curve, or one half where chance may have put it there."""
    n, m = float(member.sum()), float((~member).sum())
    area = (float(rankdata(score)[member].sum()) - 0.5 * n * (n + 1.0)) / (n * m)
    error = np.sqrt((n + m + 1.0) / (12.0 * n * m))
    return area if area - 0.5 > CHANCE * error else 0.5
