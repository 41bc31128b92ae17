"""Numbers with one digit misread, or two neighbouring digits transposed.

A number is taken as it is written in decimals. Every other number that differs by one such slip
is a candidate for what was meant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Matrix, Vector

MOST_DIGITS = 12  # beyond, digits are those of a computation, which nobody typed
# Digits that are taken for each other in handwriting and print; 1 and 7 above all.
ALIKE = ("17", "17", "08", "06", "27", "35", "38", "49", "56", "58", "68", "89", "39", "14")

UNLIKE = 0.1  # how often a digit is taken for another, beside 1 and 7


@dataclass(frozen=True, eq=False)
class Slips:
    """Candidates for what was meant, shape (rows, candidates).

    `weight` says how common such a slip is beside the others of its kind; zero is no candidate.
    """

    value: Matrix
    weight: Matrix


def resolution(values: Vector) -> float:
    """Return the step in which numbers are written: 0.01 for two decimals.

    Examples
    --------
    >>> resolution(np.array([12.5, 3.25, 7.0]))
    0.01
    """
    finite = values[np.isfinite(values)][:1000]
    if not finite.size:
        return 1.0
    return float(10.0 ** -np.max([_decimals(value) for value in finite]))


def misread_digits(given: Vector) -> Slips:
    """Return the numbers that differ in one digit.

    Examples
    --------
    >>> slips = misread_digits(np.array([78.65]))
    >>> round(float(slips.value[0, np.argmax(slips.weight[0])]), 2)
    18.65
    """
    digits, places = _digits(given)
    n, length = digits.shape
    change = np.arange(10) - digits[:, :, None]
    value = _signed(given, change * places[:, :, None])
    weight = _ALIKE[np.clip(digits, 0, 9)] * ((digits[:, :, None] >= 0) & (change != 0))
    weight[places[:, 0] >= 10.0, 0, 0] = 0.0  # nobody writes 049.70
    return Slips(value.reshape(n, 10 * length), weight.reshape(n, 10 * length))


def kinds_of_misreading(given: Vector) -> list[Slips]:
    """Return the numbers that differ in one digit, in four kinds.

    These are the first digit taken for one that looks alike, for any other, and the same of later
    digits. Tables differ in which of them occur.
    """
    slips = misread_digits(given)
    weight = slips.weight.reshape(given.size, -1, 10)
    first = np.arange(weight.shape[1])[None, :, None] == 0
    alike = weight > UNLIKE
    each = [np.where(there, weight, 0.0) for there in (first & alike, first & ~alike)]
    each += [np.where(there, weight, 0.0) for there in (~first & alike, ~first & ~alike)]
    return [Slips(slips.value, some.reshape(slips.weight.shape)) for some in each]


def transposed_digits(given: Vector) -> Slips:
    """Return the numbers that differ by two neighbouring digits in the other order.

    Examples
    --------
    >>> slips = transposed_digits(np.array([1243.0]))
    >>> sorted(slips.value[0][slips.weight[0] > 0].tolist())
    [1234.0, 1423.0, 2143.0]
    """
    digits, places = _digits(given)
    upper, lower = digits[:, :-1], digits[:, 1:]
    change = (lower - upper) * (places[:, :-1] - places[:, 1:])
    usable = (upper >= 0) & (lower >= 0) & (upper != lower)
    usable[:, 0] &= (lower[:, 0] > 0) | (places[:, 0] < 10.0)  # nobody writes 049.70
    return Slips(_signed(given[:, None], change), usable.astype(np.float64))


def _signed(given: Vector, change: Matrix) -> Matrix:
    """Change the size of numbers and keep their sign."""
    size = np.abs(given).reshape(given.shape[0], *[1] * (change.ndim - 1))
    sign = np.where(given < 0, -1.0, 1.0).reshape(size.shape)
    return np.asarray(sign * (size + change))


def _digits(given: Vector) -> tuple[NDArray[np.int64], Matrix]:
    """Return the digits of each number from the first on, -1 where there is none, and their places.

    A place is the value of a one there: 10, 1, 0.1 ...
    """
    texts = [np.format_float_positional(abs(each), trim="-") for each in given.tolist()]
    digits = np.full((len(texts), MOST_DIGITS), -1, dtype=np.int64)
    places = np.zeros((len(texts), MOST_DIGITS))
    for row, text in enumerate(texts):
        whole, _, rest = text.partition(".")
        written = (whole + rest).lstrip("0")
        first = len(written) - len(rest) - 1  # the power of ten of the first digit
        for place, digit in enumerate(written[:MOST_DIGITS]):
            digits[row, place] = int(digit) if digit.isdigit() else -1
            places[row, place] = 10.0 ** (first - place)
    return digits, places


def _decimals(value: float) -> int:
    return min(len(np.format_float_positional(value, trim="-").partition(".")[2]), MOST_DIGITS)


def _likeness() -> Matrix:
    likeness = np.full((10, 10), UNLIKE)
    for pair in ALIKE:
        for a, b in ((int(pair[0]), int(pair[1])), (int(pair[1]), int(pair[0]))):
            likeness[a, b] = min(likeness[a, b] + 0.45, 1.0)
    return likeness


_ALIKE = _likeness()
