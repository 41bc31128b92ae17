"""Deciding how each column of a table becomes numbers: the making of a recipe."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easyfirst.contracts import Vector
from easyfirst.report.wording import count
from easyfirst.tables import dates, values
from easyfirst.tables.column_reading import Reading
from easyfirst.tables.errors import TableError, require_column
from easyfirst.tables.identifiers import ROW_NUMBER, is_row_number, looks_like_id
from easyfirst.tables.kinds import (
    ColumnMeaning,
    Hints,
    codes_of,
    codes_said,
    has_leading_zeros,
    table_hints,
    understand,
)
from easyfirst.tables.notation import MOSTLY, mixed_marks, mixed_units, read
from easyfirst.tables.recipe import MISSING, Feature, Kind, LeftOut, Recipe

MAX_CATEGORIES = 100  # with a column of their own
LEAST_ROWS = 10  # of a category with a column of its own, in tables of a hundred rows or more
LEAST_SHARE = 1e-3  # of all rows, the same for long tables
CONCENTRATED = 0.5  # share of rows that the kept categories must cover
NO_VALUES = "holds no values"
NO_NUMBERS = "holds no finite numbers"
CONSTANT = "has the same value in every row"
ID = "looks like an id: nearly every value is another whole number"
NAME_IT = "; name such a column with --features if it is more than a number"


@dataclass(frozen=True)
class Choice:
    """Which columns the user asks for.

    Parameters
    ----------
    target
        The column to predict.
    features
        The columns to predict it from. None: all that can be used.
    exclude
        Columns not to use.
    reserved
        Columns with another purpose, such as row ids; they are not used either.
    """

    target: str
    features: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    reserved: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sense:
    """What a column means: its kind and reading, codes for missing values included.

    `mixed` begins the sentence about a column of categories that holds numbers too; `notes` is what
    to say if the column is used. `given` is the column as numbers, if that is known already.
    """

    kind: Kind
    reading: Reading = field(default=Reading())
    notes: tuple[str, ...] = ()
    mixed: str = ""
    given: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class NumberFacts:
    """What a plan must know of all values of a column that becomes one number per row.

    `median` is of the values that are present, `pattern` a digest of where the others are, and
    `code_counts` tells how often each code for a missing value occurs.
    """

    n_present: int
    n_missing: int
    median: float
    pattern: bytes
    code_counts: tuple[int, ...] = ()
    is_constant: bool = False
    is_id: bool = False


@dataclass(frozen=True)
class LevelFacts:
    """What a plan must know of all values of a column of categories.

    `levels` are the categories with their counts, the most frequent first; `pattern` is a digest of
    where the column is missing.
    """

    levels: Sequence[tuple[str, int]]
    pattern: bytes


@dataclass
class Plan:
    """What has been decided so far."""

    n_rows: int  # that are used
    hints: Hints
    places: NDArray[np.intp] | None = None  # of the rows in the whole table, if not all are used
    features: list[Feature] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing_numbers: dict[str, bytes] = field(default_factory=dict)
    missing_categories: set[bytes] = field(default_factory=set)

    @property
    def least_rows(self) -> int:
        """How many rows something needs to get a coefficient of its own.

        With very few, such rows would be fitted exactly, wrong ones too.
        """
        return max(2, min(LEAST_ROWS, self.n_rows // 10), round(LEAST_SHARE * self.n_rows))

    def leave_out(self, name: str, reason: str) -> None:
        """Do not use a column."""
        self.left_out.append(LeftOut(name, reason))

    def odd_values(self, column: pa.ChunkedArray) -> values.TextsAmongNumbers | None:
        """Return what is not a number in a column, with its row in the whole table."""
        odd = values.odd_values(column)
        if odd is None or self.places is None:
            return odd
        return replace(odd, row=int(self.places[odd.row]))

    def recipe(self, target: str) -> Recipe:
        """Return the recipe, if a column is left to predict the target from."""
        if self.features:
            return Recipe(target, self._with_indicators(), tuple(self.left_out))
        reasons = "; ".join(f"{each.name!r} {each.reason}" for each in self.left_out[:5])
        numbers = any(each.reason in (ROW_NUMBER, ID) for each in self.left_out)
        raise TableError(
            f"no column is left to predict {target!r} from"
            + (f": {reasons}" * bool(reasons))
            + (NAME_IT * numbers)
        )

    def _with_indicators(self) -> tuple[Feature, ...]:
        """Return the features, with a column that says where each is missing if that is news.

        Columns that are missing in the very same rows would give the same column twice.
        """
        seen = set(self.missing_categories)
        features = []
        for each in self.features:
            pattern = self.missing_numbers.get(each.name)
            features.append(replace(each, indicator=pattern is not None and pattern not in seen))
            seen.add(pattern or b"")
        return tuple(features)


def make_recipe(
    whole: pa.Table,
    choice: Choice,
    used: NDArray[np.bool_],
    y: Vector | None = None,
    hints: Hints | None = None,
) -> tuple[Recipe, list[str]]:
    """Return the recipe for the used rows of a table, and what the user should know.

    `y` is the target of all rows, by which ids are told from counts.
    """
    names = candidates(whole, choice)
    every = bool(used.all())
    hints = table_hints(whole) if hints is None else hints
    y = values.numbers(whole[choice.target]) if y is None else y
    y = y[used]
    plan = Plan(len(y), hints, None if every else np.flatnonzero(used))
    for name in names:
        column = values.plain(whole[name])
        if choice.features is None and is_row_number(name, column):
            plan.leave_out(name, ROW_NUMBER)
            continue
        column = column if every else column.filter(pa.array(used))
        sense = make_sense(plan, name, column)
        if sense is None:
            continue
        if sense.kind == "category":
            settle_category(plan, name, sense, level_facts(column))
        else:
            named = choice.features is not None
            settle_number(plan, name, sense, number_facts(name, sense, None if named else y))
    return plan.recipe(choice.target), plan.notes


def candidates(table: pa.Table, choice: Choice) -> Sequence[str]:
    """Return the columns to look at, refusing names that do not exist or make no sense."""
    require_column(table, choice.target, "target")
    for role, names in (("features", choice.features or ()), ("excluded columns", choice.exclude)):
        for name in names:
            require_column(table, name, role)
    if choice.target in choice.exclude:
        raise TableError(
            f"column {choice.target!r} is the target and is excluded: the target is never a "
            f"feature, so leave it out of the excluded columns"
        )
    aside: Collection[str] = {choice.target, *choice.exclude, *choice.reserved}
    if choice.features is None:
        return [name for name in table.column_names if name not in aside]
    for name in choice.features:
        if name in aside:
            purpose = "the target" if name == choice.target else "excluded or has another purpose"
            raise TableError(f"column {name!r} cannot be a feature: it is {purpose}")
    return list(dict.fromkeys(choice.features))


def make_sense(plan: Plan, name: str, column: pa.ChunkedArray) -> Sense | None:
    """Return what a column means, or leave it out because it cannot mean anything."""
    if column.null_count == len(column):
        plan.leave_out(name, NO_VALUES)
        return None
    kind = values.kind_of(column.type)
    if kind is not None:
        return _sense_of_numbers(name, column, ColumnMeaning(kind), plan.hints)
    if values.is_text(column.type):
        return _sense_of_text(plan, name, column)
    plan.leave_out(name, f"has the type {column.type}, which is not a single value per row")
    return None


def _sense_of_text(plan: Plan, name: str, column: pa.ChunkedArray) -> Sense | None:
    found = understand(name, column, plan.hints, plan.places)
    if found.kind != "category":
        return _sense_of_numbers(name, column, found, plan.hints)
    units = mixed_units(column.drop_null())
    if units:
        listed = ", ".join(map(repr, units))
        plan.leave_out(name, f"mixes the units {listed}; convert all values to one of them")
        return None
    marks = mixed_marks(column.drop_null())
    if marks:
        plan.leave_out(name, f"writes numbers in two ways, {' and '.join(map(repr, marks))}")
        return None
    otherwise = _marked_otherwise(column.drop_null(), plan.hints)
    if otherwise:
        plan.leave_out(name, otherwise)
        return None
    odd = plan.odd_values(column)
    is_mixed = odd is not None and odd.count < odd.total
    mixed = f"mixes numbers and text ({odd}) and " if is_mixed else ""
    return Sense("category", notes=found.notes, mixed=mixed)


def _marked_otherwise(given: pa.ChunkedArray, hints: Hints) -> str:
    """Say that a column is numbers but for the marks that the user names; mostly nothing."""
    named = hints.decimal is not None or hints.thousands is not None
    if not named or len(given.unique()) <= MAX_CATEGORIES or has_leading_zeros(given):
        return ""
    found = read(given)
    if found is None or np.mean(np.isnan(found[1])) > 1.0 - MOSTLY:
        return ""
    example = given[0].as_py()
    return f"holds numbers such as {example!r}, which --decimal and --thousands do not fit"


def _sense_of_numbers(
    name: str, column: pa.ChunkedArray, found: ColumnMeaning, hints: Hints
) -> Sense:
    given = found.read(column)
    if found.kind == "number":
        found, given = _perhaps_dates(name, found, given)
    codes = codes_of(given, found.kind, hints).codes
    return Sense(found.kind, replace(found.reading, codes=codes), found.notes, given=given)


def _perhaps_dates(name: str, found: ColumnMeaning, given: Vector) -> tuple[ColumnMeaning, Vector]:
    """Return a column of numbers as dates, if it holds days or seconds that count from 1970."""
    form = dates.find_number_format(name, given[~np.isnan(given)])
    if form is None or found.reading != Reading():
        return found, given
    note = f"column {name!r}: numbers taken as dates ({dates.shown(form)})"
    understood = ColumnMeaning("date", Reading(date=form), (*found.notes, note))
    return understood, dates.from_numbers(given, form)


def number_facts(name: str, sense: Sense, y: Vector | None) -> NumberFacts:
    """Look at all values of a column; with the target y, also whether they are ids."""
    given, codes = sense.given, sense.reading.codes
    numbers = np.where(np.isin(given, codes), np.nan, given) if codes else given
    missing = np.isnan(numbers)
    n_missing = int(missing.sum())
    present = numbers[~missing] if n_missing else numbers
    if not present.size:
        return NumberFacts(0, n_missing, np.nan, b"")
    return NumberFacts(
        present.size,
        n_missing,
        float(np.median(present)),
        _pattern(missing),
        tuple(int(np.sum(given == code)) for code in codes),
        is_constant=bool(np.all(present == present[0])),
        is_id=sense.kind == "number" and y is not None and looks_like_id(name, numbers, y),
    )


def settle_number(plan: Plan, name: str, sense: Sense, facts: NumberFacts) -> None:
    """Add a column that becomes one number per row to the plan, or leave it out."""
    if facts.n_present == 0:
        plan.leave_out(name, NO_NUMBERS)
        return
    if facts.is_constant:
        plan.leave_out(name, CONSTANT)
        return
    if facts.is_id:
        plan.leave_out(name, ID)
        return
    plan.notes += sense.notes
    if facts.n_missing >= plan.least_rows:
        plan.missing_numbers[name] = facts.pattern
    is_boolean = sense.kind == "boolean"
    fill = float(np.rint(facts.median)) if is_boolean else facts.median
    plan.features.append(Feature(name, sense.kind, fill=fill, reading=sense.reading))
    said = []
    if sense.reading.codes:
        codes = codes_said(sense.kind, sense.reading.codes, facts.code_counts)
        said.append(f"{codes} taken as missing, equal values far from all others")
    if facts.n_missing:
        what = "the more frequent value" if is_boolean else "the median"
        shown = dates.day(fill) if sense.kind == "date" else f"{fill:.6g}"
        said.append(f"{count(facts.n_missing, 'missing value')} replaced by {what}, {shown}")
    if said:
        plan.notes.append(f"column {name!r}: {'; '.join(said)}")


def settle_category(plan: Plan, name: str, sense: Sense, facts: LevelFacts) -> None:
    """Add a column of categories to the plan, or leave it out."""
    plan.notes += sense.notes
    levels, mixed = facts.levels, sense.mixed
    kept = [text for text, count in levels[:MAX_CATEGORIES] if count >= plan.least_rows]
    covered = sum(count for _, count in levels[: len(kept)])
    if not kept or covered < CONCENTRATED * plan.n_rows:
        plan.leave_out(
            name,
            f"{mixed}has {count(len(levels), 'different text')}, too many to be categories",
        )
        return
    others = len(levels) - len(kept)
    rare = others > 0 and plan.n_rows - covered >= plan.least_rows
    if len(kept) + rare < 2:
        plan.leave_out(name, f"has the value {kept[0]!r} in (almost) every row")
        return
    if MISSING in kept:
        plan.missing_categories.add(facts.pattern)
    plan.features.append(Feature(name, "category", categories=tuple(kept), rare=rare))
    if mixed:
        plan.notes.append(f"column {name!r} {mixed}is taken as categories")
    if others:
        where = "together" if rare else f"with {kept[0]!r}"
        plan.notes.append(
            f"column {name!r}: {count(plan.n_rows - covered, 'row')} of rare categories "
            f"({others:,} of {len(levels):,}) taken {where}"
        )


def _pattern(missing: NDArray[np.bool_]) -> bytes:
    """Return a digest of where a column is missing."""
    return blake2b(np.packbits(missing).tobytes(), digest_size=16).digest()


def level_facts(column: pa.ChunkedArray) -> LevelFacts:
    """Count the rows of every category."""
    pattern = _pattern(np.asarray(column.is_null().to_numpy(), dtype=bool))
    return LevelFacts(sorted_levels(count_levels(column)), pattern)


def count_levels(column: pa.ChunkedArray) -> dict[str, int]:
    """Return how many rows have which text."""
    counts: Any = pc.value_counts(column.cast(pa.large_string()).fill_null(MISSING))
    pairs = zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True)
    return dict(pairs)


def sorted_levels(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return every category with its number of rows, the most frequent first."""
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
