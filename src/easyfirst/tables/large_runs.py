"""One whole run on a table that is larger than memory: what is written, is written piece by piece.

The folder has the files of every run, with the same columns. Rows and clean rows are complete; the
list of suspects has the worst of them, and the report and its patterns are drawn from a sample.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from easyfirst.engines.blas import one_blas_thread
from easyfirst.engines.memory import available_bytes, give_back_freed_memory, resident_bytes
from easyfirst.estimators.judging import HOPELESS, JudgedRows
from easyfirst.report.wording import count
from easyfirst.tables.errors import TableError
from easyfirst.tables.kinds import table_hints
from easyfirst.tables.labels import is_classes
from easyfirst.tables.large import JudgedPiece, LargeFit, fit_large
from easyfirst.tables.model import TableModel
from easyfirst.tables.outputs import encode, flat
from easyfirst.tables.pieces import (
    PIECE_BYTES,
    TableInPieces,
    can_be_in_pieces,
    size_on_disk,
    table_in_pieces,
)
from easyfirst.tables.runs import (
    CLEAN_FILES,
    MODEL_FILE,
    REPORT_FILE,
    ROWS_FILE,
    SUSPECTS_FILE,
    WORST_ROWS,
    FitRequest,
    Run,
    caught,
    clean_table,
    with_values,
    write_report,
    write_summary,
)
from easyfirst.tables.type_inference import typed

IN_MEMORY = 6.0  # sizes of a table that a run takes which reads it as a whole, about
ROW_BYTES = 1200  # and per row, for what is thought of it
MOST_TIMES_DISK = 100.0  # the same in sizes on disk at most: what is smaller is not looked at
LEAST_ROOM = 100_000_000  # bytes for work beside what the process holds already
MOST_SUSPECTS = 100_000  # in the list; all are in the table of rows
SHARE_OF_FREE = 0.5  # of the memory that is free, where no limit is given
HEAD_ROWS = 20_000  # by which a target of classes is recognised

Stage = Callable[[str], None]
Progress = Callable[[str, float], None]


def limit_of(given: int | None) -> int:
    """Return how much memory the process may take: as asked for, or half of what is free."""
    if given is not None:
        return given
    free = available_bytes()
    return resident_bytes() + int(SHARE_OF_FREE * free) if free is not None else 2 * 10**9


def too_large(request: FitRequest) -> TableInPieces | None:
    """Return the table in pieces, if it needs more memory than there may be."""
    if not can_be_in_pieces(request.data):
        return None
    limit = limit_of(request.memory_limit)
    room = max(limit - resident_bytes(), LEAST_ROOM)
    if MOST_TIMES_DISK * size_on_disk(request.data) < room:
        return None
    piece_bytes = max(1_000_000, min(PIECE_BYTES, room // 30))
    table = table_in_pieces(request.data, request.form, piece_bytes)
    needed = IN_MEMORY * table.n_bytes + ROW_BYTES * table.n_rows
    return table if needed > room else None


def fit_large_run(
    request: FitRequest,
    table: TableInPieces,
    folder: Path,
    on_stage: Stage,
    progress: Progress = lambda what, share: None,
) -> Run:
    """Fit a table in pieces and write the run's files into a folder."""
    model = _model(request, table)
    run = Run(request)
    limit = limit_of(request.memory_limit)
    with run.timed("total"), one_blas_thread():
        on_stage(f"Fitting {request.name} in pieces: it is larger than the memory allowed")
        with run.timed("fit"):
            try:
                fit, run.doubts = caught(lambda _: fit_large(model, table, limit, progress), None)
            except (ValueError, MemoryError) as error:
                if isinstance(error, TableError):
                    raise
                raise TableError(f"the table cannot be fitted: {error}") from error
            learnt = fit.learnt
            run.n_rows = table.n_rows
            run.n_dropped, run.n_wrong = learnt.n_missing, learnt.n_wrong
        on_stage("Judging the rows")
        with run.timed("write"):
            _write(run, fit, folder, progress)
            model.save(folder / MODEL_FILE)
            if request.report:
                on_stage("Writing the report")
                assert run.judged is not None
                write_report(run, run.judged, None, folder / REPORT_FILE)
    write_summary(run, folder)
    return run


def _model(request: FitRequest, table: TableInPieces) -> TableModel:
    """Return the model to fit, or say that the table needs memory for what is asked."""
    model: Any = request.model
    more = "allow more memory with --memory-limit, or fit a part of the table"
    if request.decisions is not None:
        raise TableError(f"--decisions is for tables that fit into memory: {more}")
    head = table.pieces[0].read(table.schema).slice(0, HEAD_ROWS)
    marked = model.decimal is not None or model.thousands is not None
    head = typed(head, head.column_names if marked else ())
    hints = table_hints(head, model.decimal, model.thousands)
    wants_classes = request.task == "classification" or (
        request.task == "auto" and is_classes(head, model.target, hints)
    )
    if wants_classes or not isinstance(model, TableModel):
        raise TableError(f"classes are fitted in memory, and this table is too large: {more}")
    return model


