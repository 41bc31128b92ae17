"""Steps for responses that are classes: what the label of a row should be, and the fit to that.

A row counts for each class by the probability that this is its right label. Those probabilities
are never sent: any worker computes them again, and remembers the last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Batch, Matrix, Resident, Vector
from easyfirst.local.design import Coordinates, Design, Piece
from easyfirst.local.label_judge import Judge
from easyfirst.local.weighing import importance
from easyfirst.regularizers import SelfPacedRegularizer
from easyfirst.summaries import histogram

STEPS_OF_EM = 30
GRAINS = 1_000  # probabilities that are told apart where rows are many
PRIOR_ROWS = 20.0  # rows of each class that speak for the noise of all batches in a batch's own
LEAST = 1e-300

Rows = tuple[tuple[float, ...], ...]  # a matrix that can be compared


@dataclass(frozen=True, eq=False)
class LabelProblem:
    """What stays the same for the whole fit. `classes` are the values of y, in order."""

    coordinates: Coordinates
    classes: Vector
    class_weight: Vector
    regularizer: SelfPacedRegularizer
    judge: Judge | None = None

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.classes.size)

    @property
    def n_lines(self) -> int:
        """Number of lines of coefficients: of two classes, the second alone has one."""
        return 1 if self.n_classes == 2 else self.n_classes


@dataclass(frozen=True)
class Labelling:
    """All that decides how much the rows of a batch count, and for which class.

    With `noise`, P(given | right), by the judge; `by_columns`, its rates are those of each row.
    With `thresholds`, one per class, a row counts for its given class as far as its loss at `coef`
    permits. With neither, every label is right.
    """

    noise: Rows | None = None
    by_columns: bool = False
    coef: Rows | None = None
    thresholds: tuple[float, ...] | None = None


def count_labels(resident: Resident, message: None, broadcast: None) -> tuple[Vector, Vector]:
    """Return the distinct values of y among rows that count, and their sample weights."""
    del message, broadcast
    weight = importance(resident.batch)
    present = weight > 0
    values, places = np.unique(resident.batch.y[present], return_inverse=True)
    counts = np.bincount(places, weights=weight[present], minlength=values.size)
    return values, counts.astype(np.float64)


def codes_of(batch: Batch, problem: LabelProblem) -> NDArray[np.intp]:
    """Return the number of each row's given class; rows that do not count may have any."""
    places = np.searchsorted(problem.classes, batch.y)
    return np.minimum(places, problem.n_classes - 1)


def given(resident: Resident, problem: LabelProblem) -> Matrix:
    """Return one for the given class of each row, zero for the others."""
    found: Matrix = resident.recall(
        "given",
        None,
        lambda: np.eye(problem.n_classes)[:, codes_of(resident.batch, problem)].T,
    )
    return found


def targets(resident: Resident, labelling: Labelling, problem: LabelProblem) -> Matrix:
    """Return how much each row counts for each class, sample weights not included."""
    found: Matrix = resident.recall(
        "targets", labelling, lambda: _targets_afresh(resident, labelling, problem)
    )
    return found


def _targets_afresh(resident: Resident, labelling: Labelling, problem: LabelProblem) -> Matrix:
    batch = resident.batch
    as_given = given(resident, problem)
    if labelling.noise is not None and labelling.by_columns:
        found = _posterior_by_columns(resident, problem, as_given)
    elif labelling.noise is not None:
        found = posterior(judged(resident, problem), np.array(labelling.noise), as_given)
    elif labelling.thresholds is not None:
        losses = label_losses(resident, labelling, problem)
        thresholds = np.array(labelling.thresholds)
        weights = np.zeros(batch.n_samples)
        for number, threshold in enumerate(thresholds):
            own = as_given[:, number] > 0
            weights[own] = problem.regularizer.weights(losses[own], threshold)
        found = as_given * weights[:, None]
    else:
        return as_given
    if batch.trusted is not None:
        found = np.where(batch.trusted[:, None], as_given, found)
    return found


def judged(resident: Resident, problem: LabelProblem) -> Matrix:
    """Return what the judge says of each row, its label not being looked at."""
    judge = problem.judge
    assert judge is not None
    found: Matrix = resident.recall(
        "judged", judge.digest, lambda: judge.probabilities(resident.batch)
    )
    return found


def chances(resident: Resident, message: None, problem: LabelProblem) -> Vector:
    """Return the probability of each row's given label, as the judge sees it."""
    del message
    return np.asarray(np.sum(judged(resident, problem) * given(resident, problem), axis=1))


def posterior(right: Matrix, noise: Matrix, as_given: Matrix) -> Matrix:
    """Return the probability that each class is the right one, now that a label is given."""
    joint = right * (noise @ as_given.T).T
    total = joint.sum(axis=1, keepdims=True)
    return np.where(total > 0, joint / np.maximum(total, LEAST), as_given)


