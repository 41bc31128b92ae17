"""Few rows of which up to half are wrong.

Most of few rows are taken as clean: the half that some fit suits best always looks like less noise
around it. Where such a fit is so much likelier that chance does not explain it, fewer rows are
taken for granted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from easyfirst.calibration import granted_rows
from easyfirst.consensus.rounds.calibrated import Start
from easyfirst.consensus.rounds.common import RoundSettings, RoundsResult
from easyfirst.consensus.starts.beside_a_bump import Beside, best_beside_a_bump
from easyfirst.consensus.starts.found import continued
from easyfirst.consensus.starts.sample import Sample
from easyfirst.consensus.starts.voting import Vote, Voters, leaves_a_tail

SHARES = (0.7, 0.5)  # of the rows, that are taken as clean where most are not
# Log-likelihood that the best half of clean rows gains by chance, measured on normal ones: so much
# per squared coefficient over rows, less a constant.
BY_CHANCE, LESS, LEAST = 10.0, 1.0, 3.0
NEARLY_HALF = 0.45  # of the rows: fewer that agree may be a lump of noise
STRICTER = 0.85  # of the clean rows beside a bump are taken for granted
AGAIN = 2.0  # more that the second share has to gain


def likelier_fit(
    sample: Sample,
    fit: RoundsResult,
    ends: Sequence[Start],
    voters: Voters = None,
) -> tuple[Sample, RoundsResult]:
    """Return the sample and its fit, or those with fewer rows for granted if that is likelier.

    `ends` are where starts have led while nothing was taken for granted; only `voters` are asked.
    """
    total, q = sample.fleet.total_weight, sample.fleet.n_coef
    least = max(BY_CHANCE * q**2 / total - LESS, LEAST)
    for share in SHARES:
        matters = granted_rows(total, q, share) < granted_rows(total, q)
        if not ends or not matters or not fit.is_calibrated:
            break
        here = replace(sample, settings=granting(sample.settings, share))
        other = _likelier(here, ends, least + _likelihood_of(sample, fit, voters), voters)
        if other is not None:
            sample, fit, least = here, other, least + AGAIN
    return sample, fit


def granting(settings: RoundSettings, share: float) -> RoundSettings:
    """Return settings by which this share of few rows is taken for granted."""
    return replace(settings, schedule=replace(settings.calibrated, granted=share))


def _likelier(
    sample: Sample, ends: Sequence[Start], least: float, voters: Voters
) -> RoundsResult | None:
    """Return the fit from the likeliest end, if its log-likelihood is at least so high."""
    logs = [
        Vote.around(sample, end.coef, end.scale, voters).likelihood for end in ends if end.scale
    ]
    best = max(logs)
    if best <= least:
        return None
    fit = sample.fit(lambda record: False, ends[logs.index(best)])
    if not fit.is_calibrated or fit.mixture.share < NEARLY_HALF or leaves_a_tail(sample, fit):
        return None
    return fit if _likelihood_of(sample, fit, voters) > least else None


def _likelihood_of(sample: Sample, fit: RoundsResult, voters: Voters) -> float:
    return Vote.around(sample, fit.solution.z, fit.mixture.scale, voters).likelihood


def fit_beside_a_bump(
    sample: Sample, fit: RoundsResult, begun: Sequence[Start], voters: Voters
) -> tuple[Sample, RoundsResult, Beside] | None:
    """Return the fit beside rows that lie together, if that is what the rows ask for."""
    design, y = sample.design()
    if voters is not None:
        design, y = design[voters], y[voters]
    starts = [*begun, continued(fit)] if begun else []
    found = best_beside_a_bump(design, y, starts, sample.n_samples)
    if found is None or found.gain <= 0.0:
        return None
    # Rows between the two are taken as flat here: these cost some of the clean ones.
    share = min(sample.settings.calibrated.granted, STRICTER * found.normals.share)
    here = replace(sample, settings=granting(sample.settings, share))
    other = here.fit(lambda record: False, Start(found.coef, found.normals.scale))
    if not other.is_calibrated or leaves_a_tail(sample, other):
        return None
    return here, other, found
