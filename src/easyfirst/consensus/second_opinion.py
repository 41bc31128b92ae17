"""A second opinion on the fit of the sample, where its residuals still depend on X.

A fit with probabilities can lock onto a part of the rows: on a curve it follows one stretch and
calls the others corrupted. Where the residuals show no such dependence it is trusted. Where
they do, a plain robust fit is made beside it, and the one whose predictions miss by less wins, a
miss counting for no more than some scales so that corrupted rows have no say: few scales where
other rows form a bump of their own beside a majority. Then the size of the noise may follow the
prediction and the columns, and the fit goes on by that noise; rows are weighed by their precision
if the model is right about the middle, and that costs the predictions nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from easyfirst.calibration import ROUNDING
from easyfirst.consensus.extrapolation import CAP, Bounds
from easyfirst.consensus.huber import huber, least_absolute_deviations, robust_scale, weighted_fit
from easyfirst.consensus.noise_rounds import NoiseState
from easyfirst.consensus.sample import SCREENED_FEATURES, Sample
from easyfirst.consensus.starts import SampleFit
from easyfirst.consensus.structure import Structure, dependence, structure_of
from easyfirst.contracts import Matrix, Vector
from easyfirst.local.weighing import Problem
from easyfirst.noise import FittedNoise, Kind, NoiseModel, ScaleRule, fit_noise
from easyfirst.noise.row_scale import columns_may_speak, fit_scale_rule
from easyfirst.summaries import LossSummary, histogram

ROWS = (4000, 12)  # at the most, or so many per coefficient
ROWS_FOR_STRUCTURE = 3000
CLEARLY = 0.01  # smaller the mean miss has to be,
SURELY, SURELY_BENT = 2.0, 1.0  # by so many standard errors; where the model is wrong anyway
TIGHT = 3.0  # scales of the closer fit's misses
FOR_NOTHING = 0.001  # how much larger it may be with rows weighed by precision
SET_ASIDE, KEPT = 0.2, 0.5  # mean weights of far rows and of the others that show bad leverage
PART_OF_THE_ROWS = 0.05  # more than stray rows
READINGS = (0, 1, 3, 6)  # steps at which the noise is estimated again
TWICE = 2.0  # as large a miss of inner rows is no price to pay for rows far out
FAINT = 0.1  # density of corrupted rows over that of a minority of clean ones, where it is highest
GAP = 6.0  # noise scales that nine tenths of the rows of bad leverage keep away from the fit
BUMPS = (3.0, 1.5)  # scales from where rows are counted, in shells that grow by this factor
BUMP = 0.1  # of the rows in one shell are no stray ones
MOST_STEPS = 10
SCALINGS = 2  # of the rows' scales


@dataclass(frozen=True, eq=False)
class Opinion:
    """How the residuals depend on X; the noise around the fit found, or the fit to prefer to it.

    `left` is how they depend on X around the start, in units of the noise there. `gain` is by which
    share the mean miss of the preferred fit is smaller.
    """

    structure: Structure = field(default_factory=Structure)
    start: NoiseState | None = None
    left: Structure = field(default_factory=Structure)
    gain: float = 0.0
    is_preferred: bool = False
    is_for_coarse_target: bool = False


def second_opinion(found: SampleFit, has_rival: bool = False) -> Opinion:
    """Look for structure in the residuals; if there is some, compare with a plain robust fit.

    With a rival of equal support the residuals depend on X, too, and no line suits both.
    """
    sample, fit = found.sample, found.fit
    if not may_be_second_guessed(sample.fleet.problem):
        return Opinion()
    penalised = not sample.objective.is_unpenalised  # which makes residuals follow the columns
    few = sample.n_samples < 2 * sample.fleet.n_coef + 3
    if penalised or few or sample.rows.n_features > SCREENED_FEATURES:
        return Opinion()
    if not fit.is_calibrated or found.cell:
        table = RobustRows.of(sample, spread_rows(found, _enough(sample)))
        table = replace(table, cell=found.cell)
        opinion = table.preferred(table.huber_fit(), Structure(), 1.0)
        return replace(opinion, is_for_coarse_target=found.cell > 0.0)
    ours, weights = fit.solution.z, sample.weights(fit)
    exact = 2.0 * ROUNDING * sample.fleet.problem.anchor
    if fit.mixture.scale <= exact:  # rounding errors depend on X, so there is none to look for
        return Opinion() if np.all(weights >= 0.5) else _of_an_exact_fit(found, exact)
    structure = _structure(found, ours, fit.mixture.scale, weights)
    is_faint = fit.mixture.share < KEPT and fit.mixture.odds_at_zero > FAINT
    if not structure.is_noticed and not is_faint:
        return Opinion(structure)
    # Where inner rows already bend away from the line, those far out may go on as they do.
    rows = _new_rows(sample) if structure.is_bent else spread_rows(found, sample.n_samples)
    table = RobustRows.of(sample, _thinned(rows, _enough(sample)))
    plain = table.huber_fit()
    surely = SURELY_BENT if structure.is_bent and not has_rival else SURELY
    cap = table.tight_cap(ours, plain.coef) if _stands_apart(found, weights) else None
    gain = table.gain(ours, plain.coef, surely, cap)
    least = 0.0 if structure.is_noticed else sample.fleet.n_coef / len(table.y)
    if gain > least and not _is_dragged_outwards(found, plain.coef):
        return table.preferred(plain, structure, gain)
    if not structure.is_noticed:
        return Opinion(structure)
    start = table.around(ours)
    return Opinion(structure, start, table.left_over(start))


def _of_an_exact_fit(found: SampleFit, exact: float) -> Opinion:
    """Compare a fit that some rows agree with to the last digit with one that suits all of them.

    Such rows may be no more than copies, or values that follow from their columns.
    """
    table = RobustRows.of(found.sample, _thinned(_new_rows(found.sample), _enough(found.sample)))
    plain = table.huber_fit()
    if plain.noise.spread <= exact:
        return Opinion()
    ours, share = found.fit.solution.z, found.fit.mixture.share
    kept = np.abs(table.y - table.design @ ours) <= exact
    follows = dependence(table.X, ours, table.design @ ours, kept.astype(np.float64))[1]
    # A minority that X singles out may be exact for reasons of its own: all rows have a say then.
    cap = np.inf if share < KEPT and follows else None
    gain = table.gain(ours, plain.coef, SURELY, cap)
    return table.preferred(plain, Structure(), gain) if gain > 0.0 else Opinion()


def _enough(sample: Sample) -> int:
    return max(ROWS[0], ROWS[1] * sample.fleet.n_coef)


def may_be_second_guessed(problem: Problem) -> bool:
    """Return whether weights are probabilities that nobody but the rows has a say in.

    A regularizer of the user's own and rows that are known to be right are to be honoured.
    """
    return problem.regularizer.is_posterior and not problem.has_trusted


def _structure(found: SampleFit, coef: Vector, scale: float, weights: Vector) -> Structure:
    sample, rows = found.sample, spread_rows(found, ROWS_FOR_STRUCTURE)
    part = sample.part(rows)
    prediction = sample.fleet.problem.design(part).times(coef)
    X = sample.design(rows)[0][:, : sample.rows.n_features]
    residual = (part.y - prediction) / scale
    return structure_of(X, coef, prediction, residual, weights[rows], part.sample_weight)


def spread_rows(found: SampleFit, most: int) -> NDArray[np.intp]:
    """Return rows evenly spread over the sample, without bad leverage.

    Rows far out in X that are nearly all set aside, while those inside are kept, are a question of
    their own, which the starts have answered.
    """
    rows = _new_rows(found.sample)
    is_mixed = found.far is not None and found.far.any() and not found.far.all()
    if found.far is not None and is_mixed and not _leaves_the_range(found):
        weights = found.sample.weights(found.fit)
        inside, outside = float(weights[~found.far].mean()), float(weights[found.far].mean())
        if outside < SET_ASIDE < KEPT < inside:
            rows = rows[~found.far[rows]]
        elif inside > KEPT:
            rows = rows[~_off_by_a_gap(found, found.far & (weights < 0.5))[rows]]
    return _thinned(rows, most)


def _thinned(rows: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    return rows if len(rows) <= most else rows[np.arange(most) * len(rows) // most]


def _new_rows(sample: Sample) -> NDArray[np.intp]:
    """Return which rows are not the same as the row before, as repeated rows of few are.

    A row that is there twice does not say twice that residuals depend on X.
    """
    new = np.ones(sample.n_samples, dtype=bool)
    if not sp.issparse(sample.rows.X):
        same = np.all(sample.rows.X[1:] == sample.rows.X[:-1], axis=1)
        new[1:] = ~(same & (sample.rows.y[1:] == sample.rows.y[:-1]))
    return np.flatnonzero(new)


def _leaves_the_range(found: SampleFit) -> bool:
    """Return whether many predictions lie beyond the range of y, extended by its width.

    Such a fit has not set bad leverage aside: it says nothing about a whole part of the rows.
    """
    rows = found.sample.rows
    prediction = found.sample.fleet.problem.design(rows).times(found.fit.solution.z)
    beyond = Bounds.of(rows.y).excess(prediction) > 0.0
    return float(np.mean(beyond)) > PART_OF_THE_ROWS


def _is_dragged_outwards(found: SampleFit, plain: Vector) -> bool:
    """Return whether a plain fit follows bad leverage, such as a column in another unit.

    The fit has set rows far out in X aside and kept the others, and these it describes twice as
    well: what the plain fit gains on rows far out, it pays for with all the rest.
    """
    far, sample = found.far, found.sample
    if far is None or far.all() or not far.any():
        return False
    weights = sample.weights(found.fit)
    if not float(weights[far].mean()) < SET_ASIDE < KEPT < float(weights[~far].mean()):
        return False
    design = sample.fleet.problem.design(sample.rows)
    misses = [
        np.abs(sample.rows.y - design.times(coef))[~far] for coef in (found.fit.solution.z, plain)
    ]
    cap = CAP * robust_scale(misses[1])
    by_ours, by_plain = (float(np.mean(np.minimum(miss, cap))) for miss in misses)
    return by_plain > TWICE * by_ours


def _stands_apart(found: SampleFit, weights: Vector) -> bool:
    """Return whether the fit holds most rows and others form a bump of their own beside it.

    Tails thin out with the distance, however long they are. Where a tenth of the rows gathers
    further out than fewer do nearer by, there is more than one kind of row, and the fit of the
    larger kind is not to be judged by how far it is from the others.
    """
    fit, sample = found.fit, found.sample
    scale = fit.mixture.scale
    if float(np.average(weights, weights=sample.counts)) < KEPT:
        return False
    residual = sample.residual(sample.rows, fit.solution.z) / scale
    for side in (residual, -residual):
        out = side >= BUMPS[0]
        shell = np.floor(np.log(side[out] / BUMPS[0]) / np.log(BUMPS[1])).astype(np.intp)
        rows = np.bincount(shell, sample.counts[out]) / sample.counts.sum()
        if rows.size and np.any((rows >= BUMP) & (rows >= TWICE * np.minimum.accumulate(rows))):
            return True
    return False


def _off_by_a_gap(found: SampleFit, aside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which of the rows set aside are bad leverage: all, or none.

    Where a curve or uneven noise sets rows aside, some of them are only just out; a cluster of
    wrong rows keeps its distance.
    """
    sample, fit = found.sample, found.fit
    if not aside.any() or not fit.is_calibrated:
        return np.zeros_like(aside)
    part = sample.part(np.flatnonzero(aside))
    residual = sample.residual(part, fit.solution.z)
    nearest = float(np.quantile(np.abs(residual), 0.1))
    return aside if nearest > GAP * fit.mixture.scale else np.zeros_like(aside)


