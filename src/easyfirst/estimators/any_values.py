"""Rows whose y is a number, judged around a model of any shape until the weights stand still."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor

from easyfirst.consensus.fitted import Calibration
from easyfirst.consensus.starts.coarse_targets import grid_cell
from easyfirst.consensus.starts.point_masses import PointMass
from easyfirst.consensus.status import Status
from easyfirst.contracts import Vector
from easyfirst.estimators import validation
from easyfirst.estimators.codes_apart import codes_apart
from easyfirst.estimators.nearby_rows import NearbyRows
from easyfirst.estimators.noise_sizes import model_of_sizes, sizes_by, told_sizes
from easyfirst.estimators.out_of_fold import fitted, predicted
from easyfirst.estimators.paced_rows import Fits, Rows
from easyfirst.estimators.shared_values import odds_of_shared, values_in_common
from easyfirst.noise.fitting import WIDE
from easyfirst.noise.model import LEAST
from easyfirst.noise.of_rows import MOST_ODDS, RowNoise, Told, read_noise, shares_of_batches
from easyfirst.regularizers import SelfPacedRegularizer
from easyfirst.summaries import histogram

SHAPE_UNKNOWN = 2.0  # how much wider an interval for the share is because the shape is estimated
MOSTLY_WRONG = 0.45  # corrupted share from which other models of the rows are as likely
FEW_WRONG = 0.1  # corrupted share below which the bare model may be the better one
BEYOND_CHANCE = 3.0  # standard errors by which it must be the worse one not to be taken,
MOST_GAIN = 2.0  # and by so many in a count of the rows that gain: a few steep ones are not enough
MANY_WRONG = 0.15  # corrupted share from which several models are tried as first judges
LOPSIDED = 4.0  # scale of one side of the noise over the other's, from which they are tried too,
BEYOND_MANY = 0.3  # and the median of clean rows where 40 % of all are wrong, all on one side
COARSE = {"min_samples_leaf": 40, "max_leaf_nodes": 15}
LEAST_BATCHES = 3  # of which some can disagree with most,
GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)  # whose multiples spread most evenly between whole numbers
SURELY, NOTICEABLE = 5.0, 0.5  # by so many standard errors, and noise scales
WIDTH = 10.0  # of y, in typical distances from its median: how rows of such batches may lie
FAR = 3.0  # standard deviations of y within which values are first taken as they are


@dataclass(frozen=True, eq=False)
class ValueSettings:
    """How rows are judged: the model, the one that judges first, and how rounds end."""

    estimator: Any
    start: Any
    regularizer: SelfPacedRegularizer
    n_repeats: int
    max_rounds: int
    tol: float
    seed: int


@dataclass(frozen=True, eq=False)
class SettledValues:
    """What was found of every row: a prediction by others, a weight, and how much it pulls."""

    told: Told
    noise: RowNoise
    weight: Vector
    pull: Vector
    batch_shares: Vector
    clean_share: float
    status: Status
    nearby: NearbyRows
    sizes: Any = None  # a model of how far predictions are off, where that differs
    codes: tuple[PointMass, ...] = ()


@dataclass(frozen=True, eq=False)
class _Look:
    """Rows as a prediction shows them; `likely` is the log-likelihood of a row's y by it."""

    told: Told
    noise: RowNoise
    weight: Vector
    shares: Vector
    clean_share: float
    likely: float

    @property
    def finds_nothing(self) -> bool:
        """Whether no row looks wrong."""
        return bool(np.all(self.weight >= 0.5))


@dataclass(frozen=True, eq=False)
class _Judge:
    """An estimator, the rows and weights it is fitted to, and the rows as it shows them."""

    estimator: Any
    asked: Rows
    look: _Look


def settle_values(rows: Rows, fits: Fits, settings: ValueSettings) -> SettledValues:
    """Judge all rows; those whose y is a code that lies apart are left out from the beginning."""
    codes = codes_apart(rows, fits, settings.estimator, settings.seed) if fits.n_folds > 1 else ()
    if not codes:
        return _settle(rows, fits, settings)
    is_coded = np.isin(rows.y, [mass.value for mass in codes])
    ordinary, coded = np.flatnonzero(~is_coded), np.flatnonzero(is_coded)
    inner = rows.some(ordinary)
    with fits.of_some(ordinary) as some:
        found = _settle(inner, some, settings)
    model = fitted(settings.estimator, inner.X, inner.y, found.pull)
    fits.count += 1
    X = rows.some(coded).X
    told = told_by(model, X, found.sizes, found.nearby)
    return _with_coded(rows, ordinary, coded, found, told, codes)


