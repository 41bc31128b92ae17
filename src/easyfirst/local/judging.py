"""Steps that tell about single rows, for those who want to see them after a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Resident, Vector
from easyfirst.local import passes, weighing
from easyfirst.local.passes import Frame
from easyfirst.local.weighing import Problem, Weighting


@dataclass(frozen=True, eq=False)
class JudgedRows:
    """The rows of one batch, in order: the user's names, if any, and what the fit thinks of them.

    `residual` is y minus `prediction`.
    """

    row_ids: NDArray[Any] | None
    weights: Vector
    residual: Vector
    prediction: Vector


@dataclass(frozen=True, eq=False)
class Verdict:
    """Everything by which a finished fit judges rows: sent to the workers with `judge`."""

    problem: Problem
    coef: Vector
    intercept: float


def judge(resident: Resident, weighting: Weighting, verdict: Verdict) -> JudgedRows:
    """Return weight, residual and prediction of every row."""
    batch = resident.batch
    everything = Frame(fit_intercept=True)
    prediction = passes.predict(batch, everything, np.append(verdict.coef, verdict.intercept))
    weights = weighing.weigh(resident, weighting, verdict.problem)
    return JudgedRows(batch.row_ids, weights, batch.y - prediction, prediction)


@dataclass(frozen=True)
class WeightTotals:
    """The sum of a batch's sample weights, how many are positive, and whether all are whole."""

    total: float
    positive: int
    whole: bool

    @classmethod
    def of(cls, sample_weight: Vector) -> WeightTotals:
        """Add up sample weights."""
        whole = bool(np.all(sample_weight == np.rint(sample_weight)))
        return cls(float(sample_weight.sum()), int(np.count_nonzero(sample_weight)), whole)


def total_weights(resident: Resident, message: None, broadcast: None) -> WeightTotals:
    """Add up the sample weights of a batch."""
    del message, broadcast
    batch = resident.batch
    given = batch.sample_weight
    return WeightTotals.of(np.ones(batch.n_samples) if given is None else given)
