"""Rows whose y is a value that far too many rows share, such as a zero or a limit.

They say nothing about noise: a model that predicts the value exactly would make all other rows look
wrong. Noise is read off the others. Whether the value belongs where it stands follows from what is
predicted there. If it does, predictions near it are more frequent among its rows than elsewhere; if
it stands anywhere, they are as frequent. A row far from its prediction looks as wrong as any other.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from easyfirst.consensus.starts.point_masses import shared_values
from easyfirst.contracts import Vector
from easyfirst.noise.model import LEAST
from easyfirst.noise.of_rows import RowNoise, Told

LEAST_OTHERS, LEAST_VALUES = 100, 20  # rows that share no value, and how many values they have
FIRST_GUESS = 0.9  # share of the rows of a value where it belongs
STEPS = 30  # of expectation maximisation


def values_in_common(y: Vector) -> Vector:
    """Return the values that too many rows share; none where few other rows tell of noise."""
    values = np.array([mass.value for mass in shared_values(y)])
    others = y[~np.isin(y, values)]
    has_others = others.size >= LEAST_OTHERS and np.unique(others).size >= LEAST_VALUES
    return values if has_others else values[:0]


def odds_of_shared(
    value: float, member: NDArray[np.bool_], told: Told, y: Vector, weight: Vector, noise: RowNoise
) -> Vector:
    """Return how much more likely the value stands in each of its rows by mistake.

    Beyond a limit of y, predictions are taken for the limit.
    """
    others = ~member & (weight > 0)
    at = told.value
    if value <= y[others].min():
        at = np.maximum(at, value)
    if value >= y[others].max():
        at = np.minimum(at, value)
    likely = noise.clean_density(replace(told, value=at), np.full(y.size, value))
    elsewhere = float(np.average(likely[others], weights=weight[others]))
    most = float(np.count_nonzero(others))  # as much as the nearest of the others can have
    ratio = np.minimum(likely[member] / max(elsewhere, LEAST), most)
    own, share = weight[member], FIRST_GUESS
    for _ in range(STEPS):
        belongs = share * ratio / np.maximum(share * ratio + 1.0 - share, LEAST)
        share = (float(own @ belongs) + FIRST_GUESS) / (float(own.sum()) + 1.0)
    odds = (1.0 - share) / np.maximum(share * ratio, LEAST)
    alone = noise.odds(replace(told, value=at).some(member), y[member])
    return np.asarray(np.maximum(odds, alone))
