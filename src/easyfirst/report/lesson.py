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


@dataclass(frozen=True, eq=False)
class Lesson:
    """How common each kind is, and what rows share that no listed kind has."""

    weights: Weights
    shared: tuple[Shared, ...] = ()

    def kinds(self, rows: RowsInQuestion) -> list[Mistake]:
        """Return the kinds of mistake for some rows."""
        return [*mistakes_in(rows), *(each.mistake(rows) for each in self.shared)]

    def belief(self, rows: RowsInQuestion, kinds: list[Mistake]) -> Matrix:
        """Return the probability of every kind in every row."""
        return belief_in(Smooth.of(rows), relative(rows, kinds), self.weights)


def learned(rows: RowsInQuestion) -> tuple[Lesson, Matrix]:
    """Learn from rows; also return the probability of every kind in each of them.

    No row vouches for itself there.
    """
    kinds, smooth, matter = mistakes_in(rows), Smooth.of(rows), _matter(rows)
    listed, density = len(kinds), relative(rows, kinds)
    search = SEARCHED + np.log(max(float(matter.sum()), 1.0))
    shared: list[Shared] = []
    earned: list[int] = []
    prior = prior_of(kinds, listed)
    mixture = fitted(smooth, density, matter, prior, earned)
    while len(earned) < MOST_EARNED:
        left = matter * (1.0 - mixture.belief[:, earned].sum(axis=1))
        found = list(dict.fromkeys(shared_by(rows, matter) + shared_by(rows, left)))
        tried = [*kinds, *(each.mistake(rows) for each in found)]
        tried_prior = prior_of(tried, listed)
        tried_density = density
        if found:
            more = relative(rows, tried[len(kinds) :])
            tried_density = np.concatenate([density, more], axis=1)
        cost = np.where(np.arange(len(tried)) < len(kinds), PRICE, search)
        net = gains(mixture, tried_density, matter) + np.log(tried_prior) - cost
        net[earned] = -np.inf
        best, highest = None, mixture.evidence
        for each in np.argsort(-net, kind="stable")[:MOST_TRIED].tolist():
            again = fitted(smooth, tried_density, matter, tried_prior, [*earned, each])
            if again.evidence - cost[each] > highest:
                best, highest = each, again.evidence - cost[each]
        if best is None:
            break
        if best >= len(kinds):
            shared.append(found[best - len(kinds)])
            kinds, best = [*kinds, tried[best]], len(kinds)
            density, prior = relative(rows, kinds), prior_of(kinds, listed)
        earned.append(best)
        mixture = fitted(smooth, density, matter, prior, earned)
    return Lesson(mixture.weights, tuple(shared)), mixture.belief


def _matter(rows: RowsInQuestion) -> Vector:
    """Return how much each row tells about the kinds: those with small errors tell nothing."""
    noticed = rows.off >= NOTICED * rows.scale
    return np.where(noticed, 1.0 - rows.quality, 0.0)
