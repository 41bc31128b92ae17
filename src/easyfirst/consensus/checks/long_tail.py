"""Whether rows that were set aside lie so near the others that they may be the tail of their noise.

Mistakes of most kinds are spread far out, and noise with a long tail gets thinner with the
distance. Where a tenth of the rows is set aside and most of these lie near, or get fewer from where
the clean ones end, neither the fit nor its flags can say which of both they are.
"""

from __future__ import annotations

import numpy as np

from easyfirst.consensus.checks.diagnosis import MODEL_LOGARITHM, MUCH_SKEW
from easyfirst.consensus.starts.sample import Sample
from easyfirst.contracts import Vector
from easyfirst.noise import NoiseModel, ScaleRule

LEAST_SHARE, LEAST_ROWS = 0.1, 5  # of rows set aside
NEAR = 4.5  # scales of the noise: where most of a tail lies
LESS_NEAR = 8.0  # likewise, if rows get fewer with the distance: half of them lie
FALLING = 0.45  # of the way to the last tenth. It is .3 for an exponential tail, and .56 if even


def doubts_about_a_long_tail(
    sample: Sample, coef: Vector, noise: NoiseModel, rule: ScaleRule
) -> tuple[str, ...]:
    """Return a doubt where a tenth of the rows is set aside, and most of these lie near."""
    residual = sample.residual(sample.rows, coef) / rule.of(sample.rows.X)
    aside = noise.posterior(residual) < 0.5
    share = float(np.average(aside, weights=sample.counts))
    if share <= LEAST_SHARE or np.count_nonzero(aside) < LEAST_ROWS or noise.skew > MUCH_SKEW:
        return ()
    distance = np.abs(residual[aside] - noise.center) / noise.spread
    middle, last = np.quantile(distance, [0.5, 0.9])
    edge = min(float(distance.min()), noise.reach / noise.spread)
    is_falling = middle - edge < FALLING * (last - edge)
    if not (middle < NEAR or (middle < LESS_NEAR and is_falling)):
        return ()
    return (
        f"{100 * share:.2g} % of the rows look wrong, and half of these lie within {middle:.2g} "
        f"standard deviations of their prediction: noise with a long tail, a curve, or a missing "
        f"column leaves such rows as well as mistakes do. {MODEL_LOGARITHM}",
    )
