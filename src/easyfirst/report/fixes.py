"""What would put a wrong row right: a posterior over simple mistakes, given the model.

Each kind of mistake (`mistakes`) says how likely it makes the given value. How common the kinds
are, and how errors without a rule are distributed, is learned from the rows themselves (`lesson`):
where a hundred rows are ten times the prediction, the next one is too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Matrix, Vector
from easyfirst.report.digits import resolution
from easyfirst.report.lesson import Lesson, learned
from easyfirst.report.mistakes import (
    FACTORS,
    LEARNED_FACTOR,
    RowsInQuestion,
    SwapPartner,
    as_matrix,
    slope_at,
)
from easyfirst.report.true_values import TrueValues
from easyfirst.report.wording import number
from easyfirst.report.writing import Writing
from easyfirst.transforms import IDENTITY, TargetTransform

SUGGESTED = 0.5  # probability from which a fix is named: nothing else says as much ...
LARGE = 5.0  # ... of an error of at least so many noise scales: smaller ones fit too much
# A long tail on one side looks like a small factor, for which its rows vouch together.
CLEAR, SUGGESTED_NEARBY = (
    8.0,
    0.8,
)  # noise scales below which a fix must be more probable; as must a learned factor
MOST_UNUSUAL = 0.05  # share of a sign among rows that look clean; some may be wrong and unnoticed
FEWEST_ALIKE = 3  # places of a value before it can be a habit of the table
MOST_LEARNED = 5_000  # rows, evenly spread, from which the counts are learned
BLOCK_ROWS = 20_000


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
    truth = TrueValues.around(clean)
    rows = _rows(given, predicted, scale, quality, above, others, truth, partners, transform)
    few = np.linspace(0, given.size - 1, min(given.size, MOST_LEARNED)).astype(np.intp)
    lesson, belief = learned(rows.some(few))
    if given.size == few.size:
        return _chosen(rows, lesson, belief)
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
    truth: TrueValues,
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
    around = 3.0 * scales / np.exp(slope_at(transform, given, predicted))
    nearby = _between(table, given - around, given + around)
    wrong_nearby = _between(np.sort(given), given - around, given + around)
    rest = _rest(table, given)
    rest = rest[np.isfinite(rest)]
    writing = Writing.of(rest)
    sign = _unusual_sign(rest)
    return RowsInQuestion(
        given=given,
        predicted=predicted,
        scale=scales,
        quality=clean,
        above=np.full(given.size, np.nan) if above is None else np.asarray(above),
        equal=np.maximum(equal, 1.0),
        nearby=nearby - equal,
        clean_range=(float(rest[0]), float(rest[-1])) if rest.size else None,
        whole_range=(float(table[0]), float(table[-1])) if rest.size else None,
        unusual_sign=sign,
        crossing_share=(float(np.sum(sign * rest > 0.0)) + 0.5) / (rest.size + 1.0),
        clean_nearby=np.maximum(nearby - wrong_nearby, 0.0),
        equal_if_scaled=_equal_if_scaled(table, given),
        repeated=_repeated(whole, given),
        usual_share=float(np.median(_between(table, table, table))) / table.size,
        n_rows=table.size,
        n_wrong=given.size,
        step=writing.steps[0] if writing.steps.size else resolution(given),
        writing=writing,
        truth=truth,
        partners=partners,
        transform=transform,
    )


def _rest(table: Vector, given: Vector) -> Vector:
    """Return the sorted values but some of them."""
    order = np.sort(given)
    first = np.searchsorted(table, order, "left")
    repeat = np.arange(order.size) - np.searchsorted(order, order, "left")
    return np.delete(table, np.minimum(first + repeat, table.size - 1))


def _unusual_sign(rest: Vector) -> float:
    """Return the sign that hardly any of the values have; zero if there is none."""
    for sign in (-1.0, 1.0):
        if np.sum(sign * rest > 0.0) < MOST_UNUSUAL * rest.size:
            return sign
    return 0.0


def _between(table: Vector, low: Vector, high: Vector) -> Vector:
    """Return how many of the sorted values lie between bounds, these included."""
    first, last = np.searchsorted(table, low, "left"), np.searchsorted(table, high, "right")
    return np.asarray(last - first, dtype=np.float64)


def _equal_if_scaled(table: Vector, given: Vector) -> Vector:
    """Return how many of the sorted values a listed factor or a wrong sign makes the given one."""
    values, places = np.unique(given, return_inverse=True)
    most = np.zeros(values.size)
    for times in (-1.0, *FACTORS, *(1.0 / factor for factor in FACTORS)):
        scaled = times * values
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


def _chosen(rows: RowsInQuestion, lesson: Lesson, belief: Matrix | None = None) -> Fixes:
    kinds = lesson.kinds(rows)
    if belief is None:
        belief = lesson.belief(rows, kinds)
    named = [place for place, kind in enumerate(kinds) if kind.fix]
    probable = belief[:, named] * as_matrix([kinds[place].part for place in named])
    probable *= (1.0 - rows.quality)[:, None]
    best = np.argmax(probable, axis=1)
    values = as_matrix([kinds[place].value for place in named])
    value = np.take_along_axis(values, best[:, None], axis=1)
    # Several kinds may say the same: a factor, rounded afterwards or not.
    fixes = list(dict.fromkeys(kinds[place].fix for place in named))
    which = np.array([fixes.index(kinds[place].fix) for place in named])
    agree = (which == which[best][:, None]) & ((values == value) | np.isnan(value))
    probability = np.sum(np.where(agree, probable, 0.0), axis=1)
    large, clear = (rows.off >= size * rows.scale for size in (LARGE, CLEAR))
    # Among many errors without a rule, some factor always suits a few.
    is_learned = np.array([LEARNED_FACTOR in kinds[place].fix for place in named])[best]
    # A tail ends before zero where values have one sign.
    needed = np.where((clear | rows.crossed) & ~is_learned, SUGGESTED, SUGGESTED_NEARBY)
    found = Fixes.none(rows.given.size)
    for row in np.flatnonzero((probability >= needed) & large):
        kind, fixed = kinds[named[best[row]]], float(value[row, 0])
        found.fix[row], found.cause[row] = kind.fix, kind.cause.format(number(fixed))
        found.value[row], found.probability[row] = fixed, probability[row]
    return found
