"""Numbers and names as a reader wants them: few digits, and nothing that acts on the page.

A column may be called anything. What steers a terminal or the direction of text (control and
format characters) is shown as its code, so that a name can neither colour nor rearrange what
stands around it.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from typing import Any

LONGEST_NAME = 60  # characters of a name before it is cut
STEERING = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")  # Unicode categories that are not for reading
JOINERS = ("\u200c", "\u200d")  # needed to write several scripts
NOT_ESTIMATED = (0.0, 1.0)  # the interval of a share of which nothing is known
MARKS_IN_A_ROW = 4  # more accents than that on one letter run over the lines above and below


def visible(text: object, longest: int = LONGEST_NAME) -> str:
    r"""Return a text in one line, with steering characters as codes and no more than `longest`.

    Examples
    --------
    >>> visible("price\n\x1b[31m")
    'price\\n\\x1b[31m'
    >>> visible("x" * 100, longest=10)
    'xxxxxxxxx…'
    """
    raw = str(text)
    shown: list[str] = []
    marks = 0
    for character in raw[: longest + 1]:
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        if marks <= MARKS_IN_A_ROW:
            shown.append(_coded(character))
    result = "".join(shown)
    return result if len(raw) <= longest else f"{result[: longest - 1]}…"


def _coded(character: str) -> str:
    if unicodedata.category(character) in STEERING and character not in JOINERS:
        return character.encode("unicode_escape").decode("ascii")
    return character


def number(value: float) -> str:
    """Return a number with about four digits, and thousands set apart.

    Examples
    --------
    >>> [number(x) for x in (0.0, 3.14159, -123456.7, 2.5e-7, float("nan"))]
    ['0', '3.142', '-123,457', '2.5e-07', 'n/a']
    """
    size = abs(value)
    if math.isnan(value):
        return "n/a"
    if math.isinf(value):
        return "infinite" if value > 0 else "-infinite"
    if 1000 <= size < 1e12:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def cell(value: Any) -> str:
    """Return a value of a table: whole numbers of four digits, such as years, in one piece.

    Examples
    --------
    >>> cell(1957.0), cell(12500.0), cell(0.25), cell(None), cell(float("nan")), cell("Ulm")
    ('1957', '12,500', '0.25', 'missing', 'missing', 'Ulm')
    """
    if value is None or value != value:
        return "missing"
    if not isinstance(value, float):
        return visible(value)
    is_short = value.is_integer() and abs(value) < 10_000
    return f"{value:.0f}" if is_short else number(value)


def percent(share: float) -> str:
    """Return a share in per cent, with the digits that matter near none and near all.

    Examples
    --------
    >>> percent(0.2), percent(0.0004), percent(0.99951), percent(0.0), percent(1e-9)
    ('20.0 %', '0.04 %', '99.95 %', '0 %', 'under 0.001 %')
    """
    if math.isnan(share):
        return "n/a"
    if share in (0.0, 1.0):
        return f"{100 * share:.0f} %"
    margin = min(share, 1.0 - share)
    if margin < 1e-5:
        return "under 0.001 %" if share < 0.5 else "over 99.999 %"
    digits = 1 if margin >= 0.01 else 2 if margin >= 0.0002 else 3
    return f"{100 * share:.{digits}f} %"


def count(value: float, one: str, many: str | None = None) -> str:
    """Return a number of things with their name.

    Examples
    --------
    >>> count(1, "row"), count(12345, "row"), count(2, "batch", "batches")
    ('1 row', '12,345 rows', '2 batches')
    """
    whole = round(value)
    return f"{whole:,} {one if whole == 1 else many or one + 's'}"


def share_in_words(share: float, interval: Sequence[float], of: str = "95 %:") -> str:
    """Return a share of wrong rows with its interval, or that it was not estimated."""
    low, high = interval
    if (low, high) == NOT_ESTIMATED:
        return "not estimated: every label is taken as right (see the notes)"
    return f"{percent(share)} ({of} {percent(low)} to {percent(high)})"
