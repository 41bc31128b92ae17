"""Ray Datasets: their rows, in order, stay in Ray's store and are read by the workers.

Loaded only when a Ray Dataset is given; needs the 'ray' extra.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from easyfirst.contracts import Batch, HeldPartition, Vector
from easyfirst.sources.arrays import ROWS_PER_BATCH, even_bounds
from easyfirst.sources.columns import Columns, columns_of_fit
from easyfirst.transforms import IDENTITY, TargetTransform

MOST_BATCHES = 4096  # more rows than that many default batches hold make the batches larger


@dataclass(frozen=True, eq=False)
class RayPartition(HeldPartition):
    """Some rows of a Ray Dataset: `block` lists the references of the tables they lie in."""

    def load(self) -> Batch:
        """Fetch the tables to this process and read the rows."""
        import ray

        return self.read(ray.get(self.block))


class RaySource:
    """The rows of a Ray Dataset; the arguments are those of `easyfirst.read_frame`.

    Ray cuts a dataset into blocks by the machines it runs on. Batches are cut by the number of
    rows alone, as those of an array are, so that the same rows give bit-for-bit the same fit on any
    cluster.
    """

    def __init__(
        self,
        dataset: Any,
        target: str,
        features: Sequence[str] | None = None,
        row_id: str | None = None,
        sample_weight: str | None = None,
    ) -> None:
        self.columns = Columns.choose(
            dataset.columns() or (), target, features, row_id, sample_weight
        )
        self.feature_names = self.columns.features
        self.dataset = dataset

    def partitions(self) -> list[RayPartition]:
        """Return the batches; the dataset is computed when this is first asked for."""
        tables, starts = self._tables
        n_rows = starts[-1]
        if n_rows == 0:
            raise ValueError("the Ray Dataset has no rows")
        n_batches = min(-(-n_rows // ROWS_PER_BATCH), MOST_BATCHES)
        bounds = even_bounds(n_rows, n_batches)
        return [self._partition(tables, starts, *rows) for rows in pairwise(bounds)]

    def _partition(
        self, tables: Sequence[Any], starts: Sequence[int], first: int, end: int
    ) -> RayPartition:
        """Find the tables in which the rows from `first` up to `end` lie."""
        touched = range(bisect_right(starts, first) - 1, bisect_right(starts, end - 1))
        pieces = tuple(
            (max(first - starts[t], 0), min(end, starts[t + 1]) - starts[t]) for t in touched
        )
        place = f"rows {first} to {end - 1} of the Ray Dataset"
        return RayPartition([tables[t] for t in touched], _Read(self.columns, pieces, place))

    @cached_property
    def _tables(self) -> tuple[list[Any], list[int]]:
        """References to the computed tables that are not empty, and the row each begins with."""
        import ray

        with _in_order(self.dataset):
            chosen = self.dataset.select_columns(self.columns.names).materialize()
        references = chosen.to_arrow_refs()
        # A task without a CPU of its own: somebody else may hold them all.
        count = ray.remote(num_cpus=0)(_n_rows)
        sizes = ray.get([count.remote(reference) for reference in references])
        kept = [(table, size) for table, size in zip(references, sizes, strict=True) if size]
        return [table for table, _ in kept], [0, *accumulate(size for _, size in kept)]


@dataclass(frozen=True)
class _Read:
    columns: Columns
    pieces: tuple[tuple[int, int], ...]  # the first row and the end, in each table
    place: str

    def __call__(self, tables: Sequence[Any]) -> Batch:
        import pyarrow as pa

        parts = [
            table.slice(first, end - first)
            for table, (first, end) in zip(tables, self.pieces, strict=True)
        ]
        # A column may be whole numbers in one table and have fractions in the next.
        joined = pa.concat_tables(parts, promote_options="permissive")
        return self.columns.batch(joined, self.place)


def predict(
    X: Any,
    coef: Vector,
    intercept: float,
    names: Sequence[str] | None,
    transform: TargetTransform = IDENTITY,
) -> Any:
    """Return the dataset with a column "prediction" more, lazily.

    Beside the other columns, because a Ray Dataset has no index by which rows could be matched.
    """
    known = X.columns(fetch_if_missing=False)
    if known is None:  # not before the dataset is computed
        wanted = None if names is None else list(names)
    else:
        wanted = columns_of_fit(known, names, coef.size)
    step = _Predict(coef, intercept, wanted, transform)
    return X.map_batches(step, batch_format="pyarrow", zero_copy_batch=True)


@dataclass(frozen=True, eq=False)
class _Predict:
    coef: Vector
    intercept: float
    names: Sequence[str] | None
    transform: TargetTransform

    def __call__(self, table: Any) -> Any:
        import pyarrow as pa

        X = np.empty((table.num_rows, self.coef.size))
        for j, name in enumerate(self.names or table.column_names):
            X[:, j] = table.column(name).to_numpy()
        values = pa.array(self.transform.back(X @ self.coef + self.intercept))
        return table.append_column("prediction", values)


@contextmanager
def _in_order(dataset: Any) -> Iterator[None]:
    """Make Ray keep the order of the rows, which it otherwise gives up for speed."""
    options = dataset.context.execution_options
    before = options.preserve_order
    options.preserve_order = True
    try:
        yield
    finally:
        options.preserve_order = before


def _n_rows(table: Any) -> int:
    return int(table.num_rows)
