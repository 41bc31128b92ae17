"""Self-paced linear regression as a scikit-learn estimator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from easyfirst.callbacks import Callback
from easyfirst.consensus.checks.transforming import Advice
from easyfirst.consensus.fitted import FittedModel
from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.model import Judging, fit_model
from easyfirst.consensus.rounds.common import Center, RoundSettings
from easyfirst.consensus.solvers.outputs import OutputObjective
from easyfirst.consensus.statistics import Objective
from easyfirst.contracts import Engine, Source
from easyfirst.engines.blas import one_blas_thread
from easyfirst.engines.embedded import cores_of_driver
from easyfirst.estimators import clusters, parameters, targets, validation
from easyfirst.estimators.callback_runner import CallbackRunner
from easyfirst.estimators.clusters import SharedEngineMixin
from easyfirst.estimators.notes import choice_note
from easyfirst.estimators.partial import PartialFitMixin
from easyfirst.estimators.plugin_params import PlugInParamsMixin
from easyfirst.estimators.predicting import LinearPredictingMixin
from easyfirst.estimators.reporting import LinearReportingMixin
from easyfirst.estimators.saving import SavingMixin
from easyfirst.estimators.storing import LinearStoringMixin
from easyfirst.estimators.streaming import StreamingMixin
from easyfirst.local.design import Coordinates
from easyfirst.local.weighing import Problem
from easyfirst.losses import Loss, Squared
from easyfirst.penalties import NoPenalty, Penalty, Ridge
from easyfirst.regularizers import Hard, SelfPacedRegularizer
from easyfirst.schedules import Calibrated, Geometric, PaceSchedule
from easyfirst.sources import ArraySource
from easyfirst.transforms import IDENTITY, TRANSFORMS, TargetTransform


class SelfPacedRegressor(
    PlugInParamsMixin,
    SharedEngineMixin,
    StreamingMixin,
    PartialFitMixin,
    SavingMixin,
    LinearPredictingMixin,
    LinearStoringMixin,
    LinearReportingMixin,
    RegressorMixin,
    BaseEstimator,
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
        How badly a prediction misses, from `easyfirst.losses`. None: `Squared()`. The calibrated
        pace also has `PoissonDeviance()` for counts and `GammaDeviance()` for positive amounts;
        others need a schedule. Losses with a link predict its mean, such as a probability.
    penalty
        What large coefficients cost, from `easyfirst.penalties`. None: nothing. The intercept
        is never penalised.
    target_transform
        Fit "log" or "sqrt" of a positive y. Coefficients and noise scale are then those of the
        transformed target; predictions, intervals and suspicious rows have the units of y. "auto"
        (calibrated pace only) takes the one by which rows that look clean are most likely, if the
        gain is clear. None fits y as it is; `notes_` tell where another would be much better.
    solver
        "admm" brings the batches to consensus as the paper does; "gram" adds up the Gram matrices
        of all batches and solves once, with the same result; "cg" solves by conjugate gradients
        and forms no square matrix. For losses other than squared, the last two take Newton steps.
        "auto" takes "gram", and "cg" beyond 5,000 columns, or beyond 500 if there are fewer rows
        than columns, where the penalty is quadratic; standard errors are then those of
        uncorrelated columns.
    admm_on
        Where the batches' parts of a consensus iteration are solved: on the "workers", for any
        loss, where an iteration sends one vector to each batch and gets one back; or on the
        "driver", for the squared loss, from Gram matrices that each batch sends once per round.
        "auto" takes the driver for the squared loss where all these matrices together have at
        most 2**25 entries; if the penalty is quadratic, and neither `rho` nor `over_relaxation`
        is given, it then solves for the point of consensus at once, which the history shows as
        one iteration per round. The result is the same.
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
    center
        What `predict` aims at where clean noise is skewed: the "mean" of clean rows, their
        "median", or their "middle" by Huber's rule, which lies between the two. The mean adds up
        (totals, averages), the median has the smallest absolute errors, and the middle is nearly
        as good and surer of itself. For the calibrated pace.
    max_rounds, max_iter
        Limits on the self-paced rounds, and on the consensus iterations within one.
    tol
        Rounds end when the pace is final and at most this share of the weight still changes;
        consensus iterations end when the optimality conditions hold to a hundredth of it.
    polish
        Solve once more, exactly, for the final weights. "auto" does so where a closed form
        exists; False returns the consensus as the last round left it.
    engine
        Where the work runs: "threads" or "inline" in this process, or "out-of-core", which need
        not hold all rows in memory (`OutOfCore(memory_limit="1GB")`); a dask `Client`, a Spark
        session, "dask", "ray" or "spark" for the cluster that is connected; or an instance from
        `easyfirst.engines`. "auto" goes where the rows are: threads for rows in memory. The
        result is bit-for-bit identical everywhere.
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
        The consensus model; for y of shape (n_samples, n_targets), a line and an entry for each
        target, as in scikit-learn.
    weights_
        The self-paced weight of each training row, in [0, 1]; with the calibrated pace, the
        probability that the row is clean. Only for rows in memory; see `weights_by_batch`.
    selected_
        Which rows have a weight of at least one half.
    pace_
        The final pace, in units of the loss.
    status_
        How the fit ended: `code`, `message`, `converged`.
    target_transform_
        What was fitted: "log" or "sqrt" of y, or None for y itself.
    notes_
        What was done because the residuals depend on X, each a sentence.
    doubts_
        A sentence for each reason not to believe the fit; also given as a warning.
    reading_
        What an out-of-core fit read: passes, bytes from the source and from the cache.
    history_
        One record per round and per iteration; `history_.to_frame()`.
    n_rounds_, n_iter_
        Rounds after the first fit; consensus iterations in all rounds (solves, where each round
        needs one message only).
    n_features_in_, feature_names_in_
        The columns seen by fit.
    outputs_
        For several targets and the calibrated pace: a model for each, with summary, report,
        suspicious rows and intervals of its own. The weight of a row is the least that it has in
        any of them.
    corrupted_fraction_, corrupted_interval_
        Estimated share of corrupted rows, and its 95 % interval (calibrated pace only, as are
        the following).
    noise_scale_
        Standard deviation of the clean rows around the model; 1 for counts and amounts, whose
        residuals are roots of deviances.
    dispersion_
        For counts, the a of the clean rows' variance mean + a mean**2 (0: a Poisson
        distribution); for amounts, of a mean**2.
    batch_clean_share_
        Estimated share of clean rows in each batch.
    coef_standard_errors_, intercept_standard_error_
        Standard errors that account for the weights having been estimated. Not a number where
        none are known: for regularizers other than `Entropic` and penalties with kinks.

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
        target_transform: Literal["auto", "log", "sqrt"] | None = None,
        solver: Literal["auto", "admm", "gram", "cg"] = "auto",
        admm_on: Literal["auto", "driver", "workers"] = "auto",
        rho: Literal["auto", "adaptive"] | float = "auto",
        over_relaxation: float | Literal["auto"] = "auto",
        n_batches: int | None = None,
        weights_from: Literal["consensus", "batch"] = "consensus",
        update_weights: Literal["round", "iteration"] = "round",
        fit_intercept: bool = True,
        center: Center = "middle",
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
        self.target_transform = target_transform
        self.solver = solver
        self.admm_on = admm_on
        self.rho = rho
        self.over_relaxation = over_relaxation
        self.n_batches = n_batches
        self.weights_from = weights_from
        self.update_weights = update_weights
        self.fit_intercept = fit_intercept
        self.center = center
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

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        batches: Any = None,
        trusted: Any = None,
        rejected: Any = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            Rows by features: NumPy, SciPy sparse, pandas, polars or pyarrow; a dask array or
            DataFrame, whose partitions become batches; or a source that holds y as well, from
            `easyfirst.read_frame` or `easyfirst.read_parquet`.
        y
            One number per row; for the squared loss and rows in memory, also several, as columns.
            A row then has one weight for all of them. A schedule judges it by the sum of its
            losses, so bring the targets to comparable units first. The calibrated pace judges each
            target by its own noise, and a row that one shows to be wrong is left out for all.
        sample_weight
            How much each row counts: 2 is the same as the row twice, 0 as no row. For the
            calibrated pace, weights that are not whole only say how rows compare, and are
            brought to a mean of one.
        batches
            An id per row: rows with the same id form a batch.
        trusted
            Which rows are known to be right, one truth value per row. They are never set aside
            (their weight is 1), and decide between models that other rows leave open.
        rejected
            Which rows are known to be wrong. They take no part, as if they were absent; their
            weight is 0.
        checkpoint
            A folder that is kept up to date with what each pass over the rows found, so that a
            fit that was killed can go on.
        resume
            Go on with what the checkpoint holds; the result is bit-for-bit that of an
            undisturbed fit. Without one, begin. Other
            data, parameters or versions are refused with a `CheckpointError`.
        """
        settings = parameters.checked(self)
        for name in ("_stream", "drift_"):  # of batches before
            self.__dict__.pop(name, None)
        source = self._source(X, y, sample_weight, batches, trusted, rejected)
        with CallbackRunner(self.callbacks, self.verbose, settings.max_rounds) as runner:
            is_calibrated = isinstance(settings.schedule, Calibrated)
            if isinstance(source, ArraySource) and source.n_targets > 1 and is_calibrated:
                if checkpoint is not None:
                    raise ValueError("checkpoint is for fits of one target: fit them one by one")
                fits = targets.fit_each(self, source, settings, runner)
            else:
                fits = [(self, self._fit_source(source, settings, runner, checkpoint, resume))]
            runner.status = self.status_
        for model, fitted in fits:
            model._warn(fitted)
        return self

    def _source(
        self, X: Any, y: Any, sample_weight: Any, batches: Any, trusted: Any, rejected: Any
    ) -> Source:
        """Return where the rows come from."""
        source = clusters.source_of(X, y, sample_weight, batches)
        if source is None:
            source = validation.training_source(
                self, X, y, sample_weight, batches, self.n_batches, targets.refusal(self)
            )
        else:
            source = validation.known_source(source, self.n_batches)
        return validation.reviewed(source, trusted, rejected)

    def _fit_source(
        self,
        source: Source,
        settings: RoundSettings,
        runner: CallbackRunner,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
    ) -> FittedModel:
        """Fit the rows of a source on an engine, and store what was found."""
        engine = clusters.find_engine(self.engine, self.n_jobs, source)
        given, penalty = source, self.penalty or NoPenalty()
        if isinstance(settings.schedule, Calibrated):
            source, penalty = clusters.with_countable_weights(source, penalty, engine)
        if checkpoint is not None:
            from easyfirst.estimators import checkpoints  # which fits without one need not load

            origin = checkpoints.origin_of_fit(self, given, clusters.for_one_pass(engine))
            engine = checkpoints.Checkpoint.open(checkpoint, resume, origin).around(engine)
        asked, place = self.target_transform, (engine, penalty, settings, runner)
        transform = IDENTITY if asked == "auto" else TRANSFORMS[asked]
        judging: Judging = "choose" if asked == "auto" else "no" if asked else "advise"
        found = self._fit_transformed(source, transform, judging, *place)
        if isinstance(found, FittedModel):
            self._advice = found.advice
            return found
        fitted = self._fit_transformed(source, found.transform, "no", *place)
        assert isinstance(fitted, FittedModel)
        self._advice = found
        self.notes_: tuple[str, ...] = (choice_note(found), *self.notes_)
        return fitted

    def _fit_transformed(
        self,
        source: Source,
        transform: TargetTransform,
        judging: Judging,
        engine: Engine,
        penalty: Penalty,
        settings: RoundSettings,
        runner: CallbackRunner,
    ) -> FittedModel | Advice:
        """Fit a transformed target and store what was found, or return the advice to take another.

        Advice is taken by fitting again: the start that was found is one for y as it was.
        """
        problem = Problem(
            coordinates=Coordinates(bool(self.fit_intercept)),
            loss=self.loss or Squared(),
            regularizer=self.regularizer or parameters.default_regularizer(settings.schedule),
            n_outputs=source.n_targets if isinstance(source, ArraySource) else 1,
        )
        kind = Objective if problem.n_outputs == 1 else OutputObjective
        objective = kind(penalty, bool(self.fit_intercept))
        seed = parameters.seed(self.random_state)
        partitions = clusters.with_transformed_target(source, transform).partitions()
        # What is computed here, beside the workers, must not depend on the number of cores either.
        with (
            one_blas_thread(),
            runner.naming_the_round(),
            engine.open(partitions) as workers,
            cores_of_driver(engine) as spread,
        ):
            fleet = Fleet.meet(workers, problem, spread)
            validation.record_columns(self, source, fleet.n_features)
            by_products = penalty.quadratic_strength is not None and problem.regularizer.separable
            settings = parameters.with_room_for(
                settings, self.solver, sum(fleet.n_rows), fleet.n_features, by_products
            )
            exactly = bool(self.polish)
            self._warn_of_passes(workers, settings, problem.loss)
            fitted = fit_model(fleet, objective, settings, seed, exactly, runner.on_round, judging)
            clusters.store_reading(self, workers)
            if isinstance(fitted, FittedModel):
                self.target_transform_ = transform.name
                self._store(fitted, fleet.problem.coordinates)
                self._store_weights(fitted, source)
        return fitted

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what this estimator takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = targets.refusal(self) is None
        return tags
