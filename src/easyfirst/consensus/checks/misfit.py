"""Whether X tells which rows were set aside and how far off they are: then the model is wrong.

Mistakes strike rows whatever their columns hold. Where small trees, fitted to other rows of a
sample, can tell the rows that were set aside from the rest, and predict on which side of the model
they lie, the rows follow a rule that the model does not have. So they do where trees predict
much of the residuals themselves, although hardly a row was set aside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from easyfirst.consensus.checks.extrapolation import Bounds
from easyfirst.consensus.checks.robust_rows import RobustRows
from easyfirst.consensus.checks.second_opinion import Opinion, may_be_second_guessed
from easyfirst.consensus.starts.asked_rows import spread_rows
from easyfirst.consensus.starts.found import SampleFit
from easyfirst.contracts import Matrix, Vector
from easyfirst.noise import NoiseModel, ScaleRule

ROWS = 3000  # of the sample
MOST_COLUMNS = 200  # beyond, trees cost more than the fit
LOOKED_AT, GROUPS = 20, 10  # columns that trees see, and groups of rows by which they are chosen
CELLS = 4  # groups of rows in each of two columns, before trees are grown
HINT = 0.4  # of what trees have to tell, that two columns tell already where there is something
LEAST_SET_ASIDE = 30  # rows from which they are compared with the others
CLIPPED = 5.0  # noise scales: beyond, a residual counts as much as one there
TOLD = 0.75  # area under the curve that is better than chance by a margin
SIDES = 0.05  # share of the variance of residuals by which sides are told
MUCH = 0.3  # and by which the model is wrong whatever was set aside
ROUNDED = 1e-10  # noise over the range of y, at which only rounding is left


@dataclass(frozen=True)
class Misfit:
    """How well X tells rows set aside (area under the curve) and residuals (share of variance).

    `sided` is for the residuals of all rows, `explained` for those of rows that were kept.
    `columns` are those that tell most, `aside` is the share of rows that were set aside.
    """

    told: float = 0.5
    sided: float = 0.0
    explained: float = 0.0
    aside: float = 0.0
    columns: tuple[int, ...] = ()

    @property
    def tells_rows(self) -> bool:
        """Whether the rows set aside differ in X from the others."""
        return self.told >= TOLD and self.sided >= SIDES

    @property
    def is_doubtful(self) -> bool:
        """Whether the model is probably wrong, not the rows."""
        return self.tells_rows or self.explained >= MUCH


def misfit_of(
    found: SampleFit, opinion: Opinion, coef: Vector, noise: NoiseModel, rule: ScaleRule
) -> Misfit:
    """Return how well X tells what a fit leaves over, on rows of the sample."""
    sample = found.sample
    p, fits = sample.rows.n_features, may_be_second_guessed(sample.fleet.problem)
    if not fits or not sample.objective.is_unpenalised or not 0 < p <= MOST_COLUMNS:
        return Misfit()
    rows = spread_rows(found, ROWS, opinion.far_rows_vote)
    if len(rows) < max(10 * LEAST_SET_ASIDE, 10 * p):
        return Misfit()
    table = RobustRows.of(sample, rows)
    if noise.spread <= ROUNDED * float(np.ptp(table.y)):
        return Misfit()  # what is left over is rounding, which follows X as well
    prediction = table.design @ coef
    residual = (table.y - prediction) / rule.of(table.X)
    aside = noise.posterior(residual) < 0.5
    scale = max(noise.spread, 1e-300)
    # A row that is predicted beyond any y is wrong in X itself, which no curve explains.
    within = Bounds.of(table.y).excess(prediction) == 0.0
    X, aside = table.X[within], aside[within]
    clipped = np.clip(residual[within] / scale, -CLIPPED, CLIPPED)
    columns = _telling(X, clipped)
    if not _may_be_told(X[:, columns], clipped, aside):
        return Misfit(aside=float(aside.mean()) if aside.size else 0.0)
    # Loaded by the few fits that need it: trees take as long to load as a linear model does.
    from easyfirst.consensus.checks.misfit_trees import told_by

    misfit = told_by(X[:, columns], clipped, aside)
    return replace(misfit, columns=tuple(columns[list(misfit.columns)].tolist()))


def _telling(X: Matrix, residual: Vector) -> NDArray[np.intp]:
    """Return the columns to look at: of many, those whose groups differ most in their residuals.

    Trees of a hundred columns would take as long as a pass over a million rows.
    """
    n, p = X.shape
    if p <= LOOKED_AT or not n:
        return np.arange(p)
    group = (_groups(X, GROUPS) + GROUPS * np.arange(p)[:, None]).ravel()
    rows = np.bincount(group, minlength=GROUPS * p)
    total = np.bincount(group, weights=np.tile(residual, p), minlength=GROUPS * p)
    between = np.sum((np.square(total) / np.maximum(rows, 1)).reshape(p, GROUPS), axis=1)
    return np.sort(np.argsort(-between, kind="stable")[:LOOKED_AT])


def _groups(X: Matrix, count: int) -> NDArray[np.intp]:
    """Return each row's group in each column, equally large but for ties; a line per column."""
    lines = np.ascontiguousarray(X.T)
    cuts = np.sort(lines, axis=1)[:, np.arange(1, count) * len(X) // count]
    group = np.zeros(lines.shape, dtype=np.int8)
    for cut in cuts.T:
        group += lines >= cut[:, None]
    return group.astype(np.intp)


def _may_be_told(X: Matrix, residual: Vector, aside: NDArray[np.bool_]) -> bool:
    """Return whether the residuals differ between groups of two columns, as trees would find.

    A tree that tells something has to begin with one or two columns, and these alone then tell a
    good part of it. All pairs of columns take one product of matrices, a twentieth of the time.
    """
    if not len(X):
        return False
    p = X.shape[1]
    # One column for each group of each column of X.
    member = np.zeros((len(X), p * CELLS), dtype=np.float32)
    member[np.arange(len(X)), _groups(X, CELLS) + CELLS * np.arange(p)[:, None]] = 1.0
    kept = ~aside
    return _told_by_pairs(member, residual, p) > HINT * SIDES or (
        _told_by_pairs(member[kept], residual[kept], p) > HINT * MUCH
    )


def _told_by_pairs(member: NDArray[np.float32], residual: Vector, p: int) -> float:
    """Return the largest share of the variance between the cells of two columns, beyond chance.

    In single precision: it only says whether to look closer.
    """
    away = residual - residual.mean() if residual.size else residual
    total = float(away @ away)
    if residual.size < 10 * LEAST_SET_ASIDE or total == 0.0:
        return 0.0
    rows = member.T @ member
    sums = member.T @ (member * away.astype(np.float32)[:, None])
    squares = np.divide(np.square(sums), rows, out=np.zeros_like(rows), where=rows > 0)
    share = squares.reshape(p, CELLS, p, CELLS).sum(axis=(1, 3)) / total
    filled = (rows > 0).reshape(p, CELLS, p, CELLS).sum(axis=(1, 3))
    return float(np.max(share - (filled - 1) / len(residual)))
