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
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    assert_all_finite,
    check_array,
    check_consistent_length,
    column_or_1d,
    validate_data,
)

from easyfirst.contracts import Source, Vector
from easyfirst.engines.blas import one_blas_thread
from easyfirst.estimators.targets import ON_THEIR_OWN
from easyfirst.sources.arrays import ArraySource
from easyfirst.sources.columns import LARGEST, listed

ONE_TARGET = "this method is for one target"
ONE_LABEL = "a classifier has one target (MultiOutputClassifier fits one for each)"


def training_source(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    batches: Any,
    n_batches: int | None,
    refused: str | None = ONE_TARGET,
) -> ArraySource:
    """Turn fit's arguments into a source, recording names and widths on the estimator.

    `refused` says why several targets are not accepted; None if they are.
    """
    X, y = _checked(estimator, X, y, refused=refused)
    y = np.ascontiguousarray(y, dtype=np.float64)  # so that its rows are, too, wherever they go
    _require_magnitude("y", y)
    return _array_source(X, y, sample_weight, batches, n_batches)


def labelled_source(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    batches: Any,
    n_batches: int | None,
) -> tuple[ArraySource, NDArray[Any]]:
    """Turn fit's arguments into a source whose y are numbers of classes, and the classes."""
    require_labels(y)
    X, y = _checked(estimator, X, y, numeric=False, refused=ONE_LABEL)
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    return _array_source(X, codes.astype(np.float64), sample_weight, batches, n_batches), classes


def require_labels(y: Any) -> None:
    """Raise an error if some rows have no label."""
    given = np.asarray(_eager(y))
    if given.ndim == 0 or given.dtype.kind not in ("f", "O"):
        return
    flat = given.ravel()
    missing = np.isnan(flat) if given.dtype.kind == "f" else np.array([*map(_is_missing, flat)])
    if missing.any():
        first = int(np.flatnonzero(missing)[0])
        raise ValueError(
            f"Input y contains {'NaN' if flat[first] is not None else 'None'}, which is no label, "
            f"in {missing.sum():,} of {missing.size:,} rows, the first at place {first:,}: every "
            f"row needs a number, a text or a truth value. Leave these rows out, and use predict "
            f"for their labels"
        )


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)  # NaN
    except TypeError:  # pandas' NA has no truth value
        return True


def _array_source(
    X: Any, y: Vector, sample_weight: Any, batches: Any, n_batches: int | None
) -> ArraySource:
    weight = importance(sample_weight, X)
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


def reviewed(source: Source, trusted: Any, rejected: Any) -> Source:
    """Return the source with what is known of its rows: right ones trusted, wrong ones left out."""
    if trusted is None and rejected is None:
        return source
    if not isinstance(source, ArraySource):
        raise ValueError(
            "trusted and rejected are for rows in memory: leave wrong rows out of the source, or "
            "give them a sample weight of 0 there"
        )
    right, wrong = review_masks(trusted, rejected, source.X.shape[0])
    if wrong is None:
        return replace(source, trusted=right)
    weight = np.ones(wrong.size) if source.sample_weight is None else source.sample_weight
    weight = np.where(wrong, 0.0, weight)
    if not np.any(weight > 0):
        raise ValueError(
            "every row is rejected or has a sample weight of 0: nothing is left to fit"
        )
    return replace(source, trusted=right, rejected=wrong, sample_weight=weight)


def review_masks(
    trusted: Any, rejected: Any, n_rows: int
) -> tuple[NDArray[np.bool_] | None, NDArray[np.bool_] | None]:
    """Check which rows are known to be right, and to be wrong."""
    right, wrong = _mask("trusted", trusted, n_rows), _mask("rejected", rejected, n_rows)
    if right is not None and wrong is not None and np.any(right & wrong):
        both = int(np.sum(right & wrong))
        raise ValueError(f"{both:,} rows are both trusted and rejected: a row can be only one")
    if wrong is not None and np.all(wrong):
        raise ValueError("every row is rejected: nothing is left to fit")
    return right, wrong


def _mask(name: str, given: Any, n_rows: int) -> NDArray[np.bool_] | None:
    """Check that there is one truth value per row; None where no row is meant."""
    if given is None:
        return None
    mask = np.asarray(_eager(given))
    if mask.shape != (n_rows,):
        raise ValueError(
            f"{name} must hold one truth value per row: got shape {mask.shape} for {n_rows:,} rows"
        )
    if mask.dtype != bool and not (mask.dtype.kind in "iuf" and np.all((mask == 0) | (mask == 1))):
        raise ValueError(f"{name} must hold truth values (or 0 and 1), got {mask.dtype} values")
    chosen = mask.astype(bool)
    return chosen if chosen.any() else None


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


