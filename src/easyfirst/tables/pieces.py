"""A table that is read piece by piece, because it may not fit into memory.

Parquet and Feather files come in row groups and record batches, CSV files in ranges of lines. What
else there is has to be read as a whole; `table_in_pieces` says so.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from io import BytesIO
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from easyfirst.errors import BadFileError
from easyfirst.sources.csv import Lines, line_ranges
from easyfirst.tables import csv_files
from easyfirst.tables.encodings import encoding_of, note_on
from easyfirst.tables.errors import TableError, reason
from easyfirst.tables.kinds import DELIMITER_KEY
from easyfirst.tables.origins import HEADING_LINES, Origins
from easyfirst.tables.places import ADDRESS, STDIN, Place, find_places, shown
from easyfirst.tables.reading import (
    FEATHER,
    IN_DIRECTORIES,
    PARQUET,
    TEXT,
    TableFormat,
    require_columns,
    row_counts,
    with_names,
)

MOST_ROWS = 65_536  # of a piece
LEAST_ROWS = 1024
PIECE_BYTES = 32_000_000  # of a piece, about
TEXT_BYTES = 24  # of a value of text in memory, about
BUFFER_BYTES = 1 << 20  # of a column of a Parquet file that are read at a time


class Part(Protocol):
    """Neighbouring rows of one file."""

    path: str
    n_rows: int

    @property
    def stretch(self) -> object:
        """What neighbours have in common that are best read in one go."""
        ...

    def read(self) -> pa.Table:
        """Return the rows with all columns of the file."""
        ...

    def read_with(self, others: Sequence[Any]) -> Iterator[pa.Table]:
        """Yield these rows, then those of neighbours of the same stretch."""
        ...


@dataclass(frozen=True)
class GroupRows:
    """Some rows of a row group of a Parquet file."""

    path: str
    group: int
    begin: int
    n_rows: int

    @property
    def stretch(self) -> object:
        """The row group."""
        return self.path, self.group

    def read(self) -> pa.Table:
        """Return the rows; those before them in the row group are decoded as well."""
        return next(self.read_with([]))

    def read_with(self, others: Sequence[GroupRows]) -> Iterator[pa.Table]:
        """Yield these rows, then those of neighbours in the same row group."""
        wanted = [self, *others]
        size = max(each.n_rows for each in wanted)
        try:
            with pq.ParquetFile(
                self.path, page_checksum_verification=True, buffer_size=BUFFER_BYTES
            ) as file:
                batches = file.iter_batches(size, row_groups=[self.group], use_threads=False)
                yield from _recut(batches, file.schema_arrow, wanted)
        except (pa.ArrowException, OSError, IndexError) as error:
            raise TableError(
                f"{self.path}, row group {self.group}, is damaged or has changed "
                f"({reason(error)}); copy or export it again"
            ) from error


@dataclass(frozen=True)
class BatchRows:
    """Some rows of a record batch of a Feather file."""

    path: str
    group: int
    begin: int
    n_rows: int

    @property
    def stretch(self) -> object:
        """Each by itself: the file is mapped, and nothing is decoded twice."""
        return self.path, self.group, self.begin

    def read(self) -> pa.Table:
        """Return the rows."""
        try:
            with pa.OSFile(self.path) as raw, pa.ipc.open_file(raw) as file:
                batch = file.get_batch(self.group)
        except (pa.ArrowException, OSError, IndexError) as error:
            raise TableError(
                f"{self.path} is not a whole Feather file ({reason(error)}); copy or export it "
                f"again"
            ) from error
        return pa.Table.from_batches([batch.slice(self.begin, self.n_rows)])

    def read_with(self, others: Sequence[BatchRows]) -> Iterator[pa.Table]:
        """Yield these rows, then others."""
        for each in (self, *others):
            yield each.read()


@dataclass(frozen=True)
class LineRows:
    """A range of lines of a CSV file, all values as text."""

    lines: Lines
    form: TableFormat
    has_blanks: bool = False  # before quotes
    n_before: int = 0  # lines before the names of the columns

    @property
    def path(self) -> str:
        """The file."""
        return self.lines.path

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.lines.n_rows

    @property
    def stretch(self) -> object:
        """Each by itself."""
        return self.lines

    def read(self) -> pa.Table:
        """Parse the lines."""
        lines, form = self.lines, self.form
        names = list(lines.header)
        try:
            with open(lines.path, "rb") as file:
                file.seek(lines.begin)
                content = file.read(lines.end - lines.begin)
            if self.has_blanks:
                content = csv_files.without_blanks(content, lines.delimiter)
            table = pa_csv.read_csv(
                BytesIO(content),
                pa_csv.ReadOptions(use_threads=False, column_names=names, encoding=form.encoding),
                pa_csv.ParseOptions(delimiter=lines.delimiter, newlines_in_values=True),
                csv_files.as_text(form, names),
            )
        except OSError as error:
            raise TableError(f"{lines.path} cannot be read: {reason(error)}") from error
        except UnicodeDecodeError as error:
            raise TableError(f"{lines.path} is not {form.encoding} text: {error}") from error
        except pa.ArrowInvalid as error:
            place = Place(f"{lines.path}, line {lines.first + 1} or later", Path(lines.path))
            said = csv_files.explained(place, form, lines.delimiter, names, str(error))
            raise TableError(said) from error
        if table.num_rows != lines.n_rows:
            raise TableError(
                f"{lines.place}: {table.num_rows:,} rows were parsed where {lines.n_rows:,} lines "
                f"end; a quote may stand alone, or the file has changed"
            )
        return table

    def read_with(self, others: Sequence[LineRows]) -> Iterator[pa.Table]:
        """Yield these rows, then others."""
        for each in (self, *others):
            yield each.read()


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows of a table that are read together: `begin` is the number of the first.

    `partition` holds the columns that the names of directories give.
    """

    begin: int
    n_rows: int
    parts: tuple[tuple[Part, tuple[tuple[str, str | None], ...]], ...]

    def read(self, schema: pa.Schema) -> pa.Table:
        """Return the rows with the columns of the whole table."""
        tables = [aligned(part.read(), dict(given), schema) for part, given in self.parts]
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


