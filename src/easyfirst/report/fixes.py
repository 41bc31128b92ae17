"""What would put a wrong row right: a posterior over simple mistakes, given the model.

Each kind of mistake (`mistakes`) says how likely it makes the given value. How common the kinds
are is learned from the rows themselves, starting from a prior worth a few rows: where a hundred
rows are ten times the prediction, the next one is too. Against all kinds stand a mistake without a
rule and the chance that the row is clean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from easyfirst.contracts import Matrix, Vector
from easyfirst.report.digits import resolution
from easyfirst.report.mistakes import (
    FACTORS,
    NOTICED,
    ErrorSizes,
    Mistake,
    RowsInQuestion,
    SwapPartner,
    as_matrix,
    common_factor,
    distance,
    mistakes_in,
    nearest_listed,
    slope_at,
)
from easyfirst.report.wording import number
from easyfirst.transforms import IDENTITY, TargetTransform

SUGGESTED = 0.5  # probability from which a fix is named ...
LARGE = 5.0  # ... of an error of at least so many noise scales: smaller ones fit too much
# A long tail on one side looks like a small factor, for which its rows vouch together.
CLEAR, SUGGESTED_NEARBY = 8.0, 0.8  # noise scales below which a fix must be more probable
PRIOR_ROWS = 8.0  # rows' worth of the prior in the counts of the kinds
ROUNDS = 30
FEWEST_ALIKE = 3  # rows that make a common factor
REACH = 0.3  # half-width, in logarithms, in which factors count as alike
NARROWEST, WIDEST = 0.02, 0.2  # spread of a common factor's logarithm
LEAST_FACTOR = np.log(1.5)
SEARCHED = 4.0  # log-likelihood that a factor found by looking everywhere gains by chance
MOST_LEARNED = 20_000  # rows, evenly spread, from which the counts are learned
BLOCK_ROWS = 20_000
# Log-likelihood that a factor must gain, once and per row, over another that could stand for it.
GAINED, GAINED_PER_ROW = 3.0, 1.0
LEAST_ROWS = 0.5  # of a factor before it can compete with another


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
class Lesson:
    """How many rows are of each kind, and the factor (logarithm, spread) that rows share.

    `belief` holds the probabilities of the kinds in the rows that were learned from; `left_out` are
    the fixes by factors for which others stand.
    """

    counts: Vector
    belief: Matrix
    ratio: tuple[float, float] | None = None
    left_out: frozenset[str] = frozenset()

    def kinds(self, rows: RowsInQuestion) -> list[Mistake]:
        """Return the kinds of mistake for some rows."""
        kinds = mistakes_in(rows)
        if self.ratio is not None:
            kinds.append(common_factor(rows, *self.ratio))
        return _without(kinds, self.left_out)


def likely_fixes(
    given: Vector,
    predicted: Vector,
    scale: Vector | float,
    *,
    quality: Vector | None = None,
    above: Vector | None = None,
    others: Vector | None = None,
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
    lesson = _learned(rows.some(few))
    if given.size == few.size:
        return _chosen(rows, lesson, lesson.belief)
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
        step=resolution(given),
        sizes=ErrorSizes.of(error, np.where(error >= NOTICED * scales, 1.0 - clean, 0.0)),
        partners=partners,
        transform=transform,
    )


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


def _counts(rows: RowsInQuestion, kinds: Sequence[Mistake]) -> tuple[Vector, Matrix]:
    """Return how many of these rows are of each kind, with the prior's rows among them.

    Also return each row's own belief, for which the other rows vouch and not the row itself.
    """
    prior = np.array([kind.prior for kind in kinds])
    prior = PRIOR_ROWS * prior / prior.sum()
    density = as_matrix([kind.log_density for kind in kinds])
    matter = _matter(rows)[:, None]
    belief = _belief(density, prior)
    for _ in range(ROUNDS):
        counts = prior + np.sum(matter * belief, axis=0)
        belief = _belief(density, counts - matter * belief)
    return prior + np.sum(matter * belief, axis=0), belief


def _belief(density: Matrix, counts: Matrix | Vector) -> Matrix:
    """Return the probability of every kind in every row, given how often others are of it."""
    with np.errstate(divide="ignore"):
        joint = density + np.log(counts)
    return np.asarray(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)))


def _learned(rows: RowsInQuestion) -> Lesson:
    """Learn how common the kinds are, and whether rows share a factor that none of them has."""
    kinds = mistakes_in(rows)
    lesson = Lesson(*_counts(rows, kinds))
    matter = _matter(rows)
    # Rows that all come near a factor are what a common one is learned from, not its rival.
    rivals = [kind for kind in kinds if not kind.near]
    before = _explained(rows, rivals, matter)
    best = SEARCHED + np.log(max(float(matter.sum()), 1.0))  # what chance would gain
    without_rule = np.array([not kind.fix for kind in kinds])
    for unexplained in (matter, matter * lesson.belief[:, without_rule].sum(axis=1)):
        ratio = _most_common_ratio(rows, unexplained)
        if ratio is None:
            continue
        common = common_factor(rows, *ratio)
        after = _explained(rows, [*rivals, common], matter)
        if after - before > best:
            lesson = Lesson(*_counts(rows, [*kinds, common]), ratio)
            best = after - before
    return _with_fewer_factors(rows, lesson)


def _without(kinds: Sequence[Mistake], left_out: frozenset[str]) -> list[Mistake]:
    """Return the kinds but some fixes, and but near misses of these."""
    return [each for each in kinds if not left_out & {each.fix, each.near}]


def _with_fewer_factors(rows: RowsInQuestion, lesson: Lesson) -> Lesson:
    """Leave out factors whose rows another factor explains nearly as well.

    Where the noise is wide, a row alone cannot tell 12 from 10. All rows together can, and few
    tables hold both.
    """
    matter = _matter(rows)
    while True:
        kinds = lesson.kinds(rows)
        loser = _superfluous(kinds, lesson.counts, matter)
        if loser is None:
            return lesson
        left_out = lesson.left_out | {loser}
        lesson = Lesson(*_counts(rows, _without(kinds, left_out)), lesson.ratio, left_out)


def _superfluous(kinds: Sequence[Mistake], counts: Vector, matter: Vector) -> str | None:
    """Return the factor that is missed least, if another stands for it, or None."""
    scaled = as_matrix([kind.log_density for kind in kinds])
    with np.errstate(divide="ignore"):
        whole = logsumexp(scaled + np.log(counts), axis=1)
    density = np.exp(scaled - whole[:, None])  # of rows by a kind, over that by all kinds
    by_fix: dict[str, list[int]] = {}
    for place, kind in enumerate(kinds):
        if kind.log_factor is not None:
            by_fix.setdefault(kind.fix, []).append(place)
    own = PRIOR_ROWS / sum(kind.prior for kind in kinds)
    rows_of = {
        fix: sum(counts[j] - own * kinds[j].prior for j in places) for fix, places in by_fix.items()
    }
    present = [fix for fix in by_fix if rows_of[fix] > LEAST_ROWS]
    prior = {fix: float(np.log(kinds[by_fix[fix][0]].prior)) for fix in present}
    loser, least = None, np.inf
    for fix in present:
        for other in present:
            if fix == other:
                continue
            without = _loss(density, counts, matter, by_fix[fix], by_fix[other])
            instead = _loss(density, counts, matter, by_fix[other], by_fix[fix])
            beaten = without - prior[other] < instead - prior[fix]
            apart = _distance(density, counts, matter, by_fix[fix], by_fix[other])
            needed = GAINED_PER_ROW * rows_of[fix]
            # Few rows earn less than a factor costs, which only a like one makes them pay.
            rate = without / (needed + GAINED if apart < needed + GAINED else needed)
            if beaten and rate < min(1.0, least):
                loser, least = fix, rate
    return loser


def _loss(
    density: Matrix, counts: Vector, matter: Vector, lost: Sequence[int], kept: Sequence[int]
) -> float:
    """Return the log-likelihood lost where some kinds' rows have to be of others."""
    moved = counts[lost].sum()
    share = counts[kept] / counts[kept].sum()
    change = density[:, kept] @ (moved * share) - density[:, lost] @ counts[lost]
    return float(-matter @ np.log(np.maximum(1.0 + change, 1e-300)))


