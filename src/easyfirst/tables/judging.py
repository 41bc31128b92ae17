"""The rows of a raw table as a model of numbers judges them: causes and likely fixes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from easyfirst.contracts import Matrix, Vector
from easyfirst.estimators.findings import Findings, findings_of
from easyfirst.estimators.judging import JudgedRows
from easyfirst.report.fixes import Fixes
from easyfirst.report.mistakes import MISSING_CODE, SwapPartner
from easyfirst.report.suspects import MOST_PARTNERS, fixes_of, suspect_columns, usual_range
from easyfirst.report.verdict import corrupted_share
from easyfirst.report.wording import visible
from easyfirst.tables.filling import Missing, blur_of
from easyfirst.tables.judged_base import JudgedBase, written
from easyfirst.tables.recipe import Feature
from easyfirst.tables.targets import TOTAL

if TYPE_CHECKING:
    from easyfirst.tables.model import TableModel

MOST_REMARKS = 3
FAR_OUT = 8.0  # spreads from the median at which a value of a column is a cause of its own
LEAST_PART = 0.05  # of an error, that a value which was filled in must be able to explain
SURE = 0.8  # probability from which a fix counts in a pattern

# The types of what is known about suspicious rows, also where there are none.
SUSPECTS = pa.schema(
    [("is_label_issue", pa.bool_())]
    + [(name, pa.float64()) for name in ("label_quality", "given_label", "predicted_label")]
    + [(name, pa.float64()) for name in ("residual", "weight", "entry_pace")]
    + [("likely_fix", pa.string()), ("fixed_value", pa.float64())]
    + [("fix_probability", pa.float64()), ("reason", pa.string())]
)


@dataclass(frozen=True, eq=False)
class WrongTargets:
    """Rows whose target is wrong beyond doubt, and which are not fitted: a missing code, a word.

    `places` are their rows in the table, `given` the number in the target (NaN for words), and
    `X` is what their target is predicted from.
    """

    places: NDArray[np.intp]
    given: Vector
    reasons: list[str]
    X: Any

    @property
    def fixes(self) -> list[str]:
        """What to do about each; a total is no mistake in a value."""
        return ["" if reason == TOTAL else MISSING_CODE for reason in self.reasons]


@dataclass(frozen=True, eq=False)
class JudgedTable(JudgedBase):
    """A table beside what a model of numbers thinks of its rows."""

    model: TableModel
    wrong: WrongTargets | None = None

    @cached_property
    def findings(self) -> Findings:
        """What the fit found."""
        return findings_of(self.model.regressor_)

    @cached_property
    def missing(self) -> Missing:
        """Where values of which columns were filled in."""
        return self._preprocessor.missing(self.rows)

    @cached_property
    def judged(self) -> JudgedRows:
        """Residual, weight and more of every row that has a target."""
        if not self.y.size:  # every target is wrong beyond doubt
            return JudgedRows.none()
        return self.model.regressor_.judge(self.X, self.y, blur=self._blur())

    def _blur(self) -> Matrix | None:
        """Return how far predictions may be off because values were filled in.

        What that does to a curved model shows in the rows it has not seen.
        """
        model = self.model
        return blur_of(model.recipe_, self.findings, model.fill_spread_, self.missing, self.X)

    @cached_property
    def fixes(self) -> Fixes:
        """The likely fixes of rows that look wrong."""
        return fixes_of(self.findings, self.judged, self._partners())

    def _likely_fixes(self) -> NDArray[np.object_]:
        return np.where(self.fixes.probability >= SURE, self.fixes.fix, "")

    def _found(self, chosen: NDArray[np.intp]) -> pa.Table:
        remarks = [self.remarks(int(row)) for row in chosen]
        columns = suspect_columns(self.findings, self.judged, self.fixes, chosen, remarks)
        return pa.table([pa.array(columns[each.name], each.type) for each in SUSPECTS], SUSPECTS)

    def fit_summary(self) -> dict[str, Any]:
        """Return what the fit found, besides what every kind of model has, as JSON can hold it."""
        share, low, high = corrupted_share(self.findings, self.judged.excused)
        return {
            "task": "regression",
            "corrupted_share": share,
            "corrupted_interval": [low, high],
            "target_transform": getattr(self.model.regressor_, "target_transform_", None),
            "noise_scale": self.model.regressor_.noise_scale_,
        }

    def row_columns(self) -> dict[str, Any]:
        """Return what is thought of every row that has a target, by column."""
        rows, fixes = self.judged, self.fixes
        return {
            "is_label_issue": rows.is_wrong,
            "label_quality": rows.quality,
            "weight": rows.weight,
            "residual": rows.residual,
            "given_label": rows.given,
            "predicted_label": rows.predicted,
            "entry_pace": rows.entry_pace,
            "likely_fix": pa.array([fix or None for fix in fixes.fix], pa.string()),
            "fixed_value": pa.array(fixes.value, from_pandas=True),
            "fix_probability": pa.array(fixes.probability, from_pandas=True),
        }

    def wrong_columns(self) -> dict[str, Any]:
        """Return what is known of rows whose target cannot be right, by column."""
        assert self.wrong is not None
        given, n = self.wrong.given, len(self.wrong.places)
        predicted = self.model.regressor_.predict(self.wrong.X)
        transform = self.findings.transform
        off = (transform.of(given) - transform.of(predicted)) / self.findings.unit
        return {
            "is_label_issue": np.ones(n, dtype=bool),
            "label_quality": np.zeros(n),
            "given_label": pa.array(given, from_pandas=True),
            "predicted_label": predicted,
            "residual": pa.array(off, from_pandas=True),
            "weight": np.zeros(n),
            "entry_pace": np.full(n, np.inf),
            "likely_fix": self.wrong.fixes,
            "fixed_value": pa.nulls(n, pa.float64()),
            "fix_probability": np.ones(n),
            "reason": self.wrong.reasons,
        }

    def remarks(self, row: int) -> list[str]:
        """Return causes that only the table knows: values filled in, or far out."""
        return [*self._filled_in(row), *self._far_out(row)][:MOST_REMARKS]

    def _filled_in(self, row: int) -> Iterator[str]:
        """Say which values were filled in that can have to do with the error."""
        coef, error = self.findings.coef, self._error(row)
        for place, feature in enumerate(self.model.recipe_.numeric):
            mask = self.missing.get(feature.name)
            if mask is None or not mask[row]:
                continue
            spread = max(self.model.fill_spread_.get(feature.name, (0.0, 0.0)))
            if coef.size and abs(coef[place]) * spread < LEAST_PART * error:
                continue
            name, raw = visible(feature.name), self.rows[feature.name][row].as_py()
            what = "the more frequent value" if feature.kind == "boolean" else "the median"
            with_what = f"filled in with {what} ({written(feature, feature.fill)})"
            if raw is None:
                yield f"{name} was {with_what}"
            else:
                yield f"{name} = {visible(raw)} looks like a missing code and was {with_what}"

    def _error(self, row: int) -> float:
        return abs(float(self.judged.residual[row] * self.judged.scale[row]))

    def _far_out(self, row: int) -> Iterator[str]:
        """Say which values are so far out that they, rather than the target, may be wrong."""
        error = self._error(row)
        for feature, coef, column, (center, low, high) in self._with_far_values:
            value = float(column[row])
            is_far = not low <= value <= high and abs(coef * (value - center)) > 0.5 * error
            if is_far and np.isfinite(value):
                usual = (written(feature, bound) for bound in self._usual_bounds(feature.name))
                yield (
                    f"{visible(feature.name)} = {written(feature, value)} is far from the usual "
                    f"{' to '.join(usual)}"
                )

    @cached_property
    def _with_far_values(self) -> list[tuple[Feature, float, Vector, tuple[float, float, float]]]:
        """Columns with values far out: coefficient, values, median and where "far" begins."""
        found: list[tuple[Feature, float, Vector, tuple[float, float, float]]] = []
        if not self.findings.coef.size:
            return found
        for place, (feature, column, (center, spread)) in enumerate(self._numeric):
            low, high = center - FAR_OUT * spread, center + FAR_OUT * spread
            if spread > 0 and np.any((column < low) | (column > high)):
                coef = float(self.findings.coef[place])
                found.append((feature, coef, column, (center, low, high)))
        return found

    def _usual_bounds(self, name: str) -> list[float]:
        """Return the values between which all but a few of a column lie."""
        column = next(each for feature, each, _ in self._numeric if feature.name == name)
        some = column[:: max(1, column.size // 1000)]
        return [float(each) for each in np.nanquantile(some, (0.02, 0.98))]

    @cached_property
    def _numeric(self) -> list[tuple[Feature, Vector, tuple[float, float]]]:
        """The columns that become one number each: values, with NaN for missing, and range."""
        found = []
        for feature in self.model.recipe_.numeric:
            column = self._preprocessor.numbers(self.rows, feature)
            some = column[:: max(1, column.size // 10_000)]
            found.append((feature, column, usual_range(some)))
        return found

    def _partners(self) -> list[SwapPartner]:
        judged, coef = self.judged, self.findings.coef
        if not coef.size:
            return []
        wrong = np.flatnonzero(judged.is_wrong)
        given, predicted = judged.given[wrong], judged.predicted[wrong]
        partners: list[SwapPartner] = []
        for place, (feature, column, (center, spread)) in enumerate(self._numeric):
            if feature.kind == "number" and spread > 0 and len(partners) < MOST_PARTNERS:
                own = column[wrong]
                swapped = self.findings.moved(predicted, coef[place] * (given - own))
                partners.append(SwapPartner(feature.name, own, swapped, center, spread))
        return partners
