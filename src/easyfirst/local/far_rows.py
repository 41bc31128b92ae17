"""How far out a row of X lies, as a rule that any worker can apply to its own rows.

The rule is found on a sample (`consensus/starts/leverage.py`); far rows form bands of their own,
because a share of bad rows there says nothing about the rows inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Matrix, Vector
from easyfirst.local.design import dense, squared

FAR = 2.0  # the score that divides the mild from the far band
ROWS_OF_MANY_COLUMNS = 1 << 10  # that are looked at together
BLOCK_ENTRIES = 1 << 17  # of X that are looked at together, so that they stay in cache


@dataclass(frozen=True, eq=False)
class LengthRule:
    """Scores rows by their length in scaled columns, which sparse rows tell without being filled.

    The length is that of (row - center) / scale, given as `inverse` and limited by `limit`.
    """

    center: Vector
    inverse: Vector
    limit: float

    def length(self, X: Any) -> Vector:
        """Return the length of each row."""
        squares = np.square(self.inverse)
        product = 2.0 * (X @ (squares * self.center))
        total = squared(X) @ squares - product + float(squares @ np.square(self.center))
        return np.sqrt(np.maximum(np.asarray(total, dtype=np.float64), 0.0))

    def score(self, X: Any) -> Vector:
        """Return the length of each row over the limit."""
        return self.length(X) / self.limit


@dataclass(frozen=True, eq=False)
class FarRule:
    """Scores rows: above 1 is outside.

    Projections on the columns of `directions`, minus `offsets`, are over their limits outside
    [-1, 1]; so are the columns listed in `columns`, minus `center`, times `inverse`. Where columns
    are many, rows are judged by their `lengths` instead of column by column.
    """

    directions: Matrix
    offsets: Vector
    columns: NDArray[np.intp]
    center: Vector
    inverse: Vector
    cuts: tuple[float, ...] = (1.0, FAR)
    lengths: LengthRule | None = None

    @property
    def n_bands(self) -> int:
        """Number of bands, the inside included."""
        return len(self.cuts) + 1

    @cached_property
    def digest(self) -> bytes:
        """A key for a worker's memory."""
        lengths = b"" if self.lengths is None else self.lengths.inverse.tobytes()
        cuts = repr(self.cuts).encode()
        return self.directions.tobytes() + self.inverse.tobytes() + lengths + cuts

    def score(self, X: Any) -> Vector:
        """Return the score of each row."""
        scores = np.zeros(X.shape[0])
        rows = max(32, BLOCK_ENTRIES // max(1, X.shape[1]))
        if self.lengths is not None:
            rows = max(rows, ROWS_OF_MANY_COLUMNS)
        for start in range(0, X.shape[0], rows):
            block = X[start : start + rows] if self.lengths else dense(X[start : start + rows])
            score = scores[start : start + rows]
            if self.offsets.size:
                away = np.abs(block @ self.directions - self.offsets)
                np.maximum(score, away.max(axis=1), out=score)
            if self.lengths is not None:
                np.maximum(score, self.lengths.score(block), out=score)
            if self.columns.size:
                chosen = block if self.columns.size == X.shape[1] else block[:, self.columns]
                away = np.abs((chosen - self.center) * self.inverse)
                np.maximum(score, away.max(axis=1), out=score)
        return scores

    def bands(self, X: Any) -> NDArray[np.intp]:
        """Return the band of each row: 0 inside, then one more for every cut passed."""
        return np.searchsorted(np.array(self.cuts), self.score(X), side="left")
