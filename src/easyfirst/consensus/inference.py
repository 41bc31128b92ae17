"""What a calibrated fit is worth: standard errors of its coefficients.

The weighted fit solves sum psi(r) d = 0 with psi(r) = v(r) r. Rows near the threshold pull less
than their weight says, because moving them changes their weight too; the naive formula on the
kept rows ignores that and is too small.
"""

from __future__ import annotations

import numpy as np

from easyfirst.consensus.fleet import Fleet, Weightings
from easyfirst.consensus.gram import inverse_diagonal
from easyfirst.contracts import Matrix, Vector


def standard_errors(fleet: Fleet, weightings: Weightings, scale: float, gram: Matrix) -> Vector:
    """Return the standard error of every coefficient, the intercept's last if there is one.

    cov = sum(psi**2) (S0 - q) / (S1 - q S2 / S1)**2 * G^-1 with S0 = sum v, S1 = sum psi',
    S2 = sum psi'**2 and G the weighted Gram matrix: the sandwich for rows whose corruption does
    not depend on X. The terms in q are for few clean rows per coefficient; without corruption
    the formula is that of least squares. Coefficients that the rows do not determine have an
    infinite standard error.
    """
    weight, slope, pull, slope_squared = fleet.influence(weightings, scale)
    q = len(gram)
    rest = max(weight - q, 1.0)
    worth = max(slope - q * slope_squared / max(slope, 1e-300), 1.0)
    return np.sqrt(pull * rest / worth**2 * inverse_diagonal(gram))
