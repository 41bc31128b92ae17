"""All fits that few rows make likely, and how likely each of them is beside the others.

A few dozen rows do not tell normal noise from noise with tails, nor whether the row that lies
furthest off is wrong, and now and then some of them agree by chance. So coefficients are found by
each kind of noise and from each start, and every fit counts by its likelihood, coefficients
integrated out and parameters paid for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from easyfirst.calibration import PSEUDO_ROWS, ROUNDING
from easyfirst.consensus.robust.huber import huber
from easyfirst.consensus.rounds.calibrated import Start
from easyfirst.consensus.starts.choice import PLAIN_MAJORITY
from easyfirst.consensus.starts.two_kinds import BesideABump, BesideAnything, Rows, TwoKinds
from easyfirst.consensus.starts.voting import is_a_tail
from easyfirst.contracts import Matrix, Vector
from easyfirst.noise import BESIDE_A_BUMP, Kind, NoiseModel
from easyfirst.noise.bump import APART, TwoNormals
from easyfirst.noise.fitting import MOST_SKEW
from easyfirst.noise.model import log_t, t_weight
from easyfirst.noise.zones import NEAR

STEPS = 60
STILL = 1e-2  # change of a row's weight with which the last step is over
LOOKS = (2, 4, 8, 16, 32)  # steps after which starts that have met go on as one
MET = 0.02  # difference in the weights of all rows
SAME = 0.05  # difference in the weights of all rows, of two ends that are one
SKEW = 2.0  # parameters of noise with two sides
DEGREES = (np.inf, 8.0, 4.0, 2.5)  # of freedom, of noise of one piece
LEAST_WORTH = 0.2  # of the rows' weight, that they are worth to the coefficients


@dataclass(frozen=True, eq=False)
class LikelyFit:
    """Coefficients with their covariance, the noise around them, and the weight of every row.

    `worth` is the logarithm of how likely the fit is, up to a constant.
    """

    coef: Vector
    covariance: Matrix
    worth: float
    noise: NoiseModel
    kind: Kind
    weights: Vector

    @property
    def sets_aside(self) -> NDArray[np.bool_]:
        """Which rows are more likely wrong than clean."""
        return np.asarray((self.weights < 0.5) & (self.kind.zones is not None))


@dataclass(frozen=True, eq=False)
class Average:
    """The mean of likely fits, its covariance, and the fit that is the likeliest."""

    coef: Vector
    covariance: Matrix
    likeliest: LikelyFit

    @classmethod
    def of(cls, fits: Sequence[LikelyFit]) -> Average:
        """Count every fit by how likely it is."""
        worth = np.array([fit.worth for fit in fits])
        chance = np.exp(worth - worth.max())
        chance /= chance.sum()
        coefs = np.array([fit.coef for fit in fits])
        coef = chance @ coefs
        covariance = np.einsum("k,kij->ij", chance, np.array([fit.covariance for fit in fits]))
        away = coefs - coef
        covariance += np.einsum("k,ki,kj->ij", chance, away, away)
        return cls(coef, covariance, fits[int(np.argmax(worth))])


def likely_fits(
    design: Matrix, y: Vector, starts: Sequence[Start], inside: NDArray[np.bool_] | None = None
) -> list[LikelyFit]:
    """Return the fits of a majority to which the starts lead, by every kind of noise.

    Rows that are not `inside` have no vote: far out in X, they agree with the fit that they draw.
    """
    rows = Rows.of(design, y, inside)
    coefs = np.array([start.coef for start in starts]) * rows.norms / rows.unit
    scales = np.array([start.scale or 0.0 for start in starts]) / rows.unit
    scales = np.maximum(scales, ROUNDING)
    return [
        *_beside(BesideAnything.of(rows, coefs, scales), rows),
        *_beside(BesideABump.of(rows, coefs, scales), rows),
        *_of_one_piece(rows, coefs[:1], scales[:1]),
        *_skewed(rows),
    ]


def _beside(at: TwoKinds, rows: Rows) -> Iterator[LikelyFit]:
    """Yield the fits of clean rows beside others."""
    n = len(rows.y)
    for number in range(1, STEPS + 1):
        last, at = at, at.step(rows)
        if np.max(np.abs(at.clean - last.clean)) < STILL:
            break
        if number in LOOKS:
            at = at.only(_apart(at.clean))
    permitted = at.clean.sum(axis=1) >= 0.5 * n
    permitted &= at.clean[:, rows.inside].sum(axis=1) >= 0.5 * rows.n_inside
    if isinstance(at, BesideABump):
        permitted &= at.is_apart_by(APART)
    worth = at.worth(rows)
    for number in _different(at.clean, worth, permitted):
        scale, clean = float(at.scales[number]), at.clean[number]
        residual = rows.y - rows.design @ at.coefs[number]
        few = clean[rows.inside].mean() < PLAIN_MAJORITY
        if few and is_a_tail(residual[rows.inside] / scale):
            continue
        slope = clean * (1.0 - (1.0 - clean) * at.tells(number, residual))
        covariance = _covariance(at.grams[number], residual, clean, slope)
        noise, kind = _noise_of(at, number, rows.unit)
        yield _in_units(rows, at.coefs[number], covariance, worth[number], noise, kind, clean)


def _apart(clean: Matrix) -> list[int]:
    """Return the numbers of those that have not met an earlier one."""
    found: list[int] = []
    for number, own in enumerate(clean):
        if not found or np.min(np.max(np.abs(clean[found] - own), axis=1)) >= MET:
            found.append(number)
    return found


def _noise_of(at: TwoKinds, number: int, unit: float) -> tuple[NoiseModel, Kind]:
    """Return the noise around one of the fits, for y in another unit."""
    n, share = at.clean.shape[1], float(at.clean[number].mean())
    scale = unit * float(at.scales[number])
    if isinstance(at, BesideABump):
        bump = (unit * float(at.locations[number]), unit * float(at.spreads[number]))
        return TwoNormals(share, scale, *bump).noise(float(n)), BESIDE_A_BUMP
    assert isinstance(at, BesideAnything)
    level = (1.0 - share) / (unit * float(at.ranges[number]))
    kind = Kind(has_skew=False, has_tails=False, zones=(0.0, NEAR[-1]))
    return _model(n, share, scale, np.inf, level), kind


def _of_one_piece(rows: Rows, coefs: Matrix, scales: Vector) -> Iterator[LikelyFit]:
    """Yield the fits of all rows by one kind of noise, with more and more tails."""
    n, q = rows.design.shape
    everyone = np.ones((1, n))
    begun = np.vstack([rows.fitted(everyone)[0], coefs])
    left = rows.y - begun @ rows.design.T
    spread = np.append(np.sqrt(np.sum(np.square(left[:1]), axis=1) / (n - q)), scales)
    spread = np.maximum(spread, ROUNDING)
    dof = np.repeat(DEGREES[1:], len(begun))[:, None]
    squares = np.tile(np.square(left / spread[:, None]), (len(DEGREES) - 1, 1))
    dof, squares = np.vstack([[[np.inf]], dof]), np.vstack([np.zeros((1, n)), squares])
    weights = _weights(squares, dof)
    for _ in range(STEPS):
        found, grams = rows.fitted(weights)
        residual = rows.y - found @ rows.design.T
        variance = np.sum(weights * np.square(residual), axis=1) / (n - q)
        scale = np.sqrt(np.maximum(variance, ROUNDING**2))
        squares = np.square(residual / scale[:, None])
        last, weights = weights, _weights(squares, dof)
        if np.max(np.abs(weights - last)) < STILL:
            break
    logs = np.vstack([log_t(squares[:1], np.inf), log_t(squares[1:], dof[1:])])
    information = np.append(1.0, (dof[1:] + 1.0) / (dof[1:] + 3.0))
    expected = information[:, None, None] * rows.fitted(everyone)[1]
    price = np.where(dof[:, 0] < np.inf, 0.5 * np.log(rows.n_inside), 0.0)
    worth = rows.worth(logs - np.log(scale)[:, None], scale, expected) - price
    for number in _different(weights, worth, np.isfinite(worth)):
        degrees, weight = float(dof[number, 0]), weights[number]
        slope = weight
        if degrees < np.inf:
            slope = weight - 2.0 * np.square(weight) * squares[number] / (degrees + 1.0)
        covariance = _covariance(grams[number], residual[number], weight, slope)
        wide = rows.unit * float(scale[number])
        level = PSEUDO_ROWS / (NEAR[-1] * wide) / n
        noise = _model(n, 1.0 - 2.0 * PSEUDO_ROWS / n, wide, degrees, level)
        kind = Kind(has_skew=False, has_tails=degrees < np.inf, zones=None)
        yield _in_units(rows, found[number], covariance, worth[number], noise, kind, weight)


def _skewed(rows: Rows) -> Iterator[LikelyFit]:
    """Yield the fit of all rows by a normal with a scale of its own on either side of its mode.

    Its intercept is moved to the middle of the rows by Huber's rule; without one there is no fit.
    """
    n, q = rows.design.shape
    if not np.all(rows.design[:, -1] == 1.0):
        return
    weights = np.ones((1, n))
    for _ in range(STEPS):
        coefs, grams = rows.fitted(weights)
        residual = rows.y - rows.design @ coefs[0]
        is_below, squares = residual < 0.0, np.square(residual)
        sums = np.array([squares[is_below].sum(), squares[~is_below].sum()]) * n / (n - q)
        roots = np.cbrt(np.maximum(sums, ROUNDING**2))
        sides = roots * np.sqrt(roots.sum() / n)
        sides = np.maximum(sides, sides.max() / MOST_SKEW)
        scale = float(sides.mean())
        own = np.where(is_below, sides[0], sides[1])
        last, weights = weights, np.square(scale / own)[None]
        if np.max(np.abs(weights - last)) < STILL:
            break
    densities = log_t(np.square(residual / own), np.inf)[None] - np.log(scale)
    worth = rows.worth(densities, np.array([scale]), grams)[0] - 0.5 * SKEW * np.log(rows.n_inside)
    middle = float(huber(np.ones((n, 1)), residual, np.array([np.median(residual)]), np.ones(n))[0])
    coef = np.append(coefs[0][:-1], coefs[0][-1] + middle)
    covariance = _covariance(grams[0], residual, weights[0], weights[0])
    level = PSEUDO_ROWS / (NEAR[-1] * rows.unit * scale) / n
    share = 1.0 - 2.0 * PSEUDO_ROWS / n
    below, above = (rows.unit * sides).tolist()
    center = -rows.unit * middle
    noise = NoiseModel(float(n), share, center, below, above, np.inf, (-np.inf,), (level,))
    kind = Kind(has_skew=True, has_tails=False, zones=None)
    yield _in_units(rows, coef, covariance, worth, noise, kind, weights[0])


def _weights(squares: Matrix, dof: Matrix) -> Matrix:
    weights = np.ones_like(squares)
    weights[1:] = t_weight(squares[1:], dof[1:])
    return weights


def _different(weights: Matrix, worth: Vector, permitted: Vector) -> Iterator[int]:
    """Yield the numbers of ends that are no other end, the best first."""
    seen: list[int] = []
    for number in np.argsort(-worth, kind="stable").tolist():
        apart = (np.max(np.abs(weights[number] - weights[other])) >= SAME for other in seen)
        if permitted[number] and all(apart):
            seen.append(number)
            yield number


def _covariance(gram: Matrix, residual: Vector, weight: Vector, slope: Vector) -> Matrix:
    """Return the covariance of coefficients whose rows pull with weight times residual.

    As in `inference.standard_errors`.
    """
    q = len(gram)
    total, worth = float(weight.sum()), max(float(slope.sum()), LEAST_WORTH * float(weight.sum()))
    rest = max(total - q, 1.0)
    worth = max(worth - q * float(np.sum(np.square(slope))) / worth, 1.0)
    pull = float(np.sum(np.square(weight * residual)))
    return np.asarray(pull * rest / worth**2 * np.linalg.pinv(gram, hermitian=True))


def _model(n: int, share: float, scale: float, dof: float, level: float) -> NoiseModel:
    return NoiseModel(float(n), share, 0.0, scale, scale, dof, (-np.inf,), (level,))


def _in_units(
    rows: Rows,
    coef: Vector,
    covariance: Matrix,
    worth: float,
    noise: NoiseModel,
    kind: Kind,
    weights: Vector,
) -> LikelyFit:
    units = rows.unit / rows.norms
    return LikelyFit(
        coef * units, covariance * np.outer(units, units), float(worth), noise, kind, weights
    )
