"""How the values of one column become numbers, as plain data that a model file keeps.

A reading is decided once, from the whole table of the fit, and then applied to every table that
the model sees: a new file with a single row cannot show which mark is which.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from easyfirst.tables import dates
from easyfirst.tables.notation import PLAIN, Notation


@dataclass(frozen=True)
class Reading:
    """How the values of a column become numbers.

    Parameters
    ----------
    notation
        How numbers are written, where they are text.
    date
        The format of dates and times in text or numbers; empty for other columns.
    truths, falsehoods
        Words, in lower case, that mean yes and no; empty for other columns.
    codes
        Numbers that mean a missing value.
    words
        Texts in a column of numbers that mean a missing value.
    """

    notation: Notation = field(default=PLAIN)
    date: str = ""
    truths: tuple[str, ...] = ()
    falsehoods: tuple[str, ...] = ()
    codes: tuple[float, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def needs_text(self) -> bool:
        """Whether the column must be read as text, also where all values look like numbers."""
        text_dates = bool(self.date) and not self.date.startswith(dates.EPOCH)
        return self.notation != PLAIN or text_dates or bool(self.truths)

    @classmethod
    def from_data(cls, data: Mapping[str, Any] | None) -> Self:
        """Return the reading, or raise an error if the data make none.

        Files from before there were readings have none: their columns are read as they are.
        """
        if data is None:
            return cls()
        date, codes = data["date"], data["codes"]
        if date and not (isinstance(date, str) and dates.is_format(date)):
            raise ValueError(f"date format {date!r}")
        if not isinstance(codes, list | tuple) or not all(_is_finite(code) for code in codes):
            raise ValueError(f"missing codes {codes!r}")
        return cls(
            Notation.from_data(data["notation"]),
            date,
            _words(data["truths"]),
            _words(data["falsehoods"]),
            tuple(float(code) for code in codes),
            _words(data["words"]),
        )


def _is_finite(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value)  # type: ignore[arg-type]  # just tested


def _words(values: object) -> tuple[str, ...]:
    if not isinstance(values, list | tuple) or not all(isinstance(each, str) for each in values):
        raise ValueError(f"a list of words expected, got {values!r}")
    return tuple(values)
