"""What a label probably is, judged by models that have not seen the row.

The rows of a sample were split into folds by what they hold, and models were fitted without each
fold. Any row is judged by the models of its own fold, wherever it lies: whether it was in the
sample or is a copy of a row that was, they have not seen its label.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import softmax

from easyfirst.contracts import Batch, Matrix, Vector
from easyfirst.local.design import dense, row_slices
from easyfirst.local.label_rates import Middles, RatesByColumns

FOLDS = 5
LEAST_PROBABILITY = 0.002  # a flexible model is never believed to be surer
# Of a rate of errors, over what noise leaves of labels: how far a flexible model's probability is
# off by chance.
BLUR = 0.075
FARTHEST = 1e6  # scales of a column: trees need not tell rows apart that are further out
LARGEST_LOGIT = 8.0  # nor a linear one, beyond this difference of two logits
SPARSE_ROWS = 4096  # in a piece at least: however wide they are, they hold little
MULTIPLIERS = np.random.default_rng(20).integers(1 << 63, size=1024, dtype=np.uint64) | np.uint64(1)


@dataclass(frozen=True, eq=False)
class Forest:
    """A forest of random trees, and the middle and scale of the columns that it has seen.

    Its numbers are short ones, which columns far from zero, or of any unit, would not fit into.
    """

    middle: Vector
    scale: Vector
    trees: Any

    @classmethod
    def of(cls, trees: Any, X: Matrix, codes: NDArray[np.intp], weight: Vector | None) -> Forest:
        """Return the forest that such trees become by rows of numbered classes."""
        # Short numbers are most exact around zero: rows far out must not move the others away.
        middle, size = np.median(X, axis=0), np.abs(X).max(axis=0, initial=0.0)
        far = np.abs(X - middle).max(axis=0, initial=0.0)
        unfitted = cls(middle, np.where(far > 1e-12 * size, far, 1.0), trees)
        trees.fit(unfitted._scaled(X), codes, sample_weight=weight)
        return unfitted

    @property
    def classes_(self) -> NDArray[np.intp]:
        """The numbers of the classes that were seen."""
        return np.asarray(self.trees.classes_)

    def predict_proba(self, X: Matrix) -> Matrix:
        """Return the share of each class in the leaves of every row."""
        return np.asarray(self.trees.predict_proba(self._scaled(X)))

    def _scaled(self, X: Matrix) -> Matrix:
        with np.errstate(over="ignore"):
            return np.clip((X - self.middle) / self.scale, -FARTHEST, FARTHEST)


@dataclass(frozen=True, eq=False)
class OneClass:
    """What knows of one class alone."""

    classes_: NDArray[np.intp]

    def predict_proba(self, X: Matrix) -> Matrix:
        """Return that every row is of that class."""
        return np.ones((len(X), 1))


@dataclass(frozen=True, eq=False)
class KernelMachine:
    """A model of columns around their middles: distances need scales, and no row far out."""

    middles: Middles
    machine: Any

    @property
    def classes_(self) -> NDArray[np.intp]:
        """The numbers of the classes that were seen."""
        return np.asarray(self.machine.classes_)

    def predict_proba(self, X: Matrix) -> Matrix:
        """Return the probability of each class for every row."""
        return np.asarray(self.machine.predict_proba(self.middles.scaled(X)))


@dataclass(frozen=True, eq=False)
class Blend:
    """Linear models, one per fold, and how much they count beside other probabilities.

    All speak of logits, which are added up with the weights in `mix` (first those of the others),
    plus `offset`.
    """

    lines: tuple[Matrix, ...]
    mix: tuple[float, ...]
    offset: Vector

    def probabilities(
        self, X: Any, fold: NDArray[np.intp], others: Sequence[Matrix], noise: Matrix
    ) -> Matrix:
        """Return class probabilities of rows, `noise` taken out of those of others."""
        own = linear_logits(X, fold, self.lines)
        return mixed(others, own, noise, self.mix, self.offset)


@dataclass(frozen=True, eq=False)
class Judge:
    """Class probabilities of rows, for the labels that they should have.

    `flexible` holds models of each kind, one per fold (none where there are too many columns).
    Blended with linear models they tell the labels as `given`. From those, the `noise` taken out,
    and from linear models with the noise inside their likelihood follow the `right` ones; None: the
    labels are not noisy. Without flexible models, linear ones with the noise inside are enough.
    Where the `rates` of flips follow the columns, these know the right labels, too.
    """

    noise: Matrix
    flexible: tuple[tuple[Any, ...], ...]
    given: Blend
    right: Blend | None = None
    rates: RatesByColumns | None = None

    @cached_property
    def digest(self) -> bytes:
        """A key for equality."""
        blends = [self.given] if self.right is None else [self.given, self.right]
        parts = [self.noise]
        for blend in blends:
            parts += [blend.offset, np.array(blend.mix), *blend.lines]
        parts += [] if self.rates is None else self.rates.parts
        return hashlib.blake2b(b"".join(part.tobytes() for part in parts)).digest()

    def probabilities(self, batch: Batch) -> Matrix:
        """Return the probability of every class for each row, its label not being looked at."""
        X, fold, n_classes = batch.X, folds_of(batch.X), len(self.noise)
        if self.right is not None and not self.flexible:
            return self.right.probabilities(X, fold, (), self.noise)
        told = [class_probabilities(X, fold, models, n_classes) for models in self.flexible]
        given = self.given.probabilities(X, fold, told, np.eye(n_classes))
        if self.rates is not None:
            return self.rates.right_of(X, given)
        if self.right is None:
            return given
        return self.right.probabilities(X, fold, [given], self.noise)


def mixed(
    given: Sequence[Matrix], own: Matrix, noise: Matrix, mix: Sequence[float], offset: Vector
) -> Matrix:
    """Return class probabilities by all models; `given` are those of the labels as given."""
    logits = mix[-1] * clipped(own) + offset
    for share, told in zip(mix[:-1], given, strict=True):
        logits = logits + share * without_noise(told, noise)
    return np.asarray(softmax(logits, axis=1))


def clipped(logits: Matrix) -> Matrix:
    """Return logits around their middle, none of them beyond what is believed."""
    centered = logits - logits.mean(axis=1, keepdims=True)
    return np.asarray(np.clip(centered, -LARGEST_LOGIT / 2, LARGEST_LOGIT / 2))


def without_noise(given: Matrix, noise: Matrix) -> Matrix:
    """Return logits of the right labels from probabilities of the given ones."""
    raw = np.linalg.solve(noise.T, given.T).T
    right = np.maximum(raw, LEAST_PROBABILITY)
    left = float(np.min(np.abs(np.linalg.eigvals(noise))))
    width = BLUR * (1.0 - float(np.diag(noise).min())) / left
    if width > 0:
        # Which of the rows below zero is the surest one is still known.
        right = np.maximum(width * np.logaddexp(0.0, raw / width), LEAST_PROBABILITY * 1e-3)
    logs = np.log(right / right.sum(axis=1, keepdims=True))
    return np.asarray(logs - logs.mean(axis=1, keepdims=True))


def linear_logits(X: Any, fold: NDArray[np.intp], lines: Sequence[Matrix]) -> Matrix:
    """Return one logit per class by the linear model of each row's fold; intercepts are last."""
    found = np.empty((len(lines[0]), X.shape[0]))
    for rows, number, chosen in _parts(X, fold, len(lines)):
        coef = lines[number]
        found[:, rows] = (chosen @ coef[:, :-1].T + coef[:, -1]).T
    return with_reference(found.T)


