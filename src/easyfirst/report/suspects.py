"""Which rows look wrong, how surely, and why: a table with cleanlab's four columns and more."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Vector
from easyfirst.regularizers import Entropic
from easyfirst.report.facts import FitFacts
from easyfirst.report.wording import number, percent

HOPELESS = 1e-9  # below, rows are equally certain to be wrong, and the larger residual is worse
COLUMNS = (
    "row_id",
    "is_label_issue",
    "label_quality",
    "given_label",
    "predicted_label",
    "residual",
    "weight",
    "entry_pace",
    "reason",
)


@dataclass(frozen=True, eq=False)
class JudgedRows:
    """Rows beside what the model thinks of them; all arrays have one entry per row.

    `residual` is in units of the noise, `entry_pace` the pace from which the row would have a
    weight of at least one half.
    """

    given: Vector
    predicted: Vector
    residual: Vector
    weight: Vector
    quality: Vector
    entry_pace: Vector

    @property
    def is_wrong(self) -> NDArray[np.bool_]:
        """Which rows look wrong: more likely corrupted than clean."""
        return np.asarray(self.quality < 0.5)

    def order(self) -> NDArray[np.intp]:
        """Return the rows from the worst on; equally bad rows keep their order."""
        quality = np.where(self.quality < HOPELESS, 0.0, self.quality)
        return np.lexsort((-np.abs(self.residual), quality))


def judge(
    facts: FitFacts, given: Vector, predicted: Vector, weights: Vector | None = None
) -> JudgedRows:
    """Judge rows by their residuals; `weights` are given for rows of the fit.

    The weights of the fit know the batch of a row and how far out it lies, which new rows do
    not tell.
    """
    residual = given - predicted
    loss = np.square(residual)
    entry_pace = loss / _loss_of_half_weight(facts)
    if weights is None:
        weights = _weights(facts, residual)
    return JudgedRows(
        given=given,
        predicted=predicted,
        residual=residual / facts.unit,
        weight=weights,
        quality=_quality(facts, residual, weights, entry_pace),
        entry_pace=entry_pace,
    )


def _weights(facts: FitFacts, residual: Vector) -> Vector:
    """Weigh rows that the fit has not seen, by the fit's rule and its final pace."""
    rule, loss = facts.regularizer, np.square(residual)
    if facts.calibration is None:
        if not np.isfinite(facts.pace):
            return np.ones(residual.size)
        return rule.weights(loss, facts.pace)
    mixture = facts.calibration.mixture
    below, above = mixture.thresholds(np.array([mixture.share]))[0]
    return rule.with_width(mixture.width).weights(loss, np.where(residual < 0, below, above))


def _quality(facts: FitFacts, residual: Vector, weights: Vector, entry_pace: Vector) -> Vector:
    """Return a number in [0, 1] that is below one half where the row looks wrong.

    With a calibrated pace it is the probability that the row is clean.
    """
    if facts.calibration is None:
        pace = facts.pace
        return np.ones(residual.size) if not np.isfinite(pace) else pace / (pace + entry_pace)
    if isinstance(facts.regularizer, Entropic):
        return weights
    below, above = facts.calibration.mixture.posterior(np.abs(residual))[0]
    return np.asarray(np.where(residual < 0, below, above))


def _loss_of_half_weight(facts: FitFacts) -> float:
    """Return the loss at which the weight falls below one half, for a pace of one.

    Rules are homogeneous, so one number tells it for every pace.
    """
    low, high = 0.0, 1.0
    while facts.regularizer.weights(np.array([high]), 1.0)[0] >= 0.5 and high < 1e6:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        inside = facts.regularizer.weights(np.array([middle]), 1.0)[0] >= 0.5
        low, high = (middle, high) if inside else (low, middle)
    return high


def reason(facts: FitFacts, rows: JudgedRows, row: int) -> str:
    """Return in one sentence why a row is suspected, or why it is not."""
    given, predicted = float(rows.given[row]), float(rows.predicted[row])
    verdict = _verdict(facts, float(rows.quality[row]))
    if given == predicted:
        return f"{number(given)} is what the model predicts: {verdict}."
    side = "above" if given > predicted else "below"
    return (
        f"{number(given)} is {number(abs(given - predicted))} {side} the predicted "
        f"{number(predicted)}, {abs(rows.residual[row]):,.3g} {facts.unit_name}: "
        f"{verdict}."
    )


def _verdict(facts: FitFacts, quality: float) -> str:
    if facts.calibration is None:
        let_in = "let in" if quality >= 0.5 else "not let in"
        return f"{let_in} at a pace of {number(facts.pace)}"
    chance = f"{percent(max(quality, 1e-12))} likely to be clean"  # never quite impossible
    return chance if quality < 0.5 else f"noise can explain that, {chance}"


def suspects_frame(
    facts: FitFacts,
    rows: JudgedRows,
    row_ids: NDArray[Any],
    top: int | None,
    like: Any = None,
) -> Any:
    """Return the suspicious rows, worst first, as a frame of the library that `like` is from."""
    order = rows.order()
    chosen = order[: np.count_nonzero(rows.is_wrong)] if top is None else order[:top]
    columns = {
        "row_id": row_ids[chosen],
        "is_label_issue": rows.is_wrong[chosen],
        "label_quality": rows.quality[chosen],
        "given_label": rows.given[chosen],
        "predicted_label": rows.predicted[chosen],
        "residual": rows.residual[chosen],
        "weight": rows.weight[chosen],
        "entry_pace": rows.entry_pace[chosen],
        "reason": [reason(facts, rows, int(row)) for row in chosen],
    }
    return _framed(columns, chosen, like)


def frame_backend(like: Any) -> Any:
    """Return the library to build a frame with: that of `like`, or the first one installed."""
    frame = nw.from_native(like, pass_through=True, eager_only=True, allow_series=True)
    if isinstance(frame, nw.DataFrame | nw.Series):
        return frame.implementation
    for name in ("pandas", "polars", "pyarrow"):
        if importlib.util.find_spec(name) is not None:
            return name
    return None


def _framed(columns: dict[str, Any], chosen: NDArray[np.intp], like: Any) -> Any:
    backend = frame_backend(like)
    if backend is None:
        return {name: np.asarray(values) for name, values in columns.items()}
    frame = nw.from_dict({k: _plain(v) for k, v in columns.items()}, backend=backend).to_native()
    if hasattr(frame, "index"):  # pandas: the rows keep their labels, so that X.loc finds them
        frame.index = like.index[chosen] if hasattr(like, "index") else chosen
    return frame


def _plain(values: Any) -> Any:
    """Return object arrays as lists, which every frame library can read."""
    return values.tolist() if isinstance(values, np.ndarray) else values
