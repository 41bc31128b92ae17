"""How numbers are written: decimal and thousands marks, currencies, percent signs and units.

A notation is found from all values of a column and then kept: one value alone, such as 1,234,
cannot tell which of its marks is which.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easyfirst.contracts import Vector

DECIMALS = (".", ",")
THOUSANDS = (",", ".", " ", "'", "_")
MOSTLY = 0.95  # share of readable values above which the others are mistakes
UNMARKED = 0.05  # share of numbers below 1,000 that shows that only thousands are marked
LEAST_MARKED = 5  # numbers that must have a mark before their pattern means anything
CODES = (
    "USD EUR GBP CHF JPY CNY INR AUD CAD NZD SEK NOK DKK PLN CZK HUF RUB BRL MXN ZAR TRY KRW SGD "
    "HKD THB ILS RON BGN UAH AED SAR"
)
SYNONYMS = {"€": "eur", "euro": "eur", "euros": "eur", "$": "usd", "us$": "usd", "£": "gbp"}
SYNONYMS |= {"¥": "jpy", "₹": "inr", "rs": "inr", "m2": "m²", "qm": "m²", "sqm": "m²", "m3": "m³"}
SYNONYMS |= {"pct": "%", "percent": "%", "st": "th", "nd": "th", "rd": "th"}
MAGNITUDES = {"k": 1e3, "tsd": 1e3, "m": 1e6, "mio": 1e6, "mn": 1e6, "b": 1e9, "bn": 1e9}
MAGNITUDES |= {"mrd": 1e9}
NO_UNIT = "none"
BELOW, ABOVE = r"^'?[-+]?\s*(<|≤)", r"^'?[-+]?\s*(>|≥)"
SIGNS = {  # before a number, and what is said of reading it as a plain one
    r"^\(.*\)$": ", negative as in accounts",
    BELOW: ", an upper limit",
    ABOVE: ", a lower limit",
    r"^'?[-+]?\s*(~|≈|ca\.)": "",
}
NOTE = r"(?:\*{1,3}|[†‡]|\s*\[\w{1,2}\])"  # behind a number, that refers to a remark
SIGNS[rf"\d.*{NOTE}$"] = ", without its footnote mark"
NO_CENTS = r"(\d)[.,]-{1,2}(\s|$)"  # 45,- and 45.--: a dash in place of the decimals is no minus
SIGNS[NO_CENTS] = ", no cents"
ANY_SIGN = rf"[(<≤>≥~≈]|ca\.|{NO_CENTS}|{NOTE}$"
BARE = r"^[-+\d.,' _()]*$"  # a number without a unit
_SEPARATOR = "\x1f"  # between what stands before and after the digits

# What may stand before and after the digits of a number.
_MONEY = "$€£¥₹₽₺₩₪₫₴₦฿¢"
_BEFORE = re.compile(
    r"'?(?P<open>\(?)(?P<sign>[-+]?)\s*(?:[<>~≤≥≈]=?|ca\.)?\s*"
    rf"(?P<unit>(?:[A-Za-z]{{0,2}}[{_MONEY}]|{CODES.replace(' ', '|')}|[Rr]s\.?|[Kk]r\.?|Fr\.?)?)"
    r"\s*(?P<inner>[-+]?)\s*(?P<point>[.,]?)"
)
_AFTER = re.compile(
    rf"(?P<exponent>(?:[eE][-+]?\d+)?)\s*"
    rf"(?P<unit>(?:(?:[^\W\d_]|[%‰°{_MONEY}])[^\d()+]{{0,14}}?[23]?)?)(?P<close>\)?)(?P<minus>-?)"
    rf"{NOTE}?"
)
_CUT = r"^(?P<before>[^\d]*)(?P<body>\d[\d.,' _]*)(?P<after>.*)$"
MOST_AFFIXES = 2000  # different ones; with more, a column holds sentences
_ODD_MINUS = "[\u2212\u2010-\u2014]"
_ODD_QUOTES = "[\u2018\u2019\u00b4`]"
_ODD_DIGITS = "[\uff10-\uff19\u0660-\u0669\u06f0-\u06f9]"  # full-width and Arabic ones
_ODD_SIGNS = {"\uff0e": ".", "\uff0c": ",", "\uff05": "%", "\u066b": ".", "\u066c": ","}
_ODD_SPACES = "[\u00a0\u2002-\u200a\u202f\u3000]"


@dataclass(frozen=True)
class Notation:
    """The marks of a column of numbers.

    Parameters
    ----------
    decimal
        The decimal mark.
    thousands
        The mark between thousands, or nothing. A blank stands for every kind of space.
    units
        Currencies and units that may stand beside a number, in the form that `unit_name` gives.
    scaled
        Whether the units are magnitudes such as k and M, which multiply.
    """

    decimal: str = "."
    thousands: str = ""
    units: tuple[str, ...] = ()
    scaled: bool = False

    def __post_init__(self) -> None:
        if self.decimal not in DECIMALS or self.thousands not in ("", *THOUSANDS):
            raise ValueError(f"no notation of numbers: {self.decimal!r}, {self.thousands!r}")
        if self.decimal == self.thousands:
            raise ValueError(f"{self.decimal!r} cannot mark both decimals and thousands")

    def __str__(self) -> str:
        """Return the notation as a part of a sentence."""
        said = []
        if self.decimal != ".":
            said.append(f"decimal mark {self.decimal!r}")
        if self.thousands:
            said.append(f"thousands mark {self.thousands!r}")
        if self.units:
            noun = "magnitude" if self.scaled else "unit"
            said.append(f"{noun} {', '.join(map(repr, self.units))}")
        return ", ".join(said)

    def parse(self, column: pa.ChunkedArray) -> Vector:
        """Return a column of text as numbers, NaN where a value is none in this notation."""
        if not self.units and not self.thousands and self.decimal == ".":
            quick = _cast(column)
            if quick is not None:
                return quick
        return _numbers(Parts.of(column), self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Return the notation, or raise an error if the data make none."""
        units, scaled = data["units"], data["scaled"]
        if not isinstance(units, list | tuple) or not all(isinstance(each, str) for each in units):
            raise ValueError(f"units {units!r}")
        if not isinstance(scaled, bool):
            raise TypeError(f"scaled {scaled!r}")
        return cls(str(data["decimal"]), str(data["thousands"]), tuple(units), scaled)


