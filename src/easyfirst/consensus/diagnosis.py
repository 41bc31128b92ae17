"""Saying when the data may not hold one recoverable model, instead of a confident wrong answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray

from easyfirst.calibration import ROUNDING, information
from easyfirst.consensus.rounds import RoundsResult, Start
from easyfirst.consensus.sample import Sample
from easyfirst.consensus.starts import Found, continued, is_hollow, mixture_of, unheard
from easyfirst.contracts import Vector
from easyfirst.local import passes
from easyfirst.schedules import CalibratedPace

LEAST_ROWS = 4.0  # clean rows' worth of information per coefficient below which none is believed
# Spread of squared residuals along a direction of X, in clean variances: 2 half-way between two
# equal models, 0.6 for noise whose standard deviation goes with exp(x / 2).
BETWEEN, SUSPICIOUS = 1.2, 1.0
RIVAL = 0.8  # a second model with this share of the first one's clean rows leaves the choice open
PASSED = 5.0  # a growing pace finds clean parts up to a fifth of it at the latest
ROWS_FOR_RIVALS = (40, 3000)  # per coefficient and besides: a rival of near-equal support shows
ROWS_FOR_SPREAD = (50, 2000)  # likewise: enough for the largest eigenvalue


@dataclass(frozen=True)
class Rivalry:
    """Signs of a second model: how far r**2 follows a direction of X, and a rival's support."""

    between: float = 0.0
    support: float = 0.0


def look_for_rivals(found: Found) -> tuple[Found, Rivalry]:
    """Try to leave a point between two models, then to fit what the model leaves over.

    Half-way between two equally supported models the residuals look like those of one noisy
    model, except that their squares grow along the difference of the two.
    """
    if not isinstance(found.fit.pace, CalibratedPace) or found.fit.losses is None:
        return found, Rivalry()
    sample = found.sample
    spread, chance, direction = _spread_along_design(sample, found.fit)
    if spread > max(SUSPICIOUS, 2.0 * chance):
        aside = found.fit.solution.z + mixture_of(found.fit).scale * direction
        other = sample.fit(unheard, Start(aside))
        if isinstance(other.pace, CalibratedPace) and _is_tighter(other, found.fit):
            found = Found(other, sample)
            spread, chance, _ = _spread_along_design(sample, other)
    # A penalty makes residuals follow the columns, too.
    suspicious = spread > max(BETWEEN, 2.0 * chance)
    between = spread if suspicious and sample.objective.is_unpenalised else 0.0
    return found, Rivalry(between, _rival_support(sample, found.fit))


def doubts_about(result: RoundsResult, rivalry: Rivalry) -> tuple[str, ...]:
    """Return a sentence for each reason not to believe the fit."""
    if not isinstance(result.pace, CalibratedPace) or result.losses is None:
        return ()
    mixture = mixture_of(result)
    q = result.solution.z.size
    doubts = []
    worth = information(result.losses, mixture)[1]
    if worth < LEAST_ROWS * q and mixture.share < 0.5:
        doubts.append(
            f"The rows that look clean are worth only {max(worth, 0.0):.0f} rows to {q} "
            f"coefficients, and are a minority: too few to tell a model from chance. Add rows or "
            f"drop columns."
        )
    if mixture.odds_at_zero > 1.0:
        doubts.append(
            f"Only {100 * mixture.share:.2g} % of the rows look clean, and even a row that fits "
            f"exactly is more likely corrupted than clean: the noise may be skewed or far from "
            f"normal, or there is no model to recover. Try a transformation of y."
        )
    if is_hollow(result):
        doubts.append(
            "The residuals that look clean are spread too evenly for one noise scale: the fit "
            "may lie across corrupted rows, or the rows may follow no linear model."
        )
    if rivalry.between:
        doubts.append(
            "The size of the residuals depends on the columns as it does half-way between two "
            "models of near-equal support: the fit may describe neither."
        )
    if rivalry.support > RIVAL:
        doubts.append(
            f"A second model fits other rows as well, {100 * rivalry.support:.0f} % as many as "
            f"the one returned: which of the two is meant cannot be told from the data."
        )
    exact = mixture.scale <= 2.0 * ROUNDING * result.losses.anchor
    if exact and mixture.share < 0.99 and (mixture.share < 0.5 or is_flat(result)):
        doubts.append(
            "The rows that look clean are fitted to rounding error, and are a minority or all have "
            "the same y: repeated or filled-in values may have been taken for the clean rows."
        )
    return tuple(doubts)


