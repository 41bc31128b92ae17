"""One whole run: read a table, fit it, judge its rows, write everything into a folder."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import easyfirst
from easyfirst.estimators import SelfPacedRegressor
from easyfirst.tables.errors import TableError
from easyfirst.tables.model import TableModel, TrainingRows, ids_array, row_names
from easyfirst.tables.outputs import to_json
from easyfirst.tables.reading import TableFormat, read_table

MODEL_FILE = "model.safetensors"
ROWS_FILE = "rows.parquet"
REPORT_FILE = "report.html"
SUMMARY_FILE = "summary.json"
RUN_FILES = (MODEL_FILE, ROWS_FILE, REPORT_FILE, SUMMARY_FILE)
WORST_ROWS = 10  # in the summary
SUMMARY_VERSION = 1


@dataclass(frozen=True)
class FitRequest:
    """What to fit, and how to present it."""

    data: Path
    model: TableModel
    form: TableFormat
    report: bool = True
    show_rows: bool = False


@dataclass(eq=False)
class Run:
    """What a run did; `summary()` says it in plain data."""

    request: FitRequest
    n_rows: int = 0
    n_dropped: int = 0
    doubts: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    worst: list[dict[str, Any]] = field(default_factory=list)
    batch_names: NDArray[Any] | None = None

    @property
    def model(self) -> TableModel:
        """The fitted model."""
        return self.request.model

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Record how long a stage takes."""
        began = time.perf_counter()
        yield
        self.seconds[stage] = time.perf_counter() - began

    def summary(self) -> dict[str, Any]:
        """Return what is written to the summary file."""
        model, regressor = self.model, self.model.regressor_
        return {
            "version": SUMMARY_VERSION,
            "easyfirst": easyfirst.__version__,
            "data": str(self.request.data),
            "target": model.target,
            "rows": {
                "read": self.n_rows,
                "without_target": self.n_dropped,
                "fitted": int(regressor.weights_.size),
                "look_wrong": int(np.sum(~regressor.selected_)),
            },
            "columns": {
                "used": {each.name: each.kind for each in model.recipe_.features},
                "left_out": {each.name: each.reason for each in model.recipe_.left_out},
            },
            "notes": model.notes_,
            "status": {
                "code": regressor.status_.code,
                "message": regressor.status_.message,
                "converged": regressor.status_.converged,
            },
            "warnings": self.doubts,
            "corrupted_share": regressor.corrupted_fraction_,
            "corrupted_interval": list(regressor.corrupted_interval_),
            "noise_scale": regressor.noise_scale_,
            "pace": regressor.pace_,
            "rounds": regressor.n_rounds_,
            "coefficients": coefficient_records(regressor),
            "batches": self._batches(),
            "suspects": self.worst,
            "seconds": self.seconds,
        }

    def _batches(self) -> list[dict[str, Any]] | None:
        """Return the clean share of every batch, the worst first, if the user named batches."""
        if self.batch_names is None:
            return None
        shares = self.model.regressor_.batch_clean_share_.tolist()
        pairs = sorted(
            zip(shares, self.batch_names.tolist(), strict=True), key=lambda pair: pair[0]
        )
        return [{"batch": name, "clean_share": share} for share, name in pairs]


def fit_run(request: FitRequest, folder: Path, on_stage: Callable[[str], None]) -> Run:
    """Fit the table and write the run's files into a folder."""
    run = Run(request)
    with run.timed("total"):
        on_stage(f"Reading {request.data}")
        with run.timed("read"):
            table = read_table(request.data, request.form)
        on_stage("Preparing the columns")
        with run.timed("prepare"):
            rows = request.model.prepare(table)
            ids = row_names(table, request.model.row_id)
            raw = _raw_rows(table, rows) if request.show_rows else False
            run.n_rows, run.n_dropped = table.num_rows, rows.n_dropped
            del table  # the fit and the report need that memory
        on_stage("Fitting")
        with run.timed("fit"):
            rows, run.doubts = _fit(request.model, rows)
        on_stage("Judging the rows")
        with run.timed("write"):
            _write(run, rows, ids, folder)
            if request.report:
                on_stage("Writing the report")
                _report(run, rows, ids, raw, folder / REPORT_FILE)
    (folder / SUMMARY_FILE).write_text(to_json(run.summary()) + "\n", encoding="utf-8")
    return run


def _fit(model: TableModel, rows: TrainingRows) -> tuple[TrainingRows, list[str]]:
    """Fit, and return the rows as fitted and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            rows = model.fit_rows(rows)
        except ValueError as error:
            raise TableError(f"the table cannot be fitted: {error}") from error
    return rows, list(dict.fromkeys(str(warning.message) for warning in caught))


def _raw_rows(table: pa.Table, rows: TrainingRows) -> Any:
    return table.filter(pa.array(rows.used)).to_pandas()


def _write(run: Run, rows: TrainingRows, ids: Any, folder: Path) -> None:
    model = run.model
    if rows.batches is not None:
        run.batch_names = np.unique(rows.batches)
    pq.write_table(rows_table(model, rows, ids), folder / ROWS_FILE, write_page_checksum=True)
    worst = model.regressor_.suspects(rows.X, rows.y, top=WORST_ROWS, row_ids=_names(rows, ids))
    run.worst = worst[worst["is_label_issue"]].to_dict("records")
    model.save(folder / MODEL_FILE)


def _report(run: Run, rows: TrainingRows, ids: Any, raw: Any, path: Path) -> None:
    run.model.regressor_.report(
        path,
        X=rows.X,
        y=rows.y,
        row_ids=_names(rows, ids),
        batches=rows.batches,
        show_rows=raw,
    )


def _names(rows: TrainingRows, ids: Any) -> NDArray[Any]:
    """Return the names of the fitted rows as an array."""
    return ids_array(ids)[rows.used]


def rows_table(model: TableModel, rows: TrainingRows, ids: Any) -> pa.Table:
    """Return what the fit thinks of every row of the table; null where the target is missing."""
    judged = model.regressor_.judge(rows.X, rows.y)
    columns = {
        "is_label_issue": judged.is_wrong,
        "weight": judged.weight,
        "residual": judged.residual,
        "given_label": judged.given,
        "predicted_label": judged.predicted,
        "entry_pace": judged.entry_pace,
    }
    places = np.cumsum(rows.used) - 1
    taken = None if rows.used.all() else pa.array(places, mask=~rows.used)
    arrays = [
        pa.array(values) if taken is None else pa.array(values).take(taken)
        for values in columns.values()
    ]
    return pa.table([ids, *arrays], names=["row_id", *columns])


def coefficient_records(regressor: SelfPacedRegressor) -> list[dict[str, Any]]:
    """Return one record per coefficient: name, value, and what is known about its error."""
    columns = regressor.summary().columns()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
