"""Excel workbooks as tables."""

from __future__ import annotations

import warnings
from typing import Any

import pyarrow as pa

from easyfirst.tables.errors import TableError, did_you_mean, reason
from easyfirst.tables.json_files import from_records
from easyfirst.tables.places import Place


def read_workbook(place: Place, sheet: str | None, notes: list[str]) -> pa.Table:
    """Read a sheet of a workbook, by default the first that is not empty."""
    try:
        import openpyxl
    except ImportError:
        raise TableError(
            f"{place.name} is an Excel workbook; to read it, install easyfirst[excel], or export "
            f"it as CSV"
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles, which hold no values
            book = openpyxl.load_workbook(place.file(), read_only=True, data_only=True)
    except Exception as error:  # zip, XML and values can each be broken in their own way
        raise TableError(f"{place.name} is not a whole Excel workbook: {reason(error)}") from error
    try:
        return _table(place, _sheet(place, book, sheet, notes), notes)
    finally:
        book.close()


def _sheet(place: Place, book: Any, sheet: str | None, notes: list[str]) -> list[list[Any]]:
    names = [each.title for each in book.worksheets]
    if sheet is not None and sheet not in names:
        raise TableError(f"{place.name} has no sheet {sheet!r}: {did_you_mean(sheet, names)}")
    for each in book.worksheets:
        if sheet not in (None, each.title):
            continue
        rows = [list(row) for row in each.iter_rows(values_only=True)]
        rows = [row for row in rows if any(cell is not None for cell in row)]
        if rows:
            if sheet is None and len(names) > 1:
                notes.append(
                    f"{place.name}: sheet {each.title!r} of {len(names)} read; choose with --table"
                )
            return rows
    raise TableError(f"{place.name} is a workbook without values")


def _table(place: Place, rows: list[list[Any]], notes: list[str]) -> pa.Table:
    width = max(len(row) for row in rows)
    filled = [sum(cell is not None for cell in row) for row in rows]
    several = min(2, max(filled))
    first = next(i for i, count in enumerate(filled) if count >= several)
    if first:
        notes.append(f"{place.name}: {first} lines before the names of the columns skipped")
    cells = [row + [None] * (width - len(row)) for row in rows[first:]]
    used = [j for j in range(width) if any(row[j] is not None for row in cells)]
    names = _names([cells[0][j] for j in used])
    return from_records(
        {name: row[j] for name, j in zip(names, used, strict=True)} for row in cells[1:]
    )


def _names(cells: list[Any]) -> list[str]:
    """Return the heading as text; a name that occurs twice keeps its place beside it."""
    names: list[str] = []
    for place, cell in enumerate(cells, start=1):
        name = f"column {place}" if cell is None else str(cell).strip()
        names.append(f"{name} ({place})" if name in names else name)
    return names
