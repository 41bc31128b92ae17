"""The rows of one batch as the baselines see them, and least squares on parts of them.

With an intercept, a column of ones is appended and dense columns are centred first, so that
every method below solves one and the same problem: coefficients for a design.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.consensus.solvers.gram import solve_normal
from easyfirst.contracts import Matrix, Vector
from easyfirst.local.design import Coordinates, Design, centre

Mask = NDArray[np.bool_]

# Subtracting rows from a Gram matrix cancels digits. Once a diagonal entry has shrunk to this
# share of what it was, the matrix is summed again.
CANCELLED = 1e-6

ROUNDING = 64.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Rows:
    """A design matrix (dense or CSR, float64), its responses and, if given, sample weights."""

    design: Design
    y: Vector
    sample_weight: Vector | None = None

    @classmethod
    def of(cls, X: Any, y: Vector, sample_weight: Vector | None, center: Vector | None) -> Rows:
        """Build the design; `center` is None for a fit without intercept."""
        design = Design(X, Coordinates(center is not None, center)).spelled_out()
        return cls(design, y, sample_weight)

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def n_coef(self) -> int:
        """Number of coefficients, the intercept counted."""
        return self.design.n_coef

    @property
    def rounding(self) -> float:
        """The Euclidean norm up to which a change of all residuals means nothing."""
        return ROUNDING * float(np.linalg.norm(self.y))

    def residuals(self, coef: Vector | Matrix) -> Vector | Matrix:
        """Return y minus prediction; for a matrix of coefficients, one column for each."""
        y = self.y if coef.ndim == 1 else self.y[:, None]
        return np.asarray(y - self.design.X @ coef)


def centre_of(X: Any, sample_weight: Vector | None, fit_intercept: bool) -> Vector | None:
    """Return what is subtracted from the columns: their means, zeros if sparse, else None."""
    if not fit_intercept:
        return None
    # Weighted, so that where rows leave coefficients open the choice ignores absent rows too.
    return centre(X, sample_weight)


def to_user(coefs: Matrix, center: Vector | None) -> tuple[Matrix, Vector]:
    """Return slopes and intercepts for the columns as given, one row per row of `coefs`."""
    if center is None:
        return coefs, np.zeros(len(coefs))
    slopes = coefs[:, :-1]
    return slopes, coefs[:, -1] - slopes @ center


def weighted_fit(rows: Rows, weights: Vector) -> tuple[Vector, int]:
    """Return the weighted least-squares coefficients and their rank."""
    gram, rhs = rows.design.gram(weights, rows.y)
    coef, rank = solve_normal(gram, rhs)
    return _refined(rows, gram, weights, coef), rank


def _refined(rows: Rows, gram: Matrix, weights: Vector, coef: Vector) -> Vector:
    """Remove by one more solve what rounding in the Gram matrix left over."""
    pull = weights * rows.residuals(coef)
    move, _ = solve_normal(gram, rows.design.transposed_times(pull))
    return np.asarray(coef + move)


class SubsetLeastSquares:
    """Least squares on one subset of the rows after another.

    The Gram matrix is kept from subset to subset and only the rows that enter or leave are
    added or subtracted, so a step that moves few rows costs little.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._importance = (
            np.ones(rows.n_samples) if rows.sample_weight is None else rows.sample_weight
        )
        self._kept: Mask = np.zeros(rows.n_samples, dtype=bool)
        self._gram = np.zeros((rows.n_coef, rows.n_coef))
        self._rhs = np.zeros(rows.n_coef)
        self._square = 0.0
        self._peak = np.zeros(rows.n_coef + 1)
        self.rank = 0

    def copy(self) -> SubsetLeastSquares:
        """Return a second one at the same subset; each then goes its own way."""
        twin = object.__new__(SubsetLeastSquares)
        # Updates replace the arrays and never write into them, so sharing them is safe.
        twin.__dict__.update(self.__dict__)
        return twin

    def fit(self, kept: Mask) -> Vector:
        """Return the least-squares coefficients of the kept rows."""
        self._move_to(kept)
        coef, self.rank = solve_normal(self._gram, self._rhs)
        return coef

    def refined(self, coef: Vector) -> Vector:
        """Return coefficients of the present subset to full accuracy."""
        return _refined(self._rows, self._gram, self._importance * self._kept, coef)

    def _move_to(self, kept: Mask) -> None:
        entering, leaving = kept & ~self._kept, self._kept & ~kept
        n_changes = np.count_nonzero(entering) + np.count_nonzero(leaving)
        if n_changes >= np.count_nonzero(kept):
            self._start(kept)
        else:
            self._add(entering, 1.0)
            self._add(leaving, -1.0)
            if np.any(self._sizes() < CANCELLED * self._peak):
                self._start(kept)
        self._kept = kept

    def _start(self, kept: Mask) -> None:
        self._gram, self._rhs = np.zeros_like(self._gram), np.zeros_like(self._rhs)
        self._square = 0.0
        self._peak = np.zeros_like(self._peak)
        self._add(kept, 1.0)

    def _add(self, some: Mask, sign: float) -> None:
        if not some.any():
            return
        weights = self._importance * some
        gram, rhs = self._rows.design.gram(weights, self._rows.y)
        self._gram = self._gram + sign * gram
        self._rhs = self._rhs + sign * rhs
        self._square += sign * float(weights @ np.square(self._rows.y))
        self._peak = np.maximum(self._peak, self._sizes())

    def _sizes(self) -> Vector:
        return np.append(np.diagonal(self._gram), self._square)
