"""The column to predict as classes: when it is one, its labels as text, labels that are mistakes.

Labels are texts, also where the table holds numbers or truth values: 1, 1.0 and "1" are one class
in every table that a model sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easyfirst.report.wording import count, percent, visible
from easyfirst.sources import columns
from easyfirst.tables import values
from easyfirst.tables.errors import TableError, listed, require_column
from easyfirst.tables.kinds import FoundCodes, Hints, codes_of, understand
from easyfirst.tables.notation import mixed_units

TASKS = ("auto", "regression", "classification")
MOST_CLASSES = 100
MOST_NAMED = 6  # in a note
ROWS_PER_CLASS = 5  # on average; with fewer, texts are names rather than classes
LEAST_ROWS = 20  # of a target with two numbers, before these are classes rather than chance
# Words in a column of labels that say there is none; "none" and "unknown" may well be labels.
MISSING = frozenset(
    ("", "-", "--", "?", "na", "n/a", "n.a.", "nan", "nat", "null", "missing", "#n/a", "<na>")
)
FEW = 5  # rows that a misspelling has at most
FREQUENT = 20  # times as frequent, at least, is what was meant
SHORTEST = 5  # letters of a word that may be misspelt
REPRODUCED = 0.95  # share of rows from which on another column gives the labels away


def is_classes(table: pa.Table, target: str, hints: Hints) -> bool:
    """Return whether a target holds classes rather than numbers: words, or two values."""
    require_column(table, target, "target")
    column = values.plain(table[target])
    kind = column.type
    if pa.types.is_boolean(kind):
        return True
    if values.kind_of(kind) == "number":
        return _has_two_values(values.given_numbers(column), hints)
    if not values.is_text(kind) or column.null_count == len(column):
        return False
    found = understand(target, column, hints, digits_are_numbers=True)
    if found.kind == "number":
        return _has_two_values(found.read(column), hints)
    return found.kind == "boolean" or (found.kind == "category" and _are_words(column))


def missing_codes(column: pa.ChunkedArray, hints: Hints) -> FoundCodes:
    """Return the numbers that mean a missing label."""
    column = values.plain(column)
    if values.kind_of(column.type) != "number":
        return FoundCodes()
    return codes_of(values.given_numbers(column), "number", hints)


def _has_two_values(given: NDArray[np.float64], hints: Hints) -> bool:
    codes = codes_of(given, "number", hints).codes
    present = given[~np.isnan(given) & ~np.isin(given, codes)]
    return present.size >= LEAST_ROWS and np.unique(present).size == 2


def _are_words(column: pa.ChunkedArray) -> bool:
    """Return whether a column of text holds few words, most of them no numbers."""
    present = label_texts(column)
    present = present[present != np.array(None)]
    odd = values.odd_values(column)
    mostly_words = odd is not None and odd.count > 0.5 * odd.total
    few = len(set(present.tolist())) <= min(MOST_CLASSES, present.size / ROWS_PER_CLASS)
    return mostly_words and few and not mixed_units(column.drop_null())


@dataclass(frozen=True, eq=False)
class WrongLabels:
    """Rows with a label that is no class: a misspelling, or one that the fit has not seen.

    `places` are their rows in the table, `suggested` is the label to give them.
    """

    places: NDArray[np.intp]
    given: list[str]
    suggested: list[str]
    reasons: list[str]

    @property
    def fixes(self) -> list[str]:
        """What to do about each."""
        return [relabelling(each) for each in self.suggested]


def relabelling(label: object) -> str:
    """Return the fix of a wrong label in words."""
    return f"relabel as {label}"


def require_classes(labels: NDArray[Any], target: str) -> None:
    """Refuse labels that nothing can be learnt about."""
    names, n_rows = list(_counted(labels)), int(np.sum(labels != np.array(None)))
    if not names:
        raise TableError(f"no row has a value of the target {target!r}")
    if len(names) == 1:
        raise TableError(
            f"the target {target!r} has the value {names[0]!r} in all {count(n_rows, 'row')}: "
            f"there is nothing to predict; choose another column with --target"
        )
    if len(names) > min(MOST_CLASSES, n_rows / 2):
        raise TableError(
            f"the target {target!r} has {len(names):,} different values in "
            f"{count(n_rows, 'row')}, too many to be classes; choose another column with "
            f"--target, or --task regression if they are numbers"
        )


def label_texts(
    column: pa.ChunkedArray, numeric: bool = False, codes: Sequence[float] = ()
) -> NDArray[np.object_]:
    """Return the labels of a column as texts, None where there is none.

    `numeric` says that numbers in a column of text are those of the fit, however they are written;
    `codes` are numbers that mean a missing value.
    """
    column = values.plain(column)
    kind = column.type
    values.require_categories("target", column)
    if values.kind_of(kind) == "number":
        numbers = column.cast(pa.float64(), safe=False).to_numpy()
        return _from_numbers(np.where(np.isin(numbers, codes), np.nan, numbers))
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    found = np.asarray(text.to_numpy(), dtype=object)
    lowered = pc.utf8_lower(text)
    missing = pc.fill_null(pc.is_in(lowered, pa.array(sorted(MISSING))), True)
    found[np.asarray(pc.or_(missing, column.is_null()).to_numpy(), dtype=bool)] = None
    if numeric:
        numbers = _from_numbers(values.given_numbers(column))
        found = np.where(numbers == np.array(None), found, numbers)
    return found


def _from_numbers(numbers: NDArray[np.float64]) -> NDArray[np.object_]:
    present = np.isfinite(numbers)
    found = np.full(numbers.size, None, dtype=object)
    distinct, codes = np.unique(numbers[present], return_inverse=True)
    texts = np.array([f"{each:.15g}" for each in distinct] or [""], dtype=object)
    found[present] = texts[codes] if distinct.size else ""
    return found


def unified(labels: NDArray[np.object_]) -> tuple[NDArray[np.object_], list[str]]:
    """Return labels with one spelling for those that differ in capitals alone, and which do."""
    by_fold: dict[str, dict[str, int]] = {}
    for name, times in _counted(labels).items():
        by_fold.setdefault(name.casefold(), {})[name] = times
    notes = []
    for spellings in by_fold.values():
        if len(spellings) > 1:
            usual = max(spellings, key=lambda each: spellings[each])
            same = np.isin(labels, np.array(list(spellings), dtype=object))
            labels = np.where(same, usual, labels)
            notes.append(f"labels {listed(sorted(spellings))} taken as one class, {usual!r}")
    return labels, notes


def _counted(labels: NDArray[np.object_]) -> dict[str, int]:
    present = labels[labels != np.array(None)].astype(str)
    names, counts = np.unique(present, return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def misspellings(labels: NDArray[np.object_]) -> dict[str, str]:
    """Return labels of few rows that are one slip away from a frequent one, which they stand for.

    Examples
    --------
    >>> misspellings(np.array(["spruce"] * 40 + ["grade 1"] * 40 + ["spurce", "grade 2"]))
    {'spurce': 'spruce'}
    """
    by_count = _counted(labels)
    found = {}
    for name, times in by_count.items():
        frequent = [each for each, other in by_count.items() if other >= FREQUENT * times]
        meant = [each for each in frequent if times <= FEW and _is_slip(name, each)]
        if len(meant) == 1:
            found[name] = meant[0]
    return found


def _is_slip(one: str, other: str) -> bool:
    """Whether two letters changed places, or one was left out, doubled or replaced in a long word.

    A letter at the beginning often is a meaning: typical, atypical. So are short words and digits.
    """
    words = [each.casefold().split() for each in (one, other)]
    pairs = [pair for pair in zip(*words, strict=False) if pair[0] != pair[1]]
    if len(words[0]) != len(words[1]) or len(pairs) != 1:
        return False
    short, long = sorted(pairs[0], key=len)
    if len(short) < SHORTEST or short[0] != long[0] or not (short + long).isalpha():
        return False
    if len(short) == len(long):
        places = [at for at in range(len(short)) if short[at] != long[at]]
        swapped = len(places) == 2 and sorted(short) == sorted(long)
        return swapped or len(places) == 1
    return any(long[:at] + long[at + 1 :] == short for at in range(1, len(long)))


def misspelt_rows(labels: NDArray[np.object_]) -> WrongLabels | None:
    """Return the rows whose label is a misspelling of another."""
    meant = misspellings(labels)
    if not meant:
        return None
    places = np.flatnonzero(np.isin(labels, np.array(list(meant), dtype=object)))
    given = [str(each) for each in labels[places]]
    reasons = [f"{each!r} looks like a misspelling of {meant[each]!r}" for each in given]
    return WrongLabels(places, given, [meant[each] for each in given], reasons)


def classes_note(target: str, labels: NDArray[Any]) -> str:
    """Say that a target holds classes, which, and what to do if not."""
    counted = _counted(labels)
    names = sorted(counted, key=lambda each: -counted[each])
    shown = columns.listed([f"{visible(each)} ({counted[each]:,})" for each in names], MOST_NAMED)
    otherwise = "; if they are numbers to predict, add --task regression"
    numeric = _all_numbers(names)
    return (
        f"target {target!r} holds {count(len(names), 'class', 'classes')}, {shown}: a "
        f"classification was fitted, which looks for wrong labels{otherwise * numeric}"
    )


def _all_numbers(names: Sequence[str]) -> bool:
    try:
        return bool([float(name) for name in names])
    except ValueError:
        return False


def leaks(features: Iterable[tuple[str, NDArray[Any]]], labels: NDArray[Any]) -> Iterator[str]:
    """Say which columns give the labels away: every value of them stands for one label."""
    classes, codes = np.unique(labels.astype(str), return_inverse=True)
    for name, column in features:
        levels, places = np.unique(column, return_inverse=True)
        if levels.size != classes.size:
            continue
        table = np.zeros((levels.size, classes.size))
        np.add.at(table, (places, codes), 1.0)
        share = float(table.max(axis=1).sum() / codes.size)
        if share >= REPRODUCED and np.unique(table.argmax(axis=1)).size == classes.size:
            where = "exactly" if share == 1.0 else f"in {percent(share)} of the rows"
            yield f"{name!r} reproduces the labels {where}"
