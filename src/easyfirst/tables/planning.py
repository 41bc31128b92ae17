"""Deciding how each column of a table becomes numbers: the making of a recipe."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
from easyfirst.tables.kinds import ColumnMeaning, Hints, codes_of, table_hints, understand
from easyfirst.tables.notation import mixed_marks, mixed_units
from easyfirst.tables.recipe import MISSING, Feature, LeftOut, Recipe

MAX_CATEGORIES = 100  # with a column of their own
LEAST_ROWS = 10  # of a category with a column of its own, in tables of a hundred rows or more
LEAST_SHARE = 1e-3  # of all rows, the same for long tables
CONCENTRATED = 0.5  # share of rows that the kept categories must cover
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


@dataclass
class _Plan:
    """What has been decided so far."""

    y: Vector
    hints: Hints
    keep_ids: bool  # the user named the columns
    places: NDArray[np.intp] | None = None  # of the rows in the whole table, if not all are used
    features: list[Feature] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing_numbers: dict[str, bytes] = field(default_factory=dict)
    missing_categories: set[bytes] = field(default_factory=set)

    @property
    def n_rows(self) -> int:
        """How many rows are used."""
        return len(self.y)

    @property
    def least_rows(self) -> int:
        """How many rows something needs to get a coefficient of its own.

        With very few, such rows would be fitted exactly, wrong ones too.
        """
        return max(2, min(LEAST_ROWS, self.n_rows // 10), round(LEAST_SHARE * self.n_rows))

    def leave_out(self, name: str, reason: str) -> None:
        self.left_out.append(LeftOut(name, reason))

    def odd_values(self, column: pa.ChunkedArray) -> values.TextsAmongNumbers | None:
        """Return what is not a number in a column, with its row in the whole table."""
        odd = values.odd_values(column)
        if odd is None or self.places is None:
            return odd
        return replace(odd, row=int(self.places[odd.row]))

    def with_indicators(self) -> tuple[Feature, ...]:
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
    names = _candidates(whole, choice)
    every = bool(used.all())
    hints = table_hints(whole) if hints is None else hints
    y = values.numbers(whole[choice.target]) if y is None else y
    places = None if every else np.flatnonzero(used)
    plan = _Plan(y[used], hints, choice.features is not None, places)
    for name in names:
        column = values.plain(whole[name])
        if choice.features is None and is_row_number(name, column):
            plan.leave_out(name, ROW_NUMBER)
        else:
            _decide(plan, name, column if every else column.filter(pa.array(used)))
    if not plan.features:
        reasons = "; ".join(f"{each.name!r} {each.reason}" for each in plan.left_out[:5])
        numbers = any(each.reason in (ROW_NUMBER, ID) for each in plan.left_out)
        raise TableError(
            f"no column is left to predict {choice.target!r} from"
            + (f": {reasons}" * bool(reasons))
            + (NAME_IT * numbers)
        )
    recipe = Recipe(choice.target, plan.with_indicators(), tuple(plan.left_out))
    return recipe, plan.notes


def _candidates(table: pa.Table, choice: Choice) -> Sequence[str]:
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


def _decide(plan: _Plan, name: str, column: pa.ChunkedArray) -> None:
    """Add the column to the plan, or leave it out."""
    if column.null_count == len(column):
        plan.leave_out(name, "holds no values")
        return
    kind = values.kind_of(column.type)
    if kind is not None:
        _decide_number(plan, name, column, ColumnMeaning(kind))
    elif values.is_text(column.type):
        _decide_text(plan, name, column)
    else:
        plan.leave_out(name, f"has the type {column.type}, which is not a single value per row")


def _decide_text(plan: _Plan, name: str, column: pa.ChunkedArray) -> None:
    found = understand(name, column, plan.hints, plan.places)
    if found.kind != "category":
        _decide_number(plan, name, column, found)
        return
    units = mixed_units(column.drop_null())
    if units:
        listed = ", ".join(map(repr, units))
        plan.leave_out(name, f"mixes the units {listed}; convert all values to one of them")
        return
    marks = mixed_marks(column.drop_null())
    if marks:
        plan.leave_out(name, f"writes numbers in two ways, {' and '.join(map(repr, marks))}")
        return
    odd = plan.odd_values(column)
    is_mixed = odd is not None and odd.count < odd.total
    mixed = f"mixes numbers and text ({odd}) and " if is_mixed else ""
    plan.notes += found.notes
    _decide_category(plan, name, column, mixed)


def _decide_number(plan: _Plan, name: str, column: pa.ChunkedArray, found: ColumnMeaning) -> None:
    given = found.read(column)
    if found.kind == "number":
        found, given = _perhaps_dates(name, found, given)
    codes = codes_of(given, found.kind, plan.hints)
    reading = replace(found.reading, codes=codes.codes)
    numbers = np.where(np.isin(given, reading.codes), np.nan, given) if reading.codes else given
    missing = np.isnan(numbers)
    present = numbers[~missing] if missing.any() else numbers
    if present.size == 0:
        plan.leave_out(name, "holds no finite numbers")
        return
    if np.all(present == present[0]):
        plan.leave_out(name, "has the same value in every row")
        return
    if found.kind == "number" and not plan.keep_ids and looks_like_id(name, numbers, plan.y):
        plan.leave_out(name, ID)
        return
    plan.notes += found.notes
    filled = _add_number(plan, name, ColumnMeaning(found.kind, reading), present, missing)
    if codes.said:
        filled = f"{codes.said} taken as missing, equal values far from all others; {filled}"
    if filled:
        plan.notes.append(f"column {name!r}: {filled}")


def _perhaps_dates(name: str, found: ColumnMeaning, given: Vector) -> tuple[ColumnMeaning, Vector]:
    """Return a column of numbers as dates, if it holds days or seconds that count from 1970."""
    form = dates.find_number_format(name, given[~np.isnan(given)])
    if form is None or found.reading != Reading():
        return found, given
    note = f"column {name!r}: numbers taken as dates ({dates.shown(form)})"
    understood = ColumnMeaning("date", Reading(date=form), (*found.notes, note))
    return understood, dates.from_numbers(given, form)


def _add_number(
    plan: _Plan, name: str, found: ColumnMeaning, present: Vector, missing: NDArray[np.bool_]
) -> str:
    """Add a column of numbers, and return what is said about missing values."""
    n_missing = int(missing.sum())
    if n_missing >= plan.least_rows:
        plan.missing_numbers[name] = _pattern(missing)
    middle = np.median(present)
    fill = float(np.rint(middle)) if found.kind == "boolean" else float(middle)
    plan.features.append(Feature(name, found.kind, fill=fill, reading=found.reading))
    if not n_missing:
        return ""
    what = "the median" if found.kind != "boolean" else "the more frequent value"
    return f"{count(n_missing, 'missing value')} replaced by {what}, {fill:.6g}"


def _decide_category(plan: _Plan, name: str, column: pa.ChunkedArray, mixed: str) -> None:
    levels = _level_counts(column)
    kept = [text for text, count in levels[:MAX_CATEGORIES] if count >= plan.least_rows]
    covered = sum(count for _, count in levels[: len(kept)])
    if not kept or covered < CONCENTRATED * len(column):
        plan.leave_out(
            name,
            f"{mixed}has {count(len(levels), 'different text')}, too many to be categories",
        )
        return
    others = len(levels) - len(kept)
    rare = others > 0 and len(column) - covered >= plan.least_rows
    if len(kept) + rare < 2:
        plan.leave_out(name, f"has the value {kept[0]!r} in (almost) every row")
        return
    if MISSING in kept:
        missing = np.asarray(column.is_null().to_numpy(), dtype=bool)
        plan.missing_categories.add(_pattern(missing))
    plan.features.append(Feature(name, "category", categories=tuple(kept), rare=rare))
    if mixed:
        plan.notes.append(f"column {name!r} {mixed}is taken as categories")
    if others:
        where = "together" if rare else f"with {kept[0]!r}"
        plan.notes.append(
            f"column {name!r}: {count(len(column) - covered, 'row')} of rare categories "
            f"({others:,} of {len(levels):,}) taken {where}"
        )


def _pattern(missing: NDArray[np.bool_]) -> bytes:
    """Return a digest of where a column is missing."""
    return blake2b(np.packbits(missing).tobytes(), digest_size=16).digest()


def _level_counts(column: pa.ChunkedArray) -> list[tuple[str, int]]:
    """Return every category with its number of rows, the most frequent first."""
    counts: Any = pc.value_counts(column.cast(pa.large_string()).fill_null(MISSING))
    pairs = zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True)
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))
