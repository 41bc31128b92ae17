"""What would put a wrong row right: a posterior over simple mistakes, given the model.

Each kind of mistake (`mistakes`) says how likely it makes the given value. How common the kinds
are is learned from the rows themselves, starting from a prior worth a few rows: where a hundred
rows are ten times the prediction, the next one is too. Against all kinds stand a mistake without a
rule and the chance that the row is clean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from easyfirst.contracts import Matrix, Vector
from easyfirst.report.digits import resolution
from easyfirst.report.grid import Grid
from easyfirst.report.mistakes import (
    FACTORS,
    NOTICED,
    ErrorSizes,
    Mistake,
    RowsInQuestion,
    SwapPartner,
    as_matrix,
    clean_parts,
    common_factor,
    decimal,
    distance,
    is_listed,
    log_ratios,
    mistakes_in,
    nearest_listed,
    slope_at,
)
from easyfirst.report.true_values import CleanRows, TrueValues
from easyfirst.report.wording import number
from easyfirst.transforms import IDENTITY, TargetTransform

SUGGESTED = 0.5  # probability from which a fix is named ...
LARGE = 5.0  # ... of an error of at least so many noise scales: smaller ones fit too much
# A long tail on one side looks like a small factor, for which its rows vouch together.
CLEAR, SUGGESTED_NEARBY = 8.0, 0.8  # noise scales below which a fix must be more probable
PRIOR_ROWS = 8.0  # rows' worth of the prior in the counts of the kinds
ROUNDS = 15
FEWEST_ALIKE = 3  # rows that make a common factor
REACH = 0.3  # half-width, in logarithms, in which factors count as alike
NARROWEST, WIDEST = 0.02, 0.12  # spread of a common factor's logarithm
LEAST_FACTOR = np.log(1.5)
SEARCHED = 4.0  # log-likelihood that a factor found by looking everywhere gains by chance
MOST_LEARNED = 20_000  # rows, evenly spread, from which the counts are learned
BLOCK_ROWS = 20_000
ROUNDS_OF_TRUTH = 4
ROUNDS_OF_RATIO = 3
EARNED = 2.0  # log-likelihood by which a kind, as usual as can be, must explain rows better
LEAST_ROWS = 1.0
NO_FIX: frozenset[str] = frozenset()
UNSEEN = 20.0  # clean rows beside each wrong one where they are not known
LEAST_PART = 0.01  # rows of the prior in each part of the clean ones


@dataclass(frozen=True, eq=False)
class Fixes:
    """The likely fix of each row: what to do, the value it gives, how probable, what happened.

    `fix` and `cause` are empty, `value` and `probability` NaN, where no fix is likely. A row whose
    true value is lost (a missing code, a copy) has a fix but no value.
    """

    fix: NDArray[np.object_]
    value: Vector
    probability: Vector
    cause: NDArray[np.object_]

    @classmethod
    def none(cls, n_rows: int) -> Fixes:
        """Return no fix for any of so many rows."""
        empty = np.full(n_rows, "", dtype=object)
        return cls(empty, np.full(n_rows, np.nan), np.full(n_rows, np.nan), empty.copy())


@dataclass(frozen=True, eq=False)
class Learned:
    """How many rows are of each kind, then of each part of clean ones, and where true values lie.

    `belief` holds the probabilities of the kinds in the rows that were learned from.
    """

    counts: Vector
    belief: Matrix
    truth: TrueValues
    log_likelihood: float


@dataclass(frozen=True, eq=False)
class Lesson:
    """What was learned, and the factor (logarithm, spread) that rows share, if there is one."""

    learned: Learned
    ratio: tuple[float, float] | None = None

    def kinds(self, rows: RowsInQuestion) -> list[Mistake]:
        """Return the kinds of mistake for some rows."""
        kinds = mistakes_in(rows)
        return kinds if self.ratio is None else [*kinds, common_factor(rows, *self.ratio)]


def likely_fixes(
    given: Vector,
    predicted: Vector,
    scale: Vector | float,
    *,
    quality: Vector | None = None,
    above: Vector | None = None,
    others: Vector | None = None,
    clean: Vector | None = None,
    partners: Sequence[SwapPartner] = (),
    transform: TargetTransform = IDENTITY,
) -> Fixes:
    """Return the likely fix of rows that look wrong.

    Parameters
    ----------
    given, predicted
        The target as it stands in these rows, and as the model predicts it.
    scale
        Standard deviation of clean rows around their predictions, one for all or one per row.
    quality
        Probability that each row is clean after all. None: zero.
    above
        The target in the row above each of these. None: unknown.
    others
        The target in all rows of the table, these included. None: only these are known.
    clean
        How far the rows that look clean are from their predictions, in noise scales, which tells
        how far true values may be. None: as far as noise usually takes them.
    partners
        Columns that the target may have changed places with.
    transform
        What was fitted in place of the target, and what `scale` belongs to.

    Examples
    --------
    >>> fixes = likely_fixes(np.array([4210.0, 41.9]), np.array([420.0, 417.0]), 5.0)
    >>> fixes.fix.tolist(), fixes.value.tolist()
    (['divide by 10', 'multiply by 10'], [421.0, 419.0])
    """
    given = np.asarray(given, dtype=np.float64)
    if not given.size:
        return Fixes.none(0)
    rows = _rows(given, predicted, scale, quality, above, others, partners, transform)
    few = np.linspace(0, given.size - 1, min(given.size, MOST_LEARNED)).astype(np.intp)
    seen = CleanRows.usual(UNSEEN * given.size) if clean is None else CleanRows.of(clean)
    lesson = _lesson(rows.some(few), seen)
    if given.size == few.size:
        return _chosen(rows, lesson, lesson.learned.belief)
    blocks = [
        _chosen(rows.some(np.arange(i, min(i + BLOCK_ROWS, given.size))), lesson)
        for i in range(0, given.size, BLOCK_ROWS)
    ]
    return Fixes(
        fix=np.concatenate([block.fix for block in blocks]),
        value=np.concatenate([block.value for block in blocks]),
        probability=np.concatenate([block.probability for block in blocks]),
        cause=np.concatenate([block.cause for block in blocks]),
    )


def _rows(
    given: Vector,
    predicted: Vector,
    scale: Vector | float,
    quality: Vector | None,
    above: Vector | None,
    others: Vector | None,
    partners: Sequence[SwapPartner],
    transform: TargetTransform,
) -> RowsInQuestion:
    predicted = np.asarray(predicted, dtype=np.float64)
    size = np.maximum(np.abs(given), np.abs(predicted))
    # Where a model fits exactly, what is left is rounding.
    least = np.maximum(1e-9 * size * np.exp(transform.log_slope(size)), 1e-300)
    scales = np.maximum(np.broadcast_to(scale, given.shape), least)
    whole = given if others is None else np.asarray(others, dtype=np.float64)
    table = np.sort(whole)
    equal = _between(table, given, given)
    clean = np.zeros(given.size) if quality is None else np.asarray(quality)
    grid = Grid.of(_rest(table, given))
    error = np.maximum(np.abs(distance(transform, given, predicted)), scales)
    around = 3.0 * scales / np.exp(slope_at(transform, given, predicted))
    return RowsInQuestion(
        given=given,
        predicted=predicted,
        scale=scales,
        quality=clean,
        above=np.full(given.size, np.nan) if above is None else np.asarray(above),
        equal=np.maximum(equal, 1.0),
        nearby=_between(table, given - around, given + around) - equal,
        equal_if_scaled=_equal_if_scaled(table, given),
        repeated=_repeated(whole, given),
        usual_share=float(np.median(_between(table, table, table))) / table.size,
        n_rows=table.size,
        n_wrong=given.size,
        step=grid.step or resolution(given),
        grid=grid,
        sizes=ErrorSizes.of(error, np.where(error >= NOTICED * scales, 1.0 - clean, 0.0)),
        partners=partners,
        transform=transform,
    )


def _rest(table: Vector, given: Vector) -> Vector:
    """Return the sorted values but some of them."""
    order = np.sort(given)
    first = np.searchsorted(table, order, "left")
    repeat = np.arange(order.size) - np.searchsorted(order, order, "left")
    return np.delete(table, np.minimum(first + repeat, table.size - 1))


def _between(table: Vector, low: Vector, high: Vector) -> Vector:
    """Return how many of the sorted values lie between bounds, these included."""
    first, last = np.searchsorted(table, low, "left"), np.searchsorted(table, high, "right")
    return np.asarray(last - first, dtype=np.float64)


def _equal_if_scaled(table: Vector, given: Vector) -> Vector:
    """Return how many of the sorted values are the given one over or times a listed factor."""
    values, places = np.unique(given, return_inverse=True)
    most = np.zeros(values.size)
    for factor in FACTORS:
        for scaled in (values / factor, values * factor):
            rounding = 1e-9 * np.abs(scaled)
            most = np.maximum(most, _between(table, scaled - rounding, scaled + rounding))
    return np.asarray(most[places])


def _repeated(whole: Vector, given: Vector) -> Vector:
    """Return which share of the rows with a value follow one with the same value.

    Zero where the value has too few places for that to be a habit of the table.
    """
    values, places = np.unique(whole, return_inverse=True)
    follows = np.append(False, whole[1:] == whole[:-1])
    counts = np.bincount(places, minlength=values.size)
    following = np.bincount(places, weights=follows, minlength=values.size)
    share = np.where(counts - following >= FEWEST_ALIKE, following / np.maximum(counts, 1), 0.0)
    at = np.clip(np.searchsorted(values, given), 0, values.size - 1)
    return np.asarray(np.where(values[at] == given, share[at], 0.0))


def _matter(rows: RowsInQuestion) -> Vector:
    """Return how much each row tells about the kinds: those with small errors tell nothing."""
    noticed = rows.off >= NOTICED * rows.scale
    return np.where(noticed, 1.0 - rows.quality, 0.0)


def _learned_counts(
    rows: RowsInQuestion, kinds: Sequence[Mistake], clean: CleanRows, held: frozenset[str]
) -> Learned:
    """Return how many rows are of each kind, and of each part of clean ones.

    Expectation maximisation, in which a row's own belief rests on what the other rows vouch for.
    Kinds whose fix is `held` stay as common as the prior has them.
    """
    prior = np.array([kind.prior for kind in kinds])
    parts = np.maximum(TrueValues.expected().rows, LEAST_PART)
    prior = np.append(PRIOR_ROWS * prior / prior.sum(), parts)
    n_kinds, own = len(kinds), clean_parts(rows)
    matter = _matter(rows)[:, None] * np.append(
        [kind.fix not in held for kind in kinds], np.ones(parts.size)
    )
    counts = prior.copy()
    for _ in range(ROUNDS):
        counts[n_kinds:] = parts + clean.shared(counts[n_kinds:])
    truth, belief, density = TrueValues(counts[n_kinds:]), np.empty(0), own
    for _ in range(ROUNDS_OF_TRUTH):
        each = as_matrix([kind.log_density(truth) for kind in kinds])
        density = np.concatenate([each, own], axis=1)
        belief = _belief(density, counts)
        for _ in range(ROUNDS):
            shared = clean.shared(counts[n_kinds:])
            counts = prior + np.sum(matter * belief, axis=0)
            counts[n_kinds:] += shared
            belief = _belief(density, counts - matter * belief)
        truth = TrueValues(counts[n_kinds:])
    share = counts / counts.sum()
    with np.errstate(divide="ignore"):
        likely = float(_matter(rows) @ logsumexp(density + np.log(share), axis=1))
    return Learned(counts, belief, truth, likely + clean.log_likelihood(share[n_kinds:]))


def _belief(density: Matrix, counts: Matrix | Vector) -> Matrix:
    """Return the probability of every kind in every row, given how often others are of it."""
    with np.errstate(divide="ignore"):
        joint = density + np.log(np.maximum(counts, 1e-300))
    return np.asarray(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)))


def _lesson(rows: RowsInQuestion, clean: CleanRows) -> Lesson:
    """Learn how common the kinds are, and whether rows share a factor that none of them has."""
    kinds = mistakes_in(rows)
    lesson = _with_earned(rows, kinds, clean)
    matter = _matter(rows)
    before, best = lesson.learned.log_likelihood, -np.inf
    by_chance = SEARCHED + np.log(max(float(matter.sum()), 1.0))
    fixed = np.array([bool(kind.fix) for kind in kinds])
    without_rule = 1.0 - lesson.learned.belief[:, : len(kinds)][:, fixed].sum(axis=1)
    for unexplained in (matter, matter * without_rule):
        ratio = _most_common_ratio(rows, unexplained)
        if ratio is None:
            continue
        for _ in range(ROUNDS_OF_RATIO):
            tried = _learned_counts(rows, [*kinds, common_factor(rows, *ratio)], clean, NO_FIX)
            ratio = _refined(rows, ratio, matter * tried.belief[:, len(kinds)])
        found = _with_earned(rows, [*kinds, common_factor(rows, *ratio)], clean)
        after, claimed = found.learned.log_likelihood, found.learned.counts[len(kinds)]
        claimed = 0.0 if is_listed(ratio[0]) else claimed
        # Errors of all sizes gather somewhere, which explains each of many rows a little better.
        if after > max(best, before + max(by_chance, claimed)):
            lesson, best = replace(found, ratio=ratio), after
    return lesson


def _with_earned(rows: RowsInQuestion, kinds: Sequence[Mistake], clean: CleanRows) -> Lesson:
    """Let rows vouch for others of their kind only where together they earn it.

    Where kinds explain rows about equally well, chance makes one of them common and the other
    rare: few rows of twelve times the value beside many of ten times. Kinds that the rows are
    explained nearly as well without are no more common than the prior has them.
    """
    n = max(float(_matter(rows).sum()), 1.0)
    usual = {kind.fix: kind.prior for kind in reversed(kinds)}
    price = {fix: EARNED + 0.5 * np.log(n) - np.log(prior) for fix, prior in usual.items()}

    def found(held: frozenset[str]) -> tuple[float, frozenset[str], Learned]:
        learned = _learned_counts(rows, kinds, clean, held)
        paid = sum(price[fix] for fix in _present(kinds, learned) - held)
        return learned.log_likelihood - paid, held, learned

    best = found(NO_FIX)
    while True:
        score, held, learned = best
        others = [found(held | {fix}) for fix in sorted(_present(kinds, learned) - held)]
        better = max(others, key=lambda each: each[0], default=best)
        if better[0] <= score:
            return Lesson(learned)
        best = better


def _present(kinds: Sequence[Mistake], learned: Learned) -> set[str]:
    """Return the fixes of which there is a row besides what the prior has."""
    prior = sum(kind.prior for kind in kinds)
    rows: dict[str, float] = {}
    for kind, count in zip(kinds, learned.counts[: len(kinds)], strict=True):
        if kind.fix:
            rows[kind.fix] = rows.get(kind.fix, 0.0) + count - PRIOR_ROWS * kind.prior / prior
    return {fix for fix, count in rows.items() if count > LEAST_ROWS}


def _most_common_ratio(rows: RowsInQuestion, counts: Vector) -> tuple[float, float] | None:
    """Return the logarithm of the factor that most rows share, and its spread."""
    ratio, _ = log_ratios(rows)
    telling = np.isfinite(ratio) & (np.abs(ratio) > LEAST_FACTOR)
    if rows.transform.is_identity:  # others keep their sign, whatever the noise
        telling &= np.abs(rows.predicted) > 3.0 * rows.scale
    if np.sum(counts[telling]) < FEWEST_ALIKE - 0.5:
        return None
    order = np.argsort(ratio[telling])
    values, weights = ratio[telling][order], counts[telling][order]
    total = np.append(0.0, np.cumsum(weights))
    first = np.searchsorted(values, values - REACH)
    last = np.searchsorted(values, values + REACH, side="right")
    mass = total[last] - total[first]
    best = int(np.argmax(mass))
    if mass[best] < FEWEST_ALIKE - 0.5:
        return None
    alike, weight = values[first[best] : last[best]], weights[first[best] : last[best]]
    center = nearest_listed(float(np.average(alike, weights=weight)))
    spread = float(np.sqrt(np.average(np.square(alike - center), weights=weight)))
    return center, float(np.clip(spread, NARROWEST, WIDEST))


def _refined(
    rows: RowsInQuestion, ratio: tuple[float, float], counts: Vector
) -> tuple[float, float]:
    """Return the factor that the rows of its kind show, of which noise tells some more exactly."""
    found, noise = log_ratios(rows)
    own = counts > 0.01
    if np.sum(counts[own]) < FEWEST_ALIKE - 0.5:
        return ratio
    weight = counts[own] / (ratio[1] ** 2 + np.square(noise[own]))
    center = nearest_listed(float(np.average(found[own], weights=weight)))
    beyond = np.square(found[own] - center) - np.square(noise[own])
    spread = float(np.sqrt(max(np.average(beyond, weights=weight), 0.0)))
    return center, float(np.clip(spread, NARROWEST, WIDEST))


def _chosen(rows: RowsInQuestion, lesson: Lesson, belief: Matrix | None = None) -> Fixes:
    kinds, truth = lesson.kinds(rows), lesson.learned.truth
    if belief is None:
        each = as_matrix([kind.log_density(truth) for kind in kinds])
        belief = _belief(np.concatenate([each, clean_parts(rows)], axis=1), lesson.learned.counts)
    fixes = list(dict.fromkeys(kind.fix for kind in kinds if kind.fix))
    probable = np.zeros((rows.given.size, len(fixes)))
    value = np.full(probable.shape, np.nan)
    most = np.full(probable.shape, -1.0)
    for place, kind in enumerate(kinds):
        if not kind.fix:
            continue
        fix = fixes.index(kind.fix)
        best, part = kind.best(truth)
        own = belief[:, place] * part * (1.0 - rows.quality)
        # A kind may be there several times: a factor with the spread that its rows have.
        value[:, fix] = np.where(own > most[:, fix], best, value[:, fix])
        most[:, fix] = np.maximum(own, most[:, fix])
        probable[:, fix] += own
    first = [next(kind for kind in kinds if kind.fix == fix) for fix in fixes]
    chosen = np.argmax(probable, axis=1)[:, None]
    probability = np.take_along_axis(probable, chosen, axis=1)[:, 0]
    values = np.take_along_axis(value, chosen, axis=1)[:, 0]
    large, clear = (rows.off >= size * rows.scale for size in (LARGE, CLEAR))
    needed = np.where(clear, SUGGESTED, SUGGESTED_NEARBY)
    found = Fixes.none(rows.given.size)
    for row in np.flatnonzero((probability >= needed) & large):
        kind = first[chosen[row, 0]]
        fixed = float(values[row])
        if kind.value.ndim > 1:
            fixed = float(decimal(values[[row]], rows.given[[row]])[0])
        found.fix[row], found.cause[row] = kind.fix, kind.cause.format(number(fixed))
        found.value[row], found.probability[row] = fixed, probability[row]
    return found
