"""Decisions brought to the rows of a table: which of them are trusted, rejected or fixed.

A row is found again by its name, where names are unique, else by its place. A decision about a
value that has changed since is not used; if that happens to most, the table is another one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.report.wording import count
from easyfirst.tables.decisions import FIX, WRONG, Decision, Value, written_name
from easyfirst.tables.errors import TableError

SAME = 1e-9  # relative difference up to which two numbers are the same value
SWAP = "swap with "  # how a fix begins that exchanges the target with another column


@dataclass(frozen=True)
class Edit:
    """A cell to change: the number or label that stands there, and the one to put in its place."""

    row: int
    column: str
    old: Value
    new: Value


@dataclass(eq=False)
class Decided:
    """Decisions by row of one table.

    `trusted` and `rejected` are rows of the table; `edits` are cells of trusted rows that get
    another value; `done` counts fixes that the table has already.
    """

    n_rows: int
    trusted: list[int] = field(default_factory=list)
    rejected: list[int] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    done: int = 0
    unused: list[str] = field(default_factory=list)

    def notes(self) -> list[str]:
        """Say what was used and what was not."""
        fixed = len({edit.row for edit in self.edits})
        said = [
            f"decisions: {count(len(self.trusted), 'row')} trusted, {fixed:,} of them with a "
            f"fixed value; {count(len(self.rejected), 'row')} rejected"
        ]
        if self.unused:
            more = len(self.unused) - 1
            others = f", and {count(more, 'decision')} like it" if more else ""
            said.append(f"decisions not used: {self.unused[0]}{others}")
        return said


def decide_rows(
    path: Path,
    decisions: Mapping[int, Decision],
    names: Sequence[Any],
    given: NDArray[Any],
    target: str,
) -> Decided:
    """Bring decisions to the rows of a table.

    Parameters
    ----------
    path
        Where the decisions are from, for messages.
    decisions
        The decisions, by the row that they were made about.
    names
        The name of every row.
    given
        The target's number in every row, NaN where there is none; or its label, None where there
        is none.
    target
        The name of the target.
    """
    decided = Decided(len(given))
    find = _Finder(names)
    for decision in decisions.values():
        row = find(decision)
        if row is None:
            decided.unused.append(f"there is no row {_named(decision)}")
        elif _is_stale(decision, given[row]):
            decided.unused.append(
                f"row {_named(decision)} holds {_shown(given[row])} now, and held "
                f"{_shown(decision.given)} when it was decided"
            )
        else:
            _use(decided, decision, row, _value(given[row]), target)
    if 2 * len(decided.unused) > len(decisions):
        raise TableError(
            f"the decisions in {path} are about another table: {decided.unused[0]}, and so for "
            f"{len(decided.unused):,} of {count(len(decisions), 'decision')}"
        )
    return decided


def _use(decided: Decided, decision: Decision, row: int, given: Value, target: str) -> None:
    if decision.kind == WRONG:
        decided.rejected.append(row)
        return
    decided.trusted.append(row)
    if decision.kind != FIX:
        return
    if _same(given, decision.fixed):
        decided.done += 1
        return
    decided.edits.append(Edit(row, target, given, decision.fixed))
    if decision.fix.startswith(SWAP):
        partner = decision.fix.removeprefix(SWAP)
        decided.edits.append(Edit(row, partner, decision.fixed, given))


def _is_stale(decision: Decision, given: Any) -> bool:
    """Return whether the row's value is neither the one decided about nor its fix."""
    if given is None or given != given or decision.given != decision.given:
        return False
    expected = [decision.given, decision.fixed] if decision.kind == FIX else [decision.given]
    return not any(_same(given, value) for value in expected)


def _same(one: Value, other: Value) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return math.isclose(one, other, rel_tol=SAME, abs_tol=0.0)


def _value(given: Any) -> Value:
    """Return what stands in a row; a label, or a number."""
    return given if isinstance(given, str) else math.nan if given is None else float(given)


def _shown(value: Value) -> str:
    return repr(value) if isinstance(value, str) else f"{value:.12g}"


def _named(decision: Decision) -> str:
    return repr(decision.row_id) if decision.row_id else str(decision.row)


class _Finder:
    """Finds the row that a decision is about."""

    def __init__(self, names: Sequence[Any]) -> None:
        self._names = names
        self._by_name: dict[str, int] | None = None

    def __call__(self, decision: Decision) -> int | None:
        if not decision.row_id:
            return decision.row if decision.row < len(self._names) else None
        here = decision.row < len(self._names) and written_name(self._names[decision.row])
        return decision.row if here == decision.row_id else self._unique().get(decision.row_id)

    def _unique(self) -> dict[str, int]:
        if self._by_name is None:
            written = [written_name(name) for name in self._names]
            times = Counter(written)
            self._by_name = {name: row for row, name in enumerate(written) if times[name] == 1}
        return self._by_name


def as_mask(rows: Sequence[int], used: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which of the used rows of a table are among these rows of it."""
    mask = np.zeros(used.size, dtype=bool)
    mask[list(rows)] = True
    return mask[used]
