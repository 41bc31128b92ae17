"""What can be wrong with a user's table or output, as errors that name it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

MAX_NAMED = 8  # names listed in a message before "and k more"


class TableError(ValueError):
    """A table cannot be read or used; the message says where, why and what to do."""


class OutputError(ValueError):
    """An output exists already or cannot be written."""


def listed(names: Iterable[object]) -> str:
    """Return the names for a message, the first few of them if there are many.

    Examples
    --------
    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    shown = [repr(str(name)) for name in names]
    more = len(shown) - MAX_NAMED
    return ", ".join(shown[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def counted(number: int, noun: str) -> str:
    """Return the number with its noun.

    Examples
    --------
    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return a hint at the nearest known names, or the list of them.

    Examples
    --------
    >>> did_you_mean("pirce", ["price", "area"])
    "did you mean 'price'?"
    """
    by_lower = {each.lower(): each for each in known}
    near = [by_lower[each] for each in get_close_matches(name.lower(), by_lower, n=2)]
    if near:
        return f"did you mean {' or '.join(repr(each) for each in near)}?"
    return f"there is {listed(known)}" if known else "there is none"
