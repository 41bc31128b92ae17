"""How common each kind of mistake is among the rows that look wrong.

Against the kinds stands a density of errors without a rule, which is learned from the same rows: a
smooth one of their sizes and one of the ratio of given to predicted values, either sign. It is so
smooth that it cannot imitate a kind, and so free that errors of arbitrary shape are no kind.

A kind is as common as its rows make it only if they earn it: together they must be explained so
much better than without the kind that chance is no explanation. All other kinds stay as rare as
the prior has them, a few rows in the whole table, so that only a coincidence that is improbable by
itself is taken for one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from easyfirst.contracts import Matrix, Vector
from easyfirst.report.mistakes import ANY_SIZE, NOTICED, Mistake, RowsInQuestion, as_matrix

SIZES = 0.5 * 2.0 ** np.arange(24)  # in noise scales beyond where errors are noticed
RATIOS = 0.35 * 2.0 ** np.arange(7)  # in logarithms, of given over predicted values in each part
PARTS = 3 * SIZES.size + 2 * RATIOS.size + 4
WITHOUT_RULE, BY_RULE = 1.0, 6.0  # rows of the prior
BY_RATIO, BY_COLUMN, BY_RANGE, BY_WHOLE, BY_ANYTHING = 0.1, 0.1, 0.1, 0.01, 0.05  # of the former
CROSSED = 2  # which of the sets of sizes belongs to errors across zero; 0 and 1: below, above
ROUNDS = 40
MOST_RATIO = 1e100  # of densities


@dataclass(frozen=True, eq=False)
class Smooth:
    """Densities of rows by the parts that they can belong to, which parts these are, the prior.

    Errors below the prediction, above it, and across zero to the less usual sign of the column are
    different parts: few things put a minus before a price.
    """

    place: NDArray[np.intp]
    density: Matrix
    prior: Vector

    @classmethod
    def of(cls, rows: RowsInQuestion, may_cross: bool = True) -> Smooth:
        """Return densities over the reference.

        Unless errors may cross zero, only a value of any size at all explains those that do.
        """
        size = (rows.error / rows.scale)[:, None]
        by_size = _half_normal(np.maximum(size - NOTICED, 0.0), SIZES) * size
        above = (rows.given >= rows.predicted).astype(np.intp)
        side = np.where(rows.crossed, CROSSED, above)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = np.log(np.abs(rows.given / rows.predicted))
            per_ratio = np.exp(-np.log(np.abs(rows.given)) - rows.log_reference)
        known = np.isfinite(ratio) & np.isfinite(per_ratio)
        known &= np.sign(rows.given) == np.sign(rows.predicted)
        by_ratio = _half_normal(np.where(known, ratio, 0.0)[:, None], RATIOS)
        by_ratio *= np.where(known, per_ratio, 0.0)[:, None]
        column = np.exp(rows.log_column - rows.log_reference)[:, None]
        evenly = np.exp(rows.log_range - rows.log_reference)[:, None]
        anywhere = np.exp(rows.log_whole_range - rows.log_reference)[:, None]
        if not may_cross:
            by_size, anywhere = (
                np.where(rows.crossed[:, None], 0.0, x) for x in (by_size, anywhere)
            )
        broad = np.full(column.shape, 0.5 / ANY_SIZE)
        first = 3 * SIZES.size
        place = [
            SIZES.size * side[:, None] + np.arange(SIZES.size),
            first + RATIOS.size * above[:, None] + np.arange(RATIOS.size),
            np.broadcast_to(np.arange(PARTS - 4, PARTS), (above.size, 4)),
        ]
        density = [by_size, by_ratio, column, evenly, anywhere, broad]
        prior = prior_places(rows)
        return cls(np.concatenate(place, axis=1), np.concatenate(density, axis=1), prior)


def _half_normal(value: Matrix, scales: NDArray[np.floating]) -> Matrix:
    density = np.sqrt(2.0 / np.pi) / scales * np.exp(-0.5 * np.square(value / scales))
    return np.asarray(density)


def prior_places(rows: RowsInQuestion) -> Vector:
    """Return the rows of the prior in each part: each order of magnitude alike.

    Errors rarely cross zero where few right values have that sign.
    """
    size = np.full(SIZES.size, 0.5 / SIZES.size)
    ratio = np.full(RATIOS.size, 0.5 / RATIOS.size)
    rest = 1.0 - BY_RATIO - BY_COLUMN - BY_RANGE - BY_WHOLE - BY_ANYTHING
    return WITHOUT_RULE * np.concatenate(
        [
            *[rest * size] * 2,
            rest * size * rows.crossing_share,
            *[BY_RATIO * ratio] * 2,
            [BY_COLUMN, BY_RANGE, BY_WHOLE, BY_ANYTHING],
        ]
    )


@dataclass(frozen=True, eq=False)
class Weights:
    """Rows at each place of the smooth densities, and rows of each kind."""

    places: Vector
    kinds: Vector


def relative(rows: RowsInQuestion, kinds: list[Mistake]) -> Matrix:
    """Return the densities of kinds over the reference."""
    log_density = as_matrix([kind.log_density for kind in kinds])
    bound = np.log(MOST_RATIO)
    return np.asarray(np.exp(np.minimum(log_density - rows.log_reference[:, None], bound)))


def belief_in(smooth: Smooth, density: Matrix, weights: Weights) -> Matrix:
    """Return the probability of every kind in every row."""
    by_kind = density * weights.kinds
    by_place = np.sum(smooth.density * weights.places[smooth.place], axis=1)
    return np.asarray(by_kind / (by_kind.sum(axis=1) + by_place)[:, None])


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture fitted to rows, of which some kinds were earned.

    `whole` is the density of each row, for which other rows vouch and not the row itself, and not
    yet divided by all counts; `belief` are the probabilities of the kinds.
    """

    weights: Weights
    whole: Vector
    belief: Matrix
    evidence: float


