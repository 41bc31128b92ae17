"""JSON as a table: one object per line, a list of objects, or an object of lists."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from easyfirst.tables.csv_files import PACKED
from easyfirst.tables.errors import TableError, reason
from easyfirst.tables.places import Place

LINES = (".jsonl", ".ndjson")
RECORDS = ("data", "records", "rows", "results", "items", "values")  # where APIs put the rows


def read_json(place: Place) -> pa.Table:
    """Read a JSON file; objects inside objects become columns such as address.city."""
    compression = PACKED.get(place.suffixes[-1] if place.suffixes else "")
    try:
        with place.stream(compression) as file:
            text = bytes(file.read()).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TableError(f"{place.name} is not UTF-8 text: {error}") from error
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"{place.name} cannot be unpacked: {reason(error)}") from error
    is_lines = any(suffix in LINES for suffix in place.suffixes)
    rows = _lines(place, text) if is_lines else _document(place, text)
    return from_records(rows)


def from_records(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return records as a table; a column that mixes numbers and texts is text."""
    records = [_flat(row) for row in rows]
    names = dict.fromkeys(name for record in records for name in record)
    return pa.table({name: _column([record.get(name) for record in records]) for name in names})


def _lines(place: Place, text: str) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            row = _loaded(f"{place.name}, line {number}", line)
            if not isinstance(row, dict):
                raise TableError(f"{place.name}, line {number}: not an object with named values")
            rows.append(row)
    return rows


def _document(place: Place, text: str) -> Iterable[Mapping[str, Any]]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        if "Extra data" in str(error):  # objects on lines of their own
            return _lines(place, text)
        raise TableError(f"{place.name} is not JSON: {error}") from error
    if isinstance(found, dict):
        inner = next((found[key] for key in RECORDS if _is_records(found.get(key))), None)
        found = inner if inner is not None else _by_column(place, found)
    if not _is_records(found):
        raise TableError(
            f"{place.name} is JSON, but no table: a list of objects with named values, an object "
            f"of lists of one length, or one object per line is needed"
        )
    records: Iterable[Mapping[str, Any]] = found
    return records


def _loaded(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise TableError(f"{where}: not JSON: {error}") from error


def _is_records(found: Any) -> bool:
    return isinstance(found, list) and bool(found) and all(isinstance(row, dict) for row in found)


def _by_column(place: Place, found: dict[str, Any]) -> Any:
    """Return the rows of an object of lists, or of objects by row as pandas writes them."""
    columns = [list(each.values()) if isinstance(each, dict) else each for each in found.values()]
    if not columns or not all(isinstance(each, list) for each in columns):
        return None
    if len({len(each) for each in columns}) > 1:
        raise TableError(f"{place.name}: its lists have different lengths")
    return [dict(zip(found, row, strict=True)) for row in zip(*columns, strict=True)]


def _flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _column(cells: list[Any]) -> pa.Array:
    try:
        return pa.array(cells, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())