def _with_coded(
    rows: Rows,
    ordinary: NDArray[np.intp],
    coded: NDArray[np.intp],
    found: SettledValues,
    told: Told,
    codes: tuple[PointMass, ...],
) -> SettledValues:
    """Add rows whose y is a code: they do not count, and lower the share of clean rows."""

    def with_nothing(of_others: Vector) -> Vector:
        made = np.zeros(rows.y.size)
        made[ordinary] = of_others
        return made

    sizes = np.bincount(rows.batch, rows.weight)
    own = np.bincount(rows.batch[ordinary], rows.weight[ordinary], minlength=sizes.size)
    shares = np.append(
        found.batch_shares, np.full(sizes.size - found.batch_shares.size, found.clean_share)
    )
    return replace(
        found,
        told=Told.joined((ordinary, found.told), (coded, told)),
        weight=with_nothing(found.weight),
        pull=with_nothing(found.pull),
        batch_shares=shares * own / np.maximum(sizes, LEAST),
        clean_share=found.clean_share * float(own.sum() / sizes.sum()),
        codes=codes,
    )


def _settle(rows: Rows, fits: Fits, settings: ValueSettings) -> SettledValues:
    """Judge and fit by turns, as long as that makes the values more likely.

    Rows that are left out by mistake are predicted worse without each other, and more of their
    like are left out then. So the models of a round only judge if they describe all rows better
    than those that judged before, wrong rows being described by the noise model.
    """
    if fits.n_folds < 2:
        return _nothing_to_compare(rows)
    view = _View(rows, fits, settings, values_in_common(rows.y))
    weight, changed = np.ones(rows.y.size), np.inf
    judge = _first_judge(view)
    sizes = judge.look.told.size
    for number in range(settings.max_rounds):
        began, best = time.perf_counter(), judge.look
        changed = float(np.average(np.abs(best.weight - weight), weights=rows.weight))
        weight = best.weight
        asked = replace(rows, weight=_pulls(rows, best))
        own = view.look(replace(view.told(settings.estimator, asked), size=sizes))
        if number == 0:
            # The sizes of the first judge's residuals are not those of the estimator's.
            sizes = view.sizes(own.told.value, weight)
            own = max(own, view.look(replace(own.told, size=sizes)), key=lambda each: each.likely)
        fits.note(weight, changed, best.noise.noise.reach**2, time.perf_counter() - began)
        if own.likely <= best.likely:
            changed = 0.0
            break
        judge = _Judge(settings.estimator, asked, own)
        changed = float(np.average(np.abs(own.weight - weight), weights=rows.weight))
        if changed <= settings.tol:
            break
    best = judge.look
    if not best.finds_nothing and settings.n_repeats > 1:
        told = [best.told]
        for repeat in range(1, settings.n_repeats):
            told.append(view.told(judge.estimator, judge.asked, repeat))
        value, nearby = (
            np.mean([getattr(each, name) for each in told], axis=0) for name in ("value", "nearby")
        )
        best = view.look(Told(value, best.told.size, nearby))
    pulls = last_pulls(rows, best)
    if bare_is_better(rows, best, fits, settings, own.told.value):
        pulls = rows.weight
    of_sizes = None
    if np.any(own.noise.scale_rule.slopes):
        of_sizes = model_of_sizes(rows, fits, rows.y - own.told.value, rows.weight * best.weight)
    return SettledValues(
        told=own.told,
        noise=own.noise,
        weight=best.weight,
        pull=pulls,
        batch_shares=best.shares,
        clean_share=best.clean_share,
        status=fits.status(changed, settings.tol),
        nearby=view.nearby,
        sizes=of_sizes,
    )


def _nothing_to_compare(rows: Rows) -> SettledValues:
    told = Told.even(rows.y.astype(np.float64))
    return SettledValues(
        told=told,
        noise=read_noise(rows.y, told, rows.weight, spread_of(rows.y, rows.weight)),
        weight=np.ones(rows.y.size),
        pull=rows.weight,
        batch_shares=np.ones(1),
        clean_share=1.0,
        status=Status("converged", "There was nothing to compare.", converged=True),
        nearby=NearbyRows.of(rows.X, seed=0),
    )


