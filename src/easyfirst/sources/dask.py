"""Dask arrays and data frames: partitions become batches, and stay on the cluster.

Loaded only when a dask collection is given; needs the 'dask' extra.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from easyfirst.contracts import Batch, HeldPartition, Vector
from easyfirst.sources.columns import Columns, check_batch, columns_of_fit
from easyfirst.transforms import IDENTITY, TargetTransform


@dataclass(frozen=True, eq=False)
class DaskPartition(HeldPartition):
    """A partition of a dask collection: `block` is a delayed value, or a list of such."""

    def load(self) -> Batch:
        """Compute the rows in this process: for engines other than Dask's."""
        (block,) = _dask().compute(self.block, scheduler="synchronous")
        return self.read(block)


class DaskSource:
    """The partitions of a dask DataFrame; the arguments are those of `easyfirst.read_frame`."""

    def __init__(
        self,
        frame: Any,
        target: str,
        features: Sequence[str] | None = None,
        row_id: str | None = None,
        sample_weight: str | None = None,
    ) -> None:
        self.columns = Columns.choose(frame.columns, target, features, row_id, sample_weight)
        self.feature_names = self.columns.features
        self.frame = frame

    def partitions(self) -> list[DaskPartition]:
        """Return one descriptor per partition of the frame, with the needed columns only."""
        blocks = self.frame[self.columns.names].to_delayed()
        return [
            DaskPartition(block, _ReadFrame(self.columns, f"partition {i} of the dask DataFrame"))
            for i, block in enumerate(blocks)
        ]


@dataclass(frozen=True)
class _ReadFrame:
    columns: Columns
    place: str

    def __call__(self, block: Any) -> Batch:
        return self.columns.batch(block, self.place)


class DaskPairSource:
    """X, y and maybe sample weights as dask collections of rows that belong together.

    The chunks (or partitions) of X along the rows become batches; the others follow them.
    """

    def __init__(self, X: Any, y: Any, sample_weight: Any = None) -> None:
        if y is None:
            raise ValueError("y is missing: fit(X, y) needs the response beside a dask X")
        is_frame = not hasattr(X, "chunks")
        self.feature_names = tuple(map(str, X.columns)) if is_frame else None
        if not is_frame:
            if X.ndim != 2:
                raise ValueError(f"X must have 2 dimensions, rows by features, got {X.ndim}")
            X = X.rechunk({1: X.shape[1]})
        others = [("y", y), ("sample_weight", sample_weight)]
        self._parts = [_blocks(X)]
        for name, other in others:
            if other is not None:
                self._parts.append(_blocks(_aligned(name, other, X)))
        counts = [len(part) for part in self._parts]
        if len(set(counts)) > 1:
            raise ValueError(
                f"X, y and sample_weight have {counts} partitions: repartition them alike"
            )
        self.is_weighted = sample_weight is not None

    def partitions(self) -> list[DaskPartition]:
        """Return one descriptor per chunk of rows."""
        names = self.feature_names
        return [
            DaskPartition(list(blocks), _ReadPair(f"chunk {i} of the dask rows", names))
            for i, blocks in enumerate(zip(*self._parts, strict=True))
        ]


@dataclass(frozen=True)
class _ReadPair:
    place: str
    names: tuple[str, ...] | None

    def __call__(self, blocks: Sequence[Any]) -> Batch:
        X, y, *more = blocks
        columns = None if self.names is None else Columns("y", self.names)
        weight = _vector(more[0], "sample_weight", self.place) if more else None
        batch = Batch(_matrix(X, self.place), _vector(y, "y", self.place), weight)
        check_batch(batch, self.place, columns)
        return batch


def predict(
    X: Any,
    coef: Vector,
    intercept: float,
    names: Sequence[str] | None,
    transform: TargetTransform = IDENTITY,
) -> Any:
    """Return predictions for a dask array (as an array) or DataFrame (as a Series), lazily."""
    if hasattr(X, "chunks"):
        if X.ndim != 2 or X.shape[1] != coef.size:
            raise ValueError(f"X must have {coef.size} columns as in fit, got shape {X.shape}")
        rows = X.rechunk({1: coef.size})
        parts = (coef, intercept, transform)
        return rows.map_blocks(_rows_times, *parts, drop_axis=1, dtype=np.float64)
    wanted = columns_of_fit(X.columns, names, coef.size)
    meta = ("prediction", np.float64)
    return X[wanted].map_partitions(_frame_times, coef, intercept, transform, meta=meta)


def _rows_times(rows: Any, coef: Vector, intercept: float, transform: TargetTransform) -> Vector:
    return transform.back(np.asarray(rows @ coef + intercept))


def _frame_times(frame: Any, coef: Vector, intercept: float, transform: TargetTransform) -> Any:
    import pandas as pd

    values = _rows_times(frame.to_numpy(dtype=np.float64), coef, intercept, transform)
    return pd.Series(values, index=frame.index, name="prediction")


def _dask() -> Any:
    import dask.array

    return dask


def _blocks(collection: Any) -> list[Any]:
    blocks = collection.to_delayed()
    return list(np.ravel(blocks)) if isinstance(blocks, np.ndarray) else list(blocks)


def _aligned(name: str, other: Any, X: Any) -> Any:
    """Cut y or the weights as X is cut, where the cuts are known."""
    if not hasattr(X, "chunks"):
        return other
    rows = X.chunks[0]
    known = not np.isnan(np.sum(rows))
    if isinstance(other, np.ndarray) and known:
        other = _dask().array.from_array(other, chunks=(rows, *other.shape[1:]))
    if not hasattr(other, "to_delayed"):
        raise TypeError(f"{name} must be a dask collection beside a dask X, got {type(other)!r}")
    if not hasattr(other, "chunks"):
        return other
    if other.ndim == 2 and other.shape[1] == 1:
        other = other[:, 0]
    if other.ndim != 1:
        raise ValueError(f"{name} must hold one number per row, got shape {other.shape}")
    if known and not np.isnan(np.sum(other.chunks[0])):
        if other.shape[0] != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows and {name} has {other.shape[0]}")
        return other.rechunk((rows,))
    return other


def _matrix(block: Any, place: str) -> Any:
    if sp.issparse(block):
        return sp.csr_array(block)
    try:
        values = np.asarray(block)
        narrow = values.dtype == np.float32
        return np.ascontiguousarray(values, dtype=np.float32 if narrow else np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place}: X holds values that are not numbers ({error})") from None


def _vector(block: Any, name: str, place: str) -> Vector:
    try:
        return np.ravel(np.asarray(block, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place}: {name} holds values that are not numbers ({error})") from None
