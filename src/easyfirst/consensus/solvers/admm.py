"""Consensus ADMM: the paper's inner loop.

Minimise sum_i f_i(w_i) + penalty(z) subject to w_i = z, where f_i is the weighted loss of batch i.
One iteration, in the order that the paper's proof needs:

    z      <- prox of the penalty at mean(w_i + dual_i / rho), step 1 / (rho m)
    w_i    <- argmin of f_i(w) + dual_i'w + rho/2 ||w - z||**2
    dual_i <- dual_i + rho (w_i - z)

The w_i are found where the rows are (`on_workers.py`: an iteration is one message to each batch and
one back) or, for the squared loss, here: the statistics of a batch then say everything about it,
and an iteration is a few products with stacked q x q matrices. `rho` is a `RhoMatrix`: the paper's
scalar, one number per coefficient, or the batches' mean Gram matrix, by which convergence depends
neither on the units of the columns nor on how they are correlated.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import scipy.linalg as la

from easyfirst.consensus.history import IterationRecord
from easyfirst.consensus.solution import Solution
from easyfirst.consensus.solvers.gram import is_well_conditioned
from easyfirst.consensus.solvers.rho import RhoMatrix
from easyfirst.consensus.statistics import Objective, StackedStatistics
from easyfirst.contracts import Matrix, Vector

Rho = Literal["auto", "adaptive"] | float
Place = Literal["auto", "driver", "workers"]  # where the batches' subproblems are solved

# rho = this share of the mean curvature 2 G_i of the batches, and how far to step past plain ADMM.
# On the paper's data and on batches that are uneven, few or bad, both are near the best
# (benchmarks/consensus.py): batches that resemble each other agree on a digit every 1.6 iterations.
AUTO_SHARE = 1.0
OVER_RELAXATION = 1.6
# Added to the mean curvature, relative to its diagonal: inverses keep their digits.
RIDGE = 1e-8
# Reciprocal condition number of the mean curvature below which rho follows its diagonal only: a
# direction that the rows hardly determine would be left to rounding errors.
DETERMINED = 1e-10
IMBALANCE = 10.0  # the paper's factor between the residuals that moves an adaptive rho


@dataclass(frozen=True)
class AdmmSettings:
    """How to iterate; `max_iter` bounds one inner solve.

    Without `follows_correlation`, rho is one number per coefficient.
    """

    rho: Rho = "auto"
    over_relaxation: float = OVER_RELAXATION
    follows_correlation: bool = True
    max_iter: int = 1000
    tol: float = 1e-8
    place: Place = "auto"


@dataclass(frozen=True, eq=False)
class State:
    """The variables of the iteration, and the rho they were reached with.

    `images` are rho times the coefficients of each batch, which every iteration needs twice.
    """

    z: Vector
    coefs: Matrix
    duals: Matrix
    rho: RhoMatrix
    images: Matrix

    @classmethod
    def at(cls, z: Vector, coefs: Matrix, duals: Matrix, rho: RhoMatrix) -> State:
        """Return the state at these variables."""
        return cls(z, coefs, duals, rho, rho.times(coefs))


class Batches(Protocol):
    """The batches of a round, wherever their part of an iteration is computed."""

    def rho(self) -> RhoMatrix:
        """Return the strength of the pull towards consensus."""
        ...

    def respond(self, state: State, target: Matrix) -> Matrix:
        """Return argmin over w_i of f_i(w_i) + dual_i'w_i + 1/2 w_i'rho w_i - target_i'w_i."""
        ...

    def losses(self, state: State) -> float:
        """Return the sum of the losses at every batch's own coefficients."""
        ...

    def have_agreed(self, previous: State, state: State) -> bool:
        """Return whether z is optimal and every w_i predicts like z, both relative to y."""
        ...


def solve(
    batches: Batches,
    stats: StackedStatistics,
    objective: Objective,
    settings: AdmmSettings,
    start: Solution | None,
    round_number: int,
) -> Solution:
    """Iterate until the batches agree on an optimum, or `max_iter` is reached."""
    state = initial_state(stats, batches.rho(), start)
    pooled = pooled_inverse(stats, objective, state.rho)
    records: list[IterationRecord] = []
    agreed = False
    for iteration in range(1, settings.max_iter + 1):
        began = time.perf_counter()
        previous, state = state, iterate(state, batches, pooled, objective, settings)
        record = measure(batches, stats, objective, previous, state, began, round_number, iteration)
        records.append(record)
        agreed = batches.have_agreed(previous, state)
        if agreed:
            break
        # Moving rho for ever could keep the iteration from settling.
        if settings.rho == "adaptive" and iteration <= settings.max_iter // 2:
            factor = rebalance(previous, state)
            if factor != 1.0:
                state = State.at(state.z, state.coefs, state.duals, state.rho.scaled(factor))
                pooled = pooled_inverse(stats, objective, state.rho)
    last = records[-1]
    return Solution(
        z=state.z,
        coefs=state.coefs,
        duals=state.duals,
        primal_residual=last.primal_residual,
        dual_residual=last.dual_residual,
        rho=last.rho,
        lagrangian=last.lagrangian,
        agreed=agreed,
        iterations=tuple(records),
    )


