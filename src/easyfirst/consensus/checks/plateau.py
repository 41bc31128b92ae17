"""Whether rows that pass for skewed noise may have errors on one side instead.

Noise whose one side is as narrow as a noise model allows has an edge. Where the rows beyond it get
fewer with the distance, that is the tail of skewed noise. Where they lie as densely further out,
most rows may have errors of up to some largest size, and the intercept would be wrong.
"""

from __future__ import annotations

import numpy as np

from easyfirst.consensus.starts.sample import Sample
from easyfirst.consensus.starts.voting import FEWEST_OF_A_PLATEAU, is_plateau
from easyfirst.contracts import Vector
from easyfirst.noise import NoiseModel, ScaleRule
from easyfirst.noise.fitting import MOST_SKEW

NEARLY = 0.75  # of the largest skew
WORTH_A_WORD = 0.02  # share of flagged rows from which other doubts speak
OF_ITS_OWN = 0.1  # values of y, per row: fewer are shared by many rows
EDGE = 3.5  # scales of the narrow side, within which rows belong to the edge


def doubts_about_a_plateau(
    sample: Sample, coef: Vector, noise: NoiseModel, rule: ScaleRule
) -> tuple[str, ...]:
    """Return a doubt where no row is flagged beside an edge, and the others lie evenly."""
    # An edge of values that many rows share is theirs, as of zeros among counts.
    if np.unique(sample.rows.y).size < OF_ITS_OWN * sample.n_samples:
        return ()
    if noise.skew < NEARLY * MOST_SKEW or noise.share < 1.0 - WORTH_A_WORD:
        return ()
    off = sample.residual(sample.rows, coef) / rule.of(sample.rows.X) - noise.center
    long = off if noise.above > noise.below else -off
    distance = long - EDGE * min(noise.above, noise.below)
    distance = distance[distance > 0.0]
    if distance.size < FEWEST_OF_A_PLATEAU or not is_plateau(distance):
        return ()
    word = "above" if noise.above > noise.below else "below"
    return (
        f"The rows lie densely along an edge and evenly {word} it, and none is told from the "
        f"others: most of them may have errors in that direction. If so, the intercept is wrong, "
        f"and so are the intervals. Pass rows that are known to be right as trusted, or find out "
        f"how y was recorded; if y is right, model its logarithm or its root.",
    )
