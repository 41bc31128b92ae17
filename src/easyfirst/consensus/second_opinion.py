"""A second opinion on the fit of the sample, where its residuals still depend on X.

A fit with probabilities can lock onto a part of the rows: on a curve it follows one stretch and
calls the others corrupted. Mistakes that strike at random leave no such trace, so a fit whose
residuals do not depend on X is trusted. Otherwise a plain robust fit is made beside it, and the one
that misses the rows by less wins, each row being judged as if it had been left out. A miss counts
for no more than some scales, so that corrupted rows have no say: few scales where they form a bump
of their own beside a majority. What a plain fit gains on rows far out in X must not be paid for by
the others, unless these bend away from the line themselves: it may be following mistakes in X.

Then the size of the noise may follow the prediction and the columns, and the fit goes on by that
noise; rows are weighed by their precision if the model is right about the middle, and that costs
the predictions nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from easyfirst.calibration import ROUNDING
from easyfirst.consensus.cross_fitting import is_confirmed
from easyfirst.consensus.extrapolation import CAP
from easyfirst.consensus.gram import supported_basis
from easyfirst.consensus.huber import huber, least_absolute_deviations, robust_scale, weighted_fit
from easyfirst.consensus.noise_rounds import NoiseState
from easyfirst.consensus.sample import SCREENED_FEATURES, Sample
from easyfirst.consensus.starts import SampleFit
from easyfirst.consensus.structure import Structure, not_far_out, structure_of
from easyfirst.consensus.telling import Telling, telling_of
from easyfirst.contracts import Matrix, Vector
from easyfirst.local.weighing import Problem
from easyfirst.noise import FittedNoise, Kind, NoiseModel, ScaleRule, fit_noise
from easyfirst.noise.row_scale import columns_that_may_speak, fit_scale_rule
from easyfirst.summaries import LossSummary, histogram

ROWS = (4000, 12)  # at the most, or so many per coefficient
ROWS_FOR_STRUCTURE = 3000
CLEARLY = 0.01  # smaller the mean miss of a plain fit has to be,
SURELY = (0.0, 1.0, 2.0)  # and by standard errors: beside a minority, a wrong line, any fit
PRICE = 0.1  # more that rows inside may miss by, for what a plain fit gains far out
TIGHT = 3.0  # scales of the closer fit's misses
FOR_NOTHING = 0.001  # how much larger it may be with rows weighed by precision
MAJORITY = 0.5
LEAST_DENSITY = 1e-300
MOST_FAR = 1.0 / 3.0  # of the rows: more that are far out in X are a part of the table
SET_ASIDE = 0.05  # of the rows that are not far out: fewer may be by mistakes in X alone
NEARBY, FEW_NEARBY = 12.0, 0.1  # scales, and the share of rows set aside that lies within
NO_DOUBT = 0.02  # of the rows set aside might be clean, where these are a bump beside a gap
FEW = 600  # rows: of more, the best of many starts is no accident,
FEWEST, FEWEST_EACH = 40, 5  # and of fewer, in all and per coefficient, parts of them say nothing
MANY = 0.08  # of few rows set aside by accident,
BEYOND_TAILS = 25.0  # scales: no noise of a majority has a tenth of its rows that far out
ALIKE = 0.1  # scales of the noise: a plain fit that predicts as closely as this,
AS_MANY = 0.02  # and sets aside as many, is the same
ONE_NORMAL = Kind(has_skew=False, has_tails=False, zones=None)
READINGS = (0, 1, 3, 6)  # steps at which the noise is estimated again
COINCIDENCE = 1e-5  # standard deviations of y: noise of a minority that is none
FAINT = 0.1  # density of corrupted rows over that of a minority of clean ones, where it is highest
BUMPS = (3.0, 1.5)  # scales from where rows are counted, in shells that grow by this factor
BUMP = 0.1  # of the rows in one shell are no stray ones,
TWICE = 2.0  # as many as in one nearer by
MOST_STEPS = 10
SCALINGS = 2  # of the rows' scales
MOST_LEVERAGE = 0.9  # of a row on its own prediction
LEAST_SUPPORT = 1e-10  # of a direction, over that of the best supported one


@dataclass(frozen=True, eq=False)
class Opinion:
    """How the residuals depend on X; the noise around the fit found, or the fit to prefer to it.

    `left` is how they depend on X around the start, in units of the noise there. `gain` is by which
    share the mean miss of the preferred fit is smaller. Rows far out in X have no vote where they
    contradict all others. Another fit is also preferred if X tells the rows that the one found sets
    aside (`telling`), or if rows that took no part in it do not confirm it: `unconfirmed` is the
    share of rows that it sets aside.
    """

    structure: Structure = field(default_factory=Structure)
    start: NoiseState | None = None
    left: Structure = field(default_factory=Structure)
    gain: float = 0.0
    is_preferred: bool = False
    is_for_coarse_target: bool = False
    far_rows_vote: bool = True
    telling: Telling = field(default_factory=Telling)
    unconfirmed: float = 0.0


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
    everyone = spread_rows(found, sample.n_samples)
    structure, is_exact = _structure(found, everyone), _is_exact(found)
    if is_exact and np.all(sample.weights(fit) >= 0.5):
        return Opinion()
    telling, unconfirmed = Telling(), 0.0
    if not is_exact and _may_be_by_accident(found, everyone):
        telling = _telling(found, everyone)
        unconfirmed = 0.0 if telling.is_clear else _unconfirmed(found, everyone)
    if telling.is_clear or unconfirmed:
        table = RobustRows.of(sample, _thinned(everyone, _enough(sample)))
        plain = table.huber_fit()
        opinion = table.preferred(plain, structure, table.gain(found, plain, 0.0))
        return replace(opinion, telling=telling, unconfirmed=unconfirmed)
    is_minority = fit.mixture.share < MAJORITY
    is_faint = is_minority and fit.mixture.odds_at_zero > FAINT
    is_partial = is_faint or is_exact  # it may describe a part of the rows, whatever X tells
    if not structure.is_noticed and not is_partial:
        return Opinion(structure)
    table = RobustRows.of(sample, _thinned(everyone, _enough(sample)))
    plain, left, votes = table.huber_fit(), structure, True
    inside = spread_rows(found, sample.n_samples, far_rows_vote=False)
    among_these = structure if len(inside) == len(everyone) else _structure(found, inside)
    is_wrong = among_these.is_noticed if is_exact else among_these.is_bent
    # A minority that X singles out has to show that it is worth more than all rows, not they.
    is_doubtful = is_minority and structure.is_noticed
    surely = SURELY[2 if has_rival else 0 if is_doubtful else 1 if is_wrong else 2]
    gain = table.gain(found, plain, surely)
    if len(inside) < len(everyone) and not is_wrong:
        is_dear = table.only(inside).costs(fit.solution.z, plain.coef) > PRICE
        gain = 0.0 if is_dear else gain
        contradict = is_dear or structure.is_bent or not among_these.is_noticed
        votes = gain > 0.0 or not contradict
    if not votes:
        left, table = among_these, RobustRows.of(sample, _thinned(inside, _enough(sample)))
        if left.is_noticed or is_partial:
            plain = table.huber_fit()
            gain = table.gain(found, plain, surely)
    if gain > 0.0:
        return replace(table.preferred(plain, left, gain), far_rows_vote=votes)
    if not left.is_noticed or is_exact:
        return Opinion(left, far_rows_vote=votes)
    # Of a minority of clean rows, half of all residuals say nothing about the scale.
    start = table.around(fit.solution.z, near=fit.mixture.scale if is_minority else None)
    return Opinion(left, start, table.left_over(start), far_rows_vote=votes)


def _is_exact(found: SampleFit) -> bool:
    """Return whether the clean rows are fitted to the last digit, or few of them nearly so.

    Where y has been rounded and X has few different rows, some coincide by chance.
    """
    mixture, least = found.fit.mixture, _rounding(found.sample)
    if mixture.share < MAJORITY:
        least = max(least, COINCIDENCE * found.sample.fleet.problem.anchor)
    return mixture.scale <= least


def _rounding(sample: Sample) -> float:
    return 2.0 * ROUNDING * sample.fleet.problem.anchor


def _enough(sample: Sample) -> int:
    return max(ROWS[0], ROWS[1] * sample.fleet.n_coef)


def may_be_second_guessed(problem: Problem) -> bool:
    """Return whether weights are probabilities that nobody but the rows has a say in.

    A regularizer of the user's own and rows that are known to be right are to be honoured.
    """
    return problem.regularizer.is_posterior and not problem.has_trusted


def _structure(found: SampleFit, rows: NDArray[np.intp]) -> Structure:
    """Return how the residuals of some rows depend on X.

    Of an exact fit, only which rows it does not hold: rounding errors depend on X anyway.
    """
    sample, fit = found.sample, found.fit
    rows = _thinned(rows, ROWS_FOR_STRUCTURE)
    part, coef = sample.part(rows), fit.solution.z
    prediction = sample.fleet.problem.design(part).times(coef)
    X = sample.design(rows)[0][:, : sample.rows.n_features]
    residual = (part.y - prediction) / fit.mixture.scale
    if _is_exact(found):
        residual = np.zeros_like(residual)
    weights = sample.weights(fit)[rows]
    return structure_of(X, coef, prediction, residual, weights, part.sample_weight)


def _may_be_by_accident(found: SampleFit, rows: NDArray[np.intp]) -> bool:
    """Return whether the rows that a fit sets aside may be as right as those that it keeps.

    Not where nearly all of them are far out in X: mistakes in X put rows there and nowhere else.
    But more than a third of all rows are a part of the table, such as later years of what grows.
    Nor where they are a bump beside a gap, which no model but this one has: a part of the table
    that was shifted as a whole, whether or not X tells which. Nor where hardly any lies near the
    others: tails and curves lead away step by step, another unit does not. Few rows cannot tell.
    """
    sample, fit = found.sample, found.fit
    if len(rows) < _fewest(sample):
        return False
    weights, counts = sample.weights(fit), sample.counts
    is_aside = weights[rows] < 0.5
    if not is_aside.any():
        return False
    is_far = np.zeros(len(rows), dtype=bool) if found.far is None else found.far[rows]
    if np.average(is_aside & is_far, weights=counts[rows]) > MOST_FAR:
        return True
    inside, holds_most = rows[~is_far], fit.mixture.share >= MAJORITY
    aside = float(counts[inside] @ is_aside[~is_far])
    if holds_most and not aside > SET_ASIDE * float(counts[inside].sum()):
        return False
    off = np.abs(sample.residual(sample.part(rows), fit.solution.z)) / fit.mixture.scale
    near = np.average(off[is_aside] < NEARBY, weights=counts[rows][is_aside])
    unsure = (counts @ np.minimum(weights, 1.0 - weights)) / (counts @ (1.0 - weights))
    is_bump = unsure < NO_DOUBT and _stands_apart(found, weights)
    return not (is_bump or (holds_most and near < FEW_NEARBY))


def _fewest(sample: Sample) -> int:
    """Return of how many rows on parts of them can say something."""
    return max(FEWEST, FEWEST_EACH * sample.fleet.n_coef)


def _telling(found: SampleFit, rows: NDArray[np.intp]) -> Telling:
    """Return how X tells the rows that the fit sets aside, leaving single ones far out alone."""
    rows = _thinned(rows, ROWS_FOR_STRUCTURE)
    X = found.sample.design(rows)[0][:, : found.sample.rows.n_features]
    inside = not_far_out(X)
    rows, X = rows[inside], X[inside]
    aside = found.sample.weights(found.fit)[rows] < 0.5
    return telling_of(X, aside, found.sample.counts[rows])


def _unconfirmed(found: SampleFit, rows: NDArray[np.intp]) -> float:
    """Return the share of few rows that the fit sets aside, if others do not confirm that."""
    sample, fit = found.sample, found.fit
    counts, is_aside = sample.counts[rows], sample.weights(fit)[rows] < 0.5
    aside = float(np.average(is_aside, weights=counts))
    if len(rows) > FEW or aside <= MANY:
        return 0.0
    off = np.abs(sample.residual(sample.part(rows[is_aside]), fit.solution.z))
    if fit.mixture.share >= MAJORITY and np.median(off) > BEYOND_TAILS * fit.mixture.scale:
        return 0.0
    table = RobustRows.of(sample, rows)
    plain = table.huber_fit()
    moved = np.sqrt(np.mean(np.square(table.design @ (plain.coef - fit.solution.z))))
    scale = plain.scale_rule.of(table.X)
    posterior = plain.noise.posterior((table.y - table.design @ plain.coef) / scale)
    by_plain = float(np.average(posterior < 0.5, weights=counts))
    if moved < ALIKE * fit.mixture.scale and abs(by_plain - aside) < AS_MANY:
        return 0.0
    return 0.0 if is_confirmed(sample, _plain_fit) else aside


def _plain_fit(sample: Sample) -> NoiseState:
    return RobustRows.of(sample, np.arange(sample.n_samples)).huber_fit()


def spread_rows(found: SampleFit, most: int, far_rows_vote: bool = True) -> NDArray[np.intp]:
    """Return rows evenly spread over the sample, with or without those far out in X.

    Where only a minority is not far out, as beside many copies of one row, none is.
    """
    rows, far = _new_rows(found.sample), found.far
    if far is not None and not far_rows_vote and np.mean(far[rows]) < MAJORITY:
        rows = rows[~far[rows]]
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


def _stands_apart(found: SampleFit, weights: Vector) -> bool:
    """Return whether the fit holds most rows and others form a bump of their own beside it.

    Tails thin out with the distance, however long they are. Where a tenth of the rows gathers
    further out than fewer do nearer by, there is more than one kind of row, and the fit of the
    larger kind is not to be judged by how far it is from the others.
    """
    fit, sample = found.fit, found.sample
    scale = fit.mixture.scale
    if float(np.average(weights, weights=sample.counts)) < MAJORITY:
        return False
    residual = sample.residual(sample.rows, fit.solution.z) / scale
    for side in (residual, -residual):
        out = side >= BUMPS[0]
        shell = np.floor(np.log(side[out] / BUMPS[0]) / np.log(BUMPS[1])).astype(np.intp)
        rows = np.bincount(shell, sample.counts[out]) / sample.counts.sum()
        if rows.size and np.any((rows >= BUMP) & (rows >= TWICE * np.minimum.accumulate(rows))):
            return True
    return False


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
    rows: NDArray[np.intp]
    cell: float = 0.0

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
        at = self._evenly_around(huber(design, y, first, self.counts), kind)
        if at.noise.spread <= _rounding(self.sample):
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
        scale = self._scale(np.abs(self.y - self.design @ at.coef))
        if scale <= _rounding(self.sample):
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

        On a curve, precise rows would bend the line to where they are.
        """
        if at.scale_rule.is_even or self.left_over(at).is_bent:
            return at
        precise = replace(at, is_precise=True)
        for _ in range(MOST_STEPS // 2):
            precise = replace(precise, coef=self._step(precise))
        return precise if self.costs(at.coef, precise.coef) <= FOR_NOTHING else at

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

    def gain(self, found: SampleFit, plain: NoiseState, surely: float) -> float:
        """Return by which share a plain fit misses less than the one found.

        0 if not clearly, and by as many standard errors. Each row is judged as if left out of both
        fits. A miss counts for no more than some scales of the plain fit's, or than few scales of
        the closer fit's where other rows stand apart from the fit's own.
        """
        weights = self.sample.weights(found.fit)
        by_ours = self._misses(found.fit.solution.z, weights[self.rows])
        by_plain = self._misses(plain.coef, self._pull(plain))
        cap = CAP * self._scale(by_plain)
        if _stands_apart(found, weights):
            surely = SURELY[-1]
            cap = TIGHT * min(self._scale(by_ours), self._scale(by_plain))
        by_ours, by_plain = np.minimum(by_ours, cap), np.minimum(by_plain, cap)
        difference = by_ours - by_plain
        mean = self._mean(difference)
        n = np.square(self.counts.sum()) / np.sum(np.square(self.counts))
        error = np.sqrt(self._mean(np.square(difference - mean)) / n)
        gain = mean / max(self._mean(by_plain), 1e-300)
        least = CLEARLY if surely else 0.0
        return gain if gain > least and mean > surely * error else 0.0

    def costs(self, before: Vector, after: Vector) -> float:
        """Return by which share other coefficients miss the rows by more, up to a cap."""
        misses = [np.abs(self.y - self.design @ coef) for coef in (before, after)]
        cap = CAP * robust_scale(misses[0], self.counts)
        old, new = (self._mean(np.minimum(miss, cap)) for miss in misses)
        return new / max(old, 1e-300) - 1.0

    def only(self, rows: NDArray[np.intp]) -> RobustRows:
        """Return the table without rows that are not among these."""
        return RobustRows.of(self.sample, self.rows[np.isin(self.rows, rows)])

    def _misses(self, coef: Vector, weights: Vector) -> Vector:
        """Return how far each row lies from what the others, weighed like this, predict for it."""
        pull = self.counts * weights
        gram = (self.design * pull[:, None]).T @ self.design
        basis = supported_basis(gram, LEAST_SUPPORT)
        own = pull * np.sum(np.square(self.design @ basis), axis=1)
        miss = np.abs(self.y - self.design @ coef) / (1.0 - np.minimum(own, MOST_LEVERAGE))
        return np.asarray(np.maximum(miss, _rounding(self.sample)))

    def _scale(self, miss: Vector) -> float:
        """Return the scale of the misses that are more than rounding."""
        some = miss > _rounding(self.sample)
        return robust_scale(miss[some], self.counts[some]) if some.any() else 0.0

    def _mean(self, values: Vector) -> float:
        return float(np.average(values, weights=self.counts))

    def _pull(self, at: NoiseState) -> Vector:
        scale = at.scale_rule.of(self.X)
        residual = (self.y - self.design @ at.coef) / scale
        return at.noise.posterior(residual) * at.rule.pull(residual, scale)

    def _step(self, at: NoiseState) -> Vector:
        return weighted_fit(self.design, self.y, self.counts * self._pull(at))

    def _noise(
        self,
        residual: Vector,
        kind: Kind | None = None,
        start: NoiseModel | None = None,
        near: float | None = None,
    ) -> FittedNoise:
        anchor = max(float(np.std(self.y)), 1e-12 * float(np.abs(self.y).max(initial=0.0))) or 1.0
        counts = histogram(residual, self.counts, anchor, self.cell)[None, None]
        losses = LossSummary(counts, anchor, self.design.shape[1])
        scale = near or robust_scale(residual, self.counts)
        scale = max(scale, 2.0 * ROUNDING * anchor, self.cell / 3.0)
        even = NoiseModel(losses.total, 1.0, 0.0, scale, scale, np.inf, (-np.inf,), (0.0,))
        return fit_noise(losses, even, kind, start)