def prior_of(kinds: list[Mistake], listed: int) -> Vector:
    """Return the rows of the prior of each kind, of which the first are always there."""
    prior = np.array([kind.prior for kind in kinds])
    return np.asarray(BY_RULE * prior / prior[:listed].sum())


def fitted(
    smooth: Smooth, density: Matrix, matter: Vector, prior: Vector, earned: list[int]
) -> Mixture:
    """Fit the mixture by expectation maximisation; kinds that were not earned stay as they are."""
    usual, total = smooth.prior, float(matter.sum())
    rare = prior.copy()
    rare[earned] = 0.0
    held, own, own_prior = density @ rare, density[:, earned], prior[earned]
    at = usual[smooth.place] * (1.0 + total / WITHOUT_RULE)
    counts: Matrix | Vector = own_prior + total / (1.0 + len(earned))
    for _ in range(ROUNDS):
        by_place, by_kind = smooth.density * at, own * counts
        whole = by_place.sum(axis=1) + by_kind.sum(axis=1) + held
        share = (matter / whole)[:, None]
        of_place, of_kind = share * by_place, share * by_kind
        places = usual + np.bincount(smooth.place.ravel(), of_place.ravel(), PARTS)
        of_kinds = own_prior + of_kind.sum(axis=0)
        at, counts = places[smooth.place] - of_place, of_kinds - of_kind  # without the row itself
    kinds, belief = prior.copy(), density * (prior / whole[:, None])
    kinds[earned], belief[:, earned] = of_kinds, by_kind / whole[:, None]
    of_rare = matter * held / whole
    evidence = _evidence(
        np.concatenate([of_place, of_kind, of_rare[:, None]], axis=1),
        np.concatenate([smooth.density, own, held[:, None] / rare.sum()], axis=1),
        np.concatenate([usual, own_prior, [rare.sum()]]),
        np.concatenate([places, of_kinds, [rare.sum() + of_rare.sum()]]),
    )
    return Mixture(Weights(places, kinds), whole, belief, evidence)


def _evidence(shares: Matrix, density: Matrix, prior: Vector, counts: Vector) -> float:
    """Return the log evidence of rows that are shared out among parts.

    These are the densities, the choice of parts by each row, and the counts by their Dirichlet
    prior: a part that is used costs the more the rarer it is, also one of the errors without rule.
    """
    matter = shares.sum(axis=1, keepdims=True)
    chosen = xlogy(shares, density) - xlogy(shares, shares) + xlogy(shares, matter)
    by_prior = gammaln(counts) - gammaln(prior)
    whole = gammaln(counts.sum()) - gammaln(prior.sum())
    return float(chosen.sum() + by_prior.sum() - whole)


def gains(mixture: Mixture, density: Matrix, matter: Vector) -> Vector:
    """Return by how much the log-likelihood grows with each kind, as common as suits it best."""
    total = mixture.weights.places.sum() + mixture.weights.kinds.sum()
    more = np.minimum(density * (total / mixture.whole)[:, None], MOST_RATIO) - 1.0
    counts = 2.0 ** np.arange(-1.0, np.log2(total))
    gained = [matter @ np.log1p(count / total * more) for count in counts]
    return np.asarray(np.max(gained, axis=0))
