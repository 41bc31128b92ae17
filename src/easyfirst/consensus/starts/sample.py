"""A sample of the rows on the driver, where fits are cheap enough to be compared."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from easyfirst.consensus.fleet import Fleet, joined_rows
from easyfirst.consensus.rounds.calibrated import Start, run
from easyfirst.consensus.rounds.common import OnRound, RoundSettings, RoundsResult
from easyfirst.consensus.solvers.gram import solve_normal
from easyfirst.consensus.starts.elemental import MOST_ROWS
from easyfirst.consensus.statistics import Objective
from easyfirst.contracts import Batch, Matrix, Resident, Vector
from easyfirst.local.design import column_variance, dense
from easyfirst.local.far_rows import FarRule
from easyfirst.local.steps import some_rows
from easyfirst.local.weighing import weigh
from easyfirst.workers import ResidentWorkers

MOST_ROUNDS = 60  # of a fit that only has to be compared with others
CANONICAL_ROWS = 2000  # small samples are put into an order that does not depend on the input's
FEW_PER_COEFFICIENT = 4  # rows, of however many
TRUST_MARGIN = 0.25  # more of the trusted rows by which one fit beats another, and one row besides
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
        rows = joined_rows(fleet.sample(size, seed))
        if rows.n_samples <= CANONICAL_ROWS and rows.n_features <= SCREENED_FEATURES:
            rows = _canonical(rows)
        fleet = replace(fleet, column_variance=column_variance(rows.X))
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

    def only(self, kept: Vector | NDArray[np.bool_]) -> Sample:
        """Return the sample with only the rows where `kept` is nonzero."""
        # Columns keep their variance: one that is constant among few rows is not without a scale.
        return self._on(self.part(np.flatnonzero(kept)), self.fleet, self.objective, self.settings)

    def part(self, rows: NDArray[np.intp]) -> Batch:
        """Return some of the rows."""
        return some_rows(self.rows, rows)

    def with_far_rule(self, rule: FarRule) -> Sample:
        """Return the same rows with far ones in bands of their own."""
        problem = replace(self.fleet.problem, far_rule=rule)
        return replace(self, fleet=replace(self.fleet, problem=problem))

    def weights(self, fit: RoundsResult) -> Vector:
        """Return the weight of every row in a fit."""
        return self.fleet.weights(fit.weightings)[0]

    @property
    def counts(self) -> Vector:
        """How much each row counts: its sample weight, or one."""
        s = self.rows.sample_weight
        return np.ones(self.n_samples) if s is None else s

    @property
    def trusted(self) -> NDArray[np.intp]:
        """The rows that are known to be right."""
        known = self.rows.trusted
        return np.zeros(0, dtype=np.intp) if known is None else np.flatnonzero(known)

    def untrusting_weights(self, fit: RoundsResult) -> Vector:
        """Return the weight of every row in a fit, trusted ones as if they were not."""
        everyone = Resident(replace(self.rows, trusted=None))
        return weigh(everyone, fit.weightings[0], self.fleet.problem)

    def trusted_share(self, fit: RoundsResult) -> float:
        """Return how many of the trusted rows a fit would call clean if they were not trusted."""
        return float(np.mean(self.untrusting_weights(fit)[self.trusted] >= 0.5))

    def is_more_trusted(self, fit: RoundsResult, than: RoundsResult) -> bool:
        """Return whether a fit agrees with clearly more of the trusted rows than another."""
        n_trusted = self.trusted.size
        if n_trusted < 2:  # one alone may have been trusted by mistake
            return False
        margin = TRUST_MARGIN + 1.0 / n_trusted
        return self.trusted_share(fit) > self.trusted_share(than) + margin

    def step_without(self, rows: NDArray[np.intp], fit: RoundsResult) -> tuple[Vector, Matrix]:
        """Return how the coefficients move, weights kept, when some rows are left out.

        And the Gram matrix of the others.
        """
        weight = self.weights(fit) * self.counts
        weight[rows] = 0.0
        problem = self.fleet.problem
        residual = self.residual(self.rows, fit.solution.z)
        pull = problem.design(self.rows).transposed_times(weight * residual)
        # Summed again: as a difference, nothing would be left of it where rows are far out.
        gram = self.gram(self.rows, weight)
        return solve_normal(gram, pull, problem.coordinates.fit_intercept)[0], gram

    def gram_of_every_row(self) -> Matrix:
        """Return the Gram matrix of the rows, each with its sample weight."""
        return self.gram(self.rows, self.counts)

    def gram(self, rows: Batch, weights: Vector) -> Matrix:
        """Return the weighted Gram matrix of these or other rows."""
        return self.fleet.problem.design(rows).gram(weights, rows.y, self.fleet.spread)[0]

    def residual(self, rows: Batch, coef: Vector) -> Vector:
        """Return the residuals of these or other rows."""
        return np.asarray(rows.y - self.fleet.problem.design(rows).times(coef))

    def design(self, rows: slice | NDArray[np.intp] = slice(None)) -> tuple[Matrix, Vector]:
        """Return the dense design of some rows, intercept column included, and their y."""
        return self.fleet.problem.design(self.rows).dense(rows), self.rows.y[rows]

    def dense(self) -> Matrix:
        """Return X as a dense array."""
        return dense(self.rows.X)


def studentizes(total_weight: float, n_coef: int) -> bool:
    """Return whether rows are so few that each one's own pull on the fit matters.

    Of many rows it does not, even where each coefficient has only some: what it took of the noise
    is counted as a whole.
    """
    return total_weight <= max(MOST_ROWS, FEW_PER_COEFFICIENT * n_coef)


def _canonical(rows: Batch) -> Batch:
    """Return the rows in an order of their own, whole weights as repeated rows.

    What is drawn at random then depends on what the rows say, not on how they were given.
    """
    X, y, weight, trusted = dense(rows.X), rows.y, rows.sample_weight, rows.trusted
    if weight is not None and np.all(weight == np.rint(weight)) and weight.sum() <= 10 * len(y):
        times = weight.astype(np.intp)
        X, y, weight = np.repeat(X, times, axis=0), np.repeat(y, times), None
        trusted = None if trusted is None else np.repeat(trusted, times)
    order = np.lexsort((*X.T, y))
    return some_rows(Batch(X, y, weight, trusted=trusted), order)
