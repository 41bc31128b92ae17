"""Rows that are already in memory: NumPy arrays and CSR matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from easyfirst.contracts import Batch, Vector

ROWS_PER_BATCH = 16_384  # the default size; a batch of 100 features is then 13 MB
ENTRIES_PER_REPLY = 8  # of X, at least, for each entry that batches reply at a time


@dataclass(frozen=True, eq=False)
class ArrayPartition:
    """Some rows of arrays in this process: a slice where possible, so nothing is copied."""

    in_memory: ClassVar[bool] = True

    X: Any
    y: Vector
    sample_weight: Vector | None
    rows: slice | NDArray[np.intp]
    row_ids: NDArray[Any] | None = None
    trusted: NDArray[np.bool_] | None = None

    @property
    def is_view(self) -> bool:
        """Whether loading copies nothing."""
        return isinstance(self.rows, slice) and isinstance(self.X, np.ndarray)

    def load(self) -> Batch:
        """Return the rows as a batch."""
        return Batch(
            X=_take(self.X, self.rows),
            y=self.y[self.rows],
            sample_weight=None if self.sample_weight is None else self.sample_weight[self.rows],
            row_ids=None if self.row_ids is None else self.row_ids[self.rows],
            trusted=None if self.trusted is None else self.trusted[self.rows],
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel with the rows of this batch alone, not with the whole arrays."""
        own = self.load()
        rows = slice(0, own.n_samples)
        return ArrayPartition, (own.X, own.y, own.sample_weight, rows, own.row_ids, own.trusted)


@dataclass(frozen=True, eq=False)
class ArraySource:
    """Split arrays into batches of consecutive rows, or by the user's batch ids.

    Without `batches` and `n_batches` the number of batches follows from the number of rows
    alone, and of entries, where rows are sparse. Batch ids whose rows are not consecutive cost one
    copy of those rows. `rejected` rows have the sample weight zero.
    """

    X: Any
    y: Vector
    sample_weight: Vector | None = None
    n_batches: int | None = None
    batches: NDArray[Any] | None = None
    feature_names: tuple[str, ...] | None = None
    row_ids: NDArray[Any] | None = None
    trusted: NDArray[np.bool_] | None = None
    rejected: NDArray[np.bool_] | None = None

    @property
    def n_targets(self) -> int:
        """How many columns y has."""
        return 1 if self.y.ndim == 1 else int(self.y.shape[1])

    def partitions(self) -> list[ArrayPartition]:
        """Return the batches in order: of the rows, or of the sorted ids."""
        parts = (self.X, self.y, self.sample_weight)
        more = (self.row_ids, self.trusted)
        return [ArrayPartition(*parts, rows, *more) for rows in self.rows()]

    def rows(self) -> Sequence[slice | NDArray[np.intp]]:
        """Return which rows each batch holds."""
        n_samples = int(self.X.shape[0])
        if self.batches is not None:
            return rows_by_id(self.batches)
        n_batches = self.n_batches or self._usual_batches(n_samples)
        return [slice(a, b) for a, b in pairwise(even_bounds(n_samples, n_batches))]

    def _usual_batches(self, n_samples: int) -> int:
        """Return how many batches there are; those of wide sparse rows are larger.

        Each replies with vectors of one entry per column, which together stay smaller than X.
        """
        n_batches = -(-n_samples // ROWS_PER_BATCH)
        if not sp.issparse(self.X):
            return n_batches
        most = int(self.X.nnz) // (ENTRIES_PER_REPLY * max(int(self.X.shape[1]), 1))
        return max(1, min(n_batches, most))


def even_bounds(n_rows: int, n_batches: int) -> list[int]:
    """Return where batches begin and the last one ends; the longer by one come first.

    Neighbours are thus equally long, and can be worked on in one operation.
    """
    length, longer = divmod(n_rows, n_batches)
    return [i * length + min(i, longer) for i in range(n_batches + 1)]


def rows_by_id(ids: NDArray[Any]) -> Sequence[slice | NDArray[np.intp]]:
    """Return the rows of each distinct id, as slices when every id is consecutive."""
    _, codes = np.unique(ids, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    bounds = np.flatnonzero(np.diff(codes[order])) + 1
    groups = np.split(order, bounds)
    if all(group[-1] - group[0] + 1 == group.size for group in groups):
        return [slice(int(group[0]), int(group[-1]) + 1) for group in groups]
    return groups


def _take(X: Any, rows: slice | NDArray[np.intp]) -> Any:
    if not (sp.issparse(X) and isinstance(rows, slice)):
        return X[rows]
    # Always a csr_array, whatever kind came in; scipy copies the entries of a row range.
    indptr = X.indptr[rows.start : rows.stop + 1]
    entries = slice(indptr[0], indptr[-1])
    parts = (X.data[entries], X.indices[entries], indptr - indptr[0])
    return sp.csr_array(parts, shape=(rows.stop - rows.start, X.shape[1]))