PLAIN = Notation()


@dataclass(frozen=True)
class _Affix:
    """What stands around the digits of a number, understood."""

    negative: bool
    point: str  # a decimal mark before the first digit
    exponent: str
    unit: str

    @classmethod
    def of(cls, text: str) -> Self | None:
        """Return what the text before and after the digits means, None if it makes no number."""
        before, _, after = text.partition(_SEPARATOR)
        head, tail = _BEFORE.fullmatch(before), _AFTER.fullmatch(after)
        if head is None or tail is None or bool(head["open"]) != bool(tail["close"]):
            return None
        signs = [head["sign"], head["inner"], tail["minus"], "-" if head["open"] else ""]
        if sum(map(bool, signs)) > 1:
            return None
        units = (unit_name(head["unit"]), unit_name(tail["unit"]))
        unit = " ".join(each for each in units if each)
        return cls("-" in signs, head["point"], tail["exponent"], unit)


@dataclass(frozen=True, eq=False)
class Parts:
    """The texts of a column cut into sign, number and unit; null where that is impossible."""

    body: pa.Array
    exponent: pa.Array
    negative: NDArray[np.bool_]
    unit_codes: NDArray[np.intp]  # places in `units`, the last where there is no number
    units: tuple[str, ...]

    @classmethod
    def of(cls, column: Any) -> Self:
        """Cut the values of a column of text."""
        cut = _one_array(
            pc.extract_regex(_without_no_cents(simple(column).cast(pa.string())), _CUT)
        )
        before, body, after = cut.flatten()  # keeps nulls of the whole
        affixes = pc.binary_join_element_wise(before, after, _SEPARATOR).dictionary_encode()
        texts = affixes.dictionary.to_pylist()
        known = [_Affix.of(text) for text in texts[:MOST_AFFIXES]]
        known += [None] * (len(texts) - len(known) + 1)
        codes = affixes.indices.fill_null(len(texts)).to_numpy(False).astype(np.intp)
        places = pa.array(codes)

        def spread(values: list[Any]) -> pa.Array:
            return pa.array(values, pa.string()).take(places)

        point = spread([each.point if each else None for each in known])
        exponent = spread([each.exponent if each else None for each in known])
        negative = np.array([each is not None and each.negative for each in known])[codes]
        whole = pc.binary_join_element_wise(point, pc.utf8_trim_whitespace(body), "")
        units = tuple(each.unit if each else "" for each in known)
        return cls(whole, exponent, negative, codes, units)


