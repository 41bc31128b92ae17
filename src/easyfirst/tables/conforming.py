"""Texts of a piece as the types that were found for the columns of the whole table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easyfirst.tables import values

WORDS = pa.array(["true", "false"])


def conformed(table: pa.Table, schema: pa.Schema) -> tuple[pa.Table, dict[str, NDArray[np.bool_]]]:
    """Return a piece with the types of a schema, and by column where that lost a text.

    Only columns of text are converted, as `type_inference.typed` does it for a whole table.
    """
    columns, lost = [], {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        column, kind = values.plain(column), schema.field(name).type
        if values.is_text(column.type):
            column = pc.utf8_trim_whitespace(column)
            if not values.is_text(kind):
                found = _converted(column, kind)
                if found.null_count > column.null_count:
                    both = pc.and_(found.is_null(), column.is_valid())
                    lost[name] = np.asarray(both.to_numpy(), dtype=bool)
                column = found
        columns.append(column.cast(kind) if column.type != kind else column)
    return pa.table(columns, schema=schema), lost


def _converted(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return texts as a type; null where they are not of it."""
    if pa.types.is_null(kind):
        return pa.chunked_array([pa.nulls(len(column))])
    if pa.types.is_boolean(kind):
        lowered = pc.utf8_lower(column)
        known = pc.is_in(lowered, WORDS.cast(lowered.type))
        return pc.if_else(known, pc.equal(lowered, "true"), pa.scalar(None, pa.bool_()))
    if pa.types.is_timestamp(kind):
        column = pc.replace_substring_regex(column, "Z$", "")
    return _cast(column, kind)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Cast; what cannot be cast is found by halves."""
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        if len(column) == 1:
            return pa.chunked_array([pa.nulls(1, kind)])
    half = len(column) // 2
    parts = [_cast(each, kind) for each in (column.slice(0, half), column.slice(half))]
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks], kind)
