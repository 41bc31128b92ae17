"""What the two methods have in common: settings, records, and how rounds end.

`self_paced.py` follows a schedule; `calibrated_rounds.py` reads the pace off the residuals.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import sub
from typing import Any, Literal

from easyfirst.calibration import CleanMixture
from easyfirst.consensus import status
from easyfirst.consensus.fleet import Fleet, Weightings
from easyfirst.consensus.history import History, IterationRecord, RoundRecord
from easyfirst.consensus.solution import Solution
from easyfirst.consensus.solvers.admm import AdmmSettings
from easyfirst.consensus.solvers.ways import Fit, SolverName
from easyfirst.consensus.statistics import Objective, StackedStatistics
from easyfirst.consensus.status import Status
from easyfirst.contracts import EVERY_ROW, Ledger, Pace
from easyfirst.errors import NoRowSelectedError
from easyfirst.schedules import Calibrated, CalibratedPace, PaceSchedule
from easyfirst.summaries import LossSummary

# Called after each round; returning True ends the fit.
OnRound = Callable[[RoundRecord], bool]

Center = Literal["middle", "mean", "median"]  # of the clean rows


@dataclass(frozen=True)
class RoundSettings:
    """How the rounds go; the batches and the objective are given separately.

    `studentize` frees residuals of their own row's pull once the pace is final; `rows` names the
    rows at work in the records. `leaves_out_weak` permits zero in directions of which few rows know
    and which they do not predict each other by. `center` is what the intercept aims at where clean
    noise is skewed.
    """

    schedule: PaceSchedule
    solver: SolverName = "gram"
    admm: AdmmSettings = field(default_factory=AdmmSettings)
    weights_from: Literal["consensus", "batch"] = "consensus"
    update_weights: Literal["round", "iteration"] = "round"
    max_rounds: int = 200
    tol: float = 1e-6
    studentize: bool = False
    rows: Literal["all", "sample"] = "all"
    leaves_out_weak: bool = False
    center: Center = "middle"

    @property
    def calibrated(self) -> Calibrated:
        """The schedule, where it is the one that reads the pace off the residuals."""
        if not isinstance(self.schedule, Calibrated):
            raise TypeError(f"{self.schedule!r} does not read the pace off the residuals")
        return self.schedule


@dataclass(frozen=True, eq=False)
class RoundsResult:
    """Where the rounds ended; `weightings` reproduce the weights of every row.

    `is_refined` says that the solution already is a step of refinement away from the
    coefficients by which the rows were weighed.
    """

    solution: Solution
    pace: Pace
    weightings: Weightings
    statistics: StackedStatistics
    losses: LossSummary | None
    status: Status
    history: History
    is_refined: bool = False

    @property
    def is_calibrated(self) -> bool:
        """Whether the pace was read off the residuals before the rounds ended."""
        return isinstance(self.pace, CalibratedPace) and self.losses is not None

    @property
    def calibrated_pace(self) -> CalibratedPace:
        """The pace that was read off the residuals."""
        if not isinstance(self.pace, CalibratedPace):
            raise ValueError("the fit ended before its pace was calibrated")
        return self.pace

    @property
    def mixture(self) -> CleanMixture:
        """Clean and corrupted residuals, as the pace was read off them."""
        return self.calibrated_pace.mixture

    @property
    def known_losses(self) -> LossSummary:
        """The residuals that the pace was read off."""
        if self.losses is None:
            raise ValueError("the fit ended before its residuals were summed up")
        return self.losses


class Recorder:
    """Writes down each round as it ends: where it led, and what it cost."""

    def __init__(self, fleet: Fleet, objective: Objective, rows: str, first: int = 0) -> None:
        """Leave out what was spent before; `first` is the number of the first round."""
        self.number = first
        self._workers, self._objective, self._rows = fleet.workers, objective, rows
        self._rounds: list[RoundRecord] = []
        self._iterations: list[IterationRecord] = []
        self._clock = time.perf_counter()
        self._booked = _copy(fleet.workers.ledger)

    def note(self, fit: Fit, pace: Pace | None) -> RoundRecord:
        """Write down the round that has just ended."""
        now = time.perf_counter()
        stats, solution = fit.statistics, fit.solution
        record = RoundRecord(
            round=self.number,
            rows=self._rows,
            pace=(pace or EVERY_ROW).value,
            selected=float(stats.selected.sum()),
            changed=stats.changed_share,
            objective=self._objective.value(stats, solution.z),
            lagrangian=solution.lagrangian,
            primal_residual=solution.primal_residual,
            dual_residual=solution.dual_residual,
            rho=solution.rho,
            kkt_residual=self._objective.kkt_residual(stats, solution.z),
            iterations=len(solution.iterations),
            seconds=now - self._clock,
            batch_selected_share=tuple(stats.batch_selected_share.tolist()),
            **self._spent(),
        )
        self._clock = now
        self.number += 1
        self._rounds.append(record)
        self._iterations.extend(solution.iterations)
        return record

    @property
    def n_rounds(self) -> int:
        """How many rounds ended, a first fit of all rows not counted."""
        return sum(record.round > 0 for record in self._rounds)

    @property
    def history(self) -> History:
        """Everything written down so far."""
        return History(tuple(self._rounds), tuple(self._iterations))

    def _spent(self) -> dict[str, Any]:
        """Return what the ledger of the workers has gained since the last round."""
        now, then = self._workers.ledger, self._booked
        self._booked = _copy(now)
        return {
            "messages": now.messages - then.messages,
            "bytes_sent": now.bytes_sent - then.bytes_sent,
            "bytes_received": now.bytes_received - then.bytes_received,
            "batch_seconds": tuple(map(sub, now.seconds, then.seconds)),
        }


def _copy(ledger: Ledger) -> Ledger:
    sent, received = ledger.bytes_sent, ledger.bytes_received
    return Ledger(list(ledger.seconds), ledger.messages, sent, received)


def how_it_ended(
    settings: RoundSettings, rounds: int, fit: Fit, pace: Pace | None, ended: bool, done: bool
) -> Status:
    """Return the status of a fit that a callback `ended`, that is `done`, or that ran out."""
    if ended:
        return status.stopped_by_callback(rounds)
    if not done:
        final = pace is not None and settings.schedule.is_final(pace)
        return status.out_of_rounds(rounds, fit.statistics.changed_share, final)
    if not fit.solution.agreed:
        ran_out = status.out_of_iterations if fit.solution.iterations else status.out_of_steps
        return ran_out(rounds, settings.admm.max_iter)
    return status.converged(rounds)


def nothing_selected(pace: Pace, losses: LossSummary) -> NoRowSelectedError:
    """Return the error of a pace that lets no row in."""
    low, middle, high = (losses.loss_quantile(share) for share in (0.01, 0.5, 0.99))
    return NoRowSelectedError(
        f"The pace {pace.value:.3g} selects no row: at this point their losses have a "
        f"median of {middle:.3g}, and 98 % of them lie between {low:.3g} and {high:.3g}. Give a "
        f"pace on that scale, or one that needs none: pace=Quantile() or, for the squared loss, "
        f"pace=None."
    )
