"""Groups of suspicious rows that can be decided at once: patterns, kinds of mistake, sides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.review.rows import SuspectRows

EVERY = ""  # the key of no group: all rows
MOST_GROUPS = 40  # shown of each kind; a pattern of one row is no pattern
LEAST_ROWS = 2


@dataclass(frozen=True, eq=False)
class Group:
    """Suspicious rows that have something in common; `rows` are numbers into them."""

    key: str
    title: str
    rows: NDArray[np.intp]


def find_groups(rows: SuspectRows) -> list[Group]:
    """Return the groups, those that say most first; of groups of the same rows, the first."""
    found = [
        *_grouped("pattern", _patterns(rows)),
        *_grouped(
            "fix",
            ((index, (f"Likely fix: {text}",)) for index, text in enumerate(rows.fixes) if text),
        ),
    ]
    sides = ((index, (rows.side(index),)) for index in range(len(rows)))
    found += _grouped("side", sides)
    firsts = {each.rows.tobytes(): each for each in reversed(found)}
    return [each for each in found if firsts[each.rows.tobytes()] is each]


def _patterns(rows: SuspectRows) -> Iterable[tuple[int, Iterable[str]]]:
    """Return the patterns of each row; a row may follow none or several."""
    if "patterns" not in rows.found.column_names:
        return []
    values: list[Any] = rows.found["patterns"].to_pylist()
    return (
        (index, [value] if isinstance(value, str) else value)
        for index, value in enumerate(values)
        if value
    )


def _grouped(kind: str, members: Iterable[tuple[int, Iterable[str]]]) -> list[Group]:
    """Return groups of equal titles, the largest first."""
    by_title: dict[str, list[int]] = defaultdict(list)
    for index, titles in members:
        for title in titles:
            by_title[title].append(index)
    common = [(title, each) for title, each in by_title.items() if len(each) >= LEAST_ROWS]
    common.sort(key=lambda pair: -len(pair[1]))
    return [
        Group(f"{kind}:{title}", title, np.asarray(each, dtype=np.intp))
        for title, each in common[:MOST_GROUPS]
    ]