def initial_state(stats: StackedStatistics, rho: RhoMatrix, start: Solution | None) -> State:
    """Start from zeros, or warm from the round before: its duals do not depend on rho."""
    if start is None:
        nothing = np.zeros((stats.n_batches, stats.n_coef))
        return State.at(np.zeros(stats.n_coef), nothing, nothing, rho)
    # As arrays of their own: means over batches then add up in one fixed order.
    coefs, duals = np.ascontiguousarray(start.coefs), np.ascontiguousarray(start.duals)
    return State.at(start.z, coefs, duals, rho)


def pooled_inverse(stats: StackedStatistics, objective: Objective, rho: RhoMatrix) -> Matrix | None:
    """Return the inverse for the step of z, where rho is a matrix."""
    penalty = objective.penalty_diagonal(stats.n_coef)
    if penalty is None or rho.is_diagonal:
        return None
    return _inverse(rho.plus(np.diag(2.0 * penalty / stats.n_batches)))


@dataclass(eq=False)
class OnDriver:
    """The batches as Gram matrices of the squared loss: no row is touched.

    The q x q system of every batch is inverted when rho changes, and used many times.
    """

    stats: StackedStatistics
    objective: Objective
    settings: AdmmSettings
    inverted_for: RhoMatrix | None = None
    inverse: Vector = field(default_factory=lambda: np.zeros(0))  # (m, q, q)

    def rho(self) -> RhoMatrix:
        """Return the batches' mean curvature, or the number given."""
        return choose_rho(self.stats, self.objective, self.settings)

    def respond(self, state: State, target: Matrix) -> Matrix:
        """Solve (2 G_i + rho) w_i = 2 b_i - dual_i + target_i."""
        if state.rho is not self.inverted_for:
            self.inverse = np.empty_like(self.stats.gram)
            for i, gram in enumerate(self.stats.gram):
                self.inverse[i] = _inverse(state.rho.plus(2.0 * gram))
            self.inverted_for = state.rho
        pull = 2.0 * self.stats.rhs - state.duals + target
        return np.asarray(np.matmul(self.inverse, pull[:, :, None])[:, :, 0])

    def losses(self, state: State) -> float:
        """Return the losses, which the duals tell: 2 G_i w_i = 2 b_i - dual_i."""
        stats = self.stats
        return stats.pooled_square - float(np.sum(state.coefs * (stats.rhs + 0.5 * state.duals)))

    def have_agreed(self, previous: State, state: State) -> bool:
        """Compare the predictions for all rows.

        Neither criterion depends on the units of the columns, or on directions in which
        coefficients hardly matter.
        """
        del previous
        stats, tol = self.stats, self.settings.tol
        gap = state.coefs - state.z
        disagreement = float(np.sum(gap * (gap @ stats.pooled_gram))) / stats.n_batches
        if disagreement > np.square(tol) * max(stats.pooled_square, 0.0):
            return False
        return self.objective.kkt_residual(stats, state.z) <= tol


def has_closed_form(objective: Objective, settings: AdmmSettings) -> bool:
    """Return whether the point of consensus is one solve away, and nobody asked for the way.

    For the squared loss, that is.
    """
    as_usual = settings.rho == "auto" and settings.over_relaxation == OVER_RELAXATION
    return as_usual and objective.penalty.quadratic_strength is not None


def at_the_end(
    solution: Solution,
    stats: StackedStatistics,
    objective: Objective,
    round_number: int,
    began: float,
) -> Solution:
    """Return a solution that was found at once, as the iteration that ends there."""
    penalty = objective.penalty_diagonal(stats.n_coef)
    assert penalty is not None
    curvature = 2.0 * AUTO_SHARE / stats.n_batches * (stats.pooled_gram.diagonal() + penalty)
    record = IterationRecord(
        round=round_number,
        iteration=1,
        primal_residual=solution.primal_residual,
        dual_residual=solution.dual_residual,
        rho=RhoMatrix(_positive(curvature)).typical,
        lagrangian=solution.lagrangian,
        seconds=time.perf_counter() - began,
    )
    return solution.with_iteration(record)


