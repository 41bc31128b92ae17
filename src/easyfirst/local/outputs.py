"""Several targets: y has one column for each, and a row has one weight for all of them.

Coefficients of all targets are one vector, target by target. A row is judged by the root of its
summed squared residuals, which takes the place of the residual wherever rows are weighed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from easyfirst.contracts import Block, Resident
from easyfirst.local.steps import Change, Statistics, weigh_and_count
from easyfirst.local.weighing import Problem


def form(resident: Resident, change: Change, problem: Problem) -> Statistics:
    """Weigh the rows; `rhs` has a line and `square` an entry for each target."""
    batch, design = resident.batch, problem.design(resident.batch)
    counted, [tally] = weigh_and_count(Block.of(resident), [change], problem)
    gram, first = design.gram(counted, batch.y[:, 0], resident.spread)
    others = [design.transposed_times(counted * y) for y in batch.y.T[1:]]
    return replace(
        tally,
        gram=gram,
        rhs=np.array([first, *others]),
        square=counted @ np.square(batch.y),
    )