def any_training_rows(
    estimator: BaseEstimator, X: Any, y: Any, labels: bool = False
) -> tuple[Any, NDArray[Any]]:
    """Check rows for an estimator that may take more than numbers, y being numbers or labels.

    Data frames are left as they are: what they may hold is for the estimator to say.
    """
    if labels:
        require_labels(y)
    if y is not None and _is_frame(X):
        validate_data(estimator, X, skip_check_array=True)
        if not labels:
            return X, judged_target(y, X)
        y = column_or_1d(_eager(y))
        check_consistent_length(X, y)
    else:
        X, y = validate_data(estimator, X, y, y_numeric=not labels, **_accepted(estimator))
    if labels:
        check_classification_targets(y)
        return X, np.asarray(y)
    return X, np.asarray(y, dtype=np.float64)


def any_rows(estimator: BaseEstimator, X: Any) -> Any:
    """Check rows to predict for against those of the fit; data frames are left as they are."""
    if _is_frame(X):
        validate_data(estimator, X, reset=False, skip_check_array=True)
        return X
    return validate_data(estimator, X, reset=False, **_accepted(estimator))


def is_dense_and_numeric(X: Any) -> bool:
    """Return whether every column holds numbers or truth values."""
    frame = nw.from_native(X, pass_through=True, eager_only=True)
    if isinstance(frame, nw.DataFrame):
        return all(kind.is_numeric() or kind == nw.Boolean for kind in frame.schema.values())
    return isinstance(X, np.ndarray) and X.dtype.kind in "biuf"


def _is_frame(X: Any) -> bool:
    return isinstance(nw.from_native(X, pass_through=True, eager_only=True), nw.DataFrame)


def _accepted(estimator: BaseEstimator) -> dict[str, Any]:
    tags = get_tags(estimator).input_tags
    return {
        "accept_sparse": "csr" if tags.sparse else False,
        "ensure_all_finite": "allow-nan" if tags.allow_nan else True,
    }


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


def judged_labels(y: Any, X: Any, classes: NDArray[Any]) -> Vector:
    """Return the number of the class of each label that is to be judged by a fitted model."""
    given = np.asarray(_eager(y))
    if given.ndim != 1:
        raise ValueError(f"y must hold one label per row, got an array of shape {given.shape}")
    check_consistent_length(X, given)
    try:
        places = np.minimum(np.searchsorted(classes, given), classes.size - 1)
        unknown = np.flatnonzero(classes[places] != given)
    except TypeError:  # numbers beside texts
        places, unknown = np.zeros(given.size), np.arange(given.size)
    if unknown.size:
        raise ValueError(
            f"y holds {given[unknown[0]]!r} in {unknown.size:,} of {given.size:,} rows, which is "
            f"none of the classes of the fit: {listed([repr(name) for name in classes.tolist()])}"
        )
    return places.astype(np.float64)


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


def _checked(
    estimator: BaseEstimator, X: Any, y: Any, numeric: bool = True, refused: str | None = None
) -> tuple[Any, NDArray[Any]]:
    native, y = _eager(X), _eager(y)
    try:
        shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
        has_several = len(shape) == 2 and shape[1] > 1
        X, y = validate_data(
            estimator,
            native,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            y_numeric=numeric,
            multi_output=has_several and refused is None,
            ensure_all_finite=False,
        )
        _require_numbers(estimator, X)
    except (ValueError, TypeError) as error:
        raise type(error)(_explain(error, native, refused)) from error
    return X, np.asarray(y)


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


def importance(sample_weight: Any, X: Any) -> Vector | None:
    """Check how much each row counts; None where all count the same."""
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
    return batch_ids(batches, X)


def batch_ids(batches: Any, X: Any = None) -> NDArray[Any]:
    """Check that the ids of batches are one per row."""
    ids = check_array(_eager(batches), ensure_2d=False, dtype=None, input_name="batches")
    if ids.ndim != 1:
        raise ValueError(f"batches must hold one id per row, got an array of shape {ids.shape}")
    if X is not None:
        check_consistent_length(ids, X)
    return np.asarray(ids)


def _explain(error: Exception, X: Any, refused: str | None = None) -> str:
    """Add to scikit-learn's message what to do, or which columns are to blame, where known."""
    message = str(error)
    if "y should be a 1d array" in message and refused is not None:
        return f"{message} {ON_THEIR_OWN[0].upper()}{ON_THEIR_OWN[1:]}: {refused}."
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
        lines.append(f"Missing or infinite values in {listed(bad)}: impute or drop those rows.")
    if text:
        lines.append(f"Not numeric: {listed(text)}: encode them first, e.g. with OneHotEncoder.")
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
