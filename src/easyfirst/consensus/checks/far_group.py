"""Whether many of the rows that were set aside lie far out in X, as a part of the table would.

Mistakes in X put rows far out. Where a tenth of all rows is there and does not follow the others,
y may as well depend on X otherwise there: a curve, another kind of row. Nothing in the rows tells
which it is, so that this is no reason to doubt the fit of the others.
"""

from __future__ import annotations

import numpy as np

from easyfirst.consensus.starts.found import SampleFit
from easyfirst.contracts import Vector
from easyfirst.noise import NoiseModel, ScaleRule

LEAST_SHARE = 0.1


def notes_about_a_far_group(
    found: SampleFit, coef: Vector, noise: NoiseModel, rule: ScaleRule
) -> tuple[str, ...]:
    """Return a note where a tenth of the rows is far out in X and set aside."""
    sample = found.sample
    if found.far is None:
        return ()
    residual = sample.residual(sample.rows, coef) / rule.of(sample.rows.X)
    aside = (noise.posterior(residual) < 0.5) & found.far
    share = float(np.average(aside, weights=sample.counts))
    if share <= LEAST_SHARE:
        return ()
    return (
        f"{100 * share:.2g} % of the rows lie far out in X and look wrong. Mistakes in X put rows "
        f"there, but so many may be a part of the table in which y depends on X otherwise. Look at "
        f"a few of them before you trust the flags; if they are right, take the logarithm of the "
        f"columns that are far out, or fit these rows on their own.",
    )
