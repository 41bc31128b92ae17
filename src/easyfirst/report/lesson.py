"""Which kinds of mistake are common among the rows that look wrong.

Kinds become common one after the other, the one first that explains most, as long as the rows earn
it: by more than its price. A factor or a shift that rows share was looked for everywhere, and costs
more than a kind that is listed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from easyfirst.contracts import Matrix, Vector
from easyfirst.report.mistakes import NOTICED, Mistake, RowsInQuestion, mistakes_in
from easyfirst.report.shared import Shared, shared_by
from easyfirst.report.weighing import (
    Mixture,
    Smooth,
    Weights,
    belief_in,
    fitted,
    gains,
    prior_of,
    relative,
)

PRICE = 2.5  # log-likelihood that an earned kind costs, besides that for how rare it is
SEARCHED = 4.0  # ... and one found by looking everywhere, besides the logarithm of the rows
MOST_TRIED = 4  # kinds that gain most, of which the one is taken that the evidence is best with
MOST_EARNED = 12
LEAST_NOTICED = 0.05  # share of the mistakes of a kind; fewer are tails, of which little is known


@dataclass(frozen=True, eq=False)
class Lesson:
    """How common each kind is, and what rows share that no listed kind has."""

    weights: Weights
    shared: tuple[Shared, ...] = ()
    may_cross: bool = True

    def kinds(self, rows: RowsInQuestion) -> list[Mistake]:
        """Return the kinds of mistake for some rows."""
        return [*mistakes_in(rows), *(each.mistake(rows) for each in self.shared)]

    def belief(self, rows: RowsInQuestion, kinds: list[Mistake]) -> Matrix:
        """Return the probability of every kind in every row."""
        return belief_in(Smooth.of(rows, self.may_cross), relative(rows, kinds), self.weights)


def learned(rows: RowsInQuestion) -> tuple[Lesson, Matrix]:
    """Learn from rows; also return the probability of every kind in each of them.

    Where values have a sign that hardly any right one has, errors without a rule cross zero only
    if that explains the rows better than all else, wrong signs included.
    """
    known = Known.of(rows, mistakes_in(rows))
    lesson, mixture, evidence = _learned(rows, known, may_cross=False)
    if rows.crossed.any():
        other, other_mixture, other_evidence = _learned(rows, known, may_cross=True)
        if other_evidence - PRICE > evidence:
            return other, other_mixture.belief
    return lesson, mixture.belief


@dataclass(frozen=True, eq=False)
class Known:
    """Kinds of mistake, how many of each would be noticed, and densities of noticed ones.

    Only mistakes that are noticed are among the rows in question: a wrong sign shows in large
    values more than in small ones.
    """

    kinds: list[Mistake]
    noticed: Vector
    density: Matrix

    @classmethod
    def of(cls, rows: RowsInQuestion, kinds: list[Mistake]) -> Known:
        """Return what some kinds make of some rows."""
        shares = {kind.times: 1.0 for kind in kinds}
        shares |= {times: rows.noticed_share(times) for times in shares if times is not None}
        noticed = np.maximum([shares[kind.times] for kind in kinds], LEAST_NOTICED)
        return cls(kinds, noticed, relative(rows, kinds) / noticed)

    def and_also(self, others: Known) -> Known:
        """Return these kinds and others."""
        return Known(
            [*self.kinds, *others.kinds],
            np.concatenate([self.noticed, others.noticed]),
            np.concatenate([self.density, others.density], axis=1),
        )

    def some(self, places: list[int]) -> Known:
        """Return some of the kinds."""
        kinds = [self.kinds[place] for place in places]
        return Known(kinds, self.noticed[places], self.density[:, places])


def _learned(rows: RowsInQuestion, known: Known, may_cross: bool) -> tuple[Lesson, Mixture, float]:
    """Learn from rows; also return the mixture and its evidence less what the kinds cost.

    No row vouches for itself there.
    """
    smooth, matter, listed = Smooth.of(rows, may_cross), _matter(rows), len(known.kinds)
    search = SEARCHED + np.log(max(float(matter.sum()), 1.0))
    shared: list[Shared] = []
    earned: list[int] = []
    paid = 0.0
    mixture = fitted(smooth, known.density, matter, prior_of(known.kinds, listed), earned)
    while len(earned) < MOST_EARNED:
        left = matter * (1.0 - mixture.belief[:, earned].sum(axis=1))
        found = list(dict.fromkeys(shared_by(rows, matter) + shared_by(rows, left)))
        tried, n_known = known, len(known.kinds)
        if found:
            tried = known.and_also(Known.of(rows, [each.mistake(rows) for each in found]))
        prior = prior_of(tried.kinds, listed)
        cost = np.where(np.arange(prior.size) < n_known, PRICE, search)
        net = gains(mixture, tried.density, matter) + np.log(prior) - cost
        net[earned] = -np.inf
        best, highest, better = None, mixture.evidence, mixture
        for each in np.argsort(-net, kind="stable")[:MOST_TRIED].tolist():
            # What was found and is not tried now is no kind, else it would explain rows for free.
            some = sorted({*range(n_known), each})
            more = [*earned, min(each, n_known)]
            again = fitted(smooth, tried.density[:, some], matter, prior[some], more)
            if again.evidence - cost[each] > highest:
                best, highest, better = each, again.evidence - cost[each], again
        if best is None:
            break
        paid, mixture = paid + float(cost[best]), better
        earned.append(min(best, n_known))
        if best >= n_known:
            shared.append(found[best - n_known])
            known = tried.some([*range(n_known), best])
    weights = Weights(mixture.weights.places, mixture.weights.kinds / known.noticed)
    return Lesson(weights, tuple(shared), may_cross), mixture, mixture.evidence - paid


def _matter(rows: RowsInQuestion) -> Vector:
    """Return how much each row tells about the kinds: those with small errors tell nothing."""
    noticed = rows.off >= NOTICED * rows.scale
    return np.where(noticed, 1.0 - rows.quality, 0.0)
