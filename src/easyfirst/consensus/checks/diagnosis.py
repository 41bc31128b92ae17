"""Saying when the data may not hold one recoverable model, instead of a confident wrong answer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray

from easyfirst.calibration import ROUNDING, information
from easyfirst.consensus.rounds.calibrated import Start
from easyfirst.consensus.rounds.common import RoundsResult
from easyfirst.consensus.solvers.gram import supported_basis
from easyfirst.consensus.starts.found import SampleFit, continued, is_hollow, no_callback
from easyfirst.consensus.starts.sample import Sample
from easyfirst.contracts import Vector
from easyfirst.noise import NoiseModel
from easyfirst.schedules import has_too_few_rows

MOST_COLUMNS = 3  # that are named where errors grow along them
LEAST_ROWS = 4.0  # clean rows' worth of information per coefficient below which none is believed
# Spread of squared residuals along a direction of X, in clean variances: 2 half-way between two
# equal models, 0.6 for noise whose standard deviation goes with exp(x / 2).
BETWEEN, SUSPICIOUS = 1.2, 1.0
HOPELESS = 1.0  # what chance alone explains, so that twice as much says no more than two models do
CLEARLY_MORE = 1.25  # clean rows per scale of a second model by which it is the one to return
RIVAL = 0.8  # a second model with this share of the first one's clean rows leaves the choice open
PASSED = 5.0  # a growing pace finds clean parts up to a fifth of it at the latest
MUCH_SKEW, WORTH_A_WORD = 2.5, 0.02  # one side's scale over the other's, flagged rows
ONE_SIDED = 20.0  # density of corrupted rows on one side over that on the other
EXPLAINS_NOTHING = 0.05  # share of the variance of y
ROWS_FOR_RIVALS = (40, 3000)  # per coefficient and besides: a rival of near-equal support shows
LEAST_SUPPORT = 1e-8  # of a direction, over that of the best supported one
ROWS_FOR_SPREAD = (50, 2000)  # likewise: enough for the largest eigenvalue
# What to do, unless a transformed target was fitted already.
TRY_LOGARITHM = "Try a transformation of y, such as the logarithm."
MODEL_LOGARITHM = "Model the logarithm or the root of y before you trust the flags."
EDGE_LOGARITHM = "Model the logarithm or the root of y."
DENSEST_LOGARITHM = (
    "Model the logarithm or the root of y, or add the columns that tell the other rows apart."
)


@dataclass(frozen=True)
class SecondModelEvidence:
    """Signs of a second model: the columns along which r**2 grows, and a rival's support."""

    between: tuple[int, ...] = ()
    support: float = 0.0

    @property
    def is_rival(self) -> bool:
        """Whether the second model has about as many rows as the one returned."""
        return self.support > RIVAL


def find_second_model(found: SampleFit) -> tuple[SampleFit, SecondModelEvidence]:
    """Try to leave a point between two models, then to fit what the model leaves over.

    Half-way between two equally supported models the residuals look like those of one noisy
    model, except that their squares grow along the difference of the two.
    """
    if not found.fit.is_calibrated:
        return found, SecondModelEvidence()
    sample = found.sample
    spread, chance, direction = _spread_along_design(sample, found.fit)
    if spread > max(SUSPICIOUS, 2.0 * chance):
        aside = found.fit.solution.z + found.fit.mixture.scale * direction
        other = sample.fit(no_callback, Start(aside))
        tighter = other.is_calibrated and _is_tighter(other, found.fit)
        if tighter and not sample.is_more_trusted(found.fit, other):
            found = replace(found, fit=other, beside=None)
            spread, chance, direction = _spread_along_design(sample, other)
    # A penalty makes residuals follow the columns, too.
    suspicious = spread > max(BETWEEN, 2.0 * chance)
    grows = suspicious and sample.objective.is_unpenalised
    between = _columns_along(direction, sample) if grows else ()
    rival = _rival(sample, found.fit)
    if rival is None:
        return found, SecondModelEvidence(between)
    support = rival.support
    if support > CLEARLY_MORE * max(1.0, rival.fit.mixture.scale / found.fit.mixture.scale):
        other = sample.fit(no_callback, continued(rival.fit))
        if other.is_calibrated:
            return replace(found, fit=other, beside=None), SecondModelEvidence((), 1.0 / support)
    return found, SecondModelEvidence(between, support)


