"""Self-paced linear regression as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from scipy.special import stdtrit
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from easyfirst.callbacks import Callback
from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.history import History
from easyfirst.consensus.model import Calibration, FittedModel, fit_model
from easyfirst.consensus.rounds import RoundSettings
from easyfirst.consensus.statistics import Objective, StackedStatistics
from easyfirst.contracts import Matrix, Source, Vector
from easyfirst.engines.blas import one_blas_thread
from easyfirst.engines.embedded import cores_of_driver
from easyfirst.errors import NoSingleModelWarning, RankWarning
from easyfirst.estimators import clusters, parameters, validation
from easyfirst.estimators.clusters import SharedEngineMixin
from easyfirst.estimators.contents import FitNote
from easyfirst.estimators.reporting import ReportingMixin, rows_digest
from easyfirst.estimators.saving import SavingMixin
from easyfirst.estimators.streaming import Judgement, StreamingMixin
from easyfirst.estimators.watching import Watch
from easyfirst.local.passes import Frame
from easyfirst.local.weighing import Problem
from easyfirst.losses import Loss, Squared
from easyfirst.penalties import NoPenalty, Penalty, Ridge
from easyfirst.regularizers import Hard, SelfPacedRegularizer
from easyfirst.schedules import Calibrated, Geometric, PaceSchedule
from easyfirst.sources import ArraySource
from easyfirst.sources.frames import library_of, source_module

# What only a calibrated pace can tell.
CALIBRATED_ATTRIBUTES = (
    "noise_scale_",
    "corrupted_fraction_",
    "corrupted_interval_",
    "batch_clean_share_",
    "coef_standard_errors_",
    "intercept_standard_error_",
    "_calibration",
)


class SelfPacedRegressor(
    SharedEngineMixin, StreamingMixin, SavingMixin, ReportingMixin, RegressorMixin, BaseEstimator
):
    """Linear regression that fits the easy rows first and keeps corrupted rows out.

    Distributed Self-Paced Learning: the rows are split into batches; every round weighs each
    row by its own loss and the current pace, fits all batches to one consensus model, and lets
    the pace grow.

    Parameters
    ----------
    pace
        A schedule from `easyfirst.schedules`. None is `Calibrated()`, which reads the pace off
        the residuals: no noise scale, no corruption ratio and no unit has to be given.
    regularizer
        How a row's loss becomes its weight, from `easyfirst.regularizers`. None is `Entropic()`
        for the calibrated pace and the paper's `Hard()` for others.
    loss
        None: `Squared()`, the only loss so far.
    penalty
        What large coefficients cost, from `easyfirst.penalties`. None: nothing. The intercept
        is never penalised.
    solver
        "admm" iterates towards consensus as the paper does; "gram" adds up the Gram matrices
        of all batches and solves once, with the same result; "cg" solves by conjugate gradients
        and forms no square matrix. "auto" takes "gram" where the loss and the penalty are
        quadratic, and "cg" beyond 5,000 columns; standard errors are then those of uncorrelated
        columns.
    rho
        Strength of the pull towards consensus: "auto" follows the data, "adaptive" is moved by
        the paper's rule, a number is taken as it is.
    over_relaxation
        Between 0 and 2; 1 is plain ADMM, larger steps agree sooner. "auto" is 1.6 where the rows
        are weighed once per round, and 1 where they are after every iteration.
    n_batches
        Split the rows into this many batches. None: one batch per 16,384 rows.
    weights_from
        Judge a row by the "consensus" coefficients or, as the paper does, by those of its own
        "batch". They differ only while the batches disagree.
    update_weights
        Weigh the rows once per "round" or after every consensus "iteration".
    fit_intercept
        Whether to fit an intercept.
    max_rounds, max_iter
        Limits on the self-paced rounds, and on the consensus iterations within one.
    tol
        Rounds end when the pace is final and at most this share of the weight still changes;
        consensus iterations end when the optimality conditions hold to a hundredth of it.
    polish
        Solve once more, exactly, for the final weights. "auto" does so where a closed form
        exists; False returns the consensus as the last round left it.
    engine
        Where the work runs: "threads" or "inline" in this process; a dask `Client`, a Spark
        session, "dask", "ray" or "spark" for the cluster that is connected; or an instance from
        `easyfirst.engines`. "auto" goes where the rows are: threads for rows in memory. The
        result has the same bits everywhere.
    n_jobs
        Threads of the "threads" engine; None uses every core.
    random_state
        Seed of the sample on which the calibrated pace starts. None is a fixed seed, so that
        two fits of the same rows agree.
    callbacks
        Objects with methods of `easyfirst.callbacks.Callback`; one may end the fit.
    verbose
        0 is silent, 1 logs each round to standard error.

    Attributes
    ----------
    coef_, intercept_
        The consensus model.
    weights_
        The self-paced weight of each training row, in [0, 1]; with the calibrated pace, the
        probability that the row is clean. Only for rows in memory; see `weights_by_batch`.
    selected_
        Which rows have a weight of at least one half.
    pace_
        The final pace, in units of the loss.
    status_
        How the fit ended: `code`, `message`, `converged`.
    doubts_
        A sentence for each reason not to believe the fit; also given as a warning.
    history_
        One record per round and per iteration; `history_.to_frame()`.
    n_rounds_, n_iter_
        Rounds after the first fit; consensus iterations in all rounds (solves, where each round
        needs one message only).
    n_features_in_, feature_names_in_
        The columns seen by fit.
    corrupted_fraction_, corrupted_interval_
        Estimated share of corrupted rows, and its 95 % interval (calibrated pace only, as are
        the following).
    noise_scale_
        Standard deviation of the clean rows around the model.
    batch_clean_share_
        Estimated share of clean rows in each batch.
    coef_standard_errors_, intercept_standard_error_
        Standard errors that account for the weights having been estimated.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(10.0)[:, None]
    >>> y = 2.0 * X[:, 0] + 1.0
    >>> y[7] = -50.0
    >>> model = SelfPacedRegressor().fit(X, y)
    >>> float(model.coef_[0]), float(model.intercept_)
    (2.0, 1.0)
    >>> model.selected_.tolist().index(False)
    7
    """

    def __init__(
        self,
        *,
        pace: PaceSchedule | None = None,
        regularizer: SelfPacedRegularizer | None = None,
        loss: Loss | None = None,
        penalty: Penalty | None = None,
        solver: Literal["auto", "admm", "gram", "cg"] = "auto",
        rho: Literal["auto", "adaptive"] | float = "auto",
        over_relaxation: float | Literal["auto"] = "auto",
        n_batches: int | None = None,
        weights_from: Literal["consensus", "batch"] = "consensus",
        update_weights: Literal["round", "iteration"] = "round",
        fit_intercept: bool = True,
        max_rounds: int = 200,
        max_iter: int = 1000,
        tol: float = 1e-6,
        polish: Literal["auto"] | bool = "auto",
        engine: Any = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        callbacks: Sequence[Callback] | None = None,
        verbose: int = 0,
    ) -> None:
        self.pace = pace
        self.regularizer = regularizer
        self.loss = loss
        self.penalty = penalty
        self.solver = solver
        self.rho = rho
        self.over_relaxation = over_relaxation
        self.n_batches = n_batches
        self.weights_from = weights_from
        self.update_weights = update_weights
        self.fit_intercept = fit_intercept
        self.max_rounds = max_rounds
        self.max_iter = max_iter
        self.tol = tol
        self.polish = polish
        self.engine = engine
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    @classmethod
    def paper(cls, **overrides: Any) -> Self:
        """Return the configuration of the paper; keyword arguments override parts of it."""
        settings: dict[str, Any] = {
            "pace": Geometric(start=0.1, factor=1.1, ceiling=1.0),
            "regularizer": Hard(),
            "penalty": Ridge(1.0),
            "solver": "admm",
            "fit_intercept": False,
            "weights_from": "batch",
            "polish": False,
        }
        return cls(**(settings | overrides))

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, batches: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            Rows by features: NumPy, SciPy sparse, pandas, polars or pyarrow; a dask array or
            DataFrame, whose partitions become batches; or a source that holds y as well, from
            `easyfirst.read_frame` or `easyfirst.read_parquet`.
        y
            One number per row.
        sample_weight
            How much each row counts: 2 is the same as the row twice, 0 as no row. For the
            calibrated pace, weights that are not whole only say how rows compare, and are
            brought to a mean of one.
        batches
            An id per row: rows with the same id form a batch.
        """
        settings = parameters.checked(self)
        source = self._source(X, y, sample_weight, batches)
        with Watch(self.callbacks, self.verbose, settings.max_rounds) as watch:
            fitted = self._fit_source(source, settings, watch)
            watch.status = self.status_
        self._warn(fitted)
        return self

    def _source(self, X: Any, y: Any, sample_weight: Any, batches: Any) -> Source:
        """Return where the rows come from."""
        source = clusters.source_of(X, y, sample_weight, batches)
        if source is None:
            return validation.training_source(self, X, y, sample_weight, batches, self.n_batches)
        return validation.known_source(source, self.n_batches)

    def _fit_source(self, source: Source, settings: RoundSettings, watch: Watch) -> FittedModel:
        """Fit the rows of a source on an engine, and store what was found."""
        engine = clusters.find_engine(self.engine, self.n_jobs, source)
        penalty = self.penalty or NoPenalty()
        if isinstance(settings.schedule, Calibrated):
            source, penalty = clusters.with_countable_weights(source, penalty, engine)
        problem = Problem(
            frame=Frame(bool(self.fit_intercept)),
            loss=self.loss or Squared(),
            regularizer=self.regularizer or parameters.default_regularizer(settings.schedule),
        )
        objective = Objective(penalty, bool(self.fit_intercept))
        seed = parameters.seed(self.random_state)
        # What is computed here, beside the workers, must not depend on the number of cores either.
        with (
            one_blas_thread(),
            watch.naming_the_round(),
            engine.open(source.partitions()) as workers,
            cores_of_driver(engine) as spread,
        ):
            fleet = Fleet.meet(workers, problem, spread)
            validation.record_columns(self, source, fleet.n_features)
            settings = parameters.with_room_for(settings, self.solver, fleet.n_features)
            fitted = fit_model(fleet, objective, settings, seed, bool(self.polish), watch.on_round)
            self._store(fitted, fleet.problem.frame)
            self._store_weights(fitted, source)
        return fitted

    def predict(self, X: Any) -> Any:
        """Return the prediction for each row.

        An array; for a dask collection, a Ray Dataset or a Spark DataFrame, the same kind again,
        not yet computed.
        """
        check_is_fitted(self)
        library = library_of(X)
        if library is not None:
            names = getattr(self, "feature_names_in_", None)
            return source_module(library).predict(X, self.coef_, self.intercept_, names)
        rows = validation.prediction_rows(self, X)
        return np.asarray(rows @ self.coef_ + self.intercept_)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Matrix:
        """Return lower and upper bounds, shape (n_samples, 2), that hold for clean rows.

        A new row that is not corrupted lies between them with probability `coverage`. The width
        comes from the rows that look clean; corrupted rows can lie anywhere.
        """
        calibration = self._calibrated("predict_interval")
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must lie between 0 and 1, got {coverage!r}")
        half = calibration.half_width(coverage)
        return np.asarray(self.predict(X)[:, None] + np.array([-half, half]))

    def confidence_intervals(self, level: float = 0.95) -> Matrix:
        """Return lower and upper bounds of each coefficient, shape (n_features, 2)."""
        calibration = self._calibrated("confidence_intervals")
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level!r}")
        left = max(calibration.mixture.clean - calibration.n_coef, 1.0)
        half = stdtrit(left, (1.0 + level) / 2.0) * self.coef_standard_errors_
        return np.stack([self.coef_ - half, self.coef_ + half], axis=1)

    def clean_probability(self, X: Any, y: Any) -> Vector:
        """Return the probability that each of these rows is clean, given their y."""
        calibration = self._calibrated("clean_probability")
        predicted = np.asarray(self.predict(X))
        residual = validation.judged_target(y, predicted) - predicted
        below, above = calibration.mixture.posterior(np.abs(residual))[0]
        return np.asarray(np.where(residual < 0, below, above))

    def _calibrated(self, method: str) -> Calibration:
        check_is_fitted(self)
        if not hasattr(self, "_calibration"):
            raise AttributeError(
                f"{method} needs a noise scale, which only the calibrated pace estimates: "
                f"fit with pace=None, this model has pace={self.pace!r}"
            )
        calibration: Calibration = self._calibration
        return calibration

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what this estimator takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _store(self, fitted: FittedModel, frame: Frame) -> None:
        self.coef_, self.intercept_ = frame.to_user(fitted.coef)
        self.pace_ = fitted.rounds.pace.value
        self.status_ = fitted.status
        self.doubts_ = fitted.doubts
        self._store_history(fitted.history)
        self._fit_note = FitNote.now(fitted.fleet.n_rows)
        for name in CALIBRATED_ATTRIBUTES:
            if hasattr(self, name):  # left by an earlier fit with another schedule
                delattr(self, name)
        if fitted.calibration is not None:
            self._store_calibration(fitted.calibration)

    def _store_weights(self, fitted: FittedModel, source: Source) -> None:
        """Gather the weights of rows that are in memory; keep the rule for others."""
        for name in ("weights_", "selected_", "_rows_digest", "_judgement"):
            self.__dict__.pop(name, None)
        weightings = fitted.rounds.weightings
        if isinstance(source, ArraySource):
            self.weights_ = _in_row_order(source, fitted.fleet.weights(weightings))
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
        self.noise_scale_ = calibration.mixture.scale
        self.corrupted_fraction_ = calibration.corrupted_fraction
        self.corrupted_interval_ = calibration.corrupted_interval
        self.batch_clean_share_ = np.array(calibration.batch_shares)
        self.coef_standard_errors_ = errors[:p]
        self.intercept_standard_error_ = float(errors[p]) if self.fit_intercept else 0.0
        self._calibration = calibration

    def _warn(self, fitted: FittedModel) -> None:
        status, stats = self.status_, fitted.rounds.statistics
        if not status.converged:
            warnings.warn(status.message, ConvergenceWarning, stacklevel=3)
        for doubt in fitted.doubts:
            warnings.warn(doubt, NoSingleModelWarning, stacklevel=3)
        size = stats.n_coef
        if fitted.rank < size:
            constant = self._constant_columns(stats)
            blame = f" ({constant})" if constant else ""
            warnings.warn(
                f"The kept rows determine only {fitted.rank} of {size} coefficients{blame}; the "
                f"others were chosen for the least norm. Drop redundant columns, add rows, or use "
                f"penalty=Ridge(...).",
                RankWarning,
                stacklevel=3,
            )

    def _constant_columns(self, stats: StackedStatistics) -> str:
        """Name the columns without spread among the kept rows."""
        p = self.n_features_in_
        flat = stats.columns_without_spread(p, bool(self.fit_intercept))
        names = getattr(self, "feature_names_in_", [f"column {j}" for j in range(p)])
        if flat.size == 0:
            return ""
        return f"constant: {', '.join(str(names[j]) for j in flat[:5])}"


def _in_row_order(source: ArraySource, weights: list[Vector]) -> Vector:
    ordered = np.empty(source.X.shape[0])
    for rows, values in zip(source.rows(), weights, strict=True):
        ordered[rows] = values
    return ordered
