"""A self-paced regression on raw tables: preprocessing and model in one."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from narwhals.typing import IntoDataFrame
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from easyfirst.contracts import Matrix, Vector
from easyfirst.estimators import SelfPacedRegressor
from easyfirst.estimators.findings import findings_of
from easyfirst.estimators.judging import JudgedRows
from easyfirst.estimators.notes import (
    DIFFER_IN_X,
    GROWING_ERRORS,
    SHARE_DIFFERS,
    advice_notes,
    choice_note,
)
from easyfirst.report.mistakes import LEARNED_FACTOR
from easyfirst.report.suspects import fixes_of
from easyfirst.tables.base import TrainingRows, as_table, row_names
from easyfirst.tables.choosing import chosen, require_known
from easyfirst.tables.deciding import Decided, decide_rows
from easyfirst.tables.decisions import Decision
from easyfirst.tables.errors import TableError
from easyfirst.tables.estimator import TableEstimator
from easyfirst.tables.filling import Sides, allowing_for_shift, blur_of, centered, spread_around
from easyfirst.tables.judging import SURE, JudgedTable, WrongTargets
from easyfirst.tables.kinds import table_hints
from easyfirst.tables.planning import make_recipe
from easyfirst.tables.recipe import IS_MISSING
from easyfirst.tables.references import better_references, recoded, with_references
from easyfirst.tables.targets import (
    Response,
    read_target,
    require_sense,
    response,
    warn_of_leakage,
)
from easyfirst.transforms import IDENTITY, TRANSFORMS

MOSTLY_FIXED = 0.8  # share of wrong rows with a simple cause that clears the model
FILLED_ERRORS = 1.2  # times the usual error, from which filled-in values make errors uneven


class TableModel(TableEstimator):
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
    decimal, thousands
        The marks in numbers that are text. None: found from all values of each column.
    model
        "linear"; "boosting" for gradient boosting in `SelfPaced`; or "auto", which fits both and
        takes the linear one unless the other is clearly better on rows that look clean.

    Attributes
    ----------
    recipe_
        How the columns become numbers, and why some were left out.
    regressor_
        The fitted model.
    notes_
        What happened to the table, in sentences.
    fill_spread_
        By column, how far values lie below and above what stands for a missing one: rows with
        such values are judged that much more mildly.

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
        decimal: str | None = None,
        thousands: str | None = None,
        model: str = "linear",
    ) -> None:
        self.target = target
        self.features = features
        self.exclude = exclude
        self.row_id = row_id
        self.batches = batches
        self.regressor = regressor
        self.decimal = decimal
        self.thousands = thousands
        self.model = model

    def prepare(self, frame: Any) -> TrainingRows:
        """Decide how the columns become numbers, and return the rows that have a target."""
        require_known(self.model)
        table = as_table(frame)
        self._require_columns(table)
        hints = table_hints(table, self.decimal, self.thousands)
        reading, target_notes = read_target(table, self.target, hints)
        target = response(table, self.target, reading)
        used = ~np.isnan(target.y)
        self._require_rows(used)
        require_sense(target.y[used], self.target)
        recipe, notes = make_recipe(table, self._choice(), used, target.y, hints)
        self.recipe_ = replace(recipe, target_reading=reading)
        said = [*self._without_target(target.n_missing), *target.notes()]
        self.notes_ = [*said, *target_notes, *notes]
        rows = self._training_rows(table, target, used)
        numbers = [each.name for each in recipe.numeric]
        columns = ((name, np.asarray(rows.X.iloc[:, j])) for j, name in enumerate(numbers))
        warn_of_leakage(columns, rows.y, self.target)
        return rows

    def _training_rows(
        self, whole: pa.Table, target: Response, used: NDArray[np.bool_]
    ) -> TrainingRows:
        table = whole if used.all() else whole.filter(pa.array(used))
        preprocessor = self._preprocessor()
        read = preprocessor.read(table)
        self.fill_spread_ = {
            each.name: spread_around(preprocessor.numbers(read, each), each.fill)
            for each in self.recipe_.numeric
        }
        X = self._named(preprocessor.matrix(read))
        texts = table.select([each.name for each in self.recipe_.categorical])
        wrong = self._wrong_targets(whole, target)
        batches, missing = self._batch_ids(table), preprocessor.missing(read)
        return TrainingRows(X, target.y[used], used, texts, batches, wrong, missing=missing)

    def _wrong_targets(self, table: pa.Table, target: Response) -> WrongTargets | None:
        places = np.flatnonzero(target.is_wrong)
        if not places.size:
            return None
        # These rows may be no data at all, such as a second heading: whatever they hold will do.
        preprocessor = replace(self._preprocessor(), checks=False)
        rows = preprocessor.read(table.take(pa.array(places)))
        predicted_from = self._named(preprocessor.matrix(rows))
        reasons = [target.reason(place) for place in places.tolist()]
        return WrongTargets(places, target.given[places], reasons, predicted_from)

    @property
    def fitted(self) -> Any:
        """The fitted model inside."""
        return self.regressor_

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
        choice = chosen(self.model, fitted, caught, rows)
        if choice.note is not None:
            self.notes_.append(choice.note)
        self.regressor_ = choice.model
        doubts = choice.model.doubts_
        idle = tuple(each for each in doubts if self._is_settled(each, rows))
        choice.model.doubts_ = tuple(each for each in doubts if each not in idle)
        for warning in choice.caught:
            if not str(warning).startswith(idle):
                warnings.warn(warning, stacklevel=2)
        if choice.model is fitted and rows.missing:
            self._center(rows)
        self.fill_spread_ = self._settled_spread(rows)
        self._mildly_judged = self._judge(rows) if rows.missing else None
        if choice.model is fitted:
            self.notes_ += self._transformation(fitted)
        return rows

    def _judge(self, rows: TrainingRows) -> JudgedRows:
        """Return what the model thinks of the rows of the fit."""
        findings = findings_of(self.regressor_)
        blur = blur_of(self.recipe_, findings, self.fill_spread_, rows.missing, rows.X)
        return self.regressor_.judge(rows.X, rows.y, blur=blur)

    def _center(self, rows: TrainingRows) -> None:
        """Let the coefficients of missing values say where such rows have their middle."""
        model, findings = self.regressor_, findings_of(self.regressor_)
        calibration = findings.calibration
        if calibration is None or not calibration.scale_rule.is_even:
            return  # noise that is wider for such rows has let them have their say
        miss = self._missed(rows)
        moved = centered(self.recipe_, findings, self.fill_spread_, rows.missing, miss)
        if not moved:
            return
        coef, errors = model.coef_.copy(), np.array(calibration.standard_errors)
        for place, (shift, error) in moved.items():
            coef[place] += shift
            errors[place] = np.where(np.isnan(errors[place]), np.nan, error)
        model.coef_ = coef
        model._calibration = replace(calibration, standard_errors=errors)

    def _missed(self, rows: TrainingRows) -> Vector:
        """Return how far the fit misses each row, on the scale on which it was fitted."""
        transform = findings_of(self.regressor_).transform
        return transform.of(rows.y) - transform.of(self.regressor_.predict(rows.X))

    def _settled_spread(self, rows: TrainingRows) -> dict[str, Sides]:
        """Return how far values may lie from what was filled in, as the fit shows it."""
        findings = findings_of(self.regressor_)
        if not rows.missing or not findings.coef.size:
            return self.fill_spread_
        miss = self._missed(rows)
        return allowing_for_shift(self.recipe_, findings, self.fill_spread_, rows.missing, miss)

    def _is_settled(self, doubt: str, rows: TrainingRows) -> bool:
        """Whether the table answers a doubt of the fit.

        Rows with filled-in values are judged leniently, so flags along them mislead nobody. Nor is
        a model wrong where nearly all rows that look wrong have a simple cause: no curve lies at
        ten times the prediction, in however few branches that is.
        """
        if f"{IS_MISSING}'" in doubt:
            return True
        if doubt.startswith(GROWING_ERRORS):
            return _err_more_where_filled(rows, self.regressor_)
        if DIFFER_IN_X not in doubt and not doubt.startswith(SHARE_DIFFERS):
            return False
        judged = self._judge(rows)
        fixes = fixes_of(findings_of(self.regressor_), judged)
        # A factor that was learned from these rows fits a curve as well.
        is_listed = np.array([LEARNED_FACTOR not in fix for fix in fixes.fix], dtype=bool)
        n_fixed = int(np.sum(is_listed & (fixes.probability >= SURE)))
        return n_fixed >= MOSTLY_FIXED * max(int(np.sum(judged.is_wrong)), 1)

    def _transformation(self, fitted: SelfPacedRegressor) -> list[str]:
        """Say what was fitted in place of the target, or should be."""
        advice, name = fitted._advice, fitted.target_transform_
        if name is None:
            return list(advice_notes(advice, self.target))
        if advice is not None:
            return [choice_note(advice, self.target)]
        return [f"{TRANSFORMS[name].label(self.target)} is fitted, as asked for"]

    def predict(self, frame: IntoDataFrame) -> Vector:
        """Return the prediction for each row; the target may be absent."""
        blocks = [self.regressor_.predict(self._named(block)) for block in self._blocks(frame)]
        return np.concatenate(blocks) if blocks else np.empty(0)

    def predict_interval(self, frame: IntoDataFrame, coverage: float = 0.9) -> Matrix:
        """Return lower and upper bounds for clean rows, shape (rows, 2)."""
        bounds = [
            self.regressor_.predict_interval(self._named(block), coverage)
            for block in self._blocks(frame)
        ]
        return np.concatenate(bounds) if bounds else np.empty((0, 2))

    def judged(self, frame: Any) -> JudgedTable:
        """Return a table beside what the model thinks of its rows; it needs the target."""
        check_is_fitted(self)
        table = as_table(frame)
        target = response(table, self.target, self.recipe_.target_reading)
        used = ~np.isnan(target.y)
        wrong = self._wrong_targets(table, target)
        if not used.any() and wrong is None:
            raise TableError(f"no row has a value of the target {self.target!r}")
        X = self._named(self._preprocessor().matrix(table.filter(pa.array(used))))
        return JudgedTable(self, table, used, X, target.y[used], wrong)

    def judged_rows(self, table: pa.Table, rows: TrainingRows, origins: Any) -> JudgedTable:
        """Return the table of the fit beside what the model thinks of its rows."""
        return JudgedTable(self, table, rows.used, rows.X, rows.y, rows.wrong, origins)

    def with_target(self, table: pa.Table) -> NDArray[np.bool_]:
        """Return which rows of a table have a target that the model takes."""
        return ~np.isnan(response(table, self.target, self.recipe_.target_reading).y)

    def decided(self, table: pa.Table, path: Path, decisions: Mapping[int, Decision]) -> Decided:
        """Bring decisions, read from `path`, to the rows of a table."""
        given = response(table, self.target, self.recipe_.target_reading).given
        names = row_names(table, self.row_id).to_pylist()
        return decide_rows(path, decisions, names, given, self.target)

    def _fitted(self, rows: TrainingRows) -> tuple[SelfPacedRegressor, list[Warning | str]]:
        """Return a fitted model, and its warnings, which are due only if it is taken."""
        template = self.regressor or SelfPacedRegressor()
        transform = TRANSFORMS.get(template.target_transform, IDENTITY)
        complaint = transform.complaint(rows.y, np.flatnonzero(rows.used))
        if complaint is not None and rows.rejected is None:
            raise TableError(f"the target {self.target!r}: {complaint}")
        # Not scikit-learn's clone: callbacks and connections to a cluster have no copies.
        model = SelfPacedRegressor(**template.get_params(deep=False))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(
                rows.X,
                rows.y,
                batches=rows.batches,
                trusted=rows.trusted,
                rejected=rows.rejected,
            )
        return model, [each.message for each in caught]


def _err_more_where_filled(rows: TrainingRows, fitted: Any) -> bool:
    """Whether rows with filled-in values, among those kept, have larger errors than the others."""
    flags = [name for name in rows.X.columns if str(name).endswith(IS_MISSING)]
    filled = np.asarray(rows.X[flags], dtype=np.float64).any(axis=1)
    kept = np.asarray(fitted.weights_) >= 0.5
    if not (filled & kept).any() or not (kept & ~filled).any():
        return False
    error = np.abs(rows.y - fitted.predict(rows.X))
    usual = float(np.mean(error[kept & ~filled]))
    return float(np.mean(error[kept & filled])) > FILLED_ERRORS * usual
