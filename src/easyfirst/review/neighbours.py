"""Rows that look right and are most like a suspicious one, to show beside it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from easyfirst.report.wording import visible
from easyfirst.review.rows import LONGEST, SuspectRows, exact, shown_prediction, shown_values

if TYPE_CHECKING:
    from easyfirst.tables.base import TableBase

NEAREST = 4
MOST_CANDIDATES = 100_000  # more good rows are drawn from at random
MOST_COLUMNS = 60  # shown


class Neighbours:
    """Finds the nearest good rows, by the columns as the model sees them, each in its spread.

    Parameters
    ----------
    model
        The fitted model.
    rows
        The suspicious rows, with their table.
    """

    def __init__(self, model: TableBase, rows: SuspectRows) -> None:
        self._model, self._rows = model, rows
        self._lock = threading.Lock()
        self._search: tuple[NDArray[np.intp], Any, Any] | None = None

    def columns(self) -> list[str]:
        """Return the columns to show: those the model uses first, the target not among them."""
        used = [each.name for each in self._model.recipe_.features]
        apart = (self._model.target, self._model.row_id)
        every = dict.fromkeys([*used, *self._rows.table.column_names])
        return [name for name in every if name not in apart]

    def beside(self, index: int) -> dict[str, Any]:
        """Return the values of a suspicious row, and those of the good rows nearest to it."""
        place = int(self._rows.places[index])
        places = self._nearest(place)
        every = self.columns()
        names = every[:MOST_COLUMNS]
        shown = self._rows.table.take(pa.array([place, *places]))
        own, *others = shown_values(shown, names)
        predicted = self._model.predict(shown)
        targets = shown[self._model.target].to_pylist()
        used = {each.name for each in self._model.recipe_.features}
        return {
            "target": visible(self._model.target, LONGEST),
            "columns": [{"name": visible(n, LONGEST), "used": n in used} for n in names],
            "values": own,
            "more_columns": len(every) - len(names),
            "nearest": [
                {
                    "row": visible(self._name(near), LONGEST),
                    "values": values,
                    "given": _shown_target(target),
                    "predicted": shown_prediction(prediction),
                }
                for near, values, target, prediction in zip(
                    places, others, targets[1:], predicted[1:], strict=True
                )
            ],
        }

    def _name(self, place: int) -> Any:
        row_id = self._model.row_id
        return place if row_id is None else self._rows.table[row_id][place].as_py()

    def _nearest(self, place: int) -> list[int]:
        with self._lock:
            if self._search is None:
                self._search = self._prepared()
        candidates, scaler, search = self._search
        if len(candidates) == 0:
            return []
        row = scaler.transform(self._design(np.array([place])))
        count = min(NEAREST, len(candidates))
        return [int(each) for each in candidates[search.kneighbors(row, count, False)[0]]]

    def _prepared(self) -> tuple[NDArray[np.intp], Any, Any]:
        from sklearn.neighbors import NearestNeighbors
        from sklearn.preprocessing import StandardScaler

        good = self._model.with_target(self._rows.table)
        good[self._rows.places] = False
        candidates = np.flatnonzero(good)
        if len(candidates) > MOST_CANDIDATES:
            rng = np.random.default_rng(0)
            candidates = np.sort(rng.choice(candidates, MOST_CANDIDATES, replace=False))
        scaler = StandardScaler(with_mean=False)
        search = NearestNeighbors(algorithm="brute")
        if len(candidates):
            search.fit(scaler.fit_transform(self._design(candidates)))
        return candidates, scaler, search

    def _design(self, places: NDArray[np.intp]) -> Any:
        from easyfirst.tables.preprocessing import Preprocessor

        return Preprocessor(self._model.recipe_).matrix(self._rows.table.take(pa.array(places)))


def _shown_target(value: Any) -> str:
    return exact(value) if isinstance(value, int | float) else visible(value, LONGEST)
