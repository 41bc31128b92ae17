"""What a fit leaves in its estimator, and what it warns of."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from easyfirst.consensus.fitted import Calibration, FittedModel
from easyfirst.consensus.history import History
from easyfirst.consensus.statistics import StackedStatistics
from easyfirst.contracts import Source, Vector
from easyfirst.errors import NoSingleModelWarning, RankWarning
from easyfirst.estimators import targets
from easyfirst.estimators.fit_note import FitNote
from easyfirst.estimators.notes import advice_notes, doubts_of, in_view_of, notes_of
from easyfirst.estimators.reporting import rows_digest
from easyfirst.estimators.streaming import Judgement
from easyfirst.local.design import Coordinates
from easyfirst.sources import ArraySource

# What only a calibrated pace can tell.
CALIBRATED_ATTRIBUTES = (
    "noise_scale_",
    "corrupted_fraction_",
    "corrupted_interval_",
    "batch_clean_share_",
    "coef_standard_errors_",
    "intercept_standard_error_",
    "dispersion_",
    "_calibration",
)

SEE = '("When to use it, and when not" in the documentation explains this.)'


class LinearStoringMixin:
    """The fitted attributes of a linear model."""

    fit_intercept: bool
    n_features_in_: int
    target_transform_: str | None

    def _store(self, fitted: FittedModel, coordinates: Coordinates) -> None:
        n_outputs = fitted.fleet.problem.n_outputs
        self.coef_, self.intercept_ = targets.to_user(coordinates, fitted.coef, n_outputs)
        self.pace_ = fitted.rounds.pace.value
        self.status_ = fitted.status
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        names = [str(name) for name in names]
        of_opinion = doubts_of(fitted, names)
        doubts = (*fitted.doubts, *of_opinion, *self._undetermined(fitted))
        self.doubts_ = in_view_of(self.target_transform_, doubts)
        of_fit = (*fitted.notes, *notes_of(fitted, names))
        self.notes_ = in_view_of(self.target_transform_, (*of_fit, *advice_notes(fitted.advice)))
        self._store_history(fitted.history)
        self._fit_note = FitNote.now(fitted.fleet.n_rows)
        self._forget_calibration()
        if fitted.calibration is not None:
            self._store_calibration(fitted.calibration)

    def _forget_calibration(self) -> None:
        """Remove what an earlier fit with another schedule, or of several targets, has left."""
        for name in (*CALIBRATED_ATTRIBUTES, "outputs_"):
            self.__dict__.pop(name, None)

    def _store_weights(self, fitted: FittedModel, source: Source) -> None:
        """Gather the weights of rows that are in memory; keep the rule for others."""
        for name in ("weights_", "selected_", "_rows_digest", "_judgement"):
            self.__dict__.pop(name, None)
        weightings = fitted.rounds.weightings
        if isinstance(source, ArraySource):
            self.weights_ = in_row_order(source, fitted.fleet.weights(weightings))
            if source.rejected is not None:
                self.weights_[source.rejected] = 0.0
            self.selected_ = self.weights_ >= 0.5
            self._rows_digest = rows_digest(source.X, source.y)
        else:
            self._judgement = Judgement(fitted.fleet.problem, tuple(weightings))

    def _store_history(self, history: History) -> None:
        self.history_ = history
        self.n_rounds_ = history.rounds[-1].round
        self.n_iter_ = len(history.iterations) or len(history.rounds)

    def _store_calibration(self, calibration: Calibration) -> None:
        errors = calibration.standard_errors
        p = self.n_features_in_
        self.noise_scale_ = calibration.noise.scale
        if calibration.is_of_counts:
            self.dispersion_ = calibration.counts.dispersion
        self.corrupted_fraction_ = calibration.corrupted_fraction
        self.corrupted_interval_ = calibration.corrupted_interval
        self.batch_clean_share_ = np.array(calibration.batch_shares)
        self.coef_standard_errors_ = errors[:p]
        self.intercept_standard_error_ = float(errors[p]) if self.fit_intercept else 0.0
        self._calibration = calibration

    def _warn(self, fitted: FittedModel) -> None:
        status = self.status_
        if not status.converged:
            warnings.warn(status.message, ConvergenceWarning, stacklevel=3)
        of_rank = self._undetermined(fitted)
        for doubt in self.doubts_:
            kind = RankWarning if doubt in of_rank else NoSingleModelWarning
            warnings.warn(f"{doubt} {SEE}", kind, stacklevel=3)

    def _undetermined(self, fitted: FittedModel) -> tuple[str, ...]:
        """Say that the kept rows leave some coefficients open, if they do."""
        stats = fitted.rounds.statistics
        if fitted.rank >= stats.n_coef:
            return ()
        constant = self._constant_columns(stats)
        blame = f" ({constant})" if constant else ""
        return (
            f"The kept rows determine only {fitted.rank} of {stats.n_coef} coefficients{blame}; "
            f"the others are those of the minimum-norm solution. Drop redundant columns, add "
            f"rows, or use penalty=Ridge(...).",
        )

    def _constant_columns(self, stats: StackedStatistics) -> str:
        """Name the columns without spread among the kept rows."""
        p = self.n_features_in_
        flat = stats.columns_without_spread(p, bool(self.fit_intercept))
        names = getattr(self, "feature_names_in_", [f"column {j}" for j in range(p)])
        if flat.size == 0:
            return ""
        return f"constant: {', '.join(str(names[j]) for j in flat[:5])}"


def in_row_order(source: ArraySource, weights: list[Vector]) -> Vector:
    """Return what batches say of their rows, in the order in which the rows were given."""
    ordered = np.empty(source.X.shape[0])
    for rows, values in zip(source.rows(), weights, strict=True):
        ordered[rows] = values
    return ordered
