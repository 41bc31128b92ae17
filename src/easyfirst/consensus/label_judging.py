"""Making the judge of labels, on a sample of the rows.

A flexible model (gradient boosting) and the linear one are fitted without each fold in turn, and
mixed so that the labels given are most probable. What they say out of fold tells how noisy the
labels are; then the linear model is fitted anew with that noise inside its likelihood, and mixed
with what was said before, the noise taken out. No model has to be right alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logit, logsumexp
from scipy.stats import chi2
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from easyfirst.consensus.label_evidence import evidence_of_levels, fitted_levels, scaled
from easyfirst.consensus.label_fit import Preconditioner, curvature_of, fit_labels
from easyfirst.consensus.label_noise import (
    LEAST_ROWS,
    LabelNoise,
    estimate_noise,
    noise_by_evidence,
    refined_noise,
)
from easyfirst.contracts import Batch, Matrix, Resident, Spread, Step, Vector
from easyfirst.local import labels
from easyfirst.local.design import Coordinates, dense
from easyfirst.local.label_judge import (
    FOLDS,
    LEAST_PROBABILITY,
    Blend,
    Judge,
    booster_probabilities,
    clipped,
    folds_of,
    linear_logits,
    mixed,
    without_noise,
)
from easyfirst.local.labels import Labelling, LabelProblem
from easyfirst.local.steps import some_rows
from easyfirst.local.weighing import importance
from easyfirst.workers import ResidentWorkers

SAMPLE_ROWS = 20_000
COLUMNS_FOR_BOOSTING = 1_000  # beyond, the linear model judges alone
COLUMNS_PER_SPLIT = 100  # that a booster looks at
TREES, TREES_OF_ALL_CLASSES = 30, 500
LEARNING_RATE = 0.15
ROWS_TO_DO_WITHOUT = 10_000  # of the sample, from which boosters must show that they are needed
CHANCE = 0.05  # that they are fitted although they are not
PRIOR = 2.0  # holds the weights of the mix where they are where labels say little
TOLERANCE, MOST_STEPS = 1e-2, 200  # of fits that are only mixed with others


@dataclass(frozen=True, eq=False)
class Judged:
    """The noise of the labels, and the judge; there is none where rows are too few."""

    noise: LabelNoise
    judge: Judge | None = None
    start: Matrix | None = None  # a linear model of the sample, near that of all rows


@dataclass(frozen=True, eq=False)
class _Folds:
    """A sample, its folds, and what is needed to fit models without one of them."""

    rows: Batch
    problem: LabelProblem
    penalty: Vector
    fold: NDArray[np.intp]
    codes: NDArray[np.intp]
    weight: Vector
    spread: Spread
    seed: int

    @property
    def n_classes(self) -> int:
        return self.problem.n_classes


def judge_labels(
    rows: Batch, problem: LabelProblem, penalty: Vector, spread: Spread, seed: int
) -> Judged:
    """Return the noise of the labels of a sample, and a judge for labels of any row."""
    codes, weight = labels.codes_of(rows, problem), importance(rows)
    counts = np.bincount(codes, weights=weight, minlength=problem.n_classes)
    if np.sort(counts)[-2:].min() < LEAST_ROWS:
        return Judged(LabelNoise.none(problem.n_classes))
    even = replace(problem, class_weight=np.ones(problem.n_classes))
    folds = _Folds(rows, even, penalty, folds_of(rows.X), codes, weight, spread, seed)
    start, nothing = _line(folds, labels.expand, Labelling(), None, None), np.eye(problem.n_classes)
    lines = _lines(folds, labels.expand, Labelling(), start)
    own = linear_logits(rows.X, folds.fold, lines)
    boosters = _boosters(folds, own)
    boosted = booster_probabilities(rows.X, folds.fold, boosters, problem.n_classes)
    first, seen = _blended(folds, boosted, lines, own, nothing)
    noise = estimate_noise(seen, codes, weight)
    if not noise.is_none:
        fitted = linear_logits(rows.X, np.zeros_like(folds.fold), (start,)), penalty.size
        evidence = evidence_of_levels(seen, codes, weight, own, fitted, rows.X)
        noise = noise_by_evidence(noise, evidence, seen, codes, weight)
    if noise.is_none:
        return Judged(noise, Judge(noise.matrix, boosters, first), start)
    through = labels.expand_through_noise
    start = _line(folds, through, noise.matrix, start, None)
    lines = _lines(folds, through, noise.matrix, start)
    own = linear_logits(rows.X, folds.fold, lines)
    second, right = _blended(folds, seen if boosters else None, lines, own, noise.matrix)
    judge = Judge(noise.matrix, boosters, first, second)
    return Judged(refined_noise(noise, right, codes, weight), judge, start)


def _blended(
    folds: _Folds, others: Matrix | None, lines: tuple[Matrix, ...], own: Matrix, noise: Matrix
) -> tuple[Blend, Matrix]:
    """Return linear models blended with other probabilities, and what they say out of fold."""
    mix, offset = best_mix(others, own, noise, folds.codes, folds.weight)
    return Blend(lines, mix, offset), mixed(others, own, noise, mix, offset)


def _boosters(folds: _Folds, own: Matrix) -> tuple[Any, ...]:
    """Return a booster for every fold, or none where they know no more than linear models.

    Where rows are many, the first booster tells: labels of its fold have to be more probable with
    it than by `own`, the logits of the linear models, alone, noise being allowed for.
    """
    if folds.rows.n_features > COLUMNS_FOR_BOOSTING:
        return ()
    # One after the other: scikit-learn's fits change the filters of warnings for all threads.
    first = _booster(folds, 0)
    if folds.codes.size >= ROWS_TO_DO_WITHOUT:
        rows = np.flatnonzero((folds.fold == 0) & (folds.weight > 0))
        told = booster_probabilities(
            folds.rows.X[rows], folds.fold[rows], (first,), folds.n_classes
        )
        own = _levelled(own, folds.codes, folds.weight)
        codes, weight = folds.codes[rows], folds.weight[rows]
        gain = _log_likelihood(told, own[rows], codes, weight)
        gain -= _log_likelihood(None, own[rows], codes, weight)
        if 2.0 * gain < chi2.isf(CHANCE, 1):
            return ()
    return (first, *(_booster(folds, number) for number in range(1, FOLDS)))


def _levelled(own: Matrix, codes: NDArray[np.intp], weight: Vector) -> Matrix:
    """Return logits of two classes as noise bends them: it keeps probabilities from zero and one.

    A booster would know that of noisy labels, whatever else it knows.
    """
    if own.shape[1] != 2:
        return own
    score = scaled(own[:, 1] - own[:, 0])
    half = 0.5 * logit(fitted_levels(score, codes == 1, weight).at(score))
    return np.stack([-half, half]).T


def _log_likelihood(
    others: Matrix | None, own: Matrix, codes: NDArray[np.intp], weight: Vector
) -> float:
    nothing = np.eye(own.shape[1])
    seen = mixed(others, own, nothing, *best_mix(others, own, nothing, codes, weight))
    return float(weight @ np.log(seen[np.arange(codes.size), codes]))


def _booster(folds: _Folds, number: int) -> Any:
    """Return a flexible model of the labels as given, fitted without one fold."""
    chosen = np.flatnonzero((folds.fold != number) & (folds.weight > 0))
    X = dense(folds.rows.X[chosen])
    model = HistGradientBoostingClassifier(
        learning_rate=LEARNING_RATE,
        max_iter=max(min(TREES, TREES_OF_ALL_CLASSES // folds.n_classes), 10),
        max_leaf_nodes=15,
        min_samples_leaf=min(max(20, chosen.size // 100), max(2, chosen.size // 10)),
        l2_regularization=5.0,
        max_features=min(1.0, COLUMNS_PER_SPLIT / X.shape[1]),
        early_stopping=False,
        random_state=folds.seed,
    )
    # Sums of several threads would depend on their number.
    weight = None if folds.rows.sample_weight is None else folds.weight[chosen]
    with threadpool_limits(limits=1, user_api="openmp"):
        return model.fit(X, folds.codes[chosen], sample_weight=weight)


def _lines(folds: _Folds, step: Step, message: Any, start: Matrix) -> tuple[Matrix, ...]:
    """Return a linear model without each fold."""
    return tuple(folds.spread(partial(_line, folds, step, message, start), range(FOLDS)))


def _line(
    folds: _Folds, step: Step, message: Any, start: Matrix | None, number: int | None
) -> Matrix:
    """Return the linear model of the rows without one fold, or of all; intercepts are last."""
    rows, coordinates = folds.rows, folds.problem.coordinates
    if number is not None:
        rows = some_rows(rows, np.flatnonzero(folds.fold != number))
    begin = None if start is None else in_coordinates(start, coordinates)
    curvature = curvature_of(rows, folds.problem, begin)
    fit = fit_labels(
        ResidentWorkers([Resident(rows)]),
        step,
        [message],
        folds.problem,
        Preconditioner.of(curvature, folds.penalty),
        folds.penalty,
        TOLERANCE,
        MOST_STEPS,
        start=begin,
    )
    return np.stack([np.append(*coordinates.to_user(line)) for line in fit.coef])


def in_coordinates(lines: Matrix, coordinates: Coordinates) -> Matrix:
    """Return coefficients as they are solved for, from those of the columns as given."""
    return np.stack([coordinates.from_user(line[:-1], float(line[-1])) for line in lines])


def best_mix(
    given: Matrix | None, own: Matrix, noise: Matrix, codes: NDArray[np.intp], weight: Vector
) -> tuple[tuple[float, float], Vector]:
    """Return the weights of both models by which the labels given are most probable.

    `given` are probabilities of the labels as given, `own` logits of the right ones; `codes` are
    the numbers of the labels given. Where labels say little, both models have one half; with noise,
    the given probabilities, which were mixed before, have all.
    """
    first = np.zeros_like(own) if given is None else without_noise(given, noise)
    second, k = clipped(own), own.shape[1]
    usual = [0.5, 0.5] if np.all(noise == np.eye(k)) else [1.0, 0.0]
    center = np.concatenate([[0.0, 1.0] if given is None else usual, np.zeros(k)])
    through = np.maximum(noise.T[codes], LEAST_PROBABILITY * 1e-6)

    def objective(point: Vector) -> tuple[float, Vector]:
        logits = point[0] * first + point[1] * second + point[2:]
        right = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
        joint = right * through
        seen = joint.sum(axis=1, keepdims=True)
        slope = weight[:, None] * (right - joint / seen)
        pull = np.array([np.sum(slope * first), np.sum(slope * second), *slope.sum(axis=0)])
        value = -float(weight @ np.log(seen[:, 0]))
        return value + PRIOR * float(np.sum(np.square(point - center))), pull + 2 * PRIOR * (
            point - center
        )

    limits = [(0.0, 2.0), (0.0, 2.0), *[(None, None)] * k]
    found = minimize(objective, center, jac=True, method="L-BFGS-B", bounds=limits).x
    return (float(found[0]), float(found[1])), found[2:]
