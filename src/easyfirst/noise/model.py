"""What clean residuals look like when they are not normal, beside a broad corrupted part.

The clean part is a two-piece Student t: a center, a scale on each side of it, and a number of
degrees of freedom; the normal is the member without tails and without skew. The corrupted part is
a step function. `docs/calibrated-pace.md` derives it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammaln, stdtrit

from easyfirst.calibration import LARGEST_EXPONENT, WINDOW, CleanMixture
from easyfirst.contracts import Vector

MIDDLE_HALF = 0.6744897501960817  # upper quartile of the standard normal
LEAST = 1e-300


@dataclass(frozen=True)
class NoiseModel:
    """Clean rows as a two-piece t around `center`, corrupted ones as steps of a density.

    Parameters
    ----------
    total
        Rows that it was fitted to.
    share
        The share of clean rows.
    center, below, above, dof
        The clean part: its mode, the scale on each side, the degrees of freedom.
    edges, levels
        Corrupted rows per unit of the residual, over all rows: levels[k] holds from edges[k] on.
    """

    total: float
    share: float
    center: float
    below: float
    above: float
    dof: float
    edges: tuple[float, ...]
    levels: tuple[float, ...]

    @property
    def scale(self) -> float:
        """The clean part's scale: the mean of both sides'."""
        return 0.5 * (self.below + self.above)

    @property
    def clean(self) -> float:
        """The number of clean rows."""
        return self.share * self.total

    @property
    def skew(self) -> float:
        """The larger of the two scales over the smaller."""
        return max(self.below, self.above) / min(self.below, self.above)

    @property
    def is_normal(self) -> bool:
        """Whether the clean part has neither tails nor skew."""
        return self.dof == np.inf and self.below == self.above

    @property
    def has_corrupted_part(self) -> bool:
        """Whether any row can be corrupted."""
        return any(self.levels)

    @property
    def is_symmetric(self) -> bool:
        """Whether the clean part is the same on both sides of zero."""
        return self.below == self.above and self.center == 0.0

    def clean_density(self, residual: Vector) -> Vector:
        """Return the density of clean rows, over all rows."""
        z = (residual - self.center) / np.where(residual < self.center, self.below, self.above)
        return np.asarray(self.share / self.scale * np.exp(log_t(np.square(z), self.dof)))

    def corrupted_density(self, residual: Vector) -> Vector:
        """Return the density of corrupted rows, over all rows."""
        return np.asarray(self._levels[np.searchsorted(self._inner_edges, residual, side="right")])

    def posterior(self, residual: Vector, share: float | Vector | None = None) -> Vector:
        """Return the probability of being clean, for rows whose clean share may be their own."""
        corrupted = self.corrupted_density(residual)
        if share is not None:
            least = 1.0 / (self.total + 2.0)
            own, all_rows = (
                np.clip(share, least, 1.0 - least),
                np.clip(self.share, least, 1 - least),
            )
            corrupted = corrupted * ((1.0 - own) / own * (all_rows / (1.0 - all_rows)))
        clean = self.clean_density(residual)
        return np.asarray(clean / np.maximum(clean + corrupted, LEAST))

    def score(self, residual: Vector) -> Vector:
        """Return minus the slope of the clean part's log density: how fast it falls."""
        side = np.where(residual < self.center, self.below, self.above)
        z = (residual - self.center) / side
        return np.asarray(z / side * t_weight(np.square(z), self.dof))

    @property
    def spread(self) -> float:
        """The clean part's scale as a normal would have it, from its middle half."""
        half = stdtrit(self.dof, 0.75) if self.dof < np.inf else MIDDLE_HALF
        return self.scale * float(half) / MIDDLE_HALF

    @property
    def reach(self) -> float:
        """The largest distance from zero at which a row is more likely clean than not."""
        grid = self.scale * np.linspace(0.0, 40.0, 801)
        likely = np.minimum(self.posterior(-grid), self.posterior(grid)) >= 0.5
        return float(grid[-1] if likely.all() else grid[max(int(np.argmin(likely)) - 1, 0)])

    @cached_property
    def _levels(self) -> Vector:
        return np.array(self.levels)

    @cached_property
    def _inner_edges(self) -> Vector:
        return np.array(self.edges[1:])


def of_mixture(mixture: CleanMixture) -> NoiseModel:
    """Return a normal mixture as a noise model; beyond its window every row is corrupted."""
    reach = WINDOW * mixture.scale
    below, above = mixture.below / mixture.total, mixture.above / mixture.total
    return NoiseModel(
        total=mixture.total,
        share=mixture.share,
        center=0.0,
        below=mixture.scale,
        above=mixture.scale,
        dof=np.inf,
        edges=(-reach, 0.0),
        levels=(below, above),
    )


def influence_slope(v: Vector, fall: Vector, own: Vector | float = 1.0) -> Vector:
    """Return the slope of v r by the residual r, v being the probability of a clean row.

    `fall` is r times the score of the clean part: v falls by v (1 - v) times the score. `own` is
    the slope of r itself, which is zero where it is cut off.
    """
    return np.asarray(v * (own - (1.0 - v) * np.minimum(fall, LARGEST_EXPONENT)))


def log_t(squares: Vector, dof: float | Vector) -> Vector:
    """Return the logarithm of the density of Student's t; of the normal for infinity."""
    if isinstance(dof, float) and dof == np.inf:
        return np.asarray(-0.5 * squares - 0.5 * np.log(2.0 * np.pi))
    constant = gammaln(0.5 * (dof + 1.0)) - gammaln(0.5 * dof) - 0.5 * np.log(dof * np.pi)
    return np.asarray(constant - 0.5 * (dof + 1.0) * np.log1p(squares / dof))


def t_weight(squares: Vector, dof: float | Vector) -> Vector:
    """Return the pull of a row over its residual, relative to a normal's."""
    if isinstance(dof, float) and dof == np.inf:
        return np.ones_like(squares)
    return np.asarray((dof + 1.0) / (dof + squares))
