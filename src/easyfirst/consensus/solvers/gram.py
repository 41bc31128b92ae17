"""The exact one-message solution: add the Gram matrices of all batches and solve once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray
from scipy.linalg import lapack

from easyfirst.consensus.solution import Solution, everywhere
from easyfirst.consensus.solvers import proximal
from easyfirst.consensus.statistics import Diagonal, Objective, StackedStatistics
from easyfirst.contracts import Matrix, Vector
from easyfirst.local.design import Design

# Below this reciprocal condition number of the column-scaled Gram matrix, Cholesky has lost
# every digit and directions without information are cut off instead.
SINGULAR = 1e-14
# Variance of a column, over its mean square, that may be rounding errors of their difference.
NO_SPREAD = 1e-11
# Reciprocal condition number of the scaled matrix from which no digit needs a second thought.
WELL_CONDITIONED = 1e-6
UNSURE = 100.0  # times an eigenvalue that is in question: a bound above that settles it
LARGE_PART = 0.3  # of a column in a direction of length one


@dataclass(frozen=True, eq=False)
class ProximalTerm:
    """A weak pull towards the last coefficients, for those that the weighted rows say nothing of.

    It does not move the point to which the rounds converge. The coefficient of a category whose
    rows are all set aside for now stays where it was, instead of at zero, where they would stay
    out.
    """

    point: Vector
    strength: Vector


@dataclass(frozen=True, eq=False)
class Equations:
    """The linear system of a round but for its right-hand side, which rounds may share.

    `open_columns` do not vary among the weighted rows: what those say of them is rounding errors,
    which may outweigh a proximal term. Such a coefficient stays at the term's point.
    """

    gram: Matrix  # of the weighted rows, as it was given
    strength: Vector | None
    objective: Objective
    matrix: Matrix
    open_columns: NDArray[np.intp]

    @classmethod
    def of(cls, gram: Matrix, objective: Objective, term: ProximalTerm | None) -> Equations:
        """Return the equations with penalty and proximal term."""
        diagonal = objective.penalty_diagonal(len(gram))
        matrix = gram if diagonal is None or not diagonal.any() else plus_diagonal(gram, diagonal)
        if term is None:
            return cls(gram, None, objective, matrix, np.zeros(0, dtype=np.intp))
        n_slopes = len(gram) - objective.fit_intercept
        squares = np.maximum(np.diagonal(matrix)[:n_slopes], 0.0)
        is_open = variances(matrix, objective.fit_intercept) <= NO_SPREAD * squares
        open_columns = np.flatnonzero(is_open)
        matrix = plus_diagonal(matrix, term.strength)
        if open_columns.size:
            matrix[open_columns] = matrix[:, open_columns] = 0.0
            matrix[open_columns, open_columns] = term.strength[open_columns]
        return cls(gram, term.strength, objective, matrix, open_columns)

    def are_those_of(self, gram: Matrix, term: ProximalTerm | None) -> bool:
        """Return whether they serve for this matrix and term."""
        if gram is not self.gram:
            return False
        if term is None or self.strength is None:
            return term is None and self.strength is None
        return np.array_equal(self.strength, term.strength)

    def right_hand_side(self, rhs: Vector, term: ProximalTerm | None) -> Vector:
        """Return what goes with the matrix."""
        if term is None:
            return rhs
        if self.open_columns.size:
            rhs = rhs - self.gram[:, self.open_columns] @ term.point[self.open_columns]
            rhs[self.open_columns] = 0.0
        return rhs + term.strength * term.point

    @cached_property
    def normal(self) -> NormalEquations:
        """The same, factored when they are first solved."""
        return NormalEquations.of(self.matrix, self.objective.fit_intercept)


def solve(
    stats: StackedStatistics,
    objective: Objective,
    prox_term: ProximalTerm | None = None,
    start: Vector | None = None,
    equations: Equations | None = None,
) -> Solution:
    """Minimise losses plus penalty with all batches at the same coefficients.

    In closed form where the penalty is quadratic; iteratively from `start` (zero) where it is not.
    `equations` save their own construction.
    """
    if equations is None:
        equations = Equations.of(stats.pooled_gram, objective, prox_term)
    rhs = equations.right_hand_side(stats.pooled_rhs, prox_term)
    if objective.penalty_diagonal(stats.n_coef) is None:
        begin = np.zeros(stats.n_coef) if start is None else start
        z = proximal.minimise(equations.matrix, rhs, objective, begin)
    else:
        z, _ = equations.normal.solve(rhs)
    return Solution(
        z=z,
        coefs=everywhere(z, stats.n_batches),
        duals=everywhere(np.zeros(stats.n_coef), stats.n_batches),
        primal_residual=0.0,
        dual_residual=0.0,
        rho=0.0,
        lagrangian=objective.value(stats, z),
        agreed=True,
    )


def rank(stats: StackedStatistics, objective: Objective) -> int:
    """Return how many directions the weighted rows and the penalty determine.

    A penalty that is not quadratic is taken to determine what the rows leave open.
    """
    penalty = objective.penalty_diagonal(stats.n_coef)
    if penalty is None:
        return stats.n_coef
    if isinstance(stats.pooled_gram, Diagonal):
        return int(np.sum(stats.pooled_gram.diagonal() + penalty > 0))
    matrix = plus_diagonal(stats.pooled_gram, penalty)
    return solve_normal(matrix, stats.pooled_rhs, objective.fit_intercept)[1]


def weighted_least_squares(
    design: Design, y: Vector, weights: Vector, ones_last: bool = False
) -> tuple[Vector, int]:
    """Return the coefficients that minimise sum weights (y - D coef)**2, and their rank.

    `ones_last` says that the design's last column is the intercept's already.
    """
    gram, rhs = design.gram(weights, y)
    return solve_normal(gram, rhs, design.coordinates.fit_intercept or ones_last)


def solve_normal(
    gram: Matrix, rhs: Vector, has_intercept: bool = False, least: float = 0.0
) -> tuple[Vector, int]:
    """Solve gram @ z = rhs for a positive semidefinite matrix; returns (z, rank).

    With an intercept, whose column is the last, the others are centred first. Columns are scaled
    to unit diagonal, so the answer depends neither on their units nor on where their zero is.
    Where the matrix is singular, z is the solution of least norm in those coordinates: directions
    of which the rows say nothing get zero, as do those with an eigenvalue below `least` there.
    """
    return NormalEquations.of(gram, has_intercept).solve(rhs, least)


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """A positive semidefinite matrix, centred and scaled; `mean` and `total` if there are ones."""

    scaled: _Scaled | None  # None if no row counts
    mean: Vector | None = None
    total: float = 0.0

    @classmethod
    def of(cls, gram: Matrix, has_intercept: bool) -> NormalEquations:
        """Prepare a matrix for several right-hand sides."""
        if not has_intercept:
            return cls(_Scaled.of(gram, np.diagonal(gram)))
        total = float(gram[-1, -1])
        if not total > 0.0:
            return cls(None)
        mean, centred = _centred(gram)
        return cls(_Scaled.of(centred, np.diagonal(gram)[:-1]), mean, total)

    def solve(self, rhs: Vector, least: float = 0.0) -> tuple[Vector, int]:
        """Return the solution and the rank: see `solve_normal`."""
        if self.scaled is None:
            return np.zeros(len(rhs)), 0
        if self.mean is None:
            return self.scaled.solve(rhs, least)
        slopes, rank = self.scaled.solve(rhs[:-1] - self.mean * rhs[-1], least)
        return np.append(slopes, rhs[-1] / self.total - self.mean @ slopes), rank + 1


def plus_diagonal(matrix: Matrix, diagonal: Vector) -> Matrix:
    """Return a matrix with more on its diagonal."""
    total = matrix.copy()
    total.flat[:: len(total) + 1] += diagonal
    return total


def _centred(gram: Matrix) -> tuple[Vector, Matrix]:
    """Return the means of the columns and the Gram matrix around them; the last column is ones."""
    mean = gram[:-1, -1] / gram[-1, -1]
    centred = np.multiply.outer(gram[-1, -1] * mean, mean)
    return mean, np.subtract(gram[:-1, :-1], centred, out=centred)


def variances(gram: Matrix, has_intercept: bool) -> Vector:
    """Return the sums of squares of the columns, around their means if there is an intercept."""
    if not has_intercept:
        return np.asarray(np.diagonal(gram))
    return np.asarray(np.diagonal(gram)[:-1] - np.square(gram[:-1, -1]) / gram[-1, -1])


@dataclass(frozen=True, eq=False)
class _Scaled:
    """A positive semidefinite matrix with unit diagonal, and how far rounding reaches in it.

    `scale` takes the columns there, and is 0 for those without any spread. `rounding` is the size
    of what the diagonal was computed from, over the diagonal.
    """

    matrix: Matrix
    scale: Vector
    rounding: Vector

    @classmethod
    def of(cls, matrix: Matrix, squares: Vector) -> _Scaled:
        """Scale a matrix whose diagonal was left over from `squares`."""
        diagonal = np.diagonal(matrix)
        used = diagonal > NO_SPREAD * np.maximum(squares, 0.0)
        if used.all():
            scale = 1.0 / np.sqrt(diagonal)
            scaled = matrix * scale[:, None]
            scaled *= scale
            return cls(scaled, scale, np.maximum(squares / diagonal, 1.0))
        root = np.sqrt(np.where(used, diagonal, 1.0))
        scale = np.where(used, 1.0 / root, 0.0)
        scaled = matrix * scale[:, None]
        scaled *= scale
        scaled[~used, ~used] = 1.0
        rounding = np.where(used, squares / np.where(used, diagonal, 1.0), 1.0)
        return cls(scaled, scale, np.maximum(rounding, 1.0))

    def solve(self, rhs: Vector, least: float = 0.0) -> tuple[Vector, int]:
        """Return the solution of least norm for the matrix as it was, and its rank."""
        target = rhs * self.scale
        n_unused = int(np.count_nonzero(self.scale == 0))
        factored = self.factored if least == 0.0 else None
        if factored is not None and factored[1] > SINGULAR * self.rounding.max(initial=1.0):
            solved = lapack.dpotrs(factored[0], target, lower=True)[0] if len(target) else target
            return np.asarray(solved * self.scale), len(rhs) - n_unused
        values, basis = self.directions(least)
        solved = basis @ ((basis.T @ target) / values)
        return np.asarray(solved * self.scale), len(values) - n_unused

    @cached_property
    def factored(self) -> tuple[Matrix, float] | None:
        """The Cholesky factor and the reciprocal condition number."""
        return _factor(self.matrix)

    def has_weak_directions(self, least: float) -> bool:
        """Return whether an eigenvalue may lie below `least`; False is certain."""
        if self.factored is None:
            return True
        # The norm of the inverse is estimated from below, rarely by more than a factor of three.
        return bool(self.factored[1] * _norm(self.matrix) < UNSURE * max(least, SINGULAR))

    def directions(self, least: float = 0.0) -> tuple[Vector, Matrix]:
        """Return the eigenvalues above rounding errors and `least`, and their vectors."""
        values, vectors = la.eigh(self.matrix, check_finite=False)
        reach = len(values) * np.max(values, initial=0.0) + np.square(vectors).T @ self.rounding
        kept = values > np.maximum(SINGULAR * reach, least)
        return values[kept], vectors[:, kept]

    def inverse_root(self, least: float = 0.0) -> Matrix:
        """Return R with R R' the inverse of the matrix as it was, zero where that is singular."""
        factored = self.factored if least == 0.0 else None
        if factored is not None and factored[1] > WELL_CONDITIONED:
            return np.asarray(self.scale[:, None] * _inverse_transposed(factored[0]))
        values, basis = self.directions(least)
        return np.asarray(self.scale[:, None] * basis / np.sqrt(values))


