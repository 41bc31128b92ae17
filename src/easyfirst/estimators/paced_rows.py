"""What `SelfPaced` works on: rows with what is known of them, and models of their folds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from easyfirst.consensus.history import RoundRecord
from easyfirst.consensus.status import Status
from easyfirst.contracts import Vector
from easyfirst.estimators.out_of_fold import Answer, equal_rows, folds, out_of_fold

NOT_KNOWN = float("nan")
MOSTLY_COPIES = 0.5  # share of different rows below which copies are no accident


@dataclass(frozen=True, eq=False)
class Rows:
    """What is fitted: rows, how much each counts, and what is known of them.

    `y` holds numbers, or labels as the user gave them.
    """

    X: Any
    y: NDArray[Any]
    weight: Vector
    batch: NDArray[np.intp]
    trusted: NDArray[np.bool_]

    def some(self, places: NDArray[np.intp]) -> Rows:
        """Return some of the rows."""
        return replace(
            self,
            X=_safe_indexing(self.X, places),
            y=self.y[places],
            weight=self.weight[places],
            batch=self.batch[places],
            trusted=self.trusted[places],
        )


@dataclass(eq=False)
class Fits:
    """How models of folds are fitted, how many were, and a record of every round."""

    seed: int
    n_jobs: int | None
    group: NDArray[np.intp]
    n_folds: int
    answer: Answer
    codes: NDArray[np.intp] | None = None
    count: int = 0
    records: list[RoundRecord] = field(default_factory=list)

    def ask(
        self,
        estimator: Any,
        rows: Rows,
        weight: Vector,
        repeat: int = 0,
        answer: Answer | None = None,
    ) -> NDArray[Any]:
        """Return what a model that has not seen it says of every row: by default `self.answer`."""
        fold = folds(self.group, self.n_folds, self.seed + repeat, self.codes)
        self.count += int(np.unique(fold).size)
        answer = answer or self.answer
        return out_of_fold(estimator, rows.X, rows.y, weight, fold, self.n_jobs, answer)

    @contextmanager
    def of_some(self, places: NDArray[np.intp]) -> Iterator[Fits]:
        """Give models of some of the rows, whose number and records are added to these."""
        group = np.unique(self.group[places], return_inverse=True)[1]
        codes = None if self.codes is None else self.codes[places]
        some = replace(self, group=group, codes=codes, n_folds=min(self.n_folds, group.max() + 1))
        yield some
        self.count = some.count

    def note(self, weight: Vector, changed: float, pace: float, seconds: float) -> None:
        """Write down a round."""
        self.records.append(
            RoundRecord(
                round=len(self.records),
                rows="all",
                pace=pace,
                selected=float(np.sum(weight >= 0.5)),
                changed=changed,
                objective=NOT_KNOWN,
                lagrangian=NOT_KNOWN,
                primal_residual=NOT_KNOWN,
                dual_residual=NOT_KNOWN,
                rho=NOT_KNOWN,
                kkt_residual=NOT_KNOWN,
                iterations=0,
                seconds=seconds,
            )
        )

    def status(self, changed: float, tol: float) -> Status:
        """Say how the rounds ended."""
        rounds = len(self.records)
        if changed <= tol:
            return Status("converged", f"The weights stopped changing after {rounds} rounds.", True)
        return Status(
            "max_rounds",
            f"Stopped after {rounds} rounds while the weights still changed by "
            f"{100 * changed:.2g} % on average.",
            converged=True,
        )


def groups_of(X: Any, y: NDArray[Any]) -> NDArray[np.intp]:
    """Return a number per row that copies share; none do where most rows are copies.

    A few columns of categories make copies of rows that have nothing to do with each other.
    """
    group = equal_rows(X, y)
    n_groups = int(group.max()) + 1
    return group if n_groups > MOSTLY_COPIES * group.size else np.arange(group.size)
