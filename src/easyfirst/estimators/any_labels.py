"""Rows whose y is a label, judged by a classifier of any kind.

The classifier says out of fold which label a row should have; from the rows that it is sure about
follows how often labels are wrong, as for the linear classifier. Where columns are numbers, that
one's judge (linear models, boosters and smoother models together) is asked as well, and believed if
it finds wrong labels and knows those given about as well or better. A row then counts by the
probability v that its label k is right, over P(given k | right k): v P(given k) is
P(right k) P(given k | right k), so that among rows that look alike the weighted labels have the
shares that right labels have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.ensemble import HistGradientBoostingClassifier

from easyfirst.consensus.labels.fit_classes import noise_by_batch
from easyfirst.consensus.labels.mixing import best_mix
from easyfirst.consensus.labels.noise import (
    LEAST_ROWS,
    LabelNoise,
    estimate_noise,
    noise_by_evidence,
)
from easyfirst.consensus.labels.of_rows import JudgedRows, judge_rows
from easyfirst.consensus.labels.pairs import evidence_of_pairs
from easyfirst.consensus.status import Status
from easyfirst.contracts import Matrix, Vector
from easyfirst.engines.blas import one_blas_thread
from easyfirst.estimators.out_of_fold import as_numbers, takes_weights
from easyfirst.estimators.paced_rows import Fits, Rows
from easyfirst.estimators.validation import is_dense_and_numeric
from easyfirst.local.label_judge import (
    LARGEST_LOGIT,
    LEAST_PROBABILITY,
    mixed,
    with_reference,
    without_noise,
)
from easyfirst.local.labels import (
    expected_counts,
    log_likelihoods,
    posterior,
    posterior_by_errors,
)
from easyfirst.regularizers import SelfPacedRegularizer

CLEARLY = 0.02  # log-likelihood of a label by which another judge must be better
HALF = float(np.log(2.0))  # the loss of a label that is as likely right as wrong


@dataclass(frozen=True, eq=False)
class LabelSettings:
    """How labels are judged: the model, the one that judges first, and by how many splits."""

    estimator: Any
    start: Any
    regularizer: SelfPacedRegularizer
    n_repeats: int


@dataclass(frozen=True, eq=False)
class SettledLabels:
    """What was found: P(right label) by models of other rows, noise, and what it makes of rows.

    `posterior` takes the label given into account. `own_noise` are the batches with noise of their
    own. Labels of too few rows are not `checked`.
    """

    right: Matrix
    posterior: Matrix
    weight: Vector
    pull: Vector
    noise: LabelNoise
    batch_shares: Vector
    own_noise: tuple[int, ...]
    status: Status
    checked: bool = True


@dataclass(frozen=True, eq=False)
class _Labels:
    """The labels as numbers, and as ones and zeros."""

    rows: Rows
    codes: NDArray[np.intp]
    as_given: Matrix
    settings: LabelSettings

    @property
    def n_classes(self) -> int:
        return int(self.as_given.shape[1])

    def calibrated(self, scores: Matrix, noise: Matrix) -> Matrix:
        """Return probabilities by which the labels given, noise included, are most probable."""
        mix, offset = best_mix((), scores, noise, self.codes, self.rows.weight)
        return mixed((), scores, noise, mix, offset)

    def look(self, right: Matrix, noise: LabelNoise, errors: Matrix | None = None) -> SettledLabels:
        """Return what the labels look like by these probabilities and this noise.

        `errors` of two classes are the rates of every row, where these differ.
        """
        matrices, own = self._noise_of_batches(right, noise)
        share = matrices[self.rows.batch, self.codes, self.codes]
        found = self.as_given.copy()
        if errors is not None and not own:
            found = posterior_by_errors(right, errors, self.as_given)
            share = 1.0 - errors[np.arange(self.codes.size), self.codes]
        elif own or not noise.is_none:
            for b, matrix in enumerate(matrices):
                places = np.flatnonzero(self.rows.batch == b)
                found[places] = posterior(right[places], matrix, self.as_given[places])
        v = np.sum(found * self.as_given, axis=1)
        rule = self.settings.regularizer
        if not rule.is_posterior:
            v = rule.weights(-np.log(np.maximum(v, 1e-300)), HALF)
        v = np.where(self.rows.trusted, 1.0, v)
        found = np.where(self.rows.trusted[:, None], self.as_given, found)
        is_weighed = takes_weights(self.settings.estimator)
        pull = np.where(self.rows.trusted, v, v / share if is_weighed else v)
        sizes = np.bincount(self.rows.batch, self.rows.weight)
        shares = np.bincount(self.rows.batch, self.rows.weight * v) / np.maximum(sizes, 1e-300)
        return SettledLabels(
            right=right,
            posterior=found,
            weight=v,
            pull=self.rows.weight * pull,
            noise=noise,
            batch_shares=np.asarray(shares),
            own_noise=own,
            status=Status("converged", "Labels were judged.", converged=True),
        )

    def _noise_of_batches(self, right: Matrix, noise: LabelNoise) -> tuple[Matrix, tuple[int, ...]]:
        """Return one noise matrix per batch, and the batches with noise of their own."""
        n_batches = int(self.rows.batch.max()) + 1
        if n_batches == 1 or noise.is_unidentified:
            return np.stack([noise.matrix] * n_batches), ()
        parts = [np.flatnonzero(self.rows.batch == b) for b in range(n_batches)]
        each = [(right[p], self.as_given[p], self.rows.weight[p]) for p in parts]
        matrices, own = noise_by_batch(
            noise,
            n_batches,
            lambda start: [expected_counts(*batch, start) for batch in each],
            lambda pairs: [
                log_likelihoods(*batch, pair) for batch, pair in zip(each, pairs, strict=True)
            ],
        )
        return np.stack(matrices), own


def settle_labels(
    rows: Rows, codes: NDArray[np.intp], n_classes: int, fits: Fits, settings: LabelSettings
) -> SettledLabels:
    """Judge labels by models of other labels, then by models of those that look right."""
    work = _Labels(rows, codes, np.eye(n_classes)[codes], settings)
    counts = np.bincount(codes, rows.weight, n_classes)
    if np.sort(counts)[-2:].min() < LEAST_ROWS:
        return _unchecked(work)
    judge = settings.estimator
    at, likely = _first_look(work, fits, settings.start or judge)
    in_question = bool(np.any(at.weight < 1.0)) or at.noise.overlaps
    may_ask_others = settings.start is None and is_dense_and_numeric(rows.X)
    if may_ask_others:
        told = _by_the_linear_judge(work, fits.seed)
        if told is not None and told.log_likelihood(work.as_given, rows.weight) > likely - CLEARLY:
            at = work.look(told.right, told.noise, told.errors)
            fits.note(at.weight, _moved(rows, at.weight, np.ones(codes.size)), np.inf, 0.0)
            return replace(at, status=fits.status(0.0, 0.0))
    if in_question and may_ask_others:
        # Rows that a simple classifier cannot follow would pass for wrong labels, or for overlap.
        curved = HistGradientBoostingClassifier(
            max_iter=50, early_stopping=False, random_state=fits.seed
        )
        other, more_likely = _first_look(work, fits, curved)
        if more_likely > likely + CLEARLY:
            judge, at = curved, other
    noise = at.noise
    fits.note(at.weight, _moved(rows, at.weight, np.ones(codes.size)), np.inf, 0.0)
    if np.all(at.weight == 1.0):
        return replace(at, status=fits.status(0.0, 0.0))
    # Once: with every further turn a label would speak for itself through its neighbours' weights.
    right = _mean_over_splits(work, fits, judge, at.pull, noise.matrix)
    again = work.look(right, noise)
    fits.note(again.weight, _moved(rows, again.weight, at.weight), np.inf, 0.0)
    return replace(again, status=fits.status(0.0, 0.0))


def _by_the_linear_judge(work: _Labels, seed: int) -> JudgedRows | None:
    """Return what the judge of the linear classifier says; None if it finds no wrong labels."""
    with one_blas_thread():
        X = as_numbers(work.rows.X)
        told = judge_rows(X, work.codes, work.rows.weight, work.n_classes, seed)
    return None if told is None or told.noise.is_none else told


def _first_look(work: _Labels, fits: Fits, estimator: Any) -> tuple[SettledLabels, float]:
    """Return what labels look like to models of the labels given, and their log-likelihood."""
    rows, codes = work.rows, work.codes
    told = _mean_over_splits(work, fits, estimator, rows.weight, np.eye(work.n_classes))
    noise = estimate_noise(told, codes, rows.weight)
    # Classifiers that only name a class are equally sure everywhere: no curve to look at.
    is_graded = hasattr(estimator, "predict_proba") or hasattr(estimator, "decision_function")
    if not noise.is_none and is_graded:
        evidence = evidence_of_pairs(told, codes, rows.weight)
        noise = noise_by_evidence(noise, evidence, told, codes, rows.weight)
    elif noise.is_unidentified:
        noise = noise.refused()
    right = np.asarray(softmax(without_noise(told, noise.matrix), axis=1))
    given = np.maximum(told[np.arange(codes.size), codes], LEAST_PROBABILITY)
    return work.look(right, noise), float(np.average(np.log(given), weights=rows.weight))


def _mean_over_splits(
    work: _Labels, fits: Fits, estimator: Any, pull: Vector, noise: Matrix
) -> Matrix:
    """Return calibrated probabilities by models of other rows, over several splits into folds."""
    told = [
        work.calibrated(fits.ask(estimator, work.rows, pull, repeat), noise)
        for repeat in range(work.settings.n_repeats)
    ]
    return np.asarray(np.mean(told, axis=0))


def _moved(rows: Rows, now: Vector, before: Vector) -> float:
    return float(np.average(np.abs(now - before), weights=rows.weight))


def _unchecked(work: _Labels) -> SettledLabels:
    """Return that every label is right: rows are too few to tell."""
    status = Status("converged", "There were too few rows to judge labels.", converged=True)
    at = work.look(work.as_given, LabelNoise.none(work.n_classes))
    return replace(at, status=status, checked=False)


def scores_of(model: Any, X: Any, classes: NDArray[Any]) -> Matrix:
    """Return one score per class, as good as a logit, by whatever a classifier can tell."""
    known = np.searchsorted(classes, model.classes_)
    if hasattr(model, "predict_proba"):
        told = np.log(np.maximum(model.predict_proba(X), LEAST_PROBABILITY))
        lowest = np.log(LEAST_PROBABILITY)
    elif hasattr(model, "decision_function"):
        told = np.asarray(model.decision_function(X), dtype=np.float64)
        told = with_reference(told.reshape(len(told), -1))
        # Distances have any unit: nearly all of them are brought within what is believed.
        told = told * (LARGEST_LOGIT / max(float(np.quantile(np.abs(told), 0.9)), 1e-300))
        lowest = float(told.min())
    else:
        places = np.searchsorted(model.classes_, model.predict(X))
        told = np.log(np.maximum(np.eye(known.size)[places], LEAST_PROBABILITY))
        lowest = np.log(LEAST_PROBABILITY)
    scores = np.full((len(told), classes.size), lowest)
    scores[:, known] = told
    return scores
