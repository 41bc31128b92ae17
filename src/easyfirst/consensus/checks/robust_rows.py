"""Rows of a sample fitted plainly: Huber's fit without clearly corrupted ones, and its noise.

The noise is read off the residuals with its tails, its skew and its corrupted part. Its size may
follow the prediction and the columns, and rows are then weighed by their precision if the model is
right about the middle and that costs the predictions nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from easyfirst.calibration import ROUNDING, CleanMixture
from easyfirst.consensus.checks.beside_a_group import start_beside_a_group
from easyfirst.consensus.checks.extrapolation import CAP
from easyfirst.consensus.robust.huber import (
    huber,
    least_absolute_deviations,
    robust_scale,
    weighted_fit,
)
from easyfirst.consensus.robust.structure import Structure, structure_of
from easyfirst.consensus.rounds.of_noise import NoiseState
from easyfirst.consensus.solvers.gram import supported_basis
from easyfirst.consensus.starts.sample import Sample
from easyfirst.contracts import Matrix, Vector
from easyfirst.noise import FittedNoise, Kind, NoiseModel, ScaleRule, fit_noise
from easyfirst.noise.fitting import MOST_OF_MINORITY, PER_ROW_ASIDE
from easyfirst.noise.row_scale import columns_that_may_speak, fit_scale_rule
from easyfirst.noise.zones import NEAR
from easyfirst.summaries import LossSummary, histogram

FOR_NOTHING = 0.001  # how much larger the mean miss may be with rows weighed by precision
LEAST_DENSITY = 1e-300
ONE_NORMAL = Kind(has_skew=False, has_tails=False, zones=None)
OF_A_MINORITY = Kind(has_skew=True, has_tails=True, zones=(0.0, NEAR[-1]))
READINGS = (0, 1, 3, 6)  # steps at which the noise is estimated again
MOST_STEPS = 10
SCALINGS = 2  # of the rows' scales
MOST_LEVERAGE = 0.9  # of a row on its own prediction
LEAST_SUPPORT = 1e-10  # of a direction, over that of the best supported one


def rounding_of(sample: Sample) -> float:
    """Return the size of residuals that are rounding errors of the histogram's finest bin."""
    return 2.0 * ROUNDING * sample.fleet.problem.anchor


