"""Columns and directions of which the rows that a fit keeps say nothing."""

from __future__ import annotations

import numpy as np

from easyfirst.consensus.rounds.calibrated import Start
from easyfirst.consensus.rounds.common import RoundsResult
from easyfirst.consensus.solvers.gram import is_well_conditioned, solve_where_supported, variances
from easyfirst.consensus.starts.choice import CLEARLY_BETTER, peak_of
from easyfirst.consensus.starts.found import no_callback
from easyfirst.consensus.starts.rare_columns import recover_rare_columns
from easyfirst.consensus.starts.sample import Sample

CHANCES = 4  # that lost columns are given
LOST = 1e-4  # support of a direction by the kept rows, over that by all rows, that is none
PLAINLY_SUPPORTED = 1e-3  # reciprocal condition number from which nothing was lost


def supports_all(sample: Sample, fit: RoundsResult) -> bool:
    """Return whether the kept rows plainly say something of every direction."""
    matrix = fit.statistics.pooled_gram
    left = variances(matrix, sample.objective.fit_intercept)
    there = sample.fleet.total_weight * sample.fleet.column_variance
    return bool(np.all(left > LOST * there)) and is_well_conditioned(matrix, PLAINLY_SUPPORTED)


def with_rare_columns_recovered(sample: Sample, fit: RoundsResult) -> RoundsResult:
    """Return the fit, or a better one that keeps rows of rare columns that this one has lost."""
    fit = _with_lost_directions(sample, fit)
    for _ in range(CHANCES):
        if not fit.is_calibrated:
            break
        scale = fit.mixture.scale
        where = sample.fleet.problem.coordinates
        coef = recover_rare_columns(sample.rows, where, sample.weights(fit), fit.solution.z, scale)
        if coef is None:
            break
        other = sample.fit(no_callback, Start(coef, scale))
        if not other.is_calibrated or peak_of(sample, other) <= peak_of(sample, fit) + 1e-4:
            break
        fit = other
    return fit


def _with_lost_directions(sample: Sample, fit: RoundsResult) -> RoundsResult:
    """Return the fit, or one as good with zero in directions of which the kept rows say nothing.

    An early fit to gross outliers may have given those any value, at which their rows stay out.
    """
    if not fit.is_calibrated or supports_all(sample, fit):
        return fit
    if not sample.objective.is_unpenalised:  # a penalty has its own say on open directions
        return fit
    known, every = fit.statistics, sample.gram_of_every_row()
    coef = solve_where_supported(
        known.pooled_gram, known.pooled_rhs, every, LOST, sample.objective.fit_intercept
    )
    other = sample.fit(no_callback, Start(coef, fit.mixture.scale))
    as_good = other.is_calibrated and peak_of(sample, other) > peak_of(sample, fit) - CLEARLY_BETTER
    return other if as_good else fit