def _posterior_by_columns(resident: Resident, problem: LabelProblem, as_given: Matrix) -> Matrix:
    """Return the probability that each class is the right one, by the rates of every row."""
    assert problem.judge is not None
    assert problem.judge.rates is not None
    errors = problem.judge.rates.errors_of(resident.batch.X)
    return posterior_by_errors(judged(resident, problem), errors, as_given)


def posterior_by_errors(right: Matrix, errors: Matrix, as_given: Matrix) -> Matrix:
    """Return the probability of each of two classes, `errors` being the rates of every row."""
    joint = right * np.where(as_given > 0, 1.0 - errors, errors)
    return np.asarray(joint / np.maximum(joint.sum(axis=1, keepdims=True), LEAST))


def label_losses(resident: Resident, labelling: Labelling, problem: LabelProblem) -> Vector:
    """Return -ln of the probability that the coefficients give to each given label."""
    assert labelling.coef is not None
    design = Design(resident.batch.X, problem.coordinates)
    logits = np.stack([design.times(np.array(line)) for line in labelling.coef])
    chance = np.take_along_axis(log_softmax(logits), codes_of(resident.batch, problem)[None], 0)
    return np.asarray(np.maximum(-chance[0], 0.0))


def log_softmax(logits: Matrix) -> Matrix:
    """Return the logarithms of probabilities, one line per class; of two, one line is enough."""
    if len(logits) == 1:
        second = np.minimum(logits, 0.0) - np.log1p(np.exp(-np.abs(logits)))
        return np.concatenate([second - logits, second])
    away = logits - logits.max(axis=0)
    return np.asarray(away - np.log(np.exp(away).sum(axis=0)))


def pulls(resident: Resident, labelling: Labelling, problem: LabelProblem) -> Matrix:
    """Return how much each row counts for each class, all weights included, one line per class."""
    found: Matrix = resident.recall(
        "pulls",
        labelling,
        lambda: np.ascontiguousarray(
            (targets(resident, labelling, problem) * problem.class_weight).T
            * importance(resident.batch)
        ),
    )
    return found


def expand(
    resident: Resident, labelling: Labelling, message: tuple[LabelProblem, Matrix]
) -> tuple[float, Matrix]:
    """Return the loss of the rows at given coefficients, and its gradient."""
    problem, coef = message
    counts = pulls(resident, labelling, problem)

    def slope(rows: slice, chance: Matrix) -> tuple[float, Matrix]:
        own = counts[:, rows]
        return -float(np.sum(own * chance)), own.sum(axis=0) * np.exp(chance) - own

    return _expanded(resident, problem, coef, slope)


def expand_through_noise(
    resident: Resident, noise: Matrix, message: tuple[LabelProblem, Matrix]
) -> tuple[float, Matrix]:
    """Return minus the log likelihood of the given labels, noise included, and its gradient."""
    problem, coef = message
    codes, weight = codes_of(resident.batch, problem), importance(resident.batch)

    def slope(rows: slice, chance: Matrix) -> tuple[float, Matrix]:
        right = np.exp(chance)
        joint = right * noise[:, codes[rows]]
        seen = np.maximum(joint.sum(axis=0), LEAST)
        return -float(weight[rows] @ np.log(seen)), weight[rows] * (right - joint / seen)

    return _expanded(resident, problem, coef, slope)


def _expanded(
    resident: Resident,
    problem: LabelProblem,
    coef: Matrix,
    slope: Callable[[slice, Matrix], tuple[float, Matrix]],
) -> tuple[float, Matrix]:
    """Return a value and its gradient; `slope` has them for logits of rows, each piece in cache."""
    value, gradient = 0.0, np.zeros(coef.shape)
    for piece in Design(resident.batch.X, problem.coordinates).pieces():
        chance = log_softmax(np.stack([piece.times(line) for line in coef]))
        own, slopes = slope(piece.rows, chance)
        value += own
        gradient += _pulled(piece, slopes, len(coef))
    return value, gradient


def curve(
    resident: Resident, labelling: Labelling, message: tuple[LabelProblem, Matrix, Matrix]
) -> Matrix:
    """Return the second derivative of the loss at given coefficients, times a direction."""
    problem, coef, direction = message
    total, bent = pulls(resident, labelling, problem).sum(axis=0), np.zeros(coef.shape)
    for piece in Design(resident.batch.X, problem.coordinates).pieces():
        right = np.exp(log_softmax(np.stack([piece.times(line) for line in coef])))
        moved = np.stack([piece.times(line) for line in direction])
        if len(moved) == 1:
            moved = np.concatenate([np.zeros_like(moved), moved])
        bend = total[piece.rows] * right * (moved - np.sum(right * moved, axis=0))
        bent += _pulled(piece, bend, len(coef))
    return bent


def _pulled(piece: Piece, slopes: Matrix, n_lines: int) -> Matrix:
    """Return the products of the rows with the slopes of each class that has coefficients."""
    return np.stack([piece.transposed_times(own)[0] for own in slopes[-n_lines:]])


