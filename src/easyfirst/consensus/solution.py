"""What an inner solve returns, whichever way it went."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from easyfirst.consensus.history import IterationRecord
from easyfirst.contracts import Matrix, Vector


def everywhere(coef: Vector, n_batches: int) -> Matrix:
    """Return the same coefficients for every batch; nothing is copied, and nothing can be written.

    Of very many columns, a copy for each batch would take more than some rows.
    """
    return np.broadcast_to(coef, (n_batches, coef.size))


@dataclass(frozen=True, eq=False)
class Solution:
    """The coefficients after an inner solve.

    `z` is the consensus, `coefs[i]` and `duals[i]` belong to batch i.
    """

    z: Vector
    coefs: Matrix
    duals: Matrix
    primal_residual: float
    dual_residual: float
    rho: float
    lagrangian: float
    agreed: bool
    iterations: tuple[IterationRecord, ...] = ()

    @classmethod
    def at(cls, coef: Vector, n_batches: int) -> Solution:
        """Return a solution that has not been solved for: every batch at `coef`."""
        nothing = float("nan")
        return cls(
            z=coef,
            coefs=everywhere(coef, n_batches),
            duals=everywhere(np.zeros(coef.size), n_batches),
            primal_residual=nothing,
            dual_residual=nothing,
            rho=nothing,
            lagrangian=nothing,
            agreed=False,
        )

    def moved_to(self, coef: Vector) -> Solution:
        """Return the same solution with every batch at other coefficients."""
        return replace(self, z=coef, coefs=everywhere(coef, len(self.coefs)))
