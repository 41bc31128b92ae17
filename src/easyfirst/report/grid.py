"""How the values of a column are written, and what that tells about a mistake.

A price of 381 may be 150 times 2.54, and then 150 is written as prices are. A fix that ends between
two steps of the column is less likely, unless the wrong value was rounded; a value between two
steps, in a column that has none there, has hardly been so all along; and large values are often
round ones, without a mistake.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Vector

FEWEST = 20  # values from which a way of writing can be told
ALMOST_ALL = 0.98  # of the values that are whole numbers of steps
FINEST, COARSEST = -6, 6  # powers of ten among the steps
UNSURE = 0.1  # least share of either way of writing: wrong values may lie where no right ones do
ROUNDS = 30
DIGITS = 12  # beyond, digits are those of a computation


@dataclass(frozen=True, eq=False)
class Grid:
    """How often right values occur that are written with so many digits, or in whole steps.

    Either way, values are written on a grid. Its meshes are what a density is multiplied by for the
    chance of one very value: a step, or the mean distance of numbers of as many digits, by how
    often these are used. Without a step (zero) nothing can be told.

    Parameters
    ----------
    step, between
        The coarsest step, and the share of right values that lie between steps.
    digits
        The share of right values with so many digits, by `_kinds`.
    in_steps
        The share of right values that are written in steps rather than in digits.
    """

    step: float = 0.0
    between: float = 1.0
    digits: Vector = field(default_factory=lambda: np.empty(0))
    in_steps: float = 0.5

    @classmethod
    def of(cls, values: Vector) -> Self:
        """Learn from right values how they are written."""
        finite = values[np.isfinite(values)]
        if finite.size >= FEWEST:
            steps = [a * 10.0**j for j in range(COARSEST, FINEST - 1, -1) for a in (5.0, 1.0)]
            for step in steps:
                fits = float(np.mean(_is_multiple(finite, step)))
                if fits >= ALMOST_ALL:
                    between = ((1.0 - fits) * finite.size + 0.5) / (finite.size + 1.0)
                    return cls(step, between, _shares(finite))._weighed(finite)
        return cls()

    def _weighed(self, values: Vector) -> Self:
        """Learn which of the two ways of writing explains right values better."""
        by_step, by_digits = self._meshes(values)
        share = self.in_steps
        for _ in range(ROUNDS):
            own = share * by_step
            share = float(np.mean(own / (own + (1.0 - share) * by_digits)))
        return replace(self, in_steps=min(max(share, UNSURE), 1.0 - UNSURE))

    def log_weight(self, given: Vector) -> Vector:
        """Return how usual the writing of values is that have the unit of the column."""
        if not self.step:
            return np.zeros(given.size)
        return np.asarray(np.log(self._mesh(given) / self._own(given)))

    def log_weight_of_factor(self, given: Vector, times: float) -> Vector:
        """Return the same of values that are so many times the right ones, and not rounded."""
        right = self.step * np.round(given / times / self.step)
        rounding = 0.5 * written_step(given) * (1.0 + 1e-6) + 1e-9 * np.abs(given)
        exact = np.abs(times * right - given) <= rounding
        with np.errstate(divide="ignore"):
            return np.log(np.where(exact, self._mesh(right) * times / self._own(given), 0.0))

    def _own(self, given: Vector) -> Vector:
        """Return the distance of the next value that could have been written instead."""
        return np.where(_is_multiple(given, self.step), self.step, written_step(given))

    def _mesh(self, values: Vector) -> Vector:
        by_step, by_digits = self._meshes(values)
        return self.in_steps * by_step + (1.0 - self.in_steps) * by_digits

    def _meshes(self, values: Vector) -> tuple[Vector, Vector]:
        inside = (1.0 - self.between) * self.step
        between = self.between * written_step(values)
        kind, decade = _kinds(values)
        by_digits = self.digits[kind] * 10.0**decade / _SHARE_OF_DECADE[kind]
        return np.where(_is_multiple(values, self.step), inside, between), by_digits


def written_step(values: Vector) -> Vector:
    """Return the step that each value alone is written in: 0.01 with two decimals.

    Examples
    --------
    >>> written_step(np.array([12.5, 0.25, 100.0])).tolist()
    [0.1, 0.01, 1.0]
    """
    texts = [
        np.format_float_positional(float(f"{v:.{DIGITS}g}"), trim="-") for v in values.tolist()
    ]
    return np.array([10.0 ** -len(text.partition(".")[2]) for text in texts])


def _kinds(values: Vector) -> tuple[NDArray[np.intp], Vector]:
    """Return how values are written, and their power of ten.

    The kind is twice the number of digits but trailing zeros, less one if the last of several is
    a five: 1500 and 25 are of one kind.
    """
    texts = [f"{abs(value):.{DIGITS - 1}e}".split("e") for value in values.tolist()]
    digits = [mantissa.replace(".", "").rstrip("0") or "0" for mantissa, _ in texts]
    kind = [2 * len(each) - (len(each) > 1 and each[-1] == "5") for each in digits]
    return np.array(kind, dtype=np.intp), np.array([float(power) for _, power in texts])


def _shares(values: Vector) -> Vector:
    """Return how often each kind of writing occurs; no kind is impossible."""
    prior = 0.5 ** (1.0 + 0.5 * np.arange(2 * DIGITS + 1))
    counts = np.bincount(_kinds(values)[0], minlength=prior.size) + prior
    return np.asarray(counts / counts.sum())


def _share_of_decade() -> Vector:
    """Return how many numbers of each kind there are between two powers of ten, over the lower."""
    digits = (np.arange(2 * DIGITS + 1) + 1) // 2
    last = np.where(np.arange(2 * DIGITS + 1) % 2, 1.0, 8.0)
    several = last * 10.0 ** (digits - 2.0)
    return np.asarray(np.where(digits <= 1, 1.0, several))


_SHARE_OF_DECADE = _share_of_decade()


def _is_multiple(values: Vector, step: float) -> NDArray[np.bool_]:
    count = values / step
    return np.asarray(np.abs(count - np.round(count)) <= 1e-6 + 1e-10 * np.abs(count))
