"""The rows of a raw table as a classifier judges their labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from easyfirst.estimators.judged_labels import JudgedLabels
from easyfirst.report.labels import reason
from easyfirst.tables.judged_base import JudgedBase
from easyfirst.tables.labels import WrongLabels, relabelling

if TYPE_CHECKING:
    from easyfirst.tables.classifier import TableClassifier

# The types of what is known about suspicious rows, also where there are none.
SUSPECTS = pa.schema(
    [("is_label_issue", pa.bool_()), ("label_quality", pa.float64())]
    + [(name, pa.string()) for name in ("given_label", "predicted_label", "likely_fix")]
    + [("fixed_value", pa.string()), ("reason", pa.string())]
)


@dataclass(frozen=True, eq=False)
class JudgedLabelTable(JudgedBase):
    """A table beside what a classifier thinks of its labels."""

    model: TableClassifier
    wrong: WrongLabels | None = None

    @cached_property
    def judged(self) -> JudgedLabels:
        """The probability that each label is right, and the most probable label."""
        if not self.y.size:
            none = np.empty(0, dtype=np.intp)
            return JudgedLabels(none, none, np.empty(0))
        found: JudgedLabels = self.model.classifier_.judge(self.X, self.y)
        return found

    def fit_summary(self) -> dict[str, Any]:
        """Return what the fit found, besides what every kind of model has, as JSON can hold it."""
        model = self.model.classifier_
        return {
            "task": "classification",
            "classes": [str(each) for each in self.model.classes_],
            "corrupted_share": model.corrupted_fraction_,
            "corrupted_interval": list(model.corrupted_interval_),
            "label_noise": model.label_noise_.tolist(),
        }

    def row_columns(self) -> dict[str, Any]:
        """Return what is thought of every row that has a label, by column."""
        every = np.arange(self.y.size)
        known = {each.name: self._column(each.name, every) for each in SUSPECTS}
        known.pop("reason")
        return known

    def wrong_columns(self) -> dict[str, Any]:
        """Return what is known of rows whose label is no class, by column."""
        assert self.wrong is not None
        n = len(self.wrong.places)
        return {
            "is_label_issue": np.ones(n, dtype=bool),
            "label_quality": np.zeros(n),
            "given_label": self.wrong.given,
            "predicted_label": self.wrong.suggested,
            "likely_fix": self.wrong.fixes,
            "fixed_value": self.wrong.suggested,
            "reason": self.wrong.reasons,
        }

    def _found(self, chosen: NDArray[np.intp]) -> pa.Table:
        columns = [self._column(each.name, chosen) for each in SUSPECTS]
        return pa.table(columns, SUSPECTS)

    def _likely_fixes(self) -> NDArray[np.object_]:
        # A group of labels that look wrong has no fix in common, other than those of its column.
        return np.full(self.y.size, "", dtype=object)

    def _column(self, name: str, rows: NDArray[np.intp]) -> pa.Array:
        judged, classes = self.judged, self.model.classes_
        given, suggested = (each[rows] for each in (judged.given, judged.suggested))
        if name == "is_label_issue":
            return pa.array(judged.is_wrong[rows])
        if name == "label_quality":
            return pa.array(judged.quality[rows])
        if name == "given_label":
            return pa.array(classes[given].astype(object), pa.string())
        if name == "reason":
            model = self.model.classifier_
            return pa.array([reason(model, judged, int(row)) for row in rows], pa.string())
        meant = classes[suggested].astype(object)
        if name == "predicted_label":
            return pa.array(meant, pa.string())
        differs = judged.is_wrong[rows] & (given != suggested)
        fixes = [relabelling(each) for each in meant] if name == "likely_fix" else meant
        return pa.array(fixes, pa.string(), mask=~differs)
