"""A start for plain fits beside a group of rows that would pull them to it.

Where a fifth or more of the rows is shifted as one, and X tells some of them (a season, a machine),
least absolute deviations follow the group along X, and so does all that begins there. Half of the
rows, the closest to a fit of them, do not know of the group.
"""

from __future__ import annotations

import numpy as np

from easyfirst.consensus.checks.standing_apart import FAR_MORE, bumps
from easyfirst.consensus.robust.huber import bisquare, robust_scale
from easyfirst.consensus.starts.elemental import MOST_COEFFICIENTS, elemental_starts
from easyfirst.contracts import Matrix, Vector

SEED = 0  # of the subsets that the fit of half of the rows is sought from
NEARER = 0.5  # half of the rows to this start than to the other: else it is none
FEWEST, FEWEST_EACH = 500, 20  # rows in all, and for each coefficient
CLOSE, MAJORITY = 3.0, 0.65  # scales within which most rows lie, so that others may be a group


def start_beside_a_group(design: Matrix, y: Vector, counts: Vector, plain: Vector) -> Vector | None:
    """Return coefficients much nearer to most rows than plain ones, if others are a group apart."""
    n, q = design.shape
    if q > MOST_COEFFICIENTS or n < max(FEWEST, FEWEST_EACH * q):
        return None
    starts = elemental_starts(design, y, np.random.default_rng(SEED))
    if not starts:
        return None
    coef = bisquare(design, y, starts[0][0], counts)
    residual = y - design @ coef
    scale = robust_scale(residual, counts)
    if scale > NEARER * robust_scale(y - design @ plain, counts):
        return None
    holds_most = float(np.average(np.abs(residual) < CLOSE * scale, weights=counts)) > MAJORITY
    is_apart = next(bumps(residual / scale, counts, FAR_MORE), None) is not None
    return coef if holds_most and is_apart else None
