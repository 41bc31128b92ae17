"""Dates and times in text and in numbers: which format a column has, and its values as days."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from easyfirst.contracts import Vector
from easyfirst.tables.identifiers import is_named_like_id

DAY_SECONDS = 86_400.0
MOSTLY = 0.95  # share of values that a format must read
SAMPLE = 200  # different texts on which formats are tried before all of them are read
EPOCH = "epoch "  # before the unit of numbers that count from 1970
EPOCH_UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
EXCEL = "excel"  # days as a spreadsheet stores them,
EXCEL_DAYS = (30_000.0, 60_000.0)  # of 1982 to 2064; in this range few other numbers are dates
EXCEL_1970 = 25_569.0
YMD = "%Y%m%d"
OR = "|"  # between the formats of a column that has several
MOST_FORMATS = 4
LEAST_SHARE = 0.02  # of the texts that one of several formats must read
TIMES_ONLY = ("%H:%M:%S", "%H:%M", "%H.%M.%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p", "%I %p")

# What a text must look like, and the formats that may read it. %b reads full names too.
_DAYS = {
    r"\d{4}-\d{1,2}-\d{1,2}": ("%Y-%m-%d",),
    r"\d{4}/\d{1,2}/\d{1,2}": ("%Y/%m/%d",),
    r"\d{4}\.\d{1,2}\.\d{1,2}\.?": ("%Y.%m.%d",),
    r"(?:19|20)\d{6}": (YMD,),
    r"\d{1,2}\.\d{1,2}\.\d{4}": ("%d.%m.%Y", "%m.%d.%Y"),
    r"\d{1,2}\.\d{1,2}\.\d{2}": ("%d.%m.%y",),
    r"\d{1,2}/\d{1,2}/\d{4}": ("%m/%d/%Y", "%d/%m/%Y"),
    r"\d{1,2}/\d{1,2}/\d{2}": ("%m/%d/%y", "%d/%m/%y"),
    r"\d{1,2}-\d{1,2}-\d{4}": ("%d-%m-%Y", "%m-%d-%Y"),
    r"\d{1,2}-\d{1,2}-\d{2}": ("%d-%m-%y", "%m-%d-%y"),
    r"\d{1,2}-[A-Za-z]{3}-\d{4}": ("%d-%b-%Y",),
    r"\d{1,2}-[A-Za-z]{3}-\d{2}": ("%d-%b-%y",),
    r"\d{1,2}[A-Za-z]{3}\d{4}": ("%d%b%Y",),
    r"\d{1,2}\.? [A-Za-z]+ \d{4}": ("%d %B %Y", "%d %b %Y", "%d. %B %Y", "%d. %b %Y"),
    r"[A-Za-z]+ \d{1,2},? \d{4}": ("%B %d, %Y", "%b %d, %Y", "%B %d %Y", "%b %d %Y"),
    r"[A-Za-z]+,? [A-Za-z]+ \d{1,2},? \d{4}": ("%A, %B %d, %Y", "%a %b %d %Y"),
    r"[A-Za-z]+, \d{1,2} [A-Za-z]+ \d{4}": ("%a, %d %b %Y", "%A, %d %B %Y"),
    r"\d{4}-\d{2}": ("%Y-%m",),
    r"\d{4}/\d{2}": ("%Y/%m",),
    r"\d{1,2}/\d{4}": ("%m/%Y",),
    r"[A-Za-z]+ \d{4}": ("%B %Y", "%b %Y"),
    r"[A-Za-z]{3}-\d{2}": ("%b-%y",),
    r"[A-Za-z]{3}-\d{4}": ("%b-%Y",),
}
_TIMES = {
    r"": ("",),
    r"[ T]\d{1,2}:\d{2}": (" %H:%M", "T%H:%M"),
    r"[ T]\d{1,2}:\d{2}:\d{2}": (" %H:%M:%S", "T%H:%M:%S"),
    r"[ T]\d{1,2}:\d{2}:\d{2}\.\d+": (" %H:%M:%S.%f", "T%H:%M:%S.%f"),
    r"[ T]\d{1,2}:\d{2}:\d{2}(?:Z|[-+]\d\d:?\d\d)": (" %H:%M:%S%z", "T%H:%M:%S%z"),
    r"[ T]\d{1,2}:\d{2}:\d{2}\.\d+(?:Z|[-+]\d\d:?\d\d)": (" %H:%M:%S.%f%z", "T%H:%M:%S.%f%z"),
    r",? \d{1,2}:\d{2} ?[AaPp][Mm]": (" %I:%M %p", ", %I:%M %p", " %I:%M%p"),
    r",? \d{1,2}:\d{2}:\d{2} ?[AaPp][Mm]": (" %I:%M:%S %p", ", %I:%M:%S %p"),
    r" \d{1,2}\.\d{2}": (" %H.%M",),
    r" \d{1,2}\.\d{2}\.\d{2}": (" %H.%M.%S",),
}
# Months in some languages, full and short, by the English short name that %b reads.
_MONTHS = {
    "Jan": "january januar janvier janv enero ene gennaio gen januari janeiro",
    "Feb": "february februar février fevrier févr febrero febbraio februari fevereiro fev",
    "Mar": "march märz maerz mär mrz mars marzo maart mrt março",
    "Apr": "april avril avr abril abr aprile",
    "May": "may mai mayo maggio mag mei maio maj",
    "Jun": "june juni juin junio giugno giu junho",
    "Jul": "july juli juillet juil julio luglio lug julho",
    "Aug": "august août aout agosto ago augustus augusti",
    "Sep": "september sept septembre septiembre settembre set setembro",
    "Oct": "october oktober okt octobre octubre ottobre ott outubro out",
    "Nov": "november novembre noviembre novembro",
    "Dec": "december dezember dez décembre decembre déc diciembre dic dicembre dezembro desember",
}
_SHORT = {word: name for name, words in _MONTHS.items() for word in words.split()}
_CLOCK = r"^\d{1,2}[:.]\d{2}([:.]\d{2})?(\.\d+)?$|^\d{1,2}(:\d{2}){0,2} ?[AaPp][Mm]$"
_NAMED = re.compile(r"(?i)date|time|epoch|stamp|created|updated|modified|_ts$|^ts$|_at$")
_NAMED_DAY = re.compile(r"(?i)date|datum|(?:^|_)day$")
_SHORTEST, _LONGEST = 4, 40
_SINCE, _UNTIL = 631_152_000.0, 2_208_988_800.0  # 1990 to 2040, in seconds of the epoch
_WIDEST = 30 * 365.25 * DAY_SECONDS  # of numbers that nothing but their size shows to be times


@dataclass(frozen=True)
class FoundDates:
    """A format of dates, or several with `OR` between them, and one that is possible as well.

    `days` is the column in this format.
    """

    format: str
    rival: str | None = None
    days: Any = field(default=None, compare=False, repr=False)


def find_format(column: pa.ChunkedArray, day_first: bool = False) -> FoundDates | None:
    """Return the format that reads most texts of a column, or None.

    `day_first` decides between day/month and month/day where all values allow both and neither
    order puts the rows in sequence.
    """
    encoded = _encoded(column)
    texts = encoded.dictionary.to_pylist()
    sample = [text for text in texts[:SAMPLE] if text]
    if not sample or not all(_SHORTEST <= len(text) <= _LONGEST for text in sample[:5]):
        return None
    allowed = [found for found in _candidates(sample) if _share(sample, found) >= MOSTLY - 0.1]
    days = {found: _days(texts, found) for found in allowed}
    shares = {found: float(np.mean(~np.isnan(each))) for found, each in days.items()}
    best = max(shares.values(), default=0.0)
    if best < MOSTLY:
        return _several_formats(sample, encoded, day_first)
    equal = {found: _spread(days[found], encoded) for found in allowed if shares[found] == best}
    return _more_orderly(equal, day_first)


def _several_formats(sample: list[str], encoded: Any, day_first: bool) -> FoundDates | None:
    """Return formats that read a column together, the most frequent first, or None.

    Each is chosen from what the ones before it have left.
    """
    looks = {
        text: [form for form in _candidates([text]) if form not in TIMES_ONLY] for text in sample
    }
    if np.mean([bool(forms) for forms in looks.values()]) < MOSTLY:
        return None
    texts = encoded.dictionary.to_pylist()
    tried = dict.fromkeys(form for forms in looks.values() for form in forms)
    days = {form: _days(texts, form) for form in tried}
    found: list[FoundDates] = []
    left = np.ones(len(texts), dtype=bool)
    while left.any() and len(found) < MOST_FORMATS:
        reads = {form: left & ~np.isnan(each) for form, each in days.items()}
        most = max(reads.values(), key=np.sum)
        if np.sum(most) < max(LEAST_SHARE * len(texts), 2):
            break
        equal = {
            form: _spread(np.where(left, days[form], np.nan), encoded)
            for form in tried
            if np.array_equal(reads[form], most)
        }
        found.append(_more_orderly(equal, day_first))
        left &= np.isnan(days[found[-1].format])
    if len(found) < 2 or np.mean(left) > 1.0 - MOSTLY:
        return None
    form = OR.join(each.format for each in found)
    rival = next((each.rival for each in found if each.rival), None)
    return FoundDates(form, rival, _spread(_days(texts, form), encoded))


def find_number_format(name: str, values: Vector) -> str | None:
    """Return the format of numbers that are dates, or None.

    Dates are 20240131, seconds since 1970, or Excel's days under a name that says so.
    """
    if values.size < 2 or np.any(values != np.rint(values)) or is_named_like_id(name):
        return None
    low, high = float(values.min()), float(values.max())
    if low >= 19_000_101 and high <= 21_001_231:
        texts = [f"{value:.0f}" for value in np.unique(values)]
        return YMD if _share(texts, YMD) == 1.0 else None
    named = _NAMED.search(name) is not None
    for unit, per_second in EPOCH_UNITS.items():
        first, last = low / per_second, high / per_second
        if first >= _SINCE and last <= _UNTIL and (named or 0 < last - first <= _WIDEST):
            return EPOCH + unit
    if _NAMED_DAY.search(name) and low >= EXCEL_DAYS[0] and high <= EXCEL_DAYS[1]:
        return EXCEL
    return None


def parse(column: pa.ChunkedArray, form: str) -> Vector:
    """Return texts as days since 1970, times of day as days; NaN where the format does not fit."""
    encoded = _encoded(column)
    return _spread(_days(encoded.dictionary.to_pylist(), form), encoded)


def from_numbers(values: Vector, form: str) -> Vector:
    """Return numbers that are dates as days since 1970."""
    if form == EXCEL:
        return np.asarray(values - EXCEL_1970)
    if form.startswith(EPOCH):
        return np.asarray(values / (EPOCH_UNITS[form.removeprefix(EPOCH)] * DAY_SECONDS))
    known, places = np.unique(values, return_inverse=True)
    texts = ["" if np.isnan(value) else f"{value:.0f}" for value in known]
    return np.asarray(_days(texts, form)[places])


def is_format(form: str) -> bool:
    """Whether a text is a format that this module can have found."""
    if form == EXCEL:
        return True
    if form.startswith(EPOCH):
        return form.removeprefix(EPOCH) in EPOCH_UNITS
    if OR in form:
        return all(
            is_format(each) and not each.startswith((EPOCH, EXCEL)) for each in form.split(OR)
        )
    dates = {day + time for days in _DAYS.values() for day in days for time in _all_times()}
    return form in dates or form in TIMES_ONLY


def shown(form: str) -> str:
    """Return a format as people write it.

    Examples
    --------
    >>> shown("%d.%m.%Y %H:%M"), shown("epoch s")
    ('dd.mm.yyyy HH:MM', 'seconds since 1970')
    """
    if form == EXCEL:
        return "days as Excel counts them"
    units = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
    if form.startswith(EPOCH):
        return f"{units[form.removeprefix(EPOCH)]} since 1970"
    words = {"%Y": "yyyy", "%y": "yy", "%m": "mm", "%d": "dd", "%H": "HH", "%M": "MM", "%S": "SS"}
    words |= {"%f": "ffffff", "%b": "mon", "%B": "month", "%p": "AM/PM", "%I": "hh", "%z": "zone"}
    words |= {"%a": "day", "%A": "day"}
    return re.sub(r"%[A-Za-z]", lambda found: words[found.group()], form.replace(OR, " or "))


def day(value: float) -> str:
    """Return days since 1970 as a date, with the time if it is not midnight.

    Examples
    --------
    >>> day(19753.0), day(19753.5), day(0.5)
    ('2024-01-31', '2024-01-31 12:00', '12:00')
    """
    try:
        found = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=value)
    except OverflowError:
        return f"{value:.6g}"
    if 0.0 < value < 1.0:
        return f"{found:%H:%M}"
    return f"{found:%Y-%m-%d}" if abs(value % 1.0) < 1e-9 else f"{found:%Y-%m-%d %H:%M}"


def _all_times() -> list[str]:
    return [time for times in _TIMES.values() for time in times]


def _candidates(sample: list[str]) -> list[str]:
    """Return the formats whose look some of the first texts have."""
    found: dict[str, None] = {}
    for text in dict.fromkeys([*sample[:5], *map(_with_short_months, sample[:5])]):
        if re.match(_CLOCK, text):
            found.update(dict.fromkeys(TIMES_ONLY))
        for day, days in _DAYS.items():
            for time, times in _TIMES.items():
                if re.fullmatch(day + time, text):
                    found.update((a + b, None) for a in days for b in times)
    return list(found)


def _with_short_months(text: str) -> str:
    """Return a date with the month as %b reads it: 3. März 2015, 3 de marzo de 2015, 3 sept. 2015.

    Examples
    --------
    >>> _with_short_months("3. März 2015"), _with_short_months("3 de marzo de 2015")
    ('3. Mar 2015', '3 Mar 2015')
    """

    def short(found: re.Match[str]) -> str:
        return _SHORT.get(found.group(1).casefold(), found.group())

    return re.sub(r"([^\W\d_]+)\.?", short, text.replace(" de ", " "))


def _timestamps(texts: list[Any], form: str) -> Any:
    if "%b" in form:
        texts = [_with_short_months(text) if text else text for text in texts]
    zoned = "%z" in form
    return pd.to_datetime(pd.Series(texts, dtype=object), format=form, errors="coerce", utc=zoned)


def _share(texts: list[str], form: str) -> float:
    return float(_timestamps(texts, form).notna().mean())


def _days(texts: list[Any], form: str) -> Vector:
    if not texts:
        return np.empty(0)
    if OR in form:
        first, rest = form.split(OR, 1)
        days = _days(texts, first).copy()
        unread = np.flatnonzero(np.isnan(days))
        days[unread] = _days([texts[place] for place in unread], rest)
        return days
    found = _timestamps(texts, form)
    found = found.dt.tz_localize(None) if "%z" in form else found
    origin = pd.Timestamp("1900-01-01") if form in TIMES_ONLY else pd.Timestamp(0)
    return np.asarray((found - origin).dt.total_seconds() / DAY_SECONDS, dtype=np.float64)


def _encoded(column: pa.ChunkedArray) -> Any:
    """Return the different texts of a column, and where each is."""
    trimmed = pc.utf8_trim_whitespace(column.cast(pa.string()))
    whole = pa.concat_arrays(trimmed.chunks) if trimmed.num_chunks else pa.array([], pa.string())
    return whole.dictionary_encode()


def _spread(days: Vector, encoded: Any) -> Vector:
    """Return the days of every row."""
    places = encoded.indices.fill_null(-1).to_numpy(False)
    return np.asarray(np.append(days, np.nan)[places])


def _more_orderly(rivals: dict[str, Vector], day_first: bool) -> FoundDates:
    """Choose between formats that read the same texts: the one that puts the rows in sequence."""
    if len(rivals) == 1:
        ((form, only),) = rivals.items()
        return FoundDates(form, None, only)
    steps = {form: np.diff(days[~np.isnan(days)]) for form, days in rivals.items()}
    disorder = {
        form: min(int(np.sum(each < 0)), int(np.sum(each > 0))) for form, each in steps.items()
    }
    least = min(disorder.values())
    orderly = [form for form in rivals if disorder[form] == least]
    wanted = [form for form in orderly if (form.find("%d") < form.find("%m")) == day_first]
    dotted = [form for form in orderly if form.startswith("%d.")]
    chosen = (dotted or wanted or orderly)[0]
    others = [
        form
        for form, days in rivals.items()
        if not np.array_equal(days, rivals[chosen], equal_nan=True)
    ]
    rival = others[0] if others and not dotted else None
    return FoundDates(chosen, rival, rivals[chosen])