def _write(run: Run, fit: LargeFit, folder: Path, progress: Progress) -> None:
    """Go through all rows once: write what is thought of them, and keep the worst."""
    worst, known = _Worst(MOST_SUSPECTS), list[JudgedRows]()
    run.flagged, n_excused, n_done = 0, 0.0, 0
    kind = run.request.clean_kind
    clean = folder / CLEAN_FILES[kind] if kind in CLEAN_FILES else None
    with _Rows(folder / ROWS_FILE) as rows, _Rows(clean) as kept:
        for judged in fit.judged_pieces():
            found = judged.judged
            run.flagged += int(np.sum(found.is_wrong))
            n_excused += found.excused * found.given.size
            known.append(fit.sampled(judged))
            rows.write(_with_reason(judged, fit.learnt.n_wrong > 0))
            if clean is not None:
                kept.write(flat(clean_table(judged)) if kind == "csv" else clean_table(judged))
            worst.add(judged)
            n_done += judged.table.num_rows
            progress("judging all rows", n_done / fit.table.n_rows)
            give_back_freed_memory()
    joined = JudgedRows.joined(known)
    share = n_excused / max(fit.learnt.n_used, 1)
    run.judged = judged = fit.judged_sample(joined.with_excused(share))
    if not fit.is_whole:
        run.model.notes_ += _notes(run, fit)
    listed = _suspects(judged) if fit.is_whole or not worst else worst.table()
    known_of = listed.column_names[: listed.column_names.index("patterns") + 1]
    told = [name for name in known_of if name not in ("file", "line")]
    run.worst = listed.select(told).slice(0, WORST_ROWS).to_pylist()
    (folder / SUSPECTS_FILE).write_bytes(encode(listed, "csv"))


def _suspects(judged: JudgedPiece, top: int | None = None) -> pa.Table:
    """Return the rows that look wrong, the worst first, with their lines and values."""
    places, found = judged.suspects(top)
    rows = judged.table.take(pa.array(places))
    return with_values(judged.known_origins.beside(places, found), rows)


def _with_reason(judged: JudgedPiece, has_reasons: bool) -> pa.Table:
    """Return what is thought of the rows; pieces without wrong targets have the column too."""
    table = judged.rows_table()
    if has_reasons and "reason" not in table.column_names:
        table = table.append_column("reason", pa.nulls(table.num_rows, pa.string()))
    return table


def _notes(run: Run, fit: LargeFit) -> list[str]:
    """Say what is not as for a table in memory."""
    wrong = (run.flagged or 0) + run.n_wrong
    notes = [
        f"the report and the patterns in it are of {count(fit.learnt.places.size, 'row')} of "
        f"{fit.table.n_rows:,}; {ROWS_FILE} has what is thought of every row"
    ]
    if wrong > MOST_SUSPECTS:
        notes.append(
            f"{SUSPECTS_FILE} has the worst {MOST_SUSPECTS:,} of {wrong:,} suspicious rows"
        )
    return notes


class _Rows:
    """A Parquet or CSV file that is written piece by piece; without a path, nothing is."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._open = path, ExitStack()
        self._writer: Any = None
        self._schema: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def write(self, table: pa.Table) -> None:
        """Add rows; all have the columns of the first."""
        if self._path is None:
            return
        if self._writer is None:
            self._schema = table.schema
            self._writer = self._open.enter_context(
                pq.ParquetWriter(self._path, self._schema, write_page_checksum=True)
                if self._path.suffix == ".parquet"
                else pa_csv.CSVWriter(self._path, self._schema)
            )
        self._writer.write_table(table.cast(self._schema))


class _Worst:
    """The worst suspicious rows seen so far, with what is known of them."""

    def __init__(self, most: int) -> None:
        self._most, self._held = most, list[pa.Table]()
        self._keys = list[np.ndarray[Any, Any]]()
        self._bound = np.array([np.inf, np.inf, np.inf])

    def add(self, judged: JudgedPiece) -> None:
        """Look at a piece."""
        rows = judged.judged
        order = rows.worst()
        keys = _keys(np.zeros(order.size), rows.quality[order], rows.residual[order])
        n_better = int(np.sum(_is_before(keys, self._bound)))
        n_wrong = 0 if judged.wrong is None else judged.wrong.places.size
        is_full = self._bound[0] == 0.0  # of rows that come before those wrong beyond doubt
        top = n_better + (0 if is_full or n_better < order.size else n_wrong)
        if not top:
            return
        found = _suspects(judged, top)
        is_beyond = np.arange(found.num_rows) >= n_better
        quality, residual = (
            np.asarray(found[name].to_numpy(zero_copy_only=False), dtype=np.float64)
            for name in ("label_quality", "residual")
        )
        self._held.append(found)
        self._keys.append(_keys(is_beyond.astype(float), quality, np.nan_to_num(residual)))
        if sum(map(len, self._held)) > 2 * self._most:
            self._prune()

    def __bool__(self) -> bool:
        return bool(self._held)

    def table(self) -> pa.Table:
        """Return the worst rows, the worst first; there is one."""
        self._prune()
        return self._held[0]

    def _prune(self) -> None:
        keys, held = np.concatenate(self._keys), pa.concat_tables(self._held)
        order = np.lexsort(keys.T[::-1])[: self._most]
        self._held, self._keys = [held.take(pa.array(order))], [keys[order]]
        if order.size == self._most:
            self._bound = keys[order[-1]]


def _keys(beyond: Any, quality: Any, residual: Any) -> Any:
    """Return keys by which rows are sorted, as `JudgedRows.order` does it.

    Rows whose target cannot be right come after those that the model found.
    """
    hopeless = np.where(quality < HOPELESS, 0.0, quality)
    return np.column_stack([beyond, np.where(beyond > 0, 0.0, hopeless), -np.abs(residual)])


def _is_before(keys: Any, bound: Any) -> Any:
    """Return which keys come before another."""
    first = keys[:, 0] < bound[0]
    second = (keys[:, 0] == bound[0]) & (keys[:, 1] < bound[1])
    third = (keys[:, 0] == bound[0]) & (keys[:, 1] == bound[1]) & (keys[:, 2] < bound[2])
    return first | second | third
