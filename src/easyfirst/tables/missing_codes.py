"""Words and numbers that stand for a missing value.

A number is taken for such a code only if it looks like one (-1, 999, -200, the largest integers)
and stands alone: many equal values far from all others. Taking a real value for a code loses
data, while a code that is not recognised is an outlier that the fit can still find; so in doubt
a value is a value.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from easyfirst.contracts import Vector

INFINITE = ("inf", "-inf", "+inf", "infinity", "-infinity", "+infinity")
WORDS = frozenset(
    (
        *("", "-", "--", "---", "—", "–", "?", "??", ".", "..", "...", "*", "/", "#", "x"),
        *("na", "n/a", "n.a.", "n.a", "n.d.", "nan", "nat", "none", "null", "nil"),
        *("missing", "unknown", "undefined", "not available", "not-available", "no data"),
        *("unbekannt", "k.a.", "k.a", "ka", "keine", "keine angabe", "fehlt"),
        *("#n/a", "#na", "#null!", "#value!", "#div/0!", "#ref!", "#name?", "#num!"),
        *("(missing)", "(null)", "<na>"),
        *INFINITE,
    )
)

LEAST_EQUAL = 3  # equal values that make a spike far from the rest
LEAST_EQUAL_NEAR = 5  # and one that is near
FAR = 2.0  # distance in widths of the rest beyond which a code needs no other evidence
NEAR = 0.1  # distance in widths that a code known from other columns needs
LONELY = 0.1  # other values on the code's side of the gap, per equal value
HIGHER = 3.0  # times as often as the values nearest to it
NEIGHBOURS = 5
APART = 5.0  # usual steps between values, beyond which a gap shows without such a comparison
LEAST_DIFFERENT = (
    10  # different values in the rest, for a code below numbers that are never negative
)
LEAST_STEPS = 3  # whole numbers from one on, which do not make a scale with -1 as its other end
SAMPLE = 50_000  # values among which candidates are looked for
LIMITS = {32767.0, -32768.0, 65535.0, 2147483647.0, -2147483648.0, 4294967295.0}
SIGNED = {-1.0, -9.0, -99.0, -999.0, -9999.0, -99999.0, -999999.0}
MOST_CODES = 4


def are_words(column: pa.ChunkedArray) -> pa.Array:
    """Return where texts say that a value is missing; false where there is no text."""
    lowered = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    return pc.fill_null(pc.is_in(lowered, pa.array(sorted(WORDS), lowered.type)), False)


def find_codes(values: Vector, known: Collection[float] = ()) -> tuple[float, ...]:
    """Return the numbers in a column that mean a missing value, most often none.

    Parameters
    ----------
    values
        The column, without NaN.
    known
        Codes of other columns of the same table, which need less evidence here.
    """
    candidates = _candidates(values)
    while candidates.size:
        rest = values[~np.isin(values, candidates)]
        kept = [code for code in candidates if stands_out(code, values, rest, known)]
        if len(kept) == candidates.size:
            break
        candidates = np.asarray(kept)
    return tuple(float(code) for code in candidates) if candidates.size <= MOST_CODES else ()


def looks_like_code(value: float) -> bool:
    """Whether people write such a number for a missing value.

    Examples
    --------
    >>> [looks_like_code(value) for value in (-1, 999, 99.9, -200, 1e30)]
    [True, True, True, True, True]
    >>> [looks_like_code(value) for value in (0, 1, 100, -12.5, 450)]
    [False, False, False, False, False]
    """
    if value in LIMITS or value in SIGNED or abs(value) >= 1e20:
        return True
    digits = f"{abs(value):.6f}".rstrip("0").rstrip(".").replace(".", "")
    if len(digits) >= 2 and set(digits) <= {"9"}:
        return True
    if len(digits) >= 3 and set(digits) in ({"8"}, {"7"}):
        return True
    if len(digits) >= 2 and digits[:-1].strip("9") == "" and digits[-1] in "678":  # 97, 998
        return True
    is_round = value < 0 and len(digits) >= 2 and digits[1:].strip("0") == ""
    return is_round or (value < 0 and set(digits) <= {"8"})


def _candidates(values: Vector) -> Vector:
    """Return values that look like codes and occur often enough."""
    if values.size > SAMPLE:
        values = values[:: values.size // SAMPLE + 1]
    different, counts = np.unique(values, return_counts=True)
    often = different[counts >= LEAST_EQUAL]
    # Codes lie at the ends; looking at those alone keeps columns of whole numbers cheap.
    ends = np.concatenate([often[:8], often[-8:]])
    return np.unique([value for value in ends.tolist() if looks_like_code(value)])


def stands_out(code: float, values: Vector, rest: Vector, known: Collection[float] = ()) -> bool:
    """Whether a value that looks like a code is a spike away from the rest of a column."""
    count = int(np.sum(values == code))
    if count < LEAST_EQUAL or rest.size < LEAST_EQUAL:
        return False
    low, high = np.percentile(rest, (1.0, 99.0))
    width = float(high - low)
    distance = float(low - code if code < low else code - high)
    below = code < 0.0 and float(np.sum(rest < 0.0)) <= LONELY * count
    if distance <= 0.0 or not (below or _is_lonely(code, rest, low, high, count)):
        return False
    if distance >= FAR * width and (width > 0.0 or rest.size >= count):
        return True
    if count < LEAST_EQUAL_NEAR:
        return False
    if _is_below_numbers_from_one(code, rest):
        return True
    allowed = (
        below or (code in known and distance >= NEAR * width) or _is_all_nines(code, rest, count)
    )
    return allowed and np.unique(rest).size >= LEAST_DIFFERENT and _is_higher(code, rest, count)


def _is_below_numbers_from_one(code: float, rest: Vector) -> bool:
    """Whether a column counts from one: -1 is then no step of its scale, for 0 would be one too."""
    if code not in SIGNED or rest.min() < 1.0 or np.any(rest != np.rint(rest)):
        return False
    return bool(np.unique(rest).size >= LEAST_STEPS)


def _is_all_nines(code: float, rest: Vector, count: int) -> bool:
    """Whether a code is 99, 999 and so on, a spike clearly above whole numbers, as beside ages."""
    if set(f"{code:.0f}") != {"9"} or np.any(rest != np.rint(rest)):
        return False
    different, counts = np.unique(rest, return_counts=True)
    gap, width = code - different[-1], float(different[-1] - different[0])
    step = float(np.median(np.diff(different))) if different.size > 1 else width
    is_apart = gap >= max(NEAR * width, APART * step)
    return bool(is_apart and count >= HIGHER * float(np.mean(counts)))


def _is_lonely(code: float, rest: Vector, low: float, high: float, count: int) -> bool:
    """Whether next to nothing else lies in the outer half of the gap, or beyond the code."""
    half = (low + code) / 2.0 if code < low else (high + code) / 2.0
    beyond = np.sum(rest <= half) if code < low else np.sum(rest >= half)
    return float(beyond) <= LONELY * count


def _is_higher(code: float, rest: Vector, count: int) -> bool:
    """Whether the code is a spike: after a gap, or more frequent than the values next to it."""
    different, counts = np.unique(rest, return_counts=True)
    order = np.argsort(np.abs(different - code))[:NEIGHBOURS]
    gap = float(np.abs(different[order[0]] - code))
    near = different[order]
    step = max(float(np.median(np.diff(different))), float(near.max() - near.min()) / NEIGHBOURS)
    return gap >= APART * step or count >= HIGHER * float(np.mean(counts[order]))
