"""From which residual on a row pulls no harder: nearer where mistakes pass for noise.

Around one line with noise that does not depend on X, Huber's fit has the same slopes wherever its
knee is, but for chance, however skewed or heavy-tailed the noise is. Mistakes that pass for noise
pull the slopes the more the further out they are: values that were swapped or drawn from anywhere
flatten them, wrong signs even more. So the slopes of a fit with a knee close to the median are
compared with those of the usual one. Where they differ by more than chance, the noise depends on X,
and the fit that listens less to rows far off is the one to go on from. Where the noise is clearly
skewed and no row is told from it, mistakes on one side look the same: they move the middle of the
rows, but little their median. At least the intercept then goes by a knee between the two. Where y
has few values, or one that most rows share, as small counts have, such a middle would lie between
two values, and the intercept goes by the close knee.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.special

from easyfirst.consensus.checks.robust_rows import FOR_NOTHING, RobustRows
from easyfirst.consensus.robust.huber import KNEE
from easyfirst.consensus.rounds.of_noise import PROX_STRENGTH, NoiseState
from easyfirst.consensus.solvers.gram import solve_normal, supported_basis
from easyfirst.consensus.starts.asked_rows import spread_rows
from easyfirst.consensus.starts.coarse_targets import has_few_values
from easyfirst.consensus.starts.found import SampleFit
from easyfirst.contracts import Matrix, Vector
from easyfirst.noise.fitting import CLEAR_SKEW

CLOSE = 0.35  # spreads of the noise: three quarters as efficient as least squares on normal rows
BETWEEN = 1.0  # the knee by which the middle of skewed noise is between median and mean
ROWS, PRODUCTS = 2000, 10**7  # at the most, or so many that a Gram matrix is cheap
FEWEST = 10  # rows per coefficient from which slopes can be compared
# How often slopes differ as much where the noise does not depend on X. Where the middle needs a
# close knee anyway (the second), slopes go by the usual one only for what that saves.
BY_CHANCE, BY_CHANCE_IF_SKEWED = 0.01, 0.2
NONE_IS_TOLD = 0.99  # clean share from which no row to speak of is told from noise
MOST_STEPS = 50
STILL = 0.002  # of a spread: a step that moves predictions by less is the last
LEAST_SUPPORT = 1e-10  # of a direction, over that of the best supported one


def with_knee(found: SampleFit, at: NoiseState) -> NoiseState:
    """Return where to go on from, with a close knee if slopes or the middle depend on it."""
    sample = found.sample
    q, has_intercept = sample.fleet.n_coef, sample.objective.fit_intercept
    rows = spread_rows(found, max(ROWS, PRODUCTS // q**2))
    if at.rule.knee == np.inf:
        return at
    if q < 1 + has_intercept or len(rows) < FEWEST * q:
        return at
    table = RobustRows.of(sample, rows)
    knee = CLOSE * min(at.noise.below, at.noise.above) / at.noise.scale  # by the narrower side
    close = _Fit.of(table, at, knee)
    near = replace(at, coef=close.coef, knee=knee)
    if at.noise.share >= NONE_IS_TOLD:
        if at.noise.skew >= CLEAR_SKEW:
            is_coarse = has_few_values(sample.rows.y)
            at = replace(at, middle_knee=knee if is_coarse else BETWEEN)
    # Where wrong rows are told from even noise, slopes that differ are those of a curve.
    elif at.scale_rule.is_even or table.costs(at.coef, close.coef) > FOR_NOTHING:
        return at
    if not sample.objective.is_unpenalised:  # a penalty shrinks slopes by how well they are known
        return at
    often = BY_CHANCE if at.middle_knee is None else BY_CHANCE_IF_SKEWED
    is_by_chance = _chance(_Fit.of(table, at, KNEE), close, q - has_intercept) > often
    return at if is_by_chance else _cheaper(table, at, near)


def _cheaper(table: RobustRows, at: NoiseState, near: NoiseState) -> NoiseState:
    """Return the fit with a close knee, by precision only where that costs no accuracy.

    Slopes that depend on the knee may be those of a curve, which precise rows bend further.
    """
    if not near.is_precise:
        return near
    alike = replace(at, is_precise=False)
    plain = replace(alike, coef=_Fit.of(table, alike, near.knee).coef, knee=near.knee)
    return plain if table.costs(plain.coef, near.coef) > 0.0 else near


class _Fit:
    """Huber's fit of the rows that look clean, and how far each of them moves the slopes."""

    def __init__(self, coef: Vector, influence: Matrix) -> None:
        self.coef, self.influence = coef, influence

    @classmethod
    def of(cls, table: RobustRows, at: NoiseState, knee: float) -> _Fit:
        """Fit the rows by the noise at some coefficients, with a knee of so many spreads."""
        scale = at.scale_rule.of(table.X)
        clean = table.counts * at.noise.posterior((table.y - table.design @ at.coef) / scale)
        unit = scale if at.is_precise else np.ones_like(scale)
        weights, width = clean / np.square(unit), knee * at.noise.spread
        coef, design = at.coef, table.design
        has_intercept = table.sample.objective.fit_intercept
        # Directions that hardly any row knows stay where they are.
        spread = np.maximum(design.var(axis=0), LEAST_SUPPORT)
        held = np.diag(PROX_STRENGTH * weights.sum() * spread)
        for _ in range(MOST_STEPS):
            left = table.y - design @ coef
            pull = weights * width / np.maximum(np.abs(left) / unit, width)
            matrix = (design * pull[:, None]).T @ design + held
            step = solve_normal(matrix, design.T @ (pull * left), has_intercept)[0]
            coef = coef + step
            if np.sqrt(np.mean(np.square(design @ step / unit))) < STILL * at.noise.spread:
                break
        left = (table.y - table.design @ coef) / unit
        basis = supported_basis(
            (table.design * (weights * (np.abs(left) < width))[:, None]).T @ table.design,
            LEAST_SUPPORT,
        )
        pushes = (weights * unit * np.clip(left, -width, width))[:, None] * table.design
        return cls(coef, pushes @ basis @ basis.T)


def _chance(usual: _Fit, close: _Fit, n_slopes: int) -> float:
    """Return how likely slopes differ as much by chance, each row speaking for its own part."""
    step = (close.coef - usual.coef)[:n_slopes]
    parts = (close.influence - usual.influence)[:, :n_slopes]
    basis = supported_basis(parts.T @ parts, LEAST_SUPPORT)
    if not basis.shape[1]:
        return 1.0
    freedom = max(len(parts) - parts.shape[1] - 1, 1)
    ratio = float(np.sum(np.square(step @ basis))) / basis.shape[1]
    return float(scipy.special.fdtrc(basis.shape[1], freedom, ratio))
