"""Whether a fit that sets many of few rows aside predicts rows that took no part in it.

The best of many starts follows whichever part of few rows lies closest to some line, and there is
always one: among its own rows its noise is small whether or not the others are wrong. So parts of
the rows are left out in turn, both fits are made anew from the others, and each says how likely the
rows left out are, by its own noise and its own share of wrong rows. A fit of the clean rows among
corrupted ones finds new ones where it says they are; a fit of a part that chance made does not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from easyfirst.consensus.rounds.of_noise import NoiseState
from easyfirst.consensus.starts.found import SampleFit
from easyfirst.consensus.starts.sample import Sample
from easyfirst.consensus.starts.search import best_fit_of
from easyfirst.contracts import Batch, Vector

FOLDS = 5
SURELY = 1.0  # standard errors by which the rows left out have to be likelier
A_ROW = 0.5  # of all rows may lie anywhere, whatever a fit says

PlainFit = Callable[[Sample], NoiseState]


def is_confirmed(sample: Sample, plain_fit: PlainFit, seed: int = 0) -> bool:
    """Return whether rows left out are likelier by the fit of clean rows than by a plain one.

    The rows of a small sample are in the order of y, so every fold has rows from all of its range.
    """
    n = sample.n_samples
    fold, more = np.arange(n) % FOLDS, np.zeros(n)
    for number in range(FOLDS):
        left_out, others = np.flatnonzero(fold == number), sample.only(fold != number)
        more[left_out] = _likelier(sample, left_out, others, plain_fit, seed)
    counts = sample.counts / sample.counts.sum()
    mean = float(counts @ more)
    error = float(np.sqrt(np.sum(np.square(counts * (more - mean)))))
    return mean > SURELY * error


def _likelier(
    sample: Sample, left_out: NDArray[np.intp], others: Sample, plain_fit: PlainFit, seed: int
) -> Vector:
    """Return by how much rows left out are likelier, in logarithms."""
    found = best_fit_of(others, seed)
    if not found.fit.is_calibrated:
        return np.zeros(len(left_out))
    part, y = sample.part(left_out), others.rows.y
    anywhere = A_ROW / sample.n_samples / (2.0 * max(float(np.ptp(y)), np.finfo(float).tiny))
    by_fit = _density(sample, part, others, found)
    plain = plain_fit(others)
    coordinates = sample.fleet.problem.coordinates
    X = sample.design(left_out)[0][:, : sample.rows.n_features]
    scale = plain.scale_rule.of(X if coordinates.shift is None else X + coordinates.shift)
    residual = sample.residual(part, plain.coef) / scale
    by_plain = plain.noise.clean_density(residual) + plain.noise.corrupted_density(residual)
    return np.asarray(np.log(by_fit + anywhere) - np.log(by_plain / scale + anywhere))


def _density(sample: Sample, part: Batch, others: Sample, found: SampleFit) -> Vector:
    """Return the density of rows left out by the fit of the others.

    Corrupted rows are spread over the range of the residuals, unless they lie together.
    """
    if found.beside is not None:
        noise = found.beside.state(others.n_samples).noise
        residual = sample.residual(part, found.beside.coef)
        return noise.clean_density(residual) + noise.corrupted_density(residual)
    fit, mixture = found.fit, found.fit.mixture
    residual = sample.residual(part, fit.solution.z)
    reach = float(np.ptp(others.residual(others.rows, fit.solution.z)))
    clean = scipy.stats.norm.pdf(residual, scale=mixture.scale)
    aside = (np.abs(residual) < reach) / max(reach, np.finfo(float).tiny)
    return np.asarray(mixture.share * clean + (1.0 - mixture.share) * aside)
