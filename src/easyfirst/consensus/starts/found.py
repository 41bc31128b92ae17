"""The fit of a sample that was chosen, and how the fit of all rows goes on from there."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from easyfirst.calibration import shortfall
from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.history import RoundRecord
from easyfirst.consensus.rounds.calibrated import Start
from easyfirst.consensus.rounds.common import RoundSettings, RoundsResult
from easyfirst.consensus.solvers.gram import is_well_conditioned, relative_range
from easyfirst.consensus.starts.beside_a_bump import Beside
from easyfirst.consensus.starts.point_masses import PointMass
from easyfirst.consensus.starts.sample import Sample
from easyfirst.contracts import Matrix, Pace
from easyfirst.local.far_rows import FarRule

HOLLOW = 0.025  # shortfall of rows in the middle that a good fit does not reach
WORTH_PRECONDITIONING = 3  # rows per sampled row from which products with X are cheaper than X'X
ALIKE = 1.5  # how much further than by chance two Gram matrices may lie apart and be the same


@dataclass(frozen=True, eq=False)
class SampleFit:
    """The chosen fit of a sample, the sample it was found on, and which rows are far out in X."""

    fit: RoundsResult
    sample: Sample
    far: NDArray[np.bool_] | None = None
    masses: tuple[PointMass, ...] = ()
    beside: Beside | None = None  # rows that lie together, if the sample asks for that
    begun: tuple[Start, ...] = ()  # from which few rows were fitted
    cell: float = 0.0  # to which y is rounded, if the fit is exact for no other reason
    drawn: Sample | None = None  # the sample with the rows that were set aside, if there are any

    @property
    def whole(self) -> Sample:
        """All rows that were drawn."""
        return self.drawn or self.sample

    @property
    def aside(self) -> tuple[float, ...]:
        """Values of y whose rows took no part."""
        return tuple(mass.value for mass in self.masses if mass.is_aside)

    def settled(self, settings: RoundSettings) -> RoundSettings:
        """Return settings for all rows that take for granted what the sample did."""
        known = self.sample.settings.calibrated
        schedule = replace(
            settings.calibrated, granted=known.granted, per_coefficient=known.per_coefficient
        )
        return replace(settings, schedule=schedule)

    @property
    def far_rule(self) -> FarRule | None:
        """The rule that keeps far rows apart, if the fit needs it."""
        return self.sample.fleet.problem.far_rule

    def start(self, fleet: Fleet) -> Start:
        """Return where the fit of all rows begins.

        Where the sample is much smaller than the data, its Gram matrix preconditions the
        first rounds on all rows; likewise where it is all of the data. Several batches have clean
        shares of their own, which the sample's rounds did not know, but that changes the matrix
        by little.
        """
        times = fleet.total_weight / self.whole.fleet.total_weight
        start = continued(self.fit, times)
        n_rows, n_sampled = sum(fleet.n_rows), self.whole.n_samples
        is_same = n_rows == n_sampled
        saves = is_same or n_rows >= WORTH_PRECONDITIONING * n_sampled
        if start.gram is None or not (saves and is_well_conditioned(start.gram)):
            return start
        start = replace(start, pace=self._pace_of_all(fleet.n_batches))
        if is_same:
            return replace(start, preconditioner="own")
        return replace(start, gram=times * self._preconditioner(), preconditioner="borrowed")

    def _preconditioner(self) -> Matrix:
        """Return the sample's weighted Gram matrix, or a better estimate of what all rows have.

        If corruption takes no account of X, the matrix of all sampled rows has the same shape as
        that of the weighted ones, and far less noise where those are few.
        """
        statistics = self.fit.statistics
        weighted, n_kept = statistics.pooled_gram, float(statistics.weight.sum())
        every = (n_kept / self.sample.fleet.total_weight) * self.sample.gram_of_every_row()
        chance = np.sqrt(min(len(every) / max(n_kept, 1.0), 0.8))
        low, high = relative_range(weighted, every)
        alike = low > (1.0 - chance) ** 2 / ALIKE and high < ALIKE * (1.0 + chance) ** 2
        return every if alike else weighted

    def _pace_of_all(self, n_batches: int) -> Pace:
        """Return the sample's pace with its thresholds in every batch."""
        pace = self.fit.pace
        assert pace.thresholds is not None
        return replace(pace, thresholds=pace.thresholds * n_batches)


def no_callback(record: RoundRecord) -> bool:
    """Say nothing about rounds of fits that are only compared with others."""
    del record
    return False


def continued(fit: RoundsResult, times: float = 1.0) -> Start:
    """Return the end of one fit as the start of another on `times` as many rows."""
    if not fit.is_calibrated:
        return Start(fit.solution.z)
    return Start(
        coef=fit.solution.z,
        scale=fit.mixture.scale,
        pace=replace(fit.pace, thresholds=None),
        gram=times * fit.statistics.pooled_gram,
    )


def is_hollow(fit: RoundsResult) -> bool:
    """Return whether the fit misses rows in the middle that its clean part should have."""
    if not fit.is_calibrated:
        return True
    mixture = fit.mixture
    return shortfall(fit.known_losses, mixture) > float(HOLLOW + 2.0 / np.sqrt(mixture.clean))
