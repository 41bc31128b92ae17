"""The calibrated pace for counts and amounts: rounds of expectation maximisation.

Each round reads the noise off the rows (`noise/counts.py`), weighs every row by the probability
that it is clean, and takes Newton steps on the weighted loss. Starts are compared on a sample, by
how likely they make its rows: a fit of least absolute deviations to the logarithms, and a plain
fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from easyfirst.calibration import PRIOR_ROWS
from easyfirst.consensus import status
from easyfirst.consensus.fleet import Fleet, Weightings, joined_rows
from easyfirst.consensus.robust.absolute import absolute_start
from easyfirst.consensus.rounds import of_noise as noise_rounds
from easyfirst.consensus.rounds.common import OnRound, Recorder, RoundSettings, RoundsResult
from easyfirst.consensus.solution import Solution
from easyfirst.consensus.solvers.ways import Solver, Task, solver_named
from easyfirst.consensus.statistics import Objective
from easyfirst.contracts import Batch, Resident, Vector
from easyfirst.local import counts
from easyfirst.local.design import dense
from easyfirst.local.weighing import Weighting, importance
from easyfirst.noise import NoiseModel
from easyfirst.noise.counts import CountNoise, CountTally, read_anew
from easyfirst.summaries import LossSummary, bin_edges
from easyfirst.workers import ResidentWorkers

SAMPLE_ROWS = 20_000
ROWS_FOR_ABSOLUTE, COLUMNS_FOR_ABSOLUTE = 4_000, 1_000
TRIAL_ROUNDS = 20  # of a start that is compared with others
STEPS = 2  # of Newton in a round, because the weights will change anyway
STILL = 0.01  # standard errors that coefficients move in a last round,
STILL_SHARE = 2e-4  # and how much the share of clean rows does
SURE = 1.96
RARE = 3.0  # corrupted rows that seeing none leaves possible
OVERLAP = 0.5  # of the corrupted rows' weight, lying on rows that may as well be clean
MINORITY = 0.55  # clean share from which on nobody knows who is right
ZONES = np.array([0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 9.0, 14.0, 25.0, 60.0])


@dataclass(frozen=True, eq=False)
class CountState:
    """Coefficients, the noise around them, and the share of clean rows of each batch."""

    coef: Vector
    noise: CountNoise
    shares: Vector

    def weightings(self) -> Weightings:
        """Return by what the rows of each batch are weighed."""
        at = tuple(self.coef.tolist())
        return [
            Weighting(at, count_noise=self.noise.with_share(share))
            for share in self.shares.tolist()
        ]


@dataclass(frozen=True, eq=False)
class CountFit:
    """Where the rounds ended, and what the rows said there."""

    rounds: RoundsResult
    state: CountState
    seen: CountTally

    @property
    def interval(self) -> tuple[float, float]:
        """Between which shares that of the corrupted rows lies, with 95 % confidence."""
        total = max(self.seen.total, 1.0)
        wrong = 1.0 - self.seen.clean / total
        own = wrong * (1.0 - wrong) / total
        variance = max(1.0 / max(self.seen.information, 1e-300) - own, 0.0)
        half = SURE * float(np.sqrt(variance)) + RARE / total
        return max(wrong - half, 0.0), min(wrong + half, 1.0)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Reasons not to believe it."""
        noise, seen, doubts = self.state.noise, self.seen, []
        wrong = max(seen.total - seen.clean, 1e-300)
        if noise.share < MINORITY:
            doubts.append(
                f"Only {100 * noise.share:.0f} % of the rows follow one model. The other rows may "
                f"follow another one: look for a column that tells them apart."
            )
        elif seen.overlap / wrong > OVERLAP and wrong > max(0.02 * seen.total, 10.0):
            doubts.append(
                "Many rows are neither clearly clean nor clearly wrong: corrupted values lie where "
                "clean ones do, or the columns do not explain y by a product of effects. The "
                "corrupted share is uncertain; look at rows of both kinds before you trust it."
            )
        return tuple(doubts)


