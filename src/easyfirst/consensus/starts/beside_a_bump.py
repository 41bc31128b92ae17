"""Few rows of which some lie together beside the others: a number added, another unit.

Taken as flat, such rows are told from clean ones only where they are many or far off: a flat part
that reaches from the clean rows to them explains little. As a second normal they are told by fewer.
Coefficients and both normals are fitted together from every start, and the likeliest fit counts if
it is worth its parameters beside noise of one piece, with tails or without.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from easyfirst.calibration import ROUNDING
from easyfirst.consensus.rounds.calibrated import Start
from easyfirst.consensus.rounds.of_noise import NoiseState
from easyfirst.contracts import Matrix, Vector
from easyfirst.noise import BESIDE_A_BUMP, ScaleRule
from easyfirst.noise.bump import APART, TwoNormals
from easyfirst.noise.model import log_t, t_weight

STEPS = 80
EARLY, HALFWAY = 12, 0.5  # step by which a bump that is to be there is on its way, and how far
STILL = 1e-4  # change of a row's probability with which the last step is over
NEAR = 2.5  # scales of a start within which rows are clean at first
SURE = 0.98  # probability of that
PARAMETERS = 3.0  # of a bump: its share, location and spread
DEGREES = (np.inf, 8.0, 4.0, 2.5)  # of freedom, of noise of one piece
FREEDOM_LEFT = 0.25  # of the clean rows, at the least, after what the coefficients took
TRACE = 1e-10  # of ridge, which keeps the system of a bad start regular


@dataclass(frozen=True, eq=False)
class Beside:
    """A fit beside a bump: where it is, its noise, the share of clean rows, and its gain.

    The gain is that of the log-likelihood, coefficients integrated out and parameters paid for,
    over noise of one piece.
    """

    coef: Vector
    normals: TwoNormals
    gain: float

    def state(self, total: float) -> NoiseState:
        """Return where rounds by this noise begin, of so many rows."""
        return NoiseState(self.coef, self.normals.noise(total), ScaleRule.even(), BESIDE_A_BUMP)


def best_beside_a_bump(
    design: Matrix, y: Vector, starts: Sequence[Start], n_rows: int
) -> Beside | None:
    """Return the likeliest fit of a majority of all rows, of which these may be a part.

    None if its corrupted rows do not lie together beside the others, but anywhere around them.
    """
    n, q = design.shape
    norms = np.sqrt(np.mean(np.square(design), axis=0))
    norms[norms == 0] = 1.0
    unit = float(np.abs(y).max(initial=0.0)) or 1.0
    known = [start for start in starts if start.scale]
    if not known or n < 2 * q + 3:
        return None
    rows = _Rows(design / norms, y / unit)
    at = _Beside.of(rows, np.array([s.coef for s in known]) * norms / unit, _scales(known, unit))
    for number in range(STEPS):
        last, at = at, at.step(rows)
        # Of clean rows alone no start leads to a bump, which shows long before they come to rest.
        if number == EARLY and not np.any(at.is_apart_by(HALFWAY * APART)):
            return None
        if np.max(np.abs(at.clean - last.clean)) < STILL:
            break
    is_majority = at.clean.sum(axis=1) >= 0.5 * (n_rows + q)
    worth = np.where(is_majority, at.worth(rows), -np.inf)
    best = int(np.argmax(worth))
    if not (is_majority & at.is_apart_by(APART))[best]:
        return None
    gain = float(worth[best]) - max(_of_one_piece(rows))
    scale, location, spread = (
        unit * float(each[best]) for each in (at.scales, at.locations, at.spreads)
    )
    normals = TwoNormals(float(at.clean[best].mean()), scale, location, spread)
    return Beside(unit * at.coefs[best] / norms, normals, gain)


def _scales(starts: Sequence[Start], unit: float) -> Vector:
    return np.maximum(np.array([start.scale for start in starts]) / unit, ROUNDING)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Columns of about unit size, and y of at most one."""

    design: Matrix
    y: Vector

    def fitted(self, weights: Matrix) -> tuple[Matrix, Matrix]:
        """Return the coefficients and the Gram matrix of every weighting."""
        q = self.design.shape[1]
        grams = np.matmul(self.design.T * weights[:, None, :], self.design)
        size = np.maximum(np.trace(grams, axis1=1, axis2=2), TRACE)
        grams += (TRACE / q) * size[:, None, None] * np.eye(q)
        pull = ((weights * self.y) @ self.design)[..., None]
        return np.asarray(np.linalg.solve(grams, pull)[..., 0]), np.asarray(grams)

    def worth(self, likelihood: Vector, scales: Vector, grams: Matrix) -> Vector:
        """Return the log-likelihood with the coefficients integrated out.

        Of two fits as likely, the one with more noise is the one near which more others are.
        """
        q = self.design.shape[1]
        return np.asarray(likelihood + q * np.log(scales) - 0.5 * np.linalg.slogdet(grams)[1])