def is_flat(result: RoundsResult) -> bool:
    """Return whether the model predicts one and the same value for all clean rows."""
    stats, z = result.statistics, result.solution.z
    assert result.losses is not None
    columns = np.sqrt(np.maximum(stats.pooled_gram.diagonal(), 0.0) / stats.weight.sum())
    spread = np.abs(z * columns)[: len(z) - 1] if len(z) > 1 else np.zeros(1)
    return bool(np.max(spread, initial=0.0) < 1e-6 * result.losses.anchor)


def _spread_along_design(sample: Sample, fit: RoundsResult) -> tuple[float, float, Vector]:
    """Return how much r**2 follows one direction of the design, by chance, and which direction."""
    v = sample.weights(fit)
    q = sample.fleet.n_coef
    kept = np.flatnonzero(v > 0.01)
    rows = _evenly(kept, q, ROWS_FOR_SPREAD)
    part, frame, v = sample.part(rows), sample.fleet.problem.frame, v[rows]
    residual = part.y - passes.predict(part, frame, fit.solution.z)
    total = v.sum()
    squares = np.minimum(np.square(residual / mixture_of(fit).scale), 9.0)
    known = fit.statistics
    gram = known.pooled_gram / known.weight.sum()
    if len(rows) < len(kept):
        gram = sample.gram(part, v) / total
    excess = sample.gram(part, v * squares) / total - (v @ squares / total) * gram
    norms = np.sqrt(np.maximum(np.diagonal(gram), 1e-300))
    gram, excess = gram / norms / norms[:, None], excess / norms / norms[:, None]
    gram[np.diag_indices(q)] += 1e-10
    values, vectors = la.eigh(excess, gram, subset_by_index=[q - 1, q - 1])
    return float(values[0]), float(np.sqrt(8.0 * q / total)), vectors[:, 0] / norms


def _rival_support(sample: Sample, fit: RoundsResult) -> float:
    """Return how many clean rows a model of the remaining rows has, relative to this one's."""
    mixture = mixture_of(fit)
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
        return 0.0
    # A rival wider than this is none, and a pace that has passed it finds only wider ones.
    widest = 4.0 * mixture.scale
    limit = (PASSED * widest) ** 2
    alone = sample.only(rest).fit(lambda record: limit < record.pace < np.inf)
    if not isinstance(alone.pace, CalibratedPace) or mixture_of(alone).scale > widest:
        return 0.0
    rival = sample.fit(unheard, continued(alone))
    if not isinstance(rival.pace, CalibratedPace) or rival.losses is None:
        return 0.0
    theirs, their_v = mixture_of(rival), sample.weights(rival)
    is_other = v @ their_v < 0.5 * min(v.sum(), their_v.sum())
    is_model = information(rival.losses, theirs)[1] > 4.0 * q and theirs.scale < 3 * mixture.scale
    return theirs.clean / ours if is_other and is_model else 0.0


def _evenly(rows: NDArray[np.intp], q: int, enough: tuple[int, int]) -> NDArray[np.intp]:
    """Return so many of the rows as are enough for q coefficients, evenly spread among them."""
    wanted = enough[0] * q + enough[1]
    if len(rows) <= wanted:
        return rows
    return np.asarray(rows[np.arange(wanted) * len(rows) // wanted])


def _is_tighter(fit: RoundsResult, than: RoundsResult) -> bool:
    """Return whether a fit's residuals have less entropy, no model assumed."""
    assert fit.losses is not None
    assert than.losses is not None
    margin = fit.solution.z.size / fit.losses.total
    return fit.losses.entropy() < than.losses.entropy() - margin