def told_by(model: Any, X: Any, sizes: Any, nearby: NearbyRows) -> Told:
    """Return what a fitted model says of rows, and a model of sizes."""
    return Told(predicted(model, X), sizes_by(sizes, X), nearby.predicted(model, X))


@dataclass(frozen=True, eq=False)
class _View:
    """The rows, how models of them are fitted, and the values that too many of them share."""

    rows: Rows
    fits: Fits
    settings: ValueSettings
    shared: Vector

    @cached_property
    def anchor(self) -> float:
        """One unit in which residuals are counted."""
        return spread_of(self.rows.y, self.rows.weight)

    @cached_property
    def y(self) -> Vector:
        """The values, spread over what they may have been before they were rounded.

        Around a model that is closer than the rounding, noise would else have no width where
        predictions meet the grid, and right values off by half a step would look wrong.
        """
        y = self.rows.y.astype(np.float64)
        return np.asarray(y + grid_cell(y) * (np.arange(1, y.size + 1) * GOLDEN % 1.0 - 0.5))

    @cached_property
    def nearby(self) -> NearbyRows:
        """What rows are nearly the same as a row."""
        return NearbyRows.of(self.rows.X, self.settings.seed)

    def told(self, estimator: Any, asked: Rows, repeat: int = 0) -> Told:
        """Return what models of the rows that are asked say of others, off by as much."""

        def answer(model: Any, X: Any) -> NDArray[Any]:
            return np.column_stack([predicted(model, X), self.nearby.predicted(model, X)])

        found = self.fits.ask(estimator, asked, asked.weight, repeat, answer)
        return Told.even(found[:, 0], found[:, 1:])

    def sizes(self, prediction: Vector, clean: Vector | float = 1.0) -> Vector:
        """Return what X tells of how far a prediction is off.

        `clean` is the probability that each row is clean, once more than one size of noise has been
        tried: rows that are predicted badly look wrong until then.
        """
        speaks = self._speaks(batches_that_agree(self.rows, prediction)) * clean
        return told_sizes(self.rows, self.fits, self.y - prediction, speaks)

    def _speaks(self, agrees: NDArray[np.bool_]) -> Vector:
        """Return how much each row says of noise.

        Batches that are off as a whole, and values that too many rows share, would pass for a part
        of it.
        """
        return np.where(agrees & ~np.isin(self.rows.y, self.shared), self.rows.weight, 0.0)

    def look(self, told: Told) -> _Look:
        """Return noise and weights, every row being judged by the share of its batch."""
        rows, rule, prediction = self.rows, self.settings.regularizer, told.value
        agrees = batches_that_agree(rows, prediction)
        noise = read_noise(self.y, told, self._speaks(agrees), self.anchor)
        odds = noise.odds(told, self.y)
        for value in self.shared:
            member = rows.y == value
            odds[member] = odds_of_shared(value, member, told, rows.y, rows.weight, noise)
        share = float(np.average(1.0 / (1.0 + odds), weights=rows.weight))
        density = noise.density(told, self.y)
        clean_density = noise.clean_density(told, self.y) / noise.noise.share
        # What is off as a whole may lie anywhere, and a trusted value is a clean one.
        anywhere = np.where(agrees, 0.0, 1.0 / (WIDTH * self.anchor))
        corrupted = (1.0 - share) / share * anywhere
        odds = np.maximum(odds, np.minimum(corrupted / np.maximum(clean_density, LEAST), MOST_ODDS))
        density = np.where(rows.trusted, clean_density, np.maximum(density, anywhere))
        likely = float(np.average(np.log(np.maximum(density, LEAST)), weights=rows.weight))
        own = shares_of_batches(odds, rows.weight, rows.batch, share)
        if own.size > 1:
            odds = odds * ((1.0 - own) / own * (share / max(1.0 - share, 1e-12)))[rows.batch]
        shares = own if own.size > 1 else np.array([share])
        weight = 1.0 / (1.0 + odds)
        if not rule.is_posterior:
            z = (self.y - prediction) / noise.scale(told)
            scaled = rule.with_width(2.0 * noise.noise.scale**2)
            weight = scaled.weights(np.square(z), noise.noise.reach**2)
        weight = np.where(rows.trusted, 1.0, weight)
        return _Look(told, noise, weight, shares, share, likely)


