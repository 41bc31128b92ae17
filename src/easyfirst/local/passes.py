"""Passes over the rows of one batch: predictions and weighted Gram matrices.

Coefficient vectors here have one entry per feature and, with an intercept, one more at the end.
Dense rows are visited in blocks small enough to stay in cache, so no temporary is as large as
the batch; sparse rows are never densified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from easyfirst.contracts import Batch, Matrix, Spread, Vector

# 2 MiB of float64: nearly in a core's own cache the second time it is read, and long enough that
# threads rarely wait for each other between two calls of NumPy.
BLOCK_ENTRIES = 1 << 18
# Blocks for Gram matrices of many columns are longer: adding up their squares costs, too.
GRAM_ENTRIES = 1 << 20
AHEAD_ENTRIES = 1 << 24  # of results that wait for their turn when several cores work on blocks


@dataclass(frozen=True, eq=False)
class Frame:
    """The coordinates in which coefficients are solved for.

    `shift` is subtracted from the columns when they lie so far from zero, compared with their
    spread, that products with the intercept column would lose digits. It changes the intercept
    and nothing else.
    """

    fit_intercept: bool
    shift: Vector | None = None

    def to_user(self, coef: Vector) -> tuple[Vector, float]:
        """Return (coef, intercept) for the columns as the user gave them."""
        if not self.fit_intercept:
            return coef, 0.0
        slopes, intercept = coef[:-1], float(coef[-1])
        return slopes, intercept - (0.0 if self.shift is None else float(self.shift @ slopes))

    def from_user(self, coef: Vector, intercept: float) -> Vector:
        """Return the solver's coefficients for the user's; the inverse of `to_user`."""
        if not self.fit_intercept:
            return coef
        moved = intercept + (0.0 if self.shift is None else float(self.shift @ coef))
        return np.append(coef, moved)


def predict(batch: Batch, frame: Frame, coef: Vector) -> Vector:
    """Return the prediction for each row."""
    prediction = np.empty(batch.n_samples)
    for rows, block in blocks(batch, frame):
        prediction[rows] = times(block, frame, coef)
    return prediction


def predict_some(batch: Batch, frame: Frame, coef: Vector, chosen: NDArray[np.intp]) -> Vector:
    """Return the prediction for some of the rows."""
    if sp.issparse(batch.X) or batch.X.dtype != np.float64:
        return predict(Batch(X=batch.X[chosen], y=batch.y[chosen]), frame, coef)
    prediction = np.empty(chosen.size)
    slices = list(row_slices(chosen.size, batch.n_features))
    # One buffer for all blocks: fresh memory for each would cost more than the rows in it.
    buffer = np.empty(
        (max((rows.stop - rows.start for rows in slices), default=0), batch.n_features)
    )
    for rows in slices:
        block = buffer[: rows.stop - rows.start]
        np.take(batch.X, chosen[rows], axis=0, out=block, mode="clip")
        if frame.shift is not None:
            block -= frame.shift
        prediction[rows] = times(block, frame, coef)
    return prediction


def blocks(batch: Batch, frame: Frame) -> Iterator[tuple[slice, Any]]:
    """Yield dense row blocks in float64, shifted into the frame; sparse rows all at once.

    Blocks are views of the batch where that is possible.
    """
    if sp.issparse(batch.X):
        yield slice(0, batch.n_samples), batch.X
        return
    for rows in row_slices(batch.n_samples, batch.n_features):
        yield rows, _dense_block(batch, frame, rows)


def _dense_block(batch: Batch, frame: Frame, rows: slice) -> Matrix:
    block = np.asarray(batch.X[rows], dtype=np.float64)
    return block if frame.shift is None else block - frame.shift


def row_slices(n_samples: int, n_features: int, least: int = 32) -> Iterator[slice]:
    """Yield ranges of rows that make up a block each."""
    rows = max(least, BLOCK_ENTRIES // max(1, n_features))
    for start in range(0, n_samples, rows):
        yield slice(start, min(start + rows, n_samples))


def times(block: Any, frame: Frame, coef: Vector) -> Vector:
    """Return D coef for one of the `blocks`, D its design."""
    if sp.issparse(block):
        slopes, intercept = frame.to_user(coef)
        return np.asarray(block @ slopes + intercept)
    return np.asarray(block @ coef[:-1] + coef[-1] if frame.fit_intercept else block @ coef)


def transposed_times(block: Any, frame: Frame, values: Vector) -> Vector:
    """Return D'values for one of the `blocks`, D its design."""
    product = np.empty(block.shape[1] + frame.fit_intercept)
    product[: block.shape[1]] = block.T @ values
    if frame.fit_intercept:
        product[-1] = values.sum()
    if sp.issparse(block) and frame.shift is not None:
        product[:-1] -= frame.shift * product[-1]
    return product