@dataclass(frozen=True, eq=False)
class RobustRows:
    """Rows of the sample to fit plainly: the solver's design, and X as the user gave it.

    `counts` is how many rows each one stands for, their mean being one.
    """

    design: Matrix
    y: Vector
    X: Matrix
    counts: Vector
    sample: Sample
    cell: float = 0.0

    @classmethod
    def of(cls, sample: Sample, rows: NDArray[np.intp]) -> RobustRows:
        """Take some rows of the sample."""
        design, y = sample.design(rows)
        X = design[:, : sample.rows.n_features]
        shift = sample.fleet.problem.coordinates.shift
        counts = sample.counts[rows]
        X = X if shift is None else X + shift
        return cls(design, y, X, counts / counts.mean(), sample)

    def huber_fit(self, kind: Kind | None = None) -> NoiseState:
        """Return Huber's fit of the rows that are not clearly corrupted, and the noise around.

        With a `kind`, no other noise is looked at, which takes a tenth of the time.
        """
        design, y = self.design, self.y
        first = least_absolute_deviations(design, y, self.counts)
        at = self._evenly_around(huber(design, y, first, self.counts), kind)
        for step in range(MOST_STEPS):
            if step in READINGS[1:]:
                at = self._evenly_around(at.coef, at.kind, at.noise)
            coef = self._step(at)
            moved = float(np.sqrt(np.mean(np.square(design @ (coef - at.coef)))))
            at = replace(at, coef=coef)
            if step > READINGS[1] and moved < 2e-3 * at.noise.spread:
                break
        return self.around(at.coef, kind)

    def _evenly_around(
        self, coef: Vector, kind: Kind | None = None, start: NoiseModel | None = None
    ) -> NoiseState:
        found = self._noise(self.y - self.design @ coef, kind, start)
        return NoiseState(coef, found.model, ScaleRule.even(), found.kind)

    def around(self, coef: Vector, kind: Kind | None = None) -> NoiseState:
        """Return the noise around coefficients, even or uneven, whichever the rows ask for."""
        residual = self.y - self.design @ coef
        slopes, intercept = self.sample.fleet.problem.coordinates.to_user(coef)
        n, p = self.X.shape
        best, best_rule = self._noise(residual, kind), ScaleRule.even()
        for with_columns in (False, True):
            if self.cell or (with_columns and not columns_may_speak(n, p)):
                continue
            weights = self.counts
            for _ in range(SCALINGS):  # the first takes corrupted rows along, the next does not
                rule = fit_scale_rule(self.X, slopes, intercept, residual, with_columns, weights)
                if rule.is_even:
                    break
                scale = rule.of(self.X)
                found = self._noise(residual / scale, kind)
                # A density in units of the scale is one over the scale in those of y.
                price = (0.5 * np.log(n) + 1.0) * rule.n_parameters
                worth = found.worth - float(self.counts @ np.log(scale)) - price
                if worth > best.worth:
                    best, best_rule = replace(found, worth=worth), rule
                weights = self.counts * found.model.posterior(residual / scale)
        return NoiseState(coef, best.model, best_rule, best.kind)

    def precise(self, at: NoiseState) -> NoiseState:
        """Return the fit with rows weighed by their precision, if that costs no accuracy.

        On a curve, precise rows would bend the line to where they are.
        """
        if at.scale_rule.is_even or self.left_over(at).is_bent:
            return at
        precise = replace(at, is_precise=True)
        for _ in range(MOST_STEPS // 2):
            precise = replace(precise, coef=self._step(precise))
        plain, weighed = (self._mean(miss) for miss in self._misses(at.coef, precise.coef))
        costs = weighed / max(plain, 1e-300) - 1.0
        return precise if costs <= FOR_NOTHING else at

    def preferred(self, plain: NoiseState, structure: Structure, gain: float) -> Opinion:
        """Return the opinion that the plain fit is the one to return."""
        start = self.precise(plain)
        return Opinion(structure, start, self.left_over(start), gain, is_preferred=True)

    def left_over(self, at: NoiseState) -> Structure:
        """Return how the residuals, in units of their noise, and the flags depend on X."""
        prediction = self.design @ at.coef
        residual = (self.y - prediction) / at.scale_rule.of(self.X)
        v = at.noise.posterior(residual)
        return structure_of(self.X, at.coef, prediction, residual / at.noise.spread, v, self.counts)

    def tight_cap(self, ours: Vector, plain: Vector) -> float:
        """Return a few scales of the misses that half of the rows have by the closer fit."""
        both = (np.abs(self.y - self.design @ coef) for coef in (ours, plain))
        return TIGHT * min(robust_scale(miss, self.counts) for miss in both)

    def gain(self, ours: Vector, plain: Vector, surely: float, cap: float | None = None) -> float:
        """Return by which share the plain fit misses less; 0 if not clearly and surely.

        `surely` is in standard errors. A miss counts for no more than the cap, by default some
        scales of the plain fit's misses.
        """
        by_plain, by_ours = self._misses(plain, ours, cap)
        difference = by_ours - by_plain
        mean = self._mean(difference)
        n = np.square(self.counts.sum()) / np.sum(np.square(self.counts))
        error = np.sqrt(self._mean(np.square(difference - mean)) / n)
        gain = mean / max(self._mean(by_plain), 1e-300)
        return gain if gain > CLEARLY and mean > surely * error else 0.0

    def _mean(self, values: Vector) -> float:
        return float(np.average(values, weights=self.counts))

    def _misses(
        self, first: Vector, second: Vector, cap: float | None = None
    ) -> tuple[Vector, Vector]:
        """Return the misses of two fits, capped by the scale of the first one's."""
        misses = [np.abs(self.y - self.design @ coef) for coef in (first, second)]
        cap = CAP * robust_scale(misses[0], self.counts) if cap is None else cap
        return np.minimum(misses[0], cap), np.minimum(misses[1], cap)

    def _step(self, at: NoiseState) -> Vector:
        scale = at.scale_rule.of(self.X)
        residual = (self.y - self.design @ at.coef) / scale
        pull = at.noise.posterior(residual) * at.rule.pull(residual, scale)
        return weighted_fit(self.design, self.y, self.counts * pull)

    def _noise(
        self, residual: Vector, kind: Kind | None = None, start: NoiseModel | None = None
    ) -> FittedNoise:
        anchor = max(float(np.std(self.y)), 1e-12 * float(np.abs(self.y).max(initial=0.0))) or 1.0
        counts = histogram(residual, self.counts, anchor, self.cell)[None, None]
        losses = LossSummary(counts, anchor, self.design.shape[1])
        scale = max(robust_scale(residual, self.counts), 2.0 * ROUNDING * anchor, self.cell / 3.0)
        even = NoiseModel(losses.total, 1.0, 0.0, scale, scale, np.inf, (-np.inf,), (0.0,))
        return fit_noise(losses, even, kind, start)
