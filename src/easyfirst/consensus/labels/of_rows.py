"""What the judge of labels says of rows in memory, whatever model they are fitted by in the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from easyfirst.consensus.labels.judging import SAMPLE_ROWS, judge_labels
from easyfirst.consensus.labels.linear import penalty_of
from easyfirst.consensus.labels.noise import LabelNoise
from easyfirst.contracts import Batch, Matrix, Vector
from easyfirst.local.design import Coordinates
from easyfirst.local.labels import LabelProblem
from easyfirst.local.steps import some_rows
from easyfirst.regularizers import Hard

STRENGTH = 0.5  # of the quadratic penalty of linear models, as by default


@dataclass(frozen=True, eq=False)
class JudgedRows:
    """The noise of labels, and the probability of every class to be the right one.

    Of two classes, `errors` may say how often rows like each one are given the other label.
    """

    noise: LabelNoise
    right: Matrix
    errors: Matrix | None = None

    def log_likelihood(self, as_given: Matrix, weight: Vector) -> float:
        """Return the mean logarithm of the probability of the labels given."""
        if self.errors is None:
            given = np.sum((self.right @ self.noise.matrix) * as_given, axis=1)
        else:
            given = np.sum(
                self.right * np.where(as_given > 0, 1.0 - self.errors, self.errors), axis=1
            )
        return float(np.average(np.log(np.maximum(given, 1e-300)), weights=weight))


def judge_rows(
    X: Matrix, codes: NDArray[np.intp], weight: Vector, n_classes: int, seed: int
) -> JudgedRows | None:
    """Judge numbered labels of rows by models that have not seen them.

    None if rows are too few, or some values missing or too large to be added up.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        scale = X.std(axis=0)
        scaled = (X - X.mean(axis=0)) / np.where(scale > 0.0, scale, 1.0)
    if not np.all(np.isfinite(scaled)):
        return None
    rows = Batch(scaled, codes.astype(np.float64), weight)
    problem = LabelProblem(
        coordinates=Coordinates(fit_intercept=True),
        classes=np.arange(n_classes, dtype=np.float64),
        class_weight=np.ones(n_classes),
        regularizer=Hard(),
    )
    sample, share = rows, min(SAMPLE_ROWS / rows.n_samples, 1.0)
    if share < 1.0:
        drawn = np.random.default_rng(seed).choice(rows.n_samples, SAMPLE_ROWS, replace=False)
        sample = some_rows(rows, np.sort(drawn))
    penalty = share * penalty_of(STRENGTH, rows.n_features + 1, fit_intercept=True)
    judged = judge_labels(sample, problem, penalty, map, seed)
    if judged.judge is None:
        return None
    rates = judged.judge.rates
    errors = None if rates is None else rates.errors_of(scaled)
    return JudgedRows(judged.noise, judged.judge.probabilities(rows), errors)
