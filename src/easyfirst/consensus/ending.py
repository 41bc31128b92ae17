"""The end of the rounds: solved exactly, without directions that few rows support."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from easyfirst.consensus.checks.extrapolation import restrained, supported
from easyfirst.consensus.fitted import FittedModel
from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.rounds.common import Center, RoundsResult
from easyfirst.consensus.solution import everywhere
from easyfirst.consensus.solvers.gram import rank, without_constant_columns
from easyfirst.consensus.solvers.polish import polish
from easyfirst.consensus.starts.sample import Sample
from easyfirst.consensus.statistics import Diagonal, Objective
from easyfirst.contracts import Resident, Vector
from easyfirst.local.weighing import row_weights, weigh


@dataclass(frozen=True, eq=False)
class Ending:
    """How a fit ends: whether solved once more, who judges weak directions, where it aims."""

    exactly: bool
    sample: Sample | None = None
    center: Center = "middle"


def concluded(
    fleet: Fleet, objective: Objective, result: RoundsResult, ending: Ending
) -> FittedModel:
    """Return what the rounds found, solved once more on request."""
    coef, is_full_rank = result.solution.z, False
    problem = fleet.problem
    is_exact = result.is_refined or not (problem.loss.quadratic and problem.n_outputs == 1)
    if ending.exactly and not is_exact:
        polished = polish(fleet, objective, result.statistics, result.weightings, coef)
        coef, is_full_rank = polished.coef, polished.is_full_rank
        result = _weighed_by(fleet, result, coef)
    found, (coef, redundant) = coef, _supported(fleet, objective, result, coef, ending.sample)
    if not np.array_equal(coef, found):
        result = _judged_at(fleet, result, coef)
    return FittedModel(
        fleet=fleet,
        redundant=redundant,
        coef=coef,
        rank=coef.size if is_full_rank else _rank(fleet, objective, result),
        rounds=result,
        history=result.history,
        status=result.status,
    )


def _supported(
    fleet: Fleet,
    objective: Objective,
    result: RoundsResult,
    coef: Vector,
    sample: Sample | None,
) -> tuple[Vector, tuple[int, ...]]:
    """Return the coefficients without directions that are better left out, and their columns."""
    matrix = result.statistics.matrix
    if sample is None or matrix is None or not objective.is_unpenalised:
        return coef, ()
    coef = without_constant_columns(coef, matrix, objective.fit_intercept)
    rows, weighting = Resident(sample.rows), result.weightings[0]
    weights = row_weights(rows, weighting, fleet.problem)
    stands_for = fleet.total_weight / float(sample.counts.sum())
    coef, columns = supported(sample, weights, matrix, stands_for, coef)
    clean = sample.counts * weigh(rows, weighting, fleet.problem)
    pulling = float(weights.sum() / max(clean.sum(), 1e-300))  # of a clean row, in the matrix
    coef = restrained(sample, clean, matrix, stands_for * pulling, coef)
    return coef, tuple(columns.tolist())


def _rank(fleet: Fleet, objective: Objective, result: RoundsResult) -> int:
    """Return how many coefficients the kept rows determine, whether or not their loss bends."""
    stats = result.statistics
    if stats.squares is None:
        return rank(stats, objective)
    if stats.matrix is None:
        return rank(replace(stats, pooled_gram=Diagonal(stats.squares)), objective)
    return rank(fleet.form(result.weightings), objective)


def _weighed_by(fleet: Fleet, result: RoundsResult, coef: Vector) -> RoundsResult:
    """Return the result with its rows weighed by these coefficients, if one set judged them all."""
    last = result.solution.z
    judges = {weighting.coef for weighting in result.weightings}
    if judges != {tuple(last.tolist())} or np.array_equal(coef, last):
        return result
    return _judged_at(fleet, result, coef)


def _judged_at(fleet: Fleet, result: RoundsResult, coef: Vector) -> RoundsResult:
    """Return the result moved to other coefficients, with its rows weighed by them."""
    points = everywhere(coef, fleet.n_batches)
    whitener = result.weightings[0].whitener
    return replace(
        result,
        solution=result.solution.moved_to(coef),
        weightings=fleet.weightings(points, result.pace, whitener),
    )