def fit_counts(
    fleet: Fleet, objective: Objective, settings: RoundSettings, seed: int, on_round: OnRound
) -> CountFit:
    """Find a start on a sample, then go on with all rows."""
    family = fleet.problem.loss.noise_family
    assert family is not None
    rows = joined_rows(fleet.sample(min(SAMPLE_ROWS, sum(fleet.n_rows)), seed))
    here = _on_driver(fleet, rows)
    noise = CountNoise.first(family, fleet.spread_of_y, rows.y, importance(rows))
    trials = [
        _run(here, objective, _trial(settings), CountState(coef, noise, np.array([noise.share])))
        for coef in _starts(here, objective, settings, rows, family)
    ]
    best = max(trials, key=lambda trial: trial.seen.log_likelihood)
    found = _run(here, objective, settings, best.state)
    shares = np.full(fleet.n_batches, found.state.noise.share)
    return _run(fleet, objective, settings, replace(found.state, shares=shares), on_round)


def _on_driver(fleet: Fleet, rows: Batch) -> Fleet:
    s = rows.sample_weight
    return replace(
        fleet,
        workers=ResidentWorkers([Resident(rows, spread=fleet.spread)]),
        n_rows=(rows.n_samples,),
        total_weight=float(rows.n_samples if s is None else s.sum()),
    )


def _trial(settings: RoundSettings) -> RoundSettings:
    return replace(settings, max_rounds=min(settings.max_rounds, TRIAL_ROUNDS))


