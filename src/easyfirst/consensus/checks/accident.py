"""Whether a fit sets rows aside by accident: they may be as right as those that it keeps.

The best of many starts follows whichever rows lie closest to some line. Three grounds show that the
others are wrong whatever the fit says of them: `GROUNDS`. Without any of them, the columns must not
tell which rows are set aside (`telling.py`), and few rows that took no part have to confirm the fit
(`cross_fitting.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from easyfirst.consensus.checks.cross_fitting import is_confirmed
from easyfirst.consensus.checks.robust_rows import RobustRows
from easyfirst.consensus.checks.standing_apart import stands_apart
from easyfirst.consensus.checks.telling import Telling, telling_of
from easyfirst.consensus.robust.structure import not_far_out
from easyfirst.consensus.rounds.of_noise import NoiseState
from easyfirst.consensus.starts.asked_rows import thinned
from easyfirst.consensus.starts.found import SampleFit
from easyfirst.consensus.starts.sample import Sample
from easyfirst.contracts import Vector
from easyfirst.noise import Kind

MAJORITY = 0.5
ROWS_TO_TELL = 3000
MOST_FAR = 1.0 / 3.0  # of the rows: more that are far out in X are a part of the table
SET_ASIDE = 0.05  # of the rows that are not far out: fewer may be by mistakes in X alone
FOLLOWS = 0.5  # of how far out a row is predicted: missing it by less, it follows the others
NEARBY, FEW_NEARBY = 12.0, 0.1  # scales, and the share of rows set aside that lies within
NO_DOUBT = 0.02  # of the rows set aside might be clean, where these are a bump beside a gap
FEW = 600  # rows: of more, the best of many starts is no accident,
FEWEST, FEWEST_EACH = 40, 5  # and of fewer, in all and per coefficient, parts of them say nothing
MANY = 0.08  # of few rows set aside by accident,
BEYOND_TAILS = 25.0  # scales: no noise of a majority has a tenth of its rows that far out
LIKELIER = 3.0  # by log-likelihood, beside a bump than by noise of one piece: 20 to one
ALIKE = 0.1  # scales of the noise: a plain fit that predicts as closely as this,
AS_MANY = 0.02  # and sets aside as many, is the same


@dataclass(frozen=True)
class Accident:
    """Why the rows set aside may be right: X tells them, or other rows do not confirm the fit.

    `unconfirmed` is the share of rows that an unconfirmed fit sets aside. `kind` is that of the
    noise around the fit, and `plain` a plain fit of the rows, if these were looked at.
    """

    telling: Telling = field(default_factory=Telling)
    unconfirmed: float = 0.0
    kind: Kind | None = None
    plain: NoiseState | None = None

    @property
    def is_likely(self) -> bool:
        """Whether there is a reason to prefer a plain fit."""
        return self.telling.is_clear or self.unconfirmed > 0.0


def accident_of(found: SampleFit, rows: NDArray[np.intp]) -> Accident:
    """Return why the rows that a fit sets aside, among these, may be as right as the others."""
    aside = SetAside(found, rows)
    if not aside.may_be_right:
        return Accident()
    telling = aside.telling()
    if telling.is_clear or not aside.is_to_be_confirmed:
        return Accident(telling)
    kind = aside.kind
    if aside.has_a_plain_fit_alike(kind):
        return Accident(telling, kind=kind)
    plain = RobustRows.of(found.sample, rows).huber_fit()
    is_sure = is_confirmed(found.sample, partial(_plain_fit, plain.kind))
    return Accident(telling, 0.0 if is_sure else aside.share, kind, plain)


@dataclass(frozen=True, eq=False)
class SetAside:
    """The rows that a fit sets aside, among some rows of its sample."""

    found: SampleFit
    rows: NDArray[np.intp]

    @cached_property
    def weights(self) -> Vector:
        """The probability of every row of the sample to be clean."""
        return self.found.sample.weights(self.found.fit)

    @cached_property
    def is_aside(self) -> NDArray[np.bool_]:
        """Which of the rows are set aside."""
        return np.asarray(self.weights[self.rows] < 0.5)

    @cached_property
    def is_far(self) -> NDArray[np.bool_]:
        """Which of the rows lie far out in X."""
        far = self.found.far
        return np.zeros(len(self.rows), dtype=bool) if far is None else far[self.rows]

    @property
    def counts(self) -> Vector:
        """How many rows each one stands for."""
        return self.found.sample.counts[self.rows]

    @property
    def holds_most(self) -> bool:
        """Whether the fit is that of a majority."""
        return self.found.fit.mixture.share >= MAJORITY

    @property
    def may_be_right(self) -> bool:
        """Whether nothing shows that the rows are wrong; few rows cannot tell."""
        fewest = max(FEWEST, FEWEST_EACH * self.found.sample.fleet.n_coef)
        if len(self.rows) < fewest or not self.is_aside.any():
            return False
        return self.is_part_of_the_table or not any(ground(self) for ground in GROUNDS)

    @property
    def is_part_of_the_table(self) -> bool:
        """Whether a third of all rows is set aside far out, such as later years of what grows."""
        return bool(np.average(self.is_aside & self.is_far, weights=self.counts) > MOST_FAR)

    @property
    def lies_far_out(self) -> bool:
        """Whether nearly all are far out in X: mistakes in X put rows there and nowhere else.

        Where they are mistakes, y does not go out with X.
        """
        counts, inside = self.counts[~self.is_far], self.is_aside[~self.is_far]
        are_few = not counts @ inside > SET_ASIDE * float(counts.sum())
        return self.holds_most and are_few and not self._follow_from_far_out

    @property
    def _follow_from_far_out(self) -> bool:
        """Whether most of those far out go where they are predicted, only less closely."""
        sample, far = self.found.sample, self.is_aside & self.is_far
        if not far.any() or self.is_far.all():
            return False
        rows = sample.part(self.rows)
        off = sample.residual(rows, self.found.fit.solution.z)
        predicted = rows.y - off
        out = np.abs(predicted - np.median(predicted[~self.is_far]))
        return bool(np.mean(np.abs(off[far]) < FOLLOWS * out[far]) > MAJORITY)

    @property
    def is_a_bump(self) -> bool:
        """Whether they are a bump beside a gap, which no model but this one has.

        A part of the table was shifted as a whole, whether or not X tells which.
        """
        weights, counts = self.weights, self.found.sample.counts
        unsure = (counts @ np.minimum(weights, 1.0 - weights)) / (counts @ (1.0 - weights))
        return bool(unsure < NO_DOUBT) and stands_apart(self.found, weights)

    @property
    def lies_far_off(self) -> bool:
        """Whether hardly any lies near the others.

        Tails and curves lead away step by step, another unit does not.
        """
        sample, fit = self.found.sample, self.found.fit
        off = np.abs(sample.residual(sample.part(self.rows), fit.solution.z)) / fit.mixture.scale
        is_near = off[self.is_aside] < NEARBY
        near = np.average(is_near, weights=self.counts[self.is_aside])
        return self.holds_most and bool(near < FEW_NEARBY)

    def telling(self) -> Telling:
        """Return how X tells the rows set aside, leaving single ones far out alone."""
        sample, rows = self.found.sample, thinned(self.rows, ROWS_TO_TELL)
        X = sample.design(rows)[0][:, : sample.rows.n_features]
        inside = not_far_out(X)
        rows, X = rows[inside], X[inside]
        return telling_of(X, self.weights[rows] < 0.5, sample.counts[rows])

    @cached_property
    def share(self) -> float:
        """The share of the rows that is set aside."""
        return float(np.average(self.is_aside, weights=self.counts))

    @property
    def is_to_be_confirmed(self) -> bool:
        """Whether many of few rows are set aside, which noise with tails may explain as well."""
        if len(self.rows) > FEW or self.share <= MANY or self._is_beyond_tails:
            return False
        beside = self.found.beside
        return beside is None or beside.gain <= LIKELIER

    @property
    def kind(self) -> Kind:
        """The kind of even noise around the fit."""
        table = RobustRows.of(self.found.sample, self.rows)
        return table.kind_around(self.found.fit.solution.z)

    @property
    def _is_beyond_tails(self) -> bool:
        """Whether most lie further off than any noise.

        A line that a third of the rows far out in X had no say in may miss them by anything.
        """
        if not self.holds_most or self.is_part_of_the_table:
            return False
        sample, fit = self.found.sample, self.found.fit
        off = np.abs(sample.residual(sample.part(self.rows[self.is_aside]), fit.solution.z))
        return bool(np.median(off) > BEYOND_TAILS * fit.mixture.scale)

    def has_a_plain_fit_alike(self, kind: Kind) -> bool:
        """Return whether a plain fit predicts the same and sets as many rows aside.

        Where it predicts the same, the kind of noise around it is the one around the fit found.
        """
        table, fit = RobustRows.of(self.found.sample, self.rows), self.found.fit
        plain = table.huber_fit(None if kind.has_bump else kind)  # a plain fit knows of no bump
        moved = np.sqrt(np.mean(np.square(table.design @ (plain.coef - fit.solution.z))))
        scale = plain.scale_rule.of(table.X)
        posterior = plain.noise.posterior((table.y - table.design @ plain.coef) / scale)
        by_plain = float(np.average(posterior < 0.5, weights=self.counts))
        return bool(moved < ALIKE * fit.mixture.scale) and abs(by_plain - self.share) < AS_MANY


def _plain_fit(kind: Kind, sample: Sample) -> NoiseState:
    return RobustRows.of(sample, np.arange(sample.n_samples)).huber_fit(kind)


# What shows that rows set aside are wrong; each stands for itself, in no order.
GROUNDS: tuple[Callable[[SetAside], bool], ...] = (
    lambda aside: aside.lies_far_out,
    lambda aside: aside.is_a_bump,
    lambda aside: aside.lies_far_off,
)
