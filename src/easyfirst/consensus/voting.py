"""What a part of the rows says of a fit: how many of them it suits, and how closely.

A tight cluster far out in X, or rows that share their y, agree with the fit that they have
captured, and make its noise look small. So fits are compared by the other rows alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from easyfirst.calibration import CleanMixture, fit_mixture, log_likelihood
from easyfirst.consensus.rounds import RoundsResult
from easyfirst.consensus.sample import Sample
from easyfirst.contracts import Vector
from easyfirst.summaries import LossSummary, histogram

Voters = NDArray[np.bool_] | None  # who has a vote; None: every row


@dataclass(frozen=True, eq=False)
class Vote:
    """The residuals of the voters around a fit, and their clean and corrupted part."""

    losses: LossSummary
    mixture: CleanMixture

    @classmethod
    def on(cls, sample: Sample, fit: RoundsResult, voters: Voters = None) -> Vote:
        """Take the vote on a calibrated fit; that of all rows is what its pace was read from."""
        if voters is None or not np.any(voters) or np.all(voters):
            return cls(fit.known_losses, fit.mixture)
        return cls.around(sample, fit.solution.z, fit.mixture.scale, voters)

    @classmethod
    def around(cls, sample: Sample, coef: Vector, scale: float, voters: Voters = None) -> Vote:
        """Take the vote on any coefficients, by the mixture near a scale."""
        schedule, anchor = sample.settings.calibrated, sample.fleet.problem.anchor
        residual, counts = sample.residual(sample.rows, coef), sample.counts
        if voters is not None:
            residual, counts = residual[voters], counts[voters]
        rows = histogram(residual, counts, anchor)[None, None]
        losses = LossSummary(rows, anchor, sample.fleet.n_coef)
        return cls(losses, fit_mixture(losses, scale, granted=schedule.granted))

    @property
    def is_of_majority(self) -> bool:
        """Whether at least half of the voters look clean."""
        return self.mixture.share >= 0.5

    @property
    def peak(self) -> float:
        """The logarithm of the clean share over the scale that the clean rows have themselves."""
        return float(np.log(max(self.mixture.share, 1e-300) / self.mixture.free_scale))

    @property
    def mean_log(self) -> float:
        """The mean log density of the residuals."""
        return log_likelihood(self.losses, self.mixture)

    @property
    def likelihood(self) -> float:
        """The log-likelihood of the residuals."""
        return self.losses.total * self.mean_log
