"""What makes a model of raw tables a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from easyfirst.estimators import SelfPaced, SelfPacedRegressor
from easyfirst.estimators.findings import findings_of
from easyfirst.estimators.judging import JudgedRows
from easyfirst.tables.base import TableBase

if TYPE_CHECKING:
    from easyfirst.report import Summary


class TableEstimator(RegressorMixin, TableBase):
    """Parameters, score, summary and report of a `TableModel`."""

    regressor_: SelfPacedRegressor | SelfPaced
    _mildly_judged: JudgedRows | None  # the rows of the fit, where values were filled in

    def score(self, frame: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R² on the rows of a table that have a target.

        Wrong rows distort it; `easyfirst.metrics` has scores that they do not.

        Parameters
        ----------
        frame
            A raw table.
        y
            The target, if it is not a column of the table.
        sample_weight
            How much each row counts.
        """
        check_is_fitted(self)
        if y is None:
            judged = self.judged(frame)
            given, used = judged.y, judged.used
        else:
            whole = np.asarray(y, dtype=np.float64).reshape(-1)
            used = ~np.isnan(whole)
            given = whole[used]
        weight = None if sample_weight is None else np.asarray(sample_weight)[used]
        return float(r2_score(given, self.predict(frame)[used], sample_weight=weight))

    def summary(self, level: float = 0.95) -> Summary:
        """Return what the fit found; see `SelfPacedRegressor.summary`."""
        from easyfirst.report.summary import Summary

        check_is_fitted(self)
        findings, judged = findings_of(self.regressor_), getattr(self, "_mildly_judged", None)
        if judged is None:
            return Summary(findings, level)
        return Summary(replace(findings, weights=judged.quality), level, judged.excused)

    def confidence_intervals(self, level: float = 0.95) -> Any:
        """Return bounds for each coefficient; see `SelfPacedRegressor.confidence_intervals`."""
        check_is_fitted(self)
        if isinstance(self.regressor_, SelfPaced):
            raise AttributeError("gradient boosting has no coefficients: use model='linear'")
        return self.regressor_.confidence_intervals(level)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "regressor_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False  # it is a column of the table
        tags.input_tags.string = tags.input_tags.allow_nan = True
        return tags
