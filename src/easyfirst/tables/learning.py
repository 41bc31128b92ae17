"""Learning from a table in pieces how its columns become numbers, in one pass over all rows.

What a column means (its kind, notation, date format, codes for missing values) is decided from its
first rows and a sample drawn evenly from all others, by the very steps that decide it for a table
in memory. How often what occurs (categories, missing values, the median) comes from all rows, in
summaries of bounded size. A text that contradicts what the sample showed joins the sample; if that
changes a decision, the pass is made again. A table that the sample holds as a whole is understood
exactly as in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from easyfirst.contracts import Vector
from easyfirst.tables import values
from easyfirst.tables.column_reading import Reading
from easyfirst.tables.conforming import conformed
from easyfirst.tables.errors import TableError
from easyfirst.tables.filling import Sides
from easyfirst.tables.identifiers import (
    PANDAS_INDEX,
    ROW_NUMBER,
    are_ids,
    could_be_ids,
    means_more,
)
from easyfirst.tables.kinds import CODE_ROWS, Hints, codes_said, table_hints
from easyfirst.tables.pieces import TableInPieces
from easyfirst.tables.planning import (
    NO_VALUES,
    Choice,
    LevelFacts,
    NumberFacts,
    Plan,
    Sense,
    candidates,
    count_levels,
    make_sense,
    settle_category,
    settle_number,
    sorted_levels,
)
from easyfirst.tables.recipe import Recipe
from easyfirst.tables.sketches import IdSketch, LevelSketch, NumberSketch, PatternSketch, hashed
from easyfirst.tables.targets import codes_note, read_target, require_rare, response_of
from easyfirst.tables.type_inference import typed

MOST_PASSES = 4  # until what all rows show agrees with what was decided
MOST_ODD = 20  # rows of a column that contradict the sample and join it
FIRST_LOOKS = 8  # pieces, spread over the table, that are looked at before the first pass
LOOK_ROWS = 4000  # rows of each of these
SAMPLE_SHARE = 0.1  # of the memory that may be used, for the sample; the same for all summaries
MOST_SAMPLED = 100_000  # rows
SKETCH_BYTES = 64  # that a value takes in a summary of numbers while it is sorted

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Wanted:
    """What to learn: the columns, the marks of numbers that the user named, and the memory."""

    choice: Choice
    decimal: str | None = None
    thousands: str | None = None
    room: int = 1_000_000_000  # bytes


@dataclass(frozen=True, eq=False)
class Learnt:
    """How a table becomes numbers, and what is known of all its rows.

    `schema` has the types of the columns; `used` counts the rows of each piece that have a target,
    `sample` are rows of the table, in order, `places` their numbers, and `is_whole` says that these
    are all. `lowest` is the smallest target, `different` are up to three of its values.
    """

    recipe: Recipe
    schema: pa.Schema
    notes: list[str]
    fill_spread: dict[str, Sides]
    used: tuple[int, ...]
    n_missing: int
    n_wrong: int
    different: Vector
    lowest: float
    sample: pa.Table
    places: NDArray[np.intp]
    is_whole: bool

    @property
    def n_used(self) -> int:
        """How many rows have a target."""
        return sum(self.used)


@dataclass(frozen=True, eq=False)
class _Decided:
    """What some rows of a table say about its columns."""

    schema: pa.Schema
    hints: Hints
    target: Reading
    target_notes: tuple[str, ...]
    senses: dict[str, Sense]
    left_out: dict[str, str]
    table: pa.Table
    places: NDArray[np.intp]
    y: Vector

    def agrees(self, other: _Decided) -> bool:
        """Whether both read all columns alike."""
        return (
            self.schema.equals(other.schema)
            and self.target == other.target
            and {name: (s.kind, s.reading) for name, s in self.senses.items()}
            == {name: (s.kind, s.reading) for name, s in other.senses.items()}
        )


def learn(table: TableInPieces, wanted: Wanted, progress: Progress = lambda share: None) -> Learnt:
    """Learn how the columns of a table become numbers."""
    candidates(table, wanted.choice)
    chosen = _Sampler.for_table(table, wanted.room)
    rows = _first_look(table, chosen)
    decided = _decide(table, wanted, *rows)
    for _ in range(MOST_PASSES):
        scan = _Scan(table, wanted, decided, chosen)
        for piece, raw in table.tables():
            scan.add(piece.begin, raw)
            progress((piece.begin + piece.n_rows) / table.n_rows)
        again = _decide(table, wanted, *scan.rows())
        if again.agrees(decided):
            return scan.learnt(again)
        decided = again
    raise TableError(
        f"the columns of {table.name} cannot be understood from a part of the rows: different "
        f"parts say different things; convert texts to numbers and dates before, or allow more "
        f"memory"
    )


@dataclass(frozen=True)
class _Sampler:
    """Chooses rows by number: the first ones, and others evenly, the same ones each time."""

    n_rows: int
    most: int

    @classmethod
    def for_table(cls, table: TableInPieces, room: int) -> _Sampler:
        row_bytes = 4 * table.n_bytes / table.n_rows  # as text, as numbers, and while joined
        most = int(SAMPLE_SHARE * room / max(row_bytes, 1.0))
        return cls(table.n_rows, max(2000, min(MOST_SAMPLED, most)))

    @property
    def n_first(self) -> int:
        return min(CODE_ROWS, self.most // 2)

    def __call__(self, begin: int, n_rows: int) -> NDArray[np.bool_]:
        """Return which of the rows that begin at some number are in the sample."""
        numbers = np.arange(begin, begin + n_rows, dtype=np.uint64)
        if self.n_rows <= self.most:
            return np.ones(n_rows, dtype=bool)
        share = (self.most - self.n_first) / (self.n_rows - self.n_first)
        drawn = hashed(numbers) <= np.uint64(share * (2**64 - 2048))
        return np.asarray(drawn | (numbers < self.n_first))


_Rows = tuple[pa.Table, NDArray[np.intp]]


def _first_look(table: TableInPieces, chosen: _Sampler) -> _Rows:
    """Return the first rows, and some of pieces spread over the table."""
    pieces = table.pieces
    ends = [piece.begin + piece.n_rows for piece in pieces]
    first = int(np.searchsorted(ends, min(chosen.n_first, table.n_rows))) + 1
    spread = np.linspace(0, len(pieces) - 1, FIRST_LOOKS).astype(int)
    tables, places = [], []
    for number in sorted({*range(first), *spread.tolist()}):
        piece = pieces[number]
        rows = piece.read(table.schema)
        here = np.flatnonzero(chosen(piece.begin, piece.n_rows))
        here = here if number < first else here[:LOOK_ROWS]
        tables.append(rows.take(pa.array(here)))
        places.append(piece.begin + here)
    return pa.concat_tables(tables), np.concatenate(places)


def _decide(
    whole: TableInPieces, wanted: Wanted, raw: pa.Table, places: NDArray[np.intp]
) -> _Decided:
    """Decide from some rows what the columns mean."""
    choice = wanted.choice
    marked = wanted.decimal is not None or wanted.thousands is not None
    table = typed(raw, raw.column_names if marked else ())
    hints = table_hints(table, wanted.decimal, wanted.thousands)
    reading, notes = read_target(table, choice.target, hints, places)
    column = values.plain(table[choice.target])
    y = response_of(column, values.given_numbers(column, reading), reading).y
    used = ~np.isnan(y)
    rows = table if used.all() else table.filter(pa.array(used))
    plan = Plan(int(used.sum()), hints, places[used])
    senses = {}
    for name in candidates(whole, choice):
        sense = make_sense(plan, name, values.plain(rows[name]))
        if sense is not None:
            senses[name] = sense
    left_out = {each.name: each.reason for each in plan.left_out}
    found = table.schema.remove_metadata().with_metadata(raw.schema.metadata)
    return _Decided(
        found, hints, reading, tuple(notes), senses, left_out, rows, places[used], y[used]
    )


class _Column:
    """The summaries of one column."""

    def __init__(self, sense: Sense, room: int) -> None:
        self.sense = sense
        self.pattern = PatternSketch()
        self.levels = LevelSketch()
        self.numbers = NumberSketch(room)
        self.ids = IdSketch()
        self.code_counts = np.zeros(len(sense.reading.codes), dtype=np.int64)

    def add(self, column: pa.ChunkedArray) -> NDArray[np.bool_] | None:
        """Take in the used rows of a piece; return which texts are no values of the column."""
        if self.sense.kind == "category":
            self.pattern.add(np.asarray(column.is_null().to_numpy(), dtype=bool))
            self.levels.add(count_levels(column))
            return None
        reading = self.sense.reading
        given = values.given_numbers(column, reading)
        odd = None
        if values.is_text(column.type):
            odd = np.isnan(given) & ~values.missing_words(column, reading.words)
        if reading.codes:
            self.code_counts += [int(np.sum(given == code)) for code in reading.codes]
            given = np.where(np.isin(given, reading.codes), np.nan, given)
        missing = np.isnan(given)
        self.pattern.add(missing)
        present = given[~missing]
        self.numbers.add(present)
        if self.sense.kind == "number":
            self.ids.add(present)
        return odd

    def settle(self, plan: Plan, name: str, is_id: bool) -> None:
        """Add the column to a plan, or leave it out."""
        if self.sense.kind == "category":
            levels = sorted_levels(self.levels.counts)
            forgotten = [("", 0)] * self.levels.n_forgotten
            facts = LevelFacts([*levels, *forgotten], self.pattern.digest())
            settle_category(plan, name, self.sense, facts)
            return
        numbers = self.numbers
        settle_number(
            plan,
            name,
            self.sense,
            NumberFacts(
                numbers.n,
                self.pattern.n_missing,
                numbers.median() if numbers.n else np.nan,
                self.pattern.digest(),
                tuple(self.code_counts.tolist()),
                is_constant=numbers.low == numbers.high,
                is_id=is_id,
            ),
        )

    def is_id(self, name: str, means_more: Callable[[bool], bool]) -> bool:
        """Whether whole numbers name the rows; see `identifiers.looks_like_id`."""
        numbers, ids = self.numbers, self.ids
        if self.sense.kind != "number" or not ids.is_whole:
            return False
        n_different, bounds = ids.different * numbers.n, (numbers.low, numbers.high)
        if not could_be_ids(numbers.n, n_different, *bounds):
            return False
        return are_ids(name, n_different, *bounds, ids.ascends) or not means_more(ids.ascends)


class _Scan:
    """One pass over all rows: what is counted under the decisions made so far."""

    def __init__(
        self, table: TableInPieces, wanted: Wanted, decided: _Decided, chosen: _Sampler
    ) -> None:
        self._table, self._wanted, self._decided, self._chosen = table, wanted, decided, chosen
        numeric = [s for s in decided.senses.values() if s.kind != "category"]
        room = int(SAMPLE_SHARE * wanted.room / (SKETCH_BYTES * max(len(numeric), 1)))
        room = max(4096, min(room, table.n_rows + 1))
        self._columns = {name: _Column(sense, room) for name, sense in decided.senses.items()}
        # They may hold some elsewhere.
        self._empty = [name for name, why in decided.left_out.items() if why == NO_VALUES]
        self._counting = set(candidates(table, wanted.choice))  # columns that may number the rows
        self._first: dict[str, int] = {}
        self._odd: dict[str, int] = {}
        self._sampled: list[pa.Table] = []
        self._places: list[NDArray[np.intp]] = []
        self._used: list[int] = []
        self._different, self._lowest = np.empty(0), np.inf
        self._n_missing = self._n_wrong = self._n_odd = 0
        self._first_odd: tuple[str, int] | None = None
        self._target_codes = np.zeros(len(decided.target.codes), dtype=np.int64)

    def add(self, begin: int, raw: pa.Table) -> None:
        """Take in a piece."""
        table, lost = conformed(raw, self._decided.schema)
        used = self._add_target(begin, table)
        self._used.append(int(used.sum()))
        chosen = self._chosen(begin, raw.num_rows)
        rows = table if used.all() else table.filter(pa.array(used))
        for name, column in self._columns.items():
            odd = column.add(values.plain(rows[name]))
            if odd is not None and odd.any():
                self._join(name, np.flatnonzero(used)[odd], chosen)
        for name, where in lost.items():
            self._join(name, np.flatnonzero(where), chosen)
        for name in self._empty:
            self._join(name, np.flatnonzero(values.plain(raw[name]).is_valid().to_numpy()), chosen)
        self._count_rows(begin, table)
        here = np.flatnonzero(chosen)
        self._sampled.append(raw.take(pa.array(here)))
        self._places.append(begin + here)

    def _join(self, name: str, rows: NDArray[np.intp], chosen: NDArray[np.bool_]) -> None:
        """Let rows that contradict the sample be a part of it, unless there are enough."""
        more = rows[~chosen[rows]][: MOST_ODD - self._odd.get(name, 0)]
        chosen[more] = True
        self._odd[name] = self._odd.get(name, 0) + more.size

    def _add_target(self, begin: int, table: pa.Table) -> NDArray[np.bool_]:
        """Take in the target of a piece; return which rows have one that can be fitted."""
        reading = self._decided.target
        column = values.plain(table[self._wanted.choice.target])
        given = values.given_numbers(column, reading)
        found = response_of(column, given, reading)
        odd = found.is_wrong & np.isnan(given) & ~found.is_infinite
        if odd.any():
            self._n_odd += int(odd.sum())
            row = int(np.argmax(odd))
            self._first_odd = self._first_odd or (str(column[row].as_py()), begin + row)
        self._n_missing += found.n_missing
        self._n_wrong += int(found.is_wrong.sum())
        if reading.codes:
            self._target_codes += [int(np.sum(given == code)) for code in reading.codes]
        used = ~np.isnan(found.y)
        if used.any():
            y = found.y[used]
            self._lowest = min(self._lowest, float(y.min()))
            if self._different.size < 3:
                self._different = np.unique(np.append(self._different, y))[:3]
        return used

    def _count_rows(self, begin: int, table: pa.Table) -> None:
        """Look whether columns still number the rows."""
        for name in list(self._counting):
            column = values.plain(table[name])
            if not pa.types.is_integer(column.type) or column.null_count:
                self._counting.discard(name)
                continue
            numbers = column.cast(pa.int64(), safe=False).to_numpy()
            first = self._first.setdefault(name, int(numbers[0]))
            is_index = name.startswith(PANDAS_INDEX)
            in_order = first in (0, 1) and np.array_equal(
                numbers, np.arange(begin + first, begin + first + numbers.size)
            )
            if not is_index and not in_order:
                self._counting.discard(name)

    def rows(self) -> _Rows:
        """Return the sample, in the order of the table."""
        return pa.concat_tables(self._sampled), np.concatenate(self._places)

    def learnt(self, decided: _Decided) -> Learnt:
        """Return what the pass has shown; `decided` reads the columns as the pass did."""
        choice, n_used = self._wanted.choice, sum(self._used)
        plan = Plan(n_used, decided.hints)
        if self._first_odd is not None:
            n_given = n_used + self._n_wrong
            require_rare(
                values.TextsAmongNumbers(self._n_odd, n_given, *self._first_odd), choice.target
            )
        counting = self._counting if choice.features is None and self._table.n_rows >= 3 else ()
        for name in candidates(self._table, choice):
            if name in counting:
                plan.leave_out(name, ROW_NUMBER)
            elif name in decided.left_out:
                plan.leave_out(name, decided.left_out[name])
            else:
                column = self._columns[name]
                column.sense = decided.senses[name]  # which knows more to say
                is_id = choice.features is None and column.is_id(name, _MeansMore(decided, name))
                column.settle(plan, name, is_id)
        recipe = replace(plan.recipe(choice.target), target_reading=decided.target)
        sample, places = self.rows()
        is_whole = places.size == self._table.n_rows
        return Learnt(
            recipe,
            self._decided.schema,
            [*self._target_notes(decided), *plan.notes],
            {
                each.name: self._columns[each.name].numbers.spread_around(each.fill)
                for each in recipe.numeric
            },
            tuple(self._used),
            self._n_missing,
            self._n_wrong,
            self._different,
            self._lowest,
            sample,
            places,
            is_whole,
        )

    def _target_notes(self, decided: _Decided) -> Iterator[str]:
        """Say what was found in the target, with the codes of all rows."""
        codes = decided.target.codes
        target = self._wanted.choice.target
        yield from (note for note in decided.target_notes if not _is_about_codes(note))
        if codes:
            yield codes_note(target, codes_said("number", codes, self._target_codes.tolist()))


@dataclass(frozen=True, eq=False)
class _MeansMore:
    """Whether a column is more than a name of its rows, as far as the sample tells."""

    decided: _Decided
    name: str

    def __call__(self, ascends: bool) -> bool:
        given = self.decided.senses[self.name].given
        present = ~np.isnan(given)
        return means_more(given[present], self.decided.y[present], ascends)


def _is_about_codes(note: str) -> bool:
    return "taken as a missing code" in note
