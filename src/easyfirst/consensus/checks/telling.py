"""Whether the columns tell which rows a fit sets aside: then the model is wrong, not the rows.

Mistakes strike rows whatever their columns hold. A fit that follows one part of a table sets aside
rows that lie elsewhere in X, and a line through the columns tells them from the others. Groups of
one column need many rows to show that; a regression on all columns shows it in fifty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.special
from numpy.typing import NDArray

from easyfirst.consensus.solvers.gram import supported_basis
from easyfirst.contracts import Matrix, Vector

CLIPPED = 3.0  # standard deviations of a column: a row further out counts as one there
MUCH = 0.1  # share of the variance of who is set aside, by which the model is wrong
BY_CHANCE = 1e-4  # how often mistakes at random would be told as well
FEWEST = 3  # rows on either side
BESIDES = 5  # rows that there have to be besides one per column
MOST_COLUMNS = 256
LEAST_SUPPORT = 1e-10
NAMED = 2


@dataclass(frozen=True)
class Telling:
    """How much of who is set aside a line through the columns tells, and how likely by chance.

    `columns` are those that tell most by themselves.
    """

    share: float = 0.0
    chance: float = 1.0
    columns: tuple[int, ...] = ()

    @property
    def is_clear(self) -> bool:
        """Whether the columns tell more than mistakes at random would let them."""
        return self.share > MUCH and self.chance < BY_CHANCE


def telling_of(X: Matrix, aside: NDArray[np.bool_], counts: Vector | None = None) -> Telling:
    """Regress who is set aside on the columns; `counts` is how many rows each one stands for."""
    p, fewest = X.shape[1], min(int(aside.sum()), int(np.sum(~aside)))
    if fewest < FEWEST or p > MOST_COLUMNS:
        return Telling()
    counts = np.ones(len(X)) if counts is None else counts
    # Uneven counts say as much as fewer even ones.
    counts = counts * (counts.sum() / np.sum(np.square(counts)))
    n = float(counts.sum())
    if n < p + 1 + BESIDES:
        return Telling()
    columns, member = _scaled(X, counts), aside - np.average(aside, weights=counts)
    total, pulls = float(counts @ np.square(member)), (counts * member) @ columns
    basis = supported_basis((columns * counts[:, None]).T @ columns, LEAST_SUPPORT)
    freedom = n - basis.shape[1] - 1
    if basis.shape[1] == 0 or freedom < BESIDES or not total > 0.0:
        return Telling()
    along = pulls @ basis
    told = min(float(along @ along) / total, 1.0)
    left = max(1.0 - told, 1e-12)
    ratio = (told / basis.shape[1]) / (left / freedom)
    return Telling(
        share=1.0 - left * (n - 1) / freedom,
        chance=float(scipy.special.fdtrc(basis.shape[1], freedom, ratio)),
        columns=_leading(np.square(pulls)),
    )


def _scaled(X: Matrix, counts: Vector) -> Matrix:
    """Return the columns with mean zero and a standard deviation of one, without far values."""
    away = X - np.average(X, axis=0, weights=counts)
    spread = np.sqrt(np.average(np.square(away), axis=0, weights=counts))
    varies = spread > 0.0
    scaled = np.where(varies, away / np.where(varies, spread, 1.0), 0.0)
    scaled = np.clip(scaled, -CLIPPED, CLIPPED)
    return np.asarray(scaled - np.average(scaled, axis=0, weights=counts))


def _leading(alone: Vector) -> tuple[int, ...]:
    order = np.argsort(-alone, kind="stable")[:NAMED]
    return tuple(int(column) for column in order if alone[column] > 0.5 * alone[order[0]])