def _pulls(rows: Rows, at: _Look) -> Vector:
    """Return how much each row counts in the fits of the next judge.

    Where some rows look wrong, uncertain rows far out pull less, as the tails of the noise say.
    """
    if at.finds_nothing:
        return rows.weight
    pull = np.where(rows.trusted, 1.0, at.noise.pull(at.told, rows.y))
    return np.asarray(rows.weight * at.weight * pull)


def last_pulls(rows: Rows, at: _Look) -> Vector:
    """Return how much each row counts in the last fit, which judges no row any more.

    By the root of what the tails say, a row far out pulls by a constant, as it does with the
    absolute error. Its pull must not vanish: what a flexible model leaves over may be a rule that
    it has not learned yet, and would never learn without these rows.
    """
    if at.finds_nothing:
        return rows.weight
    pull = np.where(rows.trusted, 1.0, np.sqrt(at.noise.pull(at.told, rows.y)))
    return np.asarray(rows.weight * at.weight * pull)


def bare_is_better(
    rows: Rows, at: _Look, fits: Fits, settings: ValueSettings, paced: Vector
) -> bool:
    """Return whether the model of all rows predicts the rows that look clean as well.

    Wrong rows would spoil it. Few flags that do not are the tail of the clean rows, or rows that
    the model describes badly: leaving these out would only cost accuracy. `paced` are predictions
    of the same folds by models of rows as they are weighed.
    """
    if at.finds_nothing or 1.0 - at.clean_share > FEW_WRONG:
        return False
    bare = fits.ask(settings.estimator, rows, rows.weight)
    clean = rows.weight * (at.weight >= 0.5)
    gain = np.abs(rows.y - bare) - np.abs(rows.y - paced)
    mean = float(np.average(gain, weights=clean))
    chance = np.sqrt(np.average(np.square(gain - mean), weights=clean) / clean.sum())
    balance = float(np.average(np.sign(gain), weights=clean)) * np.sqrt(clean.sum())
    return bool(mean <= BEYOND_CHANCE * chance or balance <= MOST_GAIN)


def _first_judge(view: _View) -> _Judge:
    """Return who judges first.

    Wrong values should have little hold on it. Where many look wrong, the one that makes the values
    most likely is taken of several: the estimator as it is, for the first may have missed what the
    rows follow, and trees with larger leaves, in which chance gathers wrong values less often, that
    predict the middle of the clean rows: below the median where most wrong values lie above.
    Where some batches disagree with the others, one of the others alone is tried. They are compared
    without a model of sizes, which could tell how far a bad judge is off and make it look good.
    """
    rows, settings = view.rows, view.settings
    candidates = [(settings.estimator, rows)]
    is_numeric = settings.start is None and validation.is_dense_and_numeric(rows.X)
    if settings.start is not None:
        first = (settings.start, rows)
    elif is_numeric:
        first = (_robust(settings.seed), rows)
    else:
        middle, reach = _median(rows.y, rows.weight), FAR * WIDE * view.anchor
        near = np.clip(rows.y, middle - reach, middle + reach)
        first = (settings.estimator, replace(rows, y=near))

    def seen(judge: Any, asked: Rows) -> _Judge:
        return _Judge(judge, asked, view.look(view.told(judge, asked)))

    best = seen(*first)
    agree = batches_that_agree(rows, best.look.told.value)
    if best.look.clean_share > 1.0 - MANY_WRONG and not _is_lopsided(best.look):
        candidates = []
    elif is_numeric:
        middle = _middle_of_clean(rows, best.look)
        candidates.append((_robust(settings.seed, quantile=middle, **COARSE), rows))
    if not agree.all():
        judge, asked = first
        candidates.append((judge, replace(asked, weight=np.where(agree, rows.weight, 0.0))))
    best = max([best, *(seen(*each) for each in candidates)], key=lambda each: each.look.likely)
    told = best.look.told
    return replace(best, look=view.look(replace(told, size=view.sizes(told.value))))


