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
    # What `np.broadcast_to` returns, in a tenth of its time: every round asks for some.
    values = np.ascontiguousarray(coef)
    same = np.ndarray((n_batches, values.size), values.dtype, values, 0, (0, values.itemsize))
    same.flags.writeable = False
    return same


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

    def with_iteration(self, last: IterationRecord) -> Solution:
        """Return the same solution as the end of one iteration."""
        where = (self.z, self.coefs, self.duals)
        how = (last.primal_residual, last.dual_residual, last.rho, last.lagrangian)
        return Solution(*where, *how, self.agreed, (last,))

    def again(self, number: int, lagrangian: float) -> Solution:
        """Return the same solution for another round: only its self-paced term has moved."""
        residuals = (self.primal_residual, self.dual_residual)
        if self.iterations:
            record = IterationRecord(number, 1, *residuals, self.rho, lagrangian, 0.0)
            return self.with_iteration(record)
        where = (self.z, self.coefs, self.duals)
        return Solution(*where, *residuals, self.rho, lagrangian, self.agreed)

    def moved_to(self, coef: Vector) -> Solution:
        """Return the same solution with every batch at other coefficients."""
        return replace(self, z=coef, coefs=everywhere(coef, len(self.coefs)))
