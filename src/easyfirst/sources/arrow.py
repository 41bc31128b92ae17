"""Datasets of pyarrow as a source: hive partitions, filters, Feather, and whatever else it reads.

Parquet is cut into row groups and Feather into record batches; files of other kinds are one piece.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from easyfirst.sources.columns import Columns
from easyfirst.sources.parquet import arrow
from easyfirst.sources.pieces import ROWS_PER_BATCH, PieceSource, checked_rows_per_batch


@dataclass(frozen=True, eq=False)
class Fragment:
    """A part of a dataset, as pyarrow names it, and its rows that pass the filter."""

    fragment: Any
    schema: Any
    filter: Any
    n_rows: int
    index: int | None = None  # of a row group

    @property
    def path(self) -> str:
        """The file, where there is one."""
        return str(getattr(self.fragment, "path", "dataset"))

    @property
    def place(self) -> str:
        """Where this is, for messages."""
        return self.path if self.index is None else f"{self.path}, row group {self.index}"

    def read(self, columns: Columns) -> Any:
        """Read the needed columns."""
        return _guarded(self, lambda: self._scanner(columns).to_table())

    def _scanner(self, columns: Columns) -> Any:
        import pyarrow.dataset as ds

        options = None
        if self.index is not None:
            options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
        return self.fragment.scanner(
            schema=self.schema,
            columns=columns.names,
            filter=self.filter,
            use_threads=False,
            fragment_scan_options=options,
        )


@dataclass(frozen=True)
class RecordBatch:
    """One record batch of a Feather (Arrow IPC) file on this machine."""

    path: str
    index: int
    n_rows: int

    @property
    def place(self) -> str:
        """Where this is, for messages."""
        return f"{self.path}, record batch {self.index}"

    def read(self, columns: Columns) -> Any:
        """Read the needed columns."""
        pyarrow = arrow("Arrow files need")

        def load() -> Any:
            with pyarrow.memory_map(self.path) as file:
                found = pyarrow.ipc.open_file(file).get_batch(self.index)
                return pyarrow.Table.from_batches([found]).select(columns.names)

        return _guarded(self, load)


class ArrowSource(PieceSource):
    """A dataset whose parts, in order, become batches."""


def read_arrow(
    data: Any,
    target: str,
    *,
    features: Sequence[str] | None = None,
    row_id: str | None = None,
    sample_weight: str | None = None,
    rows_per_batch: int = ROWS_PER_BATCH,
    filter: Any = None,
) -> ArrowSource:
    """Return a pyarrow Dataset as a source for `fit`; the rows are counted here.

    Parameters
    ----------
    data
        A ``pyarrow.dataset.Dataset``; or a path or a list of paths to Parquet or Feather files,
        whose folders may name columns as Hive does (``year=2026/``).
    target, features, row_id, sample_weight
        Columns, as in `read_frame`; columns of partitions are columns like any other.
    rows_per_batch
        Consecutive row groups or record batches are joined until a batch has this many rows.
    filter
        A pyarrow expression, such as ``pyarrow.dataset.field("year") > 2020``. To count the rows
        that pass it, the columns it names are read once here.
    """
    size = checked_rows_per_batch(rows_per_batch)
    dataset = _dataset(data)
    columns = Columns.choose(dataset.schema.names, target, features, row_id, sample_weight)
    parts = [
        piece
        for fragment in dataset.get_fragments(filter=filter)
        for piece in _pieces(fragment, dataset.schema, filter, columns)
        if piece.n_rows
    ]
    if not parts:
        raise ValueError("the dataset has no rows, or none that pass the filter")
    return ArrowSource(tuple(parts), columns, size)


def _dataset(data: Any) -> Any:
    arrow("Datasets need")
    import pyarrow.dataset as ds

    if isinstance(data, ds.Dataset):
        return data
    if not isinstance(data, str | os.PathLike | list | tuple):
        raise TypeError(f"data must be a pyarrow Dataset, a path or a list of paths, got {data!r}")
    first = data[0] if isinstance(data, list | tuple) and data else data
    is_feather = str(first).lower().endswith((".feather", ".arrow", ".ipc"))
    return ds.dataset(data, format="feather" if is_feather else "parquet", partitioning="hive")


def _pieces(
    fragment: Any, schema: Any, filter: Any, columns: Columns
) -> Iterator[Fragment | RecordBatch]:
    kind = type(fragment).__name__
    if kind == "ParquetFileFragment":
        for part in fragment.split_by_row_group():
            group = part.row_groups[0]
            n = group.num_rows if filter is None else _count(part, schema, filter)
            yield Fragment(part, schema, filter, n, group.id)
        return
    if getattr(getattr(fragment, "format", None), "default_extname", "") in ("arrow", "feather"):
        path = os.path.abspath(fragment.path)
        batches = list(_record_batches(path))
        if filter is None and set(columns.names) <= set(fragment.physical_schema.names):
            yield from (RecordBatch(path, i, n) for i, n in enumerate(batches))
            return
    yield Fragment(fragment, schema, filter, _count(fragment, schema, filter))


def _count(fragment: Any, schema: Any, filter: Any) -> int:
    return int(fragment.scanner(schema=schema, columns=[], filter=filter).count_rows())


def _record_batches(path: str) -> Iterator[int]:
    pyarrow = arrow("Arrow files need")
    with pyarrow.memory_map(path) as file:
        reader = pyarrow.ipc.open_file(file)
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index).num_rows


def _guarded(piece: Fragment | RecordBatch, load: Any) -> Any:
    pyarrow = arrow("Datasets need")
    try:
        return load()
    except FileNotFoundError:
        raise ValueError(f"{piece.path}: the file is not there on the worker") from None
    except (OSError, IndexError, KeyError, pyarrow.ArrowException) as error:
        raise ValueError(f"{piece.place}: cannot be read ({error})") from None
