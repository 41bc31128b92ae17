"""Small trees that tell, from X, what a model leaves over of rows that they have not seen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from easyfirst.consensus.checks.misfit import LEAST_SET_ASIDE, SIDES, TOLD, Misfit
from easyfirst.contracts import Matrix, Vector

FOLDS = 3
DEPTH, LEAF = 4, 50  # of the trees: a leaf holds one in so many rows
CHANCE = 5.0  # standard errors by which the area under the curve has to be better than chance
AS_MUCH = 0.5  # importance over the largest from which a column is named
MOST_NAMED = 3


def told_by(X: Matrix, residual: Vector, aside: NDArray[np.bool_]) -> Misfit:
    """Let trees tell residuals, and which rows were set aside, of rows that they have not seen."""
    # Trees look at the order alone, so ranks tell them as much, and do not overflow.
    X = rankdata(X, axis=0)
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
