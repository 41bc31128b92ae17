"""Predictions of rows by models that were fitted to other rows, for any scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from easyfirst.contracts import Vector

Answer = Callable[[Any, Any], NDArray[Any]]  # what a model says of rows

NEGLIGIBLE = 1e-6  # weight below which a row is left out of a fit
TAKES_PART = 0.5  # weight from which a row is used by an estimator without sample weights


def equal_rows(X: Any, y: NDArray[Any]) -> NDArray[np.intp]:
    """Return a number per row that equal rows share, whatever the order of the rows.

    A copy of a row must not vouch for it, so both belong into the same fold.
    """
    if sp.issparse(X):
        # Row by row, so that equal rows have equal bits.
        mixed = X.tocsr() @ np.random.default_rng(0).standard_normal(X.shape[1])
        table = mixed[:, None]
    else:
        table = as_numbers(X)
    whole = np.ascontiguousarray(np.column_stack([table, np.unique(y, return_inverse=True)[1]]))
    keys = whole.view(np.dtype((np.void, whole.itemsize * whole.shape[1]))).ravel()
    return np.unique(keys, return_inverse=True)[1]


def as_numbers(X: Any) -> NDArray[np.float64]:
    """Return any table as numbers that are equal where its values are."""
    frame = nw.from_native(X, pass_through=True, eager_only=True)
    if not isinstance(frame, nw.DataFrame):
        return np.asarray(X, dtype=np.float64)
    columns = [each.to_numpy() for each in frame.iter_columns()]
    return np.column_stack(
        [
            each.astype(np.float64)
            if each.dtype.kind in "biuf"
            else np.unique(each.astype(str), return_inverse=True)[1].astype(np.float64)
            for each in columns
        ]
    )


def folds(
    group: NDArray[np.intp], n_folds: int, seed: int, codes: NDArray[np.intp] | None = None
) -> NDArray[np.intp]:
    """Return the fold of every row; groups are dealt evenly and stay together.

    With `codes`, the numbers of classes, they are dealt class by class.
    """
    n_groups = int(group.max()) + 1
    place = np.random.RandomState(seed).permutation(n_groups)
    if codes is not None:
        own = np.empty(n_groups, dtype=np.intp)
        own[group] = codes
        place = np.argsort(np.lexsort((place, own)))
    return (place % n_folds)[group]


def fitted(estimator: Any, X: Any, y: Any, weight: Vector) -> Any:
    """Return a fitted copy of an estimator, with rows weighed or, where it cannot, selected."""
    model, name = clone(estimator), _weight_parameter(estimator)
    used = weight > NEGLIGIBLE if name else weight >= TAKES_PART
    if not used.any():
        used = weight >= weight.max()
    if not used.all():
        X, y, weight = _safe_indexing(X, used), y[used], weight[used]
    # Weights that are all one would only make some estimators slower.
    given = {name: weight} if name and np.any(weight != 1.0) else {}
    return model.fit(X, y, **given)


def _weight_parameter(estimator: Any) -> str | None:
    """Return how `fit` takes sample weights; None if it does not."""
    if isinstance(estimator, Pipeline):
        step, last = estimator.steps[-1]
        inner = None if last == "passthrough" else _weight_parameter(last)
        return None if inner is None else f"{step}__{inner}"
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def takes_weights(estimator: Any) -> bool:
    """Return whether `fit` takes sample weights."""
    return _weight_parameter(estimator) is not None


def predicted(model: Any, X: Any) -> Vector:
    """Return what a model predicts, as numbers."""
    return np.asarray(model.predict(X), dtype=np.float64)


def out_of_fold(
    estimator: Any,
    X: Any,
    y: Any,
    weight: Vector,
    fold: NDArray[np.intp],
    n_jobs: int | None = None,
    answer: Answer = predicted,
) -> NDArray[Any]:
    """Return what a model that has not seen it says of every row."""
    parts = [np.flatnonzero(fold == number) for number in np.unique(fold)]
    made = Parallel(n_jobs=n_jobs)(
        delayed(_answered)(estimator, X, y, weight, part, answer) for part in parts
    )
    joined = np.concatenate(made)
    out = np.empty_like(joined)
    out[np.concatenate(parts)] = joined
    return out


def _answered(
    estimator: Any, X: Any, y: Any, weight: Vector, part: NDArray[np.intp], answer: Answer
) -> NDArray[Any]:
    others = np.ones(len(y), dtype=bool)
    others[part] = False
    model = fitted(estimator, _safe_indexing(X, others), y[others], weight[others])
    return answer(model, _safe_indexing(X, part))
