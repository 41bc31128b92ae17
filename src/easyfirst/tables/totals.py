"""Rows that sum up others, as spreadsheets have them at the end: no data, whatever they hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easyfirst.contracts import Vector
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
# "Total Ulm", "Ulm Total:": the rows of a group summed up.
OF_A_GROUP = rf"(?i)^({'|'.join(_WORDS)})[\s:(-]|[\s:)-]({'|'.join(_WORDS)}):?$"
EXACT = 1e-3  # relative difference of a sum from its rows, which may have been rounded


def total_rows(table: pa.Table, target: str, y: Vector) -> NDArray[np.bool_]:
    """Return which rows sum up others: they say so, and leave another cell empty or are a sum.

    A table of sums by group says "total" too, in rows that are as complete as the others, and
    whose target `y` is not that of the rows around them together.
    """
    return _with_gaps(table, target) | _sums(y, _say_so(table, target))


def _say_so(table: pa.Table, target: str) -> NDArray[np.bool_]:
    """Return which rows have a word for a sum in some cell, perhaps with the name of a group."""
    said = np.zeros(table.num_rows, dtype=bool)
    for name in table.column_names:
        column = values.plain(table[name])
        if name == target or not values.is_text(column.type):
            continue
        for each in (
            pc.is_in(column, pa.array(WORDS, column.type)),
            pc.fill_null(pc.match_substring_regex(column, OF_A_GROUP), False),
        ):
            said |= np.asarray(each.to_numpy(), dtype=bool)
    return said


def _sums(y: Vector, said: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which of some rows are the sum or the mean of others.

    These are the rows since the last such row, all rows before, or all rows of the table.
    """
    found = np.zeros(y.size, dtype=bool)
    places = np.flatnonzero(said)
    used = ~said & np.isfinite(y)
    total = np.cumsum(np.where(used, y, 0.0))[places]
    number = np.cumsum(used)[places]
    whole, n_whole = np.full(places.size, y[used].sum()), np.full(places.size, used.sum())
    groups = [
        (np.diff(total, prepend=0.0), np.diff(number, prepend=0)),
        (total, number),
        (whole, n_whole),
    ]
    for summed, n in groups:
        for expected in (summed, summed / np.maximum(n, 1)):
            is_sum = np.abs(y[places] - expected) <= EXACT * np.abs(expected)
            found[places] |= is_sum & (n >= 2)
    return found


def _with_gaps(table: pa.Table, target: str) -> NDArray[np.bool_]:
    """Return which rows say that they sum up others, and leave another cell empty."""
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
