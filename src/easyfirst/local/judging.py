"""Steps that tell about single rows, for those who want to see them after a fit."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Resident, Vector
from easyfirst.local import weighing
from easyfirst.local.design import Coordinates, Design
from easyfirst.local.weighing import Problem, Weighting
from easyfirst.transforms import IDENTITY, TargetTransform


@dataclass(frozen=True, eq=False)
class JudgedRows:
    """The rows of one batch, in order: the user's names, if any, and what the fit thinks of them.

    `residual` is y minus `prediction`; `signed` is what the row is judged by: the same for the
    squared loss, and the root of its loss with that sign for any other. Where the target was
    transformed, `signed` belongs to the transformed one. `scale` is the size of each row's noise
    relative to a typical one's.
    """

    row_ids: NDArray[Any] | None
    weights: Vector
    residual: Vector
    prediction: Vector
    signed: Vector
    scale: Vector

    def some(self, rows: NDArray[np.intp]) -> JudgedRows:
        """Return some of the rows."""
        parts: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        chosen: dict[str, Any] = {k: v if v is None else v[rows] for k, v in parts.items()}
        return JudgedRows(**chosen)


@dataclass(frozen=True, eq=False)
class Verdict:
    """Everything by which a finished fit judges rows: sent to the workers with `judge`."""

    problem: Problem
    coef: Vector
    intercept: float
    transform: TargetTransform = IDENTITY


def judge(resident: Resident, weighting: Weighting, verdict: Verdict) -> JudgedRows:
    """Return weight, residual and prediction of every row."""
    y, transform = resident.batch.y, verdict.transform
    if not transform.is_identity:
        resident = Resident(replace(resident.batch, y=transform.of(y)), spread=resident.spread)
    batch = resident.batch
    design = Design(batch.X, Coordinates(fit_intercept=True))
    linear = design.times(np.append(verdict.coef, verdict.intercept))
    loss = verdict.problem.loss
    prediction = transform.back(loss.mean(linear))
    if weighting.count_noise is not None:
        signed = weighting.count_noise.residual(batch.y, linear)
    else:
        signed = loss.signed_root(batch.y, batch.y - linear)
    weights = weighing.weigh(resident, weighting, verdict.problem)
    rule, scale = weighting.noise_rule, np.ones(batch.n_samples)
    if rule is not None:
        scale *= weighing.row_scales(resident, rule)
    return JudgedRows(batch.row_ids, weights, y - prediction, prediction, signed, scale)


@dataclass(frozen=True, eq=False)
class ShownRows:
    """Some rows of a batch of `n_rows`: their places, X, and what the fit thinks of them.

    `above` is the y of the row before each.
    """

    n_rows: int
    places: NDArray[np.intp]
    X: Any
    judged: JudgedRows
    above: Vector


def judge_some(resident: Resident, message: tuple[Weighting, int], verdict: Verdict) -> ShownRows:
    """Return every so many-th row; `message` has (weighting, how many)."""
    weighting, step = message
    batch, judged = resident.batch, judge(resident, weighting, verdict)
    places = np.arange(0, batch.n_samples, step)
    given = judged.prediction + judged.residual
    above = np.append(np.nan, given[:-1])[places]
    return ShownRows(batch.n_samples, places, batch.X[places], judged.some(places), above)


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