@dataclass(frozen=True, eq=False)
class _Beside:
    """For every start: coefficients, how likely each row is clean, and both normals."""

    coefs: Matrix
    clean: Matrix
    scales: Vector
    locations: Vector
    spreads: Vector
    grams: Matrix
    densities: Matrix  # logarithms, of all rows

    @classmethod
    def of(cls, rows: _Rows, coefs: Matrix, scales: Vector) -> _Beside:
        """Begin with the rows near the starts as clean ones."""
        near = np.abs(rows.y - coefs @ rows.design.T) < NEAR * scales[:, None]
        return cls._by(rows, np.where(near, SURE, 1.0 - SURE))

    def step(self, rows: _Rows) -> _Beside:
        """Do one step of expectation maximisation."""
        return self._by(rows, self.clean)

    @classmethod
    def _by(cls, rows: _Rows, clean: Matrix) -> _Beside:
        n, q = rows.design.shape
        coefs, grams = rows.fitted(clean)
        residual = rows.y - coefs @ rows.design.T
        count = clean.sum(axis=1)
        freedom = np.maximum(count - q, FREEDOM_LEFT * count)
        scales = np.sqrt(np.sum(clean * np.square(residual), axis=1) / freedom)
        scales = np.maximum(scales, ROUNDING)
        wrong, others = 1.0 - clean, np.maximum(n - count, 1e-9)
        locations = np.sum(wrong * residual, axis=1) / others
        away = residual - locations[:, None]
        spreads = np.sqrt(np.sum(wrong * np.square(away), axis=1) / others)
        spreads = np.maximum(spreads, scales)  # wrong rows have the noise of the others at least
        share = np.clip(count / n, 0.5 / n, 1.0 - 0.5 / n)
        by_clean = _log_normal(residual, share, scales)
        by_bump = _log_normal(away, 1.0 - share, spreads)
        density = np.logaddexp(by_clean, by_bump)
        return cls(coefs, expit(by_clean - by_bump), scales, locations, spreads, grams, density)

    def is_apart_by(self, spreads: float) -> Vector:
        """Which bumps are beside the clean rows, by so many of their spreads, and there at all."""
        is_there = np.sum(self.clean < 0.5, axis=1) > 1
        return np.asarray(is_there & (np.abs(self.locations) >= spreads * self.spreads))

    def worth(self, rows: _Rows) -> Vector:
        """Return what the fits are worth, their bumps paid for."""
        price = 0.5 * PARAMETERS * np.log(len(rows.y))
        return np.asarray(rows.worth(self.densities.sum(axis=1), self.scales, self.grams) - price)


def _log_normal(away: Matrix, share: Vector, scale: Vector) -> Matrix:
    height = np.log(share) - np.log(scale)
    return np.asarray(height[:, None] + log_t(np.square(away / scale[:, None]), np.inf))


def _of_one_piece(rows: _Rows) -> Iterator[float]:
    """Yield what fits of all rows are worth, by noise with more and more tails."""
    n, q = rows.design.shape
    weights = np.ones((1, n))
    for degrees in DEGREES:
        for _ in range(STEPS if degrees < np.inf else 1):
            coefs, grams = rows.fitted(weights)
            residual = (rows.y - coefs @ rows.design.T)[0]
            scale = np.sqrt(max(float(weights[0] @ np.square(residual)) / (n - q), ROUNDING**2))
            squares = np.square(residual / scale)
            last, weights = weights, t_weight(squares, degrees)[None]
            if np.max(np.abs(weights - last)) < STILL:
                break
        likelihood = float(np.sum(log_t(squares, degrees))) - n * np.log(scale)
        price = 0.5 * np.log(n) if degrees < np.inf else 0.0
        information = 1.0 if degrees == np.inf else (degrees + 1.0) / (degrees + 3.0)
        grams = information * rows.fitted(np.ones((1, n)))[1]
        yield float(rows.worth(np.array([likelihood]), np.array([scale]), grams)[0]) - price
