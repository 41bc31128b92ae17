"""Models of labels, each fitted without one fold of a sample, so that they judge rows unseen.

Boosters know most where few labels are wrong. Where many are and rows are few, models that follow
single labels less know more: the mean over many trees that each know little, boosters that take
short steps with small trees, and a logistic regression of how near rows are to some of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from scipy.special import logit
from scipy.stats import chi2
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from easyfirst.consensus.labels.levels import Curve, scaled
from easyfirst.consensus.labels.linear import Preconditioner, curvature_of, fit_labels
from easyfirst.consensus.labels.mixing import log_likelihood
from easyfirst.contracts import Batch, Matrix, Resident, Spread, Step, Vector
from easyfirst.local import labels
from easyfirst.local.design import Coordinates, dense
from easyfirst.local.label_judge import (
    FOLDS,
    Forest,
    KernelMachine,
    OneClass,
    class_probabilities,
)
from easyfirst.local.label_rates import Middles
from easyfirst.local.labels import LabelProblem
from easyfirst.local.steps import some_rows
from easyfirst.workers import ResidentWorkers

COLUMNS_FOR_TREES = 1_000  # beyond, the linear model judges alone
COLUMNS_PER_SPLIT = 100  # that a booster looks at
TREES, TREES_OF_ALL_CLASSES = 30, 500
LEARNING_RATE = 0.15
SHORT_STEPS = {"learning_rate": 0.05, "max_leaf_nodes": 8, "l2_regularization": 20.0}
MORE_TREES = 2  # for short steps
PART_OF_COLUMNS = 0.5  # that each of their splits looks at
TREES_IN_FOREST = 50
LEAST_IN_LEAF, LEAVES = 5, 200  # of a tree in a forest: rows, and about how many there may be
ROWS_TO_BE_NEAR_TO = 200
NARROW = 3.0  # how fast nearness falls, over the usual squared distance of two rows
LARGEST_COEFFICIENTS = 0.3  # of nearness, as the C of a logistic regression
# Of the sample: from there on boosters must show that they are needed, and know enough alone.
ROWS_TO_DO_WITHOUT = 10_000
CHANCE = 0.05  # that they are fitted although they are not
TOLERANCE, MOST_STEPS = 1e-2, 200  # of fits that are only mixed with others
COMPARED = 1e-4  # tolerance of a fit whose likelihood is compared,
UNSEEN = 1e-3  # and of fits that begin far from their optimum


@dataclass(frozen=True, eq=False)
class Folds:
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
        """Number of classes."""
        return self.problem.n_classes

    def without(self, number: int) -> tuple[Matrix, NDArray[np.intp], Vector | None]:
        """Return the rows that count of all folds but one: X, labels, weights if there are any."""
        chosen = np.flatnonzero((self.fold != number) & (self.weight > 0))
        weight = None if self.rows.sample_weight is None else self.weight[chosen]
        return dense(self.rows.X[chosen]), self.codes[chosen], weight


def boosters(folds: Folds, own: Matrix) -> tuple[Any, ...]:
    """Return a booster for every fold, or none where they know no more than linear models.

    Where rows are many, the first booster tells: labels of its fold have to be more probable with
    it than by `own`, the logits of the linear models, alone, noise being allowed for.
    """
    if folds.rows.n_features > COLUMNS_FOR_TREES:
        return ()
    # One after the other: scikit-learn's fits change the filters of warnings for all threads.
    first = booster(folds, 0)
    if folds.codes.size >= ROWS_TO_DO_WITHOUT:
        rows = np.flatnonzero((folds.fold == 0) & (folds.weight > 0))
        told = class_probabilities(folds.rows.X[rows], folds.fold[rows], (first,), folds.n_classes)
        own = _levelled(own, folds.codes, folds.weight)
        codes, weight = folds.codes[rows], folds.weight[rows]
        gain = log_likelihood([told], own[rows], codes, weight)
        gain -= log_likelihood([], own[rows], codes, weight)
        if 2.0 * gain < chi2.isf(CHANCE, 1):
            return ()
    return (first, *(booster(folds, number) for number in range(1, FOLDS)))


def _levelled(own: Matrix, codes: NDArray[np.intp], weight: Vector) -> Matrix:
    """Return logits of two classes as noise bends them: it keeps probabilities from zero and one.

    A booster would know that of noisy labels, whatever else it knows.
    """
    if own.shape[1] != 2:
        return own
    score = scaled(own[:, 1] - own[:, 0])
    half = 0.5 * logit(Curve.of(score, codes == 1, weight).apart().at(score))
    return np.stack([-half, half]).T


def booster(folds: Folds, number: int, **others: Any) -> Any:
    """Return a booster of the labels as given, fitted without one fold."""
    X, codes, weight = folds.without(number)
    if np.all(codes == codes[0]):  # all rows of the others are alike, and in that fold
        return OneClass(codes[:1])
    settings = {
        "learning_rate": LEARNING_RATE,
        "max_iter": max(min(TREES, TREES_OF_ALL_CLASSES // folds.n_classes), 10),
        "max_leaf_nodes": 15,
        "min_samples_leaf": min(max(20, codes.size // 100), max(2, codes.size // 10)),
        "l2_regularization": 5.0,
        "max_features": min(1.0, COLUMNS_PER_SPLIT / X.shape[1]),
    }
    model = HistGradientBoostingClassifier(
        **(settings | others), early_stopping=False, random_state=folds.seed
    )
    # Sums of several threads would depend on their number.
    with threadpool_limits(limits=1, user_api="openmp"):
        return model.fit(X, codes, sample_weight=weight)


def smooth_models(folds: Folds) -> tuple[tuple[Any, ...], ...]:
    """Return models that follow single labels less: of each kind, one for every fold.

    None where rows are so many that boosters are enough.
    """
    if folds.rows.n_features > COLUMNS_FOR_TREES or folds.codes.size >= ROWS_TO_DO_WITHOUT:
        return ()
    kinds = (_forest, _short_steps, _kernel_machine)
    return tuple(tuple(kind(folds, number) for number in range(FOLDS)) for kind in kinds)


def _forest(folds: Folds, number: int) -> Forest:
    """Return a forest of the labels as given, fitted without one fold."""
    X, codes, weight = folds.without(number)
    trees = ExtraTreesClassifier(
        TREES_IN_FOREST,
        min_samples_leaf=max(LEAST_IN_LEAF, codes.size // LEAVES),
        max_features="sqrt",
        n_jobs=1,
        random_state=folds.seed,
    )
    return Forest.of(trees, X, codes, weight)


def _short_steps(folds: Folds, number: int) -> Any:
    """Return a booster of many small trees, fitted without one fold."""
    n_rows = int(np.count_nonzero((folds.fold != number) & (folds.weight > 0)))
    most = max(min(TREES, TREES_OF_ALL_CLASSES // folds.n_classes), 10)
    return booster(
        folds,
        number,
        max_iter=MORE_TREES * most,
        min_samples_leaf=min(max(20, n_rows // 50), max(2, n_rows // 10)),
        max_features=min(PART_OF_COLUMNS, COLUMNS_PER_SPLIT / folds.rows.n_features),
        **SHORT_STEPS,
    )


def _kernel_machine(folds: Folds, number: int) -> KernelMachine | OneClass:
    """Return a logistic regression of how near rows are to some rows, fitted without one fold."""
    X, codes, weight = folds.without(number)
    if np.all(codes == codes[0]):
        return OneClass(codes[:1])
    middles = Middles.of(X)
    columns = middles.scaled(X)
    order = np.random.default_rng(folds.seed).permutation(len(X))
    apart = float(np.median(pdist(columns[order[:ROWS_TO_BE_NEAR_TO]], "sqeuclidean")))
    nearness = Nystroem(
        gamma=NARROW / apart if apart > 0.0 else 1.0,
        n_components=min(ROWS_TO_BE_NEAR_TO, len(X)),
        random_state=folds.seed,
    )
    line = LogisticRegression(C=LARGEST_COEFFICIENTS, max_iter=1000)
    machine = make_pipeline(nearness, line)
    return KernelMachine(
        middles, machine.fit(columns, codes, logisticregression__sample_weight=weight)
    )


def lines(folds: Folds, step: Step, message: Any, start: Matrix) -> tuple[Matrix, ...]:
    """Return a linear model without each fold."""
    return tuple(folds.spread(partial(line, folds, step, message, start), range(FOLDS)))


def lines_through_noise(
    folds: Folds, noise: Matrix, begin: tuple[Matrix, ...]
) -> tuple[Matrix, ...]:
    """Return a linear model without each fold, flips in its likelihood.

    Each begins at one that has not seen the fold either: where flips leave little, or columns are
    many, a fit that ends before its optimum remembers where it began.
    """

    def without(number: int) -> Matrix:
        through = labels.expand_through_noise
        return line(folds, through, noise, begin[number], number, UNSEEN)

    return tuple(folds.spread(without, range(FOLDS)))


def line(
    folds: Folds,
    step: Step,
    message: Any,
    start: Matrix | None,
    number: int | None,
    tol: float = TOLERANCE,
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
        tol,
        MOST_STEPS,
        start=begin,
    )
    return np.stack([np.append(*coordinates.to_user(line)) for line in fit.coef])


def in_coordinates(lines: Matrix, coordinates: Coordinates) -> Matrix:
    """Return coefficients as they are solved for, from those of the columns as given."""
    return np.stack([coordinates.from_user(line[:-1], float(line[-1])) for line in lines])
