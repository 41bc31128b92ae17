"""What a model predicts of rows that are nearly the same as those it is asked about.

Beside a jump in y, a model that has not seen a row does not know on which side of it the row lies,
and may be off by all of the jump. Such a row is no more wrong than others. What tells it is that
the model says of rows a step away what y is here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from easyfirst.contracts import Matrix, Vector
from easyfirst.estimators.out_of_fold import predicted

# Shares of the rows by which columns are moved, both ways: beyond a bin of gradient boosting, and
# beyond a jump that runs across several columns and is learned as a slope.
STEPS = (0.01, 0.05)
LEAST_ROWS = 2.0  # by which they are moved at least
LEAST_VALUES = 30  # of a column that is moved: fewer are kinds, not degrees
MOST_VALUES = 2000  # of a column that are kept

Name = Any  # the number of an array's column, or the name of a data frame's


@dataclass(frozen=True, eq=False)
class NearbyRows:
    """Rows a few ranks away in every column, towards sides that are drawn once for all rows.

    So what is said of a row depends on no other row that is asked about.
    """

    columns: tuple[tuple[Name, Vector], ...]
    steps: Matrix  # by steps and columns, in shares of the rows

    @classmethod
    def of(cls, X: Any, seed: int) -> NearbyRows:
        """Return what is near in these rows; nothing is where X has no dense columns of numbers."""
        columns = []
        for name, values in _numeric_columns(X).items():
            kept = np.sort(values[np.isfinite(values)])
            if np.unique(kept).size >= LEAST_VALUES:
                places = np.linspace(0, kept.size - 1, min(kept.size, MOST_VALUES))
                columns.append((name, kept[np.round(places).astype(np.intp)]))
        if not columns:
            return cls((), np.empty((0, 0)))
        sides = np.random.RandomState(seed).choice([-1.0, 1.0], (len(STEPS), len(columns)))
        steps = sides * np.maximum(STEPS, LEAST_ROWS / X.shape[0])[:, None]
        return cls(tuple(columns), np.vstack([steps, -steps]))

    def predicted(self, model: Any, X: Any) -> Matrix:
        """Return what a model predicts of the rows nearby, a column for every step."""
        columns = [predicted(model, self._moved(X, by)) for by in self.steps]
        return np.column_stack([np.empty((X.shape[0], 0)), *columns])

    def _moved(self, X: Any, by: Vector) -> Any:
        """Return the rows with every column moved by a share of the ranks."""
        given = _numeric_columns(X)
        changed = {
            name: _shifted(given[name], values, share)
            for (name, values), share in zip(self.columns, by, strict=True)
            if name in given
        }
        if isinstance(X, np.ndarray):
            moved = X.copy()
            for name, values in changed.items():
                moved[:, name] = values
            return moved
        frame = nw.from_native(X, eager_only=True)
        backend = frame.implementation
        series = (
            nw.new_series(name, values, backend=backend).cast(frame.schema[name])
            for name, values in changed.items()
        )
        return frame.with_columns(*series).to_native()


def _numeric_columns(X: Any) -> dict[Name, Vector]:
    """Return the columns of numbers of an array or a data frame, with NaN for what is missing.

    Whole numbers with gaps are left out: NaN could not be given back as one of them.
    """
    if isinstance(X, np.ndarray):
        if X.dtype.kind not in "iuf":
            return {}
        return {number: X[:, number].astype(np.float64) for number in range(X.shape[1])}
    frame = nw.from_native(X, pass_through=True, eager_only=True)
    if not isinstance(frame, nw.DataFrame):
        return {}
    columns = [each for each in frame.iter_columns() if _is_known_number(each)]
    found = {
        each.name: np.asarray(each.cast(nw.Float64).to_numpy(), dtype=np.float64)
        for each in columns
    }
    return found if len(set(frame.columns)) == len(frame.columns) else {}


def _is_known_number(column: Any) -> bool:
    kind = column.dtype
    return bool(kind.is_float() or (kind.is_integer() and not column.is_null().any()))


def _shifted(values: Vector, known: Vector, share: float) -> Vector:
    """Return values so many ranks away; those that are shared by more rows stay as they are."""
    low, high = np.searchsorted(known, values, "left"), np.searchsorted(known, values, "right")
    place = 0.5 * (low + np.maximum(high - 1, low)) + share * known.size
    near = known[np.clip(np.round(place), 0, known.size - 1).astype(np.intp)]
    return np.where((values >= known[0]) & (values <= known[-1]), near, values)
