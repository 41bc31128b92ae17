"""What an inner solve returns, whichever way it went."""

from __future__ import annotations

from dataclasses import dataclass

from easyfirst.consensus.history import IterationRecord
from easyfirst.contracts import Matrix, Vector


@dataclass(frozen=True, eq=False)
class Solution:
    """The coefficients after an inner solve.

    `z` is the consensus, `coefs[i]` and `duals[i]` belong to batch i. `rank` is the number of
    directions that the weighted rows determine.
    """

    z: Vector
    coefs: Matrix
    duals: Matrix
    rank: int
    primal_residual: float
    dual_residual: float
    rho: float
    lagrangian: float
    agreed: bool
    iterations: tuple[IterationRecord, ...] = ()
