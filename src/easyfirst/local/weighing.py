"""How the rows of a batch get their weights: from coefficients, thresholds and a width.

Weights are never sent: any worker computes them again, and remembers the last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Batch, Matrix, Resident, Thresholds, Vector
from easyfirst.local import passes, screening
from easyfirst.local.passes import Frame
from easyfirst.local.strata import FarRule
from easyfirst.losses import Loss
from easyfirst.regularizers import SelfPacedRegularizer

NEGLIGIBLE = 1e-10  # a row that counts for less counts for nothing, and then costs nothing


@dataclass(frozen=True, eq=False)
class Problem:
    """What stays the same for the whole fit; sent with every step."""

    frame: Frame
    loss: Loss
    regularizer: SelfPacedRegularizer
    anchor: float = 1.0
    far_rule: FarRule | None = None


@dataclass(frozen=True, eq=False)
class Whitener:
    """A root of the inverse Gram matrix of a fit, by which a row's own pull on it is known."""

    root: Matrix

    @cached_property
    def digest(self) -> bytes:
        """A key for equality: the matrix itself is too large to compare often."""
        return digest_of(self.root)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Whitener) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True)
class Weighting:
    """All that decides the weights of one batch: coefficients, thresholds, width.

    There is one (below, above) pair of thresholds, or one per stratum of the problem.

    With a whitener, residuals are freed of the pull that their own row had on the fit. That
    matters where rows are few: a row far out in X draws the fit to itself and then looks clean.
    """

    coef: tuple[float, ...] | None  # a tuple, so that equal weightings compare equal
    thresholds: Thresholds = ((np.inf, np.inf),)
    width: float | None = None
    whitener: Whitener | None = None

    @property
    def keeps_every_row(self) -> bool:
        """Return whether all weights are one whatever the losses."""
        return self.coef is None or self.single == np.inf

    @property
    def single(self) -> float | None:
        """Return the threshold if there is just one."""
        first = self.thresholds[0][0]
        same = all(below == first == above for below, above in self.thresholds)
        return first if same else None


def weigh(resident: Resident, weighting: Weighting, problem: Problem) -> Vector:
    """Return the self-paced weight of each row, the paper's v."""
    weights: Vector = resident.recall(
        "weights", weighting, lambda: weights_afresh(resident, weighting, problem)
    )
    return weights


def weights_afresh(resident: Resident, weighting: Weighting, problem: Problem) -> Vector:
    """Return the weights without a look at what is remembered of them."""
    if weighting.coef is None or weighting.keeps_every_row:
        return np.ones(resident.batch.n_samples)
    if screening.is_all_or_nothing(weighting, problem):
        return screening.screened_weights(resident, weighting, problem)
    residual = judged_residual(resident, weighting, problem)
    return rule_weights(resident, residual, weighting, problem)


def digest_of(values: Vector) -> bytes:
    """Return a key for the equality of arrays that are too large to compare often."""
    return hashlib.blake2b(values.tobytes(), digest_size=16).digest()


def importance(batch: Batch) -> Vector:
    """Return the sample weight of each row."""
    return np.ones(batch.n_samples) if batch.sample_weight is None else batch.sample_weight


def judged_residual(resident: Resident, weighting: Weighting, problem: Problem) -> Vector:
    """Return the residuals by which rows are judged, without their own pull where that is known.

    A row of leverage h that took part with weight v in the fit is judged by the residual of the
    fit without it, r / (1 - v h), scaled back to the variance of a clean row.
    """
    assert weighting.coef is not None
    residual = residual_at(resident, weighting.coef, problem)
    if weighting.whitener is None:
        return residual
    whitener = weighting.whitener
    pull = resident.recall(
        "leverage",
        whitener.digest,
        lambda: passes.leverage(resident.batch, problem.frame, whitener.root, resident.spread),
    )
    v = rule_weights(resident, residual, weighting, problem)
    rest = np.maximum(1.0 - v * pull, 1e-6)
    return np.asarray(residual / rest / np.sqrt(1.0 + pull / rest))


def rule_weights(
    resident: Resident, residual: Vector, weighting: Weighting, problem: Problem
) -> Vector:
    """Return the weights of all rows for their residuals."""
    return weigher(resident, weighting, problem)(residual, slice(None))


def weigher(
    resident: Resident, weighting: Weighting, problem: Problem
) -> Callable[[Vector, slice], Vector]:
    """Return the function that weighs some rows by their residuals.

    It is called for one block of rows after the other, so whatever they share is settled here.
    """
    if screening.is_all_or_nothing(weighting, problem):
        return screening.settled_weights(resident, weighting, problem)
    rule = problem.regularizer.with_width(weighting.width)
    thresholds = _thresholds(resident, weighting, problem)
    at_residual, y = problem.loss.at_residual, resident.batch.y

    def weights_of(residual: Vector, rows: slice) -> Vector:
        losses = at_residual(y[rows], residual)
        weights = rule.weights(losses, thresholds(residual, rows))
        weights[weights < NEGLIGIBLE] = 0.0
        return weights

    return weights_of


def residual_at(resident: Resident, coef: tuple[float, ...], problem: Problem) -> Vector:
    """Return the residual of each row at these coefficients."""

    def compute() -> Vector:
        batch = resident.batch
        return batch.y - passes.predict(batch, problem.frame, np.array(coef))

    residual: Vector = resident.recall("residual", coef, compute)
    return residual


def strata_of(resident: Resident, rule: FarRule) -> NDArray[np.intp]:
    """Return the stratum of each row."""
    found: NDArray[np.intp] = resident.recall(
        "strata", rule.digest, lambda: rule.strata(resident.batch.X)
    )
    return found


def _thresholds(
    resident: Resident, weighting: Weighting, problem: Problem
) -> Callable[[Vector, slice], float | Vector]:
    """Return the function from residuals of some rows to their thresholds."""
    single = weighting.single
    if single is not None:
        return lambda residual, rows: single
    if problem.far_rule is None or len(weighting.thresholds) == 1:
        below, above = weighting.thresholds[0]
        return lambda residual, rows: np.where(residual < 0, below, above)
    levels = np.array(weighting.thresholds)
    strata = strata_of(resident, problem.far_rule)
    return lambda residual, rows: levels[strata[rows], (residual >= 0).astype(np.intp)]


def pacing(resident: Resident, weighting: Weighting, problem: Problem) -> float:
    """Return the sum of s f(v), the self-paced part of the objective."""
    if weighting.keeps_every_row:
        return 0.0
    v = weigh(resident, weighting, problem)
    rule = problem.regularizer.with_width(weighting.width)
    if weighting.single is not None:
        values = rule.value(v, weighting.single)
    else:
        residual = judged_residual(resident, weighting, problem)
        thresholds = _thresholds(resident, weighting, problem)
        values = rule.value(v, thresholds(residual, slice(None)))
    s = resident.batch.sample_weight
    return float(values.sum() if s is None else s @ values)
