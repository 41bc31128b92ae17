"""Where the rows of a table stand: in which file, and at which line as a spreadsheet counts.

Lines count from 1, the heading included. What only a reader can know (the rows of a sheet, the
files of a directory) travels in the metadata of the table.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from easyfirst.tables.csv_records import CsvText
from easyfirst.tables.encodings import encoding_of

HEADING_LINES = 1  # above the first row
TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
MOST_BYTES = 500_000_000  # of a file that is looked at again
LINES_KEY = b"easyfirst.lines"
FILES_KEY = b"easyfirst.files"


@dataclass(frozen=True, eq=False)
class Origins:
    """The line of every row of a table, and where there are several files, which one it is in.

    `files` are places in `names`.
    """

    lines: NDArray[np.intp]
    files: NDArray[np.intp] | None = None
    names: tuple[str, ...] = ()

    @classmethod
    def usual(cls, n_rows: int) -> Self:
        """Return the origins of rows below one heading.

        Examples
        --------
        >>> Origins.usual(3).lines.tolist()
        [2, 3, 4]
        """
        return cls(np.arange(n_rows) + HEADING_LINES + 1)

    @classmethod
    def of(
        cls, data: str | Path, table: pa.Table, encoding: str | None, delimiter: str | None = None
    ) -> Self:
        """Return the origins of a table that was read from `data`.

        Empty lines, and what stands before the heading, take lines too; a quoted value over
        several lines stays in one row of a spreadsheet.
        """
        metadata = table.schema.metadata or {}
        if FILES_KEY not in metadata:
            return cls(_lines(Path(data), table, encoding, delimiter))
        names, sizes = zip(*json.loads(metadata[FILES_KEY]), strict=True)
        starts = np.cumsum([0, *sizes[:-1]]).tolist()
        parts = [table.slice(*part) for part in zip(starts, sizes, strict=True)]
        lines = [
            _lines(Path(name), part, encoding, delimiter)
            for name, part in zip(names, parts, strict=True)
        ]
        return cls(np.concatenate(lines), np.repeat(np.arange(len(names)), sizes), names)

    @property
    def short_names(self) -> list[str]:
        """The names of the files without the folder that all of them are in."""
        shared = posixpath.commonprefix(self.names).rpartition("/")[0]
        return [name.removeprefix(f"{shared}/") for name in self.names]

    def beside(self, places: NDArray[np.intp], found: pa.Table) -> pa.Table:
        """Return what was found in the rows at some places, with the lines of these rows."""
        found = found.add_column(1, "line", pa.array(self.lines[places]))
        if self.files is None:
            return found
        return found.add_column(1, "file", pa.array([self.names[i] for i in self.files[places]]))


def with_lines(table: pa.Table, lines: Sequence[int]) -> pa.Table:
    """Return a table that knows the line of each of its rows."""
    return _with(table, LINES_KEY, np.asarray(lines, dtype=np.int64).tobytes())


def with_files(table: pa.Table, names: Sequence[str], sizes: Sequence[int]) -> pa.Table:
    """Return a table that knows how many of its rows are from which files."""
    return _with(table, FILES_KEY, json.dumps(list(zip(names, sizes, strict=True))).encode())


def _with(table: pa.Table, key: bytes, value: bytes) -> pa.Table:
    metadata: dict[Any, Any] = table.schema.metadata or {}
    return table.replace_schema_metadata({**metadata, key: value})


def _lines(
    path: Path, table: pa.Table, encoding: str | None, delimiter: str | None
) -> NDArray[np.intp]:
    """Return the lines of rows in the one file that they are from."""
    usual = Origins.usual(table.num_rows).lines
    known = (table.schema.metadata or {}).get(LINES_KEY)
    if known is not None:
        lines = np.frombuffer(known, dtype=np.int64).astype(np.intp)
        return lines if lines.size == table.num_rows else usual
    if path.suffix.lower() not in TEXT_SUFFIXES or not path.is_file():
        return usual
    if path.stat().st_size > MOST_BYTES:
        return usual
    raw = path.read_bytes()
    n_ends = raw.count(b"\n") or raw.count(b"\r")
    if n_ends + (not raw.endswith((b"\n", b"\r"))) == table.num_rows + HEADING_LINES:
        return usual
    try:
        text = raw.decode(encoding or encoding_of([raw]))
    except (UnicodeDecodeError, LookupError):
        return usual
    cut = CsvText.cut(text, table.column_names, table.num_rows, delimiter)
    return usual if cut is None else np.asarray(cut.rows, dtype=np.intp) + 1
