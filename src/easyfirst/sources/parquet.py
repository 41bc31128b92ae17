"""Parquet files as a source: each worker reads its own row groups, checksums verified.

The driver reads footers only. Needs pyarrow, which is loaded when a file is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from easyfirst.atomic import atomic_write
from easyfirst.errors import BadFileError
from easyfirst.sources.columns import Columns
from easyfirst.sources.locations import Paths, find_files, is_address, open_file, shown
from easyfirst.sources.pieces import (
    ROWS_PER_BATCH,
    PieceSource,
    checked_rows_per_batch,
    readable,
)


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

    def read(self, columns: Columns) -> Any:
        """Read the needed columns."""
        pyarrow = arrow()
        try:
            with _open(self.path) as file:
                return file.read_row_group(self.index, columns=columns.names, use_threads=False)
        except FileNotFoundError:
            raise ValueError(f"{self.path}: the file is not there on the worker") from None
        except (OSError, IndexError, OverflowError, pyarrow.ArrowException) as error:
            raise ValueError(
                f"{self.place}: cannot be read, the file is damaged or has changed ({error})"
            ) from None


class ParquetSource(PieceSource):
    """Parquet files whose row groups, in order, become batches."""


def read_parquet(
    paths: Paths,
    target: str,
    *,
    features: Sequence[str] | None = None,
    row_id: str | None = None,
    sample_weight: str | None = None,
    rows_per_batch: int = ROWS_PER_BATCH,
    on_bad_file: Literal["raise", "skip"] = "raise",
) -> ParquetSource:
    """Return Parquet files as a source for `fit`; only their footers are read here.

    Parameters
    ----------
    paths
        A file, a directory (every ``*.parquet`` below it, by name), a pattern such as
        ``"rows/2026-*.parquet"``, an address such as ``"s3://bucket/rows/"`` (by fsspec), or a list
        of these. Workers must see the files under the same names.
    target, features, row_id, sample_weight
        Columns, as in `read_frame`.
    rows_per_batch
        Consecutive row groups are joined until a batch has this many rows.
    on_bad_file
        "raise" a `BadFileError` when a file or row group turns out to be damaged, to lack columns,
        or to hold values that cannot be fitted; or "skip" it: everything is then read once here,
        and `source.skipped` lists what was left out and why.
    """
    size = checked_rows_per_batch(rows_per_batch)
    if on_bad_file not in ("raise", "skip"):
        raise ValueError(f"on_bad_file must be 'raise' or 'skip', got {on_bad_file!r}")
    files = list(find_files(paths, "Parquet", ".parquet"))
    columns: Columns | None = None
    groups: list[RowGroup] = []
    skipped: list[str] = []
    for path in files:
        try:
            names, counts = _footer(path)
            found = _chosen(path, names, target, features, row_id, sample_weight)
            _require_same(path, columns or found, found)
        except BadFileError as error:
            if on_bad_file == "raise":
                raise
            skipped.append(str(error))
            continue
        columns = columns or found
        groups += [RowGroup(path, index, n) for index, n in enumerate(counts) if n]
    kept: tuple[Any, ...] = tuple(groups)
    if on_bad_file == "skip" and columns is not None:
        kept, complaints = readable(groups, columns)
        skipped += complaints
    if columns is None or not kept:
        why = f"; all were skipped, the first because {skipped[0]}" if skipped else ""
        raise ValueError(f"there are no rows in {shown(files)}{why}")
    return ParquetSource(kept, columns, size, tuple(skipped))


def _chosen(path: str, names: Sequence[str], *chosen: Any) -> Columns:
    """Choose the columns of a file; a file without them is to blame itself."""
    try:
        return Columns.choose(names, *chosen)
    except ValueError as error:
        raise BadFileError(f"{path}: {error}", path=path) from None


def _require_same(path: str, first: Columns, found: Columns) -> None:
    """Refuse a file whose columns are not those of the first, where all are features."""
    differing = sorted(set(first.features) ^ set(found.features))
    if differing:
        listed = ", ".join(map(repr, differing[:5])) + (" and more" if len(differing) > 5 else "")
        raise BadFileError(
            f"{path}: it does not have the columns of the first file: {listed} is in one of the "
            f"two only; name the features to use",
            path=path,
            column=differing[0],
        )


def write_rows(path: str, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns to a Parquet file with checksums; the file appears complete or not at all."""
    pyarrow = arrow()
    import pyarrow.parquet as pq

    table = pyarrow.table({name: pyarrow.array(values) for name, values in columns.items()})
    with atomic_write(Path(path)) as beside:
        pq.write_table(table, beside, write_page_checksum=True)


def _footer(path: str) -> tuple[list[str], list[int]]:
    """Return the names of the columns and the number of rows of each row group."""
    pyarrow = arrow()
    try:
        with _open(path) as file:
            found = file.metadata
            counts = [found.row_group(i).num_rows for i in range(found.num_row_groups)]
            names = list(file.schema_arrow.names)
            n_rows = found.num_rows
    except (OSError, OverflowError, UnicodeDecodeError, pyarrow.ArrowException) as error:
        message = f"{path}: is not a valid Parquet file ({error})"
        raise BadFileError(message, path=path) from None
    # No checksum covers the footer. What it says of columns is not asked for: that may end the
    # process where it is damaged.
    if min(counts, default=0) < 0 or sum(counts) != n_rows:
        message = f"{path}: is not a valid Parquet file (its counts of rows contradict each other)"
        raise BadFileError(message, path=path)
    return names, counts


def _open(path: str) -> Any:
    arrow()
    import pyarrow.parquet as pq

    if is_address(path):
        return pq.ParquetFile(open_file(path), page_checksum_verification=True)
    return pq.ParquetFile(path, page_checksum_verification=True)


def arrow(what: str = "Parquet files need") -> Any:
    """Return pyarrow, or say how to get it."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError(
            f"{what} pyarrow, part of the 'tool' extra: pip install 'easyfirst[tool]'"
        ) from None
    return pyarrow
