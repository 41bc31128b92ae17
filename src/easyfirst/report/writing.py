"""How the values of a column are written, and what that tells about a mistake by a factor.

A price of 381 may be 150 times 2.54, and then 150 is written as prices are, while few other values
are 2.54 times such a price. A value between two steps of a column hardly has been so all along.
And where most prices are round, one that is round tells little.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Vector

FEWEST = 20  # values from which a way of writing can be told
MOST = 5000  # values that tell it, evenly spread
ALMOST_ALL = 0.98  # of the values that are whole numbers of the first step
POWERS = range(5, -7, -1)  # of ten, from the coarsest to the finest first step
LEVELS = 9  # steps, each a multiple of the one before
MOST_DECIMALS = 12
UNSEEN = 0.5  # rows of the prior at each level
MOST_DIGITS = 12
UNSURE = 0.25  # least share of either way of writing: wrong values may lie where no right ones do
ROUNDS = 100


@dataclass(frozen=True, eq=False)
class Writing:
    """How often right values are written with such steps, or with so many digits.

    A mesh is how far apart values of a kind are, times how often these occur: what a smooth
    density is multiplied by for the chance of one very value.

    Parameters
    ----------
    steps
        Each is a multiple of the one before. The level of a value is the last that divides it.
        None: nothing is known.
    by_level
        Meshes of the levels.
    off
        The share of right values that are no whole number of first steps.
    by_digits
        Meshes of values between 1 and 10, by the kinds of `_digits`: large values are round
        ones more often, if people round to two or three digits.
    in_steps
        The share of right values that are written in steps rather than in digits.
    """

    steps: Vector = field(default_factory=lambda: np.empty(0))
    by_level: Vector = field(default_factory=lambda: np.empty(0))
    off: float = 1.0
    by_digits: Vector = field(default_factory=lambda: np.empty(0))
    in_steps: float = 1.0

    @classmethod
    def of(cls, values: Vector) -> Self:
        """Learn from right values how they are written.

        Examples
        --------
        >>> Writing.of(np.arange(100.0)).steps[:3].tolist()
        [1.0, 5.0, 10.0]
        """
        values = values[np.isfinite(values)]
        values = values[:: max(1, values.size // MOST)]
        if values.size < FEWEST:
            return cls()
        for power in POWERS:
            for first in (5.0, 1.0):
                on_grid = _is_multiple(values, first * 10.0**power)
                if on_grid.mean() >= ALMOST_ALL:
                    return cls._on_grid(values[on_grid], int(np.sum(~on_grid)), first, power)
        return cls()

    @classmethod
    def _on_grid(cls, values: Vector, n_off: int, first: float, power: int) -> Self:
        every = [a * 10.0 ** (power + j) for j in range(LEVELS) for a in (1.0, 5.0)]
        steps = np.array([step for step in every if step >= first * 10.0**power][:LEVELS])
        total = values.size + n_off + UNSEEN * (LEVELS + 1)
        counts = np.bincount(_level(values, steps), minlength=LEVELS) + UNSEEN
        gaps = steps / (1.0 - np.append(steps[:-1] / steps[1:], 0.0))
        by_level = counts / total * gaps
        kinds = np.bincount(_digits(values)[0], minlength=_GAPS.size)
        unseen = 0.5 ** (1.0 + 0.5 * np.arange(_GAPS.size))
        by_digits = (kinds + unseen) / (values.size + unseen.sum()) * _GAPS
        found = cls(steps, by_level, (n_off + UNSEEN) / total, by_digits)
        level, digits = found._meshes(values)
        share = 0.5
        for _ in range(ROUNDS):  # which way explains right values better
            share = float(np.mean(share * level / (share * level + (1.0 - share) * digits)))
        return replace(found, in_steps=min(max(share, UNSURE), 1.0 - UNSURE))

    def log_weight_of_factor(self, given: Vector, times: float) -> Vector:
        """Return how much more often a right value times a factor is written so than any value.

        To be added to the log density of the right value. Nothing where no right value, times the
        factor, is written as the given one.
        """
        first = self.steps[0]
        own = np.minimum(written_step(given), first)  # 50 may be 50.0
        right = first * np.round(given / times / first)
        exact = np.abs(times * right - given) <= 0.5 * own * (1.0 + 1e-6) + 1e-9 * np.abs(given)
        other = np.where(_is_multiple(given, first), self._mesh(given), self.off * own)
        with np.errstate(divide="ignore"):
            return np.log(np.where(exact, self._mesh(right) / other, 0.0))

    def _mesh(self, values: Vector) -> Vector:
        level, digits = self._meshes(values)
        return self.in_steps * level + (1.0 - self.in_steps) * digits

    def _meshes(self, values: Vector) -> tuple[Vector, Vector]:
        kind, decade = _digits(values)
        return self.by_level[_level(values, self.steps)], self.by_digits[kind] * 10.0**decade


def written_step(values: Vector) -> Vector:
    """Return the step that each value alone is written in: 0.01 with two decimals.

    Examples
    --------
    >>> written_step(np.array([12.5, 0.25, 100.0])).tolist()
    [0.1, 0.01, 1.0]
    """
    step = np.full(values.shape, 10.0**-MOST_DECIMALS)
    for decimals in range(MOST_DECIMALS - 1, -1, -1):
        step[_is_multiple(values, 10.0**-decimals)] = 10.0**-decimals
    return step


def _digits(values: Vector) -> tuple[NDArray[np.intp], Vector]:
    """Return the kinds of values by their digits, and their powers of ten.

    The kind is twice the number of digits but trailing zeros, less one if the last of several is
    a five: 1500 and 25 are of one kind.
    """
    size = np.abs(values)
    with np.errstate(divide="ignore"):
        decade = np.where(size > 0, np.floor(np.log10(size) + 1e-12), 0.0)
    kind = np.full(values.size, 2 * MOST_DIGITS, dtype=np.intp)
    for digits in range(MOST_DIGITS - 1, 0, -1):
        last = size / 10.0 ** (decade - digits + 1.0)
        whole = np.round(last)
        own = np.abs(last - whole) <= 1e-9 * last
        five = (digits > 1) & (whole % 10.0 == 5.0)
        kind[own] = (2 * digits - five)[own]
    return kind, decade


def _gaps() -> Vector:
    """Return how far apart numbers of each kind are between 1 and 10."""
    kind = np.arange(2 * MOST_DIGITS + 1)
    several = np.where(kind % 2, 1.0, 8.0) * 10.0 ** ((kind + 1) // 2 - 2.0)
    return np.asarray(np.where(kind <= 2, 1.0, 1.0 / several))


_GAPS = _gaps()


def _level(values: Vector, steps: Vector) -> NDArray[np.intp]:
    """Return the last step that divides each value, all before included."""
    level = np.zeros(values.size, dtype=np.intp)
    for place in range(1, steps.size):
        level[_is_multiple(values, steps[place])] = place
    return level


def _is_multiple(values: Vector, step: float) -> NDArray[np.bool_]:
    count = values / step
    return np.asarray(np.abs(count - np.round(count)) <= 1e-6 + 1e-10 * np.abs(count))
