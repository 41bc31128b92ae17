"""A self-paced regression on raw tables: preprocessing and model in one."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from easyfirst import files
from easyfirst.contracts import Matrix, Vector
from easyfirst.estimators import SelfPacedRegressor
from easyfirst.tables import values
from easyfirst.tables.errors import TableError, counted
from easyfirst.tables.planning import Choice, make_recipe, require_column, response
from easyfirst.tables.preprocessing import Preprocessor
from easyfirst.tables.references import better_references, recoded, with_references
from easyfirst.tables.saving import KIND, table_model_to_contents

LEAST_ROWS = 3  # two make a line that fits exactly, whatever they hold


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """The rows of a table that have a target, as numbers.

    `X` is a pandas frame over one array, or a sparse one; `used` tells which rows of the table
    they are, `texts` holds their categories.
    """

    X: Any
    y: Vector
    used: NDArray[np.bool_]
    texts: pa.Table
    batches: NDArray[Any] | None = None

    @property
    def n_dropped(self) -> int:
        """How many rows have no target."""
        return int(np.sum(~self.used))


class TableModel:
    """Fit a `SelfPacedRegressor` to a table as it is: numbers, categories, dates, missing values.

    Parameters
    ----------
    target
        The column to predict.
    features, exclude
        Columns to use (None: all that can be) and not to use.
    row_id
        A column that names the rows; not used as a feature.
    batches
        A column with an id per row: rows with the same id form a batch. Not a feature.
    regressor
        The model to fit, unfitted; None is `SelfPacedRegressor()`.

    Attributes
    ----------
    recipe_
        How the columns become numbers, and why some were left out.
    regressor_
        The fitted model.
    notes_
        What happened to the table, in sentences.

    Examples
    --------
    >>> import pandas as pd
    >>> rent = pd.DataFrame({"area": range(20, 60), "city": ["Ulm", "Bonn"] * 20})
    >>> rent["price"] = 10 * rent["area"] + 100 * (rent["city"] == "Bonn")
    >>> rent.loc[3, "price"] = 9999
    >>> model = TableModel("price").fit(rent)
    >>> dict(zip(model.recipe_.design_names(), model.regressor_.coef_.tolist(), strict=True))
    {'area': 10.0, 'city=Ulm': -100.0}
    >>> model.suspects(rent)["row_id"].tolist()
    [3]
    """

    def __init__(
        self,
        target: str,
        *,
        features: tuple[str, ...] | None = None,
        exclude: tuple[str, ...] = (),
        row_id: str | None = None,
        batches: str | None = None,
        regressor: SelfPacedRegressor | None = None,
    ) -> None:
        self.target = target
        self.features = features
        self.exclude = exclude
        self.row_id = row_id
        self.batches = batches
        self.regressor = regressor

    def fit(self, frame: Any) -> Self:
        """Fit to a pandas, polars or pyarrow table."""
        self.fit_rows(self.prepare(frame))
        return self

    def prepare(self, frame: Any) -> TrainingRows:
        """Decide how the columns become numbers, and return the rows that have a target."""
        table = as_table(frame)
        self._require_columns(table)
        y = response(table, self.target)
        used = ~np.isnan(y)
        self._require_rows(used)
        self.recipe_, self.notes_ = make_recipe(table, self._choice(), used)
        if not used.all():
            n_dropped = counted(int(np.sum(~used)), "row")
            self.notes_.insert(0, f"{n_dropped} without a value of {self.target!r} left out")
            table, y = table.filter(pa.array(used)), y[used]
        batches = None if self.batches is None else ids_array(row_names(table, self.batches))
        X = self._named(self._preprocessor().matrix(table))
        texts = table.select([each.name for each in self.recipe_.categorical])
        return TrainingRows(X, y, used, texts, batches)

    def fit_rows(self, rows: TrainingRows) -> TrainingRows:
        """Fit to rows from `prepare`, and return them as they were fitted.

        If the fit loses the category that others are compared with, another takes its place.
        """
        fitted, caught = self._fitted(rows)
        references = better_references(self.recipe_, rows.texts, fitted.weights_)
        if references:
            recipe = with_references(self.recipe_, references)
            other = replace(rows, X=recoded(rows.X, self.recipe_, recipe, rows.texts))
            again, caught_again = self._fitted(other)
            if again.weights_.sum() > fitted.weights_.sum():
                rows, fitted, caught, self.recipe_ = other, again, caught_again, recipe
        for warning in caught:
            warnings.warn(warning, stacklevel=2)
        self.regressor_ = fitted
        return rows

    def predict(self, frame: Any) -> Vector:
        """Return the prediction for each row; the target may be absent."""
        blocks = [self.regressor_.predict(self._named(block)) for block in self._blocks(frame)]
        return np.concatenate(blocks) if blocks else np.empty(0)

    def predict_interval(self, frame: Any, coverage: float = 0.9) -> Matrix:
        """Return lower and upper bounds for clean rows, shape (rows, 2)."""
        bounds = [
            self.regressor_.predict_interval(self._named(block), coverage)
            for block in self._blocks(frame)
        ]
        return np.concatenate(bounds) if bounds else np.empty((0, 2))

    def suspects(self, frame: Any, top: int | None = None) -> Any:
        """Return the rows that look wrong, the worst first; see `SelfPacedRegressor.suspects`.

        Rows without a target are not judged. Rows are named by the column `row_id`, or counted
        from 0. The result is of the library that the table is from.
        """
        table = as_table(frame)
        _, found = self.suspects_with_places(table, top)
        backend = nw.from_native(frame, eager_only=True).implementation
        if backend.is_pyarrow():
            return found
        return nw.from_arrow(found, backend=backend).to_native()

    def suspects_with_places(
        self, table: pa.Table, top: int | None = None
    ) -> tuple[NDArray[np.intp], pa.Table]:
        """Return which rows of a table look wrong, the worst first, and what is known of them."""
        y = response(table, self.target)
        used = ~np.isnan(y)
        if not used.any():
            raise TableError(f"no row has a value of the target {self.target!r}")
        X = self._named(self._preprocessor().matrix(table.filter(pa.array(used))))
        places = np.flatnonzero(used)
        found = self.regressor_.suspects(X, y[used], top=top, row_ids=places)
        chosen = found["row_id"].to_numpy()
        judged = pa.Table.from_pandas(found, preserve_index=False)
        names = row_names(table, self.row_id).take(pa.array(chosen))
        return chosen, judged.set_column(0, "row_id", names)

    def save(self, path: Any, *, overwrite: bool = False, weights: bool = True) -> None:
        """Write the model with its preprocessing to a file that `easyfirst.load` reads."""
        facts, arrays = table_model_to_contents(self, weights)
        files.write(path, KIND, facts, arrays, overwrite)

    def unseen(self, frame: Any) -> dict[str, int]:
        """Return how many rows hold a category without a coefficient of its own, by column."""
        return self._preprocessor().unseen(as_table(frame))

    def _fitted(self, rows: TrainingRows) -> tuple[SelfPacedRegressor, list[Warning | str]]:
        """Return a fitted model, and its warnings, which are due only if it is taken."""
        template = self.regressor or SelfPacedRegressor()
        # Not scikit-learn's clone: callbacks and connections to a cluster have no copies.
        model = SelfPacedRegressor(**template.get_params(deep=False))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(rows.X, rows.y, batches=rows.batches)
        return model, [each.message for each in caught]

    def _blocks(self, frame: Any) -> Any:
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
                f"{counted(n_used, 'row')} with a value of {self.target!r} cannot show what is "
                f"usual: at least {LEAST_ROWS} are needed"
            )


def as_table(frame: Any) -> pa.Table:
    """Return a pandas, polars or pyarrow frame as an Arrow table."""
    if isinstance(frame, pa.Table):
        return frame
    return nw.from_native(frame, eager_only=True).to_arrow()


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
