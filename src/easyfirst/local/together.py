"""Steps that work on several small batches at once, with the bits that each gets alone.

Batches that are equally long and lie end to end in memory form one stack: NumPy then runs through
them in one call for each operation, instead of one call for each batch, and makes the same call of
BLAS and the same sum for every one of them. Others are worked on one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from easyfirst.contracts import Batch, GroupStep, Matrix, Resident, Vector
from easyfirst.local import passes, steps
from easyfirst.local.passes import Frame
from easyfirst.local.steps import NO_MATRIX, Change, Statistics
from easyfirst.local.weighing import NEGLIGIBLE, Problem, Weighting, residual_at, weigh
from easyfirst.summaries import histograms

Swept = tuple[NDArray[np.float64], Statistics]


def _sweep(
    residents: Sequence[Resident], changes: Sequence[Change], problem: Problem
) -> list[Swept]:
    weightings = [change.now for change in changes]
    stack = _Stack.of(residents, weightings, problem)
    if stack is None or len({change.before is None for change in changes}) > 1:
        return [steps.sweep(*each, problem) for each in zip(residents, changes, strict=True)]
    frame, k = problem.frame, len(residents)
    coef = np.array(weightings[0].coef)
    residual, v, rhs = np.empty_like(stack.y), np.empty_like(stack.y), np.zeros((k, coef.size))
    for rows in passes.row_slices(*stack.X.shape[1:]):
        block = stack.X[:, rows]
        r = residual[:, rows] = stack.y[:, rows] - _times(block, frame, coef)
        w = v[:, rows] = stack.weights(weightings, problem, r, rows)
        rhs += _transposed_times(block, frame, w * r)
    squares = np.matmul(v[:, None, :], np.square(residual)[:, :, None]).ravel().tolist()
    weight, selected = v.sum(axis=1).tolist(), np.count_nonzero(v >= 0.5, axis=1).tolist()
    changed = stack.changed(residents, changes, problem, v)
    signed = problem.loss.signed_root(stack.y, residual)
    counts = histograms(signed, problem.anchor).reshape(k, 1, 2, -1)
    for i, (resident, now) in enumerate(zip(residents, weightings, strict=True)):
        resident.keep("residual", now.coef, residual[i])
        resident.keep("weights", now, v[i])
    total = float(stack.y.shape[1])
    return [
        (
            counts[i],
            Statistics(
                NO_MATRIX, rhs[i], squares[i], 0.0, weight[i], float(selected[i]), changed[i], total
            ),
        )
        for i in range(k)
    ]


def _influence(
    residents: Sequence[Resident], messages: Sequence[tuple[Weighting, float]], problem: Problem
) -> list[Vector]:
    weightings = [weighting for weighting, _ in messages]
    stack = _Stack.of(residents, weightings, problem)
    if stack is None:
        return [steps.influence(*each, problem) for each in zip(residents, messages, strict=True)]
    coef = weightings[0].coef
    assert coef is not None
    residual = np.stack([residual_at(resident, coef, problem) for resident in residents])
    v = stack.weights(weightings, problem, residual, slice(None))
    for i, (resident, weighting) in enumerate(zip(residents, weightings, strict=True)):
        resident.keep("weights", weighting, v[i])
    terms = steps.influence_terms(v, residual, messages[0][1])
    return list(np.stack([term.sum(axis=1) for term in terms], axis=1))


def _sweep_suits(
    residents: Sequence[Resident], changes: Sequence[Change], problem: Problem
) -> bool:
    return _Stack.of(residents, [change.now for change in changes], problem) is not None


def _influence_suits(
    residents: Sequence[Resident], messages: Sequence[tuple[Weighting, float]], problem: Problem
) -> bool:
    return _Stack.of(residents, [weighting for weighting, _ in messages], problem) is not None


sweep = GroupStep(steps.sweep, _sweep, _sweep_suits)
influence = GroupStep(steps.influence, _influence, _influence_suits)


@dataclass(frozen=True, eq=False)
class _Stack:
    """The rows of k batches of n rows each, as views where they lie."""

    X: NDArray[np.float64]  # (k, n, p)
    y: Matrix  # (k, n)

    @classmethod
    def of(
        cls, residents: Sequence[Resident], weightings: Sequence[Weighting], problem: Problem
    ) -> _Stack | None:
        """Return the stack of these batches; None if they do not form one, or judge differently."""
        first = weightings[0]
        alike = all(
            weighting.coef is not None
            and weighting.coef == first.coef
            and weighting.width == first.width
            and weighting.whitener is None
            and not weighting.keeps_every_row
            for weighting in weightings
        )
        # Shifted columns would need a copy of all rows.
        plain = problem.far_rule is None and problem.frame.shift is None
        soft = plain and not problem.regularizer.is_all_or_nothing
        batches = [resident.batch for resident in residents]
        if len(batches) < 2 or not (alike and soft and _lie_end_to_end(batches)):
            return None
        n, p = batches[0].X.shape
        size = batches[0].X.itemsize
        strides = (n * p * size, p * size, size)
        X = as_strided(batches[0].X, (len(batches), n, p), strides, writeable=False)
        return cls(X, np.stack([batch.y for batch in batches]))

    def weights(
        self, weightings: Sequence[Weighting], problem: Problem, residual: Matrix, rows: slice
    ) -> Matrix:
        """Return the weights of some rows of all batches, each by its own batch's thresholds."""
        rule = problem.regularizer.with_width(weightings[0].width)
        levels = np.array([weighting.thresholds[0] for weighting in weightings])
        thresholds = np.where(residual < 0, levels[:, :1], levels[:, 1:])
        weights = rule.weights(problem.loss.at_residual(self.y[:, rows], residual), thresholds)
        weights[weights < NEGLIGIBLE] = 0.0
        return weights

    def changed(
        self,
        residents: Sequence[Resident],
        changes: Sequence[Change],
        problem: Problem,
        v: Matrix,
    ) -> list[float]:
        """Return how much of each batch's weight moved."""
        earlier = [change.before for change in changes if change.before is not None]
        if not earlier:
            return [float(self.y.shape[1])] * len(changes)
        if all(before.keeps_every_row for before in earlier):
            old: Any = 1.0
        else:
            pairs = zip(residents, earlier, strict=True)
            old = np.stack([weigh(resident, before, problem) for resident, before in pairs])
        found: list[float] = np.abs(v - old).sum(axis=1).tolist()
        return found


