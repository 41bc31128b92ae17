"""Which rows look wrong, how surely, why and what would fix them: a table for people.

Four columns have the names that cleanlab gives them. Every way to ask (Python, the command line,
a report, a cluster) gives these columns in this order.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Vector
from easyfirst.estimators.findings import Findings
from easyfirst.estimators.judging import JudgedRows
from easyfirst.local.design import dense
from easyfirst.report.fixes import Fixes, likely_fixes
from easyfirst.report.mistakes import SwapPartner
from easyfirst.report.wording import number, percent

COLUMNS = (
    "row_id",
    "is_label_issue",
    "label_quality",
    "given_label",
    "predicted_label",
    "residual",
    "weight",
    "entry_pace",
    "likely_fix",
    "fixed_value",
    "fix_probability",
    "reason",
)
MOST_PARTNERS = 60  # columns that the target may have changed places with
ROWS_FOR_SPREAD = 10_000  # that tell which values a column usually has


def fixes_of(
    findings: Findings,
    judged: JudgedRows,
    partners: Sequence[SwapPartner] = (),
    above: Vector | None = None,
) -> Fixes:
    """Return the likely fix of every row; rows that look clean have none.

    `partners` hold the values of the rows that look wrong, in their order. Without a calibrated
    pace there is no noise scale, by which alone a fixed value can be told to fit. `above` is the
    target of the row above each row, where that is not the one before it.
    """
    if findings.calibration is None:
        return Fixes.none(judged.given.size)
    wrong = np.flatnonzero(judged.is_wrong)
    before = np.append(np.nan, judged.given[:-1]) if above is None else above
    found = likely_fixes(
        judged.given[wrong],
        judged.predicted[wrong],
        judged.scale[wrong],
        quality=judged.quality[wrong],
        above=before[wrong],
        others=judged.given,
        clean=judged.residual[~judged.is_wrong],
        partners=partners,
        transform=findings.transform,
    )
    fixes = Fixes.none(judged.given.size)
    fixes.fix[wrong], fixes.cause[wrong] = found.fix, found.cause
    fixes.value[wrong], fixes.probability[wrong] = found.value, found.probability
    return fixes


def partners_among(X: Any, findings: Findings, judged: JudgedRows) -> list[SwapPartner]:
    """Return the columns of numbers that the target of a linear model may have changed places with.

    Columns with two values or fewer are flags, which nobody mistakes for a measurement.
    """
    wrong = np.flatnonzero(judged.is_wrong)
    if not wrong.size:
        return []
    some = dense(X[:: max(1, X.shape[0] // ROWS_FOR_SPREAD)])
    given, predicted = judged.given[wrong], judged.predicted[wrong]
    values = dense(X[wrong])
    partners: list[SwapPartner] = []
    for j, name in enumerate(findings.names):
        if len(partners) == MOST_PARTNERS:
            break
        center, spread = usual_range(some[:, j])
        if spread > 0 and np.unique(some[:1000, j]).size > 2:
            swapped = findings.moved(predicted, findings.coef[j] * (given - values[:, j]))
            partners.append(SwapPartner(str(name), values[:, j], swapped, center, spread))
    return partners


def usual_range(values: Vector) -> tuple[float, float]:
    """Return the median of a column and how far from it two thirds of the values lie."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 0.0
    low, center, high = np.quantile(finite, (0.16, 0.5, 0.84))
    return float(center), float(max(0.5 * (high - low), 0.1 * np.std(finite)))


def reason(
    findings: Findings, rows: JudgedRows, row: int, cause: str = "", remarks: Sequence[str] = ()
) -> str:
    """Return in one sentence why a row is suspected, or why it is not."""
    given, predicted = float(rows.given[row]), float(rows.predicted[row])
    size = abs(float(rows.residual[row]))
    both = f"given {number(given)}, predicted {number(predicted)}"
    if cause:
        said = cause
    elif given == predicted:
        said = _verdict(findings, float(rows.quality[row]))
    else:
        side = "higher" if given > predicted else "lower"
        said = (
            f"{number(abs(given - predicted))} {side}, {size:,.3g} {findings.unit_name}; "
            f"{_verdict(findings, float(rows.quality[row]))}"
        )
    return "; ".join([f"{both}: {said}", *remarks])


def _verdict(findings: Findings, quality: float) -> str:
    if findings.calibration is None:
        chosen = "selected" if quality >= 0.5 else "not selected"
        return f"{chosen} at a pace of {number(findings.pace)}"
    chance = f"{percent(max(quality, 1e-12))} likely to be clean"  # never quite impossible
    return chance if quality < 0.5 else f"noise can explain that, {chance}"


def suspect_columns(
    findings: Findings,
    rows: JudgedRows,
    fixes: Fixes,
    chosen: NDArray[np.intp],
    remarks: Sequence[Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Return what is known of some rows, by column, without their names.

    `remarks` are more causes of each of the chosen rows, which only a table knows.
    """
    said = [()] * len(chosen) if remarks is None else remarks
    return {
        "is_label_issue": rows.is_wrong[chosen],
        "label_quality": rows.quality[chosen],
        "given_label": rows.given[chosen],
        "predicted_label": rows.predicted[chosen],
        "residual": rows.residual[chosen],
        "weight": rows.weight[chosen],
        "entry_pace": rows.entry_pace[chosen],
        "likely_fix": [fix or None for fix in fixes.fix[chosen]],
        "fixed_value": fixes.value[chosen],
        "fix_probability": fixes.probability[chosen],
        "reason": [
            reason(findings, rows, int(row), str(fixes.cause[row]), more)
            for row, more in zip(chosen, said, strict=True)
        ],
    }


def framed(columns: dict[str, Any], chosen: NDArray[np.intp], like: Any) -> Any:
    """Return columns as a frame of the library that `like` is from, or the first one installed."""
    backend = _frame_backend(like)
    if backend is None:
        return {name: np.asarray(values) for name, values in columns.items()}
    frame = nw.from_dict({k: _plain(v) for k, v in columns.items()}, backend=backend).to_native()
    if hasattr(frame, "index"):  # pandas: the rows keep their labels, so that X.loc finds them
        frame.index = like.index[chosen] if hasattr(like, "index") else chosen
    return frame


def _frame_backend(like: Any) -> Any:
    frame = nw.from_native(like, pass_through=True, eager_only=True, allow_series=True)
    if isinstance(frame, nw.DataFrame | nw.Series):
        return frame.implementation
    for name in ("pandas", "polars", "pyarrow"):
        if importlib.util.find_spec(name) is not None:
            return name
    return None


def _plain(values: Any) -> Any:
    """Return object arrays as lists, which every frame library can read."""
    return values.tolist() if isinstance(values, np.ndarray) else values
