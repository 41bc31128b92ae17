"""Fitting noise models to the merged signed histogram of the residuals.

The corrupted part is a step function (`zones.py`) or a second normal (`bump.py`). Every kind of
noise is fitted by expectation maximisation, and the one that the data ask for is chosen by the
Bayesian information criterion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from easyfirst.calibration import PSEUDO_ROWS, ROUNDING, CleanMixture
from easyfirst.contracts import Matrix, Vector
from easyfirst.noise.bump import Bump
from easyfirst.noise.model import LEAST, NoiseModel, log_t, t_weight
from easyfirst.noise.zones import NEAR, Histogram, Zones
from easyfirst.summaries import LossSummary

# Degrees of freedom that are tried; infinity is the normal.
DEGREES = (np.inf, 30.0, 15.0, 10.0, 7.5, 6.0, 5.0, 4.0, 3.5, 3.0, 2.5, 2.0, 1.7)
FIRST_DEGREE = 4.0
WIDE = 1.4826  # normal scale of a median of |residual|
WIDER = 1.25  # the clean part may be than the zones are laid out for,
MOST_LAYOUTS = 4  # or they are laid out again
MOST_SKEW = 8.0  # of one side's scale over the other's
MOST_STEPS = 300
LEAST_STEPS = 6  # from nowhere in particular
LONGEST_LEAP = 8.0  # over two steps of expectation maximisation, as many times as far
TOLERANCE = 2e-4  # of a step in the logarithms of the scales, the center over the scale, the share
PRICE = 1.0  # of a parameter, in log-likelihood, on top of half the logarithm of the rows
# Likewise of a row that is called corrupted. Real mistakes are told apart by twice as much or more;
# less is the difference between one shape of long tails and another.
PER_ROW_ASIDE = 0.12
# Degrees of freedom of noise by itself: with fewer, it is noise beside mistakes, unless one side is
# as many times as wide as the other, which mistakes are less often than noise.
HEAVIEST_TAILS, CLEAR_SKEW = 2.5, 2.0
MOST_OF_MINORITY = 2.0  # times as many clean rows as were seen: more are those of other noise
FEWEST_ROWS = 40  # that can tell long tails from wrong rows
STEPS = 0.005  # log-likelihood per row that steps near the center have to gain on a flat part


@dataclass(frozen=True)
class Kind:
    """A member of the family; `zones` is how the corrupted part is cut near the center."""

    has_skew: bool
    has_tails: bool
    zones: tuple[float, ...] | None  # None: there is no corrupted part

    @property
    def has_bump(self) -> bool:
        """Whether the corrupted part is a bump instead of steps."""
        return self.zones == ()


BESIDE_A_BUMP = Kind(has_skew=False, has_tails=False, zones=())


@dataclass(frozen=True)
class FittedNoise:
    """A noise model, and its log-likelihood less the price of its parameters."""

    model: NoiseModel
    worth: float
    kind: Kind


def fit_noise(
    losses: LossSummary,
    near: CleanMixture | NoiseModel,
    kind: Kind | None = None,
    start: NoiseModel | None = None,
    *,
    may_have_bump: bool = True,
    most: float = 1.0,
) -> FittedNoise:
    """Return the noise model that the residuals ask for, the simplest one that will do.

    `near` gives the scale at which the search begins and by which the zones are laid out; they
    are laid out again by the wider side of what is found. On the steep side of skewed noise a scale
    is narrow, and what is near by it ends among the clean rows of the other side. With a `kind`,
    no other is looked at, and the search may begin at the noise of much the same residuals. Around
    a fit of all rows, those that lie together are two kinds of rows rather than mistakes: there it
    may not have a bump. Around few rows, clean ones are `most` of all rows at the most: models with
    a larger share are left out, unless all are.
    """
    spent = 0.0 if losses.studentized else float(losses.n_coef)
    kinds = [kind] if kind else [each for each in _kinds() if may_have_bump or not each.has_bump]
    scale, is_few = near.scale, most < 1.0
    minority = _Minority.of(near) if is_few or isinstance(near, CleanMixture) else None
    for _ in range(MOST_LAYOUTS):
        histogram = Histogram.of(losses, scale)
        search = _Search(histogram, kinds, spent, losses.anchor * ROUNDING, minority)
        fits = search.run(start)
        found = _chosen([each for each in fits if each.model.share <= most] or fits)
        wide = max(found.model.below, found.model.above)
        if wide < WIDER * scale:
            break
        scale = wide
        if is_few:
            minority = _Minority.of(found.model)
    return found


def _chosen(fits: Sequence[FittedNoise]) -> FittedNoise:
    """Return the model of the highest worth, or one by which no row is wrong and worth as much."""
    best = max(fits, key=lambda each: each.worth)
    of_clean_rows = [
        each
        for each in fits
        if each.kind.zones is None
        and (each.model.dof >= HEAVIEST_TAILS or each.model.skew >= CLEAR_SKEW)
    ]
    if best.kind.zones is None or not of_clean_rows or best.model.total < FEWEST_ROWS:
        return best
    clean = max(of_clean_rows, key=lambda each: each.worth)
    # Where most rows are wrong, it is the others that tell them apart.
    smaller = min(best.model.share, 1.0 - best.model.share)
    to_show = PER_ROW_ASIDE * smaller * best.model.total
    return best if best.worth > clean.worth + to_show else clean


@dataclass(frozen=True)
class _Minority:
    """A minority of clean rows near which a search begins, beside corrupted rows per unit.

    A search from nowhere in particular takes most rows as clean, and stretches the noise over the
    others until they are.
    """

    share: float
    level: float

    @classmethod
    def of(cls, near: CleanMixture | NoiseModel) -> _Minority | None:
        """Return the start near a fit of a minority; None near one of most rows."""
        if near.share >= 0.5:
            return None
        if isinstance(near, CleanMixture):
            return cls(near.share, 0.5 * (near.below + near.above) / near.total)
        sides = near.corrupted_density(np.array([-near.below, near.above]))
        return cls(near.share, float(sides.mean()))


def _kinds() -> Iterator[Kind]:
    for zones in (None, (0.0, NEAR[-1]), NEAR):
        for has_skew in (False, True):
            for has_tails in (False, True):
                yield Kind(has_skew, has_tails, zones)
    yield BESIDE_A_BUMP


@dataclass(eq=False)
class _Search:
    """Expectation maximisation for several kinds of noise side by side.

    Parameters have a row for every kind, and arrays over the bins as well.
    """

    histogram: Histogram
    kinds: Sequence[Kind]
    spent: float  # rows' worth of freedom that the coefficients took
    least: float  # scale below which residuals are rounding
    minority: _Minority | None = None  # that the search begins at

    def run(self, start: NoiseModel | None) -> list[FittedNoise]:
        """Go to the maximum of the likelihood near the scale of the histogram, or near a start."""
        self.skewed = np.array([kind.has_skew for kind in self.kinds])
        self.tailed = np.flatnonzero([kind.has_tails for kind in self.kinds])
        self.has_zones = np.array([kind.zones is not None for kind in self.kinds])
        self.zones = list(self._parts())
        if start is None:
            self._begin()
        else:
            self._begin_at(start)
        least_steps = LEAST_STEPS if start is None else 1
        at, moved = self._position(), np.zeros((4, len(self.kinds)))
        for step in range(MOST_STEPS):
            self._step(with_dof=step % 3 == 2)
            last, at = at, self._position()
            before, moved = moved, at - last
            if step >= least_steps and np.max(np.abs(moved)) < TOLERANCE:
                break
            if step >= least_steps and step % 3 == 1:
                self._leap(last - before, before, moved)
                at = self._position()
        return self._found()

    def _parts(self) -> Iterator[Zones | Bump]:
        """Yield the corrupted part of kinds that are ordered by it."""
        data = self.histogram
        for near, group in groupby(enumerate(self.kinds), key=lambda pair: pair[1].zones):
            numbers = [number for number, _ in group]
            kinds = slice(numbers[0], numbers[-1] + 1)
            if near:
                yield Zones.of(data, near, kinds)
            elif near is not None:
                yield Bump.of(kinds, data.middle, data.width)

    def _begin(self) -> None:
        data, n = self.histogram, len(self.kinds)
        scale = max(data.scale, self.least)
        self.center, self.below, self.above = np.zeros(n), np.full(n, scale), np.full(n, scale)
        self.dof = np.full(n, np.inf)
        self.dof[self.tailed] = FIRST_DEGREE
        share, first = 0.9, 0.1 / (2.0 * NEAR[-1] * scale)
        if self.minority is not None:
            share, first = self.minority.share, self.minority.level
        self.share = np.where(self.has_zones, share, 1.0)
        self.rates = [part.even(first) for part in self.zones]

    def _begin_at(self, start: NoiseModel) -> None:
        data, n = self.histogram, len(self.kinds)
        self.center, self.below, self.above, self.dof, self.share = (
            np.full(n, value)
            for value in (start.center, start.below, start.above, start.dof, start.share)
        )
        rows = start.corrupted_density(data.middle) * data.width * data.total
        corrupted = np.tile(rows, (n, 1))
        self._fit_corrupted_part(corrupted)

    def _step(self, with_dof: bool) -> None:
        """Do one step of expectation maximisation."""
        data = self.histogram
        clean = data.counts * self._posterior()
        self._fit_clean_part(clean, with_dof)
        corrupted = data.counts - clean
        self._fit_corrupted_part(corrupted)

    def _fit_corrupted_part(self, corrupted: Matrix) -> None:
        scale, total = 0.5 * (self.below + self.above), self.histogram.total
        self.rates = [z.rates(corrupted[z.kinds], total, scale) for z in self.zones]

    def _leap(self, start: Matrix, first: Matrix, second: Matrix) -> None:
        """Go where two steps from a start seem to lead, by squared extrapolation."""
        bend = second - first
        length = np.linalg.norm(first, axis=0) / np.maximum(np.linalg.norm(bend, axis=0), LEAST)
        length = np.clip(length, 1.0, LONGEST_LEAP)
        beyond = np.square(length - 1.0) * bend + 2.0 * (length - 1.0) * (first + bend)
        beyond = np.where(np.max(np.abs(beyond), axis=0) < 1.0, beyond, 0.0)
        center, below, above, share = start + first + second + beyond
        self.below, self.above = np.maximum(np.exp([below, above]), self.least)
        self.center = np.where(self.skewed, center * 0.5 * (self.below + self.above), 0.0)
        most = 1.0 - 2.0 * PSEUDO_ROWS / self.histogram.total
        self.share = np.where(self.has_zones, np.clip(share, 1e-3, most), self.share)

    def _position(self) -> Matrix:
        scale = 0.5 * (self.below + self.above)
        return np.array([self.center / scale, np.log(self.below), np.log(self.above), self.share])

    def _clean_density(self) -> Matrix:
        data, center = self.histogram, self.center[:, None]
        self._is_below = data.middle < center
        self._away = data.middle - center
        scale = np.where(self._is_below, self.below[:, None], self.above[:, None])
        self._squares = np.square(self._away / scale)
        logs = log_t(self._squares, np.inf)
        if self.tailed.size:
            logs[self.tailed] = log_t(self._squares[self.tailed], self.dof[self.tailed, None])
        height = self.share / (0.5 * (self.below + self.above))
        return np.asarray(height[:, None] * np.exp(logs, out=logs))

    def _corrupted_density(self) -> Matrix:
        density = np.zeros((len(self.kinds), self.histogram.middle.size))
        for zones, rates in zip(self.zones, self.rates, strict=True):
            density[zones.kinds] = zones.density(rates)
        return density

    def _posterior(self) -> Matrix:
        clean = self._clean_density()
        return np.asarray(clean / np.maximum(clean + self._corrupted_density(), LEAST))

    def _fit_clean_part(self, clean: Matrix, with_dof: bool) -> None:
        data = self.histogram
        rows = np.maximum(clean.sum(axis=1), 1e-3)
        most = 1.0 - 2.0 * PSEUDO_ROWS / data.total
        self.share = np.where(self.has_zones, np.minimum(rows / data.total, most), self.share)
        pull = clean
        if self.tailed.size:
            pull = clean.copy()
            dof = self.dof[self.tailed, None]
            pull[self.tailed] *= t_weight(self._squares[self.tailed], dof)
        self._fit_scales(pull, rows)
        if with_dof and self.tailed.size:
            self._fit_dof()

    def _fit_dof(self) -> None:
        """Choose the degrees of freedom that make all rows likeliest, corrupted ones included.

        Given which rows are clean, those that were assumed before would seem right.
        """
        self._clean_density()
        squares, degrees = self._squares[self.tailed, None], np.array(DEGREES[1:])[:, None]
        height = self.share / (0.5 * (self.below + self.above))
        density = height[self.tailed, None, None] * np.exp(log_t(squares, degrees))
        density += self._corrupted_density()[self.tailed, None]
        likelihood = np.log(np.maximum(density, LEAST)) @ self.histogram.counts
        self.dof[self.tailed] = degrees[np.argmax(likelihood, axis=1), 0]

    def _fit_scales(self, pull: Matrix, rows: Vector) -> None:
        data, is_below = self.histogram, self._is_below
        if self.skewed.any():
            precision = np.where(is_below, self.below[:, None], self.above[:, None])
            precision = pull / np.square(precision)
            center = precision @ data.middle / np.maximum(precision.sum(axis=1), LEAST)
            self.center = np.where(self.skewed, center, 0.0)
            self._away = data.middle - self.center[:, None]
            is_below = data.middle < self.center[:, None]
        # Rows are spread over their bins, which adds a twelfth of the squared width.
        squares = pull * (np.square(self._away) + np.square(data.width) / 12.0)
        freedom = np.maximum(1.0 - self.spent / rows, 0.25)
        below = np.sum(squares, axis=1, where=is_below)
        above = np.maximum((squares.sum(axis=1) - below) / freedom, LEAST)
        below = np.maximum(below / freedom, LEAST)
        # Stationary for the density 2 / (below + above) t(r / scale of its side).
        roots = np.cbrt([below, above])
        sides = roots * np.sqrt(roots.sum(axis=0) / rows)
        sides = np.maximum(sides, sides.max(axis=0) / MOST_SKEW)
        sides = np.where(self.skewed, sides, np.sqrt((below + above) / rows))
        self.below, self.above = np.maximum(sides, self.least)

    def _found(self) -> list[FittedNoise]:
        data = self.histogram
        density = self._clean_density() + self._corrupted_density()
        floor = 1e-12 / (data.scale * data.total)
        likelihood = np.log(np.maximum(density, floor)) @ data.counts
        return [
            self._one(number, kind, float(likelihood[number]))
            for number, kind in enumerate(self.kinds)
        ]

    def _one(self, number: int, kind: Kind, likelihood: float) -> FittedNoise:
        data = self.histogram
        below, above = float(self.below[number]), float(self.above[number])
        size = 2.0 * kind.has_skew + kind.has_tails
        share, edges = float(self.share[number]), np.array([-np.inf, 0.0])
        # A fraction of a row is taken for granted: no finite row is ever certain.
        levels = np.full(2, PSEUDO_ROWS / (NEAR[-1] * 0.5 * (below + above)) / data.total)
        if kind.zones is None:
            share = 1.0 - 2.0 * PSEUDO_ROWS / max(data.total, 1.0)
        for part, rates in zip(self.zones, self.rates, strict=True):
            if part.kinds.start <= number < part.kinds.stop:
                edges, levels = part.steps(rates[number - part.kinds.start])
                size += part.n_parameters(number)
        price = (0.5 * np.log(max(data.total, 20.0)) + PRICE) * size
        # Steps follow any tail a little better than a density with tails; a bump, by far.
        price += STEPS * data.total * (kind.zones == NEAR)
        model = NoiseModel(
            total=data.total,
            share=share,
            center=float(self.center[number]),
            below=below,
            above=above,
            dof=float(self.dof[number]),
            edges=tuple(edges.tolist()),
            levels=tuple(levels.tolist()),
        )
        return FittedNoise(model, likelihood - price, kind)
