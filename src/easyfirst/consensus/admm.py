"""Consensus ADMM on stacked batch statistics: the paper's inner loop.

Minimise sum_i f_i(w_i) + penalty(z) subject to w_i = z, where f_i is the weighted squared loss
of batch i. One iteration, in the order that the paper's proof needs:

    z      <- prox of the penalty at mean(w_i + dual_i / rho), step 1 / (rho m)
    w_i    <- (2 G_i + rho)^-1 (2 b_i - dual_i + rho z)
    dual_i <- dual_i + rho (w_i - z)

No row is touched: the statistics of a batch say everything about it, so an iteration is a few
products with stacked q x q matrices. `rho` is one number per coefficient; the paper's scalar is
the case where they are equal, and following the columns' own scale makes convergence
independent of their units.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from easyfirst.consensus.gram import solve_normal
from easyfirst.consensus.history import IterationRecord
from easyfirst.consensus.solution import Solution
from easyfirst.consensus.statistics import Objective, StackedStatistics
from easyfirst.contracts import Matrix, Vector

Rho = Literal["auto", "adaptive"] | float

# rho = this share of the mean curvature 2 diag(G_i) of the batches. On the paper's data the number
# of iterations is flat between 1 and 2 and grows as 1 / share below (benchmarks/consensus.py).
AUTO_SHARE = 1.0
IMBALANCE = 10.0  # the paper's factor between the residuals that moves an adaptive rho


@dataclass(frozen=True)
class AdmmSettings:
    """How to iterate; `max_iter` bounds one inner solve."""

    rho: Rho = "auto"
    over_relaxation: float = 1.0
    max_iter: int = 1000
    tol: float = 1e-8


@dataclass(frozen=True, eq=False)
class State:
    """The variables of the iteration, and the rho they were reached with."""

    z: Vector
    coefs: Matrix
    duals: Matrix
    rho: Vector


@dataclass(frozen=True, eq=False)
class Prepared:
    """Everything that does not depend on z: factored once per round, used many times."""

    inverse: Vector  # (m, q, q)
    twice_rhs: Matrix


def solve(
    stats: StackedStatistics,
    objective: Objective,
    settings: AdmmSettings,
    start: Solution | None,
    round_number: int,
) -> Solution:
    """Iterate until the batches agree on an optimum, or `max_iter` is reached."""
    state = initial_state(stats, settings, start)
    prepared = prepare(stats, state.rho)
    records: list[IterationRecord] = []
    agreed = False
    for iteration in range(1, settings.max_iter + 1):
        began = time.perf_counter()
        previous, state = state, iterate(state, prepared, objective, settings)
        record = measure(stats, objective, previous, state, began, round_number, iteration)
        records.append(record)
        agreed = has_agreed(stats, objective, state, settings.tol)
        if agreed:
            break
        # Moving rho for ever could keep the iteration from settling.
        if settings.rho == "adaptive" and iteration <= settings.max_iter // 2:
            factor = rebalance(previous, state)
            if factor != 1.0:
                state = replace(state, rho=state.rho * factor)
                prepared = prepare(stats, state.rho)
    return to_solution(stats, objective, state, records, agreed)


def to_solution(
    stats: StackedStatistics,
    objective: Objective,
    state: State,
    records: list[IterationRecord],
    agreed: bool,
) -> Solution:
    """Return the state as the result of an inner solve."""
    last = records[-1]
    diagonal = objective.penalty_diagonal(state.z.size)
    penalised = stats.pooled_gram if diagonal is None else stats.pooled_gram + np.diag(diagonal)
    return Solution(
        z=state.z,
        coefs=state.coefs,
        duals=state.duals,
        rank=solve_normal(penalised, stats.pooled_rhs)[1],
        primal_residual=last.primal_residual,
        dual_residual=last.dual_residual,
        rho=last.rho,
        lagrangian=last.lagrangian,
        agreed=agreed,
        iterations=tuple(records),
    )


def initial_state(
    stats: StackedStatistics, settings: AdmmSettings, start: Solution | None
) -> State:
    """Start from zeros, or warm from the round before: its duals do not depend on rho."""
    rho = choose_rho(stats, settings.rho)
    if start is None:
        return State(np.zeros(rho.size), np.zeros_like(stats.rhs), np.zeros_like(stats.rhs), rho)
    return State(start.z, start.coefs, start.duals, rho)


def choose_rho(stats: StackedStatistics, rho: Rho) -> Vector:
    """Return one rho per coefficient."""
    size = stats.rhs.shape[1]
    if not isinstance(rho, str):
        return np.full(size, float(rho))
    curvature = 2.0 * np.mean(np.diagonal(stats.gram, axis1=1, axis2=2), axis=0)
    floor = np.max(curvature) * np.finfo(float).eps or 1.0
    return np.asarray(AUTO_SHARE * np.where(curvature > 0, curvature, floor))


def prepare(stats: StackedStatistics, rho: Vector) -> Prepared:
    """Invert the q x q system of every batch, in columns scaled to comparable size."""
    scale = 1.0 / np.sqrt(2.0 * np.mean(np.diagonal(stats.gram, axis1=1, axis2=2), axis=0) + rho)
    system = 2.0 * stats.gram * scale[:, None] * scale
    np.einsum("ijj->ij", system)[...] += rho * scale**2
    inverse = np.linalg.inv(system) * scale[:, None] * scale
    return Prepared(inverse=inverse, twice_rhs=2.0 * stats.rhs)


def iterate(
    state: State, prepared: Prepared, objective: Objective, settings: AdmmSettings
) -> State:
    """Do one iteration: z, then every w_i, then every dual."""
    m = len(state.coefs)
    points = state.coefs + state.duals / state.rho
    z = objective.prox(np.mean(points, axis=0), 1.0 / (state.rho * m))
    # Over-relaxation mixes the consensus with each batch's last coefficients.
    a = settings.over_relaxation
    target = np.broadcast_to(z, state.coefs.shape) if a == 1.0 else a * z + (1 - a) * state.coefs
    pull = prepared.twice_rhs - state.duals + state.rho * target
    coefs = np.matmul(prepared.inverse, pull[:, :, None])[:, :, 0]
    return State(z, coefs, state.duals + state.rho * (coefs - target), state.rho)


def measure(
    stats: StackedStatistics,
    objective: Objective,
    previous: State,
    state: State,
    began: float,
    round_number: int,
    iteration: int,
) -> IterationRecord:
    """Record the paper's residuals and the augmented Lagrangian."""
    m = len(state.coefs)
    return IterationRecord(
        round=round_number,
        iteration=iteration,
        primal_residual=float(np.linalg.norm(state.coefs - state.z)),
        dual_residual=float(np.sqrt(m) * np.linalg.norm(state.rho * (state.z - previous.z))),
        rho=float(np.exp(np.mean(np.log(state.rho)))),
        lagrangian=augmented_lagrangian(stats, objective, state),
        seconds=time.perf_counter() - began,
    )