def _starts(
    here: Fleet, objective: Objective, settings: RoundSettings, rows: Batch, family: str
) -> list[Vector]:
    starts = [_solver(here, objective, settings).fit_every_row().solution.z]
    if rows.n_features <= COLUMNS_FOR_ABSOLUTE:
        some = np.arange(0, rows.n_samples, -(-rows.n_samples // ROWS_FOR_ABSOLUTE))
        coordinates = here.problem.coordinates
        design = coordinates.shifted(dense(rows.X[some]))
        if coordinates.fit_intercept:
            design = np.column_stack([design, np.ones(some.size)])
        logs = np.log(rows.y[some] + (0.5 if family == "poisson" else 0.0))
        starts.append(absolute_start(design, logs, coordinates.fit_intercept)[0])
    return starts


def _solver(fleet: Fleet, objective: Objective, settings: RoundSettings) -> Solver:
    name = "gram" if settings.solver == "admm" and fleet.n_batches == 1 else settings.solver
    return solver_named(name, fleet, objective, settings.admm)


def _run(
    fleet: Fleet,
    objective: Objective,
    settings: RoundSettings,
    start: CountState,
    on_round: OnRound | None = None,
) -> CountFit:
    """Go from coefficients and noise to where neither changes any more."""
    solver = _solver(fleet, objective, settings)
    recorder = Recorder(fleet, objective, "all")
    at, solution = start, Solution.at(start.coef, fleet.n_batches)
    before, done, ended = at.weightings(), False, False
    tallies, seen = _look(fleet, at)
    most = None if settings.solver == "admm" else STEPS
    for number in range(settings.max_rounds + 1):
        share = at.noise.share
        at = _with_noise(at, seen, tallies, fleet.n_coef)
        turned = abs(at.noise.share - share)
        now = at.weightings()
        noise = residual_noise(seen)
        stats = solver.weigh(now, before, noise_rounds.pace_of(noise), at.coef)
        fit = solver.solve(Task(now, stats, solution, number, max_iter=most, roughly=True))
        step = fit.solution.z - at.coef
        solution, before, at = fit.solution, now, replace(at, coef=fit.solution.z)
        tallies, seen = _look(fleet, at)
        if on_round is not None:
            ended = on_round(recorder.note(fit, noise_rounds.pace_of(noise)))
        moved = np.sqrt(max(float(step @ solver.curve(fit, step)), 0.0) / step.size)
        done = moved < STILL and turned < STILL_SHARE
        if ended or (done and number > 0):
            break
    rounds = recorder.n_rounds
    ending = status.converged(rounds)
    if ended:
        ending = status.stopped_by_callback(rounds)
    elif not done:
        ending = status.out_of_rounds(rounds, fit.statistics.changed_share, True)
    result = RoundsResult(
        solution=solution,
        pace=noise_rounds.pace_of(residual_noise(seen)),
        weightings=at.weightings(),
        statistics=fit.statistics,
        losses=LossSummary(seen.residuals[None, None], anchor=1.0, n_coef=fleet.n_coef),
        status=ending,
        history=recorder.history,
        is_refined=True,
    )
    return CountFit(result, at, seen)


def _look(fleet: Fleet, at: CountState) -> tuple[list[CountTally], CountTally]:
    tallies = fleet.workers.map(counts.tally, at.weightings(), fleet.problem)
    return tallies, CountTally.joined(tallies)


def _with_noise(
    at: CountState, seen: CountTally, tallies: list[CountTally], n_coef: int
) -> CountState:
    """Return the state with the noise that the rows have; each batch has a share of its own."""
    noise = read_anew(at.noise, seen, n_coef)
    if len(tallies) == 1:
        return replace(at, noise=noise, shares=np.array([noise.share]))
    clean = np.array([each.clean for each in tallies]) + PRIOR_ROWS * noise.share
    shares = clean / (np.array([each.total for each in tallies]) + PRIOR_ROWS)
    return replace(at, noise=noise, shares=np.clip(shares, 1e-6, 1.0 - 1e-9))


def residual_noise(seen: CountTally) -> NoiseModel:
    """Return clean and corrupted residuals as a noise model: what pictures and the pace show."""
    total = max(seen.total, 1e-300)
    share = min(max(seen.clean / total, 1e-9), 1.0)
    edges = bin_edges(1.0)
    middle = np.append(edges[1:-1], 2.0 * edges[-2])
    zone = np.searchsorted(ZONES, middle, side="right")
    wrong = np.maximum(seen.residuals - seen.clean_residuals, 0.0)
    widths = np.diff(np.concatenate([[0.0], ZONES, [2.0 * ZONES[-1]]]))
    below, above = (np.bincount(zone, side, widths.size) / widths / total for side in wrong)
    return NoiseModel(
        total=total,
        share=share,
        center=0.0,
        below=1.0,
        above=1.0,
        dof=np.inf,
        edges=tuple(np.concatenate([-ZONES[::-1], [0.0], ZONES]).tolist()),
        levels=tuple(np.concatenate([below[::-1], above])[1:].tolist()),
    )


def count_errors(fleet: Fleet, objective: Objective, fit: CountFit) -> Vector:
    """Return the standard error of every coefficient, by a sandwich.

    The weights move with the coefficients, which takes from the curvature; what is not known of
    the noise is not counted.
    """
    q = fleet.n_coef
    diagonal = objective.penalty_diagonal(q)
    if fit.rounds.statistics.matrix is None or diagonal is None:
        return np.full(q, np.nan)
    replies = fleet.workers.map(counts.scatter, fit.rounds.weightings, fleet.problem)
    curved, taken, outer = (np.sum([reply[k] for reply in replies], axis=0) for k in range(3))
    inverse = np.linalg.pinv(curved - taken + np.diag(diagonal), hermitian=True)
    where = np.eye(q)
    shift = fleet.problem.coordinates.shift
    if shift is not None:
        where[-1, :-1] = -shift  # the intercept is meant where the columns are zero
    variance = np.sum((where @ inverse) * (where @ inverse @ outer), axis=1)
    clean = fit.seen.clean
    return np.asarray(np.sqrt(np.maximum(variance, 0.0) * clean / max(clean - q, 1.0)))
