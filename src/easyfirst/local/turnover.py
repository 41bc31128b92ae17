"""Which rows changed sides between two rounds: all that a sum over the weighted rows must learn.

Where they are few, the rows themselves are the shortest message: it has fewer numbers than a Gram
matrix, and the driver adds up those of all batches in one product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Block, BlockStep, Matrix, Resident, Vector
from easyfirst.local.steps import Change, Statistics, tally, weights_before
from easyfirst.local.weighing import Problem, pacing_values, weigh_block

NO_CHANGE = np.zeros(0)


@dataclass(frozen=True, eq=False)
class Sums:
    """Gram matrix and right-hand side of some rows."""

    gram: Matrix
    rhs: Vector


@dataclass(frozen=True, eq=False)
class Turnover:
    """What changed in a batch: rows, their y and by how much they count more than before.

    Where rows are many, `came` and `left` hold what those with more and with less weight sum to,
    and there are no rows. `square` is the change of sum s v y**2.
    """

    tally: Statistics
    rows: Matrix
    y: Vector
    by: Vector
    square: float
    came: Sums | None = None
    left: Sums | None = None


@BlockStep
def turnover(block: Block, changes: Sequence[Change], problem: Problem) -> list[Turnover]:
    """Weigh the rows and return those whose weight changed."""
    old = weights_before(block, changes, problem)
    assert old is not None
    now = [change.now for change in changes]
    v = weigh_block(block, now, problem)
    tallies = tally(block, v, old, pacing_values(block, now, v, problem))
    s, difference = block.rows.sample_weight, v - old
    if s is not None:
        difference = s * difference
    chosen = np.flatnonzero(difference)
    bounds = np.searchsorted(chosen, block.bounds)
    design, y = problem.design(block.rows), block.rows.y[chosen]
    few = np.diff(bounds) <= design.n_coef
    by = difference[chosen]
    rows = design.dense(chosen) if few.all() else NO_CHANGE
    found = []
    for i, (first, last) in enumerate(pairwise(bounds)):
        part = slice(first, last)
        square = float(by[part] @ np.square(y[part]))
        if few[i]:
            own = rows[part] if few.all() else design.dense(chosen[part])
            found.append(Turnover(tallies[i], own, y[part], by[part], square))
        else:
            resident, local = block.residents[i], chosen[part] - block.bounds[i]
            came = _sums(resident, local[by[part] > 0], np.maximum(by[part], 0.0), problem)
            left = _sums(resident, local[by[part] < 0], np.maximum(-by[part], 0.0), problem)
            none = np.zeros((0, design.n_coef))
            found.append(Turnover(tallies[i], none, NO_CHANGE, NO_CHANGE, square, came, left))
    return found


def _sums(resident: Resident, rows: NDArray[np.intp], weights: Vector, problem: Problem) -> Sums:
    design = problem.design(resident.batch).rows(rows)
    return Sums(*design.gram(weights[weights > 0], resident.batch.y[rows], resident.spread))
