"""What a fitted classifier thinks of single labels, as numbers; words are in `easyfirst.report`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Matrix, Vector

UNNOTICED = 0.01  # share of labels that may be wrong and leave no trace


@dataclass(frozen=True, eq=False, repr=False)
class JudgedLabels:
    """Labels beside what the model thinks of them; all arrays have one entry per row.

    `quality` is the probability that the given label is right, `suggested` the most probable label.
    """

    given: NDArray[np.intp]
    suggested: NDArray[np.intp]
    quality: Vector

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of several parts as one."""
        names = ("given", "suggested", "quality")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def some(self, rows: NDArray[np.intp]) -> Self:
        """Return some of the rows."""
        return replace(
            self,
            given=self.given[rows],
            suggested=self.suggested[rows],
            quality=self.quality[rows],
        )

    def __repr__(self) -> str:
        wrong = np.count_nonzero(self.is_wrong)
        return f"JudgedLabels({self.given.size:,} rows, of which {wrong:,} look wrong)"

    @property
    def is_wrong(self) -> NDArray[np.bool_]:
        """Which labels look wrong: more likely wrong than right."""
        return np.asarray(self.quality < 0.5)

    def worst(self, top: int | None = None) -> NDArray[np.intp]:
        """Return `top` rows, the worst first; None is all rows that look wrong."""
        order = np.argsort(self.quality, kind="stable")
        return order[: np.count_nonzero(self.is_wrong) if top is None else top]


def judge_new_labels(
    probabilities: Matrix, noise: Matrix | None, given: Vector, errors: Matrix | None = None
) -> JudgedLabels:
    """Judge labels by a model's class probabilities and the noise of the labels it learned from.

    Without an estimate of the noise, a label is as good as it is probable. `errors` of two classes
    are how often rows like each one are given the other label: they count instead of the noise.
    """
    codes = given.astype(np.intp)
    if noise is not None and np.array_equal(noise, np.eye(len(noise))):
        chance = probabilities[np.arange(codes.size), codes]
        return JudgedLabels(codes, codes, quality_without_evidence(chance, len(noise)))
    if errors is not None:
        as_given = codes[:, None] == np.arange(2)
        joint = probabilities * np.where(as_given, 1.0 - errors, errors)
    else:
        joint = probabilities if noise is None else probabilities * noise.T[codes]
    share = joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
    return JudgedLabels(codes, np.argmax(share, axis=1), share[np.arange(codes.size), codes])


def quality_without_evidence(chance: Vector, n_classes: int) -> Vector:
    """Return how sure labels are where nothing says that any is wrong: an order, and no verdict.

    A few may be wrong and leave no trace: the smaller the `chance` of a label, the sooner.
    """
    right = (1.0 - UNNOTICED) * chance
    wrong = UNNOTICED / (n_classes - 1) * (1.0 - chance)
    return np.asarray(np.maximum(right / np.maximum(right + wrong, 1e-300), 0.5))
