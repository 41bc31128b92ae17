"""Excel workbooks as tables."""

from __future__ import annotations

import warnings
import zipfile
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
        # Merged cells are known only to a workbook that is read as a whole, which takes longer.
        whole = _has_merged_cells(place)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles, which hold no values
            book = openpyxl.load_workbook(place.file(), read_only=not whole, data_only=True)
    except Exception as error:  # zip, XML and values can each be broken in their own way
        raise TableError(f"{place.name} is not a whole Excel workbook: {reason(error)}") from error
    try:
        return _table(place, _sheet(place, book, sheet, notes), notes)
    finally:
        book.close()


def _has_merged_cells(place: Place) -> bool:
    with zipfile.ZipFile(place.file()) as archive:
        sheets = [name for name in archive.namelist() if name.startswith("xl/worksheets/sheet")]
        return any(b"<mergeCell " in archive.read(name) for name in sheets)


def _sheet(place: Place, book: Any, sheet: str | None, notes: list[str]) -> Rows:
    names = [each.title for each in book.worksheets]
    if sheet is not None and sheet not in names:
        raise TableError(f"{place.name} has no sheet {sheet!r}: {did_you_mean(sheet, names)}")
    found: dict[str, Rows] = {}
    for each in book.worksheets:
        if sheet in (None, each.title):
            lines = enumerate(each.iter_rows(values_only=True), start=1)
            found[each.title] = _with_merged(dict(lines), each)
            if _is_table(found[each.title]):
                break
    # A sheet of a single column may be a table too, but rather a remark beside another sheet.
    chosen = [title for is_one in (_is_table, bool) for title in found if is_one(found[title])]
    if not chosen:
        raise TableError(f"{place.name} is a workbook without values in {listed(found)}")
    if sheet is None and len(names) > 1:
        notes.append(f"{place.name}: sheet {chosen[0]!r} of {len(names)} read; choose with --table")
    return found[chosen[0]]


def _with_merged(lines: dict[int, Any], sheet: Any) -> Rows:
    """Return the lines that are not empty; each of several rows has the value merged for them.

    A value merged for several columns stays in the first: above a table it is a title, or the
    heading of a group of columns.
    """
    rows = {line: list(row) for line, row in lines.items()}
    for area in getattr(getattr(sheet, "merged_cells", None), "ranges", ()):
        place = area.min_col - sheet.min_column
        for line in range(area.min_row + 1, area.max_row + 1):
            if line in rows and rows[line][place] is None:
                rows[line][place] = rows[area.min_row][place]
    return {line: row for line, row in rows.items() if _filled(row)}


def _filled(row: Any) -> int:
    return sum(cell is not None for cell in row)


def _is_table(rows: Rows) -> bool:
    """Whether there are a heading and a row; lines of one cell are remarks."""
    return sum(_filled(row) > 1 for row in rows.values()) > 1


def _table(place: Place, rows: Rows, notes: list[str]) -> pa.Table:
    width = max(len(row) for row in rows.values())
    cells = [row + [None] * (width - len(row)) for row in rows.values()]
    used = [j for j in range(width) if any(row[j] is not None for row in cells)]
    cells, lines = [[row[j] for j in used] for row in cells], list(rows)
    first = _heading(cells)
    names, skipped = cells[first], first
    is_next = first > 0 and lines[first - 1] == lines[first] - 1
    if is_next and _are_groups(cells[first - 1], names, cells[first + 1 :]):
        names, skipped = _in_groups(cells[first - 1], names), first - 1
        notes.append(f"{place.name}: lines {lines[first - 1]} and {lines[first]} name the columns")
    if skipped:
        before = count(skipped, "line")
        notes.append(f"{place.name}: {before} before the names of the columns skipped")
    kept = [j for j in range(len(used)) if any(row[j] is not None for row in cells[first:])]
    named = list(zip(_names([names[j] for j in kept]), kept, strict=True))
    table = from_records({name: row[j] for name, j in named} for row in cells[first + 1 :])
    return with_lines(table, lines[first + 1 :])


def _heading(cells: list[list[Any]]) -> int:
    """Return which line names the columns.

    Lines before it have few cells. So has a line with the names of groups of columns, unless there
    are as many groups as names; then the line of texts beneath it that has no gap names them.
    """
    usual = sorted(map(_filled, cells))[len(cells) // 2]
    least = max(min(2, max(map(_filled, cells))), usual // 2)
    first = next(i for i, row in enumerate(cells) if _filled(row) >= least)
    after = cells[first + 1 : first + 2]
    return first + 1 if after and _are_groups(cells[first], after[0], cells[first + 2 :]) else first


def _are_groups(above: list[Any], names: list[Any], rows: list[list[Any]]) -> bool:
    """Whether a line names groups of the columns that the next one names, above rows of values."""
    has_gaps = above[0] is not None and 2 <= _filled(above) < len(above)
    all_named = all(isinstance(cell, str) for cell in names)
    has_values = any(not isinstance(cell, str | None) for row in rows[:1] for cell in row)
    return has_gaps and all_named and has_values and all(isinstance(c, str | None) for c in above)


def _in_groups(above: list[Any], names: list[Any]) -> list[str]:
    """Return names that tell columns apart: with their group where a name alone does not."""
    if len(set(names)) == len(names):
        return names
    group, found = "", []
    for over, name in zip(above, names, strict=True):
        group = over or group
        found.append(f"{group.strip()} {name.strip()}")
    return found


def _names(cells: list[Any]) -> list[str]:
    """Return the heading as text; a name that occurs twice keeps its place beside it."""
    names: list[str] = []
    for place, cell in enumerate(cells, start=1):
        name = f"column {place}" if cell is None else str(cell).strip()
        names.append(f"{name} ({place})" if name in names else name)
    return names
