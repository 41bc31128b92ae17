"""How far out the rows of X lie, so that a start can leave the outermost aside.

Least squares follows a tight cluster of far rows whatever their y; easy-first rounds that begin
there never leave it. No row is judged by its X alone: far rows are left out of a start, and may
form bands with a clean share of their own. The scores depend neither on the units of the
columns nor on where their zero is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray

from easyfirst.contracts import Matrix, Vector
from easyfirst.local.far_rows import FarRule

CENTRAL_HALF = 1.3489795003921634  # length of the central half of N(0, 1)
BODY = 3.0  # rows within so many shortest-half scales of the centre make up the body
DIRECTIONS = 10  # leading directions looked at per pass
TAIL, TAIL_SHARE = 3.0, 0.015  # a direction with more rows than this beyond 3 has a lump there,
LEAST_LUMP = 1  # a single row is none,
LUMP_LIMIT = 3.3  # and is cut here instead of at the normal maximum
MARGIN = 1.1  # over the expected maximum of as many normal scores
# Of few rows, scales are uncertain and directions are found by which rows happen to lie out: the
# largest score of normal rows grows by so much per direction's root and row. Measured.
OF_FEW_ROWS = 8.0
TIED = 0.25  # a column with a value this common is discrete: it is not scored by itself
LEAST_SPREAD = 1e-12
FIRST_LOOK = 50  # rows that tell most columns with more than two values
NEARLY_FLAT = 1e-7  # variance left beside other columns, over the largest one


def far_rules(
    X: Matrix, judges: Matrix | None = None, asked: NDArray[np.bool_] | None = None
) -> tuple[FarRule, FarRule]:
    """Return two rules that score rows; each leaves at least half of the judges inside.

    Directions are sought in X, and how far out is far is read off the `judges`: other rows, if
    there are enough. Where columns are many, the rows in which a direction was sought lie closer
    together along it than others do.

    Columns with two values take no part: neither value is far out, and directions that hold them
    would put whole categories outside, whose coefficients a start without them cannot know. If
    some columns are `asked`, no other one takes part either.
    """
    has_part = ~_has_two_values(X)
    used = np.flatnonzero(has_part if asked is None else has_part & asked)
    judges = X if judges is None else judges
    if used.size in (0, X.shape[1]):
        return _rules(X, judges)
    rules = _rules(X[:, used], judges[:, used])
    complete, first = (_spread_out(rule, used, X.shape[1]) for rule in rules)
    return complete, first


def _has_two_values(X: Matrix) -> NDArray[np.bool_]:
    """Return whether a column has no more than two values."""
    few = X[:FIRST_LOOK]
    two = np.all((few.min(axis=0) == few) | (few.max(axis=0) == few), axis=0)
    rest = X[:, two]
    two[two] = np.all((rest.min(axis=0) == rest) | (rest.max(axis=0) == rest), axis=0)
    return np.asarray(two)


def _spread_out(rule: FarRule, used: NDArray[np.intp], p: int) -> FarRule:
    """Return a rule for the used columns as a rule for all p."""
    directions = np.zeros((p, rule.directions.shape[1]))
    directions[used] = rule.directions
    return replace(rule, directions=directions, columns=used[rule.columns])


def _rules(X: Matrix, judges: Matrix) -> tuple[FarRule, FarRule]:
    """Return the complete rule and the one of the first pass.

    Robust distances along the leading directions of the spatial-sign covariance, in which no row
    weighs more than another; then the same after whitening by the rows inside; then along single
    columns, as far as half of the rows permits. The second rule has the first pass only, which
    leaves more rows in.
    """
    n, p = X.shape
    center, scale, body = _column_scales(X)
    inverse = np.where(scale > 0, 1.0 / np.where(scale > 0, scale, 1.0), 0.0)
    n_directions = min(DIRECTIONS, p)
    n_passes = 2 if n >= 5 * p else 1
    looks = len(judges) * (p + n_directions * n_passes)
    few = 1.0 + OF_FEW_ROWS * np.sqrt(n_directions - 1.0) / len(judges)
    limit = MARGIN * few * float(np.sqrt(2.0 * np.log(looks)))
    nothing = np.zeros((p, 0))
    columns = np.flatnonzero(body)
    single = FarRule(nothing, np.zeros(0), columns, center[body], inverse[body] / limit)
    by_column = single.score(judges)

    scaled = (X - center) * inverse
    score = np.zeros(len(judges))
    directions, offsets = [nothing], [np.zeros(0)]
    first: FarRule | None = None
    frame, white = np.diag(inverse), None
    for remaining in range(n_passes - 1, -1, -1):
        candidates = frame @ _sign_directions(scaled, white, n_directions)
        accepted, where, score = _accept_directions(judges, candidates, score, limit, few)
        directions.append(accepted)
        offsets.append(where)
        if first is None:
            first = replace(
                single,
                directions=np.hstack(directions),
                offsets=np.concatenate(offsets),
                columns=np.zeros(0, dtype=np.intp),
            )
        if remaining:
            nearness = np.maximum(first.score(X), single.score(X))
            inside = scaled[nearness <= max(1.0, float(np.median(nearness)))]
            middle = inside.mean(axis=0)
            white = _whitener(inside - middle)
            frame, scaled = inverse[:, None] * white, scaled - middle
    assert first is not None
    complete = replace(
        single,
        directions=np.hstack(directions),
        offsets=np.concatenate(offsets),
        inverse=single.inverse / _column_limit(score, by_column),
    )
    return complete, first


def _whitener(centered: Matrix) -> Matrix:
    """Return W such that the rows times W have unit covariance, as far as they have spread."""
    covariance = centered.T @ centered / max(len(centered) - 1, 1)
    largest = float(np.max(np.diagonal(covariance), initial=0.0))
    try:
        factor = np.linalg.cholesky(covariance)
        if np.min(np.diagonal(factor)) ** 2 > NEARLY_FLAT * largest:
            identity = np.eye(len(factor))
            return np.asarray(la.solve_triangular(factor, identity, lower=True, trans="T"))
    except np.linalg.LinAlgError:
        pass
    if largest == 0.0:
        return np.eye(len(covariance))
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors / np.sqrt(np.maximum(values, 1e-8 * values[-1])))


def body_location_scale(values: Matrix) -> tuple[Vector, Vector]:
    """Return centre and normal-consistent scale of the main body of each column.

    The shortest half comes first: a far cluster of up to 45 % of the rows stretches it a little
    and never attracts it. Median and interquartile range of the rows near it follow, which are
    less noisy. The scale is 0 where more than half of a column is one value.
    """
    return _body(_sorted_columns(values))


def _sorted_columns(values: Matrix) -> Matrix:
    # Sorting lines of memory is faster than sorting across them; a copy, because values.T of a
    # column-major array is the caller's own memory.
    lines = np.array(values.T, order="C", copy=True)
    lines.sort(axis=1)
    return lines.T


def _body(ordered: Matrix) -> tuple[Vector, Vector]:
    """Return centre and scale of the main body of sorted columns."""
    n, p = ordered.shape
    half, columns = n // 2 + 1, np.arange(p)
    lengths = ordered[half - 1 :] - ordered[: n - half + 1]
    first = lengths.argmin(axis=0)
    center = 0.5 * (ordered[first, columns] + ordered[first + half - 1, columns])
    reach = BODY * lengths[first, columns] / CENTRAL_HALF
    low = (ordered < center - reach).sum(axis=0)
    last = (ordered <= center + reach).sum(axis=0) - low - 1

    def quantile(share: float) -> Vector:
        index = np.clip(low + np.rint(share * last).astype(np.intp), 0, n - 1)
        return np.asarray(ordered[index, columns])

    return quantile(0.5), (quantile(0.75) - quantile(0.25)) / CENTRAL_HALF


def _column_scales(sample: Matrix) -> tuple[Vector, Vector, NDArray[np.bool_]]:
    """Return centre, scale (0: constant) and whether the column is scored by itself."""
    ordered = _sorted_columns(sample)
    center, scale = _body(ordered)
    spread = sample.std(axis=0)
    varies = spread > LEAST_SPREAD * np.maximum(np.abs(ordered[0]), np.abs(ordered[-1]))
    n = len(ordered)
    gap, edge = max(1, int(TIED * n)), n // 100
    tied = (ordered[gap:] == ordered[:-gap]).any(axis=0)
    body = varies & (scale > 0) & ~tied
    rest = np.flatnonzero(~body)
    trimmed = np.clip(sample[:, rest], ordered[edge, rest], ordered[n - 1 - edge, rest]).std(axis=0)
    center[rest] = sample[:, rest].mean(axis=0)
    scale[rest] = np.where(trimmed > 0, np.maximum(scale[rest], trimmed), spread[rest])
    return center, np.where(varies, scale, 0.0), body


def _sign_directions(rows: Matrix, white: Matrix | None, count: int) -> Matrix:
    """Return the leading eigenvectors of the covariance of (whitened) rows scaled to length one.

    In single precision: they only say where to look.
    """
    signs = _of_length_one(rows).astype(np.float32)
    if white is not None:
        signs = _of_length_one(signs @ white.astype(np.float32))
    p = signs.shape[1]
    leading = la.eigh(signs.T @ signs, subset_by_index=[p - count, p - 1], check_finite=False)[1]
    return np.asarray(leading[:, ::-1], dtype=np.float64)


def _of_length_one(rows: NDArray[Any]) -> NDArray[Any]:
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return np.asarray(rows / np.where(norms > 0, norms, 1.0)[:, None])


def _accept_directions(
    X: Matrix, candidates: Matrix, score: Vector, limit: float, few: float
) -> tuple[Matrix, Vector, Vector]:
    """Take each direction that leaves half of the rows inside; returns them and the new score."""
    projected = X @ candidates
    center, scale = body_location_scale(projected[score <= 1])
    usable = scale > 0
    distance = np.abs(projected - center) / np.where(usable, scale, np.inf)
    lumpy = (distance > TAIL * few).sum(axis=0) > max(TAIL_SHARE * len(X), LEAST_LUMP)
    limits = np.where(lumpy, min(LUMP_LIMIT * few, limit), limit)
    reach = np.where(usable, scale * limits, np.inf)
    accepted = []
    for j in np.flatnonzero(usable):
        raised = np.maximum(score, np.abs(projected[:, j] - center[j]) / reach[j])
        if 2 * np.sum(raised > 1) <= len(score):
            score = raised
            accepted.append(j)
    return candidates[:, accepted] / reach[accepted], center[accepted] / reach[accepted], score


def _column_limit(score: Vector, by_column: Vector) -> float:
    """Return the limit on column scores that keeps half of the rows inside."""
    room = len(score) // 2 - int(np.sum(score > 1))
    inside = np.flatnonzero(score <= 1)
    index = len(inside) - room - 1
    return max(1.0, float(np.partition(by_column[inside], index)[index]))
