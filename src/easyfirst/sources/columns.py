"""Which columns of a table mean what, and how a piece of the table becomes a batch.

Every source of named columns shares these checks, so that a bad value is reported in the same
words wherever it is found: by the worker that reads it, with the place and the column.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Batch

LARGEST = 1e120  # squares of larger numbers, summed over rows, overflow
MAX_NAMED = 5  # columns listed in a message before "and k more"


@dataclass(frozen=True)
class Columns:
    """The columns of a fit by name: what to predict, what from, and how rows are called."""

    target: str
    features: tuple[str, ...]
    row_id: str | None = None
    sample_weight: str | None = None

    @classmethod
    def choose(
        cls,
        available: Iterable[str],
        target: str,
        features: Sequence[str] | None = None,
        row_id: str | None = None,
        sample_weight: str | None = None,
    ) -> Self:
        """Check names against the columns that there are; no features means all the others."""
        names = list(available)
        special = [name for name in (target, row_id, sample_weight) if name is not None]
        if isinstance(features, str):
            raise TypeError(f"features must be a list of column names, got {features!r}")
        chosen = [n for n in names if n not in special] if features is None else list(features)
        for role, name in _roles(target, chosen, row_id, sample_weight):
            _require(role, name, names)
        repeated = sorted({name for name in chosen if chosen.count(name) > 1 or name in special})
        if repeated:
            raise ValueError(
                f"features must be columns of their own, but {listed(repeated)} is given twice or "
                f"is the target, the row id or the sample weight"
            )
        if not chosen:
            raise ValueError(f"no column is left to predict {target!r} from: name some features")
        return cls(target, tuple(chosen), row_id, sample_weight)

    @property
    def names(self) -> list[str]:
        """Every column that has to be read."""
        more = [self.row_id, self.sample_weight]
        return [*self.features, self.target, *(name for name in more if name is not None)]

    def batch(self, table: Any, place: str) -> Batch:
        """Make a batch of an eager table (pandas, polars, pyarrow); `place` is for messages."""
        frame = nw.from_native(table, eager_only=True)
        columns = [_numbers(frame, name, place) for name in self.features]
        kinds = {column.dtype for column in columns}
        narrow = kinds == {np.dtype(np.float32)}
        X = np.empty((len(frame), len(columns)), dtype=np.float32 if narrow else np.float64)
        for j, column in enumerate(columns):
            X[:, j] = column
        y = _numbers(frame, self.target, place).astype(np.float64)
        weight = None
        if self.sample_weight is not None:
            weight = _numbers(frame, self.sample_weight, place).astype(np.float64)
        ids = None if self.row_id is None else frame[self.row_id].to_numpy()
        batch = Batch(X, y, weight, ids)
        check_batch(batch, place, self)
        return batch


def check_batch(batch: Batch, place: str, columns: Columns | None = None) -> None:
    """Refuse rows that cannot be fitted, naming the place and the column."""
    names: Sequence[str] = [f"column {j}" for j in range(batch.n_features)]
    target, weight = "y", "sample_weight"
    if columns is not None:
        names, target = [repr(name) for name in columns.features], repr(columns.target)
        weight = repr(columns.sample_weight)
    if len(batch.y) != batch.n_samples:
        raise ValueError(f"{place}: X has {batch.n_samples} rows and y has {len(batch.y)}")
    values = batch.X.data[:, None] if hasattr(batch.X, "indptr") else batch.X
    _require_usable(values, names if values is batch.X else ["X"], place)
    _require_usable(batch.y[:, None], [target], place)
    if batch.sample_weight is not None:
        _require_usable(batch.sample_weight[:, None], [weight], place)
        if np.any(batch.sample_weight < 0):
            raise ValueError(
                f"{place}: the sample weights in {weight} must not be negative, but "
                f"{int(np.sum(batch.sample_weight < 0))} are"
            )


def _require_usable(values: NDArray[Any], names: Sequence[str], place: str) -> None:
    """Refuse missing, infinite and huge values."""
    high, low = np.max(values, axis=0, initial=0.0), np.min(values, axis=0, initial=0.0)
    extremes = np.maximum(high, -low).astype(np.float64)
    broken = [j for j, extreme in enumerate(extremes) if not np.isfinite(extreme)]
    if broken:
        rows = {names[j]: int(np.sum(~np.isfinite(values[:, j]))) for j in broken}
        shown = listed([f"{name} ({n} rows)" for name, n in rows.items()])
        raise ValueError(
            f"{place}: missing or infinite values in {shown}: impute or drop those rows"
        )
    huge = [f"{names[j]} ({high:.3g})" for j, high in enumerate(extremes) if high > LARGEST]
    if huge:
        raise ValueError(
            f"{place}: the squares of the values in {listed(huge)} leave the range of "
            f"floating-point numbers: rescale to at most {LARGEST:g}"
        )


def _numbers(frame: nw.DataFrame[Any], name: str, place: str) -> NDArray[Any]:
    """Return one column as floats; missing values become NaN."""
    if name not in frame.columns:
        raise ValueError(f"{place}: there is no column {name!r}{_resembling(name, frame.columns)}")
    column = frame[name]
    if not (column.dtype.is_numeric() or column.dtype in (nw.Boolean, nw.Object)):
        raise ValueError(
            f"{place}: column {name!r} holds {column.dtype}, not numbers: encode it first"
        )
    values = column.to_numpy()
    if values.dtype == np.float32 or values.dtype == np.float64:
        return np.asarray(values)
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{place}: column {name!r} holds values that are not numbers ({error}): encode it first"
        ) from None


def _roles(
    target: str, features: Sequence[str], row_id: str | None, sample_weight: str | None
) -> list[tuple[str, str]]:
    roles = [("target", target), *(("features", name) for name in features)]
    optional = [("row_id", row_id), ("sample_weight", sample_weight)]
    return roles + [(role, name) for role, name in optional if name is not None]


def _require(role: str, name: str, available: Sequence[str]) -> None:
    if name not in available:
        raise ValueError(
            f"{role} names the column {name!r}, which is not there"
            f"{_resembling(name, available)}; the columns are {listed([*map(repr, available)])}"
        )


def _resembling(name: str, available: Sequence[str]) -> str:
    close = difflib.get_close_matches(str(name), [str(n) for n in available], n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def columns_of_fit(
    available: Sequence[str], names: Sequence[str] | None, n_features: int
) -> list[str]:
    """Return the columns to predict from, in the order of fit; refuse a frame without them."""
    known = list(available)
    wanted = known if names is None else [str(name) for name in names]
    missing = [name for name in wanted if name not in known]
    if missing or len(wanted) != n_features:
        raise ValueError(
            f"X must have the {n_features} columns of fit; missing: {missing}, got {known}"
        )
    return wanted


def listed(names: Sequence[str], most: int = MAX_NAMED) -> str:
    """Return the names for a message, the first few of them if there are many."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