def doubts_about(
    result: RoundsResult, second_model: SecondModelEvidence, noise: NoiseModel | None = None
) -> tuple[str, ...]:
    """Return a sentence for each reason not to believe the fit.

    `noise` is what the residuals were found to be like. Where it is not normal and keeps most
    rows, it explains what would be odd about normal ones.
    """
    if not result.is_calibrated:
        return ()
    mixture = result.mixture
    q = result.solution.z.size
    doubts = []
    is_odd = noise is not None and not noise.is_normal
    is_explained = (
        noise is not None
        and is_odd
        and noise.share > 0.5
        and noise.spread**2 < (1.0 - EXPLAINS_NOTHING) * result.known_losses.anchor**2
    )
    low, high = sorted((mixture.below, mixture.above))
    if mixture.share < 0.5 and high > ONE_SIDED * low:
        doubts.append(
            f"Only {100 * mixture.share:.2g} % of the rows look clean, and nearly all others lie "
            f"on one side of them: these may be the edge of skewed noise. {EDGE_LOGARITHM}"
        )
    if noise is not None and is_odd and noise.share <= 0.5:
        doubts.append(
            f"Only {100 * noise.share:.2g} % of the rows look clean, and their noise is not "
            f"normal: they may be no more than the densest part of the rows. {DENSEST_LOGARITHM}"
        )
    free = result.known_losses.n_coef
    are_few = has_too_few_rows(mixture.total, free)
    if result.pace.value == np.inf and not are_few:
        doubts.append(
            "No group of rows stands out as clean, so every row was kept: the result is "
            "ordinary least squares, with no protection against wrong rows. Try a transformation "
            "of y, or fewer columns."
        )
    if are_few and q > 1:
        kept = (
            "every row was kept, and the fit has no protection against them"
            if result.pace.value == np.inf
            else "only gross ones were set aside, and others may be left"
        )
        doubts.append(
            f"{mixture.total:.0f} rows are too few to tell wrong ones from right ones beside "
            f"{free} coefficients: {kept}. Add rows, drop columns, or use a (stronger) Ridge "
            f"penalty."
        )
    worth = information(result.known_losses, mixture)[1]
    if worth < LEAST_ROWS * q and mixture.share < 0.5:
        doubts.append(
            f"The rows that look clean are a minority and carry the information of only "
            f"{max(worth, 0.0):.0f} rows for {q} coefficients: too few to tell a model from "
            f"chance. Add rows or drop columns before you trust the flags."
        )
    if mixture.odds_at_zero > 1.0 and not is_explained:
        doubts.append(
            f"Only {100 * mixture.share:.2g} % of the rows look clean, and even a row that fits "
            f"exactly is more likely wrong than right. The noise may be skewed, or there may be no "
            f"linear model to recover. {TRY_LOGARITHM}"
        )
    doubts.extend(() if noise is None else doubts_about_skew(noise))
    if is_hollow(result) and not is_explained:
        doubts.append(
            "The residuals that look clean are spread too evenly for one noise level: wrong rows "
            "may have pulled the fit, or the relation may not be linear. Check the residuals over "
            "each column, and add curves or missing columns before you trust the flags."
        )
    if second_model.is_rival:
        doubts.append(
            f"A second model fits other rows equally well, {100 * second_model.support:.0f} % as "
            f"many as the one returned, and the data cannot tell which of the two you mean. Split "
            f"the table by the column that separates them, or mark rows that you trust "
            f"(trusted=...)."
        )
    exact = mixture.scale <= 2.0 * ROUNDING * result.known_losses.anchor
    if exact and mixture.share < 0.99 and (mixture.share < 0.5 or is_flat(result)):
        doubts.append(
            "The rows that look clean are fitted exactly, and are a minority or all have the same "
            "y: copied or filled-in values may have been mistaken for clean rows. Remove repeated "
            "rows and constants before you trust the flags."
        )
    return tuple(doubts)


def doubts_about_skew(noise: NoiseModel) -> tuple[str, ...]:
    """Return a doubt about rows that are flagged on the long side of skewed noise."""
    if noise.skew <= MUCH_SKEW or noise.share >= 1.0 - WORTH_A_WORD:
        return ()
    return (
        "The noise is strongly skewed: rows flagged on its long side may only be its tail. "
        + MODEL_LOGARITHM,
    )


def doubts_where_nothing_is_explained(
    found: SampleFit | None, noise: NoiseModel
) -> tuple[str, ...]:
    """Return the doubts about a plain robust fit: those about the other one if it explains nothing.

    A fit that keeps nearly all rows and predicts them no better than their middle has found no
    model; so has one that calls most rows corrupted. One whose noise is skewed may flag its tail.
    """
    if found is None:
        return ()
    y = found.sample.rows.y
    spread = float(np.subtract(*np.quantile(y, [0.75, 0.25]))) / 1.349
    explains = noise.spread**2 < (1.0 - EXPLAINS_NOTHING) * spread**2
    if (noise.share >= 0.5 and explains) or found.cell:
        return doubts_about_skew(noise)
    of_few = noise if noise.share < 0.5 else None
    return doubts_about(found.fit, SecondModelEvidence(), of_few)