@dataclass(frozen=True, eq=False)
class RobustRows:
    """Rows of the sample to fit plainly: the solver's design, and X as the user gave it.

    `counts` is how many rows each one stands for, their mean being one. `minority` is what a fit
    of a minority of them found: the noise of all rows is compared with that of so few.
    """

    design: Matrix
    y: Vector
    X: Matrix
    counts: Vector
    sample: Sample
    rows: NDArray[np.intp]
    cell: float = 0.0
    minority: CleanMixture | None = None

    @classmethod
    def of(cls, sample: Sample, rows: NDArray[np.intp]) -> RobustRows:
        """Take some rows of the sample."""
        design, y = sample.design(rows)
        X = design[:, : sample.rows.n_features]
        shift = sample.fleet.problem.coordinates.shift
        counts = sample.counts[rows]
        X = X if shift is None else X + shift
        return cls(design, y, X, counts / counts.mean(), sample, rows)

    def huber_fit(self, kind: Kind | None = None) -> NoiseState:
        """Return Huber's fit of the rows that are not clearly corrupted, and the noise around.

        With a `kind`, no other noise is looked at, which takes a tenth of the time.
        """
        design, y = self.design, self.y
        first = least_absolute_deviations(design, y, self.counts)
        first = huber(design, y, first, self.counts)
        beside = start_beside_a_group(design, y, self.counts, first)
        at = self._evenly_around(first if beside is None else beside, kind)
        if at.noise.spread <= rounding_of(self.sample):
            return self._beside_exact_rows(at)
        for step in range(MOST_STEPS):
            if step in READINGS[1:]:
                at = self._evenly_around(at.coef, at.kind, at.noise)
            coef = self._step(at)
            moved = float(np.sqrt(np.mean(np.square(design @ (coef - at.coef)))))
            at = replace(at, coef=coef)
            if step > READINGS[1] and moved < 2e-3 * at.noise.spread:
                break
        return self.around(at.coef, kind)

    def _beside_exact_rows(self, at: NoiseState) -> NoiseState:
        """Return the fit with the noise of those rows that it does not fit to the last digit.

        Beside the others, all of these would look corrupted, and what they tell would be lost.
        """
        scale = self.scale_of(np.abs(self.y - self.design @ at.coef))
        if scale <= rounding_of(self.sample):
            return at
        noise = replace(at.noise, share=1.0, below=scale, above=scale, dof=np.inf, center=0.0)
        clean = replace(noise, edges=(-np.inf,), levels=(0.0,))
        return replace(at, noise=clean, kind=ONE_NORMAL, is_given=True)

    def _evenly_around(
        self, coef: Vector, kind: Kind | None = None, start: NoiseModel | None = None
    ) -> NoiseState:
        found = self._noise(self.y - self.design @ coef, kind, start)
        return NoiseState(coef, found.model, ScaleRule.even(), found.kind)

    def around(
        self, coef: Vector, kind: Kind | None = None, near: float | None = None
    ) -> NoiseState:
        """Return the noise around coefficients, even or uneven, whichever the rows ask for.

        `near` is a scale to begin at instead of that of all residuals.
        """
        residual = self.y - self.design @ coef
        slopes, intercept = self.sample.fleet.problem.coordinates.to_user(coef)
        n, may_speak = len(self.X), columns_that_may_speak(self.X)
        even = best = self._noise(residual, kind, near=near)
        best_rule = ScaleRule.even()
        rules = (None,) if may_speak is None else (None, may_speak)
        for columns in () if self.cell else rules:
            weights = self.counts
            for _ in range(SCALINGS):  # the first takes corrupted rows along, the next does not
                rule = fit_scale_rule(self.X, slopes, intercept, residual, columns, weights)
                if rule.is_even:
                    break
                scale = rule.of(self.X)
                found = self._noise(residual / scale, kind, near=near)
                price = (0.5 * np.log(n) + 1.0) * rule.n_parameters
                worth = self._worth(residual, scale, found, even) - price
                if worth > best.worth:
                    best, best_rule = replace(found, worth=worth), rule
                weights = self.counts * found.model.posterior(residual / scale)
        return NoiseState(coef, best.model, best_rule, best.kind)

    def kind_around(self, coef: Vector) -> Kind:
        """Return which kind of even noise the rows ask for around coefficients, or of a bump."""
        return fit_noise(*self._summary(self.y - self.design @ coef)).kind

    def worth_around(self, coef: Vector) -> float:
        """Return the log-likelihood of even noise around coefficients, less its price."""
        return self._noise(self.y - self.design @ coef).worth

    def _worth(
        self, residual: Vector, scale: Vector, found: FittedNoise, even: FittedNoise
    ) -> float:
        """Return what noise found in units of the rows' scales is worth beside an even one.

        Mistakes need not grow with the noise: those in y as it is are as wide in all rows. Of both
        ways in which the corrupted part can be read, the likelier one counts.
        """
        # A density in units of the scale is one over the scale in those of y.
        with_scale = found.worth - float(self.counts @ np.log(scale))
        corrupted, share = even.model.corrupted_density(residual), 1.0 - even.model.share
        if share <= 0.0:
            return with_scale
        uneven = found.model.clean_density(residual / scale) / scale
        wrong = (1.0 - found.model.share) / share * corrupted
        ours, others = uneven + wrong, even.model.clean_density(residual) + corrupted
        gain = np.log(np.maximum(ours, LEAST_DENSITY) / np.maximum(others, LEAST_DENSITY))
        return max(with_scale, even.worth + float(self.counts @ gain))

    def precise(self, at: NoiseState) -> NoiseState:
        """Return the fit with rows weighed by their precision, if that costs no accuracy.

        On a curve, precise rows would bend the line to where they are. The fit may not have been
        at rest, so it goes on by as many steps without precision, and has to be no better then.
        """
        if at.scale_rule.is_even or self.left_over(at).is_bent:
            return at
        alike, precise = at, replace(at, is_precise=True)
        for _ in range(MOST_STEPS // 2):
            alike = replace(alike, coef=self._step(alike))
            precise = replace(precise, coef=self._step(precise))
        cost = max(self.costs(coef, precise.coef) for coef in (at.coef, alike.coef))
        return precise if cost <= FOR_NOTHING else at

    def left_over(self, at: NoiseState) -> Structure:
        """Return how the residuals, in units of their noise, and the flags depend on X."""
        prediction = self.design @ at.coef
        residual = (self.y - prediction) / at.scale_rule.of(self.X)
        v = at.noise.posterior(residual)
        return structure_of(self.X, at.coef, prediction, residual / at.noise.spread, v, self.counts)

    def costs(self, before: Vector, after: Vector) -> float:
        """Return by which share other coefficients miss the rows by more, up to a cap."""
        misses = [np.abs(self.y - self.design @ coef) for coef in (before, after)]
        cap = CAP * robust_scale(misses[0], self.counts)
        old, new = (self.mean(np.minimum(miss, cap)) for miss in misses)
        return new / max(old, 1e-300) - 1.0

    def only(self, rows: NDArray[np.intp]) -> RobustRows:
        """Return the table without rows that are not among these."""
        return RobustRows.of(self.sample, self.rows[np.isin(self.rows, rows)])

    def misses(self, coef: Vector, weights: Vector) -> Vector:
        """Return how far each row lies from what the others, weighed like this, predict for it."""
        pull = self.counts * weights
        gram = (self.design * pull[:, None]).T @ self.design
        basis = supported_basis(gram, LEAST_SUPPORT)
        own = pull * np.sum(np.square(self.design @ basis), axis=1)
        miss = np.abs(self.y - self.design @ coef) / (1.0 - np.minimum(own, MOST_LEVERAGE))
        return np.asarray(np.maximum(miss, rounding_of(self.sample)))

    def scale_of(self, miss: Vector) -> float:
        """Return the scale of the misses that are more than rounding."""
        some = miss > rounding_of(self.sample)
        return robust_scale(miss[some], self.counts[some]) if some.any() else 0.0

    def mean(self, values: Vector) -> float:
        """Return the mean over all rows that these stand for."""
        return float(np.average(values, weights=self.counts))

    def pull(self, at: NoiseState) -> Vector:
        """Return how much each row counts in a fit by the noise."""
        scale = at.scale_rule.of(self.X)
        residual = (self.y - self.design @ at.coef) / scale
        return at.noise.posterior(residual) * at.rule.pull(residual, scale)

    def _step(self, at: NoiseState) -> Vector:
        return weighted_fit(self.design, self.y, self.counts * self.pull(at))

    def _noise(
        self,
        residual: Vector,
        kind: Kind | None = None,
        start: NoiseModel | None = None,
        near: float | None = None,
    ) -> FittedNoise:
        losses, even = self._summary(residual, near)
        if start is not None and self.minority is not None:  # zones are laid out by what was found
            return fit_noise(losses, start, kind, start, may_have_bump=False)
        found = fit_noise(losses, even, kind, start, may_have_bump=False)
        if self.minority is None or near is not None:
            return found
        return self._of_minority(losses, found, kind)

    def _summary(
        self, residual: Vector, near: float | None = None
    ) -> tuple[LossSummary, NoiseModel]:
        """Return the histogram of residuals, and normal noise as wide as they are or as given."""
        anchor = max(float(np.std(self.y)), 1e-12 * float(np.abs(self.y).max(initial=0.0))) or 1.0
        counts = histogram(residual, self.counts, anchor, self.cell)[None, None]
        losses = LossSummary(counts, anchor, self.design.shape[1])
        scale = near or robust_scale(residual, self.counts)
        scale = max(scale, 2.0 * ROUNDING * anchor, self.cell / 3.0)
        even = NoiseModel(losses.total, 1.0, 0.0, scale, scale, np.inf, (-np.inf,), (0.0,))
        return losses, even

    def _of_minority(
        self, losses: LossSummary, found: FittedNoise, kind: Kind | None
    ) -> FittedNoise:
        """Return the noise of a minority if that is clearly likelier than the one found.

        Noise without tails and skew would follow the densest of few clean rows.
        """
        assert self.minority is not None
        most = MOST_OF_MINORITY * self.minority.share
        kind = kind or OF_A_MINORITY
        other = fit_noise(losses, self.minority, kind, may_have_bump=False, most=most)
        least = PER_ROW_ASIDE * other.model.clean if found.kind.zones is None else 0.0
        return other if other.worth > found.worth + least else found
