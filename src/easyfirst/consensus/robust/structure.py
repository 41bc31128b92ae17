"""Whether residuals still depend on X, as they do not where the model and its noise are right.

Rows are grouped by the prediction and by every column, and three numbers are compared between the
groups: the residual, its size, and whether the row looks corrupted. If mistakes strike at random
and the model is right, none of them differs by more than chance. A curve fitted by a line, noise
that grows with the prediction, or a missing category make them differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from easyfirst.consensus.robust.huber import MEDIAN_TO_SCALE
from easyfirst.contracts import Matrix, Vector

GROUPS = 8
CLIPPED = 3.0  # scales: beyond, a residual counts as much as one there
WORTH_NOTING = 0.01  # share of the variance between groups that is no misfit,
CHANCE = 5.0  # and standard deviations of what chance puts there
FAR_OUT = 8.0  # scales of a column: rows beyond say nothing about the others
MOST_COLUMNS = 256
PREDICTION = -1


@dataclass(frozen=True)
class Structure:
    """How strongly residuals depend on one column, relative to what would be noticed.

    `column` is where they do so most (`PREDICTION`: along the prediction); `flagged_low` and
    `flagged_high` are the least and the largest share of rows that look corrupted in a group of
    that column. `bend` is how strongly the residuals themselves do so, whatever their size.
    """

    strength: float = 0.0
    column: int = PREDICTION
    flagged_low: float = 0.0
    flagged_high: float = 0.0
    bend: float = 0.0

    @property
    def is_bent(self) -> bool:
        """Whether some rows lie on one side of the model more than chance would have them."""
        return self.bend > 1.0

    @property
    def is_noticed(self) -> bool:
        """Whether it is more than chance and more than negligible."""
        return self.strength > 1.0


def structure_of(
    X: Matrix,
    coef: Vector,
    prediction: Vector,
    residual: Vector,
    weights: Vector,
    counts: Vector | None = None,
) -> Structure:
    """Return the strongest dependence; `residual` is in noise scales.

    `counts` is how many rows each one stands for.
    """
    inside = not_far_out(X)
    if inside.sum() < 8 * GROUPS:
        return Structure()
    X, prediction = X[inside], prediction[inside]
    chosen = _leading_columns(X, coef)
    columns = np.column_stack([prediction, X[:, chosen]])
    groups = _groups(columns)
    residual, flagged = residual[inside], (weights[inside] < 0.5).astype(np.float64)
    shown = np.clip(residual, -CLIPPED, CLIPPED)
    measures = np.stack([shown, np.abs(shown), flagged])
    counts = np.ones(len(X)) if counts is None else counts[inside]
    share, noticed = _between_groups(groups, measures, counts)
    strengths = share / noticed
    strength = np.max(strengths, axis=0)
    worst = int(np.argmax(strength))
    sizes = np.bincount(groups[:, worst], counts, GROUPS)
    shares = np.bincount(groups[:, worst], counts * flagged, GROUPS)[sizes > 0] / sizes[sizes > 0]
    return Structure(
        strength=float(strength[worst]),
        column=PREDICTION if worst == 0 else int(chosen[worst - 1]),
        flagged_low=float(shares.min()),
        flagged_high=float(shares.max()),
        bend=float(strengths[0].max()),
    )


def not_far_out(X: Matrix) -> NDArray[np.bool_]:
    """Return which rows lie within some scales of the middle in all columns."""
    lines = np.ascontiguousarray(X.T)  # medians of lines of memory take half as long
    away = np.abs(lines - np.median(lines, axis=1)[:, None])
    scale = MEDIAN_TO_SCALE * np.median(away, axis=1)
    judged = scale > 0
    return np.asarray(np.all(away[judged] <= FAR_OUT * scale[judged, None], axis=0))


def _leading_columns(X: Matrix, coef: Vector) -> NDArray[np.intp]:
    if X.shape[1] <= MOST_COLUMNS:
        return np.arange(X.shape[1])
    share = np.abs(coef[: X.shape[1]]) * X.std(axis=0)
    return np.sort(np.argsort(-share, kind="stable")[:MOST_COLUMNS])


def _groups(columns: Matrix) -> NDArray[np.intp]:
    """Return the group of every row in every column: eighths of its rows, ties together."""
    lines = np.ascontiguousarray(columns.T)
    cuts = np.sort(lines, axis=1)[:, (np.arange(1, GROUPS) * len(columns)) // GROUPS]
    groups = np.zeros(lines.shape, dtype=np.int8)
    for cut in cuts.T:
        groups += lines > cut[:, None]
    return np.ascontiguousarray(groups.T, dtype=np.intp)


def dependence(X: Matrix, coef: Vector, prediction: Vector, member: Vector) -> tuple[float, bool]:
    """Return how much of who is a member X or the prediction tells, and whether that is noticed.

    As the largest share of the variance between groups of one column.
    """
    columns = np.column_stack([prediction, X[:, _leading_columns(X, coef)]])
    share, noticed = _between_groups(_groups(columns), member[None], np.ones(len(X)))
    return float(np.max(share)), bool(np.any(share > noticed))


def _between_groups(
    groups: NDArray[np.intp], measures: Matrix, counts: Vector
) -> tuple[Matrix, Vector]:
    """Return the share of variance between groups by measure and column, and what is noticed."""
    n_columns = groups.shape[1]
    # Uneven counts say as much as fewer even ones.
    counts = counts * (counts.sum() / np.sum(np.square(counts)))
    n = float(counts.sum())
    sizes, sums = np.zeros((GROUPS, n_columns)), np.zeros((len(measures), GROUPS, n_columns))
    for group in range(GROUPS):
        member = (groups == group).astype(np.float64)
        sizes[group] = counts @ member
        sums[:, group] = (measures * counts) @ member
    freedom = np.maximum((sizes > 0).sum(axis=0) - 1, 0)
    means = measures @ counts / n
    total = np.square(measures - means[:, None]) @ counts
    squares = np.divide(np.square(sums), sizes, out=np.zeros_like(sums), where=sizes > 0)
    between = squares.sum(axis=1) - n * np.square(means)[:, None]
    share = between / np.maximum(total, 1e-300)[:, None] - freedom / n
    noticed = WORTH_NOTING + CHANCE * np.sqrt(2.0 * freedom) / n
    share = np.where(freedom > 0, share, 0.0)
    share[total < 1e-12] = 0.0
    return share, noticed
