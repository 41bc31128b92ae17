"""How many coefficients a fit really has to spend, where a penalty holds them back.

A ridge fit of more columns than rows does not pass through every row: residuals keep some of their
size, and wrong rows can be told by it.
"""

from __future__ import annotations

import numpy as np

from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.solvers import conjugate
from easyfirst.consensus.statistics import Objective

MATTERS_UP_TO = 20  # rows per coefficient: of more, a fit takes next to nothing away
LARGEST_EXACT = 1_000  # coefficients, beyond which the trace is estimated
PROBES = 4


def effective_coefficients(fleet: Fleet, objective: Objective, seed: int) -> int:
    """Return the trace of the hat matrix of a fit of all rows, rounded up."""
    q = fleet.n_coef
    diagonal = objective.penalty_diagonal(q)
    if diagonal is None or not np.any(diagonal > 0.0):
        return q
    if fleet.total_weight > MATTERS_UP_TO * q:
        return q
    every = fleet.every_row()
    if q <= LARGEST_EXACT:
        gram = fleet.form(every).pooled_gram
        inverse = np.linalg.pinv(gram + np.diag(diagonal), hermitian=True)
        taken = float(np.sum(inverse * gram))
    else:
        squares = fleet.column_squares(every)
        probes = (
            conjugate.degrees_of_freedom(fleet, every, squares, objective, seed + number)
            for number in range(PROBES)
        )
        taken = sum(probes) / PROBES
    return int(np.clip(np.ceil(taken), 1, q))
