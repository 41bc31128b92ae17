"""Which model a table gets: a linear one, gradient boosting, or the better of the two."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from easyfirst.contracts import Vector
from easyfirst.errors import NoSingleModelWarning
from easyfirst.estimators import SelfPaced, SelfPacedRegressor
from easyfirst.tables.errors import TableError

MODELS = ("linear", "boosting", "auto")
CLEARLY = 0.8  # of the linear model's error that a curved one may have at most,
SURELY = 3.0  # by so many standard errors
CAP = 8.0  # typical misses beyond which a miss counts no more
LEAST_ROWS = 200  # from which on a curved model is worth a try


@dataclass(frozen=True, eq=False)
class Choice:
    """The model that was taken, why, and the warnings that are due with it."""

    model: SelfPacedRegressor | SelfPaced
    note: str | None
    caught: list[Warning | str]


def require_known(model: str) -> None:
    """Refuse what is no kind of model."""
    if model not in MODELS:
        listed = ", ".join(repr(each) for each in MODELS)
        raise TableError(f"model must be one of {listed}, got {model!r}")


def chosen(kind: str, linear: SelfPacedRegressor, caught: list[Warning | str], rows: Any) -> Choice:
    """Return the linear model, or fit gradient boosting and return that or the better one."""
    if kind == "linear" or (kind == "auto" and rows.y.size < LEAST_ROWS):
        return Choice(linear, None, caught)
    boosting = SelfPaced(
        HistGradientBoostingRegressor(random_state=0), random_state=linear.random_state
    )
    with warnings.catch_warnings(record=True) as more:
        warnings.simplefilter("always", NoSingleModelWarning)
        masks = {"trusted": rows.trusted, "rejected": rows.rejected}
        boosting.fit(rows.X, rows.y, batches=rows.batches, **masks)
    warned: list[Warning | str] = [each.message for each in more]
    if kind == "boosting":
        return Choice(boosting, None, warned)
    ratio, is_sure = _compared(linear, boosting, rows)
    wrong, before = (float(np.mean(~each.selected_)) for each in (boosting, linear))
    if not (is_sure and ratio <= CLEARLY):
        note = (
            f"The linear model was kept: on rows that look clean, a curved one (gradient boosting) "
            f"has {100 * ratio:.0f} % of its error."
        )
        return Choice(linear, note, caught)
    note = (
        f"A curved model (gradient boosting) was taken: on rows that look clean it has "
        f"{100 * ratio:.0f} % of the linear model's error. Judged by it, {100 * wrong:.2g} % of "
        f"the rows look wrong instead of {100 * before:.2g} %."
    )
    return Choice(boosting, note, warned)


def _compared(linear: SelfPacedRegressor, boosting: SelfPaced, rows: Any) -> tuple[float, bool]:
    """Return the error of boosting over that of the linear model, and whether it surely is less.

    Rows count that look clean to either; boosting is judged by models that have not seen them.
    """
    clean = linear.selected_ | boosting.selected_
    by_line: Vector = np.abs(rows.y - linear.predict(rows.X))[clean]
    by_curve: Vector = np.abs(rows.y - boosting.out_of_fold_)[clean]
    if not clean.any():
        return 1.0, False
    cap = CAP * max(float(np.median(by_line)), float(np.median(by_curve)))
    by_line, by_curve = np.minimum(by_line, cap), np.minimum(by_curve, cap)
    gain = by_line - by_curve
    error = float(gain.std() / np.sqrt(gain.size))
    ratio = float(by_curve.mean() / max(float(by_line.mean()), 1e-300))
    return ratio, float(gain.mean()) > SURELY * error
