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
EVENLY = 0.1  # of the range, how far quantiles of ids may lie from where even ones would
TENTHS = np.linspace(0.1, 0.9, 9)
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
    they have nothing to do with the target and lie as ids do: in order, or evenly over their range.
    A quantity, such as an income or the number of inhabitants, lies unevenly.
    """
    present = ~np.isnan(values)
    found = values[present]
    if found.size < LEAST_ROWS or np.any(found != np.rint(found)):
        return False
    bounds = float(found.min()), float(found.max())
    n_different = np.unique(found).size
    if not could_be_ids(found.size, n_different, *bounds):
        return False
    ascends = bool(np.all(np.diff(found) >= 0.0))
    return are_ids(name, n_different, *bounds, ascends) or not means_more(
        found, y[present], ascends
    )


def could_be_ids(n_values: int, n_different: float, low: float, high: float) -> bool:
    """Whether nearly all of some whole numbers are different, and they are no years."""
    are_years = low >= YEARS[0] and high <= YEARS[1]
    return n_values >= LEAST_ROWS and not are_years and n_different >= UNIQUE * n_values


def are_ids(name: str, n_different: float, low: float, high: float, ascends: bool) -> bool:
    """Whether whole numbers that could be ids are named so, or count the rows up."""
    counts_up = ascends and n_different >= DENSE * (high - low + 1.0)
    return is_named_like_id(name) or counts_up


def means_more(found: Vector, y: Vector, ascends: bool) -> bool:
    """Whether numbers that could be ids are a quantity, or have to do with the target."""
    return (not ascends and not _lie_evenly(found)) or is_related(found, y)


def _lie_evenly(found: Vector) -> bool:
    low, high = float(found.min()), float(found.max())
    off = np.abs((np.quantile(found, TENTHS) - low) / max(high - low, 1.0) - TENTHS)
    return bool(off.max() <= EVENLY)


def is_related(found: Vector, y: Vector) -> bool:
    """Whether numbers have to do with the target."""
    known = ~np.isnan(y)
    found, y = found[known], y[known]
    if y.size < 2 or np.all(y == y[0]):
        return False
    correlation = abs(float(spearmanr(found, y).statistic))
    return bool(correlation * np.sqrt(found.size - 1.0) > SURPRISING)
