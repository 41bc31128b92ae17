"""Columns that were computed from others: powers, logarithms, products of two.

The ends of a power lie far out although nothing is far out in the column it was computed from. Such
rows are no mistakes in X: one would have broken the rule by which the others were computed.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Matrix, Vector

MOST_COLUMNS = 40  # from which others are computed; pairs of more are too many to look at
DEGREE = 10  # of a polynomial in one column, which comes as close to smooth functions
ROWS_PER_TERM = 4  # at the least: a polynomial through few rows meets any of them
EXACT = 1e-3  # standard deviations by which every row may be off
FIRST_ROWS = 64  # that refute most rules


def computed_columns(X: Matrix) -> NDArray[np.bool_]:
    """Return which columns are functions of one or two others with shorter tails, in every row."""
    computed = np.zeros(X.shape[1], dtype=bool)
    spread = X.std(axis=0)
    varying = np.flatnonzero(spread > 0)
    if not 1 < varying.size <= MOST_COLUMNS:
        return computed
    scaled = (X[:, varying] - X[:, varying].mean(axis=0)) / spread[varying]
    by_tail = np.argsort(np.abs(scaled).max(axis=0), kind="stable")
    scaled, order = scaled[:, by_tail], varying[by_tail]
    first = np.linspace(0, len(X) - 1, min(FIRST_ROWS, len(X))).astype(np.intp)
    for sources in _sources(len(order)):
        # Only a column with longer tails, so that of two that follow from each other one is left.
        rest = [j for j in range(max(sources) + 1, len(order)) if not computed[order[j]]]
        rest = _follow(scaled[first], sources, rest)
        computed[order[_follow(scaled, sources, rest)]] = True
    return computed


def _sources(p: int) -> list[tuple[int, ...]]:
    return [*((k,) for k in range(p)), *combinations(range(p), 2)]


def _follow(scaled: Matrix, sources: tuple[int, ...], columns: list[int]) -> list[int]:
    """Return which of the columns a polynomial in the sources meets in every row."""
    terms = _terms(*(scaled[:, k] for k in sources))
    if not columns or terms.shape[1] * ROWS_PER_TERM > len(scaled):
        return []
    wanted = scaled[:, columns]
    missed = wanted - terms @ np.linalg.lstsq(terms, wanted, rcond=None)[0]
    return [j for j, off in zip(columns, np.abs(missed).max(axis=0), strict=True) if off < EXACT]


def _terms(first: Vector, second: Vector | None = None) -> Matrix:
    if second is not None:
        return np.column_stack([np.ones_like(first), first, second, first * second])
    degree = min(DEGREE, len(first) // ROWS_PER_TERM - 1)
    reach = float(np.abs(first).max())
    return np.asarray(np.polynomial.chebyshev.chebvander(first / reach, max(degree, 1)))