def _distance(
    density: Matrix, counts: Vector, matter: Vector, lost: Sequence[int], kept: Sequence[int]
) -> float:
    """Return the log-likelihood lost if each row of some kinds were one of the others."""
    by_lost, by_kept = (
        np.maximum(density[:, places] @ (counts[places] / counts[places].sum()), 1e-300)
        for places in (lost, kept)
    )
    own = matter * (density[:, lost] @ counts[lost])
    return float(own @ np.log(by_lost / by_kept))


def _most_common_ratio(rows: RowsInQuestion, counts: Vector) -> tuple[float, float] | None:
    """Return the logarithm of the factor that most rows share, and its spread."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.log(rows.given / rows.predicted)
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


def _explained(rows: RowsInQuestion, kinds: Sequence[Mistake], matter: Vector) -> float:
    """Return the log-likelihood of rows by some kinds of mistake, each as common as it is here."""
    counts, _ = _counts(rows, kinds)
    density = as_matrix([kind.log_density for kind in kinds])
    with np.errstate(divide="ignore"):
        return float(matter @ logsumexp(density + np.log(counts / counts.sum()), axis=1))


def _chosen(rows: RowsInQuestion, lesson: Lesson, belief: Matrix | None = None) -> Fixes:
    kinds = lesson.kinds(rows)
    if belief is None:
        belief = _belief(as_matrix([kind.log_density for kind in kinds]), lesson.counts)
    parts = as_matrix([kind.part for kind in kinds])
    fixes = list(dict.fromkeys(kind.fix for kind in kinds if kind.fix))
    first = [next(kind for kind in kinds if kind.fix == fix) for fix in fixes]
    # A factor may be there twice: with the usual noise, and with the spread that its rows have.
    same = np.array([[kind.fix == fix for fix in fixes] for kind in kinds], dtype=np.float64)
    probable = (belief * parts * (1.0 - rows.quality)[:, None]) @ same
    best = np.argmax(probable, axis=1)
    probability = np.take_along_axis(probable, best[:, None], axis=1)[:, 0]
    large, clear = (rows.off >= size * rows.scale for size in (LARGE, CLEAR))
    needed = np.where(clear, SUGGESTED, SUGGESTED_NEARBY)
    found = Fixes.none(rows.given.size)
    for row in np.flatnonzero((probability >= needed) & large):
        kind = first[best[row]]
        found.fix[row], found.cause[row] = kind.fix, kind.cause.format(number(kind.value[row]))
        found.value[row], found.probability[row] = kind.value[row], probability[row]
    return found