def without_constant_columns(z: Vector, gram: Matrix, has_intercept: bool) -> Vector:
    """Return coefficients with zero for columns that do not vary; predictions are the same there.

    `gram` is that of the rows that count. An earlier fit may have given such a column any value.
    """
    unused = _scaled(gram, has_intercept).scale == 0
    lost = np.flatnonzero(unused & (z[: unused.size] != 0.0))
    if not lost.size:
        return z
    changed = z.copy()
    changed[lost] = 0.0
    if has_intercept:
        changed[-1] += _centred(gram)[0][lost] @ z[lost]
    return changed


def without_weak_directions(
    z: Vector, gram: Matrix, has_intercept: bool, least: float
) -> tuple[Vector, NDArray[np.intp]]:
    """Return coefficients with zero in directions of eigenvalues below `least`.

    The others keep their values, since they are orthogonal; the intercept keeps the mean
    prediction. And which columns have the largest part in those directions.
    """
    scaled = _scaled(gram, has_intercept)
    if not scaled.has_weak_directions(least):
        return z, np.zeros(0, dtype=np.intp)
    values, vectors = scaled.directions()
    weak = vectors[:, values <= least]
    slopes = z[: len(scaled.scale)]
    norms = np.divide(1.0, scaled.scale, out=np.zeros_like(slopes), where=scaled.scale > 0)
    part = scaled.scale * (weak @ (weak.T @ (norms * slopes)))
    changed = z.copy()
    changed[: len(part)] -= part
    if has_intercept:
        changed[-1] += _centred(gram)[0] @ part
    return changed, np.flatnonzero(np.max(np.abs(weak), axis=1, initial=0.0) > LARGE_PART)


