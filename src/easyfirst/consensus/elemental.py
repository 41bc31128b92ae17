"""Starts from random elemental subsets, for models with few coefficients.

As in FAST-LTS: fit as many rows as there are coefficients exactly, concentrate on the half of the
rows with the smallest residuals, and keep the best. With ten coefficients or fewer a clean subset
comes up often enough; with a hundred it never does.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from easyfirst.contracts import Matrix, Vector

MOST_COEFFICIENTS = 10
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
    subsets = np.argsort(rng.random((TRIES, n)), axis=1)[:, :q]
    systems = design[subsets]
    sizes = np.prod(np.linalg.norm(systems, axis=2), axis=1)
    regular = np.abs(np.linalg.det(systems)) > 1e-10 * sizes
    if not regular.any():
        return []
    targets = y[subsets[regular]][..., None]
    coefs = np.linalg.solve(systems[regular], targets)[..., 0]
    for _ in range(2):
        coefs, spread = _concentrate(design, y, coefs, half)
    coefs = coefs[np.argsort(spread, kind="stable")[:kept]]
    for _ in range(20):
        coefs, spread = _concentrate(design, y, coefs, half)
    order = np.argsort(spread, kind="stable")
    coefs, spread = coefs[order], spread[order]
    new = np.concatenate(([True], np.diff(spread) > 1e-9 * spread[1:]))
    factor = _consistency(half / n) * np.sqrt(n / max(n - q, 1))
    return [
        (coef / norms, float(factor * np.sqrt(total / half)))
        for coef, total in zip(coefs[new], spread[new], strict=True)
    ]


def _concentrate(design: Matrix, y: Vector, coefs: Matrix, half: int) -> tuple[Matrix, Vector]:
    """Refit each candidate to the half it fits best; returns (coefs, sum of squares there)."""
    q = design.shape[1]
    best = np.argpartition(np.abs(y - coefs @ design.T), half - 1, axis=1)[:, :half]
    rows, targets = design[best], y[best]
    grams = np.einsum("aij,aik->ajk", rows, rows)
    # A trace of ridge keeps repeated rows from making a candidate's system singular.
    grams += (1e-10 / q) * np.trace(grams, axis1=1, axis2=2)[:, None, None] * np.eye(q)
    rhs = np.einsum("aij,ai->aj", rows, targets)[..., None]
    coefs = np.linalg.solve(grams, rhs)[..., 0]
    squares = np.square(y - coefs @ design.T)
    return coefs, np.partition(squares, half - 1, axis=1)[:, :half].sum(axis=1)


def _consistency(share: float) -> float:
    """Return what turns the root mean of the smallest squares into a normal scale."""
    share = min(share, 1.0 - 1e-9)
    quantile = float(ndtri((1.0 + share) / 2.0))
    density = float(np.exp(-0.5 * quantile**2) / np.sqrt(2.0 * np.pi))
    return float(1.0 / np.sqrt(1.0 - 2.0 * quantile * density / share))
