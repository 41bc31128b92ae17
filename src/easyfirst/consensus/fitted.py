"""The values that a fit returns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from easyfirst.calibration import mass_quantile, signed_quantile
from easyfirst.consensus.checks.extrapolation import FarPredictions
from easyfirst.consensus.checks.misfit import Misfit
from easyfirst.consensus.checks.second_opinion import Opinion
from easyfirst.consensus.checks.transforming import Advice
from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.history import History
from easyfirst.consensus.rounds.common import RoundsResult
from easyfirst.consensus.status import Status
from easyfirst.contracts import Vector
from easyfirst.noise import NoiseModel, ScaleRule
from easyfirst.noise.counts import NO_COUNTS, CountNoise


@dataclass(frozen=True, eq=False)
class Calibration:
    """What a calibrated fit knows besides its coefficients.

    `clean_mass` holds the expected number of clean rows in each bin, below and above zero.
    `standard_errors` are not a number where regularizer or penalty permit none. Rows whose y is
    one of the values `aside` are wrong, whatever their residual. For counts and amounts, rows are
    judged by `counts`, and `noise` is about the roots of their deviances.
    """

    noise: NoiseModel
    scale_rule: ScaleRule
    clean_mass: Vector
    anchor: float
    n_coef: int
    batch_shares: tuple[float, ...]
    corrupted_interval: tuple[float, float]
    standard_errors: Vector
    aside: tuple[float, ...] = ()
    counts: CountNoise = NO_COUNTS

    @property
    def is_of_counts(self) -> bool:
        """Whether the noise is that of counts or amounts."""
        return bool(self.counts.family)

    @property
    def has_standard_errors(self) -> bool:
        """Whether standard errors are known."""
        return not np.all(np.isnan(self.standard_errors))

    @property
    def corrupted_fraction(self) -> float:
        """The estimated share of corrupted rows."""
        return 1.0 - self.noise.share

    def is_aside(self, y: Vector) -> NDArray[np.bool_]:
        """Return which rows are wrong for their y alone."""
        return np.isin(y, self.aside)

    def bounds(self, coverage: float) -> tuple[float, float]:
        """Return between which residuals a new clean row lies, with this probability.

        In units of the row's own scale, which `scale_rule` gives.

        From the residuals of the clean rows, each counted by its weight. They are smaller than
        those of new rows by the share of the rows that the coefficients took.
        """
        clean = max(self.noise.clean, 1.0)
        level = min(coverage * (1.0 + 1.0 / clean), 1.0)
        taken = min(self.n_coef / clean, 0.9)
        inflation = float(np.sqrt((1.0 + taken) / (1.0 - taken)))
        mass = self.clean_mass.reshape(2, -1)
        if self.noise.is_symmetric:
            half = inflation * mass_quantile(mass.sum(axis=0), self.anchor, level)
            return -half, half
        tail = 0.5 * (1.0 - level)
        return (
            inflation * signed_quantile(mass, self.anchor, tail),
            inflation * signed_quantile(mass, self.anchor, 1.0 - tail),
        )


@dataclass(frozen=True, eq=False)
class FittedModel:
    """The result of a fit, in the solver's coordinates; `fleet` can weigh its rows.

    `redundant` are columns that differ in directions which were left out of the coefficients;
    `far` is about rows that are predicted beyond any y; errors grow along the columns `growing`.
    """

    fleet: Fleet
    coef: Vector
    rank: int
    rounds: RoundsResult
    history: History
    status: Status
    calibration: Calibration | None = None
    doubts: tuple[str, ...] = ()
    opinion: Opinion = field(default_factory=Opinion)
    advice: Advice | None = None
    notes: tuple[str, ...] = ()
    redundant: tuple[int, ...] = ()
    far: FarPredictions | None = None
    misfit: Misfit = field(default_factory=Misfit)
    growing: tuple[int, ...] = ()

    @property
    def noise(self) -> NoiseModel | None:
        """The noise around the coefficients, where it is known."""
        return None if self.calibration is None else self.calibration.noise