def _scaled(gram: Matrix, has_intercept: bool) -> _Scaled:
    if not has_intercept:
        return _Scaled.of(gram, np.diagonal(gram))
    return _Scaled.of(_centred(gram)[1], np.diagonal(gram)[:-1])


def is_well_conditioned(gram: Matrix, least: float = WELL_CONDITIONED) -> bool:
    """Return whether the reciprocal condition number of the column-scaled matrix is above `least`.

    With the default, Cholesky and refinement keep full accuracy.
    """
    norms = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    if not np.all(norms > 0):
        return False
    factored = _factor(gram / norms[:, None] / norms)
    return factored is not None and factored[1] > least


def relative_range(gram: Matrix, other: Matrix) -> tuple[float, float]:
    """Return the least and the greatest x'gram x / x'other x; (0, inf) if `other` is singular."""
    try:
        values = la.eigh(gram, other, eigvals_only=True, check_finite=False)
    except la.LinAlgError:
        return 0.0, np.inf
    return float(values[0]), float(values[-1])


def supported_basis(gram: Matrix, least: float) -> Matrix:
    """Return B with B'gram B the identity, spanning the directions that the rows support.

    Those left out have less than `least` of the best supported one's support, columns scaled.
    """
    norms = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    scaled = gram * scale[:, None] * scale
    factored = _factor(scaled)
    if factored is not None and factored[1] > least:
        return np.asarray(scale[:, None] * _inverse_transposed(factored[0]))
    values, vectors = la.eigh(scaled, check_finite=False)
    kept = values > least * np.max(values, initial=0.0)
    return np.asarray(scale[:, None] * vectors[:, kept] / np.sqrt(values[kept]))


