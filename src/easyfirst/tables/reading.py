"""Reading a table from whatever it is in, with errors that name the file, the line and the column.

A file's kind is told by how it begins, and where that says nothing, by the ending of its name.
"""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as pa_feather
import pyarrow.parquet as pq

from easyfirst.tables import csv_files, databases, json_files, workbooks
from easyfirst.tables.errors import TableError, listed, reason
from easyfirst.tables.origins import with_files
from easyfirst.tables.places import Place, find_places, shown
from easyfirst.tables.type_inference import typed

PARQUET = (".parquet", ".pq")
OWN_METADATA = b"easyfirst."
FEATHER = (".feather", ".arrow", ".ipc")
TEXT = (".csv", ".tsv", ".txt")
JSON = (*json_files.LINES, ".json")
EXCEL = (".xlsx", ".xlsm")
SQLITE = (".sqlite", ".sqlite3", ".db")
DUCKDB = (".duckdb", ".ddb")
IN_DIRECTORIES = (
    *PARQUET,
    *FEATHER,
    *TEXT,
    *JSON,
    *(t + p for t in TEXT for p in csv_files.PACKED),
)
READABLE = (
    "Parquet, Feather, CSV (.csv, .tsv, .txt, also with .gz, .bz2, .zst or .zip), JSON (.json, "
    ".jsonl), Excel (.xlsx), SQLite and DuckDB"
)


@dataclass(frozen=True)
class TableFormat:
    """How a table is written, where its file does not say that itself.

    Parameters
    ----------
    delimiter
        What stands between two values of a CSV file. None: the likeliest of comma, semicolon, tab
        and bar.
    decimal, thousands
        The marks in numbers that are text. None: numbers with a decimal point are converted, and
        all others stay text.
    encoding
        The encoding of text. None: UTF-8, or what the file shows (`tables.encodings`).
    missing
        Texts that mean a missing value, besides the usual ones (empty, NA, NaN, null, ...).
    table
        The table of a database, or the sheet of a workbook.
    sql
        A query that returns rows, instead of a table.
    """

    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    missing: tuple[str, ...] = ()
    thousands: str | None = None
    table: str | None = None
    sql: str | None = None


@dataclass(frozen=True, eq=False)
class Opened:
    """A table, and what happened while it was read, in sentences."""

    table: pa.Table
    notes: list[str]


def read_table(
    path: str | Path, form: TableFormat | None = None, text_columns: Collection[str] = ()
) -> pa.Table:
    """Read a table from a file, a directory or pattern of files, standard input or an address.

    Pages of Parquet files that carry checksums are verified. `text_columns` are kept as text
    where the values look like numbers.
    """
    return open_table(path, form, text_columns).table


def open_table(
    path: str | Path,
    form: TableFormat | None = None,
    text_columns: Collection[str] = (),
    all_text: bool = False,
) -> Opened:
    """Read a table as `read_table` does, and say what happened; `all_text` converts no text."""
    form = form or TableFormat()
    notes: list[str] = []
    try:
        places = find_places(path, IN_DIRECTORIES)
        tables = [_with_partition(_read(place, form, notes), place) for place in places]
    except OSError as error:
        raise TableError(f"{path} cannot be read: {reason(error)}") from error
    table = with_names(_joined(path, places, tables, notes))
    require_columns(shown(places), table.column_names)
    if table.num_rows == 0:
        raise TableError(f"{shown(places)} has column names but no rows")
    kept = table.column_names if all_text else text_columns
    holder = [table]
    del table, tables  # the text and the numbers of a large file need not be there together
    return Opened(typed(holder.pop(), kept, form.decimal, form.thousands), notes)


def _read(place: Place, form: TableFormat, notes: list[str]) -> pa.Table:
    head = place.head()
    ending = _ending(place)
    is_database = head.startswith(b"SQLite format 3") or head[8:12] == b"DUCK"
    if form.sql is not None and not is_database:
        raise TableError(
            f"{place.name} is not a database: --sql works with SQLite and DuckDB files"
        )
    is_workbook = ending in EXCEL
    if form.table is not None and not (is_database or is_workbook):
        raise TableError(f"{place.name} holds a single table, so --table has nothing to choose")
    if not head:
        raise TableError(f"{place.name} is empty; export it again")
    _require_kind(place, ending, head)
    if head.startswith(b"PAR1") or ending in PARQUET:
        return _read_parquet(place)
    if head.startswith(b"ARROW1") and (ending in FEATHER or place.path is None):
        return _read_feather(place)
    if head.startswith(b"SQLite format 3") and ending not in TEXT:
        return databases.read_sqlite(place, form.table, form.sql)
    if head[8:12] == b"DUCK" and ending not in TEXT:
        return databases.read_duckdb(place, form.table, form.sql)
    if is_workbook:
        return workbooks.read_workbook(place, form.table, notes)
    if ending == ".zip":
        return _read(_unzipped(place), form, notes)
    if ending in JSON or (place.path is None and head.lstrip()[:1] in (b"{", b"[")):
        return json_files.read_json(place)
    if ending in TEXT or place.path is None:
        return csv_files.read_csv(place, form, notes)
    csv_files.require_text(place, form)
    why = f"has the ending {ending!r}" if ending else "has no ending that tells its format"
    raise TableError(f"{place.name} {why}; easyfirst reads {READABLE}")


