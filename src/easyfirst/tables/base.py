"""What models of raw tables share: which columns they take, how these become numbers, row names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse as sp
from narwhals.typing import IntoDataFrame, IntoDataFrameT
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from easyfirst import files
from easyfirst.estimators.plugin_params import PlugInParamsMixin
from easyfirst.report.wording import count
from easyfirst.tables import values
from easyfirst.tables.deciding import Decided
from easyfirst.tables.decisions import Decision
from easyfirst.tables.errors import TableError, require_column
from easyfirst.tables.filling import Missing
from easyfirst.tables.planning import Choice
from easyfirst.tables.preprocessing import Preprocessor
from easyfirst.tables.recipe import Recipe
from easyfirst.tables.saving import KIND, serialize_table_model

if TYPE_CHECKING:
    from easyfirst.report import Report
    from easyfirst.tables.judged_base import JudgedBase

LEAST_ROWS = 3  # two make a line that fits exactly, whatever they hold


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """The rows of a table that have a target, as numbers.

    `X` is a pandas frame over one array, or a sparse one; `y` holds numbers or labels; `used` tells
    which rows of the table they are, `texts` holds their categories, `wrong` the rows with a target
    that cannot be right. `trusted` and `rejected` are what a person has decided about the rows,
    and `missing` says where values of which columns were filled in.
    """

    X: Any
    y: NDArray[Any]
    used: NDArray[np.bool_]
    texts: pa.Table
    batches: NDArray[Any] | None = None
    wrong: Any = None
    trusted: NDArray[np.bool_] | None = None
    rejected: NDArray[np.bool_] | None = None
    missing: Missing = field(default_factory=dict)

    @property
    def n_wrong(self) -> int:
        """How many rows have a target that cannot be right."""
        return 0 if self.wrong is None else len(self.wrong.places)

    @property
    def n_dropped(self) -> int:
        """How many rows have no target."""
        return int(np.sum(~self.used)) - self.n_wrong


class TableBase(PlugInParamsMixin, BaseEstimator):
    """Columns, rows and files of a model of raw tables."""

    target: str
    features: tuple[str, ...] | None
    exclude: tuple[str, ...]
    row_id: str | None
    batches: str | None
    recipe_: Recipe
    notes_: list[str]

    @property
    def fitted(self) -> Any:
        """The fitted model inside."""
        raise NotImplementedError

    def prepare(self, frame: Any) -> TrainingRows:
        """Decide how the columns become numbers, and return the rows that have a target."""
        raise NotImplementedError

    def fit_rows(self, rows: TrainingRows) -> TrainingRows:
        """Fit to rows from `prepare`, and return them as they were fitted."""
        raise NotImplementedError

    def predict(self, frame: IntoDataFrame) -> NDArray[Any]:
        """Return the prediction for each row; the target may be absent."""
        raise NotImplementedError

    def with_target(self, table: pa.Table) -> NDArray[np.bool_]:
        """Return which rows of a table have a target that the model takes."""
        raise NotImplementedError

    def decided(self, table: pa.Table, path: Path, decisions: Mapping[int, Decision]) -> Decided:
        """Bring decisions, read from `path`, to the rows of a table."""
        raise NotImplementedError

    def judged(self, frame: Any) -> JudgedBase:
        """Return a table beside what the model thinks of its rows; it needs the target."""
        raise NotImplementedError

    def judged_rows(self, table: pa.Table, rows: TrainingRows, origins: Any) -> JudgedBase:
        """Return the table of the fit beside what the model thinks of its rows."""
        raise NotImplementedError

    def fit(self, frame: Any, y: Any = None) -> Self:
        """Fit to a pandas, polars or pyarrow table.

        Its column `target` is what is predicted. `y`, as tools of scikit-learn give it, takes the
        place of that column.
        """
        if y is not None:
            frame = _with_column(as_table(frame), self.target, y)
        self.fit_rows(self.prepare(frame))
        return self

    def suspects(self, frame: IntoDataFrameT, top: int | None = None) -> IntoDataFrameT:
        """Return the rows that look wrong, the worst first; see `suspects` of the model.

        Rows without a target are not judged. Rows are named by the column `row_id`, or counted
        from 0. The result is of the library that the table is from.
        """
        table = as_table(frame)
        _, found = self.suspects_with_places(table, top)
        backend = nw.from_native(frame, eager_only=True).implementation
        native: IntoDataFrameT = nw.from_arrow(found, backend=backend).to_native()
        return native

    def suspects_with_places(
        self, table: pa.Table, top: int | None = None
    ) -> tuple[NDArray[np.intp], pa.Table]:
        """Return which rows of a table look wrong, the worst first, and what is known of them.

        Besides the columns of `suspects`, `patterns` says what a row has in common with others.
        """
        return self.judged(table).suspects(top)

    def row_names(self, table: pa.Table) -> Any:
        """Return the Arrow column that names the rows of a table, or their numbers from 0."""
        return row_names(table, self.row_id)

    def save(self, path: Any, *, overwrite: bool = False, weights: bool = True) -> None:
        """Write the model with its preprocessing to a file that `easyfirst.load` reads."""
        state, arrays = serialize_table_model(self, weights)
        files.write(path, KIND, state, arrays, overwrite)

    def unseen(self, frame: Any) -> dict[str, int]:
        """Return how many rows hold a category without a coefficient of its own, by column."""
        return self._preprocessor().unseen(as_table(frame))

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        frame: Any = None,
        *,
        show_rows: bool = False,
        show_target: bool = True,
        overwrite: bool = False,
    ) -> Report:
        """Show what the fit found as one page of HTML; see `report` of the model inside.

        Parameters
        ----------
        path
            Where to write. None writes no file.
        frame
            The table that was fitted, with the target. Without it the page says what the fit
            alone knows.
        show_rows, show_target, overwrite
            As for `SelfPacedRegressor.report`.
        """
        check_is_fitted(self)
        if path is not None and not isinstance(path, str | os.PathLike):
            raise TypeError(
                f"path must be the name of a file or None, got {type(path).__name__}; a table "
                f"comes second: report(None, table)"
            )
        if frame is None:
            page: Report = self.fitted.report(path, overwrite=overwrite)
            return page
        from easyfirst.tables.reporting import report_on

        judged = self.judged(frame)
        page = report_on(
            judged,
            data="a table in memory",
            fitted_at=self._fitted_at(),
            show_rows=show_rows,
            show_target=show_target,
        )
        return page if path is None else page.save(path, overwrite)

    def _fitted_at(self) -> str:
        """Return when it was fitted, in ISO format; models of old files do not know."""
        note = vars(self.fitted).get("_fit_note")
        return datetime.now(UTC).isoformat() if note is None else str(note.at)

    def _batch_ids(self, rows: pa.Table) -> NDArray[Any] | None:
        return None if self.batches is None else ids_array(row_names(rows, self.batches))

    def _without_target(self, n_missing: int) -> list[str]:
        if not n_missing:
            return []
        return [f"{count(n_missing, 'row')} without a value of {self.target!r} left out"]

    def _blocks(self, frame: Any) -> Any:
        check_is_fitted(self)
        return self._preprocessor().blocks(as_table(frame))

    def _preprocessor(self) -> Preprocessor:
        return Preprocessor(self.recipe_)

    def _named(self, matrix: Any) -> Any:
        names = self.recipe_.design_names()
        if sp.issparse(matrix):
            return pd.DataFrame.sparse.from_spmatrix(matrix, columns=names)
        return pd.DataFrame(matrix, columns=names, copy=False)

    def _choice(self) -> Choice:
        reserved = tuple(name for name in (self.row_id, self.batches) if name is not None)
        return Choice(self.target, self.features, self.exclude, reserved)

    def _require_columns(self, table: pa.Table) -> None:
        roles = ((self.target, "target"), (self.row_id, "row ids"), (self.batches, "batches"))
        for name, role in roles:
            if name is not None:
                require_column(table, name, role)

    def _require_rows(self, used: NDArray[np.bool_]) -> None:
        n_used = int(np.sum(used))
        if n_used == 0:
            raise TableError(f"no row has a value of the target {self.target!r}")
        if n_used < LEAST_ROWS:
            raise TableError(
                f"{count(n_used, 'row')} with a value of {self.target!r} cannot show what is "
                f"usual: at least {LEAST_ROWS} are needed"
            )


def as_table(frame: Any) -> pa.Table:
    """Return a pandas, polars or pyarrow frame as an Arrow table."""
    if isinstance(frame, pa.Table):
        return frame
    return nw.from_native(frame, eager_only=True).to_arrow()


def _with_column(table: pa.Table, name: str, given: Any) -> pa.Table:
    """Return a table with other values in a column, or with one more."""
    column = pa.array(np.asarray(given).reshape(-1), from_pandas=True)
    if name not in table.column_names:
        return table.append_column(name, column)
    return table.set_column(table.column_names.index(name), name, column)


def row_names(table: pa.Table, row_id: str | None, required: bool = True) -> Any:
    """Return the Arrow column that names the rows, or their numbers from 0.

    A column that is not `required` may be absent, as in a new table without such names.
    """
    if row_id is not None and (required or row_id in table.column_names):
        require_column(table, row_id, "row ids")
        column = values.plain(table[row_id])
        values.require_categories(row_id, column)
        return column
    return pa.chunked_array([pa.array(np.arange(table.num_rows))])


def ids_array(column: Any) -> NDArray[Any]:
    """Return names as an array: whole numbers as such, everything else as text."""
    if pa.types.is_integer(column.type) and not column.null_count:
        return np.asarray(column.to_numpy())
    return values.categories(column)