def own_noise(resident: Resident, start: Matrix, problem: LabelProblem) -> Matrix:
    """Return expected counts of (right, given) labels by the noise of this batch alone.

    By maximum likelihood, the judge being right, from the noise of all batches: `start`.
    """
    as_given, right = given(resident, problem), judged(resident, problem)
    return expected_counts(right, as_given, importance(resident.batch), start)


def expected_counts(right: Matrix, as_given: Matrix, weight: Vector, start: Matrix) -> Matrix:
    """Return expected counts of (right, given) labels, by maximum likelihood from a start."""
    right, as_given, weight = _alike_joined(right, as_given, weight)
    noise, joint = start, np.zeros_like(start)
    for _ in range(STEPS_OF_EM):
        joint = (weight[:, None] * posterior(right, noise, as_given)).T @ as_given
        counted = joint + PRIOR_ROWS * start
        noise = counted / counted.sum(axis=1, keepdims=True)
    return joint


def _alike_joined(right: Matrix, as_given: Matrix, weight: Vector) -> tuple[Matrix, Matrix, Vector]:
    """Return fewer rows that say the same: of two classes, rows of nearly one probability are one.

    A likelihood is asked for many times, and a thousandth of a probability changes nothing.
    """
    if right.shape[1] != 2 or len(right) <= 4 * GRAINS:
        return right, as_given, weight
    place = np.minimum((right[:, 1] * GRAINS).astype(np.intp), GRAINS - 1)
    place += GRAINS * (as_given[:, 1] > 0)
    rows = np.bincount(place, weight, 2 * GRAINS).astype(np.float64)
    second = np.bincount(place, weight * right[:, 1], 2 * GRAINS) / np.maximum(rows, LEAST)
    label = np.repeat(np.eye(2), GRAINS, axis=0)
    return np.stack([1.0 - second, second], axis=1), label, rows


def likelihoods(resident: Resident, matrices: tuple[Matrix, ...], problem: LabelProblem) -> Vector:
    """Return the log likelihood of the given labels by several noise matrices."""
    as_given, right = given(resident, problem), judged(resident, problem)
    return log_likelihoods(right, as_given, importance(resident.batch), matrices)


def log_likelihoods(
    right: Matrix, as_given: Matrix, weight: Vector, matrices: tuple[Matrix, ...]
) -> Vector:
    """Return the log likelihood of given labels by several noise matrices."""
    seen = [np.sum(right * (noise @ as_given.T).T, axis=1) for noise in matrices]
    return np.array([float(weight @ np.log(np.maximum(each, LEAST))) for each in seen])


@dataclass(frozen=True, eq=False)
class LabelTally:
    """Sums over the rows of a batch, each with its sample weight.

    `right` counts rows by the class that they should have; `weight`, `selected` and `changed` are
    sums of the weight v of the given label, of v >= 1/2, and of how far v has moved.
    """

    right: Vector
    weight: float
    selected: float
    changed: float
    total: float


def tally(
    resident: Resident, message: tuple[Labelling, Labelling], problem: LabelProblem
) -> LabelTally:
    """Count the rows as they are labelled now, and what has changed since."""
    now, before = message
    last = given_weights(resident, before, problem)
    weights = given_weights(resident, now, problem)
    s = importance(resident.batch)
    return LabelTally(
        right=s @ targets(resident, now, problem),
        weight=float(s @ weights),
        selected=float(s @ (weights >= 0.5)),
        changed=float(s @ np.abs(weights - last)),
        total=float(s.sum()),
    )


def given_weights(resident: Resident, labelling: Labelling, problem: LabelProblem) -> Vector:
    """Return the weight of each row's given label: how probable it is that it is right."""
    counts = targets(resident, labelling, problem)
    return np.asarray(np.sum(counts * given(resident, problem), axis=1))


def verdicts(
    resident: Resident, labelling: Labelling, problem: LabelProblem
) -> tuple[Vector, NDArray[np.intp]]:
    """Return the weight of each given label, and the number of the most probable class."""
    counts = targets(resident, labelling, problem)
    if labelling.noise is None:  # a label that is not let in yet is not known to be another
        return given_weights(resident, labelling, problem), codes_of(resident.batch, problem)
    return given_weights(resident, labelling, problem), np.argmax(counts, axis=1)


def loss_histograms(resident: Resident, labelling: Labelling, problem: LabelProblem) -> Vector:
    """Return the histogram of the roots of the losses of each class, shape (classes, 2, bins)."""
    roots = np.sqrt(label_losses(resident, labelling, problem))
    codes, s = codes_of(resident.batch, problem), resident.batch.sample_weight
    members = [np.flatnonzero(codes == number) for number in range(problem.n_classes)]
    return np.stack([histogram(roots[m], None if s is None else s[m], 1.0) for m in members])
