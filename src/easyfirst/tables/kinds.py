"""What a column holds: numbers in some notation, dates, yes and no, or categories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easyfirst.contracts import Vector
from easyfirst.report.wording import count
from easyfirst.tables import dates, missing_codes, notation, values
from easyfirst.tables.column_reading import Reading
from easyfirst.tables.recipe import Kind

PAIRS = (
    ("yes", "no"),
    ("y", "n"),
    ("true", "false"),
    ("t", "f"),
    ("on", "off"),
    ("ja", "nein"),
    ("j", "n"),
    ("oui", "non"),
    ("si", "no"),
    ("sí", "no"),
    ("s", "n"),
    ("wahr", "falsch"),
    ("vrai", "faux"),
    ("1", "0"),
)
TRUTHS = {true for true, _ in PAIRS}
FALSEHOODS = {false for _, false in PAIRS}
MOST_WORDS = 5  # different words that may stand for missing in a column of numbers
LEAST_NUMBERS = 20  # different numbers that such a column needs beside them
CODE_ROWS = 20_000  # values of a column that are looked at for codes that others share
HABIT_ROWS = 1000  # values of a column that are looked at for its decimal mark
DELIMITER_KEY = b"easyfirst.delimiter"  # in the metadata of a table that was a CSV file
FAR_DATES = (  # days that people write for never and unknown
    *("0001-01-01", "1800-01-01", "1899-12-30", "1899-12-31", "1900-01-01", "1901-01-01"),
    *("1970-01-01", "2099-12-31", "2199-12-31", "2999-12-31", "9999-01-01", "9999-12-31"),
)


@dataclass(frozen=True)
class Hints:
    """What is known about all columns of a table.

    Parameters
    ----------
    decimal, thousands
        Marks that the user named.
    habit
        The decimal mark that some columns show beyond doubt.
    codes
        Numbers that mean missing in some columns.
    """

    decimal: str | None = None
    thousands: str | None = None
    habit: str | None = None
    codes: frozenset[float] = frozenset()

    @property
    def marks(self) -> notation.Notation:
        """The notation of numbers in which everything is as the user says."""
        decimal = self.decimal or ("," if self.thousands == "." else ".")
        return notation.Notation(decimal, self.thousands or "")

    @property
    def day_first(self) -> bool:
        """Whether dates that could be either have the day before the month."""
        return "," in (self.decimal, self.habit)


@dataclass(frozen=True)
class ColumnMeaning:
    """What a column holds, how to read it, and what to say about that.

    `numbers` is the column read that way, if that is known already.
    """

    kind: Kind
    reading: Reading = field(default=Reading())
    notes: tuple[str, ...] = ()
    numbers: Any = field(default=None, compare=False, repr=False)

    def read(self, column: pa.ChunkedArray) -> Vector:
        """Return the column as numbers, codes for missing values as they are."""
        known = self.numbers is not None
        return self.numbers if known else values.given_numbers(column, self.reading)


def table_hints(table: pa.Table, decimal: str | None = None, thousands: str | None = None) -> Hints:
    """Look at all columns for what they share: the decimal mark, and codes for missing values."""
    hints = Hints(decimal, thousands, decimal or decimal_habit(table))
    codes: set[float] = set()
    for name, column in zip(table.column_names, table.columns, strict=True):
        codes.update(_clear_codes(name, values.plain(column.slice(0, CODE_ROWS)), hints))
    return replace(hints, codes=frozenset(codes))


def decimal_habit(table: pa.Table) -> str | None:
    """Return the decimal mark that some columns of text show beyond doubt."""
    texts = [
        values.plain(column.slice(0, HABIT_ROWS)).drop_null()
        for column in table.columns
        if values.is_text(values.plain(column.slice(0, 1)).type)
    ]
    shown = notation.decimal_habit([column for column in texts if len(column)])
    return shown or _by_delimiter(table)


def _clear_codes(name: str, column: pa.ChunkedArray, hints: Hints) -> tuple[float, ...]:
    """Return the codes that a column shows without the help of others."""
    found = ColumnMeaning("number")
    if values.is_text(column.type) and column.null_count < len(column):
        found = understand(name, column, hints)
    elif values.kind_of(column.type) != "number":
        return ()
    if found.kind != "number":
        return ()
    numbers = found.read(column)
    return missing_codes.find_codes(numbers[~np.isnan(numbers)])


def understand(
    name: str,
    column: pa.ChunkedArray,
    hints: Hints,
    places: NDArray[np.intp] | None = None,
    digits_are_numbers: bool = False,
) -> ColumnMeaning:
    """Return what a column of text holds; there is at least one value.

    Parameters
    ----------
    name, column, hints
        The column, and what is known of its table.
    places
        Of the rows in the whole table, for notes, if these are not all.
    digits_are_numbers
        Also where they have leading zeros.
    """
    present = ~values.missing_words(column)
    given = column.filter(pa.array(present))
    if len(given) == 0:
        return ColumnMeaning("category")
    words = _truth_words(given)
    if words is not None:
        return ColumnMeaning("boolean", words)
    if digits_are_numbers or not has_leading_zeros(given):
        found = _numbers(name, given, present, hints, places)
        if found is not None:
            return found
    form = dates.find_format(given, hints.day_first)
    if form is not None:
        note = _dates_note(name, given, form)
        days = _at(present, form.days)
        return ColumnMeaning("date", Reading(date=form.format), (note,), days)
    return ColumnMeaning("category", notes=_mixed_note(name, given))


def has_leading_zeros(column: pa.ChunkedArray) -> bool:
    """Whether values such as 01085 show that digits are names, not numbers.

    One among many numbers of other lengths is a slip of the pen; but where all have as many
    digits, as postcodes have, a single leading zero is enough.
    """
    trimmed = pc.utf8_trim_whitespace(column)
    zeros = pc.match_substring_regex(trimmed, r"^0\d+$")
    n_zeros = pc.sum(zeros).as_py() or 0
    if not n_zeros:
        return False
    n_digits = pc.sum(pc.match_substring_regex(trimmed, r"^\d+$")).as_py() or 0
    if n_digits < notation.MOSTLY * len(column):
        return False
    lengths = pc.unique(pc.utf8_length(trimmed))
    return len(lengths) == 1 or n_zeros > (1.0 - notation.MOSTLY) * len(column)


@dataclass(frozen=True)
class FoundCodes:
    """Numbers that mean missing in a column, and how to say where they are."""

    codes: tuple[float, ...] = ()
    said: str = ""


def codes_of(found: Vector, kind: Kind, hints: Hints) -> FoundCodes:
    """Return the numbers of a column that mean a missing value."""
    present = found[~np.isnan(found)]
    is_date = kind == "date"
    codes = _far_dates(present) if is_date else missing_codes.find_codes(present, hints.codes)
    counts = [int(np.sum(present == code)) for code in codes]
    return FoundCodes(codes, codes_said(kind, codes, counts))


def codes_said(kind: Kind, codes: tuple[float, ...], counts: Sequence[int]) -> str:
    """Say which numbers of a column mean a missing value, and in how many rows."""
    if kind == "date":
        names = [str(np.datetime64(0, "D") + int(code)) for code in codes]
    else:
        names = [f"{code:.15g}" for code in codes]
    rows = [count(each, "row") for each in counts]
    return ", ".join(f"{name} ({rows})" for name, rows in zip(names, rows, strict=True))


def _truth_words(given: pa.ChunkedArray) -> Reading | None:
    """Return the reading of words for yes and no, if a column holds nothing else."""
    first = given.slice(0, HABIT_ROWS)
    for part in (first, given):  # most columns fail at the first rows already
        lowered = set(pc.unique(pc.utf8_lower(pc.utf8_trim_whitespace(part))).to_pylist())
        if not lowered <= TRUTHS | FALSEHOODS or lowered <= {"0", "1"}:
            return None
    truths, falsehoods = lowered & TRUTHS, lowered & FALSEHOODS
    if not truths or truths & falsehoods:
        return None
    known = [pair for pair in PAIRS if pair[0] in truths]
    falsehoods |= {false for _, false in known}
    return Reading(truths=tuple(sorted(truths)), falsehoods=tuple(sorted(falsehoods)))


def _at(present: NDArray[np.bool_], numbers: Vector) -> Vector:
    """Return numbers in their rows, NaN in all others."""
    whole = np.full(present.size, np.nan)
    whole[present] = numbers
    return whole


def _numbers(
    name: str,
    given: pa.ChunkedArray,
    present: NDArray[np.bool_],
    hints: Hints,
    places: NDArray[np.intp] | None,
) -> ColumnMeaning | None:
    read = notation.read(given, hints.decimal, hints.thousands, hints.habit)
    if read is None:
        return None
    found, numbers = read
    whole = _at(present, numbers)
    odd = values.TextsAmongNumbers.of(
        given, numbers, np.flatnonzero(present) if places is None else places[present]
    )
    words: tuple[str, ...] = ()
    notes = []
    if odd is not None:
        words = () if odd.is_rare else _few_words(given, numbers)
        if not odd.is_rare and not words:
            return None
        notes.append(f"column {name!r}: {odd}; taken as missing")
    if found != notation.PLAIN:
        notes.insert(0, _notation_note(name, given, numbers, found, hints))
    signs = notation.signs_note(given, numbers)
    if signs:
        notes.append(f"column {name!r}: {signs}")
    return ColumnMeaning("number", Reading(found, words=words), tuple(notes), whole)


def _few_words(given: pa.ChunkedArray, numbers: Vector) -> tuple[str, ...]:
    """Return words that occur again and again beside so many numbers that these are meant."""
    readable = ~np.isnan(numbers)
    if np.unique(numbers[readable]).size < LEAST_NUMBERS or np.mean(readable) < 0.5:
        return ()
    words = pc.unique(given.filter(pa.array(~readable)))
    return tuple(sorted(words.to_pylist())) if len(words) <= MOST_WORDS else ()


def _notation_note(
    name: str, given: pa.ChunkedArray, numbers: Vector, found: notation.Notation, hints: Hints
) -> str:
    shown = _telling(given, numbers, found)
    text, number = given[shown].as_py(), float(numbers[shown])
    doubt = ""
    if hints.decimal is None and hints.thousands is None and _is_ambiguous(given, found):
        other = "--decimal ," if found.thousands == "," else f"--thousands {found.decimal}"
        doubt = f"; if that is wrong, say so with {other}"
    n_bare = notation.n_without_unit(given) if found.units and not found.scaled else 0
    bare = f"; {count(n_bare, 'value')} without a unit taken alike" if n_bare else ""
    return f"column {name!r}: {text!r} read as {number:.15g} ({found}){bare}{doubt}"


def _telling(given: pa.ChunkedArray, numbers: Vector, found: notation.Notation) -> int:
    """Return the place of a value that shows the marks: the longest of the first."""
    first = given.slice(0, HABIT_ROWS)
    lengths = pc.utf8_length(first).to_numpy() * ~np.isnan(numbers[: len(first)])
    has_mark = np.zeros(len(first), dtype=bool)
    for mark in filter(None, (found.thousands, found.decimal if found.decimal != "." else "")):
        has_mark |= np.asarray(pc.match_substring(first, mark).to_numpy(), dtype=bool)
    return int(np.argmax(np.where(has_mark | ~has_mark.any(), lengths, 0)))


def _is_ambiguous(given: pa.ChunkedArray, found: notation.Notation) -> bool:
    """Whether the mark in all numbers that have one could be of the other kind."""
    mark = found.thousands or (found.decimal if found.decimal != "." else "")
    if mark not in (".", ","):
        return False
    head = notation.Parts.of(given.slice(0, HABIT_ROWS)).body.drop_null()
    if not _could_be_grouped(head, mark):
        return False
    return _could_be_grouped(notation.Parts.of(given).body.drop_null(), mark)


def _could_be_grouped(body: pa.Array, mark: str) -> bool:
    """Whether every number with a mark has it once, before three digits."""
    marked = body.filter(pc.match_substring(body, mark))
    return bool(
        pc.all(pc.match_substring_regex(marked, rf"^[1-9]\d{{0,2}}[{mark}]\d{{3}}$")).as_py()
    )


def _dates_note(name: str, given: pa.ChunkedArray, form: dates.FoundDates) -> str:
    rival = f"; {dates.shown(form.rival)} would be possible too" if form.rival else ""
    return f"column {name!r}: dates as {dates.shown(form.format)}, for example {given[0]}{rival}"


def _mixed_note(name: str, given: pa.ChunkedArray) -> tuple[str, ...]:
    """Explain a column of which only a part are numbers."""
    if has_leading_zeros(given):
        example = next(text for text in given.to_pylist() if text.strip().startswith("0"))
        return (f"column {name!r}: numbers with leading zeros, such as {example!r}, are text",)
    return ()


def _far_dates(present: Vector) -> tuple[float, ...]:
    """Return the days that mean never or unknown: a spike at a day that people use for that."""
    days = np.array(FAR_DATES, dtype="datetime64[D]").astype(np.int64).astype(np.float64)
    found = []
    for code in days[np.isin(days, present)]:
        rest = present[~np.isin(present, days)]
        if missing_codes.stands_out(float(code), present, rest):
            found.append(float(code))
    return tuple(found)


def _by_delimiter(table: pa.Table) -> str | None:
    """Return the decimal comma for files whose values are separated by semicolons."""
    metadata = table.schema.metadata or {}
    return "," if metadata.get(DELIMITER_KEY) == b";" else None
