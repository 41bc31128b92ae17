"""The design matrix of some rows: their columns, shifted, and ones for the intercept.

Whether X is dense or sparse, whether there is an intercept and whether columns are shifted is known
here and nowhere else. Coefficient vectors have one entry per feature and, with an intercept, one
more at the end. Dense rows are visited in pieces small enough to stay in cache, so no temporary is
as large as the batch; sparse rows are never densified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from easyfirst.contracts import Matrix, Run, Spread, Vector

# 2 MiB of float64: nearly in a core's own cache the second time it is read, and long enough that
# threads rarely wait for each other between two calls of NumPy.
PIECE_ENTRIES = 1 << 18
# Pieces for Gram matrices of many columns are longer: adding up their squares costs, too.
GRAM_ENTRIES = 1 << 22
ROWS_FOR_MIDDLE = 256  # from which squares are summed, so that they do not cancel
AHEAD_ENTRIES = 1 << 24  # of results that wait for their turn when several cores work on pieces

Index = slice | NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Coordinates:
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

    def shifted(self, columns: Any) -> Any:
        """Return dense columns, or values of them, without the shift."""
        return columns if self.shift is None else columns - self.shift


AS_GIVEN = Coordinates(fit_intercept=False)


def dense(X: Any) -> Matrix:
    """Return rows as a dense array of float64, without a copy where they are one."""
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


def squared(X: Any) -> Any:
    """Return the square of every entry."""
    return X.power(2) if sp.issparse(X) else np.square(X)


def stacked(parts: Sequence[Any]) -> Any:
    """Return rows of several arrays, all of them dense or all sparse, as one."""
    if sp.issparse(parts[0]):
        return sp.vstack(parts, format="csr")
    return _as_they_lie(parts) if _lie_end_to_end(parts) else np.concatenate(parts)


def _lie_end_to_end(parts: Sequence[Any]) -> bool:
    """Return whether the arrays are neighbouring rows of one array."""
    first = parts[0]
    same = all(
        part.base is first.base and part.dtype == first.dtype and part.flags.c_contiguous
        for part in parts
    )
    begins = [part.__array_interface__["data"][0] for part in parts]
    ends = [begin + part.nbytes for begin, part in zip(begins, parts, strict=True)]
    return first.base is not None and same and begins[1:] == ends[:-1]


def _as_they_lie(parts: Sequence[Any]) -> Any:
    shape = (sum(len(part) for part in parts), *parts[0].shape[1:])
    return as_strided(parts[0], shape, parts[0].strides, writeable=False)


def column_variance(X: Any) -> Vector:
    """Return the variance of each column."""
    n = max(X.shape[0], 1)
    if sp.issparse(X):
        square = np.asarray(X.multiply(X).sum(axis=0)).ravel() / n
        return np.asarray(square - np.square(np.asarray(X.sum(axis=0)).ravel() / n))
    middle = X[:ROWS_FOR_MIDDLE].mean(axis=0, dtype=np.float64)
    total, square = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for rows in row_slices(X.shape[0], X.shape[1]):
        away = X[rows] - middle
        total += away.sum(axis=0)
        square += np.einsum("ij,ij->j", away, away)
    return np.asarray(np.maximum(square / n - np.square(total / n), 0.0))


def centre(X: Any, sample_weight: Vector | None) -> Vector:
    """Return the mean of each column, by sample weight; zeros for sparse ones, which stay so."""
    if sp.issparse(X):
        return np.zeros(X.shape[1])
    if sample_weight is None:
        return np.asarray(X.mean(axis=0, dtype=np.float64))
    return np.asarray(np.average(X, axis=0, weights=sample_weight))


def _rows_in_a_piece(n_features: int) -> int:
    return max(32, PIECE_ENTRIES // max(1, n_features))


def row_slices(n_samples: int, n_features: int, least: int = 32) -> Iterator[slice]:
    """Yield ranges of rows that make up a piece each."""
    rows = max(least, _rows_in_a_piece(n_features))
    for start in range(0, n_samples, rows):
        yield slice(start, min(start + rows, n_samples))


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows of one batch, or all rows of several equally long ones: what is worked on at once.

    Dense `columns` are in float64, already shifted, and of shape (n_batches, n_rows, n_features):
    NumPy makes the same call of BLAS for each batch as for one alone. Sparse ones are as given,
    and of one batch.
    """

    rows: slice
    batches: slice
    columns: Any
    coordinates: Coordinates

    @property
    def n_batches(self) -> int:
        """Number of batches."""
        return int(self.batches.stop - self.batches.start)

    @property
    def is_sparse(self) -> bool:
        """Return whether the shift is still to be done, by algebra: it would fill the columns."""
        return bool(sp.issparse(self.columns))

    def times(self, coef: Vector) -> Vector:
        """Return D coef."""
        if self.is_sparse:
            slopes, intercept = self.coordinates.to_user(coef)
            return np.asarray(self.columns @ slopes + intercept)
        # For one batch alone, NumPy is faster with two dimensions; the bits are the same.
        columns = self.columns[0] if self.n_batches == 1 else self.columns
        if not self.coordinates.fit_intercept:
            return np.asarray(columns @ coef).ravel()
        return np.asarray(columns @ coef[:-1] + coef[-1]).ravel()

    def transposed_times(self, values: Vector) -> Matrix:
        """Return D'values of each batch."""
        product = self._unshifted(self.columns, values)
        if self.is_sparse and self.coordinates.shift is not None:
            product[:, :-1] -= self.coordinates.shift * product[:, -1:]
        return product

    def squares(self, row_weights: Vector) -> Matrix:
        """Return the diagonal of D'R D of each batch, R the diagonal matrix of row weights."""
        squares, shift = self._unshifted(squared(self.columns), row_weights), self.coordinates.shift
        if self.is_sparse and shift is not None:
            moved = squares[0, -1] * shift - 2.0 * (self.columns.T @ row_weights)
            squares[0, :-1] += shift * moved
        return squares

    def _unshifted(self, columns: Any, values: Vector) -> Matrix:
        values = values.reshape(self.n_batches, -1)
        p = columns.shape[-1]
        product = np.empty((len(values), p + self.coordinates.fit_intercept))
        if self.is_sparse:
            product[0, :p] = columns.T @ values[0]
        else:
            product[:, :p] = np.matmul(columns.transpose(0, 2, 1), values[:, :, None])[:, :, 0]
        if self.coordinates.fit_intercept:
            product[:, -1] = values.sum(axis=1)
        return product

    def norms(self) -> Vector:
        """Return a bound on the norm of each row, the numbers it is computed from included."""
        if self.is_sparse:
            squares = np.asarray(squared(self.columns).sum(axis=1)).ravel()
        else:
            squares = np.einsum("kij,kij->ki", self.columns, self.columns).ravel()
        norms = np.sqrt(squares) + float(self.coordinates.fit_intercept)
        if self.is_sparse and self.coordinates.shift is not None:
            norms += np.linalg.norm(self.coordinates.shift)
        return np.asarray(norms * (1.0 + 1e-9))