@dataclass(frozen=True, eq=False)
class TableInPieces:
    """A table whose rows, in order, are in pieces.

    `n_bytes` is what its values take in memory, about; `notes` is what happened when it was opened.
    """

    name: str
    pieces: tuple[Piece, ...]
    schema: pa.Schema
    n_bytes: int
    notes: tuple[str, ...] = field(default=())

    @cached_property
    def n_rows(self) -> int:
        """How many rows there are."""
        return sum(piece.n_rows for piece in self.pieces)

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    @cached_property
    def _files(self) -> tuple[list[str], NDArray[np.intp], NDArray[np.intp]]:
        """The files, the number of the first row of each, and the line of that row."""
        parts = [part for piece in self.pieces for part, _ in piece.parts]
        names, firsts, lines, n_rows = list[str](), list[int](), list[int](), 0
        for part in parts:
            if not names or names[-1] != part.path:
                names.append(part.path)
                firsts.append(n_rows)
                lines.append(getattr(part, "n_before", 0) + HEADING_LINES + 1)
            n_rows += part.n_rows
        return names, np.array(firsts), np.array(lines)

    def origins(self, rows: NDArray[np.intp]) -> Origins:
        """Return the file of each of these rows, and its line there."""
        names, firsts, lines = self._files
        files = np.searchsorted(firsts, rows, side="right") - 1
        found = rows - firsts[files] + lines[files]
        return Origins(found) if len(names) == 1 else Origins(found, files, tuple(names))

    def tables(self) -> Iterator[tuple[Piece, pa.Table]]:
        """Yield every piece with its rows, in order; each file is gone through once."""
        queue = iter(self.pieces)
        piece, found = next(queue), list[pa.Table]()
        flat = [pair for each in self.pieces for pair in each.parts]
        for _, run in groupby(flat, key=lambda pair: pair[0].stretch):
            (first, given), *others = run
            for table in first.read_with([part for part, _ in others]):
                found.append(aligned(table, dict(given), self.schema))
                if sum(map(len, found)) == piece.n_rows:
                    yield piece, pa.concat_tables(found)
                    piece, found = next(queue, piece), []


def aligned(table: pa.Table, partition: dict[str, str | None], schema: pa.Schema) -> pa.Table:
    """Return rows of one file with the columns and types of the whole table."""
    table = with_names(table)
    columns = []
    for each in schema:
        if each.name in table.column_names:
            column = table[each.name]
            columns.append(column if column.type == each.type else column.cast(each.type))
        elif each.name in partition:
            value = pa.scalar(partition[each.name], each.type)
            columns.append(pa.chunked_array([pa.repeat(value, table.num_rows)]))
        else:
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, each.type)]))
    return pa.table(columns, schema=schema)


def can_be_in_pieces(data: str | Path) -> bool:
    """Whether a table is of a kind that is read piece by piece; what cannot be found is not."""
    if str(data) == STDIN or ADDRESS.match(str(data)):
        return False
    try:
        places = find_places(data, IN_DIRECTORIES)
    except (TableError, OSError):
        return False
    return all(place.path is not None and _kind(place) for place in places)


