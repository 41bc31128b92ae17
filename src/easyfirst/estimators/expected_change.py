"""Which rows a person should look at: those whose answer would move the model most."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Vector
from easyfirst.estimators.judging import JudgedRows
from easyfirst.local.design import Coordinates, Design

IN_DOUBT = 0.02  # least probability of either answer where the model itself is in doubt
FARTHEST = 8.0  # scales; a row further out is set aside whatever the answer about others is


def expected_changes(
    X: Any, judged: JudgedRows, fit_intercept: bool, in_doubt: bool = False
) -> Vector:
    """Return how far the fit is expected to move, squared, when each row is known for certain.

    A row that is clean with probability p takes part with that weight. Once it is known, its
    weight is 1 or 0: a change of variance p (1 - p), which pulls by the residual, and moves the
    predictions by the row's leverage. Only uncertain rows that matter score high. If the whole
    model is in doubt, no row is certain: rows that two models agree about tell nothing. Without X,
    as for a model that is not linear, all rows have the same leverage.
    """
    least = IN_DOUBT if in_doubt else 0.0
    p = np.clip(judged.quality, least, 1.0 - least)
    moves = p * (1.0 - p) * np.square(np.minimum(np.abs(judged.residual), FARTHEST))
    if X is None:
        return np.asarray(moves)
    design = Design(X, Coordinates(fit_intercept))
    gram, _ = design.gram(np.clip(judged.weight, 0.0, 1.0), judged.given)
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-10 * max(float(values[-1]), 1e-300)
    root = vectors[:, kept] / np.sqrt(values[kept])
    return np.asarray(moves * design.leverage(root))


def most_telling(
    moves: Vector, is_kept: NDArray[np.bool_], k: int, in_doubt: bool
) -> NDArray[np.intp]:
    """Return the k rows that move the fit most, the first being the best.

    If the whole model is in doubt, rows set aside and rows kept take turns. Rows that are right
    tell which model is meant, and on one side alone perhaps none is; rejected rows are only left
    out.
    """
    order = np.argsort(-moves, kind="stable")[: np.count_nonzero(moves > 0.0)]
    if in_doubt:
        sides = [order[~is_kept[order]], order[is_kept[order]]]
        turn = np.concatenate([np.arange(side.size) for side in sides])
        order = np.concatenate(sides)[np.argsort(turn, kind="stable")]
    return order[:k]
