"""Self-paced learning around any scikit-learn regressor or classifier."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, MetaEstimatorMixin, is_classifier
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from easyfirst.consensus.history import History
from easyfirst.consensus.starts.point_masses import notes_about_masses
from easyfirst.contracts import Matrix, Vector
from easyfirst.errors import NoSingleModelWarning
from easyfirst.estimators import label_notes, parameters, validation
from easyfirst.estimators.any_labels import LabelSettings, SettledLabels, scores_of, settle_labels
from easyfirst.estimators.any_values import (
    SettledValues,
    ValueSettings,
    calibration_of,
    doubts_about_share,
    settle_values,
    told_by,
)
from easyfirst.estimators.availability import where
from easyfirst.estimators.findings import findings_of
from easyfirst.estimators.fit_note import FitNote
from easyfirst.estimators.judged_labels import (
    JudgedLabels,
    judge_new_labels,
    quality_without_evidence,
)
from easyfirst.estimators.judging import judge
from easyfirst.estimators.label_reporting import PRESENTATION as OF_LABELS
from easyfirst.estimators.out_of_fold import Answer, equal_rows, fitted, predicted
from easyfirst.estimators.paced_rows import Fits, Rows, groups_of
from easyfirst.estimators.reporting import ReportingMixin, rows_digest
from easyfirst.noise.of_rows import Told
from easyfirst.regularizers import Entropic, SelfPacedRegularizer

# What is known of numbers, and of labels.
OF_VALUES_ONLY = ("_noise", "_sizes", "_nearby", "_told_of_rows", "_calibration", "noise_scale_")
OF_LABELS_ONLY = ("classes_", "label_noise_", "suggested_labels_")


def _has(name: str) -> Callable[[SelfPaced], bool]:
    """Return a check that the estimator has a method."""
    return lambda model: hasattr(getattr(model, "estimator_", model._template()), name)


def _judges_numbers(model: SelfPaced) -> bool:
    return not model._judges_labels


class SelfPaced(ReportingMixin, MetaEstimatorMixin, BaseEstimator):
    """Any regressor or classifier, fitted to the rows that look clean.

    Every row is predicted by models that have not seen it. For a regressor, what is left over is
    read by the same noise models as in `SelfPacedRegressor`, now around a model of any shape. For
    a classifier, how often labels are wrong is read off the rows that the models are sure about,
    as in `SelfPacedClassifier`. Rows are weighed by the probability that they are clean, the model
    is fitted again, and so on until the weights stand still. Where no row looks wrong, the result
    is the estimator fitted as it is.

    Parameters
    ----------
    estimator
        A scikit-learn regressor or classifier, or a pipeline that ends in one. Rows are weighed
        where its `fit` takes `sample_weight`, and selected where it does not. None is
        `HistGradientBoostingRegressor()`.
    start
        An estimator whose predictions judge the rows first, and which should not follow wrong
        values. For regressors, None is gradient boosting with the absolute error for X that is
        dense and numeric, and for other X `estimator` itself, with y drawn in to three standard
        deviations. For classifiers, None is `estimator`, and where X is dense and numeric the judge
        of `SelfPacedClassifier` or gradient boosting, if they know the labels given about as well.
    regularizer
        How a row's loss becomes its weight, from `easyfirst.regularizers`. None is `Entropic()`,
        the probability that the row is clean.
    n_folds, n_repeats
        Rows are split into so many folds; the final judgement is the mean over so many splits.
    max_rounds
        Limit on how often the models of the folds are fitted again. Those of a classifier are
        fitted again once.
    tol
        Rounds end when the weights change by no more than this on average (regressors).
    n_jobs
        How many folds are fitted at once, by joblib.
    random_state
        Seed of the folds. None is a fixed seed, so that two fits of the same rows agree.

    Attributes
    ----------
    estimator_
        The model, fitted to all rows by their weights.
    weights_, selected_
        The probability that each row is clean, and whether it is at least one half.
    out_of_fold_
        What models that had not seen it say of each row: a number, or the probability that each
        class is its right label.
    corrupted_fraction_, corrupted_interval_
        Estimated share of corrupted rows, and its 95 % interval.
    noise_scale_
        Scale of the clean rows around their prediction (regressors only).
    classes_, label_noise_, suggested_labels_
        As for `SelfPacedClassifier` (classifiers only).
    batch_clean_share_
        Estimated share of clean rows in each batch.
    n_fits_
        How many models were fitted in all, those of a classifier's judge not counted.
    n_rounds_, history_, status_, pace_, doubts_, notes_
        As for `SelfPacedRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0.0, 6.0, (300, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(300)
    >>> y[:30] += 5.0
    >>> model = SelfPaced(DecisionTreeRegressor(min_samples_leaf=10)).fit(X, y)
    >>> int(np.sum(~model.selected_[:30]))
    30
    >>> bool(np.mean(model.selected_[30:]) > 0.98)
    True

    Labels, a tenth of which are wrong:

    >>> right = np.where(np.sin(X[:, 0]) > 0.0, "up", "down")
    >>> given = np.where(np.arange(300) < 30, np.where(right == "up", "down", "up"), right)
    >>> model = SelfPaced(DecisionTreeClassifier(min_samples_leaf=10)).fit(X, given)
    >>> bool(np.mean(model.suggested_labels_ == right) > 0.95)
    True
    """

    regularizer: SelfPacedRegularizer | None

    def __init__(
        self,
        estimator: Any = None,
        *,
        start: Any = None,
        regularizer: SelfPacedRegularizer | None = None,
        n_folds: int = 5,
        n_repeats: int = 2,
        max_rounds: int = 6,
        tol: float = 0.01,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.start = start
        self.regularizer = regularizer
        self.n_folds = n_folds
        self.n_repeats = n_repeats
        self.max_rounds = max_rounds
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        batches: Any = None,
        trusted: Any = None,
        rejected: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            Rows by features, as the estimator takes them.
        y
            One number per row, or one label per row for a classifier.
        sample_weight
            How much each row counts: 0 is the same as no row.
        batches
            An id per row. Rows of a batch that is mostly wrong are believed less.
        trusted, rejected
            Which rows are known to be right, and to be wrong.
        """
        self._check_settings()
        rows = self._rows(X, y, sample_weight, batches, trusted, rejected)
        for name in (*OF_VALUES_ONLY, *OF_LABELS_ONLY):
            self.__dict__.pop(name, None)
        used = np.flatnonzero(rows.weight > 0)
        inner = rows if used.size == rows.weight.size else rows.some(used)
        if self._judges_labels:
            self._fit_labels(rows, used, inner)
        else:
            self._fit_values(rows, used, inner)
        for doubt in self.doubts_:
            warnings.warn(doubt, NoSingleModelWarning, stacklevel=2)
        return self

    def _fit_values(self, rows: Rows, used: NDArray[np.intp], inner: Rows) -> None:
        """Judge numbers, fit the model, and keep what was found."""
        seed = parameters.seed(self.random_state)
        fits = self._fits(equal_rows(inner.X, inner.y), predicted)
        settings = ValueSettings(
            self._template(),
            self.start,
            self.regularizer or Entropic(),
            self.n_repeats,
            self.max_rounds,
            self.tol,
            seed,
        )
        found = settle_values(inner, fits, settings)
        self._store(rows, used, inner, fits, found)
        self._sizes, self._nearby = found.sizes, found.nearby
        told, others = found.told, np.flatnonzero(rows.weight == 0)
        if others.size:
            told = Told.joined((used, told), (others, self._told(rows.some(others).X)))
        self.out_of_fold_, self._told_of_rows = told.value, told
        self.pace_ = found.noise.noise.reach**2
        self._noise = found.noise
        self._calibration = calibration_of(inner, found)
        self.noise_scale_ = found.noise.noise.scale
        self.corrupted_fraction_ = 1.0 - found.clean_share
        self.corrupted_interval_ = self._calibration.corrupted_interval
        self._rows_digest = rows_digest(rows.X, rows.y)
        self.notes_: tuple[str, ...] = notes_about_masses(found.codes)
        self.doubts_ = doubts_about_share(self.corrupted_fraction_)

    def _fit_labels(self, rows: Rows, used: NDArray[np.intp], inner: Rows) -> None:
        """Judge labels, fit the model, and keep what was found."""
        classes, codes = np.unique(inner.y, return_inverse=True)
        if classes.size < 2:
            raise ValueError(
                f"y holds one class only ({classes.tolist()[0]!r}, in rows that count): a "
                f"classifier needs at least two"
            )
        fits = self._fits(groups_of(inner.X, codes), partial(scores_of, classes=classes), codes)
        rule = self.regularizer or Entropic()
        settings = LabelSettings(self._template(), self.start, rule, self.n_repeats)
        found = settle_labels(inner, codes, classes.size, fits, settings)
        self._store(rows, used, inner, fits, found)
        if found.checked and found.noise.is_none and not found.own_noise:
            chance = found.right[np.arange(codes.size), codes]
            by_model = quality_without_evidence(chance, classes.size)
            self.weights_[used] = np.where(inner.trusted, 1.0, by_model)
        self.classes_, self.label_noise_ = classes, found.noise.matrix
        self.out_of_fold_ = np.zeros((rows.y.size, classes.size))
        self.out_of_fold_[used] = found.right
        self.suggested_labels_ = rows.y.copy()
        self.suggested_labels_[used] = classes[np.argmax(found.posterior, axis=1)]
        others = np.flatnonzero(rows.weight == 0)
        if others.size:
            X = rows.some(others).X
            self.out_of_fold_[others] = _probabilities(self.estimator_, X, classes)
            self.suggested_labels_[others] = self.estimator_.predict(X)
        self.pace_ = np.inf
        shares = inner.weight @ found.posterior / inner.weight.sum()
        wrong = float(1.0 - np.average(found.weight, weights=inner.weight))
        self.corrupted_fraction_ = wrong
        self.corrupted_interval_ = found.noise.interval(wrong, shares)
        self._rows_digest = rows_digest(rows.X, _numbers(rows.y, classes))
        about_batches = label_notes.notes_about_batches(found.batch_shares, found.own_noise)
        counts = np.bincount(codes, inner.weight, classes.size).astype(np.float64)
        self.notes_ = (*label_notes.note_about_few(classes, counts), *about_batches)
        if not found.checked:
            self.notes_ = (label_notes.NOT_CHECKED,)
        self.doubts_ = label_notes.doubts_of(found.noise, classes)

    def _fits(
        self, group: NDArray[np.intp], answer: Answer, codes: NDArray[np.intp] | None = None
    ) -> Fits:
        seed, n_folds = parameters.seed(self.random_state), min(self.n_folds, int(group.max()) + 1)
        return Fits(seed, self.n_jobs, group, n_folds, answer, codes)

    def _store(
        self,
        rows: Rows,
        used: NDArray[np.intp],
        inner: Rows,
        fits: Fits,
        found: SettledValues | SettledLabels,
    ) -> None:
        """Fit all rows by their weights, and keep what is known of rows of either kind."""
        self.estimator_ = fitted(self._template(), inner.X, inner.y, found.pull)
        self.n_fits_ = fits.count + 1
        self.weights_ = np.zeros(rows.weight.size)
        self.weights_[used] = found.weight
        self.selected_ = self.weights_ >= 0.5
        self.status_, self.history_ = found.status, History(tuple(fits.records))
        self.n_rounds_ = len(fits.records)
        self.batch_clean_share_ = found.batch_shares
        self._fit_note = FitNote.now(np.bincount(rows.batch).tolist())

    @property
    def _judges_labels(self) -> bool:
        return bool(is_classifier(self._template()))

    def predict(self, X: Any) -> Any:
        """Return the prediction of the fitted model for each row."""
        check_is_fitted(self)
        return self.estimator_.predict(self._seen(X))

    @where(_has("predict_proba"))
    def predict_proba(self, X: Any) -> Matrix:
        """Return what the fitted classifier says of each class."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_proba(self._seen(X)))

    @where(_has("predict_log_proba"))
    def predict_log_proba(self, X: Any) -> Matrix:
        """Return the logarithm of `predict_proba`."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_log_proba(self._seen(X)))

    @where(_has("decision_function"))
    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return the score of each class by the fitted classifier."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.decision_function(self._seen(X)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the score of the model: variance explained, or the share of right labels."""
        check_is_fitted(self)
        return float(self.estimator_.score(self._seen(X), y, sample_weight))

    @where(_judges_numbers)
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Matrix:
        """Return lower and upper bounds, shape (n_samples, 2), that hold for clean rows.

        From how far clean rows were off that the model had not seen. For regressors.
        """
        check_is_fitted(self)
        told = self._told(self._seen(X))
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must lie between 0 and 1, got {coverage!r}")
        bounds = np.array(self._calibration.bounds(coverage))
        return np.asarray(told.value[:, None] + self._noise.scale(told)[:, None] * bounds)

    def _told(self, X: Any) -> Told:
        """Return what the fitted models say of rows: y, and how far it is off."""
        return told_by(self.estimator_, X, self._sizes, self._nearby)

    def clean_probability(self, X: Any, y: Any) -> Vector:
        """Return the probability that each of these rows is clean, given their y."""
        check_is_fitted(self)
        if self._judges_labels:
            return self._judge_new(self._seen(X), y).quality
        told = self._told(self._seen(X))
        return np.asarray(
            1.0 / (1.0 + self._noise.odds(told, validation.judged_target(y, told.value)))
        )

    def judge(self, X: Any, y: Any, *, blur: Vector | Matrix | None = None) -> Any:
        """Return what is thought of every row: `JudgedRows`, or `JudgedLabels` of a classifier.

        See `judge` of `SelfPacedRegressor` and `SelfPacedClassifier`.

        Rows of the fit keep their weights, and are compared with models that had not seen them.
        """
        check_is_fitted(self)
        seen = self._seen(X)
        if self._judges_labels:
            return self._judge_labels(seen, y)
        given = validation.judged_target(y, seen)
        if rows_digest(seen, given) == self._rows_digest:
            told, weights = self._told_of_rows, self.weights_
        else:
            told = self._told(seen)
            weights = 1.0 / (1.0 + self._noise.odds(told, given))
        own = self._noise.scale(told)
        return judge(findings_of(self), given, told.value, given - told.value, weights, blur, own)

    def _judge_labels(self, seen: Any, y: Any) -> JudgedLabels:
        given = validation.judged_labels(y, seen, self.classes_)
        if rows_digest(seen, given) != self._rows_digest:
            return self._judge_new(seen, y)
        suggested = np.searchsorted(self.classes_, self.suggested_labels_)
        return JudgedLabels(given.astype(np.intp), suggested, self.weights_)

    def _judge_new(self, seen: Any, y: Any) -> JudgedLabels:
        given = validation.judged_labels(y, seen, self.classes_)
        told = _probabilities(self.estimator_, seen, self.classes_)
        return judge_new_labels(told, self.label_noise_, given)

    def summary(self, level: float = 0.95) -> Any:
        """Return what the fit found: print it, or take its `to_frame()`."""
        if self._judges_labels:
            return self._presented_by().summary(self)
        return super().summary(level)

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        X: Any = None,
        y: Any = None,
        *,
        row_ids: Any = None,
        batches: Any = None,
        show_rows: Any = False,
        show_target: bool = True,
        overwrite: bool = False,
    ) -> Any:
        """Show what the fit found as one page of HTML; see `SelfPacedRegressor.report`.

        For classifiers `batches`, `show_rows` and `show_target` do not apply, and are refused.
        """
        given = {"row_ids": row_ids, "overwrite": overwrite}
        if not self._judges_labels:
            more = {"batches": batches, "show_rows": show_rows, "show_target": show_target}
            return super().report(path, X, y, **given, **more)
        if batches is not None or show_rows is not False or show_target is not True:
            raise ValueError(
                "the report of a classifier lists labels only: leave out batches, show_rows and "
                "show_target"
            )
        return self._presented_by().report(self, path, X, y, **given)

    def _presented_by(self) -> Any:
        if self._judges_labels:
            return importlib.import_module(OF_LABELS)
        return super()._presented_by()

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that this takes what the estimator takes."""
        tags, inner = super().__sklearn_tags__(), get_tags(self._template())
        tags.estimator_type = inner.estimator_type
        tags.regressor_tags = inner.regressor_tags
        tags.classifier_tags = inner.classifier_tags
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.input_tags.string = inner.input_tags.string
        tags.target_tags.required = True
        return tags

    def _template(self) -> Any:
        if self.estimator is None:
            return HistGradientBoostingRegressor(random_state=parameters.seed(self.random_state))
        return self.estimator

    def _check_settings(self) -> None:
        for name, least in (("n_folds", 2), ("n_repeats", 1), ("max_rounds", 1)):
            value = getattr(self, name)
            is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not is_whole or value < least:
                raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
        template = self._template()
        if not hasattr(template, "predict"):
            raise TypeError(f"estimator must be a regressor or a classifier, got {template!r}")

    def _rows(
        self, X: Any, y: Any, sample_weight: Any, batches: Any, trusted: Any, rejected: Any
    ) -> Rows:
        """Check what fit was given; rows that are rejected have a weight of zero."""
        rows, target = validation.any_training_rows(self, X, y, labels=self._judges_labels)
        n = len(target)
        weight = validation.importance(sample_weight, rows)
        weight = np.ones(n) if weight is None else weight
        right, wrong = validation.review_masks(trusted, rejected, n)
        if wrong is not None:
            weight = np.where(wrong, 0.0, weight)
        if not np.any(weight > 0):
            raise ValueError("every row is rejected or has a sample weight of 0")
        batch = np.zeros(n, dtype=np.intp)
        if batches is not None:
            batch = np.unique(validation.batch_ids(batches, rows), return_inverse=True)[1]
        trust = np.zeros(n, dtype=bool) if right is None else right
        return Rows(rows, target, weight, batch, trust)

    def _seen(self, X: Any) -> Any:
        return validation.any_rows(self, X)


def _probabilities(model: Any, X: Any, classes: NDArray[Any]) -> Matrix:
    """Return probabilities of classes, or what comes nearest to them."""
    return np.asarray(softmax(scores_of(model, X, classes), axis=1))


def _numbers(labels: NDArray[Any], classes: NDArray[Any]) -> Vector:
    """Return the number of each label's class; rows that do not count may have any."""
    places = np.minimum(np.searchsorted(classes, labels), classes.size - 1)
    return places.astype(np.float64)
