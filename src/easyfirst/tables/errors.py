"""What can be wrong with a user's table or output, as errors that name it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from easyfirst.sources import columns

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
    return columns.listed([repr(str(name)) for name in names], MAX_NAMED)


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return a hint at the nearest known names, or the list of them.

    Examples
    --------
    >>> did_you_mean("pirce", ["price", "area"])
    "did you mean 'price'?"
    """
    by_lower = {str(each).lower(): each for each in known}
    near = [by_lower[each] for each in get_close_matches(str(name).lower(), by_lower, n=2)]
    if near:
        return f"did you mean {' or '.join(repr(each) for each in near)}?"
    return f"there is {listed(known)}" if known else "there is none"


def require_column(table: Any, name: str, role: str) -> None:
    """Refuse a name that is no column of the Arrow table."""
    if name not in table.column_names:
        hint = did_you_mean(name, table.column_names)
        raise TableError(f"there is no column {name!r} for the {role}: {hint}")


def reason(error: BaseException) -> str:
    """Return the operating system's or a library's words, without numbers and paths."""
    text = getattr(error, "strerror", None) or str(error)
    return str(text).splitlines()[0].rstrip(".") if str(text) else type(error).__name__
