"""Flips of two classes that are more frequent for some values of the columns than for others.

Rates of errors follow a logistic curve along the columns, up to one half: a label is nowhere more
often wrong than right. The right label follows another one, along the columns and along what other
models say of the label given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from easyfirst.contracts import Matrix, Vector
from easyfirst.local.design import dense, row_slices

FAR = 3.0  # scales of a column, beyond which it says no more
QUARTILES = float(norm.ppf(0.75) - norm.ppf(0.25))  # how far apart they are in a normal column
MOST_RATE = 0.5
LARGEST_LOGIT = 6.0  # of a label by other models: surer ones are not believed


@dataclass(frozen=True, eq=False)
class Middles:
    """The middle and scale of columns, which rows far out do not decide about."""

    middle: Vector
    scale: Vector

    @classmethod
    def of(cls, X: Matrix) -> Middles:
        """Return those of some rows."""
        low, middle, high = np.quantile(X, (0.25, 0.5, 0.75), axis=0)
        scale = np.where(high > low, (high - low) / QUARTILES, X.std(axis=0))
        return cls(middle, np.where(scale > 0.0, scale, 1.0))

    def scaled(self, X: Any) -> Matrix:
        """Return the columns around their middles, cut off where they are far out."""
        return np.asarray(np.clip((X - self.middle) / self.scale, -FAR, FAR))


@dataclass(frozen=True, eq=False)
class RatesByColumns:
    """Coefficients of both curves: slopes of the columns first.

    `right` goes on with the weight of what other models say, and an intercept; `rates` has an
    intercept for each class.
    """

    middles: Middles
    right: Vector
    rates: Vector

    @property
    def parts(self) -> list[Vector]:
        """All numbers."""
        return [self.middles.middle, self.middles.scale, self.right, self.rates]

    def right_of(self, X: Any, told: Matrix) -> Matrix:
        """Return the probabilities of the right labels; `told` are those of the given ones."""
        found, logit = np.empty((2, len(told))), logits_of(told)
        for rows in row_slices(X.shape[0], X.shape[1]):
            along = self.middles.scaled(X[rows]) @ self.right[:-2]
            found[1, rows] = expit(along + self.right[-2] * logit[rows] + self.right[-1])
        found[0] = 1.0 - found[1]
        return found.T

    def errors_of(self, X: Any) -> Matrix:
        """Return how often a label of each class is given as the other one, for every row."""
        along = np.empty(X.shape[0])
        for rows in row_slices(X.shape[0], X.shape[1]):
            along[rows] = self.middles.scaled(dense(X[rows])) @ self.rates[:-2]
        return np.stack([MOST_RATE * expit(along + own) for own in self.rates[-2:]]).T


def logits_of(told: Matrix) -> Vector:
    """Return the logits of the second of two classes."""
    with np.errstate(divide="ignore"):
        logit = np.log(told[:, 1]) - np.log(told[:, 0])
    return np.asarray(np.clip(logit, -LARGEST_LOGIT, LARGEST_LOGIT))
