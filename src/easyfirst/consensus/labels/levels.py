"""Logistic curves between two levels, along a score: what flipped labels make of probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from easyfirst.contracts import Matrix, Vector

LEAST_LEVEL = 0.002  # no model is believed to be surer
PLACES = 400  # scores that are told apart
STEEPEST = 30.0  # slope along a score of variance one
STARTS = ((0.1, 0.9), (0.3, 0.7), (0.02, 0.7), (0.3, 0.98))
STARTS_ALIKE = (0.9, 0.7)
STARTS_BEYOND = ((0.6, 0.98), (0.8, 0.98))  # and the same for labels of the other class
START = (2.0, 0.0)  # slope and offset
CURVES = ((0.0, STEEPEST), (None, None))  # their limits


@dataclass(frozen=True, eq=False)
class Levels:
    """A logistic curve between two levels, along a score of mean zero and variance one."""

    low: float
    high: float
    slope: float
    offset: float
    log_likelihood: float

    def at(self, score: Vector) -> Vector:
        """Return the probability of the label at each score."""
        return np.asarray(
            self.low + (self.high - self.low) * expit(self.slope * score + self.offset)
        )


@dataclass(frozen=True, eq=False)
class Curve:
    """Labels along a score: rows of nearly the same score are counted together."""

    place: Vector
    rows: Vector
    hits: Vector

    @classmethod
    def of(cls, score: Vector, own: NDArray[np.bool_], weight: Vector) -> Curve:
        """Return how often rows have a label of their `own`, by their score."""
        order = np.argsort(score, kind="stable")
        total = np.cumsum(weight[order])
        place = np.minimum((PLACES * (total - 0.5 * weight[order]) / total[-1]), PLACES - 1)
        bins = place.astype(np.intp)
        rows = np.bincount(bins, weights=weight[order], minlength=PLACES).astype(np.float64)
        hits = np.bincount(bins, weights=weight[order] * own[order], minlength=PLACES).astype(float)
        sums = np.bincount(bins, weights=weight[order] * score[order], minlength=PLACES)
        used = rows > 0
        return cls(sums[used] / rows[used], rows[used], hits[used])

    def apart(self) -> Levels:
        """Return the curve by which the labels are most probable."""
        limits = [(LEAST_LEVEL, 0.5), (0.5, 1.0 - LEAST_LEVEL), *CURVES]
        starts = [[*start, *START] for start in STARTS]
        return self._best(starts, limits, np.zeros(4), np.eye(4))

    def alike(self) -> Levels:
        """Return the best curve if labels of both classes are wrong equally often."""
        starts = [[high, *START] for high in STARTS_ALIKE]
        both = np.vstack([[-1.0, 1.0, 0.0, 0.0], np.eye(4)[2:]])
        return self._best(
            starts, [(0.5, 1.0 - LEAST_LEVEL), *CURVES], np.array([1.0, 0.0, 0.0, 0.0]), both
        )

    def beyond_half(self) -> Levels:
        """Return the best curve if most labels of either class are wrong."""
        most = (0.5, 1.0 - LEAST_LEVEL)
        least = (LEAST_LEVEL, 0.5)
        starts = [[*start, *START] for start in STARTS_BEYOND]
        mirrored = [[1.0 - high, 1.0 - low, *START] for low, high in STARTS_BEYOND]
        return max(
            self._best(starts, [most, most, *CURVES], np.zeros(4), np.eye(4)),
            self._best(mirrored, [least, least, *CURVES], np.zeros(4), np.eye(4)),
            key=lambda levels: levels.log_likelihood,
        )

    def at_level(self, high: float) -> Levels:
        """Return the best curve with a known level, labels being wrong equally often."""
        levels = np.array([1.0 - high, high, 0.0, 0.0])
        return self._best([list(START)], list(CURVES), levels, np.eye(4)[2:])

    def _best(
        self,
        starts: list[list[float]],
        limits: list[tuple[float | None, float | None]],
        origin: Vector,
        directions: Matrix,
    ) -> Levels:
        """Return the best curve whose parameters are a point away from the origin."""

        def objective(point: Vector) -> tuple[float, Vector]:
            value, slope = self._expanded(origin + point @ directions)
            return value, directions @ slope

        fits = [
            minimize(objective, start, jac=True, method="L-BFGS-B", bounds=limits)
            for start in starts
        ]
        best = min(fits, key=lambda fit: float(fit.fun))
        low, high, slope, offset = (origin + best.x @ directions).tolist()
        return Levels(low, high, slope, offset, log_likelihood=-float(best.fun))

    def _expanded(self, point: Vector) -> tuple[float, Vector]:
        """Return minus the log likelihood at (low, high, slope, offset), and its gradient."""
        low, high, slope, offset = point.tolist()
        inner = expit(slope * self.place + offset)
        seen = np.clip(low + (high - low) * inner, 1e-9, 1.0 - 1e-9)
        others = self.rows - self.hits
        pull = others / (1.0 - seen) - self.hits / seen
        bend = pull * (high - low) * inner * (1.0 - inner)
        value = -float(self.hits @ np.log(seen) + others @ np.log(1.0 - seen))
        return value, np.array([pull @ (1.0 - inner), pull @ inner, bend @ self.place, bend.sum()])


def scaled(score: Vector) -> Vector:
    """Return a score with mean zero and variance one."""
    return np.asarray((score - score.mean()) / max(float(score.std()), 1e-300))
