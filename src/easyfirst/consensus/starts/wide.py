"""Rounds without square matrices that a cluster of wrong rows far out in X does not lead astray.

With many columns no sample determines the coefficients, so starts are compared on all rows: the
fit of every row, and, where rows lie far out, one that begins without them. Far rows form bands
with a clean share of their own, and have no vote on which of the two is better.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from easyfirst.calibration import ROUNDING, fit_mixture, mass_quantile
from easyfirst.consensus.fleet import Fleet, joined_rows
from easyfirst.consensus.robust.huber import MEDIAN_TO_SCALE
from easyfirst.consensus.rounds import calibrated as calibrated_rounds
from easyfirst.consensus.rounds.calibrated import Start
from easyfirst.consensus.rounds.common import OnRound, RoundSettings, RoundsResult
from easyfirst.consensus.solution import Solution, everywhere
from easyfirst.consensus.solvers import conjugate
from easyfirst.consensus.solvers.ways import Task, solver_named
from easyfirst.consensus.starts.choice import CLEARLY_BETTER
from easyfirst.consensus.starts.found import no_callback
from easyfirst.consensus.starts.wide_leverage import wide_far_rule
from easyfirst.consensus.statistics import Objective
from easyfirst.contracts import EVERY_ROW, Pace
from easyfirst.local.far_rows import FarRule
from easyfirst.summaries import LossSummary

ENTRIES = 1 << 25  # of the rows that are looked at: 256 MB where they are dense
ROWS = (500, 10_000)  # least and most of them
LEAST_BAND = 30  # rows that are worth a band
TRIMMED_FITS, TRIMMED = 5, 3.0  # of rows inside, each without residuals of so many scales
CLOSELY = 1e-3  # of the gradient that may be left where fits are compared
UNCOUNTED = 0.3  # of the degrees of freedom
LEAST_LEFT = 0.25  # of the residuals' variance that a fit is taken to leave


def run(
    fleet: Fleet, objective: Objective, settings: RoundSettings, seed: int, on_round: OnRound
) -> tuple[Fleet, RoundsResult]:
    """Return the better fit, and the fleet that knows which of its rows are far."""
    rule = _rule_if_rows_are_far(fleet, seed)
    if rule is None:
        return fleet, calibrated_rounds.run(fleet, objective, settings, on_round)
    fleet = replace(fleet, problem=replace(fleet.problem, far_rule=rule))
    first = calibrated_rounds.run(fleet, objective, settings, on_round)
    if first.status.code == "callback":
        return fleet, first
    start = _start_from_the_inside(fleet, objective, settings, rule)
    second = calibrated_rounds.run(fleet, objective, settings, no_callback, start)
    by_first, by_second = (_peak(fleet, objective, fit, seed) for fit in (first, second))
    # Weights that follow the residuals let a fit shrink them by more than was counted.
    chance = CLEARLY_BETTER + UNCOUNTED * fleet.n_coef / fleet.total_weight
    return fleet, second if by_second > by_first + chance else first


def _rule_if_rows_are_far(fleet: Fleet, seed: int) -> FarRule | None:
    """Return the rule by which rows are far, found on some of them; None if hardly any is."""
    size = int(np.clip(ENTRIES / max(fleet.entries_per_row, 1.0), *ROWS))
    X = joined_rows(fleet.sample(2 * size, seed)).X
    rule = wide_far_rule(X[::2], X[1::2])
    score = rule.score(X)
    cuts = tuple(cut for cut in rule.cuts if np.sum(score > cut) >= LEAST_BAND)
    return replace(rule, cuts=cuts) if cuts else None


def _start_from_the_inside(
    fleet: Fleet, objective: Objective, settings: RoundSettings, rule: FarRule
) -> Start:
    """Return a fit of the rows that are not far, those with large residuals left out in turn."""
    solver = solver_named("cg", fleet, objective, settings.admm)
    at, before = Solution.at(np.zeros(fleet.n_coef), fleet.n_batches), fleet.every_row()
    reach, width = np.inf, 1.0
    for _ in range(TRIMMED_FITS):
        bands = ((reach, reach), *[(-np.inf, -np.inf)] * (rule.n_bands - 1))
        pace = Pace(np.inf, width=width, thresholds=(bands,) * fleet.n_batches)
        now = fleet.weightings(at.coefs, pace)
        stats = solver.weigh(now, before, pace, at.z)
        at, before = solver.solve(Task(now, stats, at)).solution, now
        scale = _scale_inside(fleet.summarize(fleet.weightings(at.coefs, EVERY_ROW)))
        reach, width = (TRIMMED * scale) ** 2, 2.0 * scale**2
    return Start(at.z, scale)


def _scale_inside(losses: LossSummary) -> float:
    """Return the noise scale by the median residual of rows inside, which their fit has shrunk."""
    inside = losses.counts.sum(axis=0)[0].sum(axis=0)
    left = max(1.0 - losses.n_coef / max(float(inside.sum()), 1.0), LEAST_LEFT)
    median = mass_quantile(inside, losses.anchor, 0.5)
    return max(MEDIAN_TO_SCALE * median / float(np.sqrt(left)), losses.anchor * ROUNDING)


def _peak(fleet: Fleet, objective: Objective, fit: RoundsResult, seed: int) -> float:
    """Return the clean share of the rows inside over their scale, as a logarithm.

    Rows far out take up more of the coefficients than others, so the degrees of freedom that the
    rows inside have lost are estimated for them alone, by the response to random signs. A round
    solves no more than roughly, which tells a fit that far rows dominate from a better one.
    """
    if not fit.is_calibrated:
        return -np.inf
    squares = fit.statistics.pooled_gram.diagonal()
    taken = conjugate.degrees_of_freedom(fleet, fit.weightings, squares, objective, seed)
    best = conjugate.refine(
        fleet, fit.weightings, fit.statistics, objective, fit.solution.z, CLOSELY
    )
    losses = fleet.summarize(fleet.weightings(everywhere(best, fleet.n_batches), fit.pace))
    inside = replace(losses, counts=losses.counts[:, :1], trusted=None, n_coef=int(taken))
    mixture = fit_mixture(inside, fit.mixture.scale)
    return float(np.log(max(mixture.share, 1e-300) / mixture.free_scale))
