"""Two kinds of few rows, fitted together: clean ones with normal noise, and others beside them.

Coefficients, the noise of the clean rows and the density of the others are found by expectation
maximisation, from several starts side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from easyfirst.calibration import ROUNDING
from easyfirst.contracts import Matrix, Vector
from easyfirst.noise.model import log_t

NEAR = 2.5  # scales of a start within which rows are clean at first
SURE = 0.98  # probability of that
FREEDOM_LEFT = 0.25  # of the clean rows, at the least, after what the coefficients took
TRACE = 1e-10  # of ridge, which keeps the system of a bad start regular


@dataclass(frozen=True, eq=False)
class Rows:
    """Columns of about unit size, and y of at most one; `norms` and `unit` lead back.

    Rows that are not `inside` lie far out in X: they have a clean share of their own, and no vote.
    """

    design: Matrix
    y: Vector
    norms: Vector
    unit: float
    inside: NDArray[np.bool_]

    @classmethod
    def of(cls, design: Matrix, y: Vector, inside: NDArray[np.bool_] | None = None) -> Rows:
        """Bring the columns and y to unit size."""
        norms = np.sqrt(np.mean(np.square(design), axis=0))
        norms[norms == 0] = 1.0
        unit = float(np.abs(y).max(initial=0.0)) or 1.0
        inside = np.ones(y.size, dtype=bool) if inside is None else inside
        return cls(design / norms, y / unit, norms, unit, inside)

    @property
    def n_inside(self) -> int:
        """How many rows have a vote."""
        return int(self.inside.sum())

    def fitted(self, weights: Matrix) -> tuple[Matrix, Matrix]:
        """Return the coefficients and the Gram matrix of every weighting."""
        q = self.design.shape[1]
        grams = np.matmul(self.design.T * weights[:, None, :], self.design)
        size = np.maximum(np.trace(grams, axis1=1, axis2=2), TRACE)
        grams += (TRACE / q) * size[:, None, None] * np.eye(q)
        pull = ((weights * self.y) @ self.design)[..., None]
        return np.asarray(np.linalg.solve(grams, pull)[..., 0]), np.asarray(grams)

    def worth(self, densities: Matrix, scales: Vector, grams: Matrix) -> Vector:
        """Return the log-likelihood of the rows inside with the coefficients integrated out.

        Of two fits as likely, the one with more noise is the one near which more others are.
        """
        q = self.design.shape[1]
        likelihood = densities[:, self.inside].sum(axis=1)
        return np.asarray(likelihood + q * np.log(scales) - 0.5 * np.linalg.slogdet(grams)[1])


@dataclass(frozen=True, eq=False)
class TwoKinds:
    """For every start: coefficients, how likely each row is clean, and the noise of those.

    Subclasses know how the other rows lie around the fit.
    """

    coefs: Matrix
    clean: Matrix
    scales: Vector
    grams: Matrix
    densities: Matrix  # logarithms, of all rows

    parameters: ClassVar[float]  # of how the other rows lie, their share included

    @classmethod
    def of(cls, rows: Rows, coefs: Matrix, scales: Vector) -> Self:
        """Begin with the rows near the starts as clean ones."""
        near = np.abs(rows.y - coefs @ rows.design.T) < NEAR * scales[:, None]
        return cls._by(rows, np.where(near, SURE, 1.0 - SURE))

    def step(self, rows: Rows) -> Self:
        """Do one step of expectation maximisation."""
        return self._by(rows, self.clean)

    def only(self, numbers: Sequence[int]) -> Self:
        """Return some of the starts."""
        return type(self)(*(getattr(self, field.name)[numbers] for field in fields(self)))

    @classmethod
    def _by(cls, rows: Rows, clean: Matrix) -> Self:
        q = rows.design.shape[1]
        coefs, grams = rows.fitted(clean)
        residual = rows.y - coefs @ rows.design.T
        count = clean.sum(axis=1)
        freedom = np.maximum(count - q, FREEDOM_LEFT * count)
        scales = np.sqrt(np.sum(clean * np.square(residual), axis=1) / freedom)
        scales = np.maximum(scales, ROUNDING)
        share = np.empty_like(clean)
        for band in (rows.inside, ~rows.inside):
            in_all = max(int(band.sum()), 1)
            of_band = clean[:, band].sum(axis=1) / in_all
            share[:, band] = np.clip(of_band, 0.5 / in_all, 1.0 - 0.5 / in_all)[:, None]
        by_clean = log_normal(residual, share, scales)
        by_others, *how = cls._others(residual, 1.0 - clean, scales, 1.0 - share)
        density = np.logaddexp(by_clean, by_others)
        return cls(coefs, expit(by_clean - by_others), scales, grams, density, *how)

    @classmethod
    def _others(
        cls, residual: Matrix, wrong: Matrix, scales: Vector, share: Matrix
    ) -> tuple[Matrix, *tuple[Vector, ...]]:
        """Return the log density of the other rows, and what describes it."""
        raise NotImplementedError

    def tells(self, number: int, residual: Vector) -> Vector:
        """Return by how much less likely a row becomes to be clean, for each share it is off more.

        In the logarithm of the odds, at the fit of one start.
        """
        return np.asarray(np.square(residual / self.scales[number]))

    def worth(self, rows: Rows) -> Vector:
        """Return what the fits are worth, their parameters paid for."""
        price = 0.5 * self.parameters * np.log(rows.n_inside)
        return np.asarray(rows.worth(self.densities, self.scales, self.grams) - price)


@dataclass(frozen=True, eq=False)
class BesideABump(TwoKinds):
    """The other rows lie together: a second normal, no narrower than the first."""

    locations: Vector
    spreads: Vector

    parameters: ClassVar[float] = 3.0  # share, location and spread

    @classmethod
    def _others(
        cls, residual: Matrix, wrong: Matrix, scales: Vector, share: Matrix
    ) -> tuple[Matrix, Vector, Vector]:
        others = np.maximum(wrong.sum(axis=1), 1e-9)
        locations = np.sum(wrong * residual, axis=1) / others
        away = residual - locations[:, None]
        spreads = np.sqrt(np.sum(wrong * np.square(away), axis=1) / others)
        spreads = np.maximum(spreads, scales)  # wrong rows have the noise of the others at least
        return log_normal(away, share, spreads), locations, spreads

    def tells(self, number: int, residual: Vector) -> Vector:
        """Return the same; towards the bump a row becomes more likely to be of it."""
        away = (residual - self.locations[number]) / self.spreads[number] ** 2
        return np.asarray(super().tells(number, residual) - residual * away)

    def is_apart_by(self, spreads: float) -> Vector:
        """Which bumps are beside the clean rows, by so many of their spreads, and there at all."""
        is_there = np.sum(self.clean < 0.5, axis=1) > 1
        return np.asarray(is_there & (np.abs(self.locations) >= spreads * self.spreads))


@dataclass(frozen=True, eq=False)
class BesideAnything(TwoKinds):
    """The other rows lie anywhere in the range of the residuals."""

    ranges: Vector

    parameters: ClassVar[float] = 2.0  # share and range

    @classmethod
    def _others(
        cls, residual: Matrix, wrong: Matrix, scales: Vector, share: Matrix
    ) -> tuple[Matrix, Vector]:
        ranges = np.maximum(np.ptp(residual, axis=1), scales)
        return np.log(share) - np.log(ranges)[:, None], ranges


def log_normal(away: Matrix, share: Matrix, scale: Vector) -> Matrix:
    """Return the logarithm of a normal density, by its share of all rows."""
    height = np.log(share) - np.log(scale)[:, None]
    return np.asarray(height + log_t(np.square(away / scale[:, None]), np.inf))
