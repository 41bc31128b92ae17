"""Which rows of a sample are asked about a fit: evenly spread ones, each of them once."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from easyfirst.consensus.starts.found import SampleFit
from easyfirst.consensus.starts.sample import Sample

MAJORITY = 0.5


def spread_rows(found: SampleFit, most: int, far_rows_vote: bool = True) -> NDArray[np.intp]:
    """Return rows evenly spread over the sample, with or without those far out in X.

    Where only a minority is not far out, as beside many copies of one row, none is.
    """
    rows, far = _new_rows(found.sample), found.far
    if far is not None and not far_rows_vote and np.mean(far[rows]) < MAJORITY:
        rows = rows[~far[rows]]
    return thinned(rows, most)


def thinned(rows: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """Return at the most so many of the rows, evenly spread among them."""
    return rows if len(rows) <= most else rows[np.arange(most) * len(rows) // most]


def _new_rows(sample: Sample) -> NDArray[np.intp]:
    """Return which rows are not the same as the row before, as repeated rows of few are.

    A row that is there twice does not say twice that residuals depend on X.
    """
    new = np.ones(sample.n_samples, dtype=bool)
    if not sp.issparse(sample.rows.X):
        same = np.all(sample.rows.X[1:] == sample.rows.X[:-1], axis=1)
        new[1:] = ~(same & (sample.rows.y[1:] == sample.rows.y[:-1]))
    return np.flatnonzero(new)
