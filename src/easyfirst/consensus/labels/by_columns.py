"""Whether labels of two classes are flipped more often for some values of the columns.

Where nothing is flipped, or all rows alike, such rates fit labels better by chance alone, and by
how much is known: twice the gain in the log likelihood is a chi square. Classes that overlap do not
look like this. Along one score, flips bend the curve of a label, and so do odd shapes of overlap;
here two scores are needed, one that tells the label and another that tells how well the first does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logit
from scipy.stats import chi2

from easyfirst.consensus.labels.evidence import Evidence, are_many, price_of
from easyfirst.consensus.labels.noise import NEARLY_HALF, UNSURE, LabelNoise
from easyfirst.contracts import Matrix, Vector
from easyfirst.local.label_rates import MOST_RATE, Middles, RatesByColumns, logits_of

CHANCE = 1e-4  # that rates are taken to follow the columns although they do not
HOLD = 0.5  # of squared coefficients of columns of scale one
START = 0.2  # a rate
LEAST_START = 0.05  # a rate below it says nothing of where errors are
# Of the gain that is asked: a step towards it that promises less is not taken. Where one rate for
# all rows is clear, so is what the step promises.
PROMISING, PROMISING_IF_CLEAR = 0.1, 0.8
MOST_STEPS, STEPS_TO_BEGIN = 500, 100
FARTHEST = 10.0  # intercept of a rate: none at all, or the largest
LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class NoiseByColumns:
    """The noise in the mean over the rows, and the rates of every row.

    `worth` is the log likelihood of the labels, less what as many coefficients gain by chance.
    """

    noise: LabelNoise
    rates: RatesByColumns
    worth: float

    def outdoes(self, evidence: Evidence | None) -> bool:
        """Return whether no bends of columns, nor levels that all rows share, explain as much."""
        if evidence is None:
            return True
        return self.worth > evidence.without + max(evidence.alike, evidence.apart, 0.0)


def noise_by_columns(
    X: object,
    told: Matrix,
    codes: NDArray[np.intp],
    weight: Vector,
) -> NoiseByColumns | None:
    """Return noise that follows the columns, if it explains labels better than one rate or none.

    `told` are probabilities of the given labels out of fold.
    """
    if told.shape[1] != 2 or sp.issparse(X) or not isinstance(X, np.ndarray):
        return None
    n_columns = X.shape[1]
    if not are_many(float(weight.sum()), 2 * n_columns + 4):
        return None
    middles = Middles.of(X)
    work = _Likelihood.of(middles.scaled(X), logits_of(told), codes == 1, weight)
    straight = work.straight()
    begun = work.with_one_rate(straight.point)
    needed = float(chi2.isf(CHANCE, n_columns)) / 2.0
    gain = begun.log_likelihood - straight.log_likelihood
    is_clear = gain > price_of(float(weight.sum()))
    enough = PROMISING_IF_CLEAR if is_clear else PROMISING
    if work.promised(begun.point) < enough * needed:
        return None
    found = work.by_columns(begun.point)
    over_none = float(chi2.isf(CHANCE, n_columns + 2)) / 2.0
    if found.log_likelihood < straight.log_likelihood + over_none:
        return None
    if found.log_likelihood < work.one_rate_each(begun.point).log_likelihood + needed:
        return None
    right, rates = np.split(found.point, [n_columns + 2])
    # What is fitted to these labels is better by chance, by one for each coefficient.
    worth = found.log_likelihood - right.size - rates.size
    return NoiseByColumns(work.noise(found.point), RatesByColumns(middles, right, rates), worth)


@dataclass(frozen=True, eq=False)
class _Found:
    point: Vector
    log_likelihood: float


@dataclass(frozen=True, eq=False)
class _Likelihood:
    """Labels by a curve for the right one and rates of errors; see `RatesByColumns`.

    A point is the coefficients of both. `design` are the columns, what other models say, and ones.
    """

    design: Matrix
    own: NDArray[np.bool_]
    weight: Vector

    @classmethod
    def of(
        cls, columns: Matrix, told: Vector, own: NDArray[np.bool_], weight: Vector
    ) -> _Likelihood:
        """Return the likelihood of labels: `own` of them are the second."""
        return cls(np.column_stack([columns, told, np.ones(len(own))]), own, weight)

    @property
    def n_columns(self) -> int:
        return int(self.design.shape[1]) - 2

    @property
    def _hold(self) -> Vector:
        """How much is held against each coefficient: nothing against intercepts."""
        hold = np.full(2 * self.n_columns + 4, HOLD)
        hold[[self.n_columns + 1, -2, -1]] = 0.0
        return hold

    def straight(self) -> _Found:
        """Return the fit to labels that are all right."""
        sign, hold = np.where(self.own, 1.0, -1.0), self._hold[: self.n_columns + 2]

        def objective(point: Vector) -> tuple[float, Vector]:
            margin = sign * (self.design @ point)
            pull = -self.weight * sign * expit(-margin)
            value = -float(self.weight @ log_expit(margin)) + float(hold @ np.square(point))
            return value, self.design.T @ pull + 2.0 * hold * point

        start = np.zeros(self.n_columns + 2)
        start[-2] = 1.0
        best = minimize(objective, start, jac=True, method="L-BFGS-B").x
        margin = sign * (self.design @ best)
        return _Found(best, float(self.weight @ log_expit(margin)))

    def with_one_rate(self, right: Vector) -> _Found:
        """Return a good fit with one rate for all rows, from where slopes of rates are seen."""
        limits = (_logit(LEAST_START), _logit(0.99 * MOST_RATE))
        begin = np.append(right, _logit(START))
        return self._climb(begin, self._directions(False, True), limits, STEPS_TO_BEGIN)

    def one_rate_each(self, point: Vector) -> _Found:
        """Return the best fit with a rate for each class that is the same for all rows."""
        begin = np.delete(point, np.arange(self.n_columns + 2, point.size - 2))
        limits = (-FARTHEST, FARTHEST)
        return self._climb(begin, self._directions(False, False), limits, MOST_STEPS)

    def by_columns(self, point: Vector) -> _Found:
        """Return the best fit with rates that follow the columns, alike for both classes.

        With rates of their own, both classes follow labels that are left to chance too closely.
        """
        limits = (-FARTHEST, FARTHEST)
        return self._climb(point[:-1], self._directions(True, True), limits, MOST_STEPS)

    def _directions(self, has_slopes: bool, alike: bool) -> Matrix:
        """Return what numbers that may be chosen do to a point, one line each."""
        lines = np.eye(2 * self.n_columns + 4)
        if alike:
            lines = np.vstack([lines[:-2], lines[-2] + lines[-1]])
        return (
            lines
            if has_slopes
            else np.vstack([lines[: self.n_columns + 2], lines[2 * self.n_columns + 2 :]])
        )

    def _climb(
        self, begin: Vector, directions: Matrix, intercepts: tuple[float, float], steps: int
    ) -> _Found:
        hold, n_rates = self._hold, int(np.count_nonzero(directions[:, -2:].any(axis=1)))

        def objective(chosen: Vector) -> tuple[float, Vector]:
            point = chosen @ directions
            value, gradient = self._expanded(point)
            value += float(hold @ np.square(point))
            return value, directions @ (gradient + 2.0 * hold * point)

        limits = [(None, None)] * (begin.size - n_rates) + [intercepts] * n_rates
        best = minimize(
            objective,
            begin,
            jac=True,
            method="L-BFGS-B",
            bounds=limits,
            options={"maxiter": steps, "maxcor": 20},
        ).x
        return _Found(best @ directions, -self._expanded(best @ directions)[0])

    def _parts(self, point: Vector) -> tuple[Vector, Vector, Vector, Vector]:
        """Return, per row: the chance of the second label, both rates, and of its being given."""
        right = expit(self.design @ point[: self.n_columns + 2])
        along = self.design[:, :-2] @ point[self.n_columns + 2 : -2]
        first, second = (MOST_RATE * expit(along + own) for own in point[-2:])
        return right, first, second, first + (1.0 - first - second) * right

    def _slopes(self, point: Vector) -> tuple[Vector, tuple[Vector, Vector, Vector]]:
        """Return the chance that the second label is given, and how it moves with three scores."""
        right, first, second, seen = self._parts(point)
        along_right = (1.0 - first - second) * right * (1.0 - right)
        along_first = (1.0 - right) * first * (1.0 - first / MOST_RATE)
        along_second = -right * second * (1.0 - second / MOST_RATE)
        return np.clip(seen, LEAST, 1.0 - LEAST), (along_right, along_first, along_second)

    def _expanded(self, point: Vector) -> tuple[float, Vector]:
        """Return minus the log likelihood and its gradient."""
        seen, (right, first, second) = self._slopes(point)
        value = -float(self.weight @ np.log(np.where(self.own, seen, 1.0 - seen)))
        pull = -self.weight * np.where(self.own, 1.0 / seen, -1.0 / (1.0 - seen))
        rates = self.design[:, :-2].T @ (pull * (first + second))
        ends = [float(pull @ first), float(pull @ second)]
        return value, np.concatenate([self.design.T @ (pull * right), rates, ends])

    def _information(self, point: Vector) -> Matrix:
        """Return the expected second derivative."""
        seen, (right, first, second) = self._slopes(point)
        moved = np.column_stack(
            [
                self.design * right[:, None],
                self.design[:, :-2] * (first + second)[:, None],
                first,
                second,
            ]
        )
        scale = self.weight / (seen * (1.0 - seen))
        return moved.T @ (moved * scale[:, None]) + np.diag(2.0 * self._hold + LEAST)

    def promised(self, point: Vector) -> float:
        """Return by how much slopes of the rates raise the likelihood, to second order."""
        gradient = self._expanded(point)[1] + 2.0 * self._hold * point
        information = self._information(point)
        free = np.ones(point.size, dtype=bool)
        free[self.n_columns + 2 : -2] = False
        few = information[np.ix_(free, free)]
        both = gradient @ np.linalg.lstsq(information, gradient, rcond=None)[0]
        return 0.5 * float(
            both - gradient[free] @ np.linalg.lstsq(few, gradient[free], rcond=None)[0]
        )

    def noise(self, point: Vector) -> LabelNoise:
        """Return the noise in the mean over the rows."""
        right, first, second, _ = self._parts(point)
        shares = np.stack([self.weight * (1.0 - right), self.weight * right])
        shares /= shares.sum(axis=1, keepdims=True)
        rates = np.array([shares[0] @ first, shares[1] @ second])
        covariance = np.linalg.pinv(self._information(point))
        variance = np.zeros(2)
        for k, rate in enumerate((first, second)):
            bend = shares[k] * rate * (1.0 - rate / MOST_RATE)
            slope = np.zeros(point.size)
            slope[self.n_columns + 2 : -2] = bend @ self.design[:, :-2]
            slope[k - 2] = bend.sum()
            variance[k] = max(float(slope @ covariance @ slope), 1.0 / self.weight.sum() ** 2)
        matrix = np.array([[1.0 - rates[0], rates[0]], [rates[1], 1.0 - rates[1]]])
        unsure = (np.sqrt(variance) > UNSURE) | (rates > NEARLY_HALF)
        return LabelNoise(matrix, variance, (0, 1), tuple(np.flatnonzero(unsure).tolist()))


def _logit(rate: float) -> float:
    return float(logit(rate / MOST_RATE))
