"""Rows that sum up others, as spreadsheets have them at the end: no data, whatever they hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easyfirst.tables import missing_codes, values

_WORDS = (
    *("total", "totals", "grand total", "subtotal", "sub-total", "sub total", "sum", "sums"),
    *("average", "mean", "summe", "gesamt", "gesamtsumme", "zwischensumme", "insgesamt"),
    *("mittelwert", "totaal", "totale", "suma", "overall total"),
)
WORDS = sorted(
    {
        written + mark
        for word in _WORDS
        for written in (word, word.capitalize(), word.title(), word.upper())
        for mark in ("", ":")
    }
)
RARE = 0.02  # share of rows above which such a word is a category


def total_rows(table: pa.Table, target: str) -> NDArray[np.bool_]:
    """Return which rows say that they sum up others, and leave another cell empty.

    A table of sums by group says "total" too, in rows that are as complete as the others.
    """
    found = np.zeros(table.num_rows, dtype=bool)
    for name in table.column_names:
        column = values.plain(table[name])
        if name == target or not values.is_text(column.type):
            continue
        said = pc.is_in(column, pa.array(WORDS, column.type)).to_numpy()
        places = np.flatnonzero(np.asarray(said, dtype=bool))
        if places.size and places.size <= max(1.0, RARE * table.num_rows):
            others = table.take(pa.array(places)).drop_columns([name, target])
            found[places[_have_gap(others)]] = True
    return found


def _have_gap(rows: pa.Table) -> NDArray[np.bool_]:
    """Return which rows have a cell without a value."""
    gap = np.zeros(rows.num_rows, dtype=bool)
    for each in rows.columns:
        column = values.plain(each)
        gap |= np.asarray(column.is_null().to_numpy(), dtype=bool)
        if values.is_text(column.type):
            gap |= np.asarray(missing_codes.are_words(column).to_numpy(), dtype=bool)
    return gap
