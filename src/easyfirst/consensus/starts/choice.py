"""The choice between fits of a sample: by the votes of rows that none of them has captured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from easyfirst.consensus.rounds.common import RoundsResult
from easyfirst.consensus.starts.elemental import MOST_ROWS
from easyfirst.consensus.starts.sample import Sample
from easyfirst.consensus.starts.voting import Vote, leaves_a_tail

CLEARLY_BETTER = 0.01  # in log of clean share over scale
LIKELIER = 3.0  # by log-likelihood, of two fits with peaks as high
BY_CHANCE = 0.01  # how often a fit without some rows suits the others better by as much
PLAIN_MAJORITY = 0.7  # of the rows: a fit that suits as many is not that of an edge


def choose(
    sample: Sample, fits: Sequence[RoundsResult], voters: NDArray[np.bool_] | None = None
) -> RoundsResult:
    """Return the fit with the highest peak: clean share over scale, majorities first.

    A fit replaces another only if its likelihood is higher as well: some rows in a tight lump have
    a high peak and explain nothing of the others. Where some rows are trusted, a fit that agrees
    with clearly more of them comes first. Only `voters` have a vote: a cluster far out in X, or
    rows that share their y, agree with the fit that they have captured.
    """
    calibrated = [fit for fit in fits if fit.is_calibrated]
    if not calibrated:
        return fits[0]
    if sample.n_samples <= MOST_ROWS and len(calibrated) > 1:
        calibrated = [fit for fit in calibrated if not _is_an_edge(sample, fit)] or calibrated
    votes = {id(fit): Vote.on(sample, fit, voters) for fit in calibrated}
    ranked = sorted(calibrated, key=lambda fit: not votes[id(fit)].is_of_majority)
    best = ranked[0]
    for fit in ranked[1:]:
        if sample.is_more_trusted(fit, best):
            best = fit
        if fit is best or sample.is_more_trusted(best, fit):
            continue
        ours, theirs = votes[id(fit)], votes[id(best)]
        higher = ours.peak > theirs.peak + CLEARLY_BETTER
        is_even = abs(ours.peak - theirs.peak) <= CLEARLY_BETTER
        if is_even and ours.likelihood > theirs.likelihood + LIKELIER:
            best = fit
        if higher and ours.mean_log > theirs.mean_log:
            best = fit
    return best if voters is None else _not_refuted(sample, best, calibrated, votes)


def _not_refuted(
    sample: Sample, best: RoundsResult, fits: Sequence[RoundsResult], votes: dict[int, Vote]
) -> RoundsResult:
    """Return the fit, or one that is likelier for all rows and not refuted by the voters.

    Without the other rows a fit suits the voters better by chance, and where few of them tell a
    coefficient it may go anywhere from there.
    """
    by_chance = 0.5 * float(chdtri(sample.fleet.n_coef, BY_CHANCE))
    least = votes[id(best)].likelihood - by_chance
    everyone = {id(fit): Vote.on(sample, fit).likelihood for fit in fits}
    for fit in fits:
        is_likelier = everyone[id(fit)] > everyone[id(best)] + by_chance
        if is_likelier and votes[id(fit)].likelihood > least:
            best = fit
    return best


def _is_an_edge(sample: Sample, fit: RoundsResult) -> bool:
    """Return whether a fit may suit only the densest rows of skewed noise."""
    return fit.mixture.share < PLAIN_MAJORITY and leaves_a_tail(sample, fit)


def peak_of(sample: Sample, fit: RoundsResult) -> float:
    """Return the peak of a fit by the votes of all rows."""
    return Vote.on(sample, fit).peak
