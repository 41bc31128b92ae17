"""Consensus iterations where the rows are: only vectors of coefficients travel.

An iteration sends each batch the center it is drawn to, its last coefficients and the anchor of its
factor, and gets its coefficients back: messages grow with m p, whatever the loss.

Subproblems are solved roughly at first and exactly in the end: to a tenth of what the last
iteration was short of consensus, and never below a tenth of the tolerance of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from easyfirst.consensus.fleet import Fleet, Weightings
from easyfirst.consensus.solvers.admm import AUTO_SHARE, AdmmSettings, State
from easyfirst.consensus.solvers.newton import strength
from easyfirst.consensus.solvers.rho import RhoMatrix
from easyfirst.consensus.statistics import Objective, StackedStatistics
from easyfirst.contracts import Matrix, Vector
from easyfirst.local.derivatives import Expansion
from easyfirst.local.subproblem import Pull, Response, Terms
from easyfirst.losses import Loss

ROUGHLY = 0.1


@dataclass(eq=False)
class OnWorkers:
    """The batches of a round on their workers.

    `stats` are those around the z of the last round, or around the last z that was looked at.
    """

    fleet: Fleet
    now: Weightings
    stats: StackedStatistics
    objective: Objective
    settings: AdmmSettings
    loss: Loss
    anchors: Matrix
    scale: float = field(init=False)  # of the losses: what residuals are compared with
    short: float = field(init=False)  # of consensus, in the last iteration
    value: float = np.nan
    looked_at: Vector | None = None  # the z around which `stats` are

    def __post_init__(self) -> None:
        """Take the scale of the round's losses from where it begins."""
        stats = self.stats
        assert stats.size is not None
        assert stats.squares is not None
        curvature = float(np.sum(stats.pooled_gram.diagonal())) / float(np.sum(stats.squares))
        self.scale = stats.size / curvature if curvature > 0 else stats.size
        self.short = float(np.sqrt(self.scale / stats.n_batches))

    def rho(self) -> RhoMatrix:
        """Return the batches' mean curvature along each coefficient, or the number given."""
        if not isinstance(self.settings.rho, str):
            return RhoMatrix(np.full(self.stats.n_coef, self.settings.rho))
        curvature = 2.0 * AUTO_SHARE / self.stats.n_batches * strength(self.stats)
        floor = np.max(curvature) * np.finfo(float).eps or 1.0
        return RhoMatrix(np.where(curvature > 0, curvature, floor))

    def respond(self, state: State, target: Matrix) -> Matrix:
        """Let every batch solve its subproblem."""
        rho = state.rho.diagonal
        centers = (target - state.duals) / rho
        pulls = list(map(Pull, self.now, centers, state.coefs, self.anchors))
        enough = self.settings.tol * np.sqrt(self.scale / self.stats.n_batches)
        terms = Terms(self.fleet.problem, self.loss, rho, ROUGHLY * max(self.short, enough))
        replies: list[Response] = self.fleet.respond(pulls, terms)
        self.anchors = np.array([reply.anchor for reply in replies])
        self.value = float(np.sum([reply.loss for reply in replies]))
        return np.array([reply.coef for reply in replies])

    def losses(self, state: State) -> float:
        """Return what the batches said."""
        del state
        return self.value

    def have_agreed(self, previous: State, state: State) -> bool:
        """Compare coefficients in the norm given by rho, and look at z only once they agree."""
        moved = len(state.coefs) * state.rho.square(state.z - previous.z)
        apart = state.rho.square(state.coefs - state.z)
        self.short = float(np.sqrt((moved + apart) / len(state.coefs)))
        tol = self.settings.tol
        if max(moved, apart) > 2.0 * np.square(tol) * self.scale:
            return False
        self.statistics_at(state.z)
        return self.objective.kkt_residual(self.stats, state.z) <= tol

    def statistics_at(self, z: Vector) -> StackedStatistics:
        """Return the statistics around `z`."""
        if self.looked_at is None or not np.array_equal(self.looked_at, z):
            known = self.stats
            there = self.fleet.expand(self.now, self.now, Expansion(z, self.loss, diagonal=True))
            self.stats, self.looked_at = there.with_tallies_of(known), z
        return self.stats