def _robust(seed: int, quantile: float = 0.5, **leaves: int) -> HistGradientBoostingRegressor:
    """Return trees on which values far out have no more hold than others."""
    return HistGradientBoostingRegressor(
        loss="quantile", quantile=quantile, early_stopping=False, random_state=seed, **leaves
    )


def _is_lopsided(seen: _Look) -> bool:
    """Return whether the noise is so skewed that one side may be made of wrong values."""
    return seen.noise.noise.skew > LOPSIDED


def _middle_of_clean(rows: Rows, seen: _Look) -> float:
    """Return which quantile of all rows is the median of those that look clean."""
    if _is_lopsided(seen):
        noise = seen.noise.noise
        return BEYOND_MANY if noise.above > noise.below else 1.0 - BEYOND_MANY
    wrong = rows.weight * (1.0 - seen.weight)
    side = np.sign(rows.y - seen.told.value)
    return float(0.5 * (1.0 - wrong @ side / rows.weight.sum()))


def batches_that_agree(rows: Rows, prediction: Vector) -> NDArray[np.bool_]:
    """Return which rows are of batches whose typical residual is that of most rows.

    Where a batch is off as a whole, its rows look like noise to those who do not know of batches.
    """
    n_batches = int(rows.batch.max()) + 1
    everyone = np.ones(rows.y.size, dtype=bool)
    if n_batches < LEAST_BATCHES:
        return everyone
    residual, own = rows.y - prediction, np.zeros(n_batches)
    sizes = np.bincount(rows.batch, rows.weight, n_batches).astype(np.float64)
    for number in np.flatnonzero(sizes):
        member = rows.batch == number
        own[number] = _median(residual[member], rows.weight[member])
    scale = WIDE * _median(np.abs(residual - own[rows.batch]), rows.weight)
    most = _center_of_most(own, sizes)
    chance = SURELY * scale * np.sqrt(0.5 * np.pi / np.maximum(sizes, 1.0))
    return (np.abs(own - most) <= np.maximum(chance, NOTICEABLE * scale))[rows.batch]


def _center_of_most(values: Vector, weight: Vector) -> float:
    """Return the median of the values in the shortest interval with more than half the weight."""
    order = np.argsort(values, kind="stable")
    ordered, below = values[order], np.append(0.0, np.cumsum(weight[order]))
    last = np.searchsorted(below, below[:-1] + 0.5 * below[-1], side="right") - 1
    first = np.flatnonzero(last < ordered.size)
    begin = int(first[np.argmin(ordered[last[first]] - ordered[first])])
    inside = slice(begin, int(last[begin]) + 1)
    return _median(ordered[inside], weight[order][inside])


def spread_of(y: Vector, weight: Vector) -> float:
    """Return the median distance from the median: one unit in which residuals are counted."""
    away = np.abs(y - _median(y, weight))
    return _median(away, weight) or float(np.average(away, weights=weight)) or 1.0


def _median(values: Vector, weight: Vector) -> float:
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(below, 0.5 * below[-1])])


def doubts_about_share(corrupted: float) -> tuple[str, ...]:
    """Return a doubt where so many rows look wrong that they may have a model of their own."""
    if corrupted < MOSTLY_WRONG:
        return ()
    return (
        f"{100 * corrupted:.0f} % of the rows look wrong: they may follow a model of their own. "
        f"Name rows that you know to be right (fit(..., trusted=...)), or look at both parts.",
    )


def calibration_of(rows: Rows, found: SettledValues) -> Calibration:
    """Return what intervals and reports are made from."""
    noise, anchor = found.noise, spread_of(rows.y, rows.weight)
    z = (rows.y - found.told.value) / noise.scale(found.told)
    total = float(rows.weight.sum())
    doubtful = float(rows.weight @ (found.weight * (1.0 - found.weight)))
    corrupted = 1.0 - found.clean_share
    half = (1.959964 * SHAPE_UNKNOWN * float(np.sqrt(doubtful)) + 3.0) / total
    return Calibration(
        noise=replace(noise.noise, share=found.clean_share),
        scale_rule=noise.scale_rule,
        clean_mass=histogram(z, rows.weight * found.weight, anchor).ravel(),
        anchor=anchor,
        n_coef=0,
        batch_shares=tuple(found.batch_shares.tolist()),
        corrupted_interval=(max(0.0, corrupted - half), min(1.0, corrupted + half)),
        standard_errors=np.empty(0),
    )
