"""A finished fit, its rows judged by the noise around it: shares, intervals, standard errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from easyfirst.calibration import CleanMixture, corrupted_interval
from easyfirst.consensus.ending import Ending, concluded
from easyfirst.consensus.fitted import Calibration, FittedModel
from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.inference import sandwich_errors, standard_errors
from easyfirst.consensus.rounds import of_noise as noise_rounds
from easyfirst.consensus.rounds.common import RoundsResult
from easyfirst.consensus.rounds.of_noise import NoiseState
from easyfirst.consensus.statistics import Objective
from easyfirst.contracts import Matrix, Vector
from easyfirst.noise import ScaleRule, clean_mass, likely_shares, of_mixture, share_interval
from easyfirst.summaries import LossSummary


def by_mixture(
    fleet: Fleet,
    objective: Objective,
    result: RoundsResult,
    mixture: CleanMixture,
    ending: Ending,
) -> FittedModel:
    """Return the fit with the noise that its pace was read from."""
    losses = result.known_losses
    noise = of_mixture(mixture)
    calibration = Calibration(
        noise=noise,
        scale_rule=ScaleRule.even(),
        clean_mass=clean_mass(losses, noise).ravel(),
        anchor=losses.anchor,
        n_coef=losses.n_coef,
        batch_shares=result.calibrated_pace.shares,
        corrupted_interval=corrupted_interval(losses, mixture),
        standard_errors=_standard_errors(fleet, objective, result, mixture.scale),
    )
    return replace(concluded(fleet, objective, result, ending), calibration=calibration)


def by_noise(
    fleet: Fleet,
    objective: Objective,
    result: RoundsResult,
    around: NoiseState,
    ending: Ending,
) -> FittedModel:
    """Return the fit with the noise read off the residuals of all rows, and rows judged by it.

    The intercept is moved to what is to be predicted: the middle of the clean rows by Huber's rule,
    so their mean where they are symmetric and towards their median where not, or what was chosen.
    """
    fitted = concluded(fleet, objective, result, ending)
    errors = np.full(fleet.n_coef, np.nan)
    if objective.penalty.smooth:
        errors = sandwich_errors(
            fleet, result.weightings, around.noise.scale, result.statistics.pooled_gram
        )
    at, losses = noise_rounds.read_anew(fleet, replace(around, coef=fitted.coef))
    is_off = ending.center != "middle" or not at.noise.is_symmetric
    if objective.fit_intercept and is_off:
        offset = noise_rounds.clean_center(fleet, at, losses, ending.center)
        moved = np.append(at.coef[:-1], at.coef[-1] + offset)
        at, losses = noise_rounds.read_anew(fleet, replace(at, coef=moved))
    return judged_by_noise(fitted, at, losses, errors)


def judged_by_noise(
    fitted: FittedModel, at: NoiseState, losses: LossSummary, errors: Vector
) -> FittedModel:
    """Return the fit at coefficients around which all rows have this noise, judged by it."""
    calibration = Calibration(
        noise=at.noise,
        scale_rule=at.scale_rule,
        clean_mass=clean_mass(losses, at.noise).ravel(),
        anchor=losses.anchor,
        n_coef=losses.n_coef,
        batch_shares=_by_batch(losses, likely_shares(losses, at.noise)),
        corrupted_interval=share_interval(losses, at.noise),
        standard_errors=errors,
    )
    weightings = noise_rounds.judged(fitted.fleet, at, losses)
    rounds = replace(fitted.rounds, weightings=weightings)
    return replace(fitted, coef=at.coef, rounds=rounds, calibration=calibration)


def counting_aside(fitted: FittedModel) -> FittedModel:
    """Return the fit with rows that were set aside counted among the corrupted ones."""
    found, losses, fleet = fitted.calibration, fitted.rounds.losses, fitted.fleet
    if found is None or losses is None or not fleet.problem.aside:
        return fitted
    noise, kept = found.noise, losses.total / fleet.total_weight
    rows = losses.counts.sum(axis=(1, 2, 3)) / np.array(fleet.n_rows)
    is_counted = fleet.total_weight == sum(fleet.n_rows)
    shares = np.array(found.batch_shares) * (rows if is_counted else kept)
    low, high = found.corrupted_interval
    calibration = replace(
        found,
        noise=replace(
            noise,
            total=noise.total / kept,
            share=noise.share * kept,
            levels=tuple(kept * level for level in noise.levels),
        ),
        batch_shares=tuple(shares.tolist()),
        corrupted_interval=(1.0 - (1.0 - low) * kept, 1.0 - (1.0 - high) * kept),
        aside=fleet.problem.aside,
    )
    return replace(fitted, calibration=calibration)


def _by_batch(losses: LossSummary, shares: Matrix) -> tuple[float, ...]:
    totals = losses.counts.sum(axis=(2, 3))
    means = np.sum(shares * totals, axis=1) / np.maximum(totals.sum(axis=1), 1e-300)
    return tuple(means.tolist())


def _standard_errors(
    fleet: Fleet, objective: Objective, result: RoundsResult, scale: float
) -> Vector:
    """Return standard errors where the formula holds: weights of known slope, a smooth penalty."""
    if not (fleet.problem.regularizer.is_posterior and objective.penalty.smooth):
        return np.full(fleet.n_coef, np.nan)
    return standard_errors(fleet, result.weightings, scale, result.statistics.pooled_gram)
