"""Numbers inside cells of text: replaced in the notation in which they are written."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal

NUMBER = re.compile(r"[-+\u2212]?\d(?:[\d.,'_ \u00a0\u202f\u2019]*\d)?(?:[eE][-+]?\d+)?")
GROUPS = "'_ \u00a0\u202f\u2019"  # marks between thousands, besides point and comma
UNITS = (1.0, 0.01, 1e-3, 1e3, 1e6, 1e9)  # what a number may stand for beside %, ‰, k, M ...
DIGITS = 12


@dataclass(frozen=True)
class _Written:
    """How a number is written: its decimal mark, the mark between thousands, its unit."""

    decimal: str
    group: str
    unit: float


def rewritten(text: str, old: float, new: float) -> str | None:
    """Return a cell with one number put in the place of another, written as that was.

    None if the old number is not in the cell.

    Examples
    --------
    >>> rewritten("$ 4,208.25", 4208.25, 42082.5), rewritten("4.208,25 €", 4208.25, 420.825)
    ('$ 42,082.5', '420,825 €')
    >>> rewritten("37.3%", 0.373, 0.0373)
    '3.73%'
    """
    for found in NUMBER.finditer(text):
        written = _notation(found.group(), old)
        if written is not None:
            return text[: found.start()] + _write(new, written) + text[found.end() :]
    return None


def _notation(text: str, value: float) -> _Written | None:
    """Return the notation in which the text is this value."""
    for unit in UNITS:
        for decimal, other in ((".", ","), (",", ".")):
            plain = re.sub(f"[{GROUPS}{re.escape(other)}]", "", text).replace("\u2212", "-")
            try:
                number = float(plain.replace(decimal, "."))
            except ValueError:
                continue
            if math.isclose(number * unit, value, rel_tol=1e-9):
                groups = re.findall(f"[{GROUPS}{re.escape(other)}]", text)
                return _Written(decimal, groups[0] if groups else "", unit)
    return None


def _write(value: float, written: _Written) -> str:
    plain = format(Decimal(f"{value / written.unit:.{DIGITS}g}"), "f")
    whole, point, rest = plain.partition(".")
    if written.group:
        whole = f"{int(whole):,}".replace(",", written.group) if whole not in ("-0",) else whole
    rest = rest.rstrip("0")
    return whole + (written.decimal + rest if point and rest else "")
