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
from scipy.special import logsumexp
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from easyfirst.consensus.label_fit import Preconditioner, fit_labels
from easyfirst.consensus.label_noise import LEAST_ROWS, LabelNoise, estimate_noise
from easyfirst.contracts import Batch, Matrix, Resident, Spread, Step, Vector
from easyfirst.local import labels
from easyfirst.local.design import Design, dense
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
TREES = 100  # at most, for each class; early stopping usually takes far fewer
TREES_OF_ALL_CLASSES = 1_500
ROWS_TO_STOP_EARLY = 10  # of the rarest class
PRIOR = 2.0  # holds the weights of the mix at one half where labels say little
TOLERANCE, MOST_STEPS = 1e-3, 200  # of fits that are only mixed with others


@dataclass(frozen=True, eq=False)
class Judged:
    """The noise of the labels, and the judge; there is none where rows are too few."""

    noise: LabelNoise
    judge: Judge | None = None


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

    def logits(self, lines: tuple[Matrix, ...]) -> Matrix:
        """Return what linear models say of the rows that they have not seen."""
        found = np.empty((self.codes.size, self.problem.n_classes))
        for number, coef in enumerate(lines):
            own = np.flatnonzero(self.fold == number)
            found[own] = linear_logits(self.rows.X[own], coef)
        return found

    def given(self, boosters: tuple[Any, ...]) -> Matrix | None:
        """Return what boosters say of the rows that they have not seen."""
        if not boosters:
            return None
        found = np.empty((self.codes.size, self.problem.n_classes))
        for number, booster in enumerate(boosters):
            own = np.flatnonzero(self.fold == number)
            found[own] = booster_probabilities(booster, self.rows.X[own], self.problem.n_classes)
        return found


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
    # One after the other: scikit-learn's fits change the filters of warnings for all threads.
    can_boost = rows.n_features <= COLUMNS_FOR_BOOSTING
    boosters = tuple(_booster(folds, number) for number in range(FOLDS if can_boost else 0))
    nothing = np.eye(problem.n_classes)
    first, seen = _blended(folds, folds.given(boosters), nothing, labels.expand, Labelling())
    noise = estimate_noise(seen, codes, weight)
    if noise.is_none:
        return Judged(noise, Judge(noise.matrix, boosters, first))
    second, _ = _blended(folds, seen, noise.matrix, labels.expand_through_noise, noise.matrix)
    return Judged(noise, Judge(noise.matrix, boosters, first, second))


def _blended(
    folds: _Folds, others: Matrix | None, noise: Matrix, step: Step, message: Any
) -> tuple[Blend, Matrix]:
    """Return linear models blended with other probabilities, and what they say out of fold."""
    lines = tuple(folds.spread(partial(_line, folds, step, message), range(FOLDS)))
    own = folds.logits(lines)
    mix, offset = best_mix(others, own, noise, folds.codes, folds.weight)
    return Blend(lines, mix, offset), mixed(others, own, noise, mix, offset)


def _booster(folds: _Folds, number: int) -> Any:
    """Return a flexible model of the labels as given, fitted without one fold."""
    chosen = np.flatnonzero((folds.fold != number) & (folds.weight > 0))
    X = dense(folds.rows.X[chosen])
    codes, n_classes = folds.codes[chosen], folds.problem.n_classes
    present = np.bincount(codes)
    stops = bool(present[present > 0].min() >= ROWS_TO_STOP_EARLY)
    trees = max(min(TREES, TREES_OF_ALL_CLASSES // n_classes), 10)
    model = HistGradientBoostingClassifier(
        learning_rate=0.1,
        max_iter=trees if stops else trees // 3 + 1,
        max_leaf_nodes=15,
        min_samples_leaf=min(max(20, chosen.size // 100), max(2, chosen.size // 10)),
        l2_regularization=5.0,
        max_features=min(1.0, COLUMNS_PER_SPLIT / X.shape[1]),
        early_stopping=stops,
        validation_fraction=0.15,
        n_iter_no_change=8,
        random_state=folds.seed,
    )
    # Sums of several threads would depend on their number.
    weight = None if folds.rows.sample_weight is None else folds.weight[chosen]
    with threadpool_limits(limits=1, user_api="openmp"):
        return model.fit(X, codes, sample_weight=weight)


def _line(folds: _Folds, step: Step, message: Any, number: int) -> Matrix:
    rows = some_rows(folds.rows, np.flatnonzero(folds.fold != number))
    coordinates = folds.problem.coordinates
    gram, _ = Design(rows.X, coordinates).gram(importance(rows), rows.y)
    preconditioner = Preconditioner.of(gram, folds.penalty)
    workers = ResidentWorkers([Resident(rows)])
    fit = fit_labels(
        workers,
        step,
        [message],
        folds.problem,
        preconditioner,
        folds.penalty,
        TOLERANCE,
        MOST_STEPS,
    )
    return np.stack([np.append(*coordinates.to_user(line)) for line in fit.coef])


def best_mix(
    given: Matrix | None, own: Matrix, noise: Matrix, codes: NDArray[np.intp], weight: Vector
) -> tuple[tuple[float, float], Vector]:
    """Return the weights of both models by which the labels given are most probable.

    `given` are probabilities of the labels as given, `own` logits of the right ones; `codes` are
    the numbers of the labels given.
    """
    first = np.zeros_like(own) if given is None else without_noise(given, noise)
    second, k = clipped(own), own.shape[1]
    center = np.concatenate([[0.0, 1.0] if given is None else [0.5, 0.5], np.zeros(k)])
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
