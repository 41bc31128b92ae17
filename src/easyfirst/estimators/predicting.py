"""What a fitted linear model says of rows: predictions, intervals, whether they are clean."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from sklearn.utils.validation import check_is_fitted

from easyfirst.consensus.fitted import Calibration
from easyfirst.contracts import Matrix, Vector
from easyfirst.estimators import targets, validation
from easyfirst.losses import Loss, Squared
from easyfirst.schedules import PaceSchedule
from easyfirst.sources.frames import library_of, source_module
from easyfirst.transforms import TRANSFORMS, TargetTransform
from easyfirst.typing import LazyRows, TableLike


class LinearPredictingMixin:
    """Predictions of coefficients, and of the noise around them where it is known."""

    coef_: Vector
    intercept_: float
    target_transform_: str | None
    loss: Loss | None
    pace: PaceSchedule | None

    @overload
    def predict(self, X: LazyRows) -> Any: ...

    @overload
    def predict(self, X: TableLike) -> Vector: ...

    def predict(self, X: TableLike | LazyRows) -> Any:
        """Return the prediction for each row: what y is expected to be.

        An array; for a dask collection, a Ray Dataset or a Spark DataFrame, the same kind again,
        not yet computed.
        """
        check_is_fitted(self)
        library = library_of(X)
        loss = self.loss or Squared()
        if library is not None and loss.link != "identity":
            raise TypeError(
                f"predictions of a {library} collection are linear, and loss={loss!r} has a "
                f"{loss.link} link: predict its parts as arrays"
            )
        if library is not None:
            targets.require_one(self, f"predicting a {library} collection")
            names = getattr(self, "feature_names_in_", None)
            parts = (self.coef_, self.intercept_, names, self._transform)
            return source_module(library).predict(X, *parts)
        rows = validation.prediction_rows(self, X)
        return self._transform.back(loss.mean(self._linear(rows)))

    def _linear(self, rows: Any) -> Vector:
        return np.asarray(rows @ self.coef_.T + self.intercept_)

    @property
    def _transform(self) -> TargetTransform:
        return TRANSFORMS[self.target_transform_]

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Matrix:
        """Return lower and upper bounds, shape (n_samples, 2), that hold for clean rows.

        A new row that is not corrupted lies between them with probability `coverage`. The width
        comes from the rows that look clean; corrupted rows can lie anywhere.
        """
        calibration = self._calibrated("predict_interval")
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must lie between 0 and 1, got {coverage!r}")
        rows = validation.prediction_rows(self, X)
        if calibration.is_of_counts:
            return calibration.counts.interval(self._linear(rows), coverage)
        scale = calibration.scale_rule.of(rows)
        bounds = scale[:, None] * np.array(calibration.bounds(coverage))
        return self._transform.back(self._linear(rows)[:, None] + bounds)

    def clean_probability(self, X: Any, y: Any) -> Vector:
        """Return the probability that each of these rows is clean, given their y."""
        calibration = self._calibrated("clean_probability")
        rows = validation.prediction_rows(self, X)
        target = self._transform.of(validation.judged_target(y, rows))
        if calibration.is_of_counts:
            self._require_suitable(target)
            return calibration.counts.posterior(target, self._linear(rows))
        scaled = (target - self._linear(rows)) / calibration.scale_rule.of(rows)
        return np.where(calibration.is_aside(target), 0.0, calibration.noise.posterior(scaled))

    def _require_suitable(self, target: Vector) -> None:
        complaint = None if self.loss is None else self.loss.complaint(target)
        if complaint is not None:
            raise ValueError(f"loss={self.loss!r} {complaint}")

    def _calibrated(self, method: str) -> Calibration:
        check_is_fitted(self)
        targets.require_one(self, method)
        if not hasattr(self, "_calibration"):
            raise AttributeError(
                f"{method} needs a noise scale, which only the calibrated pace estimates: "
                f"fit with pace=None, this model has pace={self.pace!r}"
            )
        calibration: Calibration = self._calibration
        return calibration