def augmented_lagrangian(stats: StackedStatistics, objective: Objective, state: State) -> float:
    """Return losses + self-paced term + penalty(z) + <dual, w - z> + rho/2 ||w - z||**2."""
    gap = state.coefs - state.z
    return float(
        stats.losses(state.coefs)
        + stats.pacing.sum()
        + objective.penalty.value(objective.slopes(state.z))
        + np.sum(state.duals * gap)
        + 0.5 * np.sum(state.rho * np.square(gap))
    )


def has_agreed(stats: StackedStatistics, objective: Objective, state: State, tol: float) -> bool:
    """Return whether z is optimal and every w_i predicts like z, both relative to y.

    The disagreement is measured in predictions (columns times their norms), so that neither
    criterion depends on the units of the columns.
    """
    columns = np.diagonal(stats.gram, axis1=1, axis2=2)
    disagreement = np.sqrt(np.sum(columns * np.square(state.coefs - state.z)))
    if disagreement > tol * np.sqrt(max(stats.pooled_square, 0.0)):
        return False
    return objective.kkt_residual(stats, state.z) <= tol


def rebalance(previous: State, state: State) -> float:
    """Return the paper's factor on rho: double when r > 10 s, halve when 10 r < s.

    The paper compares its residuals as they are, but r is in units of the coefficients and s in
    units of the duals, so its rule pulls rho towards 1 whatever the data. Measuring both in the
    metric of rho gives them the same unit.
    """
    r = np.sum(state.rho * np.square(state.coefs - state.z))
    s = len(state.coefs) * np.sum(state.rho * np.square(state.z - previous.z))
    if r > IMBALANCE**2 * s:
        return 2.0
    return 0.5 if IMBALANCE**2 * r < s else 1.0