def is_flat(result: RoundsResult) -> bool:
    """Return whether the model predicts one and the same value for all clean rows."""
    stats, z = result.statistics, result.solution.z
    columns = np.sqrt(np.maximum(stats.pooled_gram.diagonal(), 0.0) / stats.weight.sum())
    spread = np.abs(z * columns)[: len(z) - 1] if len(z) > 1 else np.zeros(1)
    return bool(np.max(spread, initial=0.0) < 1e-6 * result.known_losses.anchor)


def _spread_along_design(sample: Sample, fit: RoundsResult) -> tuple[float, float, Vector]:
    """Return how much r**2 follows one direction of the design, by chance, and which direction."""
    v = sample.weights(fit)
    q = sample.fleet.n_coef
    kept = np.flatnonzero(v > 0.01)
    rows = _evenly(kept, q, ROWS_FOR_SPREAD)
    part, v = sample.part(rows), v[rows]
    residual = sample.residual(part, fit.solution.z)
    total = v.sum()
    nowhere = 0.0, np.inf, np.zeros(q)
    chance = float(np.sqrt(8.0 * q / max(total, 1e-300)))
    if chance > HOPELESS:
        return nowhere
    squares = np.minimum(np.square(residual / fit.mixture.scale), 9.0)
    known = fit.statistics
    gram = known.pooled_gram / known.weight.sum()
    if len(rows) < len(kept):
        gram = sample.gram(part, v) / total
    excess = sample.gram(part, v * squares) / total - (v @ squares / total) * gram
    # Of directions without support nothing is known, and a step there would have no end.
    basis = supported_basis(gram, LEAST_SUPPORT)
    k = basis.shape[1]
    if k == 0:
        return nowhere
    values, vectors = la.eigh(basis.T @ excess @ basis, subset_by_index=[k - 1, k - 1])
    return float(values[0]), chance, basis @ vectors[:, 0]


def _columns_along(direction: Vector, sample: Sample) -> tuple[int, ...]:
    """Return the columns that differ most along a direction, each counted by its own spread."""
    size = np.sqrt(sample.fleet.column_variance) * np.abs(direction[: sample.fleet.n_features])
    order = np.argsort(-size, kind="stable")[:MOST_COLUMNS]
    return tuple(int(j) for j in order if size[j] > 0.5 * size.max())


@dataclass(frozen=True, eq=False)
class _Rival:
    """A model of other rows, and how many clean ones it has relative to the first one's."""

    fit: RoundsResult
    support: float


def _rival(sample: Sample, fit: RoundsResult) -> _Rival | None:
    """Return a model of the remaining rows, if there is one."""
    mixture = fit.mixture
    q = sample.fleet.n_coef
    v, ours = sample.weights(fit), mixture.clean
    rows = _evenly(np.arange(sample.n_samples), q, ROWS_FOR_RIVALS)
    if len(rows) < sample.n_samples:
        ours *= len(rows) / sample.n_samples
        chosen = np.zeros(sample.n_samples)
        chosen[rows] = 1.0
        sample, v = sample.only(chosen), v[rows]
    rest = (v < 0.5).astype(np.float64)
    # Rows near both models are not among the rest, so half of ours may already be a rival.
    if rest.sum() < max(0.5 * ours, 4.0 * q):
        return None
    # A rival wider than this is none, and a pace that has passed it finds only wider ones.
    widest = 4.0 * mixture.scale
    limit = (PASSED * widest) ** 2
    alone = sample.only(rest).fit(lambda record: limit < record.pace < np.inf)
    if not alone.is_calibrated or alone.mixture.scale > widest:
        return None
    rival = sample.fit(no_callback, continued(alone))
    if not rival.is_calibrated:
        return None
    if sample.is_more_trusted(fit, rival):
        return None
    theirs, their_v = rival.mixture, sample.weights(rival)
    is_other = v @ their_v < 0.5 * min(v.sum(), their_v.sum())
    is_model = (
        information(rival.known_losses, theirs)[1] > 4.0 * q and theirs.scale < 3 * mixture.scale
    )
    return _Rival(rival, theirs.clean / ours) if is_other and is_model else None


def _evenly(rows: NDArray[np.intp], q: int, enough: tuple[int, int]) -> NDArray[np.intp]:
    """Return so many of the rows as are enough for q coefficients, evenly spread among them."""
    wanted = enough[0] * q + enough[1]
    if len(rows) <= wanted:
        return rows
    return np.asarray(rows[np.arange(wanted) * len(rows) // wanted])


def _is_tighter(fit: RoundsResult, than: RoundsResult) -> bool:
    """Return whether a fit's residuals have less entropy, no model assumed."""
    margin = fit.solution.z.size / fit.known_losses.total
    return fit.known_losses.entropy() < than.known_losses.entropy() - margin
