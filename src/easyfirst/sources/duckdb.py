"""DuckDB queries as a source: run once, in order, their rows kept in a file of record batches.

Workers then read batches of one and the same result, whatever else happens to the database, and a
query that sorts does so once. The file is removed when the source is no longer used.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from typing import Any

from easyfirst.sources.arrow import ArrowSource, RecordBatch
from easyfirst.sources.columns import Columns
from easyfirst.sources.parquet import arrow
from easyfirst.sources.pieces import ROWS_PER_BATCH, checked_rows_per_batch


def read_duckdb(
    query: Any,
    target: str,
    *,
    database: str | os.PathLike[str] | None = None,
    features: Sequence[str] | None = None,
    row_id: str | None = None,
    sample_weight: str | None = None,
    rows_per_batch: int = ROWS_PER_BATCH,
    folder: str | os.PathLike[str] | None = None,
) -> ArrowSource:
    """Return what a DuckDB query finds as a source for `fit`; the query runs here, once.

    Parameters
    ----------
    query
        A DuckDB relation, or SQL text such as ``"SELECT * FROM flats ORDER BY id"``. Order the
        rows by something that names each one: then every run gives the same batches.
    target, features, row_id, sample_weight
        Columns, as in `read_frame`.
    database
        For SQL text, the file to query, opened for reading only. None: a database in memory, from
        which DuckDB can read files, as in ``"SELECT * FROM 'rows/*.parquet'"``.
    rows_per_batch
        Rows of every batch but the last.
    folder
        Where the needed columns are kept while the source is in use: about 8 bytes a number.
        None is the system's folder for temporary files. Workers must reach it.
    """
    size = checked_rows_per_batch(rows_per_batch)
    if not isinstance(query, str):
        return _kept(query, size, folder, target, features, row_id, sample_weight)
    duckdb = _duckdb()
    file = ":memory:" if database is None else os.fspath(database)
    try:
        with closing(duckdb.connect(file, read_only=database is not None)) as connection:
            relation = connection.sql(query)
            if relation is None:
                raise ValueError(f"query must return rows, got {query!r}")
            return _kept(relation, size, folder, target, features, row_id, sample_weight)
    except duckdb.Error as error:
        raise ValueError(f"the query cannot be run: {error}") from None


def _kept(
    relation: Any, size: int, folder: str | os.PathLike[str] | None, *chosen: Any
) -> ArrowSource:
    if not hasattr(relation, "to_arrow_reader") and not hasattr(relation, "fetch_arrow_reader"):
        raise TypeError(f"query must be a DuckDB relation or SQL text, got {type(relation)!r}")
    columns = Columns.choose(relation.columns, *chosen)
    pyarrow = arrow("DuckDB's rows need")
    handle, path = tempfile.mkstemp(".arrow", "easyfirst-", folder)
    os.close(handle)
    try:
        needed = relation.select(*map(_quoted, columns.names))
        counts = _write(pyarrow, path, _reader(needed, size), size)
        if not counts:
            raise ValueError("the query returns no rows")
    except BaseException:
        os.unlink(path)
        raise
    pieces = tuple(RecordBatch(path, index, n) for index, n in enumerate(counts))
    source = ArrowSource(pieces, columns, size, is_temporary=True)
    weakref.finalize(source, _remove, path)
    return source


def _reader(relation: Any, size: int) -> Any:
    read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    return read(size)


def _write(pyarrow: Any, path: str, reader: Any, size: int) -> list[int]:
    """Write the rows in record batches of equal size, and return the sizes."""
    with pyarrow.OSFile(path, "wb") as file, pyarrow.ipc.new_file(file, reader.schema) as writer:
        counts = []
        for batch in _cut(pyarrow, reader, size):
            writer.write_batch(batch)
            counts.append(batch.num_rows)
    return counts


def _cut(pyarrow: Any, reader: Any, size: int) -> Iterator[Any]:
    """Yield the rows in batches of exactly this size, the last one maybe smaller."""
    waiting = reader.schema.empty_table()
    for batch in reader:
        waiting = pyarrow.concat_tables([waiting, pyarrow.Table.from_batches([batch])])
        while waiting.num_rows >= size:
            yield waiting.slice(0, size).combine_chunks().to_batches()[0]
            waiting = waiting.slice(size)
    if waiting.num_rows:
        yield waiting.combine_chunks().to_batches()[0]


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise ImportError(
            "read_duckdb needs the 'duckdb' extra: pip install 'easyfirst[duckdb]'"
        ) from None
    return duckdb