def _require_kind(place: Place, ending: str, head: bytes) -> None:
    """Refuse text under the name of a binary format, which a wrong export or download leaves."""
    if ending not in (*PARQUET, *FEATHER, *EXCEL, *SQLITE, *DUCKDB):
        return
    try:
        text = head[:1000].decode("utf-8", errors="ignore" if len(head) > 1000 else "strict")
    except UnicodeDecodeError:
        return
    if text.isprintable() or all(each.isprintable() or each.isspace() for each in text):
        raise TableError(
            f"{place.name} is text, in spite of the ending {ending!r}; if it is a table, let its "
            f"name end in .csv or .jsonl"
        )


def _ending(place: Place) -> str:
    """Return the ending that tells the format, that of the compression left away."""
    endings = place.suffixes
    if endings and endings[-1] in csv_files.PACKED:
        endings = endings[:-1]
    return endings[-1] if endings else ""


def _read_parquet(place: Place) -> pa.Table:
    try:
        with pq.ParquetFile(place.file(), page_checksum_verification=True) as file:
            found, table = file.metadata, file.read()
            counts = row_counts(found)
        # Checksums are of pages: a damaged footer may leave whole row groups out unnoticed.
        if sum(counts) != table.num_rows:
            raise pa.ArrowInvalid(f"it holds {table.num_rows:,} rows and tells of {sum(counts):,}")
        return table
    except (pa.ArrowException, OSError) as error:
        raise TableError(
            f"{place.name} is not a whole Parquet file ({reason(error)}); copy or export it again"
        ) from error


def row_counts(found: pq.FileMetaData) -> list[int]:
    """Return the rows of each row group, as far as the counts of the footer agree."""
    counts = [found.row_group(i).num_rows for i in range(found.num_row_groups)]
    if min(counts, default=0) < 0 or sum(counts) != found.num_rows:
        raise pa.ArrowInvalid("its counts of rows contradict each other")
    return counts


def _read_feather(place: Place) -> pa.Table:
    try:
        return pa_feather.read_table(place.file(), memory_map=False)
    except (pa.ArrowException, OSError) as error:
        raise TableError(
            f"{place.name} is not a whole Feather file ({reason(error)}); copy or export it again"
        ) from error


def _unzipped(place: Place) -> Place:
    """Return the one table in a zip archive."""
    try:
        with zipfile.ZipFile(place.file()) as archive:
            names = [
                each.filename
                for each in archive.infolist()
                if not each.is_dir() and not each.filename.startswith(("__MACOSX", "."))
            ]
            if len(names) != 1:
                raise TableError(
                    f"{place.name} holds {len(names)} files ({listed(names)}); unpack it, and name "
                    f"one of them"
                )
            content = archive.read(names[0])
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise TableError(f"{place.name} cannot be unpacked: {reason(error)}") from error
    return Place(f"{place.name}/{names[0]}", content=content)


def _with_partition(table: pa.Table, place: Place) -> pa.Table:
    """Add the columns that the names of the directories give, as text."""
    for name, value in place.partition.items():
        if name not in table.column_names:
            column = pa.repeat(pa.scalar(value, pa.string()), table.num_rows)
            table = table.append_column(name, column)
    return table


def _joined(
    path: str | Path, places: list[Place], tables: list[pa.Table], notes: list[str]
) -> pa.Table:
    if len(tables) == 1:
        return tables[0]
    every = dict.fromkeys(name for table in tables for name in table.column_names)
    absent = [name for name in every if any(name not in each.column_names for each in tables)]
    if absent:
        notes.append(f"{listed(absent)} is not in every file of {path}: missing there")
    notes.append(f"{len(places):,} files read")
    try:
        joined = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise TableError(f"The files in {path} do not fit together: {error}") from error
    joined = joined.replace_schema_metadata(tables[0].schema.metadata)
    return with_files(joined, [place.name for place in places], [len(each) for each in tables])


def with_names(table: pa.Table) -> pa.Table:
    """Name the columns whose heading is empty, as the index that pandas writes, by their place."""
    names = [
        name.strip() or f"column {place}" for place, name in enumerate(table.column_names, start=1)
    ]
    # Arrow drops the metadata with the names; that of other tools speaks of columns by name.
    known = (table.schema.metadata or {}).items()
    own = {key: value for key, value in known if key.startswith(OWN_METADATA)}
    return table.rename_columns(names).replace_schema_metadata(own)


def require_columns(where: str, names: Sequence[str]) -> None:
    """Refuse names that are there twice, and a first line that names nothing."""
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise TableError(f"{where} has more than one column named {listed(twice)}; rename them")
    if len(names) > 0 and all(_is_number(name) for name in names):
        raise TableError(
            f"{where} has no heading: its first line holds {listed(names)}; "
            f"put a line with the names of the columns before it"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
