"""Self-paced linear classification as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from easyfirst.callbacks import Callback
from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.history import History
from easyfirst.consensus.labels.fit_classes import (
    FittedLabels,
    LabelSettings,
    count_classes,
    fit_classes,
)
from easyfirst.contracts import Matrix, Source, Vector
from easyfirst.engines.blas import one_blas_thread
from easyfirst.engines.embedded import cores_of_driver
from easyfirst.errors import NoSingleModelWarning
from easyfirst.estimators import clusters, label_notes, parameters, validation
from easyfirst.estimators.callback_runner import CallbackRunner
from easyfirst.estimators.clusters import SharedEngineMixin
from easyfirst.estimators.fit_note import FitNote
from easyfirst.estimators.judged_labels import quality_without_evidence
from easyfirst.estimators.label_reporting import LabelReportingMixin
from easyfirst.estimators.partial_labels import PartialLabelsMixin
from easyfirst.estimators.plugin_params import PlugInParamsMixin
from easyfirst.estimators.reporting import rows_digest
from easyfirst.estimators.storing import in_row_order
from easyfirst.estimators.streaming import warn_of_passes
from easyfirst.local import labels
from easyfirst.local.design import Coordinates
from easyfirst.local.label_judge import with_reference
from easyfirst.local.labels import LabelProblem
from easyfirst.local.weighing import Problem
from easyfirst.losses import Squared
from easyfirst.penalties import Penalty, Ridge
from easyfirst.regularizers import Hard, SelfPacedRegularizer
from easyfirst.schedules import Calibrated, PaceSchedule, Quantile
from easyfirst.sources import ArraySource
from easyfirst.sources.frames import library_of

MOST_CLASSES = 1_000
# What only an estimate of the noise can tell.
NOISE_ATTRIBUTES = ("label_noise_", "corrupted_fraction_", "corrupted_interval_")


class SelfPacedClassifier(
    PlugInParamsMixin,
    SharedEngineMixin,
    LabelReportingMixin,
    PartialLabelsMixin,
    ClassifierMixin,
    BaseEstimator,
):
    """Linear classification that finds wrong labels and is not misled by them.

    A linear model of two or more classes, as `LogisticRegression`. By default, labels are checked
    first: on a sample of the rows, models that have not seen a row say which label it should
    have. From the rows that they are sure about follows how often each class is given a wrong
    label; then every row counts for each class by the probability that this is its right label.
    If nothing says that labels are wrong, the fit is a plain logistic regression.

    How often labels are wrong can be told if some rows of every class are certain, and most labels
    are right. `doubts_` says where the data do not support it.

    Parameters
    ----------
    pace
        None checks the labels as above. A schedule from `easyfirst.schedules` is plain self-paced
        learning: rounds that fit the easiest labels of each class first. Each class has a pace of
        its own, and a tenth of it always takes part, so that a rare class is never dropped.
    regularizer
        How a row's loss becomes its weight where a schedule is given; None is `Hard()`.
    penalty
        What large coefficients cost: `Ridge` or `NoPenalty`. None is `Ridge(0.5)`, the default of
        scikit-learn's `LogisticRegression`. The intercepts are never penalised.
    class_weight
        A dict from classes to weights, "balanced" for weights that make up for how rare classes
        are, or None.
    n_batches
        Split the rows into this many batches. None: one batch per 16,384 rows.
    fit_intercept
        Whether to fit intercepts.
    max_rounds, max_iter
        Limits on the self-paced rounds, and on the steps of one fit.
    tol
        Fits end when no coefficient is further from the optimum than about this share of its
        standard error; rounds when the pace is final and at most this share of the weight changes.
    engine, n_jobs
        Where the work runs, as for `SelfPacedRegressor`.
    random_state
        Seed of the sample on which labels are checked. None is a fixed seed.
    callbacks
        Objects with methods of `easyfirst.callbacks.Callback`; one may end the fit.
    verbose
        0 is silent, 1 logs each round to standard error.

    Attributes
    ----------
    classes_
        The labels, in order.
    coef_, intercept_
        The model: one line per class; for two classes a single line, for the second.
    label_noise_
        Estimated noise: entry (i, j) is the probability that a row of class i is given class j.
        The identity if every label is taken as right.
    weights_
        The probability that the given label of each row is right; with a schedule, its self-paced
        weight. Only for rows in memory, as are the next two.
    suggested_labels_
        The most probable label of each row, the given one included in the evidence.
    selected_
        Which rows have a weight of at least one half.
    corrupted_fraction_, corrupted_interval_
        Estimated share of wrong labels, and its 95 % interval. The interval is (0, 1) where the
        share was not estimated and every label is taken as right; `notes_` or `doubts_` say why.
    batch_clean_share_
        Estimated share of right labels in each batch.
    status_, notes_, doubts_, history_, n_rounds_, n_iter_, pace_
        As for `SelfPacedRegressor`.
    n_features_in_, feature_names_in_
        The columns seen by fit.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2))
    >>> right = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
    >>> wrong = rng.random(1000) < 0.2
    >>> y = np.where(wrong, np.where(right == "yes", "no", "yes"), right)
    >>> model = SelfPacedClassifier().fit(X, y)
    >>> bool(np.mean(model.suggested_labels_ == right) > 0.95)
    True
    >>> bool(abs(model.corrupted_fraction_ - 0.2) < 0.03)
    True
    """

    def __init__(
        self,
        *,
        pace: PaceSchedule | None = None,
        regularizer: SelfPacedRegularizer | None = None,
        penalty: Penalty | None = None,
        class_weight: dict[Any, float] | str | None = None,
        n_batches: int | None = None,
        fit_intercept: bool = True,
        max_rounds: int = 200,
        max_iter: int = 1000,
        tol: float = 1e-6,
        engine: Any = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        callbacks: Sequence[Callback] | None = None,
        verbose: int = 0,
    ) -> None:
        self.pace = pace
        self.regularizer = regularizer
        self.penalty = penalty
        self.class_weight = class_weight
        self.n_batches = n_batches
        self.fit_intercept = fit_intercept
        self.max_rounds = max_rounds
        self.max_iter = max_iter
        self.tol = tol
        self.engine = engine
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    @classmethod
    def paper(cls, **overrides: Any) -> Self:
        """Return plain self-paced classification; keyword arguments override parts of it.

        Logistic loss, all-or-nothing weights, and a pace that grows from the easier half of each
        class to nine tenths of it.
        """
        settings: dict[str, Any] = {
            "pace": Quantile(0.5, 0.9, 0.05),
            "regularizer": Hard(),
            "penalty": Ridge(1.0),
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
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            Rows by features, as for `SelfPacedRegressor.fit`. In a source that holds y as well,
            labels are numbers.
        y
            One label per row: numbers, texts or truth values.
        sample_weight
            How much each row counts: 2 is the same as the row twice, 0 as no row.
        batches
            An id per row: rows with the same id form a batch, whose labels may be noisy in a way
            of their own.
        trusted
            Which labels are known to be right, one truth value per row. Their weight is 1.
        rejected
            Which rows are to take no part, as if they were absent; their weight is 0.
        """
        settings = self._checked()
        for name in ("_stream", "_known_labels", "drift_"):  # of batches before
            self.__dict__.pop(name, None)
        source, classes = self._source(X, y, sample_weight, batches, trusted, rejected)
        with CallbackRunner(self.callbacks, self.verbose, settings.max_rounds) as runner:
            self._fit_source(source, classes, settings, runner)
            runner.status = self.status_
        self._warn()
        return self

    def _checked(self) -> LabelSettings:
        """Return the settings of the fit, or say which parameter is wrong and what it may be."""
        parameters.check_shared(self)
        penalty = self.penalty or Ridge(0.5)
        if penalty.quadratic_strength is None:
            raise ValueError(
                f"SelfPacedClassifier has quadratic penalties only, got penalty={penalty!r}: use "
                f"Ridge(...), NoPenalty(), or None for Ridge(0.5)"
            )
        if self.regularizer is not None and not self.regularizer.separable:
            raise ValueError(
                f"regularizer={self.regularizer!r} weighs the rows of a batch together, which a "
                f"pace of its own for each class does not permit: use Hard() or Linear()"
            )
        calibrated = self.pace is None or isinstance(self.pace, Calibrated)
        return LabelSettings(
            schedule=None if calibrated else self.pace,
            strength=float(penalty.quadratic_strength),
            max_rounds=int(self.max_rounds),
            max_iter=int(self.max_iter),
            tol=float(self.tol),
        )

    def _source(
        self, X: Any, y: Any, sample_weight: Any, batches: Any, trusted: Any, rejected: Any
    ) -> tuple[Source, NDArray[Any] | None]:
        """Return where the rows come from, and the classes if they are known already."""
        source = clusters.source_of(X, y, sample_weight, batches)
        classes: NDArray[Any] | None = None
        if source is None:
            source, classes = validation.labelled_source(
                self, X, y, sample_weight, batches, self.n_batches
            )
        else:
            source = validation.known_source(source, self.n_batches)
        return validation.reviewed(source, trusted, rejected), classes

    def _fit_source(
        self,
        source: Source,
        classes: NDArray[Any] | None,
        settings: LabelSettings,
        runner: CallbackRunner,
    ) -> None:
        """Fit the rows of a source on an engine, and store what was found."""
        engine = clusters.find_engine(self.engine, self.n_jobs, source)
        source, penalty = clusters.with_countable_weights(source, Ridge(settings.strength), engine)
        settings = replace(settings, strength=float(penalty.quadratic_strength or 0.0))
        plain = Problem(Coordinates(bool(self.fit_intercept)), Squared(), Hard())
        with (
            one_blas_thread(),
            runner.naming_the_round(),
            engine.open(source.partitions()) as workers,
            cores_of_driver(engine) as spread,
        ):
            fleet = Fleet.meet(workers, plain, spread)
            warn_of_passes(workers, "a dozen times or more, as classes need it:")
            validation.record_columns(self, source, fleet.n_features)
            values, counts = count_classes(fleet)
            self.classes_ = _classes(values, classes)
            problem = LabelProblem(
                coordinates=fleet.problem.coordinates,
                classes=values,
                class_weight=self._class_weight(counts),
                regularizer=self.regularizer or Hard(),
            )
            seed = parameters.seed(self.random_state)
            fitted = fit_classes(fleet, problem, settings, seed, runner.on_round)
            clusters.store_reading(self, workers)
            self._store(fitted, fleet, counts)
            self._store_rows(fitted, source, fleet)

    def _class_weight(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return one weight per class."""
        given = self.class_weight
        if given is None:
            return np.ones(counts.size)
        if isinstance(given, str) and given == "balanced":
            return np.asarray(counts.sum() / (counts.size * counts))
        if not isinstance(given, dict):
            raise ValueError(
                f"class_weight must be None, 'balanced' or a dict from classes to weights, got "
                f"{given!r}"
            )
        known = self.classes_.tolist()
        unknown = [name for name in given if name not in known]
        if unknown:
            raise ValueError(
                f"class_weight names the class {unknown[0]!r}, and y has the classes {known}"
            )
        weights = np.array([float(given.get(name, 1.0)) for name in known])
        if not np.all(np.isfinite(weights)) or np.any(weights < 0) or not np.any(weights > 0):
            raise ValueError(f"class_weight must hold finite numbers >= 0, got {given!r}")
        return weights

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the score of each class; for two classes one score, above 0 for the second."""
        check_is_fitted(self)
        library = library_of(X)
        if library is not None:
            raise TypeError(
                f"classes of a {library} collection are predicted part by part: give arrays or "
                f"data frames in memory"
            )
        scores = self._scores(validation.prediction_rows(self, X))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: Any) -> Matrix:
        """Return the probability that each class is the right label of a row."""
        scores = self.decision_function(X)
        return _probabilities(scores.reshape(len(scores), -1))

    def _probabilities_of(self, rows: Any) -> Matrix:
        """Return `predict_proba` of rows that were checked already."""
        return _probabilities(self._scores(rows))

    def _scores(self, rows: Any) -> Matrix:
        """Return the scores of rows that were checked already, shape (rows, scores)."""
        return np.asarray(rows @ self.coef_.T + self.intercept_)

    def predict_log_proba(self, X: Any) -> Matrix:
        """Return the logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label of each row."""
        scores = self.decision_function(X)
        places = (scores > 0).astype(int) if scores.ndim == 1 else np.argmax(scores, axis=1)
        return np.asarray(self.classes_[places])

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what this estimator takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _store(self, fitted: FittedLabels, fleet: Fleet, counts: NDArray[np.float64]) -> None:
        lines = [fitted.problem.coordinates.to_user(line) for line in fitted.fit.coef]
        self.coef_ = np.stack([coef for coef, _ in lines])
        self.intercept_ = np.array([intercept for _, intercept in lines])
        self.pace_ = fitted.pace
        self.status_ = fitted.status
        self._store_history(fitted.history)
        self._fit_note = FitNote.now(fleet.n_rows)
        self.batch_clean_share_ = np.array(
            [tally.weight / tally.total if tally.total else 1.0 for tally in fitted.tallies]
        )
        for name in (*NOISE_ATTRIBUTES, "_rates_by_columns"):
            self.__dict__.pop(name, None)
        if fitted.noise is not None:
            self._store_noise(fitted)
        self.notes_ = label_notes.notes_of(fitted, self.classes_, counts)
        self.doubts_ = label_notes.doubts_of(fitted.noise, self.classes_)

    def _store_noise(self, fitted: FittedLabels) -> None:
        assert fitted.noise is not None
        self.label_noise_ = fitted.noise.matrix
        right = np.sum([tally.right for tally in fitted.tallies], axis=0)
        total = sum(tally.total for tally in fitted.tallies)
        share = 1.0 - sum(tally.weight for tally in fitted.tallies) / total
        self.corrupted_fraction_ = max(float(share), 0.0)
        self.corrupted_interval_ = fitted.noise.interval(float(share), right / right.sum())
        if fitted.rates_by_columns is not None:
            self._rates_by_columns = fitted.rates_by_columns

    def _store_rows(self, fitted: FittedLabels, source: Source, fleet: Fleet) -> None:
        """Gather what is thought of rows that are in memory."""
        for name in ("weights_", "selected_", "suggested_labels_", "_rows_digest"):
            self.__dict__.pop(name, None)
        if not isinstance(source, ArraySource):
            return
        replies = fleet.workers.map(labels.verdicts, fitted.labellings, fitted.problem)
        self.weights_ = in_row_order(source, [weights for weights, _ in replies])
        ordered = in_row_order(source, [codes.astype(np.float64) for _, codes in replies])
        codes = ordered.astype(np.intp)
        self.suggested_labels_ = self.classes_[codes]
        if fitted.noise is not None and fitted.noise.is_none:
            known = False if source.trusted is None else source.trusted
            self.weights_ = np.where(known, 1.0, self._order(fitted, source, fleet, codes))
        if source.rejected is not None:
            self.weights_[source.rejected] = 0.0
        self.selected_ = self.weights_ >= 0.5
        self._rows_digest = rows_digest(source.X, source.y)

    def _order(
        self, fitted: FittedLabels, source: ArraySource, fleet: Fleet, codes: NDArray[np.intp]
    ) -> Vector:
        """Return how sure each label is, as models that have not seen it say, if there are any."""
        if fitted.has_judge:
            message = [None] * fleet.n_batches
            replies = fleet.workers.map(labels.chances, message, fitted.problem)
            chance = in_row_order(source, replies)
        else:
            chance = self._probabilities_of(source.X)[np.arange(codes.size), codes]
        return quality_without_evidence(chance, self.classes_.size)

    def _store_history(self, history: History) -> None:
        self.history_ = history
        self.n_rounds_ = history.rounds[-1].round
        self.n_iter_ = max(sum(record.iterations for record in history.rounds), 1)

    def _warn(self) -> None:
        if not self.status_.converged:
            warnings.warn(self.status_.message, ConvergenceWarning, stacklevel=3)
        for doubt in self.doubts_:
            warnings.warn(doubt, NoSingleModelWarning, stacklevel=3)


def _classes(values: NDArray[np.float64], known: NDArray[Any] | None) -> NDArray[Any]:
    """Return the labels as the user knows them, for the values that y has on the workers."""
    if values.size < 2:
        only = values if known is None else known[values.astype(np.intp)]
        raise ValueError(
            f"y holds one class only ({only.tolist()[0]!r}, in rows that count): a classifier "
            f"needs at least two"
        )
    if values.size > MOST_CLASSES:
        raise ValueError(
            f"y has {values.size:,} different values, more than {MOST_CLASSES:,} classes: use "
            f"SelfPacedRegressor for a target that is a number"
        )
    if known is not None:
        return np.asarray(known[values.astype(np.intp)])
    whole = np.all(values == np.rint(values)) and np.all(np.abs(values) < 2**53)
    return values.astype(np.int64) if whole else values


def _probabilities(scores: Matrix) -> Matrix:
    return np.asarray(softmax(with_reference(scores), axis=1))
