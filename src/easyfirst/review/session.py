"""Which rows to show, and the decisions about them: made, saved, taken back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.report.wording import visible
from easyfirst.review.groups import EVERY, Group, find_groups
from easyfirst.review.rows import LONGEST, SORTS, WORST, SuspectRows
from easyfirst.tables.decisions import FIX, OPEN, RIGHT, WRONG, Decision, DecisionLog, now

CODES = (OPEN, WRONG, RIGHT, FIX)  # as numbers in an array
ALL = "all"
STATES = (ALL, *CODES)


class ChangedError(ValueError):
    """The rows that a decision was meant for are not the rows that are there."""


@dataclass(frozen=True)
class View:
    """Which suspicious rows to show, and in which order."""

    state: str = ALL
    group: str = EVERY
    search: str = ""
    sort: str = WORST
    descending: bool = False

    def __post_init__(self) -> None:
        for name, value, allowed in (("state", self.state, STATES), ("sort", self.sort, SORTS)):
            if value not in allowed:
                raise ValueError(f"{name} is {value!r}, not one of {', '.join(allowed)}")


class ReviewSession:
    """Suspicious rows and what was decided about them.

    Parameters
    ----------
    rows
        The rows to decide.
    log
        Where decisions are saved.
    """

    def __init__(self, rows: SuspectRows, log: DecisionLog) -> None:
        self.rows = rows
        self.groups: list[Group] = find_groups(rows)
        self._log = log
        self._index = {int(place): index for index, place in enumerate(rows.places)}
        self._states = np.zeros(len(rows), dtype=np.int8)
        self._undo: list[list[tuple[int, Decision | None]]] = []
        for place, decision in log.decided.items():
            if place in self._index:
                self._states[self._index[place]] = CODES.index(decision.kind)

    def counts(self) -> dict[str, int]:
        """Return how many rows there are of each state."""
        counts = np.bincount(self._states, minlength=len(CODES)).tolist()
        return {ALL: len(self.rows), **dict(zip(CODES, counts, strict=True))}

    def group_counts(self) -> list[dict[str, Any]]:
        """Return every group with its number of rows, and how many of them are undecided."""
        is_open = self._states == 0
        return [
            {
                "key": group.key,
                "title": visible(group.title, LONGEST),
                "rows": len(group.rows),
                "open": int(np.sum(is_open[group.rows])),
            }
            for group in self.groups
        ]

    def select(self, view: View) -> NDArray[np.intp]:
        """Return the rows of a view, in its order, as numbers into the suspicious rows."""
        chosen = np.ones(len(self.rows), dtype=bool)
        if view.group != EVERY:
            chosen = self._in_group(view.group)
        if view.state != ALL:
            chosen &= self._states == CODES.index(view.state)
        if view.search.strip():
            chosen &= self.rows.holding(view.search.strip())
        order = self.rows.order(view.sort)
        order = order[chosen[order]]
        return order[::-1] if view.descending else order

    def undecided(self, chosen: NDArray[np.intp]) -> int:
        """Return how many of these rows are undecided."""
        return int(np.sum(self._states[chosen] == 0))

    def shown(self, chosen: Sequence[int] | NDArray[np.intp]) -> list[dict[str, Any]]:
        """Return rows as a page lists them, with what was decided."""
        states = [CODES[self._states[index]] for index in chosen]
        rows = self.rows.shown(chosen)
        return [{**row, "state": state} for row, state in zip(rows, states, strict=True)]

    def index_of(self, place: int) -> int:
        """Return which suspicious row lies at a place of the table."""
        if place not in self._index:
            raise KeyError(f"row {place} is not one of the rows to review")
        return self._index[place]

    def decide(self, chosen: Sequence[int] | NDArray[np.intp], kind: str) -> int:
        """Save a decision about rows, and return about how many: a fix needs a likely fix."""
        if kind not in CODES:
            raise ValueError(f"the decision is {kind!r}, not one of {', '.join(CODES)}")
        rows = [int(index) for index in chosen]
        if kind == FIX:
            rows = [index for index in rows if self.rows.has_fix(index)]
        before = [(index, self._log.decided.get(int(self.rows.places[index]))) for index in rows]
        if rows:
            self._save(rows, [self._decision(index, kind) for index in rows])
            self._undo.append(before)
        return len(rows)

    def decide_view(self, view: View, kind: str, expected: int) -> int:
        """Save a decision about all rows of a view, if they are as many as the person saw."""
        chosen = self.select(view)
        if len(chosen) != expected:
            raise ChangedError(f"the view holds {len(chosen):,} rows now, not {expected:,}")
        return self.decide(chosen, kind)

    def undo(self) -> list[int]:
        """Take back the last decision, and return the places of its rows."""
        if not self._undo:
            return []
        before = self._undo[-1]
        rows = [index for index, _ in before]
        self._save(rows, [old or self._decision(index, OPEN) for index, old in before])
        self._undo.pop()
        return [int(self.rows.places[index]) for index in rows]

    def _save(self, rows: list[int], decisions: list[Decision]) -> None:
        self._log.add(decisions)
        for index, decision in zip(rows, decisions, strict=True):
            self._states[index] = CODES.index(decision.kind)

    def _decision(self, index: int, kind: str) -> Decision:
        rows = self.rows
        fixed, fix = (rows.fixed[index], rows.fixes[index]) if kind == FIX else (math.nan, "")
        place, given = int(rows.places[index]), rows.given[index]
        return Decision(place, kind, str(rows.names[index]), given, fixed, fix, now())

    def _in_group(self, key: str) -> NDArray[np.bool_]:
        chosen = np.zeros(len(self.rows), dtype=bool)
        for group in self.groups:
            if group.key == key:
                chosen[group.rows] = True
        return chosen
