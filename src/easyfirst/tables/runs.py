"""One whole run: read a table, fit it, judge its rows, write everything into a folder."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import easyfirst
from easyfirst.engines.blas import one_blas_thread
from easyfirst.tables.applying import decided_table
from easyfirst.tables.base import TableBase, TrainingRows
from easyfirst.tables.classifier import TableClassifier, require_linear
from easyfirst.tables.deciding import as_mask
from easyfirst.tables.decisions import read_decisions
from easyfirst.tables.description import coefficient_records
from easyfirst.tables.errors import TableError
from easyfirst.tables.judged_base import JudgedBase
from easyfirst.tables.kinds import table_hints
from easyfirst.tables.labels import is_classes
from easyfirst.tables.model import TableModel
from easyfirst.tables.origins import Origins
from easyfirst.tables.outputs import encode, to_json, write_plain
from easyfirst.tables.reading import Opened, TableFormat, open_table
from easyfirst.tables.reporting import report_on

MODEL_FILE = "model.safetensors"
ROWS_FILE = "rows.parquet"
REPORT_FILE = "report.html"
SUMMARY_FILE = "summary.json"
SUSPECTS_FILE = "suspects.csv"
CLEAN_FILES = {"csv": "clean.csv", "parquet": "clean.parquet"}
RUN_FILES = (
    MODEL_FILE,
    ROWS_FILE,
    SUSPECTS_FILE,
    *CLEAN_FILES.values(),
    REPORT_FILE,
    SUMMARY_FILE,
)
COLUMNAR = (".parquet", ".pq", ".feather", ".arrow")  # whose rows are given back as Parquet
WORST_ROWS = 10  # in the summary
NOT_SAVED = (
    f"{MODEL_FILE} was not written: it holds linear models, and this one is gradient boosting. "
    f"{ROWS_FILE} has what it says of every row"
)
SUMMARY_VERSION = 1


@dataclass(frozen=True)
class FitRequest:
    """What to fit, and how to present it.

    `clean` is the format of the table without the rows that look wrong: that of the data, if None,
    and "none" writes no such table. `task` is "auto" to take a classifier in place of a
    `TableModel` where the target holds classes. `memory_limit` is how many bytes the process may
    take: a table that needs more is read in pieces.
    """

    data: str | Path
    model: TableBase
    form: TableFormat
    report: bool = True
    show_rows: bool = False
    show_target: bool = True
    clean: str | None = None
    decisions: Path | None = None
    task: str = "regression"
    memory_limit: int | None = None

    @property
    def name(self) -> str:
        """The name of the data, for people."""
        return "standard input" if str(self.data) == "-" else PurePosixPath(str(self.data)).name

    @property
    def clean_kind(self) -> str:
        """The format of the clean table."""
        path = Path(self.data)
        names = [each.name for each in path.iterdir()] if path.is_dir() else [self.name]
        columnar = any(name.lower().endswith(COLUMNAR) for name in names)
        return self.clean or ("parquet" if columnar else "csv")

    def open(self) -> Opened:
        """Read the table.

        If the user named marks of numbers, the model reads these itself, and remembers how.
        """
        marked = self.model.decimal is not None or self.model.thousands is not None
        form = replace(self.form, decimal=None, thousands=None) if marked else self.form
        return open_table(self.data, form, all_text=marked)

    def for_table(self, table: pa.Table) -> Self:
        """Return the request with a classifier as its model, if the target holds classes."""
        model: Any = self.model
        if self.task == "auto":
            hints = table_hints(table, model.decimal, model.thousands)
            wanted = is_classes(table, model.target, hints)
        else:
            wanted = self.task == "classification"
        if not wanted or not isinstance(model, TableModel):
            return self
        require_linear(model)
        return replace(self, model=TableClassifier.in_place_of(model))


@dataclass(eq=False)
class Run:
    """What a run did; `summary()` says it in plain data."""

    request: FitRequest
    n_rows: int = 0
    n_dropped: int = 0
    n_wrong: int = 0
    doubts: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    judged: JudgedBase | None = None
    flagged: int | None = None  # if `judged` has only some of the rows
    worst: list[dict[str, Any]] = field(default_factory=list)
    batch_names: NDArray[Any] | None = None
    fitted_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @property
    def model(self) -> TableBase:
        """The fitted model."""
        return self.request.model

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Record how long a stage takes."""
        began = time.perf_counter()
        yield
        self.seconds[stage] = time.perf_counter() - began

    @property
    def n_flagged(self) -> int:
        """How many of the fitted rows look wrong."""
        assert self.judged is not None
        if self.flagged is not None:
            return self.flagged
        return int(np.sum(self.judged.judged.is_wrong))

    @property
    def n_judged(self) -> int:
        """How many rows have a target, be it wrong beyond doubt."""
        return self.n_rows - self.n_dropped

    def summary(self) -> dict[str, Any]:
        """Return what is written to the summary file."""
        assert self.judged is not None
        model, fitted = self.model, self.model.fitted
        return {
            "version": SUMMARY_VERSION,
            "easyfirst": easyfirst.__version__,
            "data": str(self.request.data),
            "fitted_at": self.fitted_at,
            "target": model.target,
            "rows": {
                "read": self.n_rows,
                "without_target": self.n_dropped,
                "with_wrong_target": self.n_wrong,
                "fitted": self.n_judged - self.n_wrong,
                "look_wrong": self.n_flagged,
            },
            "columns": {
                "used": {each.name: each.kind for each in model.recipe_.features},
                "left_out": {each.name: each.reason for each in model.recipe_.left_out},
            },
            "notes": model.notes_,
            "status": {
                "code": fitted.status_.code,
                "message": fitted.status_.message,
                "converged": fitted.status_.converged,
            },
            "warnings": self.doubts,
            **self.judged.fit_summary(),
            "pace": fitted.pace_,
            "rounds": fitted.n_rounds_,
            "coefficients": coefficient_records(fitted),
            "batches": self._batches(),
            "patterns": [pattern.to_data() for pattern in self.judged.patterns],
            "suspects": self.worst,
            "seconds": self.seconds,
        }

    def _batches(self) -> list[dict[str, Any]] | None:
        """Return the clean share of every batch, the worst first, if the user named batches."""
        if self.batch_names is None:
            return None
        shares = self.model.fitted.batch_clean_share_.tolist()
        pairs = sorted(
            zip(shares, self.batch_names.tolist(), strict=True), key=lambda pair: pair[0]
        )
        return [{"batch": name, "clean_share": share} for share, name in pairs]


