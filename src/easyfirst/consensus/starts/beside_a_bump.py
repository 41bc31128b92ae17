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

from easyfirst.calibration import ROUNDING
from easyfirst.consensus.rounds.calibrated import Start
from easyfirst.consensus.rounds.of_noise import NoiseState
from easyfirst.consensus.starts.two_kinds import BesideABump, Rows
from easyfirst.contracts import Matrix, Vector
from easyfirst.noise import BESIDE_A_BUMP, ScaleRule
from easyfirst.noise.bump import APART, TwoNormals
from easyfirst.noise.model import log_t, t_weight

STEPS = 80
EARLY, HALFWAY = 12, 0.5  # step by which a bump that is to be there is on its way, and how far
STILL = 1e-4  # change of a row's probability with which the last step is over
DEGREES = (np.inf, 8.0, 4.0, 2.5)  # of freedom, of noise of one piece


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
    known = [start for start in starts if start.scale]
    if not known or n < 2 * q + 3:
        return None
    rows = Rows.of(design, y)
    norms, unit = rows.norms, rows.unit
    coefs = np.array([start.coef for start in known]) * norms / unit
    at = BesideABump.of(rows, coefs, _scales(known, unit))
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


def _of_one_piece(rows: Rows) -> Iterator[float]:
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
        densities = (log_t(squares, degrees) - np.log(scale))[None]
        price = 0.5 * np.log(n) if degrees < np.inf else 0.0
        information = 1.0 if degrees == np.inf else (degrees + 1.0) / (degrees + 3.0)
        grams = information * rows.fitted(np.ones((1, n)))[1]
        yield float(rows.worth(densities, np.array([scale]), grams)[0]) - price