def solve_where_supported(
    gram: Matrix, rhs: Vector, every: Matrix, least: float, has_intercept: bool
) -> Vector:
    """Solve gram @ z = rhs with zero in directions that have lost nearly all of their support.

    That is, less than `least` of what they have in `every`, the matrix of all rows.
    """
    if not has_intercept:
        return _solve_in(supported_basis(every, SINGULAR), gram, rhs, least)
    mean, centred = _centred(gram)
    around = _centred(every)[1]
    has_spread = np.diagonal(around) > NO_SPREAD * np.diagonal(every)[:-1]
    basis = supported_basis(around * np.outer(has_spread, has_spread), SINGULAR)
    slopes = _solve_in(basis, centred, rhs[:-1] - mean * rhs[-1], least)
    return np.append(slopes, rhs[-1] / gram[-1, -1] - mean @ slopes)


def _solve_in(basis: Matrix, gram: Matrix, rhs: Vector, least: float) -> Vector:
    values, vectors = la.eigh(basis.T @ gram @ basis, check_finite=False)
    kept = values > least
    known = basis @ vectors[:, kept]
    return np.asarray(known @ ((known.T @ rhs) / values[kept]))


def inverse_diagonal(gram: Matrix) -> Vector:
    """Return the diagonal of the inverse; infinite for coefficients that the rows leave open.

    Open are those that the rows do not determine, alone or in combination with others.
    """
    norms = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    scaled = gram * scale[:, None] * scale
    factored = _factor(scaled)
    if factored is not None and factored[1] > WELL_CONDITIONED:
        inverse = lapack.dpotri(factored[0], lower=True)[0]
        return np.asarray(np.diagonal(inverse) * np.square(scale))
    values, vectors = la.eigh(scaled, check_finite=False)
    kept = values > values[-1] * SINGULAR * len(values)
    basis = vectors[:, kept]
    diagonal = np.sum(np.square(basis) / values[kept], axis=1) * np.square(scale)
    is_open = np.sum(np.square(basis), axis=1) < 1.0 - 1e-6
    return np.where(is_open, np.inf, diagonal)


