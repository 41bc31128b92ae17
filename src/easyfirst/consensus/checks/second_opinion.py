"""A second opinion on the fit of the sample, where its residuals still depend on X.

A fit with probabilities can lock onto a part of the rows: on a curve it follows one stretch and
calls the others corrupted. Mistakes that strike at random leave no such trace, so a fit whose
residuals do not depend on X is trusted, unless it may have come about by accident
(`accident.py`). Otherwise a plain robust fit (`robust_rows.py`) is made beside it, and the one that
misses the rows by less wins, each row being judged as if it had been left out. A miss counts for no
more than some scales, so that corrupted rows have no say: few scales where they form a bump of
their own beside a majority. What a plain fit gains on rows far out in X must not be paid for by the
others, unless these bend away from the line themselves: it may be following mistakes in X.

Then the fit goes on by the noise around it, whose size may follow the prediction and the columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from easyfirst.consensus.checks.accident import Accident, SetAside, accident_of
from easyfirst.consensus.checks.extrapolation import CAP
from easyfirst.consensus.checks.robust_rows import RobustRows, rounding_of
from easyfirst.consensus.checks.standing_apart import rows_far_apart, stands_apart
from easyfirst.consensus.checks.telling import Telling, telling_of
from easyfirst.consensus.robust.structure import Structure, structure_of
from easyfirst.consensus.rounds.of_noise import NoiseState
from easyfirst.consensus.starts.asked_rows import spread_rows, thinned
from easyfirst.consensus.starts.coarse_targets import is_exact_by_chance
from easyfirst.consensus.starts.found import SampleFit
from easyfirst.consensus.starts.sample import SCREENED_FEATURES, Sample
from easyfirst.consensus.starts.voting import one_sided_rest
from easyfirst.local.weighing import Problem

ROWS = (4000, 12)  # at the most, or so many per coefficient
LEAST_SHARE, PRODUCTS = 0.01, 10**7  # of clean rows; rows for which a Gram matrix is cheap
ROWS_FOR_STRUCTURE = 3000
CLEARLY = 0.01  # smaller the mean miss of a plain fit has to be,
SURELY = (0.0, 1.0, 2.0)  # and by standard errors: beside a minority, a wrong line, any fit
PRICE = 0.1  # more that rows inside may miss by, for what a plain fit gains far out
TIGHT = 3.0  # scales of the closer fit's misses
MAJORITY = 0.5
OF_A_KIND = 0.7  # share of who is far apart that the columns tell: a season tells half of a block
TOLD_APART = 0.25  # log-likelihood of a clean row: rows that can be told apart are worth it
COINCIDENCE = 1e-5  # standard deviations of y: noise of a minority that is none
FAINT = 0.1  # density of corrupted rows over that of a minority of clean ones, where it is highest


@dataclass(frozen=True, eq=False)
class Opinion:
    """How the residuals depend on X; the noise around the fit found, or the fit to prefer to it.

    `left` is how they depend on X around the start, in units of the noise there. `gain` is by which
    share the mean miss of the preferred fit is smaller. Rows far out in X have no vote where they
    contradict all others. Another fit is also preferred where the one found may have come about by
    `accident`.
    """

    structure: Structure = field(default_factory=Structure)
    start: NoiseState | None = None
    left: Structure = field(default_factory=Structure)
    gain: float = 0.0
    is_preferred: bool = False
    is_for_coarse_target: bool = False
    far_rows_vote: bool = True
    accident: Accident = field(default_factory=Accident)

    @property
    def telling(self) -> Telling:
        """How X tells the rows that the fit found sets aside, if that is why it gave way."""
        return self.accident.telling

    @property
    def unconfirmed(self) -> float:
        """The share of rows that a fit set aside which other rows do not confirm."""
        return self.accident.unconfirmed


def second_opinion(found: SampleFit, has_rival: bool = False) -> Opinion:
    """Look for structure in the residuals; if there is some, compare with a plain robust fit.

    With a rival of equal support the residuals depend on X, too, and no line suits both. Rows far
    apart from all others are not asked: a fit between two kinds of rows is near to both, and that
    of neither.
    """
    sample, fit = found.sample, found.fit
    if not _can_be_asked(sample):
        return Opinion()
    if not fit.is_calibrated or found.cell or is_exact_by_chance(sample, fit):
        table = RobustRows.of(sample, spread_rows(found, _enough(sample)))
        opinion = _preferred(replace(table, cell=found.cell), Structure(), 1.0)
        return replace(opinion, is_for_coarse_target=fit.is_calibrated)
    apart = rows_far_apart(found)
    if has_rival or _is_exact(found) or not apart.any() or _is_a_kind(found, apart):
        return _opinion(found, has_rival)
    far = None if found.far is None else found.far[~apart]
    opinion = _opinion(replace(found, sample=sample.only(~apart), far=far), has_rival)
    if found.far is not None and np.mean(found.far[apart]) > MAJORITY:
        opinion = replace(opinion, far_rows_vote=False)  # mistakes in X put them where they are
    return _among_all(found, opinion)


def _is_a_kind(found: SampleFit, apart: NDArray[np.bool_]) -> bool:
    """Return whether rows far apart are a part of the table: many far out in X, or told by it."""
    everyone = np.arange(found.sample.n_samples)
    if SetAside(found, everyone).is_part_of_the_table:
        return True
    rows = thinned(everyone, ROWS_FOR_STRUCTURE)
    X = found.sample.design(rows)[0][:, : found.sample.rows.n_features]
    return telling_of(X, apart[rows], found.sample.counts[rows]).share > OF_A_KIND


def _among_all(found: SampleFit, opinion: Opinion) -> Opinion:
    """Return an opinion of some rows with the noise that all of them have around its start."""
    start, most = opinion.start, _enough(found.sample)
    if start is None:
        return opinion
    table = RobustRows.of(found.sample, spread_rows(found, most, opinion.far_rows_vote))
    start = table.around(start.coef, near=start.noise.spread)
    return replace(opinion, start=start, left=table.left_over(start))


def _opinion(found: SampleFit, has_rival: bool) -> Opinion:
    sample, fit = found.sample, found.fit
    everyone = spread_rows(found, sample.n_samples)
    structure, is_exact = _structure(found, everyone), _is_exact(found)
    if is_exact and np.all(sample.weights(fit) >= 0.5):
        return Opinion()
    accident = Accident() if is_exact else accident_of(found, everyone)
    if accident.is_likely:
        table = RobustRows.of(sample, thinned(everyone, _enough(sample)))
        plain = accident.plain or table.huber_fit()
        opinion = _preferred(table, structure, gain_of(table, found, plain, 0.0), plain)
        return replace(opinion, accident=accident)
    opinion = _Comparison(found, everyone, structure, is_exact, has_rival).opinion()
    return replace(opinion, accident=accident)


def may_be_second_guessed(problem: Problem) -> bool:
    """Return whether weights are probabilities that nobody but the rows has a say in.

    A regularizer of the user's own and rows that are known to be right are to be honoured.
    """
    return problem.regularizer.is_posterior and not problem.has_trusted


def _can_be_asked(sample: Sample) -> bool:
    if not may_be_second_guessed(sample.fleet.problem):
        return False
    penalised = not sample.objective.is_unpenalised  # which makes residuals follow the columns
    few = sample.n_samples < 2 * sample.fleet.n_coef + 3
    return not (penalised or few or sample.rows.n_features > SCREENED_FEATURES)


def _enough(sample: Sample) -> int:
    return max(ROWS[0], ROWS[1] * sample.fleet.n_coef)


def _preferred(
    table: RobustRows, structure: Structure, gain: float, plain: NoiseState | None = None
) -> Opinion:
    """Return the opinion that the plain fit is the one to return."""
    start = table.precise(plain or table.huber_fit())
    return Opinion(structure, start, table.left_over(start), gain, is_preferred=True)


def _is_exact(found: SampleFit) -> bool:
    """Return whether the clean rows are fitted to the last digit, or few of them nearly so.

    Where y has been rounded and X has few different rows, some coincide by chance.
    """
    mixture, least = found.fit.mixture, rounding_of(found.sample)
    if mixture.share < MAJORITY:
        least = max(least, COINCIDENCE * found.sample.fleet.problem.anchor)
    return mixture.scale <= least


def _structure(found: SampleFit, rows: NDArray[np.intp]) -> Structure:
    """Return how the residuals of some rows depend on X.

    Of an exact fit, only which rows it does not hold: rounding errors depend on X anyway.
    """
    sample, fit = found.sample, found.fit
    rows = thinned(rows, ROWS_FOR_STRUCTURE)
    part, coef = sample.part(rows), fit.solution.z
    prediction = sample.fleet.problem.design(part).times(coef)
    X = sample.design(rows)[0][:, : sample.rows.n_features]
    residual = (part.y - prediction) / fit.mixture.scale
    if _is_exact(found):
        residual = np.zeros_like(residual)
    weights = sample.weights(fit)[rows]
    return structure_of(X, coef, prediction, residual, weights, part.sample_weight)


@dataclass(frozen=True, eq=False)
class _Beside:
    """A plain fit of some rows beside the one found, and by which share it misses less."""

    table: RobustRows
    structure: Structure
    plain: NoiseState | None = None
    gain: float = 0.0


@dataclass(frozen=True, eq=False)
class _Comparison:
    """The fit found beside a plain one, by all rows and by those that are not far out in X."""

    found: SampleFit
    everyone: NDArray[np.intp]
    structure: Structure
    is_exact: bool
    has_rival: bool

    def opinion(self) -> Opinion:
        """Return which fit misses the rows by less."""
        if not self._is_worth_a_fit(self.structure):
            return Opinion(self.structure)
        chosen, votes = self._beside(self.everyone, self.structure), True
        if len(self.inside) < len(self.everyone) and not self.is_wrong:
            is_dear = self._is_dear(chosen)
            bends, calm = self.structure.is_bent, not self.among_inside.is_noticed
            chosen = replace(chosen, gain=0.0) if is_dear else chosen
            votes = chosen.gain > 0.0 or not (is_dear or bends or calm)
        if not votes:
            chosen = self._beside(self.inside, self.among_inside)
        return replace(self._by(chosen), far_rows_vote=votes)

    def _by(self, chosen: _Beside) -> Opinion:
        table, left, fit = chosen.table, chosen.structure, self.found.fit
        if chosen.gain > 0.0:
            return _preferred(table, left, chosen.gain, chosen.plain)
        if not left.is_noticed or self.is_exact:
            return Opinion(left)
        # Of a minority of clean rows, half of all residuals say nothing about the scale.
        near = fit.mixture.scale if self.is_minority else None
        start = table.around(fit.solution.z, near=near)
        return Opinion(left, start, table.left_over(start))

    def _is_worth_a_fit(self, structure: Structure) -> bool:
        """Return whether the fit found may describe a part of the rows."""
        is_faint = self.is_minority and self.found.fit.mixture.odds_at_zero > FAINT
        return structure.is_noticed or is_faint or self.is_exact

    def _beside(self, rows: NDArray[np.intp], structure: Structure) -> _Beside:
        sample = self.found.sample
        table = RobustRows.of(sample, thinned(rows, self._rows_enough()))
        if self.is_minority and not self.is_exact and not self.is_an_edge:
            table = replace(table, minority=self.found.fit.mixture)
        if not self._is_worth_a_fit(structure):
            return _Beside(table, structure)
        plain = table.huber_fit()
        if not structure.is_noticed and self._is_likelier(table, plain):
            return _Beside(table, structure, plain)
        return _Beside(table, structure, plain, gain_of(table, self.found, plain, self.surely))

    def _is_likelier(self, table: RobustRows, plain: NoiseState) -> bool:
        """Return whether a minority is too dense a strip to be a part of the plain fit's noise.

        In the midst of rows that are wrong on one side, a plain fit misses them all by less.
        """
        if table.minority is None:
            return False
        fit = self.found.fit
        ours, theirs = (table.worth_around(coef) for coef in (fit.solution.z, plain.coef))
        return ours - theirs > TOLD_APART * fit.mixture.share * float(table.counts.sum())

    def _rows_enough(self) -> int:
        """Return how many rows a plain fit needs: of a minority, as many clean ones."""
        fleet, share = self.found.sample.fleet, self.found.fit.mixture.share
        most = _enough(self.found.sample)
        if not self.is_minority:
            return most
        return max(most, min(int(most / max(share, LEAST_SHARE)), PRODUCTS // fleet.n_coef**2))

    def _is_dear(self, all_rows: _Beside) -> bool:
        """Return whether rows that are not far out pay for what a plain fit gains."""
        assert all_rows.plain is not None
        inside = all_rows.table.only(self.inside)
        return inside.costs(self.found.fit.solution.z, all_rows.plain.coef) > PRICE

    @property
    def is_minority(self) -> bool:
        """Whether the fit found calls most rows corrupted."""
        return self.found.fit.mixture.share < MAJORITY

    @cached_property
    def is_an_edge(self) -> bool:
        """Whether the fit found may hold no more than the steep side of skewed noise."""
        return one_sided_rest(self.found.sample, self.found.fit) == "tail"

    @cached_property
    def inside(self) -> NDArray[np.intp]:
        """The rows that are not far out in X."""
        return spread_rows(self.found, self.found.sample.n_samples, far_rows_vote=False)

    @cached_property
    def among_inside(self) -> Structure:
        """How the residuals of those depend on X."""
        is_all = len(self.inside) == len(self.everyone)
        return self.structure if is_all else _structure(self.found, self.inside)

    @property
    def is_wrong(self) -> bool:
        """Whether the rows that are not far out bend away from the fit found."""
        return self.among_inside.is_noticed if self.is_exact else self.among_inside.is_bent

    @property
    def surely(self) -> float:
        """By how many standard errors a plain fit has to miss less."""
        # A minority that X singles out has to show that it is worth more than all rows, not they.
        is_doubtful = self.is_minority and self.structure.is_noticed
        return SURELY[2 if self.has_rival else 0 if is_doubtful else 1 if self.is_wrong else 2]


def gain_of(table: RobustRows, found: SampleFit, plain: NoiseState, surely: float) -> float:
    """Return by which share a plain fit misses less than the one found.

    0 if not clearly, and by as many standard errors. Each row is judged as if left out of both
    fits. A miss counts for no more than some scales of the plain fit's, or than few scales of
    the closer fit's where other rows stand apart from the fit's own.
    """
    weights = table.sample.weights(found.fit)
    by_ours = table.misses(found.fit.solution.z, weights[table.rows])
    by_plain = table.misses(plain.coef, table.pull(plain))
    cap = CAP * table.scale_of(by_plain)
    if stands_apart(found, weights):
        surely = SURELY[-1]
        cap = TIGHT * min(table.scale_of(by_ours), table.scale_of(by_plain))
    by_ours, by_plain = np.minimum(by_ours, cap), np.minimum(by_plain, cap)
    difference = by_ours - by_plain
    mean = table.mean(difference)
    n = np.square(table.counts.sum()) / np.sum(np.square(table.counts))
    error = np.sqrt(table.mean(np.square(difference - mean)) / n)
    gain = mean / max(table.mean(by_plain), 1e-300)
    least = CLEARLY if surely else 0.0
    return gain if gain > least and mean > surely * error else 0.0
