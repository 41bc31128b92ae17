"""Checks at the edge: user input becomes clean arrays here, and nowhere else."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import (
    _check_sample_weight,
    assert_all_finite,
    check_array,
    check_consistent_length,
    validate_data,
)

from easyfirst.contracts import Source, Vector
from easyfirst.engines.blas import one_blas_thread
from easyfirst.sources.arrays import ArraySource

LARGEST = 1e120  # squares of larger numbers, summed over rows, overflow
MAX_NAMED = 5  # columns listed in a message before "and k more"


def training_source(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    batches: Any,
    n_batches: int | None,
) -> ArraySource:
    """Turn fit's arguments into a source, recording names and widths on the estimator."""
    X, y = _checked(estimator, X, y)
    weight = _importance(sample_weight, X)
    _require_magnitude("y", y)
    if batches is not None and n_batches is not None:
        raise ValueError("give either batches (an id per row) or n_batches, not both")
    if n_batches is not None:
        _require_rows_for(n_batches, X)
    return ArraySource(X, y, weight, n_batches, _batch_ids(batches, X))


def _require_rows_for(n_batches: int, X: Any) -> None:
    if n_batches > X.shape[0]:
        raise ValueError(
            f"n_batches={n_batches} is more than the {X.shape[0]} rows of X; "
            f"use at most one batch per row"
        )


def known_source(source: Source, n_batches: int | None) -> Source:
    """Check a source that was given ready-made, and cut rows in memory as asked."""
    if isinstance(source, ArraySource):
        _require_magnitude("y", source.y)
    if n_batches is None:
        return source
    if isinstance(source, ArraySource):
        _require_rows_for(n_batches, source.X)
        return replace(source, n_batches=n_batches)
    raise ValueError(
        f"n_batches={n_batches} is for rows in memory; here, each partition is a batch: "
        f"repartition the data instead"
    )


def record_columns(estimator: Any, source: Source, n_features: int) -> None:
    """Note the width and the names of the columns of a source on the estimator."""
    estimator.n_features_in_ = n_features
    names = getattr(source, "feature_names", None)
    if names is not None:
        estimator.feature_names_in_ = np.array([str(name) for name in names], dtype=object)
    elif not isinstance(source, ArraySource):
        vars(estimator).pop("feature_names_in_", None)  # of an earlier fit


def _require_numbers(estimator: BaseEstimator, X: Any) -> None:
    """Refuse columns with numbers that are missing, infinite or too large."""
    plain = not sp.issparse(X) and X.dtype == np.float64
    if plain and (X.flags.c_contiguous or X.flags.f_contiguous):
        # One pass, by BLAS: where the sum of squares is in range, every number is. Threads of BLAS
        # would stay awake afterwards and be in the way of ours.
        flat = X.ravel(order="K")
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            if np.dot(flat, flat) <= LARGEST**2:
                return
    assert_all_finite(X, estimator_name=type(estimator).__name__, input_name="X")
    _require_magnitude("X", X.data if sp.issparse(X) else X)


def _require_magnitude(name: str, values: NDArray[Any]) -> None:
    """Refuse numbers whose squares a float cannot hold."""
    largest = max(abs(float(np.max(values, initial=0.0))), abs(float(np.min(values, initial=0.0))))
    if largest > LARGEST:
        raise ValueError(
            f"{name} holds values as large as {largest:.3g}, whose squares leave the range of "
            f"floating-point numbers: rescale {name} to at most {LARGEST:g}"
        )
    if name == "y" and 0 < largest < 1.0 / LARGEST:
        raise ValueError(
            f"y is as small as {largest:.3g} throughout, and its squares vanish among "
            f"floating-point numbers: rescale y to at least {1.0 / LARGEST:g}"
        )


def prediction_rows(estimator: BaseEstimator, X: Any) -> Any:
    """Check rows to predict for against the fitted columns."""
    native = _eager(X)
    try:
        return validate_data(
            estimator,
            native,
            reset=False,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
        )
    except (ValueError, TypeError) as error:
        raise type(error)(_explain(error, native)) from error


def judged_target(y: Any, X: Any) -> Vector:
    """Check the y of rows that are to be judged by a fitted model."""
    target = check_array(
        _eager(y), ensure_2d=False, dtype=np.float64, input_name="y", ensure_all_finite=False
    )
    if target.ndim == 2 and target.shape[1] == 1:
        target = target[:, 0]
    if target.ndim != 1:
        raise ValueError(f"y must hold one number per row, got an array of shape {target.shape}")
    check_consistent_length(X, target)
    missing = int(np.count_nonzero(~np.isfinite(target)))
    if missing:
        raise ValueError(
            f"y is missing or infinite in {missing:,} of {target.size:,} rows, which cannot be "
            f"judged: drop those rows first"
        )
    return np.asarray(target)