def _without_no_cents(column: Any) -> Any:
    """Return texts without a dash in place of the decimals."""
    if not _count(column, NO_CENTS):
        return column
    return pc.replace_substring_regex(column, NO_CENTS, r"\1\2")


def _one_array(column: Any) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def simple(column: Any) -> Any:
    """Return texts without space around them, and with one sign each for space, minus and quote."""
    column = pc.utf8_trim_whitespace(column)
    if pc.all(pc.string_is_ascii(column)).as_py() in (True, None):
        return column
    for odd, usual in ((_ODD_SPACES, " "), (_ODD_MINUS, "-"), (_ODD_QUOTES, "'")):
        column = pc.replace_substring_regex(column, odd, usual)
    if _count(column, _ODD_DIGITS):
        column = _with_usual_digits(column)
    return pc.utf8_trim_whitespace(column)


def _with_usual_digits(column: Any) -> Any:
    for zero in ("\uff10", "\u0660", "\u06f0"):
        for digit in range(10):
            column = pc.replace_substring(column, chr(ord(zero) + digit), str(digit))
    for odd, usual in _ODD_SIGNS.items():
        column = pc.replace_substring(column, odd, usual)
    return column


def unit_name(text: str) -> str:
    """Return one name for the spellings of a unit.

    Examples
    --------
    >>> unit_name(" EUR"), unit_name("€"), unit_name("m2"), unit_name("km/h")
    ('eur', 'eur', 'm²', 'km/h')
    """
    name = text.strip().rstrip(".").casefold()
    return SYNONYMS.get(name, name)


def infer(
    column: pa.ChunkedArray,
    decimal: str | None = None,
    thousands: str | None = None,
    habit: str | None = None,
) -> Notation | None:
    """Return the notation in which most values of a column of text are numbers, or None.

    Parameters
    ----------
    column
        Texts without missing values.
    decimal, thousands
        Marks that are known.
    habit
        The decimal mark of other columns, which decides where the values alone do not.
    """
    found = read(column, decimal, thousands, habit)
    return None if found is None else found[0]


def read(
    column: pa.ChunkedArray,
    decimal: str | None = None,
    thousands: str | None = None,
    habit: str | None = None,
) -> tuple[Notation, Vector] | None:
    """Return the notation as `infer` does, and the column read in it."""
    if decimal is None and thousands is None:
        quick = _plainly_plain(column)
        if quick is not None:
            return PLAIN, quick
    parts = Parts.of(column)
    marks = _marks(parts.body, decimal, thousands, habit)
    if marks is None:
        return None
    notation = Notation(*marks, *_common_units(parts))
    numbers = _numbers(parts, notation)
    if np.isnan(numbers).all() or _mixes_shares(parts, numbers, notation.units):
        return None
    if _are_ranges(column):
        return None
    return notation, numbers


def _are_ranges(column: pa.ChunkedArray) -> bool:
    """Whether most values are limits of both kinds, such as '< 20' and '> 20': categories."""
    texts = simple(column)
    below, above = _count(texts, BELOW), _count(texts, ABOVE)
    return min(below, above) > 0 and below + above > 0.5 * len(column)


def signs_note(column: pa.ChunkedArray, numbers: Vector) -> str:
    """Say how signs before a number were taken that change what it means; mostly nothing."""
    said: list[str] = []
    texts = simple(column)
    if not _count(texts, ANY_SIGN):
        return ""
    for pattern, meaning in SIGNS.items():
        marked = pc.fill_null(pc.match_substring_regex(texts, pattern), False)
        places = np.flatnonzero(np.asarray(marked.to_numpy(), dtype=bool) & ~np.isnan(numbers))
        if places.size:
            example, value = column[int(places[0])].as_py(), float(numbers[places[0]])
            values = "1 value" if places.size == 1 else f"{places.size:,} values"
            said.append(f"{values} such as {example!r} read as {value:.15g}{meaning}")
    return "; ".join(said)


def n_without_unit(column: pa.ChunkedArray) -> int:
    """Return how many numbers of a column have no unit."""
    return _count(simple(column), BARE)


