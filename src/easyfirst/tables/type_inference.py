"""Columns of text that can only mean one thing get their type: numbers, dates, true and false.

Everything else stays text, and what it means is decided with the whole table in view.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from easyfirst.tables import values
from easyfirst.tables.kinds import Hints, decimal_habit, has_leading_zeros
from easyfirst.tables.notation import PLAIN, Notation, infer

HEAD = 1000  # values that rule out most types
LONGEST_INTEGER = 18  # digits; longer ones are names, and would lose digits as numbers
CLEAR_DECIMALS = r"^[-+]?\d*\.(\d{1,2}|\d{4,})$"  # no mark between thousands looks like that
DATE = r"^\d{4}-\d{2}-\d{2}$"
TIMESTAMP = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?Z?$"


def typed(
    table: pa.Table,
    text_columns: Collection[str] = (),
    decimal: str | None = None,
    thousands: str | None = None,
) -> pa.Table:
    """Return a table in which plain columns of text have their type.

    `text_columns` stay text. With a decimal or thousands mark, numbers written with it are
    converted too.
    """
    names, metadata = table.column_names, table.schema.metadata
    hints = Hints(decimal, thousands, decimal or decimal_habit(table))
    columns = [values.plain(column) for column in table.columns]
    del table  # so that the text of a column can go when its numbers are there

    def convert(place: int) -> None:
        if values.is_text(columns[place].type):
            kept = names[place] in text_columns
            columns[place] = (_trimmed if kept else _typed)(columns[place], hints)

    with ThreadPoolExecutor() as pool:
        for _ in pool.map(convert, range(len(names))):
            pass
    return pa.table(columns, names=names).replace_schema_metadata(metadata)


def _trimmed(column: pa.ChunkedArray, hints: Hints) -> pa.ChunkedArray:
    del hints
    return pc.utf8_trim_whitespace(column)


def _typed(column: pa.ChunkedArray, hints: Hints) -> pa.ChunkedArray:
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column))])
    quick = _clear_numbers(column, hints)
    if quick is not None:
        return quick
    column = _trimmed(column, hints)
    for attempt in (_integers, _truths, _dates):
        found = attempt(column)
        if found is not None:
            return found
    return _numbers(column, hints)


def _clear_numbers(column: pa.ChunkedArray, hints: Hints) -> pa.ChunkedArray | None:
    """Return numbers with decimals, if the first rows leave no doubt that they are; quickly."""
    head = column.slice(0, HEAD).drop_null()
    if hints.decimal is not None or hints.thousands is not None or len(head) == 0:
        return None
    if not pc.any(pc.match_substring_regex(head, CLEAR_DECIMALS)).as_py():
        return None
    digits_only = pc.sum(pc.match_substring_regex(head, r"^\d+$")).as_py()
    return None if 2 * digits_only > len(head) else _cast(column, pa.float64())


def _integers(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    found = _cast(column, pa.int64())
    if found is None or pc.any(pc.starts_with(column, "+")).as_py():
        return None
    starts = pc.starts_with(column, "0")
    if pc.any(starts).as_py() and has_leading_zeros(column.drop_null()):
        return None
    return found


def _truths(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    words = pa.array(["true", "false"])
    if not pc.all(pc.is_in(pc.utf8_lower(column.slice(0, HEAD).drop_null()), words)).as_py():
        return None
    lowered = pc.utf8_lower(column)
    if not pc.all(pc.is_in(lowered.drop_null(), words)).as_py():
        return None
    return pc.equal(lowered, "true")


def _dates(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    for pattern, kind in ((DATE, pa.date32()), (TIMESTAMP, pa.timestamp("us"))):
        head = column.slice(0, HEAD).drop_null()
        if pc.all(pc.match_substring_regex(head, pattern)).as_py() and len(head):
            whole = column.drop_null()
            if pc.all(pc.match_substring_regex(whole, pattern)).as_py():
                return _cast(pc.replace_substring_regex(column, "Z$", ""), kind)
    return None


def _numbers(column: pa.ChunkedArray, hints: Hints) -> pa.ChunkedArray:
    """Return numbers, if all values are and no mark in them could mean something else."""
    given = column.drop_null()
    found = _cast(column, pa.float64())
    forced = hints.decimal is not None or hints.thousands is not None
    if found is None and not forced:
        return column
    if found is not None and _loses_digits(given):
        return column
    if has_leading_zeros(given):
        return column
    notation = infer(given, hints.decimal, hints.thousands, hints.habit)
    if notation == PLAIN and found is not None:
        return found
    if not forced or notation is None or notation.units:
        return column
    return _converted(column, notation)


def _converted(column: pa.ChunkedArray, notation: Notation) -> pa.ChunkedArray:
    numbers = pa.array(notation.parse(column), from_pandas=True)
    return pa.chunked_array([numbers]) if numbers.null_count == column.null_count else column


def _loses_digits(given: pa.ChunkedArray) -> bool:
    """Whether values are digits only, too many for a number."""
    longest = pc.max(pc.utf8_length(given)).as_py() or 0
    if longest <= LONGEST_INTEGER:
        return False
    return bool(pc.any(pc.match_substring_regex(given, rf"^\d{{{LONGEST_INTEGER + 1},}}$")).as_py())


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    try:
        column.slice(0, HEAD).cast(kind)  # most columns fail here, at no cost
        return column.cast(kind)
    except pa.ArrowInvalid:
        return None
