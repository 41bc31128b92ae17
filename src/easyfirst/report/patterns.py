"""Patterns among wrong rows, in words: mistakes of one kind, and groups that are wrong more often.

Groups are the categories and the ranges of the columns. A group is reported if it has more wrong
rows than drawing so many rows at random would give, at a level that holds for all groups
together (Bonferroni): on clean data there is a pattern in one table of a hundred. Rows of a group
that was reported are set aside before the next one is looked for, so that one cause is told once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv
from scipy.stats import hypergeom

from easyfirst.report.traits import Trait
from easyfirst.report.wording import count, percent, visible

LEVEL = 0.01  # chance of any pattern where there is none
LIFT = 1.5  # times as often as elsewhere, at least
FEWEST_WRONG = 3
COMMON = 0.02  # of the wrong rows, at least, that a kind of mistake needs to be a pattern
MOST_PATTERNS = 8
PRIOR_ROWS = 20.0  # rows' worth of the overall share in a group's own


@dataclass(frozen=True)
class GroupShare:
    """How many rows of a group are wrong, beside those elsewhere.

    `share` is drawn towards the overall one by a few rows' worth; `interval` holds it with 95 %.
    """

    column: str
    group: str
    n_rows: int
    n_wrong: int
    share: float
    interval: tuple[float, float]
    elsewhere: float

    def __str__(self) -> str:
        """Return the share in words."""
        low, high = self.interval
        return (
            f"{self.n_wrong:,} of {count(self.n_rows, 'row')} with {self.group} look wrong "
            f"({percent(self.share)}, 95 % interval {percent(low)} to {percent(high)}); elsewhere "
            f"{percent(self.elsewhere)}"
        )


@dataclass(frozen=True, eq=False)
class Pattern:
    """What some wrong rows have in common; `rows` are their numbers.

    `fix` is their common fix, `group` where they are more frequent than elsewhere; one of the two
    may be missing.
    """

    words: str
    rows: NDArray[np.intp]
    fix: str | None = None
    group: GroupShare | None = None

    def to_data(self) -> dict[str, Any]:
        """Return the pattern as JSON can hold it."""
        data: dict[str, Any] = {"words": self.words, "rows": int(self.rows.size), "fix": self.fix}
        if self.group is not None:
            data |= {
                "column": self.group.column,
                "group": self.group.group,
                "group_rows": self.group.n_rows,
                "group_wrong": self.group.n_wrong,
                "share": self.group.share,
                "interval": list(self.group.interval),
                "elsewhere": self.group.elsewhere,
            }
        return data


@dataclass(frozen=True, eq=False)
class _Found:
    trait: Trait
    first: int
    last: int
    log_chance: float

    @property
    def inside(self) -> NDArray[np.bool_]:
        return self.trait.within(self.first, self.last)

    @property
    def words(self) -> str:
        return self.trait.phrase(self.first, self.last)


def find_patterns(
    wrong: NDArray[np.bool_], fixes: NDArray[np.object_], traits: Sequence[Trait]
) -> list[Pattern]:
    """Return the patterns among wrong rows, those of most rows first.

    Parameters
    ----------
    wrong
        Which rows look wrong.
    fixes
        The likely fix of each row, empty where there is none.
    traits
        The columns by which rows can be grouped.
    """
    if np.count_nonzero(wrong) < FEWEST_WRONG:
        return []
    labels, counts = np.unique(fixes[wrong].astype(str), return_counts=True)
    common = [
        (str(label), int(n))
        for label, n in sorted(zip(labels, counts, strict=True), key=lambda pair: -pair[1])
        if label and n >= max(FEWEST_WRONG, COMMON * np.count_nonzero(wrong))
    ][:MOST_PATTERNS]
    n_tests = (1 + len(common)) * sum(len(trait.bounds()) for trait in traits)
    limit = np.log(LEVEL / max(n_tests, 1))
    by_fix = [_of_one_fix(wrong, fixes, label, traits, limit) for label, _ in common]
    explained = np.isin(fixes, [label for label, _ in common]) & wrong
    by_group = _of_groups(wrong, ~explained, traits, limit)
    return [*by_fix, *by_group][:MOST_PATTERNS]


def _of_one_fix(
    wrong: NDArray[np.bool_],
    fixes: NDArray[np.object_],
    label: str,
    traits: Sequence[Trait],
    limit: float,
) -> Pattern:
    these = wrong & (fixes == label)
    rows = np.flatnonzero(these)
    words = f"{count(rows.size, 'row')} {_in_words(label)}"
    # That a swapped value is unusual in its column says nothing new.
    telling = [trait for trait in traits if label != f"swap with {trait.name}"]
    found = _most_telling(these, np.ones(wrong.size, dtype=bool), telling, limit)
    if found is None:
        return Pattern(words, rows, label)
    inside = found.inside
    share, of_all = float(np.mean(inside[these])), float(np.mean(inside))
    group = _share_of(found, wrong, np.ones(wrong.size, dtype=bool))
    words += f"; {percent(share)} of them have {found.words} ({percent(of_all)} of all rows)"
    return Pattern(words, rows, label, group)


def _in_words(fix: str) -> str:
    """Return what rows with this fix have in common."""
    known = {
        "change the sign": "have the wrong sign",
        "correct one digit": "differ from what fits in one digit",
        "transpose two digits": "have two digits transposed",
        "treat as missing": "hold what looks like a missing code",
        "treat as missing (copied)": "repeat the value of the row above",
    }
    if fix in known:
        return known[fix]
    verb, _, rest = fix.partition(" by ")
    size = rest.removeprefix("about ")
    if verb == "divide":
        return f"are about {size} times the prediction"
    if verb == "multiply":
        return f"are about 1/{size} of the prediction"
    if fix.startswith("swap with "):
        return f"seem to have changed places with {visible(fix.removeprefix('swap with '))}"
    return f"need the same fix: {fix}"


def _of_groups(
    wrong: NDArray[np.bool_], left: NDArray[np.bool_], traits: Sequence[Trait], limit: float
) -> Iterator[Pattern]:
    """Yield groups in which rows are wrong more often, each beside the rows that are left."""
    left = left.copy()
    for _ in range(MOST_PATTERNS):
        found = _most_telling(wrong & left, left, traits, limit)
        if found is None:
            return
        group = _share_of(found, wrong, left)
        yield Pattern(str(group), np.flatnonzero(wrong & left & found.inside), None, group)
        left &= ~found.inside


def _most_telling(
    marked: NDArray[np.bool_], among: NDArray[np.bool_], traits: Sequence[Trait], limit: float
) -> _Found | None:
    """Return the group with the most surprising number of marked rows, if one is beyond chance."""
    n_rows, n_marked = int(np.sum(among)), int(np.sum(marked))
    best: _Found | None = None
    for trait in traits:
        inside, hits = trait.counts(among), trait.counts(marked)
        with np.errstate(divide="ignore", invalid="ignore"):
            outside = (n_marked - hits) / (n_rows - inside)
            likely = (hits >= FEWEST_WRONG) & (hits / inside >= LIFT * outside)
        for place in np.flatnonzero(likely & (inside < n_rows)):
            chance = hypergeom.logsf(hits[place] - 1, n_rows, n_marked, inside[place])
            if chance < (limit if best is None else best.log_chance):
                first, last = trait.bounds()[place]
                best = _Found(trait, int(first), int(last), float(chance))
    return best


def _share_of(found: _Found, wrong: NDArray[np.bool_], among: NDArray[np.bool_]) -> GroupShare:
    inside = found.inside & among
    n, k = int(np.sum(inside)), int(np.sum(wrong & inside))
    overall = float(np.mean(wrong[among]))
    a, b = k + PRIOR_ROWS * overall, n - k + PRIOR_ROWS * (1.0 - overall)
    low, high = betaincinv(a, b, 0.025), betaincinv(a, b, 0.975)
    elsewhere = among & ~inside
    return GroupShare(
        column=found.trait.name,
        group=found.words,
        n_rows=n,
        n_wrong=k,
        share=a / (a + b),
        interval=(float(low), float(high)),
        elsewhere=float(np.mean(wrong[elsewhere])) if elsewhere.any() else float("nan"),
    )
