"""Suspicious rows as columns to sort, search and show; on a page every value is plain text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easyfirst.report.wording import number, percent, visible

LONGEST = 400  # characters of one value on the page
WORST = "worst"
SORT_COLUMNS = {
    "given": "given_label",
    "predicted": "predicted_label",
    "residual": "residual",
    "quality": "label_quality",
    "fix": "fix_probability",
}
SORTS = (WORST, "row", *SORT_COLUMNS)


class SuspectRows:
    """The suspicious rows of a table, the worst first.

    Parameters
    ----------
    found
        What is known of them, as `TableModel.suspects_with_places` gives it.
    places
        Where each lies in the table.
    table
        The whole table.
    target
        Its column that the suspicion is about.
    """

    def __init__(
        self, found: pa.Table, places: NDArray[np.intp], table: pa.Table, target: str
    ) -> None:
        self.found, self.places, self.table, self.target = found, places, table, target
        self.of_labels = pa.types.is_string(found.schema.field("given_label").type)
        self.given = self._values("given_label")
        self.predicted = self._values("predicted_label")
        self.fixed = self._values("fixed_value")
        self.names: list[Any] = found["row_id"].to_pylist()
        self.fixes = self._texts("likely_fix")

    def __len__(self) -> int:
        return len(self.places)

    def order(self, sort: str) -> NDArray[np.intp]:
        """Return the rows in the order of a column; rows without a value come last."""
        if sort == WORST:
            return np.arange(len(self))
        keys = self.places if sort == "row" else self._values(SORT_COLUMNS[sort])
        if keys.dtype == object:
            keys = np.array([each or "\U0010ffff" for each in keys])
        return np.argsort(keys, kind="stable")

    def holding(self, text: str) -> NDArray[np.bool_]:
        """Return which rows hold a text in their name, reason, likely fix or a value."""
        found = pc.match_substring(self._everything, text, ignore_case=True)
        return np.asarray(found.to_numpy(zero_copy_only=False), dtype=bool)

    def shown(self, chosen: Sequence[int] | NDArray[np.intp]) -> list[dict[str, Any]]:
        """Return rows as a page lists them."""
        rows = self.found.take(pa.array(np.asarray(chosen, dtype=np.int64))).to_pylist()
        return [self._shown(int(index), row) for index, row in zip(chosen, rows, strict=True)]

    def _shown(self, index: int, row: dict[str, Any]) -> dict[str, Any]:
        chance, residual = row.get("fix_probability"), row.get("residual")
        return {
            "place": int(self.places[index]),
            "row": visible(self.names[index], LONGEST),
            "given": self._given(index),
            "predicted": shown_prediction(row["predicted_label"]),
            "residual": "" if residual is None else f"{float(residual):+,.3g}",
            "chance": percent(max(float(row["label_quality"]), 1e-12)),
            "why": visible(row["reason"], LONGEST),
            "fix": visible(self.fixes[index], LONGEST),
            "fixed": _shown_value(self.fixed[index]) if self.has_fix(index) else "",
            "fix_chance": "" if chance is None or math.isnan(chance) else percent(float(chance)),
        }

    def has_fix(self, index: int) -> bool:
        """Whether there is a value to put in the place of a row's target."""
        fixed = self.fixed[index]
        return fixed is not None and fixed == fixed

    def side(self, index: int) -> str:
        """Return how a row's target differs from the prediction, in words that many rows share."""
        if self.of_labels:
            return f"{self.given[index]}, most likely {self.predicted[index]}"
        above = self.given[index] > self.predicted[index]
        return "Above the prediction" if above else "Below the prediction"

    def _given(self, index: int) -> str:
        """Return the target as a number or label, or what stands there instead of one."""
        if self.of_labels or math.isfinite(self.given[index]):
            return _shown_value(self.given[index])
        return _shown_value(self.table[self.target][int(self.places[index])].as_py())

    @cached_property
    def _everything(self) -> Any:
        """All that can be searched, one text per row."""
        rows = self.table.take(pa.array(self.places))
        columns = [self.found["row_id"], self.found["reason"], *rows.columns]
        if "likely_fix" in self.found.column_names:
            columns.append(self.found["likely_fix"])
        texts = [_as_text(column) for column in columns]
        return pc.binary_join_element_wise(*texts, "\n", null_handling="replace")

    def _values(self, name: str) -> NDArray[Any]:
        """Return a column as numbers with NaN, or as texts with None, for none."""
        if name not in self.found.column_names:
            return np.full(len(self), np.nan)
        column = self.found[name]
        kind = object if pa.types.is_string(column.type) else np.float64
        return np.asarray(column.to_numpy(), dtype=kind)

    def _texts(self, name: str) -> list[str]:
        if name not in self.found.column_names:
            return [""] * len(self)
        return [text or "" for text in self.found[name].to_pylist()]


def exact(value: Any) -> str:
    """Return a number with the digits that somebody wrote."""
    return f"{float(value):,.12g}"


def shown_values(table: pa.Table, names: Sequence[str]) -> list[list[str]]:
    """Return the values of each row as texts for a page."""
    rows = table.select(list(names)).to_pylist()
    return [[_shown_value(row[name]) for name in names] for row in rows]


def _shown_value(value: Any) -> str:
    if value is None:
        return ""
    return exact(value) if isinstance(value, float) else visible(value, LONGEST)


def shown_prediction(value: Any) -> str:
    """Return a predicted number or label as text for a page."""
    return visible(value, LONGEST) if isinstance(value, str) else number(float(value))


def _as_text(column: pa.ChunkedArray) -> pa.Array:
    try:
        text = column.cast(pa.string())
    except (pa.ArrowException, NotImplementedError):
        text = pa.chunked_array([[str(value) for value in column.to_pylist()]], pa.string())
    return text.combine_chunks()
