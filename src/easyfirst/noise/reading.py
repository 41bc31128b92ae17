"""What a noise model says about a histogram of residuals, and whether the normal one fits it."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from easyfirst.calibration import PRIOR_ROWS, CleanMixture
from easyfirst.contracts import Matrix, Vector
from easyfirst.noise.model import LEAST, NoiseModel
from easyfirst.summaries import LossSummary, bin_edges

CELLS = np.array([0.0, 0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.1, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0])
MISFIT = 2.0  # standard deviations of chi-square beyond which the normal mixture does not fit,
VISIBLE = 2e-4  # and the least chi-square per row worth a second look
SHAPE_UNKNOWN = 2.0  # how much wider an interval for the share is because the shape is estimated
SHARE_STEPS = 30  # of expectation maximisation for the shares of batches


def normal_fits(losses: LossSummary, mixture: CleanMixture) -> bool:
    """Return whether the residuals near zero look as a normal and a flat part say they should.

    The scale is that of new rows. Those that were fitted lie closer, by the share of the clean
    rows that the coefficients took.
    """
    spent = 0.0 if losses.studentized else losses.n_coef / max(mixture.clean, 1.0)
    scale = mixture.scale * float(np.sqrt(max(1.0 - spent, 0.25)))
    edges = CELLS * scale
    bins = np.searchsorted(bin_edges(losses.anchor), edges)
    exact = bin_edges(losses.anchor)[bins]  # cells end where bins do
    observed = np.diff(np.append(0.0, np.cumsum(losses.merged, axis=1)[0])[bins])
    observed = np.stack([observed, np.diff(np.append(0.0, np.cumsum(losses.merged[1]))[bins])])
    mass = mixture.clean * np.diff(ndtr(exact / scale))
    expected = mass + np.array([[mixture.below], [mixture.above]]) * np.diff(exact)
    usable = expected >= 5.0
    surplus = np.square(observed - expected) / np.maximum(expected, LEAST)
    squares = float(surplus[usable].sum())
    freedom = max(int(usable.sum()) - 4, 1)
    chance = freedom + MISFIT * np.sqrt(2.0 * freedom)
    return squares <= chance or squares <= VISIBLE * losses.total


def clean_mass(losses: LossSummary, noise: NoiseModel) -> Matrix:
    """Return the expected number of clean rows in each signed bin, shape (2, N_BINS)."""
    middles = _middles(losses.anchor)
    posterior = np.stack([noise.posterior(-middles), noise.posterior(middles)])
    return np.asarray(losses.merged * posterior)


def share_interval(
    losses: LossSummary, noise: NoiseModel, z: float = 1.959964
) -> tuple[float, float]:
    """Return an interval for the share of corrupted rows among these rows.

    From how sure single rows are, widened for the shape of the noise being estimated as well;
    three rows are what seeing none leaves possible.
    """
    middles = _middles(losses.anchor)
    posterior = np.stack([noise.posterior(-middles), noise.posterior(middles)])
    doubtful = float(np.sum(losses.merged * posterior * (1.0 - posterior)))
    half = (z * SHAPE_UNKNOWN * float(np.sqrt(doubtful)) + 3.0) / noise.total
    corrupted = 1.0 - noise.share
    return max(0.0, corrupted - half), min(1.0, corrupted + half)


def likely_shares(losses: LossSummary, noise: NoiseModel) -> Matrix:
    """Return the clean share of every band of every batch, shape (n_batches, n_bands).

    Each is drawn towards the overall share by a few rows' worth.
    """
    n_batches, n_bands = losses.counts.shape[:2]
    shares = np.full((n_batches, n_bands), noise.share)
    if n_batches * n_bands == 1 or not noise.has_corrupted_part:
        return shares
    middles = _middles(losses.anchor)
    signed = np.concatenate([-middles, middles])
    counts = losses.counts.reshape(n_batches * n_bands, -1)
    used = counts.sum(axis=0) > 0
    counts = counts[:, used]
    odds = noise.corrupted_density(signed[used]) / np.maximum(
        noise.clean_density(signed[used]), LEAST
    )
    # Odds at another share: those of the overall one, times how the two compare.
    odds = odds * (noise.share / max(1.0 - noise.share, LEAST))
    own, totals = shares.reshape(-1, 1), counts.sum(axis=1, keepdims=True)
    for _ in range(SHARE_STEPS):
        clean = np.sum(counts / (1.0 + odds * (1.0 - own) / own), axis=1, keepdims=True)
        own = (clean + PRIOR_ROWS * noise.share) / (totals + PRIOR_ROWS)
        own = np.clip(own, 1e-9, 1.0 - 1e-9)
    return own.reshape(n_batches, n_bands)


def _middles(anchor: float) -> Vector:
    edges = bin_edges(anchor)
    return np.append(0.5 * (edges[:-2] + edges[1:-1]), edges[-2])
