"""The strength of the pull towards consensus: rho, in every direction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from easyfirst.contracts import Matrix, Vector


@dataclass(frozen=True, eq=False)
class RhoMatrix:
    """A positive definite matrix, given by its diagonal alone where the rest is zero."""

    values: Vector | Matrix

    @property
    def is_diagonal(self) -> bool:
        """Whether coefficients are pulled each on its own."""
        return self.values.ndim == 1

    @property
    def diagonal(self) -> Vector:
        """The strength for each coefficient."""
        return self.values if self.is_diagonal else np.diagonal(self.values)

    @property
    def typical(self) -> float:
        """One number for the record: the geometric mean over the coefficients."""
        diagonal = self.diagonal
        return float(np.exp(np.log(diagonal).sum() / diagonal.size))

    def scaled(self, factor: float) -> RhoMatrix:
        """Return a matrix that pulls `factor` times as strongly."""
        return RhoMatrix(self.values * factor)

    def times(self, rows: Matrix | Vector) -> Matrix | Vector:
        """Return the product with a vector, or with every row of a matrix."""
        return np.asarray(rows * self.values if self.is_diagonal else rows @ self.values)

    def square(self, rows: Matrix | Vector) -> float:
        """Return the squared length, summed over the rows."""
        return float(np.sum(rows * self.times(rows)))

    def plus(self, matrix: Matrix) -> Matrix:
        """Return the sum with a matrix."""
        return np.asarray(matrix + (np.diag(self.values) if self.is_diagonal else self.values))
