"""CSV files of numbers as a source: each worker parses its own range of lines.

The driver goes through the bytes once, to find where every so many lines end. Columns are parsed
with fixed types, so that a value that is no number is an error with its line, never a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.errors import BadFileError
from easyfirst.sources.columns import Columns
from easyfirst.sources.locations import Paths, find_files, open_file, shown
from easyfirst.sources.parquet import arrow
from easyfirst.sources.pieces import ROWS_PER_BATCH, PieceSource, checked_rows_per_batch

CHUNK_BYTES = 1 << 21  # looked at together; work on them takes ten times as much
PACKED = (".gz", ".bz2", ".zst", ".xz", ".zip")


@dataclass(frozen=True)
class Lines:
    """A range of bytes that holds whole rows of a file; `first` is the number of the first."""

    path: str
    begin: int
    end: int
    first: int
    n_rows: int
    header: tuple[str, ...]
    delimiter: str

    @property
    def place(self) -> str:
        """Where this is, for messages."""
        return f"{self.path}, rows {self.first} to {self.first + self.n_rows - 1}"

    def read(self, columns: Columns) -> Any:
        """Parse the needed columns."""
        pyarrow = arrow("CSV files need")
        import pyarrow.csv as pa_csv

        numbers = {*columns.features, columns.target, columns.sample_weight} - {None}
        types = {name: pyarrow.float64() for name in numbers}
        if columns.row_id is not None:
            types[columns.row_id] = pyarrow.string()
        try:
            with open_file(self.path) as file:
                file.seek(self.begin)
                content = file.read(self.end - self.begin)
            return pa_csv.read_csv(
                BytesIO(content),
                pa_csv.ReadOptions(use_threads=False, column_names=list(self.header)),
                pa_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                pa_csv.ConvertOptions(
                    column_types=types,
                    include_columns=columns.names,
                    null_values=["", "NA", "NaN", "nan", "null", "NULL"],
                ),
            )
        except FileNotFoundError:
            raise ValueError(f"{self.path}: the file is not there on the worker") from None
        except (OSError, pyarrow.ArrowException) as error:
            raise ValueError(f"{self.place}: cannot be parsed ({error})") from None


class CsvSource(PieceSource):
    """CSV files whose lines, in order, become batches."""


def read_csv(
    paths: Paths,
    target: str,
    *,
    features: Sequence[str] | None = None,
    row_id: str | None = None,
    sample_weight: str | None = None,
    rows_per_batch: int = ROWS_PER_BATCH,
    delimiter: str = ",",
) -> CsvSource:
    """Return CSV files of numbers as a source for `fit`; their lines are counted here.

    For tables with texts, dates and missing values, see `easyfirst.tables`.

    Parameters
    ----------
    paths
        A file, a directory (every ``*.csv`` below it, by name), a pattern, an address (by fsspec),
        or a list of these. The first line names the columns. Not compressed: workers jump to their
        lines.
    target, features, row_id, sample_weight
        Columns, as in `read_frame`. All but `row_id` must hold numbers.
    rows_per_batch
        Rows of a batch; the last one of each file may have fewer.
    delimiter
        What separates the values.
    """
    size = checked_rows_per_batch(rows_per_batch)
    files = list(find_files(paths, "CSV", ".csv"))
    pieces: list[Lines] = []
    columns: Columns | None = None
    for path in files:
        if path.lower().endswith(PACKED):
            message = f"{path}: is compressed, and no worker can jump to its lines: unpack it first"
            raise BadFileError(message, path=path)
        found = line_ranges(path, size, delimiter)
        header = found[0].header if found else ()
        try:
            mine = Columns.choose(header, target, features, row_id, sample_weight)
        except ValueError as error:
            raise BadFileError(f"{path}: {error}", path=path) from None
        if columns is not None and set(mine.names) != set(columns.names):
            raise BadFileError(f"{path}: it does not have the columns of the first file", path=path)
        columns = columns or mine
        pieces += [piece for piece in found if piece.n_rows]
    if columns is None or not pieces:
        raise ValueError(f"there are no rows in {shown(files)}")
    return CsvSource(tuple(pieces), columns, size)


def line_ranges(
    path: str, size: int, delimiter: str, start: int = 0, encoding: str = "utf-8-sig"
) -> list[Lines]:
    """Return the lines of a file after its heading, in ranges of `size` rows.

    A line ends with a line feed outside quotes, that is, after an even number of them. Blank lines
    are none. What stands before the byte `start`, such as a title, is no part of the table.
    """
    ends, n_bytes, ends_open = _line_ends(path, size, start)
    if n_bytes == start:
        raise BadFileError(f"{path}: the file is empty", path=path)
    head, n_lines = ends[0], ends[-1][1]
    header = _names(path, start, head[0], delimiter, encoding)
    marks = [mark for mark in ends if (mark[1] - 1) % size == 0]
    if ends_open:  # the last line has no line feed
        n_lines += 1
    if marks[-1][1] < n_lines:
        marks.append((n_bytes, n_lines))
    ranges = [
        Lines(path, begin, end, done, until - done, header, delimiter)
        for (begin, done), (end, until) in pairwise(marks)
    ]
    return ranges or [Lines(path, head[0], head[0], 1, 0, header, delimiter)]


def _line_ends(path: str, size: int, start: int) -> tuple[list[tuple[int, int]], int, bool]:
    """Return (byte, lines so far) after the heading, every `size` lines and the last line feed.

    And the length of the file, and whether a line follows that line feed.
    """
    marks: list[tuple[int, int]] = []
    begin, lines, quoted, last, before = start, 0, False, (0, 0), b"\n\n"
    is_open = False
    with open_file(path) as file:
        file.seek(start)
        while chunk := file.read(CHUNK_BYTES):
            codes = np.frombuffer(chunk, np.uint8)
            quotes = np.cumsum(codes == ord('"'), dtype=np.int64) + int(quoted)
            feeds = np.flatnonzero((codes == ord("\n")) & (quotes % 2 == 0))
            feeds = feeds[~_ends_blank(np.frombuffer(before + chunk, np.uint8), feeds)]
            before = (before + chunk)[-2:]
            quoted = bool(quotes[-1] % 2)
            numbers = lines + 1 + np.arange(feeds.size)
            wanted = (numbers - 1) % size == 0
            ends = (begin + 1 + feeds[wanted]).tolist()
            marks += zip(ends, numbers[wanted].tolist(), strict=True)
            lines, begin = lines + feeds.size, begin + len(chunk)
            rest = codes[feeds[-1] + 1 :] if feeds.size else codes
            is_open = bool(is_open and not feeds.size) or bool(np.any(~np.isin(rest, (10, 13))))
            if feeds.size:
                last = (begin - len(chunk) + 1 + int(feeds[-1]), lines)
    if quoted:
        raise BadFileError(f"{path}: a quote is never closed", path=path)
    if not marks:  # a heading without a line feed
        return [(begin, 1)], begin, False
    if marks[-1] != last:
        marks.append(last)
    return marks, begin, is_open


def _ends_blank(codes: NDArray[np.uint8], feeds: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return which line feeds end a blank line; two more bytes come before the first."""
    feed, carriage = ord("\n"), ord("\r")
    last, last_but_one = codes[feeds + 1], codes[feeds]
    return np.asarray((last == feed) | ((last == carriage) & (last_but_one == feed)))


def _names(path: str, start: int, end: int, delimiter: str, encoding: str) -> tuple[str, ...]:
    """Return the names of the columns, from the first line."""
    import csv

    with open_file(path) as file:
        file.seek(start)
        raw = file.read(end - start)
    try:
        text = raw.decode(encoding).rstrip("\r\n")
        names = next(csv.reader([text], delimiter=delimiter), [])
    except (UnicodeDecodeError, csv.Error) as error:
        message = f"{path}: the names of the columns cannot be read ({error})"
        raise BadFileError(message, path=path) from None
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise BadFileError(f"{path}: the column {repeated[0]!r} is there twice", path=path)
    return tuple(names)