def size_on_disk(data: str | Path) -> int:
    """Return how many bytes the files of a table take."""
    places = find_places(data, IN_DIRECTORIES)
    return sum(place.path.stat().st_size for place in places if place.path is not None)


def table_in_pieces(
    data: str | Path, form: TableFormat | None = None, piece_bytes: int = PIECE_BYTES
) -> TableInPieces:
    """Open a table for reading piece by piece: Parquet, Feather or CSV files on this machine.

    Parameters
    ----------
    data
        A file, or a directory or pattern of files of one kind.
    form
        How the table is written, for CSV.
    piece_bytes
        What a piece may take in memory, about.
    """
    form = form or TableFormat()
    places = find_places(data, IN_DIRECTORIES)
    notes: list[str] = []
    kinds = {_kind(place) for place in places}
    if len(kinds) != 1 or not all(kinds):
        raise TableError(
            f"{shown(places)} is not read in pieces: that needs Parquet, Feather or CSV (not "
            f"compressed, and not UTF-16 or UTF-32) on this machine; convert it to Parquet"
        )
    opened = {"parquet": _parquet, "feather": _feather, "csv": _csv}[kinds.pop()]
    schemas, parts, n_bytes = [], [], 0
    for place in places:
        schema, found, size = opened(place, form, piece_bytes, notes)
        given = tuple((k, v) for k, v in place.partition.items() if k not in schema.names)
        more = pa.schema([(name, pa.string()) for name, _ in given])
        schemas.append(pa.schema([*schema, *more], metadata=schema.metadata))
        parts += [(part, given) for part in found if part.n_rows]
        n_bytes += size
    schema = _unified(data, schemas, notes)
    require_columns(shown(places), schema.names)
    if not parts:
        raise TableError(f"{shown(places)} has column names but no rows")
    n_rows = sum(part.n_rows for part, _ in parts)
    most = _rows_per_piece(n_bytes, n_rows, piece_bytes)
    return TableInPieces(shown(places), _joined(parts, most), schema, n_bytes, tuple(notes))


def _kind(place: Place) -> str:
    """Return how a file can be read in pieces, or nothing."""
    ending = place.suffixes[-1] if place.suffixes else ""
    head = place.head()
    if head.startswith(b"PAR1") or ending in PARQUET:
        return "parquet"
    if head.startswith(b"ARROW1") and ending in FEATHER:
        return "feather"
    is_wide = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return "csv" if ending in TEXT and not is_wide else ""


_Opened = tuple[pa.Schema, list[Any], int]


def _parquet(place: Place, form: TableFormat, piece_bytes: int, notes: list[str]) -> _Opened:
    del form, notes
    path = str(place.path)
    try:
        with pq.ParquetFile(path) as file:
            schema, found = with_names(file.schema_arrow.empty_table()).schema, file.metadata
            counts = row_counts(found)
            packed = sum(found.row_group(i).total_byte_size for i in range(found.num_row_groups))
    except (pa.ArrowException, OSError) as error:
        raise TableError(
            f"{place.name} is not a whole Parquet file ({reason(error)}); copy or export it again"
        ) from error
    n_rows = sum(counts)
    size = max(packed, n_rows * _row_bytes(schema))
    most = _rows_per_piece(size, n_rows, piece_bytes)
    return schema, [part for g, n in enumerate(counts) for part in _cut(path, g, n, most)], size