def zeros(batch: Batch, frame: Frame) -> Vector:
    """Return one zero per coefficient."""
    return np.zeros(batch.n_features + frame.fit_intercept)


def column_squares(block: Any, frame: Frame, row_weights: Vector) -> Vector:
    """Return the diagonal of D'R D for one of the `blocks`, D its design."""
    squares = np.asarray(
        (block.power(2) if sp.issparse(block) else np.square(block)).T @ row_weights
    )
    total = row_weights.sum()
    if sp.issparse(block) and frame.shift is not None:
        squares += frame.shift * (total * frame.shift - 2.0 * (block.T @ row_weights))
    return np.append(squares, total) if frame.fit_intercept else squares


def gram(
    batch: Batch, frame: Frame, row_weights: Vector, spread: Spread = map
) -> tuple[Matrix, Vector]:
    """Return the weighted Gram matrix and right-hand side: D'RD and D'Ry.

    D is the design (the columns, and ones for the intercept), R the diagonal of `row_weights`.
    Rows of weight zero cost nothing. Whoever works on a block, blocks are added up in order.
    """
    if sp.issparse(batch.X):
        return _sparse_gram(batch, frame, row_weights)
    return _dense_gram(batch, frame, row_weights, spread)


def _dense_gram(
    batch: Batch, frame: Frame, row_weights: Vector, spread: Spread
) -> tuple[Matrix, Vector]:
    p = batch.n_features
    size = p + frame.fit_intercept
    total, rhs = np.zeros((size, size)), np.zeros(size)
    slices = row_slices(batch.n_samples, p, max(32, min(2 * p, GRAM_ENTRIES // max(1, p))))

    def of_block(rows: slice) -> tuple[Matrix, Vector, Vector, float] | None:
        block = _dense_block(batch, frame, rows)
        weight, target = row_weights[rows], batch.y[rows]
        kept = np.flatnonzero(weight)
        if kept.size == 0:
            return None
        if kept.size < weight.size:
            block, weight, target = block[kept], weight[kept], target[kept]
        pull, cross, last = block.T @ (weight * target), weight[:0], 0.0
        if frame.fit_intercept:
            cross, last = np.append(block.T @ weight, weight.sum()), float(weight @ target)
        if np.any(weight != 1.0):
            block = block * np.sqrt(weight)[:, None]
        # numpy recognises B'B and computes one triangle of it only.
        return block.T @ block, pull, cross, last

    for part in _in_order(spread, of_block, list(slices), size * size):
        if part is None:
            continue
        squares, pull, cross, last = part
        total[:p, :p] += squares
        rhs[:p] += pull
        if frame.fit_intercept:
            total[:, p] += cross
            rhs[p] += last
    if frame.fit_intercept:
        total[p, :p] = total[:p, p]
    return total, rhs


def _in_order(
    spread: Spread, work: Callable[[slice], Any], slices: Sequence[slice], entries: int
) -> Iterator[Any]:
    """Yield the results for all blocks in order, a bounded number of them ahead of time."""
    ahead = max(2, min(16, AHEAD_ENTRIES // max(1, entries)))
    for first in range(0, len(slices), ahead):
        yield from spread(work, slices[first : first + ahead])


def _sparse_gram(batch: Batch, frame: Frame, row_weights: Vector) -> tuple[Matrix, Vector]:
    p = batch.n_features
    size = p + frame.fit_intercept
    total, rhs = np.zeros((size, size)), np.zeros(size)
    X = batch.X.astype(np.float64, copy=False)
    weighted = sp.csr_array(sp.diags_array(row_weights) @ X)
    total[:p, :p] = (X.T @ weighted).toarray()
    rhs[:p] = X.T @ (row_weights * batch.y)
    if frame.fit_intercept:
        total[:p, p] = total[p, :p] = X.T @ row_weights
        total[p, p] = row_weights.sum()
        rhs[p] = row_weights @ batch.y
    if frame.shift is not None:
        _shift_by_algebra(total, rhs, frame.shift)
    return total, rhs


def _shift_by_algebra(total: Matrix, rhs: Vector, shift: Vector) -> None:
    """Turn the statistics of the columns into those of the shifted columns, in place.

    Shifting sparse columns themselves would fill them.
    """
    p = len(shift)
    cross = total[:p, p].copy()
    moved = cross - total[p, p] * shift
    total[:p, :p] -= np.outer(shift, cross) + np.outer(moved, shift)
    total[:p, p] = total[p, :p] = moved
    rhs[:p] -= shift * rhs[p]


def normal_residual(batch: Batch, frame: Frame, row_weights: Vector, residual: Vector) -> Vector:
    """Return D'R residual, D the design: one pass over the rows."""
    total = zeros(batch, frame)
    for rows, block in blocks(batch, frame):
        total += transposed_times(block, frame, row_weights[rows] * residual[rows])
    return total


def leverage(batch: Batch, frame: Frame, root: Matrix, spread: Spread = map) -> Vector:
    """Return ||d root||**2 of each design row d: its leverage if root root' is the inverse Gram."""
    p = batch.n_features

    def of_block(rows: slice) -> Vector:
        block = batch.X[rows]
        block = np.asarray(block.toarray() if sp.issparse(block) else block, dtype=np.float64)
        if frame.shift is not None:
            block = block - frame.shift
        moved = block @ root[:p]
        if frame.fit_intercept:
            moved += root[p]
        return np.asarray(np.einsum("ij,ij->i", moved, moved))

    slices = list(row_slices(batch.n_samples, p))
    return np.concatenate([np.empty(0), *_in_order(spread, of_block, slices, BLOCK_ENTRIES)])


def triangle(batch: Batch, frame: Frame, row_weights: Vector) -> Matrix:
    """Return R of the QR decomposition of sqrt(row weights) * [design, y].

    Stacking the triangles of all batches and decomposing again gives the triangle of all rows:
    least squares to full accuracy although no worker sees the whole design.
    """
    root = np.sqrt(row_weights)
    kept = np.flatnonzero(root)
    columns = batch.X[kept]
    dense = columns.toarray() if sp.issparse(columns) else np.asarray(columns, dtype=np.float64)
    if frame.shift is not None:
        dense = dense - frame.shift
    parts = [dense, np.ones((kept.size, 1))] if frame.fit_intercept else [dense]
    design = np.hstack([*parts, batch.y[kept, None]]) * root[kept, None]
    return np.asarray(np.linalg.qr(design, mode="r"))


def extended_normal_residual(
    batch: Batch, frame: Frame, row_weights: Vector, coef: Vector
) -> NDArray[np.longdouble]:
    """Return D'R(y - D coef) in the widest float type of the platform.

    Iterative refinement drives it to zero; on an ill-conditioned design, rounding in double
    precision would be all that is left of it.
    """
    wide = np.longdouble
    p = batch.n_features
    total = np.zeros(p + frame.fit_intercept, dtype=wide)
    slopes = coef[:p].astype(wide)
    intercept = wide(coef[p]) if frame.fit_intercept else wide(0)
    for rows in row_slices(batch.n_samples, p):
        block = batch.X[rows]
        block = (block.toarray() if sp.issparse(block) else block).astype(wide)
        if frame.shift is not None:
            block = block - frame.shift
        pull = row_weights[rows] * (batch.y[rows] - block @ slopes - intercept)
        total[:p] += block.T @ pull
        if frame.fit_intercept:
            total[p] += pull.sum()
    return total
