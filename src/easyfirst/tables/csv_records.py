"""The records of a CSV file as the bytes they are, so that a few cells can be changed alone."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

DELIMITERS = (",", ";", "\t", "|")
QUOTE = '"'
MOST_REMARKS = 10  # lines after all rows


@dataclass(frozen=True)
class CsvText:
    """A CSV file cut into records, each with its line end.

    `rows` are the records of the table's rows in their order, as numbers into `records`; the
    others are the heading, empty lines and what stands before the heading or after the rows.
    """

    records: list[str]
    rows: list[int]
    delimiter: str
    names: list[str]

    @classmethod
    def cut(cls, text: str, names: list[str], n_rows: int, delimiter: str | None) -> CsvText | None:
        """Cut a file into records; None if they are not the rows of a table with these columns."""
        records = list(_records(text))
        for filled in (_is_filled, _has_values):
            kept = [number for number, record in enumerate(records) if filled(record)]
            last = len(kept) - n_rows - 1  # the heading is there, or above by remarks at the end
            for heading in range(last, max(last - MOST_REMARKS, 0) - 1, -1):
                for mark in (delimiter,) if delimiter else DELIMITERS:
                    found = _fields(records[kept[heading]].removeprefix("\ufeff"), mark)
                    if len(found) == len(names) and _named(found) == names:
                        rows = kept[heading + 1 : heading + 1 + n_rows]
                        return cls(records, rows, mark, names)
        return None

    def with_cells(
        self, changes: Mapping[int, Mapping[str, Callable[[str], str]]], dropped: set[int]
    ) -> str:
        """Return the text with some cells changed and some rows left out."""
        records = list(self.records)
        for row, cells in changes.items():
            number = self.rows[row]
            for name, change in cells.items():
                place = self.names.index(name)
                records[number] = _with_cell(records[number], place, self.delimiter, change)
        gone = {self.rows[row] for row in dropped}
        return "".join(record for number, record in enumerate(records) if number not in gone)


def _records(text: str) -> Iterator[str]:
    """Yield lines with their ends, taken together where a quoted value goes over several."""
    end = "\n" if "\n" in text or "\r" not in text else "\r"
    pending: list[str] = []
    odd = False
    start = 0
    while start < len(text):
        stop = text.find(end, start) + 1 or len(text)
        line = text[start:stop]
        start = stop
        odd ^= line.count(QUOTE) % 2 == 1
        pending.append(line)
        if not odd:
            yield "".join(pending)
            pending = []
    if pending:
        yield "".join(pending)


def _is_filled(record: str) -> bool:
    return bool(record.strip("\r\n"))


def _has_values(record: str) -> bool:
    return bool(record.strip("\r\n\t ;,|"))


def _fields(record: str, delimiter: str) -> list[str]:
    return next(csv.reader([record.rstrip("\r\n")], delimiter=delimiter), [])


def _named(found: list[str]) -> list[str]:
    return [name or f"column {place}" for place, name in enumerate(found, start=1)]


def _with_cell(record: str, place: int, delimiter: str, change: Callable[[str], str]) -> str:
    start, stop = _span(record, place, delimiter)
    raw = record[start:stop]
    is_quoted = len(raw) >= 2 and raw.startswith(QUOTE) and raw.endswith(QUOTE)
    text = raw[1:-1].replace(QUOTE * 2, QUOTE) if is_quoted else raw
    changed = change(text)
    if is_quoted or delimiter in changed or QUOTE in changed:
        changed = QUOTE + changed.replace(QUOTE, QUOTE * 2) + QUOTE
    return record[:start] + changed + record[stop:]


def _span(record: str, place: int, delimiter: str) -> tuple[int, int]:
    """Return where a value begins and ends in its record."""
    end = len(record.rstrip("\r\n"))
    start, quoted, seen = 0, False, 0
    for position in range(end):
        if record[position] == QUOTE:
            quoted = not quoted
        elif record[position] == delimiter and not quoted:
            if seen == place:
                return start, position
            start, seen = position + 1, seen + 1
    return start, end
