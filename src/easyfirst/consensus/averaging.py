"""The average of all fits that few rows make likely, in place of the one that was found.

Of a few dozen rows the likeliest fit is hardly likelier than the next, and which of them it is goes
by chance. Their average, each counted by how likely it is, errs less than any choice, and standard
errors know that the choice was uncertain. Of some hundred rows it is the tails of the noise that
are uncertain: whether the rows furthest off are wrong or belong to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from easyfirst.consensus.checks.robust_rows import rounding_of
from easyfirst.consensus.checks.second_opinion import may_be_second_guessed
from easyfirst.consensus.checks.telling import telling_of
from easyfirst.consensus.ending import Ending
from easyfirst.consensus.fitted import FittedModel
from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.judged import judged_by_noise
from easyfirst.consensus.rounds import of_noise as noise_rounds
from easyfirst.consensus.rounds.calibrated import Start
from easyfirst.consensus.rounds.of_noise import NoiseState
from easyfirst.consensus.solvers.gram import is_well_conditioned
from easyfirst.consensus.starts.elemental import MOST_ROWS
from easyfirst.consensus.starts.found import SampleFit
from easyfirst.consensus.starts.likely_fits import Average, LikelyFit, likely_fits
from easyfirst.contracts import Matrix, Vector
from easyfirst.noise import NoiseModel, ScaleRule
from easyfirst.noise.model import log_t, t_weight

VERY_FEW_ROWS = 100
SURELY_CLEAN = 0.9  # weight of a row that no fit of more rows may set aside
LONG_TAILS = 4.0  # degrees of freedom of noise that is to be likely, where rows are more,
UNLIKELY = 2.0  # at the most by this log-likelihood less than the noise that was found
READINGS = 20  # of its scale
PER_COEFFICIENT = 5  # rows: of fewer, a likelihood says little about how many fits are near it
FEW_ASIDE = 0.1  # of the rows, that any fit may set aside


def averaged(found: SampleFit, fitted: FittedModel, fleet: Fleet, ending: Ending) -> FittedModel:
    """Return the average of likely fits, or the fit where rows are many or not all alike."""
    if not _may_be_averaged(found, fitted, fleet):
        return fitted
    assert fitted.calibration is not None
    design, y = found.sample.design()
    known = fitted.calibration.noise
    residual, are_very_few = y - design @ fitted.coef, len(y) <= VERY_FEW_ROWS
    if not (are_very_few or may_have_long_tails(residual, known)):
        return fitted
    is_clean = known.posterior(residual)
    starts = [Start(fitted.coef, known.spread), *found.begun]
    inside = _with_a_vote(found)
    fits = likely_fits(design, y, starts, inside)
    X = design[:, : found.sample.rows.n_features]
    # What the fit of the sample sets aside has passed all checks, whatever noise was read later.
    aside = 1.0 - min(known.share, found.fit.mixture.share)
    fits = counted(fits, X, inside, aside)
    if not are_very_few:
        fits = [each for each in fits if _may_count(each, is_clean)]
    if not fits:
        return fitted
    average = Average.of(fits)
    # What the fit found knows of the noise around it is of more use than one level of wrong rows.
    # Of more than a few rows, it also says which are wrong.
    is_same = np.array_equal(is_clean < 0.5, average.likeliest.sets_aside)
    if are_very_few and not is_same:
        known = replace(average.likeliest.noise, total=fleet.total_weight)
    return _judged(average, known, fitted, fleet, ending)


def counted(
    fits: Sequence[LikelyFit], X: Matrix, inside: NDArray[np.bool_], aside: float
) -> list[LikelyFit]:
    """Return the fits that may count beside one that sets such a share of the rows aside.

    Which rows may be wrong at all is for all checks of that fit to say: on a curve, some fit is
    near to one stretch, and likely. Nor must the columns tell which rows are set aside.
    """
    most = np.ceil(max(aside, FEW_ASIDE) * len(X))
    return [
        fit
        for fit in fits
        if np.sum(fit.sets_aside) <= most
        and not telling_of(X[inside], fit.sets_aside[inside]).is_clear
    ]


def _may_be_averaged(found: SampleFit, fitted: FittedModel, fleet: Fleet) -> bool:
    """Return whether all rows are at hand, few, and clean or wrong by their residuals alone."""
    sample, known = found.sample, fitted.calibration
    if known is None or not known.scale_rule.is_even or not known.noise.is_symmetric:
        return False
    is_plain = may_be_second_guessed(sample.fleet.problem) and sample.objective.is_unpenalised
    is_noisy = known.noise.spread > rounding_of(sample)
    is_whole = not (found.masses or found.cell or fitted.redundant) and found.begun
    few = PER_COEFFICIENT * fleet.n_coef <= sample.n_samples <= MOST_ROWS
    return bool(
        is_plain
        and is_whole
        and is_noisy
        and is_well_conditioned(found.fit.statistics.pooled_gram)
        and few
        and fitted.rank == fitted.coef.size
        and sample.rows.sample_weight is None
        and fitted.status.code != "callback"
    )


def may_have_long_tails(residual: Vector, noise: NoiseModel) -> bool:
    """Return whether noise with long tails explains residuals about as well as the noise found.

    Else the average would be the fit that was found.
    """
    found = noise.clean_density(residual) + noise.corrupted_density(residual)
    variance = noise.spread**2
    for _ in range(READINGS):
        squares = np.square(residual) / variance
        variance = float(np.mean(t_weight(squares, LONG_TAILS) * np.square(residual)))
    tails = log_t(np.square(residual) / variance, LONG_TAILS) - 0.5 * np.log(variance)
    likelihood = float(np.sum(np.log(np.maximum(found, np.finfo(float).tiny))))
    return bool(np.sum(tails) > likelihood - UNLIKELY)


def _may_count(fit: LikelyFit, is_clean: Vector) -> bool:
    """Return whether a fit of more than a few rows differs by the tails of its noise alone."""
    return not fit.kind.has_skew and bool(np.all(is_clean[fit.sets_aside] < SURELY_CLEAN))


def _with_a_vote(found: SampleFit) -> NDArray[np.bool_]:
    """Return the rows that say which fit is likely: not those far out in X, if some are wrong."""
    everyone = np.ones(found.sample.n_samples, dtype=bool)
    if found.far is None or np.all(found.sample.weights(found.fit)[found.far] >= 0.5):
        return everyone
    return ~found.far


def _judged(
    average: Average, noise: NoiseModel, fitted: FittedModel, fleet: Fleet, ending: Ending
) -> FittedModel:
    """Return the fit at the average, rows judged by the noise around it."""
    at = NoiseState(average.coef, noise, ScaleRule.even(), average.likeliest.kind)
    losses = noise_rounds.losses_at(fleet, at)
    if fleet.problem.coordinates.fit_intercept and ending.center != "middle":
        offset = noise_rounds.clean_center(fleet, at, losses, ending.center)
        at = replace(at, coef=np.append(at.coef[:-1], at.coef[-1] + offset))
        losses = noise_rounds.losses_at(fleet, at)
    errors = _errors(average.covariance, fleet.problem.coordinates.shift)
    return judged_by_noise(fitted, at, losses, errors)


def _errors(covariance: Matrix, shift: Vector | None) -> Vector:
    variance = np.diagonal(covariance).copy()
    if shift is not None:  # the intercept is meant where the columns are zero
        where = np.append(-shift, 1.0)
        variance[-1] = where @ covariance @ where
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)))
