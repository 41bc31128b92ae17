"""Whether the rows that were set aside lie together, as a second population would.

Mistakes of many kinds scatter. Rows that lie as close to each other as the clean ones do, at some
distance from them but not far off, are others of the same kind: a second population that no column
tells, or rows to which the same number was added.
"""

from __future__ import annotations

import numpy as np

from easyfirst.consensus.starts.sample import Sample
from easyfirst.contracts import Vector
from easyfirst.noise import NoiseModel, ScaleRule

LEAST_SHARE, LEAST_ROWS = 0.1, 10  # of a group
TENTHS = 2.5631031310892007  # scales between the first and the last tenth of the normal
AS_CLOSE = 1.5  # scales of the noise around the clean rows
GAP = 0.5  # likewise
APART = (4.0, 10.0)  # likewise; what is further off is a mistake rather than a kind of row


def doubts_about_a_second_group(
    sample: Sample, coef: Vector, noise: NoiseModel, rule: ScaleRule
) -> tuple[str, ...]:
    """Return a doubt where a tenth of the rows lies together on one side of the others."""
    residual = sample.residual(sample.rows, coef) / rule.of(sample.rows.X)
    aside = noise.posterior(residual) < 0.5
    for word, side in (("above", residual > 0.0), ("below", residual < 0.0)):
        share = float(np.average(aside & side, weights=sample.counts))
        together = residual[aside & side]
        if share < LEAST_SHARE or together.size < LEAST_ROWS:
            continue
        first, middle, last = np.quantile(np.abs(together), [0.1, 0.5, 0.9])
        is_close = last - first < AS_CLOSE * TENTHS * noise.spread
        # A tail begins where the clean rows end.
        has_gap = first > noise.reach + GAP * noise.spread
        if is_close and has_gap and APART[0] < middle / noise.spread < APART[1]:
            return (
                f"{100 * share:.2g} % of the rows lie together {word} the others, "
                f"{middle / noise.spread:.2g} standard deviations away, and about as close to "
                f"each other as these: a second population, a missing column, or rows to which "
                f"the same number was added. Find out what they have in common before you trust "
                f"the flags; intervals are those of the larger group.",
            )
    return ()