def _lie_end_to_end(batches: Sequence[Batch]) -> bool:
    """Return whether the batches are equally long dense blocks, each where the last one ends."""
    first = batches[0].X
    if not isinstance(first, np.ndarray) or first.dtype != np.float64 or first.shape[0] == 0:
        return False
    begin, length = first.__array_interface__["data"][0], first.nbytes
    return all(
        isinstance(batch.X, np.ndarray)
        and batch.sample_weight is None
        and batch.X.flags.c_contiguous
        and batch.X.dtype == first.dtype
        and batch.X.shape == first.shape
        and batch.X.__array_interface__["data"][0] == begin + i * length
        for i, batch in enumerate(batches)
    )


def _times(block: Any, frame: Frame, coef: Vector) -> Matrix:
    """Return `passes.times` of every batch."""
    if not frame.fit_intercept:
        return np.asarray(np.matmul(block, coef))
    return np.asarray(np.matmul(block, coef[:-1]) + coef[-1])


def _transposed_times(block: Any, frame: Frame, values: Matrix) -> Matrix:
    """Return `passes.transposed_times` of every batch."""
    product = np.empty((len(values), block.shape[2] + frame.fit_intercept))
    product[:, : block.shape[2]] = np.matmul(block.transpose(0, 2, 1), values[:, :, None])[:, :, 0]
    if frame.fit_intercept:
        product[:, -1] = values.sum(axis=1)
    return product
