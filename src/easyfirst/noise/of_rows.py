"""The noise around the predictions of any model, read off single rows.

The size of the noise may follow the prediction. Besides clean rows and corrupted ones that lie
anywhere, a value may belong to another row, as where values were swapped or shuffled. Such values
follow the distribution of y whatever the model predicts; around a flexible model they would pass
for heavy tails of the noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from easyfirst.calibration import PRIOR_ROWS, ROUNDING
from easyfirst.contracts import Vector
from easyfirst.noise.fitting import PRICE, WIDE, FittedNoise, Kind, fit_noise
from easyfirst.noise.model import LEAST, NoiseModel, t_weight
from easyfirst.noise.row_scale import ScaleRule, fit_scale_rule
from easyfirst.summaries import LossSummary, histogram

ROWS_FOR_SCALES = 100  # from which on the noise may be uneven,
ROWS_FOR_STRAYS = 200  # and values of other rows are looked for
SCALINGS = 2  # of the rows' scales
BINS = 40  # of the distribution of y, within
RANGE = (0.01, 0.99)  # these quantiles
FIRST_GUESS = 0.3  # share of values of other rows
FIRST_STEPS, MORE_STEPS = 5, 10
SHAPES = (Kind(False, False, None), Kind(True, True, None))  # of the clean part beside strays
CLEARLY = 0.01  # log-likelihood per row that is worth the assumption of strays
MINORITY = 0.5  # clean rows that are fewer would be strays of the others
SHARE_STEPS = 30
MOST_ODDS = 1e100  # that a row is corrupted


@dataclass(frozen=True, eq=False)
class RowNoise:
    """How clean and corrupted values lie around a prediction.

    `noise` is in units of each row's scale, which `scale_rule` gives from the prediction. A share
    `strayed` of the values belongs to other rows; `levels` is the density of y between `edges`.
    """

    noise: NoiseModel
    scale_rule: ScaleRule
    anchor: float
    strayed: float = 0.0
    edges: Vector | None = None
    levels: Vector | None = None

    @property
    def clean_share(self) -> float:
        """The share of clean rows."""
        return (1.0 - self.strayed) * self.noise.share

    @property
    def finds_nothing(self) -> bool:
        """Whether the noise explains all rows but for fractions of one."""
        return (1.0 - self.clean_share) * self.noise.total < 1.0

    def scale(self, prediction: Vector) -> Vector:
        """Return the size of each row's noise relative to a typical one's."""
        return self.scale_rule.of(prediction[:, None])

    def odds(self, prediction: Vector, y: Vector) -> Vector:
        """Return how much more likely each row is corrupted than clean."""
        scale = self.scale(prediction)
        z = (y - prediction) / scale
        clean = (1.0 - self.strayed) * self.noise.clean_density(z) / scale
        corrupted = (1.0 - self.strayed) * self.noise.corrupted_density(z) / scale
        odds = (corrupted + self.strayed * self._anywhere(y)) / np.maximum(clean, LEAST)
        return np.minimum(odds, MOST_ODDS)

    def density(self, prediction: Vector, y: Vector) -> Vector:
        """Return the density of y given the prediction."""
        scale = self.scale(prediction)
        own = _density(self.noise, (y - prediction) / scale) / scale
        return np.asarray((1.0 - self.strayed) * own + self.strayed * self._anywhere(y))

    def pull(self, prediction: Vector, y: Vector) -> Vector:
        """Return how much a clean row counts: less in the tails of heavy-tailed noise."""
        noise, z = self.noise, (y - prediction) / self.scale(prediction)
        side = np.where(z < noise.center, noise.below, noise.above)
        return t_weight(np.square((z - noise.center) / side), noise.dof)

    def _anywhere(self, y: Vector) -> Vector | float:
        if self.edges is None or self.levels is None:
            return 0.0
        return np.asarray(self.levels[np.searchsorted(self.edges, y, side="right")])


def read_noise(y: Vector, prediction: Vector, weight: Vector, anchor: float) -> RowNoise:
    """Return the noise that the rows ask for, each counted by its weight."""
    found = _without_strays(y, prediction, weight, anchor)
    if np.count_nonzero(weight) < ROWS_FOR_STRAYS:
        return found
    edges, levels = _distribution(y, weight)
    start = replace(found, strayed=FIRST_GUESS, edges=edges, levels=levels)
    tried = [
        (kind, _with_strays(start, kind, FIRST_STEPS, y, prediction, weight)) for kind in SHAPES
    ]
    kind, other = max(tried, key=lambda pair: _worth(pair[1], pair[0], y, prediction, weight))
    other = _with_strays(other, kind, MORE_STEPS, y, prediction, weight)
    gain = _worth(other, kind, y, prediction, weight) - _worth(found, None, y, prediction, weight)
    is_better = gain > CLEARLY * float(weight.sum()) and other.clean_share > MINORITY
    return other if is_better else found


def shares_of_batches(
    odds: Vector, weight: Vector, batch: NDArray[np.intp], overall: float
) -> Vector:
    """Return the clean share of every batch, drawn towards the overall one by a few rows' worth.

    `odds` hold at the overall share, `batch` is the number of each row's batch.
    """
    relative = odds * (overall / max(1.0 - overall, LEAST))
    totals = np.bincount(batch, weight)
    own = np.full(totals.size, overall)
    for _ in range(SHARE_STEPS):
        chance = 1.0 / (1.0 + relative * ((1.0 - own) / own)[batch])
        own = (np.bincount(batch, weight * chance) + PRIOR_ROWS * overall) / (totals + PRIOR_ROWS)
        own = np.clip(own, 1e-9, 1.0 - 1e-9)
    return own


def _without_strays(y: Vector, prediction: Vector, weight: Vector, anchor: float) -> RowNoise:
    residual = y - prediction
    best = _fit(residual, weight, anchor)
    worth, chosen = best.worth, ScaleRule.even()
    counted: Vector | None = None
    for _ in range(SCALINGS if np.count_nonzero(weight) >= ROWS_FOR_SCALES else 0):
        rule = _rule(prediction, residual, counted)
        if rule.is_even:
            break
        scale = rule.of(prediction[:, None])
        found = _fit(residual / scale, weight, anchor)
        # A density in units of the scale is one over the scale in those of y.
        price = (0.5 * np.log(weight.sum()) + PRICE) * rule.n_parameters
        value = found.worth - float(weight @ np.log(scale)) - price
        if value > worth:
            best, worth, chosen = found, value, rule
        counted = weight * found.model.posterior(residual / scale)
    return RowNoise(best.model, chosen, anchor)


def _with_strays(
    start: RowNoise, kind: Kind, steps: int, y: Vector, prediction: Vector, weight: Vector
) -> RowNoise:
    """Return the mixture with values of other rows, by expectation maximisation."""
    residual, at = y - prediction, start
    if steps == FIRST_STEPS:
        narrow = 0.5 * at.noise.scale
        noise = replace(at.noise, below=narrow, above=narrow, center=0.0, dof=np.inf)
        at = replace(at, noise=noise)
    for step in range(steps):
        own = (1.0 - at.strayed) * _density(at.noise, residual / at.scale(prediction))
        others = at.strayed * at._anywhere(y) * at.scale(prediction)
        stray = others / np.maximum(own + others, LEAST)
        kept = weight * (1.0 - stray)
        if step == 0 and steps == MORE_STEPS and not at.scale_rule.is_even:
            at = replace(at, scale_rule=_rule(prediction, residual, kept))
        found = _fit(residual / at.scale(prediction), kept, at.anchor, at.noise, kind)
        share = float(np.clip(weight @ stray / weight.sum(), 1e-6, 0.95))
        at = replace(at, noise=found.model, strayed=share)
    return replace(at, noise=replace(at.noise, total=float(weight.sum())))


def _rule(prediction: Vector, residual: Vector, weight: Vector | None) -> ScaleRule:
    return fit_scale_rule(prediction[:, None], np.ones(1), 0.0, residual, False, weight)


def _fit(
    residual: Vector,
    weight: Vector,
    anchor: float,
    near: NoiseModel | None = None,
    kind: Kind | None = None,
) -> FittedNoise:
    losses = LossSummary(histogram(residual, weight, anchor)[None, None], anchor)
    if near is None:
        scale = WIDE * float(np.sqrt(losses.loss_quantile(0.5)))
        scale = max(scale, 2.0 * ROUNDING * anchor)
        near = NoiseModel(losses.total, 1.0, 0.0, scale, scale, np.inf, (-np.inf,), (0.0,))
    return fit_noise(losses, near, kind)


def _density(noise: NoiseModel, z: Vector) -> Vector:
    return np.asarray(noise.clean_density(z) + noise.corrupted_density(z))


def _worth(at: RowNoise, kind: Kind | None, y: Vector, prediction: Vector, weight: Vector) -> float:
    """Return the log-likelihood less the price of the parameters."""
    size = float(sum(_sizes(at, kind)))
    likely = np.log(np.maximum(at.density(prediction, y), LEAST))
    return float(weight @ likely - (0.5 * np.log(weight.sum()) + PRICE) * size)


def _sizes(at: RowNoise, kind: Kind | None) -> Iterator[float]:
    yield float(at.scale_rule.n_parameters)
    yield 2.0 * float(at.noise.below != at.noise.above) + float(at.noise.dof < np.inf)
    yield 0.5 * sum(level > 0 for level in at.noise.levels) if kind is None else 1.0


def _distribution(y: Vector, weight: Vector) -> tuple[Vector, Vector]:
    """Return the density of y: edges, and levels that begin and end with zero."""
    some = y[weight > 0]
    low, high = np.quantile(some, RANGE)
    if not high > low:
        return np.array([low, np.nextafter(low, np.inf)]), np.zeros(3)
    edges = np.linspace(low, high, BINS + 1)
    counts, _ = np.histogram(y, edges, weights=weight)
    smooth = np.convolve(np.pad(counts, 1, mode="edge"), [0.25, 0.5, 0.25], mode="valid")
    return edges, np.pad(smooth / (weight.sum() * np.diff(edges)), 1)
