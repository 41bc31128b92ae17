"""A sample of the rows on the driver, where fits are cheap enough to be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from easyfirst.consensus.elemental import MOST_ROWS
from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.gram import solve_normal
from easyfirst.consensus.rounds import OnRound, RoundSettings, RoundsResult, Start, run
from easyfirst.consensus.statistics import Objective
from easyfirst.contracts import Batch, Matrix, Resident, Vector
from easyfirst.local import passes
from easyfirst.local.strata import FarRule
from easyfirst.workers import ResidentWorkers

MOST_ROUNDS = 60  # of a fit that only has to be compared with others
CANONICAL_ROWS = 2000  # small samples are put into an order that does not depend on the input's
SCREENED_FEATURES = 2000  # beyond, distances in X cost more than the fit


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows on the driver, and the fleet of one batch that fits them."""

    rows: Batch
    fleet: Fleet
    objective: Objective
    settings: RoundSettings

    @classmethod
    def draw(
        cls, fleet: Fleet, objective: Objective, settings: RoundSettings, size: int, seed: int
    ) -> Sample:
        """Draw about `size` rows across all batches."""
        rows = _joined(fleet.sample(size, seed))
        if rows.n_samples <= CANONICAL_ROWS and rows.n_features <= SCREENED_FEATURES:
            rows = _canonical(rows)
        return cls._on(rows, fleet, objective, settings)

    @classmethod
    def _on(
        cls,
        rows: Batch,
        fleet: Fleet,
        objective: Objective,
        settings: RoundSettings,
    ) -> Sample:
        workers = ResidentWorkers([Resident(rows, spread=fleet.spread)])
        s = rows.sample_weight
        here = replace(
            fleet,
            workers=workers,
            n_rows=(rows.n_samples,),
            total_weight=float(rows.n_samples if s is None else s.sum()),
            column_variance=_column_variance(rows.X),
        )
        # The start is found by exact solves, whatever solver the fit itself uses.
        settings = replace(
            settings,
            solver="gram",
            weights_from="consensus",
            update_weights="round",
            rows="sample",
            max_rounds=min(settings.max_rounds, MOST_ROUNDS),
            studentize=studentizes(here.total_weight, fleet.n_coef),
        )
        return cls(rows, here, objective, settings)

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return self.rows.n_samples

    def fit(self, on_round: OnRound, start: Start | None = None) -> RoundsResult:
        """Run the rounds on these rows."""
        return run(self.fleet, self.objective, self.settings, on_round, start)

    def only(self, kept: Vector) -> Sample:
        """Return the sample with only the rows where `kept` is nonzero."""
        return self._on(self.part(np.flatnonzero(kept)), self.fleet, self.objective, self.settings)

    def part(self, rows: NDArray[np.intp]) -> Batch:
        """Return some of the rows."""
        weight = self.rows.sample_weight
        return Batch(
            X=self.rows.X[rows],
            y=self.rows.y[rows],
            sample_weight=None if weight is None else weight[rows],
        )

    def with_far_rule(self, rule: FarRule) -> Sample:
        """Return the same rows with far ones in strata of their own."""
        problem = replace(self.fleet.problem, far_rule=rule)
        return replace(self, fleet=replace(self.fleet, problem=problem))

    def weights(self, fit: RoundsResult) -> Vector:
        """Return the weight of every row in a fit."""
        return self.fleet.weights(fit.weightings)[0]

    def step_without(self, rows: NDArray[np.intp], fit: RoundsResult) -> tuple[Vector, Matrix]:
        """Return how the coefficients move, weights kept, when some rows are left out.

        And the Gram matrix of the others.
        """
        frame = self.fleet.problem.frame
        s = self.rows.sample_weight
        weight = self.weights(fit) if s is None else self.weights(fit) * s
        weight = weight.copy()
        weight[rows] = 0.0
        residual = self.rows.y - passes.predict(self.rows, frame, fit.solution.z)
        pull = passes.normal_residual(self.rows, frame, weight, residual)
        # Summed anew: as a difference, nothing would be left of it where rows are far out.
        gram = self.gram(self.rows, weight)
        return solve_normal(gram, pull)[0], gram

    def gram_of_every_row(self) -> Matrix:
        """Return the Gram matrix of the rows, each with its sample weight."""
        s = self.rows.sample_weight
        return self.gram(self.rows, np.ones(self.n_samples) if s is None else s)

    def gram(self, rows: Batch, weights: Vector) -> Matrix:
        """Return the weighted Gram matrix of these or other rows."""
        return passes.gram(rows, self.fleet.problem.frame, weights, self.fleet.spread)[0]

    def design(self, rows: slice | NDArray[np.intp] = slice(None)) -> tuple[Matrix, Vector]:
        """Return the dense design of some rows, intercept column included, and their y."""
        frame = self.fleet.problem.frame
        X = dense_rows(self.rows.X[rows])
        if frame.shift is not None:
            X = X - frame.shift
        ones = [np.ones((len(X), 1))] if frame.fit_intercept else []
        return np.hstack([X, *ones]), self.rows.y[rows]

    def dense(self) -> Matrix:
        """Return X as a dense array."""
        return dense_rows(self.rows.X)


def studentizes(total_weight: float, n_coef: int) -> bool:
    """Return whether rows are so few that each one's own pull on the fit matters."""
    return total_weight <= max(MOST_ROWS, 20 * n_coef)


def _joined(batches: Sequence[Batch]) -> Batch:
    """Return the rows of all batches as one."""
    if len(batches) == 1:
        return batches[0]
    xs = [batch.X for batch in batches]
    weights = [batch.sample_weight for batch in batches if batch.sample_weight is not None]
    return Batch(
        X=sp.vstack(xs, format="csr") if sp.issparse(xs[0]) else np.concatenate(xs),
        y=np.concatenate([batch.y for batch in batches]),
        sample_weight=np.concatenate(weights) if weights else None,
    )


def _canonical(rows: Batch) -> Batch:
    """Return the rows in an order of their own, whole weights as repeated rows.

    What is drawn at random then depends on what the rows say, not on how they were given.
    """
    X, y, weight = dense_rows(rows.X), rows.y, rows.sample_weight
    if weight is not None and np.all(weight == np.rint(weight)) and weight.sum() <= 10 * len(y):
        times = weight.astype(np.intp)
        X, y, weight = np.repeat(X, times, axis=0), np.repeat(y, times), None
    order = np.lexsort((*X.T, y))
    return Batch(X[order], y[order], None if weight is None else weight[order])


def _column_variance(X: Any) -> Vector:
    """Return the variance of each column."""
    n = max(X.shape[0], 1)
    if sp.issparse(X):
        square = np.asarray(X.multiply(X).sum(axis=0)).ravel() / n
        return np.asarray(square - np.square(np.asarray(X.sum(axis=0)).ravel() / n))
    return np.asarray(np.var(X, axis=0, dtype=np.float64))


def dense_rows(X: Any) -> Matrix:
    """Return rows as a dense array."""
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