def row_ids(given: Any, X: Any, n_rows: int) -> NDArray[Any]:
    """Return a name per row: the one given, else the index of a pandas X, else its place."""
    if given is None:
        index = getattr(X, "index", None)
        return np.arange(n_rows) if index is None else np.asarray(index)
    ids = np.asarray(_eager(given))
    if ids.shape != (n_rows,):
        raise ValueError(
            f"row_ids must hold one name per row: got shape {ids.shape} for {n_rows:,} rows"
        )
    return ids


def _checked(estimator: BaseEstimator, X: Any, y: Any) -> tuple[Any, Vector]:
    native = _eager(X)
    try:
        X, y = validate_data(
            estimator,
            native,
            _eager(y),
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            y_numeric=True,
            ensure_all_finite=False,
        )
        _require_numbers(estimator, X)
    except (ValueError, TypeError) as error:
        raise type(error)(_explain(error, native)) from error
    return X, np.asarray(y, dtype=np.float64)


def _eager(data: Any) -> Any:
    """Let data frames through as scikit-learn likes them, and refuse what is not there yet."""
    frame = nw.from_native(data, pass_through=True, allow_series=True)
    if isinstance(frame, nw.LazyFrame):
        raise TypeError(
            f"{type(data).__module__.split('.')[0]} data that is not computed yet cannot be "
            f"fitted as it is: call .collect() (or .compute()) on it first"
        )
    if isinstance(frame, nw.DataFrame) and frame.implementation.is_pyarrow():
        return frame.to_pandas() if _has_pandas() else frame.to_polars()
    if isinstance(frame, nw.Series):
        return frame.to_numpy()
    return data


def _has_pandas() -> bool:
    import importlib.util

    return importlib.util.find_spec("pandas") is not None


def _importance(sample_weight: Any, X: Any) -> Vector | None:
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not np.any(weight > 0):
        raise ValueError("sample_weight is zero for every row: nothing is left to fit")
    _require_magnitude("sample_weight", weight)
    return np.asarray(weight)


def _batch_ids(batches: Any, X: Any) -> NDArray[Any] | None:
    if batches is None:
        return None
    ids = batch_ids(batches)
    check_consistent_length(ids, X)
    return ids


def batch_ids(batches: Any) -> NDArray[Any]:
    """Check that the ids of batches are one per row."""
    ids = check_array(_eager(batches), ensure_2d=False, dtype=None, input_name="batches")
    if ids.ndim != 1:
        raise ValueError(f"batches must hold one id per row, got an array of shape {ids.shape}")
    return np.asarray(ids)


def _explain(error: Exception, X: Any) -> str:
    """Add to scikit-learn's message which columns are to blame, where that can be told."""
    message = str(error)
    culprits = _culprits(X)
    return f"{culprits}\n{message}" if culprits else message


def _culprits(X: Any) -> str:
    text, bad = [], []
    for name, values in _columns(X):
        if values.dtype.kind in "fc":
            n_bad = int(np.sum(~np.isfinite(values)))
            if n_bad:
                bad.append(f"{name!r} ({n_bad} rows)")
        elif values.dtype.kind in "mM" or (values.dtype.kind not in "iub" and not _numeric(values)):
            text.append(repr(name))
    lines = []
    if bad:
        lines.append(f"Missing or infinite values in {_listed(bad)}: impute or drop those rows.")
    if text:
        lines.append(f"Not numeric: {_listed(text)}: encode them first, e.g. with OneHotEncoder.")
    return " ".join(lines)


def _columns(X: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the columns of whatever was given, with names; nothing where that makes no sense."""
    if sp.issparse(X):
        columns = X.tocsc()
        for j in range(X.shape[1]):
            yield f"column {j}", columns.data[columns.indptr[j] : columns.indptr[j + 1]]
        return
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        for name in frame.columns:
            yield name, frame[name].to_numpy()
        return
    try:
        rows = np.asarray(X)
    except ValueError:  # rows of different lengths
        return
    if rows.ndim == 2:
        for j in range(rows.shape[1]):
            yield f"column {j}", rows[:, j]


def _numeric(values: Any) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.asarray(values).astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _listed(names: list[str]) -> str:
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