def mixed_marks(column: pa.ChunkedArray) -> list[str]:
    """Return a number of each kind, where some have a decimal comma and others a point."""
    body = Parts.of(column).body
    kinds = [
        np.asarray(pc.fill_null(pc.match_substring_regex(body, sure), False).to_numpy(False))
        for sure in (r"^\d{1,3}(,\d{3})+\.\d+$", r"^\d{1,3}(\.\d{3})+,\d+$")
    ]
    if min(np.mean(kind) for kind in kinds) <= 1.0 - MOSTLY:
        return []
    return [str(column[int(np.argmax(kind))].as_py()) for kind in kinds]


def _mixes_shares(parts: Parts, numbers: Vector, units: tuple[str, ...]) -> bool:
    """Whether a column writes one half as 50% in some rows and as 0.5 in others."""
    if units != ("%",):
        return False
    present = ~np.isnan(numbers)
    signed = np.array([unit == "%" for unit in parts.units])[parts.unit_codes]
    shares, percents = np.abs(numbers[present & ~signed]), np.abs(numbers[present & signed])
    if min(shares.size, percents.size) <= (1.0 - MOSTLY) * numbers.size:
        return False
    return bool(shares.max() <= 1.0 < np.median(percents) and np.any(shares % 1.0))


def mixed_units(column: pa.ChunkedArray) -> list[str]:
    """Return the units of a column that is numbers but for their different units, most first."""
    parts = Parts.of(column)
    present = np.asarray(parts.body.is_valid().to_numpy(False), dtype=bool)
    if np.mean(present) < MOSTLY:
        return []
    counts = np.bincount(parts.unit_codes[present], minlength=len(parts.units))
    totals: dict[str, int] = {}
    for unit, count in zip(parts.units, counts.tolist(), strict=True):
        if unit and count > (1.0 - MOSTLY) * len(column):
            totals[unit] = totals.get(unit, 0) + count
    if set(totals) == {"%"}:
        marks = _marks(parts.body, None, None, None)
        if marks and _mixes_shares(parts, _numbers(parts, Notation(*marks, ("%",))), ("%",)):
            return ["%", NO_UNIT]
    return sorted(totals, key=lambda unit: -totals[unit]) if len(totals) > 1 else []


def decimal_habit(columns: list[pa.ChunkedArray]) -> str | None:
    """Return the decimal mark that some columns show beyond doubt, if all of them agree."""
    shown = set()
    for column in columns:
        body = Parts.of(column).body.drop_null()
        if len(body) == 0:
            continue
        for mark in DECIMALS:
            other = "," if mark == "." else "."
            sure = rf"^[\d{re.escape(other)}' ]*{re.escape(mark)}(\d{{1,2}}|\d{{4,}})$"
            if _count(body, sure) > 0.5 * len(body):
                shown.add(mark)
    return shown.pop() if len(shown) == 1 else None


def _plainly_plain(column: pa.ChunkedArray) -> Vector | None:
    """Return numbers with a point, if all values are and no mark can mean thousands."""
    numbers = _cast(column)
    if numbers is None:
        return None
    texts = simple(column)
    marked = _count(texts, r"\.")
    if marked and _count(texts, r"^[-+]?[1-9]\d{0,2}\.\d{3}$") == marked:
        return None
    return numbers


def _cast(column: pa.ChunkedArray) -> Vector | None:
    """Return plain numbers quickly, or None if some value is none."""
    trimmed = pc.utf8_trim_whitespace(column)
    try:
        found = trimmed.cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    # Arrow also reads words such as nan and infinity, which are no numbers here.
    values = np.array(found.to_numpy(), dtype=np.float64)
    values[~np.isfinite(values)] = np.nan
    return values


def _grouped(thousands: str) -> str:
    mark = re.escape(thousands)
    return rf"[1-9]\d{{0,2}}(?:{mark}\d{{3}})+|[1-9]\d?(?:{mark}\d{{2}})+{mark}\d{{3}}"


def _pattern(decimal: str, thousands: str) -> str:
    point = re.escape(decimal)
    whole = rf"\d+|{_grouped(thousands)}" if thousands else r"\d+"
    return rf"^(?:(?:{whole})(?:{point}\d*)?|{point}\d+)$"


def _count(texts: Any, pattern: str) -> int:
    return int(pc.sum(pc.match_substring_regex(texts, pattern)).as_py() or 0)


