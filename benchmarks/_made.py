"""Rows that make themselves where they are wanted, so that nothing has to be read or sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from easyfirst.contracts import Batch


@dataclass(frozen=True)
class MadeRows:
    """A partition that makes its rows where they are wanted, so that nothing has to be sent."""

    number: int
    n_rows: int
    n_columns: int
    corruption: float

    def load(self) -> Batch:
        """Return rows of one linear model, some of them with another response."""
        rng = np.random.default_rng([11, self.number])
        X = rng.standard_normal((self.n_rows, self.n_columns))
        y = X @ true_coef(self.n_columns) + 0.1 * rng.standard_normal(self.n_rows)
        bad = rng.random(self.n_rows) < self.corruption
        y[bad] += rng.uniform(-30.0, 30.0, int(bad.sum()))
        return Batch(X, y)


@dataclass(frozen=True)
class MadeSource:
    """Rows that exist only where they are loaded."""

    n_rows: int
    n_columns: int
    n_batches: int
    corruption: float = 0.4

    def partitions(self) -> list[MadeRows]:
        """Return batches of equal size."""
        each = self.n_rows // self.n_batches
        return [
            MadeRows(number, each, self.n_columns, self.corruption)
            for number in range(self.n_batches)
        ]


def true_coef(n_columns: int) -> Any:
    """Return the coefficients behind the made rows."""
    return np.linspace(-1.0, 1.0, n_columns)
