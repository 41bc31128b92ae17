"""How the rows of a batch get their weights: from coefficients, thresholds and a width.

Weights are never sent: any worker computes them again, and remembers the last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Batch, Block, BlockStep, Matrix, Resident, Thresholds, Vector
from easyfirst.local import screening
from easyfirst.local.design import Coordinates, Design
from easyfirst.local.far_rows import FarRule
from easyfirst.losses import Loss
from easyfirst.noise import NoiseModel, ScaleRule, influence_slope
from easyfirst.noise.counts import CountNoise
from easyfirst.regularizers import SelfPacedRegularizer

# Variance of a row's prediction, in clean variances, that its residual is excused by; more for rows
# that stand alone in some direction even among all rows.
MOST_EXCUSED = 8.0
NEGLIGIBLE = 1e-10  # a row that counts for less counts for nothing, and then costs nothing


@dataclass(frozen=True, eq=False)
class Problem:
    """What stays the same for the whole fit; sent with every step."""

    coordinates: Coordinates
    loss: Loss
    regularizer: SelfPacedRegularizer
    anchor: float = 1.0
    far_rule: FarRule | None = None
    has_trusted: bool = False  # whether some batch holds rows that are known to be right
    aside: tuple[float, ...] = ()  # values of y that stand for something else: never clean
    cell: float = 0.0  # width to which y is rounded, where that is coarse
    n_outputs: int = 1  # columns of y; with several, coefficients are those of each in turn

    def design(self, batch: Batch) -> Design:
        """Return the design matrix of a batch."""
        return Design(batch.X, self.coordinates)


@dataclass(frozen=True, eq=False)
class Whitener:
    """A root of the inverse Gram matrix of a fit, by which a row's own pull on it is known.

    `of_every_row` is the same for a fit of all rows. Once all rows of a rare category are out,
    nothing is known of it, and each of them would be excused whatever its residual: how far that
    goes depends on whether there are others that could speak against it. `ahead` is the part of the
    last step that was not taken: where the fit of the weighted rows lies from the coefficients.
    """

    root: Matrix
    of_every_row: Matrix | None = None
    ahead: Vector | None = None

    @cached_property
    def digest(self) -> bytes:
        """A key for equality: the matrix itself is too large to compare often."""
        ahead = b"" if self.ahead is None else digest_of(self.ahead)
        return digest_of(self.root) + self.digest_of_every_row + ahead

    @cached_property
    def digest_of_every_row(self) -> bytes:
        """A key for the second matrix."""
        return b"" if self.of_every_row is None else digest_of(self.of_every_row)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Whitener) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True)
class NoiseRule:
    """Weights by a noise model instead of thresholds: v is the probability of being clean.

    Residuals are judged in units of their row's own scale. `shares` are the clean shares of the
    bands. In the solve, a row whose residual exceeds `knee` pulls no more than one at the knee
    (Huber's rule): the model of clean rows need not be right for that to be safe. A precise solve
    weighs rows by their precision, too.
    """

    noise: NoiseModel
    shares: tuple[float, ...]
    knee: float = np.inf
    scale_rule: ScaleRule = field(default_factory=ScaleRule.even)
    is_precise: bool = False

    def pull(self, residual: Vector, scale: Vector | float) -> Vector:
        """Return what a clean row counts for in the solve, its scaled residual being given.

        Without precision, the knee is one and the same for all rows: the fit then is that of
        Huber, whatever the scales are.
        """
        size = self._size(residual, scale)
        pull = (
            np.ones_like(size) if self.knee == np.inf else self.knee / np.maximum(size, self.knee)
        )
        return pull / np.square(scale) if self.is_precise else pull

    def is_held(self, residual: Vector, scale: Vector | float) -> NDArray[np.bool_]:
        """Return which rows lie beyond the knee, where they pull no harder."""
        return np.asarray(self._size(residual, scale) > self.knee)

    def slope(self, v: Vector, residual: Vector, scale: Vector | float) -> Vector:
        """Return the slope of v times the pull of the scaled residual."""
        own = (~self.is_held(residual, scale)).astype(np.float64)
        fall = residual * self.noise.score(residual)
        return np.asarray(self.pull(residual, scale) * influence_slope(v, fall, own))

    def _size(self, residual: Vector, scale: Vector | float) -> Vector:
        return np.abs(residual if self.is_precise else residual * scale)


@dataclass(frozen=True)
class Weighting:
    """All that decides the weights of one batch: coefficients, thresholds, width.

    There is one (below, above) pair of thresholds, or one per band of the problem.

    With a whitener, residuals are freed of the pull that their own row had on the fit. That
    matters where rows are few: a row far out in X draws the fit to itself and then looks clean.
    """

    coef: tuple[float, ...] | None  # a tuple, so that equal weightings compare equal
    thresholds: Thresholds = ((np.inf, np.inf),)
    width: float | None = None
    whitener: Whitener | None = None
    noise_rule: NoiseRule | None = None  # takes the place of thresholds and width,
    count_noise: CountNoise | None = None  # as this does for counts and amounts

    @property
    def keeps_every_row(self) -> bool:
        """Return whether all weights are one whatever the losses."""
        has_rule = self.noise_rule is not None or self.count_noise is not None
        return self.coef is None or (not has_rule and self.single == np.inf)

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
    """Return the weights, ignoring what is remembered of them."""
    if _are_plain(weighting, problem):
        return _plain_weights(Block.of(resident), weighting, problem)
    residual = judged_residual(resident, weighting, problem)
    return rule_weights(resident, residual, weighting, problem)


def weigh_block(block: Block, weightings: Sequence[Weighting], problem: Problem) -> Vector:
    """Return the weight of each row of a block, in one operation where that is possible."""
    first = weightings[0]
    if len(weightings) == 1:
        return weigh(block.residents[0], first, problem)
    if not (are_one(weightings) and _are_plain(first, problem)):
        pairs = zip(block.residents, weightings, strict=True)
        return np.concatenate([weigh(*pair, problem) for pair in pairs])

    def afresh() -> Vector:
        weights = _plain_weights(block, first, problem)
        for resident, own in zip(block.residents, block.split(weights), strict=True):
            resident.keep("weights", first, own)
        return weights

    found: Vector = block.recall("weights", first, afresh)
    return found


@BlockStep
def weights_of(block: Block, weightings: Sequence[Weighting], problem: Problem) -> list[Vector]:
    """Return the weights of each batch."""
    return block.split(weigh_block(block, weightings, problem))


def are_one(weightings: Sequence[Weighting]) -> bool:
    """Return whether all batches are weighed alike; mostly they then share one object."""
    first = weightings[0]
    return all(each is first or each == first for each in weightings)


def _are_plain(weighting: Weighting, problem: Problem) -> bool:
    """Return whether weights are all one, or all or nothing."""
    return weighting.keeps_every_row or screening.is_all_or_nothing(weighting, problem)


def _plain_weights(block: Block, weighting: Weighting, problem: Problem) -> Vector:
    if weighting.keeps_every_row:
        weights = np.ones(block.rows.n_samples)
    else:
        weights = screening.screened_weights(block, weighting, problem)
    return with_known(block, weights, problem)


def digest_of(values: Vector) -> bytes:
    """Return a key for the equality of arrays that are too large to compare often."""
    return hashlib.blake2b(values.tobytes(), digest_size=16).digest()


def importance(batch: Batch) -> Vector:
    """Return the sample weight of each row."""
    return np.ones(batch.n_samples) if batch.sample_weight is None else batch.sample_weight


def judged_residual(resident: Resident, weighting: Weighting, problem: Problem) -> Vector:
    """Return the residuals by which rows are judged, without their own pull where that is known.

    A row of leverage h that took part with weight v in the fit is judged by the residual of the
    fit without it, r / (1 - v h), scaled back to the variance of a clean row. The more a row
    decides about the fit, the more r is that of the whole step, of which only a part was taken: a
    row that alone knows a direction would else be half-way off, and 1 / (1 - v h) times that far.
    """
    assert weighting.coef is not None
    residual = residual_at(resident, weighting.coef, problem)
    if weighting.noise_rule is not None:
        return np.asarray(residual / row_scales(resident, weighting.noise_rule))
    if weighting.whitener is None:
        return residual
    whitener, design = weighting.whitener, problem.design(resident.batch)
    pull = resident.recall(
        "leverage",
        whitener.digest,
        lambda: design.leverage(whitener.root, resident.spread),
    )
    hat = rule_weights(resident, residual, weighting, problem) * pull
    if whitener.ahead is not None:
        residual = residual - hat * design.times(whitener.ahead)
    rest = np.maximum(1.0 - hat, 1e-6)
    most = np.inf
    if whitener.of_every_row is not None:
        root = whitener.of_every_row
        alone = resident.recall(
            "leverage in every row",
            whitener.digest_of_every_row,
            lambda: design.leverage(root, resident.spread),
        )
        most = MOST_EXCUSED / np.maximum(1.0 - alone, 1e-6)
        # What a row that decides about a direction leaves to the others is known this well only.
        rest = np.maximum(rest, np.minimum(hat, 1.0) / most)
    excuse = np.minimum(pull / rest, most)
    return np.asarray(residual / rest / np.sqrt(1.0 + excuse))


def rule_weights(
    resident: Resident, residual: Vector, weighting: Weighting, problem: Problem
) -> Vector:
    """Return the weights of all rows for their residuals."""
    return weigher(Block.of(resident), [weighting], problem)(residual, slice(None))


def are_alike(weightings: Sequence[Weighting], problem: Problem) -> bool:
    """Return whether the rows of several batches differ in nothing but their thresholds."""
    first = weightings[0]
    soft = problem.regularizer.separable and not problem.regularizer.is_all_or_nothing
    return len(weightings) == 1 or (
        soft
        and all(
            weighting.coef == first.coef
            and weighting.width == first.width
            and weighting.keeps_every_row == first.keeps_every_row
            and weighting.whitener is None
            and weighting.noise_rule is None
            and weighting.count_noise is None
            for weighting in weightings
        )
    )


def weigher(
    block: Block, weightings: Sequence[Weighting], problem: Problem
) -> Callable[[Vector, slice], Vector]:
    """Return the function that weighs some rows by their residuals.

    It is called for one piece of the rows after the other, so whatever they share is settled here.
    Several weightings must be alike.
    """
    judge, known = _judge(block, weightings, problem), _known(block, problem)
    return lambda residual, rows: known(judge(residual, rows), rows)


def _judge(
    block: Block, weightings: Sequence[Weighting], problem: Problem
) -> Callable[[Vector, slice], Vector]:
    """Return the function that weighs rows of which nothing but the residual is known."""
    weighting, resident, y = weightings[0], block.residents[0], block.rows.y
    if weighting.keeps_every_row:
        return lambda residual, rows: np.ones(residual.size)
    if weighting.noise_rule is not None:
        return _probabilities(resident, weighting.noise_rule, problem)
    if weighting.count_noise is not None:
        noise = weighting.count_noise
        return lambda residual, rows: noise.posterior(y[rows], y[rows] - residual)
    if screening.is_all_or_nothing(weighting, problem):
        return screening.settled_weights(block, weighting, problem)
    rule = problem.regularizer.with_width(weighting.width)
    thresholds = _thresholds(block, weightings, problem)

    def weights_of(residual: Vector, rows: slice) -> Vector:
        losses = problem.loss.at_residual(y[rows], residual)
        weights = rule.weights(losses, thresholds(residual, rows))
        weights[weights < NEGLIGIBLE] = 0.0
        return weights

    return weights_of


def _probabilities(
    resident: Resident, rule: NoiseRule, problem: Problem
) -> Callable[[Vector, slice], Vector]:
    """Return the function from residuals of some rows to their probability of being clean."""
    if problem.far_rule is None or len(rule.shares) == 1:
        return lambda residual, rows: rule.noise.posterior(residual, rule.shares[0])
    shares, bands = np.array(rule.shares), bands_of(resident, problem.far_rule)
    return lambda residual, rows: rule.noise.posterior(residual, shares[bands[rows]])


def row_weights(resident: Resident, weighting: Weighting, problem: Problem) -> Vector:
    """Return what each row counts for in the solve: sample weight, v, and its rule's pull."""
    weights = importance(resident.batch) * weigh(resident, weighting, problem)
    if weighting.noise_rule is None:
        return weights
    scaled = judged_residual(resident, weighting, problem)
    return weights * weighting.noise_rule.pull(scaled, row_scales(resident, weighting.noise_rule))


def row_scales(resident: Resident, rule: NoiseRule) -> Vector | float:
    """Return the noise scale of each row, relative to a typical one."""
    scales = rule.scale_rule
    if scales.is_even:
        return 1.0
    found: Vector = resident.recall("scales", scales.digest, lambda: scales.of(resident.batch.X))
    return found


def with_known(block: Block, weights: Vector, problem: Problem) -> Vector:
    """Return weights, zero where y is set aside and one for trusted rows; in place."""
    return _known(block, problem)(weights, slice(None))


def _known(block: Block, problem: Problem) -> Callable[[Vector, slice], Vector]:
    aside, trusted = rows_aside(block, problem), block.rows.trusted

    def settle(weights: Vector, rows: slice) -> Vector:
        if aside is not None:
            weights[aside[rows]] = 0.0
        if trusted is not None:
            weights[trusted[rows]] = 1.0
        return weights

    return settle


def rows_aside(block: Block, problem: Problem) -> NDArray[np.bool_] | None:
    """Return which rows have a value of y that is set aside; None if no value is."""
    if not problem.aside:
        return None

    def of(resident: Resident) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = resident.recall(
            "aside", problem.aside, lambda: np.isin(resident.batch.y, problem.aside)
        )
        return found

    return np.concatenate([of(resident) for resident in block.residents])


def residual_at(resident: Resident, coef: tuple[float, ...], problem: Problem) -> Vector:
    """Return the residual of each row at these coefficients; of several targets, its length."""

    def compute() -> Vector:
        batch, at = resident.batch, np.array(coef)
        design = problem.design(batch)
        if problem.n_outputs == 1:
            return batch.y - design.times(at)
        pairs = zip(batch.y.T, at.reshape(problem.n_outputs, -1), strict=True)
        squares = [np.square(y - design.times(own)) for y, own in pairs]
        return np.asarray(np.sqrt(np.sum(squares, axis=0)))

    residual: Vector = resident.recall("residual", coef, compute)
    return residual


def bands_of(resident: Resident, rule: FarRule) -> NDArray[np.intp]:
    """Return the band of each row."""
    found: NDArray[np.intp] = resident.recall(
        "bands", rule.digest, lambda: rule.bands(resident.batch.X)
    )
    return found


def _thresholds(
    block: Block, weightings: Sequence[Weighting], problem: Problem
) -> Callable[[Vector, slice], float | Vector]:
    """Return the function from residuals of some rows to their thresholds."""
    single = weightings[0].single
    if single is not None and all(weighting.single == single for weighting in weightings):
        return lambda residual, rows: single
    bounds = np.array([weighting.thresholds for weighting in weightings])
    if problem.far_rule is None or bounds.shape[1] == 1:
        if len(bounds) == 1:
            low, high = bounds[0, 0]
            return lambda residual, rows: np.where(residual < 0, low, high)
        below, above = np.repeat(bounds[:, 0].T, np.diff(block.bounds), axis=1)
        return lambda residual, rows: np.where(residual < 0, below[rows], above[rows])
    batch_of, bands = block.batch_of, block_bands(block, problem.far_rule)
    return lambda residual, rows: bounds[
        batch_of[rows], bands[rows], (residual >= 0).astype(np.intp)
    ]


def block_bands(block: Block, rule: FarRule) -> NDArray[np.intp]:
    """Return the band of each row of a block."""
    return np.concatenate([bands_of(resident, rule) for resident in block.residents])


def pacing_values(
    block: Block, weightings: Sequence[Weighting], v: Vector, problem: Problem
) -> Vector | None:
    """Return f(v) of each row, its part in the self-paced term; None where no pace decides."""
    first = weightings[0]
    if not are_one(weightings):
        each = zip(block.residents, weightings, block.split(v), strict=True)
        parts = [pacing_values(Block.of(resident), [own], w, problem) for resident, own, w in each]
        lengths = np.diff(block.bounds)
        return np.concatenate(
            [np.zeros(n) if part is None else part for part, n in zip(parts, lengths, strict=True)]
        )
    if first.keeps_every_row or first.noise_rule is not None or first.count_noise is not None:
        return None
    rule = problem.regularizer.with_width(first.width)
    if first.single is not None:
        return rule.value(v, first.single)
    thresholds = _thresholds(block, weightings, problem)
    residuals = [judged_residual(resident, first, problem) for resident in block.residents]
    return rule.value(v, thresholds(np.concatenate(residuals), slice(None)))
