"""SQLite and DuckDB files as tables: one of theirs, or what a query returns."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

from easyfirst.tables.errors import TableError, did_you_mean, listed, reason
from easyfirst.tables.json_files import from_records
from easyfirst.tables.places import Place


def read_sqlite(place: Place, table: str | None, sql: str | None) -> pa.Table:
    """Read a table or a query from a SQLite file, which is opened for reading only."""
    import sqlite3

    path = _file(place, "SQLite")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            names = [
                row[0]
                for row in database.execute(
                    "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
                    "AND name NOT LIKE 'sqlite_%' ORDER BY name"
                )
            ]
            found = database.execute(_query(place, names, table, sql))
            if found.description is None:
                raise TableError(f"--sql must be a query that returns rows, got {sql!r}")
            heads = [each[0] for each in found.description]
            rows = [dict(zip(heads, row, strict=True)) for row in found]
    except sqlite3.Error as error:
        raise TableError(f"{place.name}: {reason(error)}") from error
    return from_records(rows) if rows else pa.table({name: pa.nulls(0) for name in heads})


def read_duckdb(place: Place, table: str | None, sql: str | None) -> pa.Table:
    """Read a table or a query from a DuckDB file, which is opened for reading only."""
    try:
        import duckdb
    except ImportError:
        raise TableError(
            f"{place.name} is a DuckDB database; to read it, install easyfirst[duckdb]"
        ) from None
    path = _file(place, "DuckDB")
    try:
        with closing(duckdb.connect(str(path), read_only=True)) as database:
            names = [row[0] for row in database.execute("SHOW TABLES").fetchall()]
            relation: Any = database.sql(_query(place, names, table, sql))
            if relation is None:
                raise TableError(f"--sql must be a query that returns rows, got {sql!r}")
            return relation.to_arrow_table()
    except duckdb.Error as error:
        raise TableError(f"{place.name}: {reason(error)}") from error


def _file(place: Place, kind: str) -> Path:
    if place.path is None:
        raise TableError(
            f"{place.name} is a {kind} database, which has to be a file on this machine; save it "
            f"first"
        )
    return place.path


def _query(place: Place, names: list[str], table: str | None, sql: str | None) -> str:
    """Return the query to run: the user's, or for one whole table."""
    if sql is not None:
        return sql
    if not names:
        raise TableError(f"{place.name} is a database without tables")
    if table is None:
        if len(names) > 1:
            raise TableError(
                f"{place.name} holds the tables {listed(names)}; choose one with --table, or write "
                f"a query with --sql"
            )
        table = names[0]
    if table not in names:
        raise TableError(f"{place.name} has no table {table!r}: {did_you_mean(table, names)}")
    quoted = table.replace('"', '""')
    return f'SELECT * FROM "{quoted}"'