def _cut(path: str, group: int, n_rows: int, most: int) -> list[GroupRows]:
    """Cut a row group into parts of about the same size."""
    n_parts = max(1, -(-n_rows // most))
    edges = [n_rows * k // n_parts for k in range(n_parts + 1)]
    return [GroupRows(path, group, begin, end - begin) for begin, end in pairwise(edges)]


def _feather(place: Place, form: TableFormat, piece_bytes: int, notes: list[str]) -> _Opened:
    del form, notes
    path = str(place.path)
    try:
        with pa.OSFile(path) as raw, pa.ipc.open_file(raw) as file:
            schema = with_names(file.schema.empty_table()).schema
            counts = [file.get_batch(i).num_rows for i in range(file.num_record_batches)]
    except (pa.ArrowException, OSError) as error:
        raise TableError(
            f"{place.name} is not a whole Feather file ({reason(error)}); copy or export it again"
        ) from error
    size = sum(counts) * _row_bytes(schema)
    most = _rows_per_piece(size, sum(counts), piece_bytes)
    parts = [
        BatchRows(path, g, begin, min(most, n - begin))
        for g, n in enumerate(counts)
        for begin in range(0, n, most)
    ]
    return schema, parts, size


def _csv(place: Place, form: TableFormat, piece_bytes: int, notes: list[str]) -> _Opened:
    assert place.path is not None
    csv_files.require_text(place, form)
    named = form.encoding or encoding_of([place.head().rpartition(b"\n")[0]])
    if re.match(r"(?i)utf[-_ ]?(16|32)", named):
        raise TableError(f"{place.name} is not read in pieces as {named}: convert it")
    if form.encoding is None:
        notes += filter(None, [note_on(place.name, named)])
    form = replace(form, encoding=named)
    lines = csv_files.first_lines(place, form, None)
    skipped, delimiter = csv_files.heading(lines, form)
    start = 0
    if skipped:
        notes.append(f"{place.name}: {skipped} lines before the names of the columns skipped")
        with place.path.open("rb") as file:
            start = sum(len(file.readline()) for _ in range(skipped))
    n_bytes = place.path.stat().st_size
    usual = max(1, len(place.head()) // max(1, place.head().count(b"\n")))
    size = _rows_per_piece(usual * 10**6, 10**6, piece_bytes)
    encoding = "utf-8-sig" if named.lower() in ("utf-8", "utf8") else named
    try:
        found = line_ranges(str(place.path), size, delimiter, start, encoding)
    except (BadFileError, OSError, LookupError) as error:
        raise TableError(str(error)) from error
    has_blanks = any(f'{delimiter} "' in line for line in lines)
    names = [name.strip() or f"column {n}" for n, name in enumerate(found[0].header, start=1)]
    schema = pa.schema([(name, pa.string()) for name in names], {DELIMITER_KEY: delimiter.encode()})
    return schema, [LineRows(each, form, has_blanks, skipped) for each in found], n_bytes


def _row_bytes(schema: pa.Schema) -> int:
    return sum(8 if _is_narrow(each.type) else TEXT_BYTES for each in schema)


def _is_narrow(kind: pa.DataType) -> bool:
    primitive: bool = pa.types.is_primitive(kind)
    return primitive


def _rows_per_piece(n_bytes: int, n_rows: int, piece_bytes: int) -> int:
    fitting = piece_bytes * max(n_rows, 1) // max(n_bytes, 1)
    return max(LEAST_ROWS, min(MOST_ROWS, fitting))


def _joined(parts: Sequence[Any], most: int) -> tuple[Piece, ...]:
    """Join small neighbours to pieces of at most so many rows; a part is never cut."""
    pieces: list[Piece] = []
    held: list[Any] = []
    begin = n_held = 0
    for pair in [*parts, None]:
        n_more = 0 if pair is None else pair[0].n_rows
        if held and (pair is None or n_held + n_more > most):
            pieces.append(Piece(begin, n_held, tuple(held)))
            begin, n_held, held = begin + n_held, 0, []
        if pair is not None:
            held.append(pair)
            n_held += n_more
    return tuple(pieces)


def _recut(
    batches: Iterator[Any], schema: pa.Schema, wanted: Sequence[GroupRows]
) -> Iterator[pa.Table]:
    """Yield the wanted rows of a row group that comes in batches of some size."""
    at, held = 0, pa.Table.from_batches([], schema)
    for each in wanted:
        end = each.begin + each.n_rows
        while at + held.num_rows < end:
            batch = next(batches, None)
            if batch is None:
                raise IndexError("it has fewer rows than before")
            held = pa.concat_tables([held, pa.Table.from_batches([batch], schema)])
            unwanted = min(max(each.begin - at, 0), held.num_rows)
            at, held = at + unwanted, held.slice(unwanted)
        yield held.slice(each.begin - at, each.n_rows)
        held = held.slice(end - at)
        at = end


def _unified(data: str | Path, schemas: Sequence[pa.Schema], notes: list[str]) -> pa.Schema:
    if len(schemas) > 1:
        every = dict.fromkeys(name for schema in schemas for name in schema.names)
        absent = [n for n in every if any(n not in schema.names for schema in schemas)]
        if absent:
            listed = ", ".join(map(repr, absent[:5]))
            notes.append(f"{listed} is not in every file of {data}: missing there")
        notes.append(f"{len(schemas):,} files read")
    try:
        joined = pa.unify_schemas(list(schemas), promote_options="permissive")
    except pa.ArrowException as error:
        raise TableError(f"The files in {data} do not fit together: {error}") from error
    return joined.with_metadata(schemas[0].metadata)
