"""A raw table beside what a model thinks of its rows: what numbers and labels have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easyfirst.report.patterns import Pattern, find_patterns
from easyfirst.report.traits import Trait, categories, each_of, ranges
from easyfirst.report.wording import cell
from easyfirst.tables import dates, values
from easyfirst.tables.origins import Origins
from easyfirst.tables.preprocessing import Preprocessor
from easyfirst.tables.recipe import Feature

BLOCKS = 20  # ranges of row numbers


@dataclass(frozen=True, eq=False)
class JudgedBase:
    """A table beside what a model thinks of its rows.

    Parameters
    ----------
    model
        The fitted model.
    table
        The whole table.
    used
        Which of its rows have a target; the others are not judged.
    X, y
        These rows as the model takes them.
    wrong
        Rows with a target that cannot be right.
    origins
        Where the rows stand. None: one file, with one heading and then the rows.
    """

    model: Any
    table: pa.Table
    used: NDArray[np.bool_]
    X: Any
    y: NDArray[Any]
    wrong: Any = None
    origins: Origins | None = None

    @property
    def judged(self) -> Any:
        """What the model thinks of every row that has a target."""
        raise NotImplementedError

    def suspects(self, top: int | None = None) -> tuple[NDArray[np.intp], pa.Table]:
        """Return the places of rows that look wrong, the worst first, and what is known of them.

        `top` is how many of the worst rows to return, whether they look wrong or not. Rows whose
        target cannot be right come after those that the model found: they are many, and their
        cause is known.
        """
        chosen = self.judged.worst(top)
        found, places = self._found(chosen), self.places[chosen]
        if self.wrong is not None:
            n_found = int(np.sum(self.judged.is_wrong[chosen]))
            n_added = self.wrong.places.size
            order = [*range(n_found), *range(chosen.size, chosen.size + n_added)]
            order = [*order, *range(n_found, chosen.size)][:top]
            added = pa.table(self.wrong_columns(), found.schema)
            found = pa.concat_tables([found, added]).take(pa.array(order, pa.int64()))
            places = np.concatenate([places, self.wrong.places])[order].astype(np.intp)
        found = found.append_column("patterns", self._patterns_at(places))
        names = self.row_names.take(pa.array(places))
        return places, found.add_column(0, "row_id", names)

    def fit_summary(self) -> dict[str, Any]:
        """Return what the fit found, besides what every kind of model has, as JSON can hold it."""
        raise NotImplementedError

    def row_columns(self) -> dict[str, Any]:
        """Return what is thought of every row that has a target, by column."""
        raise NotImplementedError

    def wrong_columns(self) -> dict[str, Any]:
        """Return what is known of rows whose target cannot be right, by column."""
        raise NotImplementedError

    def _found(self, chosen: NDArray[np.intp]) -> pa.Table:
        """Return what is known of some rows."""
        raise NotImplementedError

    def _likely_fixes(self) -> NDArray[np.object_]:
        """Return the fix of every wrong row that is nearly certain, empty elsewhere."""
        raise NotImplementedError

    def rows_table(self) -> pa.Table:
        """Return what the fit thinks of every row of the table; null where the target is missing.

        Rows whose target is wrong beyond doubt have weight 0, and a reason in a column of its own.
        """
        arrays = {name: _spread(each, self.used) for name, each in self.row_columns().items()}
        if self.wrong is not None:
            known = self.wrong_columns()
            for name, column in arrays.items():
                arrays[name] = _inserted(column, self.wrong.places, known[name])
            reasons = pa.nulls(len(self.used), pa.string())
            arrays["reason"] = _inserted(reasons, self.wrong.places, self.wrong.reasons)
        names = self.row_names
        return pa.table([names, *arrays.values()], names=["row_id", *arrays])

    @property
    def row_names(self) -> Any:
        """The Arrow column that names the rows of the table, or their numbers from 0."""
        return self.model.row_names(self.table)

    @cached_property
    def rows(self) -> pa.Table:
        """The rows that are judged, as they are in the table."""
        return self.table if self.used.all() else self.table.filter(pa.array(self.used))

    @cached_property
    def places(self) -> NDArray[np.intp]:
        """Where the rows that are judged lie in the table, counted from 0."""
        return np.flatnonzero(self.used)

    @cached_property
    def patterns(self) -> list[Pattern]:
        """What wrong rows have in common; their `rows` are places in the table."""
        places, wrong, fixes = self.places, self.judged.is_wrong, self._likely_fixes()
        if self.wrong is not None:
            places = np.concatenate([places, self.wrong.places])
            wrong = np.append(wrong, np.ones(self.wrong.places.size, dtype=bool))
            fixes = np.append(fixes, np.asarray(self.wrong.fixes, dtype=object))
        traits = list(each_of(self._traits(places)))
        found = find_patterns(wrong, fixes, traits)
        return [replace(each, rows=places[each.rows]) for each in found]

    @cached_property
    def wrong_places(self) -> NDArray[np.intp]:
        """Where the rows lie that look wrong or cannot be right."""
        found = self.places[self.judged.is_wrong]
        return found if self.wrong is None else np.concatenate([found, self.wrong.places])

    @property
    def n_given(self) -> int:
        """How many rows have a target, be it one that cannot be right."""
        return self.y.size + (0 if self.wrong is None else self.wrong.places.size)

    @property
    def known_origins(self) -> Origins:
        """Where the rows stand, as far as that is known."""
        return Origins.usual(self.table.num_rows) if self.origins is None else self.origins

    @property
    def _preprocessor(self) -> Preprocessor:
        return Preprocessor(self.model.recipe_)

    def _patterns_at(self, places: NDArray[np.intp]) -> pa.Array:
        """Return the patterns of some rows, in words; a row may follow none or several."""
        words: dict[int, list[str]] = {int(place): [] for place in places}
        for pattern in self.patterns:
            for place in pattern.rows.tolist():
                if place in words:
                    words[place].append(pattern.words)
        return pa.array([words[int(place)] for place in places], pa.list_(pa.string()))

    def _traits(self, places: NDArray[np.intp]) -> list[Trait | None]:
        """Return the columns by which some rows can be grouped, and the order of the rows."""
        model = self.model
        rows = self.rows if self.wrong is None else self.table.take(pa.array(places))
        numeric = {each.name: each for each in model.recipe_.numeric if each.kind != "boolean"}
        traits: list[Trait | None] = list(_by_origin(self.known_origins, places))
        for name in rows.column_names:
            if name in (model.target, model.row_id):
                continue
            if name in numeric:
                column = self._preprocessor.numbers(rows, numeric[name])
                traits.append(ranges(name, column, _writer(numeric[name])))
            else:
                traits.append(_category(name, rows[name]))
        return traits


def _by_origin(origins: Origins, places: NDArray[np.intp]) -> Iterator[Trait | None]:
    """Yield the order of some rows, and the files that they are from if there are several."""
    number, what = origins.lines[places], "line"
    if origins.files is not None:
        yield categories("file", origins.files[places], origins.short_names)
        number, what = places, "row"  # lines begin anew in every file
    say = lambda first, last: f"{what} numbers from {first} to {last}"  # noqa: E731
    yield ranges(what, number.astype(np.float64), lambda line: f"{line:,.0f}", say, BLOCKS)


def _category(name: str, column: pa.ChunkedArray) -> Trait | None:
    kind = values.plain(column).type
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_floating(kind):
        return None
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.intp)
    return categories(name, codes, encoded.dictionary.to_pylist())


def _writer(feature: Feature) -> Callable[[float], str]:
    return lambda value: written(feature, value)


def _spread(values: Any, used: NDArray[np.bool_]) -> pa.Array:
    """Put values of the fitted rows where these are in the table, null elsewhere."""
    if used.all():
        return pa.array(values)
    places = np.cumsum(used) - 1
    return pa.array(values).take(pa.array(places, mask=~used))


def _inserted(column: pa.Array, places: NDArray[np.intp], values: Any) -> pa.Array:
    """Put values into some rows of a column."""
    here = np.zeros(len(column), dtype=bool)
    here[places] = True
    return pc.replace_with_mask(column, pa.array(here), pa.array(values, column.type))


def written(feature: Feature, value: float) -> str:
    """Return a value of a column as a person would write it."""
    if feature.kind == "date":
        return dates.day(value)
    return cell(float(value))
