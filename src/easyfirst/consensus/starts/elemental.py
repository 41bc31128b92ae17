"""Starts from random elemental subsets, for models with few coefficients.

As in FAST-LTS: fit as many rows as there are coefficients exactly, concentrate on the half of the
rows with the smallest residuals, and keep the best. With ten coefficients or fewer a clean subset
comes up often enough, and with thirty one that is clean but for a few; with a hundred never.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from easyfirst.contracts import Matrix, Vector

MOST_COEFFICIENTS = 10
MOST_COEFFICIENTS_OF_FEW_ROWS = 30
MOST_ROWS = 1000  # concentration on more rows costs more and finds nothing else
TRIES = 500
KEPT = 10
KEPT_OF_MANY_ROWS = 2


def elemental_starts(
    design: Matrix, y: Vector, rng: np.random.Generator
) -> list[tuple[Vector, float]]:
    """Return (coefficients, scale) of the best subsets, best first, without repeats."""
    n, q = design.shape
    kept = KEPT
    norms = np.sqrt(np.mean(np.square(design), axis=0))
    norms[norms == 0] = 1.0
    design = design / norms  # so that nothing below depends on the units of the columns
    if n > MOST_ROWS:
        rows = rng.choice(n, MOST_ROWS, replace=False)
        design, y, n, kept = design[rows], y[rows], MOST_ROWS, KEPT_OF_MANY_ROWS
    half = (n + q + 1) // 2
    subsets = _subsets(n, q, rng)
    systems = design[subsets]
    sizes = np.prod(np.linalg.norm(systems, axis=2), axis=1)
    regular = np.abs(np.linalg.det(systems)) > 1e-10 * sizes
    if not regular.any():
        return []
    targets = y[subsets[regular]][..., None]
    coefs = np.linalg.solve(systems[regular], targets)[..., 0]
    products = _Products.of(design, y)
    at = _Halves.of(design, y, coefs, half)
    for _ in range(2):
        at = _Halves.of(design, y, at.refitted(products), half)
    at = at.best(kept)
    for _ in range(20):
        last, at = at, _Halves.of(design, y, at.refitted(products), half)
        if np.array_equal(last.spread, at.spread):
            break
    coefs, spread = at.coefs, at.spread
    order = np.argsort(spread, kind="stable")
    coefs, spread = coefs[order], spread[order]
    new = np.concatenate(([True], np.diff(spread) > 1e-9 * spread[1:]))
    factor = _consistency(half / n) * np.sqrt(n / max(n - q, 1))
    return [
        (coef / norms, float(factor * np.sqrt(total / half)))
        for coef, total in zip(coefs[new], spread[new], strict=True)
    ]


def _subsets(n: int, q: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return random sets of q different numbers below n, by Floyd's method: no set shuffles all."""
    chosen = np.empty((TRIES, q), dtype=np.intp)
    for k, last in enumerate(range(n - q, n)):
        drawn = rng.integers(0, last + 1, TRIES)
        is_new = np.all(chosen[:, :k] != drawn[:, None], axis=1)
        chosen[:, k] = np.where(is_new, drawn, last)
    return chosen


@dataclass(frozen=True, eq=False)
class _Products:
    """For every row the products of its columns, each pair once, and with y.

    Gram matrices of many selections of rows are then one product of matrices.
    """

    values: Matrix
    places: NDArray[np.intp]  # in `values`, of each entry of a Gram matrix

    @classmethod
    def of(cls, design: Matrix, y: Vector) -> _Products:
        """Multiply the columns of a design."""
        q = design.shape[1]
        first, second = np.triu_indices(q)
        places = np.zeros((q, q), dtype=np.intp)
        places[first, second] = places[second, first] = np.arange(first.size)
        return cls(np.hstack([design[:, first] * design[:, second], design * y[:, None]]), places)

    def normal_equations(self, selected: NDArray[np.bool_]) -> tuple[Matrix, Matrix]:
        """Return Gram matrix and right-hand side of every selection of rows."""
        sums = selected.astype(np.float64) @ self.values
        n_pairs = self.values.shape[1] - len(self.places)
        return sums[:, self.places], sums[:, n_pairs:]


@dataclass(frozen=True, eq=False)
class _Halves:
    """Candidates, the half of the rows that each fits best, and the sum of squares there."""

    coefs: Matrix
    rows: NDArray[np.bool_]
    spread: Vector

    @classmethod
    def of(cls, design: Matrix, y: Vector, coefs: Matrix, half: int) -> _Halves:
        """Judge candidates."""
        squares = np.square(y - coefs @ design.T)
        nearest = np.partition(squares, half - 1, axis=1)[:, :half]
        return cls(coefs, squares <= nearest[:, half - 1 :], nearest.sum(axis=1))

    def best(self, kept: int) -> _Halves:
        """Return the candidates with the smallest sums."""
        first = np.argsort(self.spread, kind="stable")[:kept]
        return _Halves(self.coefs[first], self.rows[first], self.spread[first])

    def refitted(self, products: _Products) -> Matrix:
        """Return the least-squares coefficients of every half."""
        grams, rhs = products.normal_equations(self.rows)
        q = rhs.shape[1]
        # A trace of ridge keeps repeated rows from making a candidate's system singular.
        grams += (1e-10 / q) * np.trace(grams, axis1=1, axis2=2)[:, None, None] * np.eye(q)
        return np.asarray(np.linalg.solve(grams, rhs[..., None])[..., 0])


def _consistency(share: float) -> float:
    """Return what turns the root mean of the smallest squares into a normal scale."""
    share = min(share, 1.0 - 1e-9)
    quantile = float(ndtri((1.0 + share) / 2.0))
    density = float(np.exp(-0.5 * quantile**2) / np.sqrt(2.0 * np.pi))
    return float(1.0 / np.sqrt(1.0 - 2.0 * quantile * density / share))