def inverse_root(
    gram: Matrix, diagonal: Vector | None, has_intercept: bool = False, least: float = 0.0
) -> Matrix:
    """Return a matrix R with R R' the inverse of gram + diagonal (least-norm where singular).

    Directions with an eigenvalue below `least` count as singular.
    """
    matrix = gram if diagonal is None else gram + np.diag(diagonal)
    if not has_intercept or not matrix[-1, -1] > 0.0:
        return _Scaled.of(matrix, np.diagonal(matrix)).inverse_root(least)
    mean, centred = _centred(matrix)
    root = _Scaled.of(centred, np.diagonal(matrix)[:-1]).inverse_root(least)
    last = np.append(-(mean @ root), 1.0 / np.sqrt(matrix[-1, -1]))
    return np.vstack([np.hstack([root, np.zeros((len(root), 1))]), last])


def _inverse_transposed(factor: Matrix) -> Matrix:
    """Return the transposed inverse of a lower triangular matrix, whatever stands above it."""
    if not len(factor):
        return factor
    return np.asarray(np.tril(lapack.dtrtri(factor, lower=True)[0]).T)


def _factor(matrix: Matrix) -> tuple[Matrix, float] | None:
    """Return the lower Cholesky factor and the reciprocal condition number in the 1-norm."""
    if not len(matrix):
        return matrix, 1.0
    # LAPACK itself: of small matrices, SciPy's checks take longer than the factor. It reads a
    # matrix column by column: the transpose, which is the same, need not be turned around.
    factor, failed = lapack.dpotrf(matrix.T, lower=True, clean=False)
    if failed:
        return None
    reciprocal, _ = lapack.dpocon(factor, _norm(matrix), uplo="L")
    return factor, float(reciprocal)


def _norm(matrix: Matrix) -> float:
    """Return the largest sum of absolute values in a row of a symmetric matrix."""
    return float(lapack.dlange("1", matrix.T))
