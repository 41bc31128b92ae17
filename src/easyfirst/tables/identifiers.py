"""Columns that name rows instead of describing them: row numbers and ids."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
from scipy.stats import spearmanr

from easyfirst.contracts import Vector

ROW_NUMBER = "numbers the rows"
PANDAS_INDEX = "__index_level_"  # how pandas names its index in Parquet files
LEAST_ROWS = 50  # below, different whole numbers are no surprise
UNIQUE = 0.98  # share of different values; rows that occur twice repeat their id
DENSE = 0.9  # share of a range of whole numbers that is used
SURPRISING = 4.0  # standard deviations of a rank correlation with the target
YEARS = (1500, 2200)
_NAMES = re.compile(r"(?i)(?:^|[_\W])(?:id|uuid|guid|key|index|idx|rowid|nr|no)$")
_CAMEL = re.compile(r"[a-z]I[dD]$")


def is_row_number(name: str, column: pa.ChunkedArray) -> bool:
    """Whether a column counts the rows, from 0 or 1."""
    if not pa.types.is_integer(column.type) or column.null_count or len(column) < 3:
        return False
    if name.startswith(PANDAS_INDEX):
        return True
    first = column[0].as_py()
    if first not in (0, 1) or column[-1].as_py() != first + len(column) - 1:
        return False
    return bool(np.all(np.diff(column.to_numpy()) == 1))


def is_named_like_id(name: str) -> bool:
    """Whether a column's name says that it holds ids.

    Examples
    --------
    >>> [is_named_like_id(name) for name in ("id", "customer_id", "HostId", "Order No", "width")]
    [True, True, True, True, False]
    """
    name = name.strip()
    return _NAMES.search(name) is not None or _CAMEL.search(name) is not None


def looks_like_id(name: str, values: Vector, y: Vector) -> bool:
    """Whether whole numbers name the rows.

    Nearly all must be different. Beyond that, their name says so, or they count the rows up, or
    they have nothing to do with the target; a column of counts, such as the number of inhabitants,
    has.
    """
    present = ~np.isnan(values)
    found = values[present]
    if found.size < LEAST_ROWS or np.any(found != np.rint(found)):
        return False
    low, high = float(found.min()), float(found.max())
    if low >= YEARS[0] and high <= YEARS[1]:
        return False
    different = np.unique(found).size
    if different < UNIQUE * found.size:
        return False
    counts_up = different >= DENSE * (high - low + 1.0) and bool(np.all(np.diff(found) >= 0.0))
    if is_named_like_id(name) or counts_up:
        return True
    return not _is_related(found, y[present])


def _is_related(found: Vector, y: Vector) -> bool:
    known = ~np.isnan(y)
    found, y = found[known], y[known]
    if y.size < 2 or np.all(y == y[0]):
        return False
    correlation = abs(float(spearmanr(found, y).statistic))
    return bool(correlation * np.sqrt(found.size - 1.0) > SURPRISING)
