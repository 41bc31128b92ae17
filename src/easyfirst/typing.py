"""Types of what a user hands in and gets back, for those who check their own code."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import ArrayLike


class HasShape(Protocol):
    """Rows by columns: arrays, sparse matrices, frames of pandas and polars."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, columns."""
        ...


class DaskRows(Protocol):
    """A Dask array or frame."""

    @property
    def dask(self) -> Any:
        """The graph of tasks."""
        ...


class RayRows(Protocol):
    """A Ray dataset."""

    def map_batches(self, fn: Any, /) -> Any:
        """Return the dataset that a function makes of it."""
        ...


class SparkRows(Protocol):
    """A Spark frame."""

    @property
    def sparkSession(self) -> Any:  # noqa: N802 (Spark's own name)
        """The session."""
        ...


#: Rows in memory: an array, a list of rows, a sparse matrix or a frame.
TableLike = ArrayLike | HasShape
#: Rows that a cluster holds.
LazyRows = DaskRows | RayRows | SparkRows


class TableOfColumns(Protocol):
    """A pandas, polars or pyarrow table, or a dict of arrays: columns by name."""

    def __getitem__(self, name: str, /) -> Any:
        """Return a column."""
        ...

    def __len__(self) -> int:
        """Number of rows, or of columns of a dict."""
        ...
