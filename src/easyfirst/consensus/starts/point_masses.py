"""Values of y that far too many rows share: codes for missing values, zeros, caps, copied rows.

A target that is measured takes hardly any value twice, or all values of its grid about equally
often. A value that a part of the rows shares is a point mass. It may be part of what is to be
predicted, or stand for something else; the model of the other rows tells. If it predicts the value
where it stands, the rows are like all others. If it does not, and which rows they are has nothing
to do with X, or the value lies apart from all others, they are set aside: no residual of theirs is
noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp

from easyfirst.consensus.robust.huber import robust_scale
from easyfirst.consensus.robust.structure import dependence
from easyfirst.consensus.starts.sample import SCREENED_FEATURES, Sample
from easyfirst.contracts import Matrix, Vector
from easyfirst.local.design import dense

LEAST_ROWS, LEAST_SHARE = 5, 0.01  # of a point mass
TIMES_OTHERS = 10  # rows of a point mass, over those that share the value of a typical other row
ROWS_LEFT = 4  # per coefficient, that are on no point mass
MOST_ROWS = 4000  # that are looked at
EVIDENCE = 3.0  # in log-likelihood, that decides
LIKE_OTHERS = 0.8  # share of the rows of a point mass that the model should predict, if it does
MAJORITY = 0.5  # of the rows: a value apart from the others may have more, others may not
APART = 0.5  # from all other values, in widths of the middle half of their rows,
GAP, NEIGHBOURS = 5.0, 10  # and in mean steps between so many of the nearest of them
TELLS = 0.25  # share of the variance that X tells of who is there, from which it is no accident
COPIES = 20  # rows per different row of X from which they are copies
OFF = 2.0  # scales by which copies of a wrong row miss the model of the others
WORTH_A_WORD = 0.1  # of the rows


@dataclass(frozen=True)
class PointMass:
    """A value of y that this share of the rows has, and what became of them.

    A value that is apart lies outside of all others by a wide gap. Rows of a limit are those that a
    model without limits predicts near it or beyond. A point mass that is neither aside nor
    predicted may or may not be a mistake, which the fit decides row by row: it is rejected if most
    of its rows look corrupted. The zero of amounts may be a real one: no sale, no rain, no claim.
    """

    value: float
    share: float
    is_apart: bool = False
    is_aside: bool = False
    is_predicted: bool = False
    is_limit: bool = False
    is_rejected: bool = False
    is_zero_amount: bool = False


def point_masses(sample: Sample) -> tuple[PointMass, ...]:
    """Return the values of y that far more rows share than have any typical other one.

    And those that lie apart. None if few rows are on no point mass.
    """
    problem, y = sample.fleet.problem, sample.rows.y
    applies = problem.loss.quadratic and problem.regularizer.is_posterior
    if not applies or sample.rows.n_features > SCREENED_FEATURES:
        return ()
    masses = tuple(mass for mass in shared_values(y) if not np.any(y[sample.trusted] == mass.value))
    left = (1.0 - sum(mass.share for mass in masses)) * y.size
    return masses if left >= ROWS_LEFT * sample.fleet.n_coef else ()


def shared_values(y: Vector) -> tuple[PointMass, ...]:
    """Return the values that far more rows share than have any typical other one, or lie apart."""
    values, counts = np.unique(y, return_counts=True)
    is_frequent = counts >= max(LEAST_ROWS, LEAST_SHARE * y.size)
    apart = values_apart(values, counts, is_frequent)
    return tuple(
        PointMass(value, float(count) / y.size, value in apart)
        for value, count in zip(values[is_frequent].tolist(), counts[is_frequent], strict=True)
        if value in apart or count >= TIMES_OTHERS * _typical(counts, count)
    )


def _typical(counts: NDArray[np.intp], own: int) -> float:
    """Return how many rows share the value of the median row among those without this value."""
    ordered = np.sort(counts)
    others = np.delete(ordered, np.searchsorted(ordered, own))
    if not others.size:
        return np.inf
    return float(others[np.searchsorted(np.cumsum(others), 0.5 * others.sum())])


def values_apart(
    values: Vector, counts: NDArray[np.intp], is_frequent: NDArray[np.bool_]
) -> set[float]:
    """Return the frequent values at both ends that lie apart from all within."""
    apart = set()
    for side in (1, -1):
        inner, rows, frequent = values[::side], counts[::side], is_frequent[::side]
        while inner.size > 3 and frequent[0]:
            value, inner, rows, frequent = float(inner[0]), inner[1:], rows[1:], frequent[1:]
            near = inner[:NEIGHBOURS]
            step = abs(near[-1] - near[0]) / (near.size - 1)
            first, third = np.searchsorted(np.cumsum(rows), [0.25 * rows.sum(), 0.75 * rows.sum()])
            width = abs(inner[third] - inner[first])
            if abs(near[0] - value) <= max(APART * width, GAP * step):
                break
            apart.add(value)
    return apart


def judged_masses(
    sample: Sample, masses: tuple[PointMass, ...], coef: Vector, scale: float
) -> tuple[PointMass, ...]:
    """Return the point masses judged by a fit of the other rows: its coefficients and scale."""
    rows = np.arange(sample.n_samples)[:: -(-sample.n_samples // MOST_ROWS)]
    part = sample.part(rows)
    prediction = sample.fleet.problem.design(part).times(coef)
    is_other = ~np.isin(part.y, [mass.value for mass in masses])
    if not is_other.any():
        return masses
    scale = max(scale, robust_scale((part.y - prediction)[is_other]))
    view = _View(dense(part.X), part.y, coef, prediction, is_other, scale)
    return tuple(view.judged(mass) for mass in masses)


@dataclass(frozen=True, eq=False)
class _View:
    """Rows of the sample beside the predictions of a model of those on no point mass."""

    X: Matrix
    y: Vector
    coef: Vector
    prediction: Vector
    is_other: NDArray[np.bool_]
    scale: float

    def judged(self, mass: PointMass) -> PointMass:
        """Return what the rows with this value are."""
        member, value = self.y == mass.value, mass.value
        mass = replace(mass, is_zero_amount=self._is_amount(value))
        misses = (value - self.prediction) / self.scale
        are_copies = COPIES * len(np.unique(self.X[member], axis=0)) <= np.count_nonzero(member)
        if are_copies:
            is_off = bool(np.median(np.abs(misses[member])) > OFF)
            return replace(mass, is_aside=is_off, is_predicted=not is_off)
        others = self.y[self.is_other]
        near, limit = self._evidence(-0.5 * np.square(misses), member), -np.inf
        if not others.min() < value < others.max():
            beyond = misses if value <= others.min() else -misses
            limit = self._evidence(log_ndtr(beyond), member)
        if max(near, limit) < -EVIDENCE:
            return replace(mass, is_aside=self._is_mistake(mass, member))
        return replace(
            mass, is_predicted=max(near, limit) > EVIDENCE, is_limit=limit > max(near, EVIDENCE)
        )

    def _evidence(self, logarithm: Vector, member: NDArray[np.bool_]) -> float:
        """Return how much likelier the predictions are if most of the members are like others.

        Given how likely the value is at each prediction. If it stands anywhere, members are
        predicted as the others are.
        """
        others = logarithm[self.is_other]
        ratio = logarithm[member] - (logsumexp(others) - np.log(others.size))
        ratio = np.minimum(
            ratio, np.log(others.size)
        )  # as much as the nearest of the others can have
        mixed = np.logaddexp(np.log1p(-LIKE_OTHERS), np.log(LIKE_OTHERS) + ratio)
        return float(np.sum(mixed))

    def _is_mistake(self, mass: PointMass, member: NDArray[np.bool_]) -> bool:
        """Return whether rows that the model does not predict are there for no reason in X."""
        rows = member | self.is_other
        told, is_noticed = dependence(
            self.X[rows], self.coef, self.prediction[rows], member[rows].astype(np.float64)
        )
        if mass.is_apart and not mass.is_zero_amount:
            return told < TELLS
        return mass.share <= MAJORITY and not is_noticed

    def _is_amount(self, value: float) -> bool:
        """Return whether a value is the zero of amounts, which are none in some rows for a reason.

        No other value apart from all others is one that a measured amount would have.
        """
        return value == 0.0 and bool(np.all(self.y >= 0.0))


def with_weights(
    masses: tuple[PointMass, ...], y: Vector, weights: Vector
) -> tuple[PointMass, ...]:
    """Return the point masses with what a fit made of those that took part in it."""
    means = [weights[y == mass.value].mean() if not mass.is_aside else 1.0 for mass in masses]
    return tuple(
        replace(mass, is_rejected=bool(mean < 0.5))
        for mass, mean in zip(masses, means, strict=True)
    )


def doubts_about_masses(masses: tuple[PointMass, ...]) -> tuple[str, ...]:
    """Return a sentence for each point mass that may have spoiled the fit."""
    doubts = []
    for mass in masses:
        if mass.share < WORTH_A_WORD:
            continue
        if mass.is_aside and mass.is_zero_amount:
            doubts.append(
                f"{100 * mass.share:.2g} % of the rows have y = 0 and were set aside as wrong: the "
                f"columns do not tell them. If 0 is a real amount (no sale, no rain), ask first "
                f"which rows have one (SelfPacedClassifier), or use loss=PoissonDeviance()."
            )
        if mass.is_aside or mass.is_rejected:
            continue
        if mass.share > MAJORITY:
            continue  # there is more to say of them
        has = f"{100 * mass.share:.2g} % of the rows have y = {mass.value:.6g} exactly"
        if mass.is_limit:
            doubts.append(
                f"{has}, and it is the limit of all others: y seems to be cut off there. The fit "
                f"follows y as it is given and predicts too little of what lies beyond. If the "
                f"true values are known, give them."
            )
        elif not mass.is_predicted:
            doubts.append(
                f"{has}, and the other rows do not tell why. If the value stands for something "
                f"else, such as a missing value, remove these rows."
            )
    return tuple(doubts)


def doubts_about_a_majority(y: Vector, masses: tuple[PointMass, ...]) -> tuple[str, ...]:
    """Return a doubt where most rows have one value that they were not set aside for."""
    values, counts = np.unique(y, return_counts=True)
    value, share = float(values[np.argmax(counts)]), float(counts.max()) / y.size
    is_aside = any(mass.is_aside and mass.value == value for mass in masses)
    if not MAJORITY < share < 1.0 or is_aside:
        return ()
    return (
        f"{100 * share:.2g} % of the rows have y = {value:.6g} exactly: one line is drawn to them "
        f"and says little of the others. If y counts something, use loss=PoissonDeviance(); else "
        f"ask first which rows have this value (SelfPacedClassifier), and fit the others by "
        f"themselves.",
    )


def notes_about_masses(masses: tuple[PointMass, ...]) -> tuple[str, ...]:
    """Return a sentence for each point mass that was set aside."""
    return tuple(
        f"{100 * mass.share:.2g} % of the rows have y = {mass.value:.6g} exactly, which the model "
        f"of the others does not predict: the value seems to stand for something else, and all "
        f"rows that have it are taken for wrong."
        for mass in masses
        if mass.is_aside
    )