@dataclass(frozen=True, eq=False)
class Design:
    """The design matrix D of some rows, with their columns X as they were given."""

    X: Any
    coordinates: Coordinates = AS_GIVEN

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns, the intercept not counted."""
        return int(self.X.shape[1])

    @property
    def n_coef(self) -> int:
        """Number of columns, the intercept counted."""
        return self.n_features + self.coordinates.fit_intercept

    @property
    def sums_in_fixed_order(self) -> bool:
        """Return whether D coef has the same bits wherever a row stands: entry by entry."""
        return bool(sp.issparse(self.X))

    def rows(self, index: Index) -> Design:
        """Return the design of some rows."""
        return Design(self.X[index], self.coordinates)

    def dense(self, index: Index = slice(None)) -> Matrix:
        """Return some rows as one dense array, ones for the intercept included."""
        columns = self._shifted(index)
        if not self.coordinates.fit_intercept:
            return columns
        return np.hstack([columns, np.ones((len(columns), 1))])

    def _shifted(self, index: Index) -> Matrix:
        return np.asarray(self.coordinates.shifted(dense(self.X[index])))

    def spelled_out(self) -> Design:
        """Return the same with shift and intercept in the columns; sparse ones are not shifted."""
        if not sp.issparse(self.X):
            return Design(self.dense())
        columns = self.X.astype(np.float64)
        if self.coordinates.fit_intercept:
            ones = sp.csr_array(np.ones((self.n_samples, 1)))
            columns = sp.csr_array(sp.hstack([columns, ones], format="csr"))
        return Design(columns)

    def pieces(self, runs: Sequence[Run] = ()) -> Iterator[Piece]:
        """Yield dense rows a piece at a time, sparse rows all at once.

        `runs` say which rows are which batch's; without, all are one's. Pieces are views of X where
        that is possible.
        """
        if sp.issparse(self.X):
            yield Piece(slice(0, self.n_samples), slice(0, 1), self.X, self.coordinates)
            return
        p = self.n_features
        everything = Run(0, slice(0, self.n_samples), (1, self.n_samples))
        for run in runs or [everything]:
            n_batches, length = run.shape
            several = max(1, _rows_in_a_piece(p) // max(1, length))
            for first in range(0, n_batches, several):
                count = min(several, n_batches - first)
                batches = slice(run.first + first, run.first + first + count)
                start = run.rows.start + first * length
                for part in row_slices(count * length, p):
                    rows = slice(start + part.start, start + part.stop)
                    shape = (count, (part.stop - part.start) // count, p)
                    columns = self._shifted(rows).reshape(shape)
                    yield Piece(rows, batches, columns, self.coordinates)

    def times(self, coef: Vector) -> Vector:
        """Return D coef, the prediction for each row."""
        return self._of_each_row(lambda piece: piece.times(coef))

    def norms(self) -> Vector:
        """Return a bound on the norm of each row, the numbers it is computed from included."""
        return self._of_each_row(Piece.norms)

    def _of_each_row(self, work: Callable[[Piece], Vector]) -> Vector:
        values = np.empty(self.n_samples)
        for piece in self.pieces():
            values[piece.rows] = work(piece)
        return values

    def transposed_times(self, values: Vector) -> Vector:
        """Return D'values."""
        return self._total(lambda piece: piece.transposed_times(values[piece.rows]))

    def squares(self, row_weights: Vector) -> Vector:
        """Return the diagonal of D'R D."""
        return self._total(lambda piece: piece.squares(row_weights[piece.rows]))

    def fourths(self, row_weights: Vector) -> Vector:
        """Return the sum of (w d**2)**2 of each column, for dense rows."""
        total = np.zeros(self.n_coef)
        for piece in self.pieces():
            weights = row_weights[piece.rows]
            parts = np.square(piece.columns[0]) * weights[:, None]
            total[: self.n_features] += np.einsum("ij,ij->j", parts, parts)
            total[self.n_features :] += weights @ weights
        return total

    def curve(self, row_weights: Vector, direction: Vector) -> Vector:
        """Return D'R D direction, each piece while it is in cache."""
        return self._total(
            lambda piece: piece.transposed_times(row_weights[piece.rows] * piece.times(direction))
        )

    def _total(self, work: Callable[[Piece], Matrix]) -> Vector:
        total = np.zeros(self.n_coef)
        for piece in self.pieces():
            total += work(piece)[0]
        return total

    def times_of(self, chosen: NDArray[np.intp], coef: Vector) -> Vector:
        """Return D coef for some of the rows."""
        if sp.issparse(self.X) or self.X.dtype != np.float64:
            return self.rows(chosen).times(coef)
        prediction = np.empty(chosen.size)
        slices = list(row_slices(chosen.size, self.n_features))
        longest = max((rows.stop - rows.start for rows in slices), default=0)
        # One buffer for all pieces: fresh memory for each would cost more than the rows in it.
        buffer = np.empty((longest, self.n_features))
        for rows in slices:
            columns = buffer[: rows.stop - rows.start]
            np.take(self.X, chosen[rows], axis=0, out=columns, mode="clip")
            if self.coordinates.shift is not None:
                columns -= self.coordinates.shift
            piece = Piece(rows, slice(0, 1), columns[None], self.coordinates)
            prediction[rows] = piece.times(coef)
        return prediction

    def times_by_column(self, chosen: NDArray[np.intp], coef: Vector, start: Vector) -> Vector:
        """Return start - D coef for some rows, one column after the other.

        Products of matrices sum in an order that depends on where a row stands in its piece.
        """
        residual = np.empty(chosen.size)
        for rows in row_slices(chosen.size, self.n_features):
            columns = self._shifted(chosen[rows])
            total = np.array(start[rows], dtype=np.float64)
            for j in range(self.n_features):
                total -= columns[:, j] * coef[j]
            residual[rows] = total - coef[-1] if self.coordinates.fit_intercept else total
        return residual

    def gram(self, row_weights: Vector, y: Vector, spread: Spread = map) -> tuple[Matrix, Vector]:
        """Return the weighted Gram matrix and right-hand side: D'R D and D'R y.

        Rows of weight zero cost nothing. Whoever works on a piece, pieces are added up in order.
        """
        if sp.issparse(self.X):
            return self._sparse_gram(row_weights, y)
        return self._dense_gram(row_weights, y, spread)

    def _dense_gram(self, row_weights: Vector, y: Vector, spread: Spread) -> tuple[Matrix, Vector]:
        p, q = self.n_features, self.n_coef
        total, rhs = np.zeros((q, q)), np.zeros(q)
        least = max(32, min(2 * p, GRAM_ENTRIES // max(1, p)))

        def of_piece(rows: slice) -> tuple[Matrix, Vector, Vector, float] | None:
            columns, weight, target = self._shifted(rows), row_weights[rows], y[rows]
            kept = np.flatnonzero(weight)
            if kept.size == 0:
                return None
            if kept.size < weight.size:
                columns, weight, target = columns[kept], weight[kept], target[kept]
            pull, cross, last = columns.T @ (weight * target), weight[:0], 0.0
            if self.coordinates.fit_intercept:
                cross, last = np.append(columns.T @ weight, weight.sum()), float(weight @ target)
            if np.any(weight != 1.0):
                columns = columns * np.sqrt(weight)[:, None]
            # numpy recognises C'C and computes one triangle of it only.
            return columns.T @ columns, pull, cross, last

        slices = list(row_slices(self.n_samples, p, least))
        for part in _in_order(spread, of_piece, slices, q * q):
            if part is None:
                continue
            squares, pull, cross, last = part
            total[:p, :p] += squares
            rhs[:p] += pull
            if self.coordinates.fit_intercept:
                total[:, p] += cross
                rhs[p] += last
        total[p:, :p] = total[:p, p:].T
        return total, rhs

    def _sparse_gram(self, row_weights: Vector, y: Vector) -> tuple[Matrix, Vector]:
        p, q = self.n_features, self.n_coef
        total, rhs = np.zeros((q, q)), np.zeros(q)
        X = self.X.astype(np.float64, copy=False)
        total[:p, :p] = (X.T @ sp.csr_array(sp.diags_array(row_weights) @ X)).toarray()
        rhs[:p] = X.T @ (row_weights * y)
        if self.coordinates.fit_intercept:
            total[:p, p] = total[p, :p] = X.T @ row_weights
            total[p, p] = row_weights.sum()
            rhs[p] = row_weights @ y
        if self.coordinates.shift is not None:
            _shift_by_algebra(total, rhs, self.coordinates.shift)
        return total, rhs

    def outer(self, chosen: NDArray[np.intp], scale: Vector) -> Matrix:
        """Return D diag(scale) D' of some rows."""
        p, shift = self.n_features, self.coordinates.shift
        slopes = scale[:p]
        if sp.issparse(self.X):
            X = self.X[chosen]
            weighted = X.astype(np.float64) @ sp.diags_array(slopes)
            matrix = np.asarray((weighted @ X.T).toarray(), dtype=np.float64)
            if shift is not None:
                moved = np.asarray(weighted @ shift)
                matrix += float(slopes @ np.square(shift)) - moved[:, None] - moved
        else:
            columns = self._shifted(chosen)
            matrix = (columns * slopes) @ columns.T
        return matrix + scale[p] if self.coordinates.fit_intercept else matrix

    def leverage(self, root: Matrix, spread: Spread = map) -> Vector:
        """Return ||d root||**2 of each row d: its leverage if root root' is the inverse Gram."""
        p = self.n_features

        def of_piece(rows: slice) -> Vector:
            moved = self._shifted(rows) @ root[:p]
            if self.coordinates.fit_intercept:
                moved += root[p]
            return np.asarray(np.einsum("ij,ij->i", moved, moved))

        slices = list(row_slices(self.n_samples, p))
        return np.concatenate([np.empty(0), *_in_order(spread, of_piece, slices, PIECE_ENTRIES)])

    def triangle(self, row_weights: Vector, y: Vector) -> Matrix:
        """Return R of the QR decomposition of sqrt(row weights) * [D, y].

        Stacking the triangles of all batches and decomposing again gives the triangle of all rows:
        least squares to full accuracy although no worker sees the whole design.
        """
        root = np.sqrt(row_weights)
        kept = np.flatnonzero(root)
        rows = np.hstack([self.dense(kept), y[kept, None]]) * root[kept, None]
        return np.asarray(np.linalg.qr(rows, mode="r"))

    def extended_pull(self, row_weights: Vector, y: Vector, coef: Vector) -> NDArray[np.longdouble]:
        """Return D'R(y - D coef) in the widest float type of the platform.

        Iterative refinement drives it to zero; on an ill-conditioned design, rounding in double
        precision would be all that is left of it.
        """
        wide, p = np.longdouble, self.n_features
        total = np.zeros(self.n_coef, dtype=wide)
        for rows in row_slices(self.n_samples, p):
            columns = self.coordinates.shifted(dense(self.X[rows]).astype(wide))
            pull = y[rows] - columns @ coef[:p].astype(wide)
            if self.coordinates.fit_intercept:
                pull -= wide(coef[p])
            pull *= row_weights[rows]
            total[:p] += columns.T @ pull
            total[p:] += pull.sum()
        return total


def _in_order(
    spread: Spread, work: Callable[[slice], Any], slices: Sequence[slice], entries: int
) -> Iterator[Any]:
    """Yield the results for all pieces in order, a bounded number of them ahead of time."""
    if len(slices) == 1:  # handing it to another thread would cost more than the work
        yield work(slices[0])
        return
    ahead = max(2, min(16, AHEAD_ENTRIES // max(1, entries)))
    for first in range(0, len(slices), ahead):
        yield from spread(work, slices[first : first + ahead])


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
