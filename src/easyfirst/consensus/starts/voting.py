"""What a part of the rows says of a fit: how many of them it suits, and how closely.

A tight cluster far out in X, or rows that share their y, agree with the fit that they have
captured, and make its noise look small. So fits are compared by the other rows alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from easyfirst.calibration import CleanMixture, fit_mixture, log_likelihood
from easyfirst.consensus.rounds.common import RoundsResult
from easyfirst.consensus.starts.sample import Sample
from easyfirst.contracts import Vector
from easyfirst.summaries import LossSummary, histogram

NEAR, GAP = 2.0, 1.5  # scales up to which rows are near a fit, and between them and others
ONE_SIDED = 0.2  # of the rows on one side that may lie on the other one
EMPTY = 0.2  # of the rows further out, in a gap: fewer than where a tail begins
GATHERED = (1.5, 2.0)  # times as many within a gap's width as in the gap, and rows besides
GROSS = (15.0, 1 / 3)  # scales that a tail hardly reaches, and the share of rows beyond

# Quantiles of the distance, .5 over .8: .625 where rows are spread evenly, .53 for half a normal.
LEVEL, FEWEST_OF_A_PLATEAU = 0.58, 100

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


def leaves_a_tail(sample: Sample, fit: RoundsResult) -> bool:
    """Return whether rows that a fit does not suit are the tail of skewed noise."""
    return is_a_tail(sample.residual(sample.rows, fit.solution.z) / fit.mixture.scale)


def is_a_tail(residual: Vector) -> bool:
    """Return whether rows that are off, in scales, lie on one side and get fewer with the distance.

    Skewed noise has its densest rows at one edge. A fit to these is likelier than one normal for
    all rows, and wrong; corrupted rows on one side gather at a distance, or are far off.
    """
    sides = [np.sort(side[side > NEAR]) for side in (residual, -residual)]
    fewer, more = sorted(sides, key=len)
    gross = len(more) - int(np.searchsorted(more, GROSS[0]))
    if len(fewer) > ONE_SIDED * len(more) or gross > GROSS[1] * len(more):
        return False
    between = int(np.searchsorted(more, NEAR + GAP))
    further = more[between:]
    if between < EMPTY * further.size:
        return False
    gathered = np.searchsorted(further, further + GAP, side="right") - np.arange(further.size)
    return bool(np.max(gathered, initial=0) < GATHERED[0] * between + GATHERED[1])


def one_sided_rest(sample: Sample, fit: RoundsResult) -> Literal["tail", "plateau", "none"]:
    """Return what the rows that a fit does not suit are like, if they lie on one side.

    The tail of skewed noise gets thinner with the distance, however steep its edge is; errors of
    any size up to some largest one do not.
    """
    residual = sample.residual(sample.rows, fit.solution.z) / fit.mixture.scale
    near = NEAR + GAP
    fewer, more = sorted((side[side > near] - near for side in (residual, -residual)), key=len)
    if len(fewer) > ONE_SIDED * len(more) or len(more) < FEWEST_OF_A_PLATEAU:
        return "none"
    return "plateau" if is_plateau(more) else "tail"


def is_plateau(distance: Vector) -> bool:
    """Return whether rows at some distances from an edge do not get fewer further out."""
    half, most = np.quantile(distance, [0.5, 0.8])
    return bool(half > LEVEL * most)
