"""Excel workbooks as tables."""

from __future__ import annotations

import warnings
from typing import Any

import pyarrow as pa

from easyfirst.report.wording import count
from easyfirst.tables.errors import TableError, did_you_mean, listed, reason
from easyfirst.tables.json_files import from_records
from easyfirst.tables.origins import with_lines
from easyfirst.tables.places import Place

Rows = dict[int, list[Any]]  # by line, as a spreadsheet counts


def read_workbook(place: Place, sheet: str | None, notes: list[str]) -> pa.Table:
    """Read a sheet of a workbook, by default the first that holds a table."""
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


def _sheet(place: Place, book: Any, sheet: str | None, notes: list[str]) -> Rows:
    names = [each.title for each in book.worksheets]
    if sheet is not None and sheet not in names:
        raise TableError(f"{place.name} has no sheet {sheet!r}: {did_you_mean(sheet, names)}")
    found: dict[str, Rows] = {}
    for each in book.worksheets:
        if sheet in (None, each.title):
            lines = enumerate(each.iter_rows(values_only=True), start=1)
            found[each.title] = {line: list(row) for line, row in lines if _filled(row)}
            if _is_table(found[each.title]):
                break
    # A sheet of a single column may be a table too, but rather a remark beside another sheet.
    chosen = [title for is_one in (_is_table, bool) for title in found if is_one(found[title])]
    if not chosen:
        raise TableError(f"{place.name} is a workbook without values in {listed(found)}")
    if sheet is None and len(names) > 1:
        notes.append(f"{place.name}: sheet {chosen[0]!r} of {len(names)} read; choose with --table")
    return found[chosen[0]]


def _filled(row: Any) -> int:
    return sum(cell is not None for cell in row)


def _is_table(rows: Rows) -> bool:
    """Whether there are a heading and a row; lines of one cell are remarks."""
    return sum(_filled(row) > 1 for row in rows.values()) > 1


def _table(place: Place, rows: Rows, notes: list[str]) -> pa.Table:
    width = max(len(row) for row in rows.values())
    lines = list(rows)
    several = min(2, max(map(_filled, rows.values())))
    first = next(i for i, line in enumerate(lines) if _filled(rows[line]) >= several)
    if first:
        skipped = count(first, "line")
        notes.append(f"{place.name}: {skipped} before the names of the columns skipped")
    cells = [rows[line] + [None] * (width - len(rows[line])) for line in lines[first:]]
    used = [j for j in range(width) if any(row[j] is not None for row in cells)]
    names = _names([cells[0][j] for j in used])
    table = from_records(
        {name: row[j] for name, j in zip(names, used, strict=True)} for row in cells[1:]
    )
    return with_lines(table, lines[first + 1 :])


def _names(cells: list[Any]) -> list[str]:
    """Return the heading as text; a name that occurs twice keeps its place beside it."""
    names: list[str] = []
    for place, cell in enumerate(cells, start=1):
        name = f"column {place}" if cell is None else str(cell).strip()
        names.append(f"{name} ({place})" if name in names else name)
    return names
