"""Outputs that appear whole or not at all, and replace nothing unless asked to."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from easyfirst.atomic import atomic_write, move_into_place, remove, unfinished
from easyfirst.tables import values
from easyfirst.tables.errors import OutputError, listed

FORMATS = ("csv", "json", "parquet")
FORMULA = r"^[=+\-@\t\r]"  # how a cell begins that a spreadsheet would run
CANNOT_WRITE = {
    errno.EACCES,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EIO,
    errno.ENAMETOOLONG,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.ENOTEMPTY,
    errno.EPERM,
    errno.EROFS,
}
ELSEWHERE = "choose another place"
AGAIN = f"{ELSEWHERE}, or replace it with --force"


@contextmanager
def new_directory(target: Path, names: Sequence[str], force: bool) -> Iterator[Path]:
    """Give an empty folder whose files, `names`, move to `target` when the block ends well.

    It lies beside the target, so that moving it is one step. After an error or an interruption
    it is gone, and the target is what it was. Other files in the target stay.
    """
    with _explained(target):
        _require_free_directory(target, names, force)
        folder = unfinished(_nearest_folder(target.parent) / target.name)
    try:
        with _explained(target):
            _make(folder, target)
            yield folder
            _move(folder, target, names, force)
    finally:
        remove(folder)


@contextmanager
def new_file(target: Path, force: bool) -> Iterator[Path]:
    """Give a path whose file takes the name `target` when the block ends well."""
    require_free_file(target, force)
    with _explained(target), atomic_write(target) as beside:
        yield beside


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    """Say which output failed; other errors of the system, as of a network, are not about it."""
    try:
        yield
    except OSError as error:
        if error.errno not in CANNOT_WRITE:
            raise
        reason = os.strerror(error.errno)
        raise OutputError(f"{target} cannot be written: {reason}") from error


def require_free_file(target: Path, force: bool) -> None:
    """Refuse a path where a file cannot or may not be written."""
    if target.is_dir():
        raise OutputError(f"{target} is a directory; name a file in it")
    if target.is_symlink() or (target.exists() and not target.is_file()):
        raise OutputError(f"{target} is a link or a device, which easyfirst does not replace")
    if os.path.lexists(target) and not force:
        raise OutputError(f"{target} exists already; {AGAIN}")
    if not target.parent.is_dir():
        raise OutputError(f"{target} cannot be written: there is no directory {target.parent}")


def _require_free_directory(target: Path, names: Sequence[str], force: bool) -> None:
    if target.exists() and not target.is_dir():
        raise OutputError(f"{target} is a file, and a directory is needed; choose another place")
    folders = [name for name in names if (target / name).is_dir()]
    if folders:
        raise OutputError(f"{target} holds a directory named {listed(folders)}; {ELSEWHERE}")
    present = [name for name in names if os.path.lexists(target / name)]
    if present and not force:
        raise OutputError(f"{target} holds {listed(present)} already; {AGAIN}")


def _nearest_folder(folder: Path) -> Path:
    """Return the deepest folder on the way to this one that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise OutputError(f"nothing can be written below {folder}, which is not a directory")
    return folder


def _make(folder: Path, target: Path) -> None:
    try:
        folder.mkdir()
    except OSError as error:
        raise OutputError(f"{target} cannot be written: {error.strerror}") from error


def _move(folder: Path, target: Path, names: Sequence[str], force: bool) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        move_into_place(folder, target)
        return
    _require_free_directory(target, names, force)  # another run may have been faster
    for name in names:
        if (folder / name).exists():
            move_into_place(folder / name, target / name)
        else:  # left by an earlier run, and not true of this one
            (target / name).unlink(missing_ok=True)


def format_of(path: Path) -> str:
    """Return the format that a file's name asks for."""
    ending = path.suffix.lower().removeprefix(".")
    known = {"pq": "parquet"}.get(ending, ending)
    if known not in FORMATS:
        raise OutputError(f"{path} must end in .csv, .json or .parquet")
    return known


def encode(table: pa.Table, kind: str) -> bytes:
    """Return a table as the bytes of a file."""
    if kind == "json":
        return (to_json(table.to_pylist()) + "\n").encode()
    sink = pa.BufferOutputStream()
    if kind == "csv":
        pa_csv.write_csv(_harmless(table), sink)
    else:
        pq.write_table(table, sink, write_page_checksum=True)
    return bytes(sink.getvalue().to_pybytes())


def write_plain(table: pa.Table, kind: str, path: Path) -> None:
    """Write a table of the user's own values, which nothing may change."""
    if kind == "parquet":
        pq.write_table(table, path, write_page_checksum=True)
    elif kind == "json":
        path.write_bytes(encode(table, kind))
    else:
        pa_csv.write_csv(flat(table), path)


def to_json(data: Any) -> str:
    """Return data as JSON, with null for numbers that JSON has no word for."""
    return json.dumps(_finite(data), indent=2, ensure_ascii=False, allow_nan=False, default=str)


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return data


def _harmless(table: pa.Table) -> pa.Table:
    """Put an apostrophe before texts that a spreadsheet would take for a formula."""
    columns = []
    for column in flat(table).columns:
        if values.is_text(column.type):
            risky = pc.match_substring_regex(column, FORMULA)
            quoted = pc.binary_join_element_wise("'", column.cast(pa.string()), "")
            column = pc.if_else(risky, quoted, column.cast(pa.string()))
        columns.append(column)
    return pa.table(columns, names=table.column_names)


def flat(table: pa.Table) -> pa.Table:
    """Return columns that CSV can hold: lists of texts joined, other nested values as text."""
    columns = []
    for column in map(values.plain, table.columns):
        if pa.types.is_list(column.type) and values.is_text(column.type.value_type):
            column = pc.binary_join(column, "; ")
        elif pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
            column = pa.chunked_array([[str(value) for value in column.to_pylist()]], pa.string())
        columns.append(column)
    return pa.table(columns, names=table.column_names)