def choose_rho(stats: StackedStatistics, objective: Objective, settings: AdmmSettings) -> RhoMatrix:
    """Return the batches' mean curvature, or the number given.

    The step of z is a linear system for quadratic penalties only; others have a proximal map for
    one number per coefficient.
    """
    if not isinstance(settings.rho, str):
        return RhoMatrix(np.full(stats.n_coef, settings.rho))
    share, penalty = 2.0 * AUTO_SHARE / stats.n_batches, objective.penalty_diagonal(stats.n_coef)
    if settings.follows_correlation and penalty is not None:
        matrix = share * (stats.pooled_gram + np.diag(penalty))
        if is_well_conditioned(matrix, DETERMINED):
            np.fill_diagonal(matrix, (1.0 + RIDGE) * np.diagonal(matrix))
            return RhoMatrix(matrix)
    curvature = share * np.diagonal(stats.pooled_gram)
    return RhoMatrix(_positive(curvature))


def _positive(curvature: Vector) -> Vector:
    is_positive = curvature > 0
    if is_positive.all():
        return curvature
    return np.where(is_positive, curvature, curvature.max() * np.finfo(float).eps or 1.0)


def _inverse(matrix: Matrix) -> Matrix:
    """Return the inverse of a symmetric positive definite matrix.

    Cholesky does not mind columns of different size; directions that vanish are cut off.
    """
    factor, failed = la.lapack.dpotrf(matrix.T, lower=1, clean=1)
    if failed:
        return np.asarray(la.pinvh(matrix))
    triangle, _ = la.lapack.dpotri(factor, lower=1, overwrite_c=1)
    inverse = triangle + triangle.T
    np.fill_diagonal(inverse, np.diagonal(triangle))
    return np.asarray(inverse)


def iterate(
    state: State,
    batches: Batches,
    pooled: Matrix | None,
    objective: Objective,
    settings: AdmmSettings,
) -> State:
    """Do one iteration: z, then every w_i, then every dual."""
    m, rho = len(state.coefs), state.rho
    dual = np.mean(state.duals, axis=0)
    if pooled is not None:
        z = pooled @ (np.mean(state.images, axis=0) + dual)
    else:
        center = np.mean(state.coefs, axis=0) + dual / rho.diagonal
        z = objective.prox(center, 1.0 / (rho.diagonal * m))
    # Over-relaxation draws to a mixture of the consensus and each batch's last coefficients.
    a = settings.over_relaxation
    target = np.asarray(a * rho.times(z) + (1 - a) * state.images)
    coefs = batches.respond(state, target)
    images = rho.times(coefs)
    return State(z, coefs, state.duals + (images - target), rho, images)


def measure(
    batches: Batches,
    stats: StackedStatistics,
    objective: Objective,
    previous: State,
    state: State,
    began: float,
    round_number: int,
    iteration: int,
) -> IterationRecord:
    """Record the paper's residuals and the augmented Lagrangian."""
    m, rho = len(state.coefs), state.rho
    return IterationRecord(
        round=round_number,
        iteration=iteration,
        primal_residual=float(np.linalg.norm(state.coefs - state.z)),
        dual_residual=float(np.sqrt(m) * np.linalg.norm(rho.times(state.z - previous.z))),
        rho=rho.typical,
        lagrangian=batches.losses(state) + beside_losses(stats, objective, state),
        seconds=time.perf_counter() - began,
    )


def beside_losses(stats: StackedStatistics, objective: Objective, state: State) -> float:
    """Return self-paced term + penalty(z) + <dual, w - z> + 1/2 (w - z)'rho (w - z)."""
    gap = state.coefs - state.z
    pull = state.images - state.rho.times(state.z)
    return float(
        stats.pacing.sum()
        + objective.penalty.value(objective.slopes(state.z))
        + np.sum(gap * (state.duals + 0.5 * pull))
    )


def rebalance(previous: State, state: State) -> float:
    """Return the paper's factor on rho: double when r > 10 s, halve when 10 r < s.

    The paper compares its residuals as they are, but r is in units of the coefficients and s in
    units of the duals, so its rule pulls rho towards 1 whatever the data. Measuring both in the
    norm given by rho gives them the same unit.
    """
    r = state.rho.square(state.coefs - state.z)
    s = len(state.coefs) * state.rho.square(state.z - previous.z)
    if r > IMBALANCE**2 * s:
        return 2.0
    return 0.5 if IMBALANCE**2 * r < s else 1.0