def _marks(
    body: pa.Array, decimal: str | None, thousands: str | None, habit: str | None
) -> tuple[str, str] | None:
    """Return the marks that read most numbers; among equals, what all values together suggest."""
    body = body.drop_null()
    candidates = [
        (point, mark)
        for mark in ("", *THOUSANDS)
        for point in DECIMALS
        if point != mark and decimal in (None, point) and thousands in (None, mark)
    ]
    counts = {marks: _count(body, _pattern(*marks)) for marks in candidates}
    best = max(counts.values(), default=0)
    if not best:
        return None
    equal = [marks for marks in candidates if counts[marks] == best]
    if (".", "") in equal and (",", ".") in equal and _points_mark_thousands(body, habit):
        return (",", ".")
    if (".", "") in equal:
        return (".", "")
    if (",", "") in equal and (".", ",") in equal:
        return (",", "") if habit == "," else (".", ",")
    usual = [marks for marks in equal if marks[0] == (habit or ".")]
    return (usual or equal)[0]


def _points_mark_thousands(body: pa.Array, habit: str | None) -> bool:
    """Whether 1.250 is more than a thousand, where every number with a point looks like that.

    Decimals have a varying number of digits, or the same in every number. If numbers below a
    thousand have no point and all others one before the last three digits, it marks thousands.
    """
    marked = _count(body, r"\.")
    if not marked:
        return False
    if habit == ",":
        return True
    small = _count(body, r"^(0|[1-9]\d{0,2})$")
    return (
        habit is None
        and marked >= LEAST_MARKED
        and marked + small == len(body)
        and small >= UNMARKED * len(body)
    )


def _magnitude(unit: str) -> float:
    """Return what a magnitude, also one behind a currency, multiplies by; 0 for other units."""
    return MAGNITUDES.get(unit.rpartition(" ")[2], 0.0)


def _common_units(parts: Parts) -> tuple[tuple[str, ...], bool]:
    """Return the unit of most values, or several if these are magnitudes."""
    present = parts.unit_codes[np.asarray(parts.body.is_valid().to_numpy(False), dtype=bool)]
    counts = np.bincount(present, minlength=len(parts.units))
    by_name: dict[str, int] = {}
    for name, count in zip(parts.units, counts.tolist(), strict=True):
        if name and count:
            by_name[name] = by_name.get(name, 0) + count
    if not by_name:
        return (), False
    names = sorted(by_name, key=lambda name: (-by_name[name], name))
    return (
        (tuple(names), True)
        if _are_magnitudes(names, present.size > sum(by_name.values()))
        else (
            (names[0],),
            False,
        )
    )


def _are_magnitudes(names: list[str], some_bare: bool) -> bool:
    """Whether units multiply: k and M in one column, or k beside numbers without it."""
    magnitudes = [name for name in names if _magnitude(name)]
    currencies = {name.rpartition(" ")[0] for name in magnitudes}
    others = set(names) - set(magnitudes)
    if not magnitudes or not others <= currencies:
        return False
    several = len({_magnitude(name) for name in magnitudes}) > 1
    return several or ((some_bare or bool(others)) and magnitudes[0].endswith("k"))


def _numbers(parts: Parts, notation: Notation) -> Vector:
    fits = pc.fill_null(
        pc.match_substring_regex(parts.body, _pattern(notation.decimal, notation.thousands)), False
    )
    body = pc.if_else(fits, parts.body, pa.scalar(None, parts.body.type))
    if notation.thousands:
        body = pc.replace_substring(body, notation.thousands, "")
    if notation.decimal != ".":
        body = pc.replace_substring(body, notation.decimal, ".")
    whole = pc.binary_join_element_wise(body, parts.exponent.fill_null(""), "")
    values = np.array(whole.cast(pa.float64()).to_numpy(False), dtype=np.float64)
    factors = np.array([_factor(unit, notation) for unit in parts.units])
    values *= factors[parts.unit_codes]
    values[parts.negative] *= -1.0
    values[~np.isfinite(values)] = np.nan
    return values


def _factor(unit: str, notation: Notation) -> float:
    """Return what a number with this unit is multiplied by; NaN if it does not belong here."""
    if not unit:
        return 1.0
    if unit not in notation.units:
        return float("nan")
    return (_magnitude(unit) or 1.0) if notation.scaled else 1.0
