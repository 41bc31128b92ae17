"""At which line of its file a row stands, as a spreadsheet counts: from 1, the heading included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from easyfirst.tables.csv_records import CsvText
from easyfirst.tables.reading import TableFormat

HEADING_LINES = 1  # above the first row
TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
MOST_BYTES = 500_000_000  # of a file that is looked at again


def spreadsheet_lines(n_rows: int) -> NDArray[np.intp]:
    """Return the lines of all rows of a table below one heading.

    Examples
    --------
    >>> spreadsheet_lines(3).tolist()
    [2, 3, 4]
    """
    return np.arange(n_rows) + HEADING_LINES + 1


def lines_in_file(data: str | Path, form: TableFormat, table: pa.Table) -> NDArray[np.intp]:
    """Return the lines of all rows of a table in the file that it was read from.

    Empty lines, and what stands before the heading, take lines too; a quoted value over several
    lines stays in one row of a spreadsheet.
    """
    usual = spreadsheet_lines(table.num_rows)
    path = Path(data)
    if path.suffix.lower() not in TEXT_SUFFIXES or not path.is_file():
        return usual
    if path.stat().st_size > MOST_BYTES:
        return usual
    raw = path.read_bytes()
    n_ends = raw.count(b"\n") or raw.count(b"\r")
    if n_ends + (not raw.endswith((b"\n", b"\r"))) == table.num_rows + HEADING_LINES:
        return usual
    try:
        text = raw.decode(form.encoding or "utf-8")
    except (UnicodeDecodeError, LookupError):
        return usual
    cut = CsvText.cut(text, table.column_names, table.num_rows, form.delimiter)
    return usual if cut is None else np.asarray(cut.rows, dtype=np.intp) + 1
