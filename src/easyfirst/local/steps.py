"""The steps a worker runs: pure functions of (batch, message to this batch, message to all).

A step may ask the resident's memory for what it computed last time, but returns the same bits
without it. Weights are never sent: they follow from the coefficients and the pace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Batch, Block, BlockStep, Matrix, Resident, Vector
from easyfirst.local.design import squared
from easyfirst.local.weighing import (
    Problem,
    Weighting,
    are_alike,
    block_bands,
    importance,
    judged_residual,
    pacing_values,
    residual_at,
    row_scales,
    row_weights,
    rows_aside,
    weigh,
    weigh_block,
    weigher,
    weights_afresh,
    with_known,
)
from easyfirst.losses import Loss
from easyfirst.noise import influence_slope
from easyfirst.summaries import histograms

NO_MATRIX, NO_VECTOR = np.zeros((0, 0)), np.zeros(0)
TRUSTED_IN_SAMPLE = 0.1  # share of a sample that may be trusted rows drawn on purpose
ROWS_FOR_MOMENTS = (64, 256)  # least and most per batch; enough to tell position from spread


@dataclass(frozen=True, eq=False)
class Description:
    """First facts about a batch: sizes, moments of y, moments of a few rows of X."""

    n_samples: int
    n_entries: int  # of X that are stored
    n_weighted: int
    n_trusted: int
    total_weight: float
    y_mean: Vector  # a number, or one for each target
    y_scatter: float
    y_least: float
    column_sum: Vector
    column_square: Vector
    column_rows: int
    complaint: str | None


@dataclass(frozen=True, eq=False)
class Statistics:
    """What one batch tells the driver about its weighted rows.

    Sums are over rows with sample weight s and self-paced weight v: gram = sum s v d d',
    rhs = sum s v d y, square = sum s v y**2, pacing = sum s f(v), weight = sum s v,
    selected = sum s [v >= 1/2], changed = sum s |v - v before|.

    For losses that are not squared (`derivatives.py`), with value l, slope l' and curvature l'':
    gram = sum s v l''/2 d d', rhs = -sum s v l'/2 d and square = sum s v l at some coefficients.
    The scale of the gradient is then that of size = sum s v (l'/2)**2 at a prediction of zero
    and of squares = sum s v d**2; for the squared loss, of `square` and the diagonal of `gram`.
    """

    gram: Matrix
    rhs: Vector
    square: Any  # a number; of several targets, one for each, and `rhs` has lines
    pacing: float
    weight: float
    selected: float
    changed: float
    total: float
    size: float = 0.0
    squares: Vector | None = None


def describe(resident: Resident, message: None, loss: Loss) -> Description:
    """Describe the batch before anything is fitted, and say whether its y suits the loss."""
    del message
    batch = resident.batch
    s = batch.sample_weight
    present = None if s is None else np.flatnonzero(s)
    n_present = batch.n_samples if present is None else int(present.size)
    total = float(batch.n_samples if s is None else s.sum())
    mean = _summed(batch.y, s) / total if total else np.zeros(batch.y.shape[1:])
    wanted = min(max(n_present // 8, ROWS_FOR_MOMENTS[0]), ROWS_FOR_MOMENTS[1])
    some = slice(None, None, max(1, n_present // wanted))
    rows = batch.X[some if present is None else present[some]].astype(np.float64)
    return Description(
        n_samples=batch.n_samples,
        n_entries=int(batch.X.size),
        n_weighted=n_present,
        n_trusted=0 if batch.trusted is None else int(np.count_nonzero(batch.trusted)),
        total_weight=total,
        y_mean=mean,
        y_scatter=float(np.sum(_summed(np.square(batch.y - mean), s))),
        y_least=float(np.min(batch.y if present is None else batch.y[present], initial=np.inf)),
        column_sum=np.asarray(rows.sum(axis=0)).ravel(),
        column_square=np.asarray(squared(rows).sum(axis=0)).ravel(),
        column_rows=int(rows.shape[0]),
        complaint=loss.complaint(batch.y if present is None else batch.y[present]),
    )


def summarize(resident: Resident, weighting: Weighting, problem: Problem) -> Vector:
    """Return signed histograms, one per band, of the residuals that judge the rows.

    Where some rows are trusted, one more histogram counts those again. Rows whose y is set aside
    are not counted.
    """
    residual = judged_residual(resident, weighting, problem)
    return np.asarray(residual_histograms(Block.of(resident), residual, problem)[0])


def residual_histograms(block: Block, residual: Vector, problem: Problem) -> Vector:
    """Return those of every batch, one per band and maybe one more."""
    k, s = len(block.residents), block.rows.sample_weight
    signed = problem.loss.signed_root(block.rows.y, residual)
    group, n_bands = None if k == 1 else block.batch_of, 1
    if problem.far_rule is not None:
        n_bands, bands = problem.far_rule.n_bands, block_bands(block, problem.far_rule)
        group = bands if group is None else n_bands * group + bands

    def counts(rows: Any, group: NDArray[np.intp] | None, n_groups: int) -> Vector:
        own, numbers = None if s is None else s[rows], None if group is None else group[rows]
        found = histograms(signed[rows], own, problem.anchor, numbers, n_groups, problem.cell)
        return found.reshape(k, -1, *found.shape[1:])

    aside = rows_aside(block, problem)
    found = counts(slice(None) if aside is None else ~aside, group, k * n_bands)
    if not problem.has_trusted:
        return found
    known = np.zeros(signed.size, dtype=bool) if block.rows.trusted is None else block.rows.trusted
    again = counts(known if aside is None else known & ~aside, block.batch_of, k)
    return np.concatenate([found, again], axis=1)


@dataclass(frozen=True)
class Change:
    """From which weights to which: `now` from `before`, and a `reference` known from earlier."""

    now: Weighting
    before: Weighting | None = None
    reference: Weighting | None = None


@BlockStep
def form(block: Block, changes: Sequence[Change], problem: Problem) -> list[Statistics]:
    """Weigh the rows and return the weighted statistics."""
    counted, tallies = weigh_and_count(block, changes, problem)
    replies = []
    each = zip(block.residents, changes, block.split(counted), tallies, strict=True)
    for resident, change, own, tally in each:
        inner, rhs = _gram(resident, own, change, problem)
        y_squared = resident.recall("y squared", (), partial(np.square, resident.batch.y))
        replies.append(replace(tally, gram=inner, rhs=rhs, square=float(own @ y_squared)))
    return replies


def pull(resident: Resident, change: Change, problem: Problem) -> Statistics:
    """Weigh the rows and return their statistics around the coefficients that judge them.

    `rhs` is D'R r and `square` the weighted loss, r the residuals; there is no Gram matrix.
    """
    counted, [counts] = weigh_and_count(Block.of(resident), [change], problem)
    assert change.now.coef is not None
    residual = residual_at(resident, change.now.coef, problem)
    rhs = problem.design(resident.batch).transposed_times(counted * residual)
    return replace(counts, rhs=rhs, square=float(counted @ np.square(residual)))


def _gram(
    resident: Resident, row_weights: Vector, change: Change, problem: Problem
) -> tuple[Matrix, Vector]:
    """Return the Gram matrix and right-hand side, from the reference's where few rows differ.

    A pure function of the two sets of weights: the reference's matrix is summed from its rows
    alone, whatever path led here, so a worker that lost it gets the same bits.
    """
    batch, reference = resident.batch, change.reference
    design = problem.design(batch)

    def summed(weighting: Weighting, values: Vector) -> tuple[Matrix, Vector]:
        known: tuple[Matrix, Vector] = resident.recall(
            "gram", weighting, lambda: design.gram(values, batch.y, resident.spread)
        )
        return known

    if reference is None:
        return summed(change.now, row_weights)
    base_weights: Vector = resident.recall(
        "reference weights", reference, lambda: weights_afresh(resident, reference, problem)
    )
    if batch.sample_weight is not None:
        base_weights = batch.sample_weight * base_weights
    difference = row_weights - base_weights
    rows = np.flatnonzero(difference)
    if 2 * rows.size > np.count_nonzero(row_weights):
        return summed(change.now, row_weights)
    base, base_rhs = summed(reference, base_weights)

    def of_some(chosen: NDArray[np.intp]) -> tuple[Matrix, Vector]:
        few, weights = design.rows(chosen), np.abs(difference[chosen])
        return few.gram(weights, batch.y[chosen], resident.spread)

    more, more_rhs = of_some(rows[difference[rows] > 0])
    less, less_rhs = of_some(rows[difference[rows] < 0])
    return base + more - less, base_rhs + more_rhs - less_rhs


@BlockStep
def sweep(
    block: Block, changes: Sequence[Change], problem: Problem
) -> list[tuple[NDArray[np.float64], Statistics]]:
    """Return histograms as `summarize` does, and statistics around the current coefficients.

    `rhs` is D'R r and `square` the weighted loss, r the residuals at the coefficients by which
    the rows are judged; there is no Gram matrix. One pass over the rows does it all, each piece
    while it is in cache.
    """
    weightings = [change.now for change in changes]
    is_first = changes[0].before is None
    same = all((change.before is None) == is_first for change in changes)
    if not (same and are_alike(weightings, problem)):
        return [sweep(*each, problem) for each in zip(block.residents, changes, strict=True)]
    now, rows = weightings[0], block.rows
    assert now.coef is not None
    assert now.whitener is None, "leverage needs a pass of its own"
    old = None if is_first else _earlier_weights(block, changes, problem)
    s, coef = rows.sample_weight, np.array(now.coef)
    weights_of = weigher(block, weightings, problem)
    residual, v = np.empty(rows.n_samples), np.empty(rows.n_samples)
    rhs = np.zeros((len(changes), coef.size))
    for piece in problem.design(rows).pieces(block.runs):
        r = residual[piece.rows] = rows.y[piece.rows] - piece.times(coef)
        w = v[piece.rows] = weights_of(r, piece.rows)
        pull = w * r
        rhs[piece.batches] += piece.transposed_times(pull if s is None else s[piece.rows] * pull)
    _remember(block, "residual", [weighting.coef for weighting in weightings], residual)
    _remember(block, "weights", weightings, v)
    squares = _dots(block, v if s is None else s * v, np.square(residual))
    counts = residual_histograms(block, residual, problem)
    tallies = tally(block, v, old, None)
    return [
        (counts[i], replace(tally, rhs=rhs[i], square=squares[i]))
        for i, tally in enumerate(tallies)
    ]


def _earlier_weights(block: Block, changes: Sequence[Change], problem: Problem) -> Vector:
    earlier = [change.before for change in changes if change.before is not None]
    if all(weighting.keeps_every_row for weighting in earlier):
        return with_known(block, np.ones(block.rows.n_samples), problem)
    pairs = zip(block.residents, earlier, strict=True)
    return np.concatenate([weigh(resident, weighting, problem) for resident, weighting in pairs])


def _remember(block: Block, name: str, keys: Sequence[object], values: Vector) -> None:
    for resident, key, own in zip(block.residents, keys, block.split(values), strict=True):
        resident.keep(name, key, own)


def weigh_and_count(
    block: Block, changes: Sequence[Change], problem: Problem
) -> tuple[Vector, list[Statistics]]:
    """Return the row weights s v of all batches, and what can be counted without columns."""
    now, s = [change.now for change in changes], block.rows.sample_weight
    old = weights_before(block, changes, problem)
    v = weigh_block(block, now, problem)
    tallies = tally(block, v, old, pacing_values(block, now, v, problem))
    if now[0].noise_rule is not None:
        pairs = zip(block.residents, now, strict=True)
        return np.concatenate([row_weights(*pair, problem) for pair in pairs]), tallies
    return v if s is None else s * v, tallies


def weights_before(block: Block, changes: Sequence[Change], problem: Problem) -> Vector | None:
    """Return the weights of all batches in the round before, if that is asked for."""
    earlier = [change.before for change in changes if change.before is not None]
    return weigh_block(block, earlier, problem) if earlier else None


def tally(block: Block, v: Vector, old: Vector | None, paced: Vector | None) -> list[Statistics]:
    """Return what can be counted without columns; `paced` is the self-paced term of each row."""
    s = block.rows.sample_weight
    lengths = [float(last - first) for first, last in pairwise(block.bounds)]
    totals = lengths if s is None else _sums(block, s)
    changed = totals if old is None else weighted_sums(block, np.abs(v - old))
    selected = weighted_sums(block, (v >= 0.5).astype(np.float64))
    pacing = [0.0] * len(totals) if paced is None else weighted_sums(block, paced)
    columns = zip(pacing, weighted_sums(block, v), selected, changed, totals, strict=True)
    return [Statistics(NO_MATRIX, NO_VECTOR, 0.0, *each) for each in columns]


def weighted_sums(block: Block, values: Vector) -> list[float]:
    """Return the sum of values over the rows of each batch, by sample weight if there is one."""
    s = block.rows.sample_weight
    return _sums(block, values) if s is None else _dots(block, s, values)


def _sums(block: Block, values: Vector) -> list[float]:
    lines = (values[run.rows].reshape(run.shape) for run in block.runs)
    return [total for each in lines for total in each.sum(axis=1).tolist()]


def _dots(block: Block, first: Vector, second: Vector) -> list[float]:
    found: list[float] = []
    for run in block.runs:
        lines, columns = first[run.rows].reshape(run.shape), second[run.rows].reshape(run.shape)
        found += np.matmul(lines[:, None, :], columns[:, :, None]).ravel().tolist()
    return found


def _summed(values: Vector, s: Vector | None) -> Vector:
    """Return the sum of values over the rows, by sample weight if there is one."""
    return np.asarray(values.sum(axis=0) if s is None else s @ values)


def _present(batch: Batch) -> NDArray[np.intp]:
    """Return the rows of positive sample weight."""
    s = batch.sample_weight
    return np.arange(batch.n_samples) if s is None else np.flatnonzero(s)


@BlockStep
def influence(
    block: Block, messages: Sequence[tuple[Weighting, float]], problem: Problem
) -> list[Vector]:
    """Return (sum v, sum psi', sum psi**2, sum psi'**2) with psi = v r; a message has the scale.

    These totals say how the weighted fit reacts to its rows, from which standard errors follow.
    """
    weightings, coef = [weighting for weighting, _ in messages], messages[0][0].coef
    assert coef is not None
    if not are_alike(weightings, problem):
        return [influence(*each, problem) for each in zip(block.residents, messages, strict=True)]
    residual = np.concatenate([residual_at(each, coef, problem) for each in block.residents])
    if len(weightings) == 1:
        v = weigh(block.residents[0], weightings[0], problem)
    else:
        v = weigher(block, weightings, problem)(residual, slice(None))
        _remember(block, "weights", weightings, v)
    terms = influence_terms(v, residual, messages[0][1])
    return list(np.array([weighted_sums(block, term) for term in terms]).T)


def influence_terms(v: Vector, residual: Vector, scale: float) -> tuple[Vector, ...]:
    """Return v, psi', psi**2 and psi'**2 of each row."""
    slope = influence_slope(v, np.square(residual / scale))
    return v, slope, np.square(v * residual), np.square(slope)


def clean_pull(
    resident: Resident, message: tuple[Weighting, float], problem: Problem
) -> tuple[float, float]:
    """Return the sums of s w r and of s w over the rows, r and w taken from a center.

    `message` has the center. Their ratio is how far the middle of the clean rows lies from it.
    """
    weighting, center = message
    rule = weighting.noise_rule
    assert rule is not None
    assert weighting.coef is not None
    own = row_scales(resident, rule)
    residual = residual_at(resident, weighting.coef, problem) - center
    v = weigh(resident, weighting, problem)
    pull = importance(resident.batch) * v * rule.pull(residual / own, own)
    return float(pull @ residual), float(pull.sum())


def sample(resident: Resident, message: tuple[int, int, int], problem: None) -> Batch:
    """Return rows drawn without replacement; `message` is (how many, seed, batch number)."""
    del problem
    quota, seed, number = message
    batch = resident.batch
    present = _present(batch)
    if batch.n_samples == present.size <= quota:
        return replace(batch, row_ids=None)
    if present.size > quota:
        rng = np.random.default_rng([seed, number])
        drawn = np.sort(rng.choice(present, quota, replace=False))
        present = _with_trusted(batch, drawn, present, rng)
    return some_rows(batch, present)


def _with_trusted(
    batch: Batch, drawn: NDArray[np.intp], present: NDArray[np.intp], rng: np.random.Generator
) -> NDArray[np.intp]:
    """Return the rows drawn, and with them some trusted ones, which are few and tell much."""
    if batch.trusted is None:
        return drawn
    wanted = int(TRUSTED_IN_SAMPLE * drawn.size) + 1 - int(batch.trusted[drawn].sum())
    others = np.setdiff1d(present[batch.trusted[present]], drawn, assume_unique=True)
    if wanted <= 0 or others.size == 0:
        return drawn
    more = rng.choice(others, min(wanted, others.size), replace=False)
    return np.sort(np.concatenate([drawn, more]))


def some_rows(batch: Batch, rows: NDArray[np.intp]) -> Batch:
    """Return some rows of a batch, without their names."""
    return Batch(
        X=batch.X[rows],
        y=batch.y[rows],
        sample_weight=None if batch.sample_weight is None else batch.sample_weight[rows],
        trusted=None if batch.trusted is None else batch.trusted[rows],
    )


def triangle(resident: Resident, weighting: Weighting, problem: Problem) -> Matrix:
    """Return the triangular factor of the weighted rows [design, y]."""
    counted = row_weights(resident, weighting, problem)
    return problem.design(resident.batch).triangle(counted, resident.batch.y)


def normal_residual(
    resident: Resident, message: tuple[Weighting, tuple[float, ...], bool], problem: Problem
) -> Any:
    """Return the weighted normal-equation residual; `message` is (weighting, coef, extended).

    Coefficients come as the tuple that all batches share: one for each would outgrow their rows.
    """
    weighting, coef, extended = message
    counted, design = row_weights(resident, weighting, problem), problem.design(resident.batch)
    if extended:
        return design.extended_pull(counted, resident.batch.y, np.array(coef))
    residual = residual_at(resident, coef, problem)
    return design.transposed_times(counted * residual)


def scatter(
    resident: Resident, message: tuple[Weighting, float], problem: Problem
) -> tuple[Matrix, float, float]:
    """Return sum s psi**2 d d', sum s w and sum s psi', with psi = w r the pull of a row.

    From these follow standard errors that hold whatever the noise depends on. `message` has the
    noise scale.
    """
    weighting, scale = message
    assert weighting.coef is not None
    batch = resident.batch
    s = importance(batch)
    residual = residual_at(resident, weighting.coef, problem)
    counted = row_weights(resident, weighting, problem)
    rule, v = weighting.noise_rule, weigh(resident, weighting, problem)
    if rule is None:
        slope = influence_slope(v, np.square(residual / scale))
    else:
        own = row_scales(resident, rule)
        slope = rule.slope(v, residual / own, own)
    squares = np.divide(np.square(counted * residual), s, out=np.zeros_like(s), where=s > 0)
    outer, _ = problem.design(batch).gram(squares, batch.y, resident.spread)
    return outer, float(counted.sum()), float(s @ slope)