def with_reference(logits: Matrix) -> Matrix:
    """Return logits with the column of zeros that two classes leave out.

    As everywhere here, the columns of matrices lie one after the other in memory: rows are many
    and classes few, and sums over a row's classes are fast that way alone.
    """
    if logits.shape[1] > 1:
        return logits
    return np.vstack([np.zeros_like(logits.T), logits.T]).T


def class_probabilities(
    X: Any, fold: NDArray[np.intp], models: Sequence[Any], n_classes: int
) -> Matrix:
    """Return what the model of each row's fold says; a class that it has never seen has zero."""
    found = np.zeros((n_classes, X.shape[0]))
    for rows, number, chosen in _parts(X, fold, len(models)):
        columns = models[number].classes_.astype(np.intp)
        found[np.ix_(columns, rows)] = models[number].predict_proba(dense(chosen)).T
    return found.T


def _parts(
    X: Any, fold: NDArray[np.intp], n_folds: int
) -> Iterator[tuple[NDArray[np.intp], int, Any]]:
    """Yield the places, fold and values of rows that are judged together, piece by piece."""
    least = SPARSE_ROWS if sp.issparse(X) else 32
    for piece in row_slices(X.shape[0], X.shape[1], least):
        columns, own = X[piece], fold[piece]
        for number in range(n_folds):
            chosen = np.flatnonzero(own == number)
            if chosen.size:
                yield piece.start + chosen, number, columns[chosen]


def folds_of(X: Any) -> NDArray[np.intp]:
    """Return the fold of each row, which depends on nothing but the row's values.

    Rows that are equal are in one fold. Zeros count for nothing, so that sparse rows have the fold
    that they would have if they were dense.
    """
    if sp.issparse(X):
        codes = _bits(X.data) * _multipliers(X.indices)
        ends = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(codes)])
        sums = ends[X.indptr[1:]] - ends[X.indptr[:-1]]
    else:
        place = _multipliers(np.arange(X.shape[1]))
        sums = np.empty(X.shape[0], dtype=np.uint64)
        for rows in row_slices(X.shape[0], X.shape[1]):
            sums[rows] = _bits(X[rows]) @ place
    for shift in (33, 29):  # the upper bits know most of what a row holds
        sums = (sums ^ (sums >> np.uint64(shift))) * MULTIPLIERS[0]
    return np.asarray((sums >> np.uint64(32)) % np.uint64(FOLDS), dtype=np.intp)


def _bits(values: Any) -> NDArray[np.uint64]:
    """Return each value as a whole number, zero for either zero."""
    return np.asarray((np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64))


def _multipliers(columns: NDArray[Any]) -> NDArray[np.uint64]:
    """Return an odd number for each column."""
    place = MULTIPLIERS[columns % MULTIPLIERS.size] + np.uint64(2) * columns.astype(np.uint64)
    return np.asarray(place)