def fit_run(request: FitRequest, folder: Path, on_stage: Callable[[str], None]) -> Run:
    """Fit the table and write the run's files into a folder."""
    run = Run(request)
    # Beside other threads, those of BLAS wait for each other longer than they work.
    with run.timed("total"), one_blas_thread():
        on_stage(f"Reading {request.data}")
        with run.timed("read"):
            opened = request.open()
            table = opened.table
            run.request = request = request.for_table(table)
        on_stage("Preparing the columns")
        with run.timed("prepare"):
            rows, run.doubts = caught(request.model.prepare, table)
            if request.decisions is not None:
                table, rows, run.doubts = _decided(request, request.decisions, table)
            request.model.notes_[:0] = opened.notes
            run.n_rows, run.n_dropped, run.n_wrong = table.num_rows, rows.n_dropped, rows.n_wrong
        on_stage("Fitting")
        with run.timed("fit"):
            rows, doubts = _fit(request.model, rows)
            run.doubts += doubts
        on_stage("Judging the rows")
        with run.timed("write"):
            origins = Origins.of(request.data, table, request.form.encoding, request.form.delimiter)
            run.judged = request.model.judged_rows(table, rows, origins)
            if rows.batches is not None:
                run.batch_names = np.unique(rows.batches)
            _write(run, run.judged, folder)
            if request.report:
                on_stage("Writing the report")
                write_report(run, run.judged, rows.batches, folder / REPORT_FILE)
    write_summary(run, folder)
    return run


def write_summary(run: Run, folder: Path) -> None:
    """Write what a run did as plain data."""
    (folder / SUMMARY_FILE).write_text(to_json(run.summary()) + "\n", encoding="utf-8")


def _decided(
    request: FitRequest, path: Path, table: pa.Table
) -> tuple[pa.Table, TrainingRows, list[str]]:
    """Return the table with accepted fixes, its rows with what is known of them, and warnings."""
    model = request.model
    made = read_decisions(path, of_labels=isinstance(model, TableClassifier))
    decided = model.decided(table, path, made)
    table = decided_table(table, decided, keep_wrong=True)
    rows, doubts = caught(model.prepare, table)
    model.notes_[:0] = decided.notes()
    trusted, rejected = (as_mask(each, rows.used) for each in (decided.trusted, decided.rejected))
    return table, replace(rows, trusted=trusted, rejected=rejected), doubts


def _fit(model: TableBase, rows: TrainingRows) -> tuple[TrainingRows, list[str]]:
    """Fit, and return the rows as fitted and the warnings."""
    try:
        return caught(model.fit_rows, rows)
    except ValueError as error:
        raise TableError(f"the table cannot be fitted: {error}") from error


def caught(function: Callable[[Any], Any], argument: Any) -> tuple[Any, list[str]]:
    """Call, and return the result and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(argument)
    return result, list(dict.fromkeys(str(warning.message) for warning in caught))


def _write(run: Run, judged: JudgedBase, folder: Path) -> None:
    pq.write_table(judged.rows_table(), folder / ROWS_FILE, write_page_checksum=True)
    places, found = judged.suspects()
    run.worst = found.slice(0, WORST_ROWS).to_pylist()
    found = judged.known_origins.beside(places, found)
    listed = with_values(found, judged.table.take(pa.array(places)))
    (folder / SUSPECTS_FILE).write_bytes(encode(listed, "csv"))
    kind = run.request.clean_kind
    if kind in CLEAN_FILES:
        write_plain(clean_table(judged), kind, folder / CLEAN_FILES[kind])
    if hasattr(run.model.fitted, "coef_"):
        run.model.save(folder / MODEL_FILE)
    else:
        run.model.notes_.append(NOT_SAVED)


def write_report(run: Run, judged: JudgedBase, batches: Any, path: Path) -> None:
    """Write the page on a run."""
    page = report_on(
        judged,
        data=run.request.name,
        fitted_at=run.fitted_at,
        batches=batches,
        show_rows=run.request.show_rows,
        show_target=run.request.show_target,
    )
    page.save(path)


def with_values(found: pa.Table, rows: pa.Table) -> pa.Table:
    """Put the columns of the data beside what was found; a name taken already gets a dot."""
    for name in rows.column_names:
        free = name
        while free in found.column_names:
            free += "."
        found = found.append_column(free, rows[name])
    return found


def clean_table(judged: JudgedBase) -> pa.Table:
    """Return the table without the rows that look wrong; rows without a target stay."""
    keep = np.ones(judged.table.num_rows, dtype=bool)
    keep[judged.wrong_places] = False
    return judged.table.filter(pa.array(keep))
