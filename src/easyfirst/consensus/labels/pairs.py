"""Evidence of flips among several classes: each pair of classes is asked on its own.

The chance of one class against all others has steps where nothing is flipped: rows of a class that
lies near, and of one that is far away. Between two classes it has none. So a pair is looked at in
those of its rows that models put into one of both classes. Which rows these are is told by models
of other rows, and so says nothing of their labels.

Either labels go to every other class alike, at one rate for all pairs, or each pair has to show
flips of its own, and those that do not have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.stats import chi2

from easyfirst.consensus.labels.evidence import (
    FAINT,
    Evidence,
    LinearLogits,
    evidence_of_levels,
    price_of,
)
from easyfirst.consensus.labels.levels import LEAST_LEVEL
from easyfirst.contracts import Matrix, Vector

MOST_SHARED = 0.45  # of the labels of every class: with more, most might be wrong
MOST_PAIRS = 100  # that are asked: those with most labels of one class among rows of the other
DIFFERENT = 0.01  # chance of levels this far from each other, if all pairs have one rate
LEAST_OF_A_LABEL = 10  # rows, below which a curve between two classes is a guess


@dataclass(frozen=True, eq=False)
class OneRate:
    """The rate of wrong labels if all classes share it, its variance, and what it is worth."""

    rate: float
    variance: float
    worth: float
    is_faint: bool = False  # worth little for each row

    @classmethod
    def of(cls, pairs: Sequence[Evidence], n_classes: int, weight: Vector) -> OneRate:
        """Return the rate by which labels of all pairs are most probable.

        Pairs that would have clearly different levels on their own have none in common.
        """
        if len(pairs) < 2:
            return cls(0.0, 0.0, -np.inf)

        def loss(rate: float) -> float:
            high = (1.0 - rate) / (1.0 - rate + rate / (n_classes - 1))
            return -sum(evidence.at_level(high) for evidence in pairs)

        limits = (LEAST_LEVEL, MOST_SHARED)
        rate = float(minimize_scalar(loss, bounds=limits, method="bounded").x)
        step = min(0.5 * rate, 0.02)
        bend = (loss(rate + step) + loss(rate - step) - 2.0 * loss(rate)) / step**2
        own = sum(evidence.alike + evidence.price for evidence in pairs)
        is_one = 2.0 * (own + loss(rate)) < chi2.isf(DIFFERENT, len(pairs) - 1)
        is_one = is_one and rate + step < MOST_SHARED  # else it should be even more
        worth = -loss(rate) - price_of(float(weight.sum())) if is_one else -np.inf
        total = float(weight.sum())
        return cls(rate, 1.0 / max(bend, total), worth, worth < FAINT * total)


@dataclass(frozen=True, eq=False)
class EvidenceOfPairs:
    """What pairs of classes say of flips, and all of them together if they share one rate."""

    n_classes: int
    pairs: dict[tuple[int, int], Evidence]
    shared: OneRate

    @property
    def only(self) -> Evidence | None:
        """What the only pair says, if there are two classes, and rows enough."""
        return self.pairs.get((0, 1)) if self.n_classes == 2 else None

    @property
    def is_enough(self) -> bool:
        """Whether labels look flipped rather than left to chance."""
        return self.goes_anywhere or bool(self._flipped)

    @property
    def goes_anywhere(self) -> bool:
        """Whether labels go to each of several other classes alike."""
        return self.shared.worth > max(self._of_their_own, 0.0)

    @property
    def has_equal_rates(self) -> bool:
        """Whether labels of all classes are wrong equally often."""
        if self.n_classes == 2:
            return all(evidence.has_equal_rates for evidence in self.pairs.values())
        return self.goes_anywhere

    def most(self) -> Matrix:
        """Return how often rows of each class may be given each other label, at the most."""
        found = np.zeros((self.n_classes, self.n_classes))
        for first, second in self._flipped:
            levels = self.pairs[first, second].levels
            found[first, second] = (1.0 - levels.high) / levels.high
            found[second, first] = levels.low / (1.0 - levels.low)
        return found

    @property
    def in_doubt(self) -> tuple[int, ...]:
        """The classes whose flips are faint: their labels may be left to chance."""
        faint = [pair for pair in self._flipped if self.pairs[pair].is_faint]
        if self.goes_anywhere:
            between = [pair for pair, each in self.pairs.items() if not each.is_gathered]
            faint = between if self.shared.is_faint else []
        return tuple(sorted({k for pair in faint for k in pair}))

    @property
    def _chances(self) -> float:
        """How many pairs there are, one of which shows flips by chance: a logarithm."""
        return float(np.log(max(len(self.pairs), 1)))

    @property
    def _flipped(self) -> list[tuple[int, int]]:
        """The pairs with flips: where one clearly has them, those that are likely to, as well."""
        beyond = [
            pair for pair, evidence in self.pairs.items() if evidence.is_beyond(self._chances)
        ]
        likely = [pair for pair, each in self.pairs.items() if each.is_likely or each.is_gathered]
        return sorted({*beyond, *likely}) if beyond else []

    @property
    def _of_their_own(self) -> float:
        gains = [max(each.alike, each.apart) - self._chances for each in self.pairs.values()]
        return float(np.maximum(gains, 0.0).sum())


def evidence_of_pairs(
    flexible: Matrix,
    codes: NDArray[np.intp],
    weight: Vector,
    linear: LinearLogits | None = None,
    X: Any = None,
) -> EvidenceOfPairs:
    """Return what says that labels were flipped; `flexible` are probabilities out of fold."""
    n_classes, best, found = flexible.shape[1], np.argmax(flexible, axis=1), {}
    for first, second in _pairs(best, codes, weight, n_classes):
        both = (codes == first) | (codes == second)
        rows = np.flatnonzero(both & ((best == first) | (best == second)) & (weight > 0))
        told = flexible[rows, first] + flexible[rows, second]
        found[first, second] = evidence_of_levels(
            flexible[rows, first] / told,
            codes[rows] == first,
            weight[rows],
            None if linear is None else linear.between(first, second, rows),
            None if X is None else X[rows],
        )
    return EvidenceOfPairs(n_classes, found, OneRate.of(list(found.values()), n_classes, weight))


def _pairs(
    best: NDArray[np.intp], codes: NDArray[np.intp], weight: Vector, n_classes: int
) -> list[tuple[int, int]]:
    """Return the pairs of classes with enough rows of both labels, the most mixed ones."""
    counts = np.zeros((n_classes, n_classes))
    np.add.at(counts, (best, codes), weight)
    mixed = {}
    for first, second in combinations(range(n_classes), 2):
        own = counts[np.ix_([first, second], [first, second])]
        if own.sum(axis=0).min() >= LEAST_OF_A_LABEL:
            mixed[first, second] = own[0, 1] + own[1, 0]
    return sorted(sorted(mixed, key=lambda pair: -mixed[pair])[:MOST_PAIRS])
