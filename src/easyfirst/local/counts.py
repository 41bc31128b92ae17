"""Steps for counts and amounts with a noise model of their own."""

from __future__ import annotations

import numpy as np

from easyfirst.contracts import Matrix, Resident
from easyfirst.local.derivatives import predicted
from easyfirst.local.weighing import Problem, Weighting, importance, weigh
from easyfirst.noise.counts import CountTally


def tally(resident: Resident, weighting: Weighting, problem: Problem) -> CountTally:
    """Return what the rows say about the noise, as they are weighed."""
    noise, batch = weighting.count_noise, resident.batch
    assert noise is not None
    assert weighting.coef is not None
    prediction = predicted(resident, np.array(weighting.coef), problem)
    v = weigh(resident, weighting, problem)
    return CountTally.of(noise, batch.y, prediction, v, importance(batch))


def scatter(
    resident: Resident, weighting: Weighting, problem: Problem
) -> tuple[Matrix, Matrix, Matrix]:
    """Return the Gram matrices from which standard errors follow.

    Of the curvature of the weighted loss, of what weights take from it as they move with the
    coefficients, and of the squared pull of the rows.
    """
    noise, batch, loss = weighting.count_noise, resident.batch, problem.loss
    assert noise is not None
    assert weighting.coef is not None
    prediction = predicted(resident, np.array(weighting.coef), problem)
    v, s = weigh(resident, weighting, problem), importance(batch)
    pull = np.square(0.5 * loss.gradient(batch.y, prediction))
    moved = v * (1.0 - v) * pull * noise.sharpness(prediction)
    bend = v * 0.5 * loss.curvature(batch.y, prediction)
    design = problem.design(batch)
    curved, taken, outer = (
        design.gram(s * weights, batch.y, resident.spread)[0]
        for weights in (bend, moved, np.square(v) * pull)
    )
    return curved, taken, outer
