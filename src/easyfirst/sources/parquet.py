"""Parquet files as a source: each worker reads its own row groups, checksums verified.

The driver reads footers only. Needs pyarrow, which is loaded when a file is.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Batch
from easyfirst.sources.columns import Columns

ROWS_PER_BATCH = 65_536  # at least, unless the data end; a row group is never cut


@dataclass(frozen=True)
class RowGroup:
    """One row group of one file, and the number of rows that its footer promises."""

    path: str
    index: int
    n_rows: int

    @property
    def place(self) -> str:
        """Where this is, for messages."""
        return f"{self.path}, row group {self.index}"

    def read(self, columns: Columns) -> Batch:
        """Read the needed columns into a batch."""
        pyarrow = _pyarrow()
        try:
            with _open(self.path) as file:
                table = file.read_row_group(self.index, columns=columns.names, use_threads=False)
        except FileNotFoundError:
            raise ValueError(f"{self.path}: the file is not there on the worker") from None
        except (OSError, IndexError, pyarrow.ArrowException) as error:
            raise ValueError(
                f"{self.place}: cannot be read, the file is damaged or has changed ({error})"
            ) from None
        if table.num_rows != self.n_rows:
            raise ValueError(
                f"{self.place}: has {table.num_rows} rows instead of {self.n_rows}: the file "
                f"changed during the fit"
            )
        return columns.batch(table, self.place)


@dataclass(frozen=True)
class ParquetPartition:
    """Row groups that form one batch."""

    groups: tuple[RowGroup, ...]
    columns: Columns

    def load(self) -> Batch:
        """Read the row groups one after the other."""
        parts = [group.read(self.columns) for group in self.groups]
        if len(parts) == 1:
            return parts[0]
        weights = [part.sample_weight for part in parts if part.sample_weight is not None]
        ids = [part.row_ids for part in parts if part.row_ids is not None]
        return Batch(
            np.concatenate([part.X for part in parts]),
            np.concatenate([part.y for part in parts]),
            np.concatenate(weights) if weights else None,
            np.concatenate(ids) if ids else None,
        )


@dataclass(frozen=True, eq=False)
class ParquetSource:
    """Parquet files whose row groups, in order, become batches."""

    groups: tuple[RowGroup, ...]
    columns: Columns
    rows_per_batch: int = ROWS_PER_BATCH

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns to predict from."""
        return self.columns.features

    def partitions(self) -> list[ParquetPartition]:
        """Return batches of consecutive row groups; the files alone decide how many."""
        batches: list[list[RowGroup]] = []
        filled = self.rows_per_batch
        for group in self.groups:
            if filled >= self.rows_per_batch:
                batches.append([])
                filled = 0
            batches[-1].append(group)
            filled += group.n_rows
        return [ParquetPartition(tuple(groups), self.columns) for groups in batches]


def read_parquet(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    target: str,
    *,
    features: Sequence[str] | None = None,
    row_id: str | None = None,
    sample_weight: str | None = None,
    rows_per_batch: int = ROWS_PER_BATCH,
) -> ParquetSource:
    """Return Parquet files as a source for `fit`; only their footers are read here.

    Parameters
    ----------
    paths
        A file, a directory (every ``*.parquet`` below it, by name), a pattern such as
        ``"rows/2026-*.parquet"``, or a list of these. Workers must see the files under the same
        names.
    target, features, row_id, sample_weight
        Columns, as in `read_frame`.
    rows_per_batch
        Consecutive row groups are joined until a batch has this many rows.
    """
    if isinstance(rows_per_batch, bool) or not rows_per_batch >= 1:
        raise ValueError(f"rows_per_batch must be a whole number >= 1, got {rows_per_batch!r}")
    files = list(_files(paths))
    columns: Columns | None = None
    groups: list[RowGroup] = []
    for path in files:
        names, counts = _footer(path)
        try:
            if columns is None:
                columns = Columns.choose(names, target, features, row_id, sample_weight)
            else:
                found = Columns.choose(names, target, features, row_id, sample_weight)
                _require_same(columns.features, found.features)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        groups += [RowGroup(path, index, n) for index, n in enumerate(counts) if n]
    assert columns is not None
    if not groups:
        raise ValueError(f"there are no rows in {_shown(files)}")
    return ParquetSource(tuple(groups), columns, int(rows_per_batch))


def _require_same(first: Sequence[str], found: Sequence[str]) -> None:
    """Refuse a file whose columns are not those of the first, where all are features."""
    differing = sorted(set(first) ^ set(found))
    if differing:
        listed = ", ".join(map(repr, differing[:5])) + (" and more" if len(differing) > 5 else "")
        raise ValueError(
            f"it does not have the columns of the first file: {listed} is in one of the two only; "
            f"name the features to use"
        )


def write_rows(path: str, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns to a Parquet file with checksums; the file appears complete or not at all."""
    pyarrow = _pyarrow()
    import pyarrow.parquet as pq

    unfinished = f"{path}.{os.getpid()}.unfinished"
    table = pyarrow.table({name: pyarrow.array(values) for name, values in columns.items()})
    try:
        pq.write_table(table, unfinished, write_page_checksum=True)
        os.replace(unfinished, path)
    finally:
        if os.path.exists(unfinished):
            os.remove(unfinished)


def _files(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
) -> Iterator[str]:
    if paths is None:
        raise TypeError("paths must name at least one Parquet file, got None")
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise ValueError("paths is empty: give at least one Parquet file")
    for path in [os.fspath(one) for one in given]:
        found = [path] if os.path.isfile(path) else _below(path)
        if not found:
            raise FileNotFoundError(
                f"{path}: no such file, no directory with Parquet files, and no pattern that "
                f"matches one"
            )
        yield from (os.path.abspath(file) for file in found)


def _below(path: str) -> list[str]:
    pattern = os.path.join(glob.escape(path), "**", "*.parquet") if os.path.isdir(path) else path
    return sorted(file for file in glob.glob(pattern, recursive=True) if os.path.isfile(file))


def _footer(path: str) -> tuple[list[str], list[int]]:
    """Return the names of the columns and the number of rows of each row group."""
    pyarrow = _pyarrow()
    try:
        with _open(path) as file:
            found = file.metadata
            counts = [found.row_group(i).num_rows for i in range(found.num_row_groups)]
            return list(file.schema_arrow.names), counts
    except (OSError, pyarrow.ArrowException) as error:
        raise ValueError(f"{path}: is not a sound Parquet file ({error})") from None


def _open(path: str) -> Any:
    _pyarrow()
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, page_checksum_verification=True)


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError(
            "Parquet files need pyarrow, part of the 'tool' extra: pip install 'easyfirst[tool]'"
        ) from None
    return pyarrow


def _shown(files: Sequence[str]) -> str:
    return files[0] if len(files) == 1 else f"the {len(files)} files from {files[0]} on"
