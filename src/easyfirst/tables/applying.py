"""A table as decisions leave it: fixes in their cells, wrong rows gone, all else as it was.

A CSV file that becomes a CSV file keeps every other byte: the order of its columns, its quotes,
its notation of numbers, its line ends. Other formats keep every other value and type.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from easyfirst.tables import values
from easyfirst.tables.cells import rewritten
from easyfirst.tables.csv_files import PACKED
from easyfirst.tables.csv_records import CsvText
from easyfirst.tables.deciding import Decided, Edit
from easyfirst.tables.decisions import Value
from easyfirst.tables.encodings import encoding_of
from easyfirst.tables.errors import TableError, reason, require_column
from easyfirst.tables.places import Place, find_places
from easyfirst.tables.reading import TEXT, TableFormat

Cells = dict[int, dict[str, Callable[[str], str]]]


def is_csv(name: str) -> bool:
    """Return whether a file's name says that it is CSV text, packed or not."""
    endings = [suffix.lower() for suffix in Path(name).suffixes]
    if endings and endings[-1] in PACKED:
        endings = endings[:-1]
    return bool(endings) and endings[-1] in TEXT


def decided_table(table: pa.Table, decided: Decided, keep_wrong: bool) -> pa.Table:
    """Return the table with its fixes, and on request with the rows that are wrong."""
    by_column: dict[str, list[Edit]] = defaultdict(list)
    for edit in decided.edits:
        require_column(table, edit.column, "fix")
        by_column[edit.column].append(edit)
    for name, edits in by_column.items():
        place = table.column_names.index(name)
        table = table.set_column(place, name, _edited(table[name], edits))
    if keep_wrong or not decided.rejected:
        return table
    kept = np.ones(table.num_rows, dtype=bool)
    kept[decided.rejected] = False
    return table.filter(pa.array(kept))


def _edited(column: pa.ChunkedArray, edits: list[Edit]) -> pa.ChunkedArray:
    """Return a column with some values replaced, of the same type if that holds them."""
    edits = sorted(edits, key=lambda edit: edit.row)
    mask = np.zeros(len(column), dtype=bool)
    mask[[edit.row for edit in edits]] = True
    plain = values.plain(column)
    if values.is_text(plain.type):
        new = [_changer(edit)(str(plain[edit.row].as_py())) for edit in edits]
        return pc.replace_with_mask(plain, pa.array(mask), pa.array(new, plain.type))
    numbers: pa.Array = pa.array([edit.new for edit in edits])
    try:
        new_values = numbers.cast(plain.type)
    except pa.ArrowInvalid:  # not whole, in a column of whole numbers
        plain, new_values = plain.cast(pa.float64()), numbers
    return pc.replace_with_mask(plain, pa.array(mask), new_values)


def decided_csv(
    data: str, form: TableFormat, table: pa.Table, decided: Decided, keep_wrong: bool
) -> bytes:
    """Return the bytes of a CSV file with its fixes, and on request with the wrong rows.

    `table` is what the file was read as.
    """
    (place,) = find_places(data, TEXT)
    raw = _unpacked(place)
    encoding = form.encoding or encoding_of([raw])
    text = raw.decode(encoding)
    if text.encode(encoding) != raw:
        raise TableError(
            f"{data} cannot be written back unchanged as {encoding}; convert it to utf-8, or "
            f"name an output that ends in .parquet"
        )
    records = CsvText.cut(text, table.column_names, table.num_rows, form.delimiter)
    if records is None:
        raise TableError(
            f"the lines of {data} cannot be told apart with certainty; name an output that ends in "
            f".parquet, which is written from the values"
        )
    cells: Cells = defaultdict(dict)
    for edit in decided.edits:
        require_column(table, edit.column, "fix")
        cells[edit.row][edit.column] = _changer(edit)
    dropped = set() if keep_wrong else set(decided.rejected)
    return records.with_cells(cells, dropped).encode(encoding)


def _changer(edit: Edit) -> Callable[[str], str]:
    """Return the function that changes the text of a cell."""

    def change(text: str) -> str:
        changed = _changed(text, edit.old, edit.new)
        if changed is None:
            raise TableError(
                f"row {edit.row} of {edit.column!r} holds {text!r}, in which {edit.old!r} "
                f"cannot be found: nothing was written"
            )
        return changed

    return change


def _changed(text: str, old: Value, new: Value) -> str | None:
    if not isinstance(old, str):
        return rewritten(text, old, float(new))
    label = text.strip()
    if label.casefold() == old.casefold():
        return text.replace(label, str(new))
    return _as_number(text, old, new)


def _as_number(text: str, old: Value, new: Value) -> str | None:
    """Return a cell with one label that is a number in the place of another, such as 1.0 of 0."""
    try:
        return rewritten(text, float(old), float(new))
    except ValueError:
        return None


def _unpacked(place: Place) -> bytes:
    compression = PACKED.get(place.suffixes[-1] if place.suffixes else "")
    try:
        with place.stream(compression) as file:
            return bytes(file.read())
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"{place.name} cannot be unpacked: {reason(error)}") from error
