"""Deciding how each column of a table becomes numbers: the making of a recipe."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easyfirst.contracts import Vector
from easyfirst.tables import values
from easyfirst.tables.errors import TableError, counted, did_you_mean
from easyfirst.tables.recipe import MISSING, Feature, Kind, LeftOut, Recipe

MAX_CATEGORIES = 100  # with a column of their own
LEAST_ROWS = 10  # of a category with a column of its own, in tables of a hundred rows or more
LEAST_SHARE = 1e-3  # of all rows, the same for long tables
CONCENTRATED = 0.5  # share of rows that the kept categories must cover
MARKED_NUMBER = re.compile(r"[-+]?\d+([.,' \u00a0\u202f]\d+)+")
ROW_NUMBER = "numbers the rows"
NAME_IT = "; name such a column with --features if it is more than a number"
PANDAS_INDEX = "__index_level_"  # how pandas names its index in Parquet files


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

    n_rows: int
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
        self.left_out.append(LeftOut(name, reason))

    def odd_values(self, column: pa.ChunkedArray) -> values.Odd | None:
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
    whole: pa.Table, choice: Choice, used: NDArray[np.bool_]
) -> tuple[Recipe, list[str]]:
    """Return the recipe for the used rows of a table, and what the user should know."""
    names = _candidates(whole, choice)
    every = bool(used.all())
    plan = _Plan(int(used.sum()), None if every else np.flatnonzero(used))
    for name in names:
        column = values.plain(whole[name])
        if choice.features is None and _is_row_number(name, column):
            plan.leave_out(name, ROW_NUMBER)
        else:
            _decide(plan, name, column if every else column.filter(pa.array(used)))
    if not plan.features:
        reasons = "; ".join(f"{each.name!r} {each.reason}" for each in plan.left_out[:5])
        raise TableError(
            f"no column is left to predict {choice.target!r} from"
            + (f": {reasons}" * bool(reasons))
            + (NAME_IT * any(each.reason == ROW_NUMBER for each in plan.left_out))
        )
    recipe = Recipe(choice.target, plan.with_indicators(), tuple(plan.left_out))
    return recipe, plan.notes


def require_column(table: pa.Table, name: str, role: str) -> None:
    """Refuse a name that is no column of the table."""
    if name not in table.column_names:
        hint = did_you_mean(name, table.column_names)
        raise TableError(f"there is no column {name!r} for the {role}: {hint}")


def response(table: pa.Table, target: str) -> Vector:
    """Return the target as numbers, NaN where it is missing."""
    require_column(table, target, "target")
    column = values.plain(table[target])
    if pa.types.is_null(column.type):
        return np.full(table.num_rows, np.nan)
    odd = values.odd_values(column)
    if odd is not None:
        raise TableError(f"the target {target!r} must hold numbers, but {odd}; {_remedy(odd)}")
    if not values.is_text(column.type) and values.kind_of(column.type) != "number":
        raise TableError(
            f"the target {target!r} must hold numbers, but its type is {column.type}; "
            f"choose another column with --target"
        )
    return values.numbers(column)


def _remedy(odd: values.Odd) -> str:
    """Return what to do about texts in the target, judging by how the first one looks."""
    if MARKED_NUMBER.fullmatch(odd.first):
        return "numbers need one decimal mark (--decimal , for a comma) and none between thousands"
    meant = shlex.quote(odd.first)
    return f"mend the column, or say that such texts mean a missing value (--na {meant})"


def _candidates(table: pa.Table, choice: Choice) -> Sequence[str]:
    """Return the columns to look at, refusing names that do not exist or make no sense."""
    require_column(table, choice.target, "target")
    for role, names in (("features", choice.features or ()), ("excluded columns", choice.exclude)):
        for name in names:
            require_column(table, name, role)
    if choice.target in choice.exclude:
        raise TableError(
            f"column {choice.target!r} is the target and is excluded: a target is no feature, "
            f"so leave it out of the excluded columns"
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
        _decide_number(plan, name, column, kind)
    elif values.is_text(column.type):
        _decide_text(plan, name, column)
    else:
        plan.leave_out(name, f"has the type {column.type}, which is no single value per row")


def _is_row_number(name: str, column: pa.ChunkedArray) -> bool:
    if not pa.types.is_integer(column.type) or column.null_count or len(column) < 3:
        return False
    if name.startswith(PANDAS_INDEX):
        return True
    first = column[0].as_py()
    if first not in (0, 1) or column[-1].as_py() != first + len(column) - 1:
        return False
    return bool(np.all(np.diff(column.to_numpy()) == 1))


def _decide_number(plan: _Plan, name: str, column: pa.ChunkedArray, kind: Kind) -> None:
    found = values.numbers(column)
    missing = np.isnan(found)
    present = found[~missing] if missing.any() else found
    if present.size == 0:
        plan.leave_out(name, "holds no finite numbers")
        return
    if np.all(present == present[0]):
        plan.leave_out(name, "has the same value in every row")
        return
    n_missing = int(missing.sum())
    if n_missing >= plan.least_rows:
        plan.missing_numbers[name] = _pattern(missing)
    middle = np.median(present)
    fill = float(np.rint(middle)) if kind == "boolean" else float(middle)
    plan.features.append(Feature(name, kind, fill=fill))
    if n_missing:
        plan.notes.append(
            f"column {name!r}: {counted(n_missing, 'missing value')} replaced by "
            f"{'the median' if kind != 'boolean' else 'the commoner value'}, {fill:.6g}"
        )


def _decide_text(plan: _Plan, name: str, column: pa.ChunkedArray) -> None:
    odd = plan.odd_values(column)
    if odd is None or odd.count <= (1.0 - values.MOSTLY) * odd.total:
        if odd is not None:
            plan.notes.append(f"column {name!r}: {odd}; taken as missing")
        _decide_number(plan, name, column, "number")
        return
    mixed = f"mixes numbers and text ({odd}) and " if odd.count < odd.total else ""
    _decide_category(plan, name, column, mixed)


def _decide_category(plan: _Plan, name: str, column: pa.ChunkedArray, mixed: str) -> None:
    levels = _level_counts(column)
    kept = [text for text, count in levels[:MAX_CATEGORIES] if count >= plan.least_rows]
    covered = sum(count for _, count in levels[: len(kept)])
    if not kept or covered < CONCENTRATED * len(column):
        plan.leave_out(
            name,
            f"{mixed}has {counted(len(levels), 'different text')}, too many to be categories",
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
            f"column {name!r}: {counted(len(column) - covered, 'row')} of rare categories "
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
