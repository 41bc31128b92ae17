"""How far out rows with many columns lie, without a square matrix and without filling sparse rows.

Rows are judged by their length in scaled columns, and along the leading singular vectors of rows
scaled to length one, in which no row weighs more than another. A tight cluster of far rows is
such a direction as long as it stands out from what chance puts into as many columns.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import randomized_svd

from easyfirst.consensus.starts.leverage import (
    DIRECTIONS,
    LUMP_LIMIT,
    MARGIN,
    body_location_scale,
)
from easyfirst.contracts import Matrix, Vector
from easyfirst.local.design import squared
from easyfirst.local.far_rows import FarRule, LengthRule

STEP = 1.25  # between the limits that are tried, each a factor larger
FEW_BETWEEN = 0.25  # rows between two limits, over those beyond, that make a gap
TIGHT = 4.0  # distances of a lump, the ninth tenth over the first
LEAST_LUMP = 0.005  # share of the rows
PASSES = 2  # the second among rows that the first left inside
ENTRIES_OF_ALL = 5.0  # that the size of all entries counts for in that of a column's
POWER_STEPS = 4  # of the randomised singular vectors


def wide_far_rule(X: Any, judges: Any) -> FarRule:
    """Return a rule that scores rows, and leaves at least half of the judges inside.

    Directions are sought in X; how far out is far is read off the `judges`, other rows.
    """
    p = X.shape[1]
    limit = MARGIN * float(np.sqrt(2.0 * np.log(judges.shape[0] * (1 + PASSES * DIRECTIONS))))
    center, inverse = _column_scales(X)
    nothing = np.zeros(0)
    rule = FarRule(
        directions=np.zeros((p, 0)),
        offsets=nothing,
        columns=np.zeros(0, dtype=np.intp),
        center=nothing,
        inverse=nothing,
        lengths=_length_rule(judges, center, inverse, limit),
    )
    score = rule.score(judges)
    for _ in range(PASSES):
        inside = np.flatnonzero(rule.score(X) <= 1.0)
        if inside.size <= DIRECTIONS:
            break
        candidates = inverse[:, None] * _leading_directions(X[inside], center, inverse)
        accepted, offsets, score = _directions_with_a_lump(judges, candidates, score)
        rule = replace(
            rule,
            directions=np.hstack([rule.directions, accepted]),
            offsets=np.append(rule.offsets, offsets),
        )
    return rule


def _directions_with_a_lump(
    X: Any, candidates: Matrix, score: Vector
) -> tuple[Matrix, Vector, Vector]:
    """Take each direction along which some rows lie beyond a gap; returns them and the new score.

    Sparse rows have long tails in every direction, which are no reason to leave rows out: a
    cluster keeps its distance from the others.
    """
    projected = np.asarray(X @ candidates)
    center, scale = body_location_scale(projected[score <= 1.0])
    accepted, reaches = [], []
    for j in np.flatnonzero(scale > 0.0):
        away = np.abs(projected[:, j] - center[j])
        reach = _gap(np.sort(away[score <= 1.0]), LUMP_LIMIT * scale[j])
        raised = np.maximum(score, away / reach)
        if np.isfinite(reach) and 2 * np.sum(raised > 1.0) <= len(score):
            score = raised
            accepted.append(j)
            reaches.append(reach)
    reached = np.array(reaches)
    return candidates[:, accepted] / reached, center[accepted] / reached, score


def _gap(away: Vector, reach: float) -> float:
    """Return the limit from `reach` on with the clearest gap behind it, and a lump further out.

    Of sparse rows most lie at zero in many a direction, and those with an entry there, of whatever
    size, beyond a first gap. The rows of a cluster are as far out as each other.
    """
    n, clearest, found = len(away), FEW_BETWEEN, np.inf
    while True:
        beyond, further = n - np.searchsorted(away, [reach, STEP * reach], side="right")
        if further < max(LEAST_LUMP * n, 2):
            return found
        tenth, lump = further // 10, away[n - further :]
        is_tight = lump[-1 - tenth] <= TIGHT * lump[tenth]
        if is_tight and beyond - further <= clearest * further:
            # The first of equally clear ones, from which on it has to be clearer.
            clearest, found = 0.99 * (beyond - further) / further - 1e-9, reach
        reach *= STEP


def _length_rule(judges: Any, center: Vector, inverse: Vector, limit: float) -> LengthRule:
    """Return the rule whose limit keeps as long rows inside as normal ones would be."""
    rule = LengthRule(center, inverse, 1.0)
    length = rule.length(judges)
    logs = np.log(np.maximum(length, 1e-300))
    middle, scale = body_location_scale(logs[:, None])
    usual = float(np.exp(middle[0] + limit * scale[0]))
    # Half of the rows are to stay inside, however long the others are.
    return LengthRule(center, inverse, max(usual, float(np.median(length)), 1e-300))


def _column_scales(X: Any) -> tuple[Vector, Vector]:
    """Return the centre of each column and one over its scale (0: constant).

    Sparse columns are not moved, because their zeros would be filled; their scale is that of the
    entries that are not zero.
    """
    if sp.issparse(X):
        scale = _typical_entries(X)
        center = np.zeros(X.shape[1])
    else:
        center, scale = body_location_scale(X)
        spread = X.std(axis=0)
        scale = np.where(scale > 0.0, scale, spread)
    return center, np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)


def _typical_entries(X: Any) -> Vector:
    """Return the median size of the entries of each sparse column that are not zero.

    Drawn towards that of all columns, by a few entries' worth: a column of which the rows hold one
    entry would else take its scale from the very row that is to be judged.
    """
    columns = sp.csc_array(X)
    sizes = np.abs(columns.data)
    counts = np.diff(columns.indptr)
    if not np.any(sizes > 0.0):
        return np.zeros(counts.size)
    order = np.lexsort((sizes, np.repeat(np.arange(counts.size), counts)))
    middle = np.minimum(columns.indptr[:-1] + counts // 2, sizes.size - 1)
    usual = float(np.median(sizes[sizes > 0.0]))
    own = np.where(counts > 0, sizes[order][middle], usual)
    share = counts / (counts + ENTRIES_OF_ALL)
    return np.asarray(
        np.exp(share * np.log(np.maximum(own, 1e-300)) + (1.0 - share) * np.log(usual))
    )


def _leading_directions(X: Any, center: Vector, inverse: Vector) -> Matrix:
    """Return the leading right singular vectors of scaled rows of length one.

    In single precision: they only say where to look.
    """
    length = np.sqrt(np.maximum(squared(X) @ np.square(inverse), 0.0))
    if sp.issparse(X):
        shrink = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0.0)
        signs: Any = sp.diags_array(shrink) @ X @ sp.diags_array(inverse)
    else:
        scaled = (X - center) * inverse
        length = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
        signs = scaled / np.where(length > 0.0, length, 1.0)[:, None]
    count = min(DIRECTIONS, min(signs.shape) - 1)
    right = randomized_svd(signs.astype(np.float32), count, n_iter=POWER_STEPS, random_state=0)[2]
    return np.asarray(right.T, dtype=np.float64)
