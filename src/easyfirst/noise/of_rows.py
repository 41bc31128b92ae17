"""The noise around the predictions of any model, read off single rows.

The size of the noise may follow the prediction, and what another model says of it. Beside a jump,
a clean value may be what is predicted of a nearby row. Besides clean
rows and corrupted ones that lie anywhere, a value may belong to another row, as where values were
swapped or shuffled. Such values follow the distribution of y whatever the model predicts; around a
flexible model they would pass for heavy tails of the noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.calibration import PRIOR_ROWS, ROUNDING
from easyfirst.contracts import Matrix, Vector
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
CLEARLY = 0.01  # log-likelihood per row that is worth the assumption of strays,
MOST_KNOWN = 0.5  # unless so many of the rows that it calls wrong look wrong without it,
FOR_EACH = 0.2  # and per row that looks wrong by it alone: noise of another shape gains less
WHERE_FAR_OFF = 0.1  # of the rows, of which strays are
GATHERED, SURELY = 1.5, 3.0  # times as many as of all, and so many standard errors more
MINORITY = 0.4  # clean rows that are fewer would be strays of the others
SHARE_STEPS = 30
CLEAR_JUMP = 3.0  # noise scales by which nearby predictions differ
ROWS_FOR_JUMPS = 5  # beside one
ROUGHLY = 2.0  # noise scales around what is predicted of nearby rows
MOST_ACROSS = 0.5  # of the clean rows beside jumps
MOST_ODDS = 1e100  # that a row is corrupted


@dataclass(frozen=True, eq=False)
class Told:
    """What models say of rows that they have not seen: y, and the logarithm of how far it is off.

    The latter may be of any size: what counts is how it differs from row to row. `nearby` has what
    is said of rows that are nearly the same, in columns.
    """

    value: Vector
    size: Vector
    nearby: Matrix

    @classmethod
    def even(cls, value: Vector, nearby: Matrix | None = None) -> Told:
        """Return predictions that are all off by as much."""
        nothing = np.empty((value.size, 0))
        return cls(value, np.zeros(value.size), nothing if nearby is None else nearby)

    @classmethod
    def joined(cls, *parts: tuple[NDArray[np.intp], Told]) -> Told:
        """Return what is said of all rows from places and what is said of the rows there."""
        order = np.argsort(np.concatenate([places for places, _ in parts]))
        return cls(
            np.concatenate([told.value for _, told in parts])[order],
            np.concatenate([told.size for _, told in parts])[order],
            np.concatenate([told.nearby for _, told in parts])[order],
        )

    def some(self, places: NDArray[Any]) -> Told:
        """Return what is said of some of the rows."""
        return Told(self.value[places], self.size[places], self.nearby[places])

    @property
    def columns(self) -> Matrix:
        """Value and size, as columns."""
        return np.column_stack([self.value, self.size])


@dataclass(frozen=True, eq=False)
class Strays:
    """A density of values that have nothing to do with the scale of a row: steps between edges.

    Of y itself, or, with `around`, of its distance from the prediction.
    """

    edges: Vector
    levels: Vector
    around: bool = False

    def density(self, told: Told, y: Vector) -> Vector:
        """Return the density of each value."""
        at = y - told.value if self.around else y
        return np.asarray(self.levels[np.searchsorted(self.edges, at, side="right")])


@dataclass(frozen=True, eq=False)
class RowNoise:
    """How clean and corrupted values lie around a prediction.

    `noise` is in units of each row's scale, which `scale_rule` gives from what is told. Where
    nearby rows are predicted differently by more than noise, shares `across` of the clean values
    are as is predicted of these. A share `strayed` of the values lies as `strays` say.
    """

    noise: NoiseModel
    scale_rule: ScaleRule
    anchor: float
    strayed: float = 0.0
    strays: Strays | None = None
    across: Vector | None = None

    @property
    def clean_share(self) -> float:
        """The share of clean rows."""
        return (1.0 - self.strayed) * self.noise.share

    @property
    def finds_some(self) -> bool:
        """Whether corrupted rows make up more than fractions of one."""
        return (1.0 - self.clean_share) * self.noise.total >= 1.0

    def scale(self, told: Told) -> Vector:
        """Return the size of each row's noise relative to a typical one's."""
        return self.scale_rule.of(told.columns)

    def odds(self, told: Told, y: Vector) -> Vector:
        """Return how much more likely each row is corrupted than clean."""
        scale = self.scale(told)
        z = (y - told.value) / scale
        clean = (1.0 - self.strayed) * self.clean_density(told, y)
        corrupted = (1.0 - self.strayed) * self.noise.corrupted_density(z) / scale
        odds = (corrupted + self.strayed * self._anywhere(told, y)) / np.maximum(clean, LEAST)
        return np.minimum(odds, MOST_ODDS)

    def density(self, told: Told, y: Vector) -> Vector:
        """Return the density of y given the prediction."""
        scale = self.scale(told)
        corrupted = self.noise.corrupted_density((y - told.value) / scale) / scale
        own = self.clean_density(told, y) + corrupted
        return np.asarray((1.0 - self.strayed) * own + self.strayed * self._anywhere(told, y))

    def clean_density(self, told: Told, y: Vector) -> Vector:
        """Return the density of y given the prediction, if it is clean."""
        scale = self.scale(told)
        own = np.asarray(self.noise.clean_density((y - told.value) / scale) / scale)
        if self.across is None:
            return own
        here = 1.0 - np.asarray(self.is_beside_jump(told) @ self.across)
        return np.asarray(here * own + self.across_densities(told, y).sum(axis=1))

    def is_beside_jump(self, told: Told) -> NDArray[np.bool_]:
        """Return which of the rows nearby are predicted clearly differently."""
        clear = CLEAR_JUMP * self.noise.scale * self.scale(told)
        return np.asarray(np.abs(told.nearby - told.value[:, None]) > clear[:, None])

    def across_densities(self, told: Told, y: Vector) -> Matrix:
        """Return the density of clean values that are those of rows on the other side of a jump."""
        if self.across is None:
            return np.zeros(told.nearby.shape)
        scale = (ROUGHLY * self.scale(told))[:, None]
        density = self.noise.clean_density((y[:, None] - told.nearby) / scale) / scale
        return np.asarray(self.is_beside_jump(told) * self.across * density)

    def pull(self, told: Told, y: Vector) -> Vector:
        """Return how much a clean row counts: less in the tails of heavy-tailed noise."""
        noise, z = self.noise, (y - told.value) / self.scale(told)
        side = np.where(z < noise.center, noise.below, noise.above)
        pull = t_weight(np.square((z - noise.center) / side), noise.dof)
        if self.across is None:
            return pull
        across = self.across_densities(told, y).sum(axis=1)
        across /= np.maximum(self.clean_density(told, y), LEAST)
        return np.asarray(across + (1.0 - across) * pull)

    def _anywhere(self, told: Told, y: Vector) -> Vector | float:
        return 0.0 if self.strays is None else self.strays.density(told, y)


def read_noise(y: Vector, told: Told, weight: Vector, anchor: float) -> RowNoise:
    """Return the noise that the rows ask for, each counted by its weight."""
    view = _Rows(y, told, weight, anchor)
    without = view.without_strays()
    found = view.beside_jumps(max(without, key=view.worth))
    if np.count_nonzero(weight) < ROWS_FOR_STRAYS:
        return found
    strays = _distribution(y, weight)
    # Strays may be what hides that sizes differ, so they are looked for by every way of scaling.
    begun = [replace(each, strayed=FIRST_GUESS, strays=strays) for each in without]
    of_others = view.beside_jumps(max(map(view.with_strays, begun), key=view.worth))
    gain = view.worth(of_others) - view.worth(found)
    before, after = view.flagged(found), view.flagged(of_others)
    needed = 0.0 if before > MOST_KNOWN * after else CLEARLY * float(weight.sum())
    needed = max(needed, FOR_EACH * (after - before))
    is_better = gain > needed and of_others.clean_share > MINORITY
    return of_others if is_better and not view.gathers(of_others) else found


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


@dataclass(frozen=True, eq=False)
class _Rows:
    """Values, what is told of them, and how much each counts."""

    y: Vector
    told: Told
    weight: Vector
    anchor: float

    @cached_property
    def residual(self) -> Vector:
        return np.asarray(self.y - self.told.value)

    def without_strays(self) -> list[RowNoise]:
        """Return the best noise that follows the prediction, and that follows what was told of it.

        What was told may mislead, where it was learned from many corrupted rows.
        """
        even = RowNoise(self._fit(self.residual, self.weight).model, ScaleRule.even(), self.anchor)
        if np.count_nonzero(self.weight) < ROWS_FOR_SCALES:
            return [even]
        found = [max([even, *self._uneven(even, by_size=False)], key=self.worth)]
        if np.ptp(self.told.size) > 0:
            found += sorted(self._uneven(even, by_size=True), key=self.worth)[-1:]
        return found

    def _uneven(self, even: RowNoise, by_size: bool) -> list[RowNoise]:
        """Return noise of sizes that follow the prediction, and what was told of them."""
        found: list[RowNoise] = []
        counted = self.weight
        for _ in range(SCALINGS):
            rule = self._rule(counted, by_size)
            if rule.is_even:
                break
            scaled = self.residual / rule.of(self.told.columns)
            noise = self._fit(scaled, self.weight).model
            found.append(RowNoise(noise, rule, self.anchor))
            if even.finds_some:
                # Corrupted rows know nothing of scales: they lie where the even noise has them.
                strays = Strays(
                    np.array(even.noise.edges[1:]),
                    np.array(even.noise.levels) / (1.0 - even.noise.share),
                    around=True,
                )
                strayed = 1.0 - even.noise.share
                found.append(self.with_strays(replace(found[-1], strayed=strayed, strays=strays)))
            counted = self.weight * noise.posterior(scaled)
        return found

    def with_strays(self, start: RowNoise) -> RowNoise:
        """Return the mixture with strays of this density, by expectation maximisation."""
        narrow = 0.5 * start.noise.scale
        noise = replace(start.noise, below=narrow, above=narrow, center=0.0, dof=np.inf)
        start = replace(start, noise=noise)
        tried = [(kind, self._steps(start, kind, FIRST_STEPS)) for kind in SHAPES]
        kind, best = max(tried, key=lambda pair: self.worth(pair[1]))
        if not best.scale_rule.is_even:
            kept = self.weight * (1.0 - self._stray(best))
            by_size = bool(np.any(best.scale_rule.slopes))
            best = replace(best, scale_rule=self._rule(kept, by_size))
        return self._steps(best, kind, MORE_STEPS)

    def beside_jumps(self, at: RowNoise) -> RowNoise:
        """Return noise by which some rows lie on the other side of a jump, if they ask for it."""
        beside = at.is_beside_jump(self.told) * (self.weight > 0)[:, None]
        if not np.any(beside.sum(axis=0) >= ROWS_FOR_JUMPS):
            return at
        n_nearby = beside.shape[1]
        begun = replace(at, across=np.full(n_nearby, FIRST_GUESS / n_nearby))
        if at.strays is not None:
            kind = SHAPES[0 if at.noise.is_normal else 1]
        else:
            scaled = self.residual / at.scale(self.told)
            kind = self._fit(scaled, self.weight * (1.0 - self._across(begun).sum(axis=1))).kind
        return max(at, self._steps(begun, kind, MORE_STEPS), key=self.worth)

    def gathers(self, at: RowNoise) -> bool:
        """Return whether strays are more frequent where predictions are known to be far off.

        Values of other rows come to any row. Where they gather, the model is wrong, not the values.
        """
        by_size = np.argsort(-self.told.size, kind="stable")
        most = by_size[self.weight[by_size] > 0]
        most = most[: max(int(WHERE_FAR_OFF * most.size), 1)]
        if not np.ptp(self.told.size) > 0:
            return False
        there = float(np.average(self._stray(at)[most], weights=self.weight[most]))
        chance = np.sqrt(at.strayed * (1.0 - at.strayed) / self.weight[most].sum())
        return bool(there > max(GATHERED * at.strayed, at.strayed + SURELY * chance))

    def _steps(self, at: RowNoise, kind: Kind, steps: int) -> RowNoise:
        """Take steps of expectation maximisation: only the others say what noise is."""
        scaled = self.residual / at.scale(self.told)
        for _ in range(steps):
            stray, across = self._stray(at), self._across(at)
            if at.strays is not None:
                share = float(np.clip(self.weight @ stray / self.weight.sum(), 1e-6, 0.95))
                at = replace(at, strayed=share)
            if at.across is not None:
                clean = at.clean_density(self.told, self.y) / self._density(at)
                among = (self.weight * clean) @ at.is_beside_jump(self.told)
                shares = self.weight @ across / np.maximum(among, 1.0)
                shares *= min(1.0, MOST_ACROSS / max(shares.sum(), LEAST))
                at = replace(at, across=shares)
            counted = self.weight * np.maximum(1.0 - stray - across.sum(axis=1), 0.0)
            at = replace(at, noise=self._fit(scaled, counted, at.noise, kind).model)
        return replace(at, noise=replace(at.noise, total=float(self.weight.sum())))

    def _density(self, at: RowNoise) -> Vector:
        return np.asarray(np.maximum(at.density(self.told, self.y), LEAST))

    def _stray(self, at: RowNoise) -> Vector:
        """Return the probability that each row is a stray one."""
        return np.asarray(at.strayed * at._anywhere(self.told, self.y) / self._density(at))

    def _across(self, at: RowNoise) -> Matrix:
        """Return the probabilities that each row lies on the other side of a jump."""
        across = (1.0 - at.strayed) * at.across_densities(self.told, self.y)
        return np.asarray(across / self._density(at)[:, None])

    def _rule(self, weight: Vector, by_size: bool) -> ScaleRule:
        """Return how the scales of rows differ."""
        own = np.array([False, by_size])
        return fit_scale_rule(
            self.told.columns, np.array([1.0, 0.0]), 0.0, self.residual, own, weight
        )

    def _fit(
        self,
        residual: Vector,
        weight: Vector,
        near: NoiseModel | None = None,
        kind: Kind | None = None,
    ) -> FittedNoise:
        losses = LossSummary(histogram(residual, weight, self.anchor)[None, None], self.anchor)
        if near is None:
            scale = WIDE * float(np.sqrt(losses.loss_quantile(0.5)))
            scale = max(scale, 2.0 * ROUNDING * self.anchor)
            near = NoiseModel(losses.total, 1.0, 0.0, scale, scale, np.inf, (-np.inf,), (0.0,))
        return fit_noise(losses, near, kind)

    def flagged(self, at: RowNoise) -> float:
        """Return how many rows are more likely corrupted than clean."""
        return float(self.weight @ (at.odds(self.told, self.y) > 1.0))

    def worth(self, at: RowNoise) -> float:
        """Return the log-likelihood less the price of the parameters."""
        likely = np.log(np.maximum(at.density(self.told, self.y), LEAST))
        price = 0.5 * np.log(self.weight.sum()) + PRICE
        return float(self.weight @ likely - price * sum(_sizes(at)))


def _sizes(at: RowNoise) -> Iterator[float]:
    yield float(at.scale_rule.n_parameters) + (
        0.0 if at.across is None else np.count_nonzero(at.across)
    )
    yield 2.0 * float(at.noise.below != at.noise.above) + float(at.noise.dof < np.inf)
    if at.strays is None:
        yield 0.5 * sum(level > 0 for level in at.noise.levels)
    else:
        yield 1.0 + 0.5 * at.strays.around * sum(level > 0 for level in at.strays.levels)


def _distribution(y: Vector, weight: Vector) -> Strays:
    """Return the density of y, with levels that begin and end with zero."""
    some = y[weight > 0]
    low, high = np.quantile(some, RANGE)
    if not high > low:
        return Strays(np.array([low, np.nextafter(low, np.inf)]), np.zeros(3))
    edges = np.linspace(low, high, BINS + 1)
    counts, _ = np.histogram(y, edges, weights=weight)
    smooth = np.convolve(np.pad(counts, 1, mode="edge"), [0.25, 0.5, 0.25], mode="valid")
    return Strays(edges, np.pad(smooth / (weight.sum() * np.diff(edges)), 1))
