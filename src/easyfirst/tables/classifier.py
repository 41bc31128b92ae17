"""A self-paced classification of raw tables: preprocessing and model in one."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from narwhals.typing import IntoDataFrame
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from easyfirst.contracts import Matrix
from easyfirst.estimators import SelfPacedClassifier
from easyfirst.report.wording import count
from easyfirst.tables import labels, values
from easyfirst.tables.base import TableBase, TrainingRows, as_table, row_names
from easyfirst.tables.column_reading import Reading
from easyfirst.tables.deciding import Decided, decide_rows
from easyfirst.tables.decisions import Decision
from easyfirst.tables.errors import TableError, require_column
from easyfirst.tables.judged_labels import JudgedLabelTable
from easyfirst.tables.kinds import table_hints
from easyfirst.tables.planning import make_recipe
from easyfirst.tables.targets import TargetWarning

if TYPE_CHECKING:
    from easyfirst.report.labels import LabelSummary
    from easyfirst.tables.model import TableModel


class TableClassifier(ClassifierMixin, TableBase):
    """Fit a `SelfPacedClassifier` to a table as it is: numbers, categories, dates, missing values.

    Labels are texts; numbers and truth values in the target become such. Labels that differ in
    capitals alone are one class. A label of few rows that is a slip away from a frequent one is
    not fitted, and listed as wrong.

    Parameters
    ----------
    target
        The column with the labels.
    features, exclude, row_id, batches, decimal, thousands
        As for `TableModel`.
    classifier
        The model to fit, unfitted; None is `SelfPacedClassifier()`.

    Attributes
    ----------
    recipe_
        How the columns become numbers, and why some were left out.
    classifier_
        The fitted model.
    classes_
        The labels, in order.
    notes_
        What happened to the table, in sentences.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> size = np.arange(500) % 50
    >>> fruit = pd.DataFrame({"size": size, "kind": np.where(size < 25, "plum", "melon")})
    >>> fruit.loc[3::10, "kind"] = np.where(size[3::10] < 25, "melon", "plum")  # wrong
    >>> found = TableClassifier("kind").fit(fruit).suspects(fruit)
    >>> len(found)  # of 50: ten have a size that either kind may have
    40
    """

    def __init__(
        self,
        target: str,
        *,
        features: tuple[str, ...] | None = None,
        exclude: tuple[str, ...] = (),
        row_id: str | None = None,
        batches: str | None = None,
        classifier: SelfPacedClassifier | None = None,
        decimal: str | None = None,
        thousands: str | None = None,
    ) -> None:
        self.target = target
        self.features = features
        self.exclude = exclude
        self.row_id = row_id
        self.batches = batches
        self.classifier = classifier
        self.decimal = decimal
        self.thousands = thousands

    @classmethod
    def in_place_of(cls, model: TableModel) -> Self:
        """Return a classifier for the columns of a regression, with the same settings."""
        template = model.regressor
        shared = {} if template is None else template.get_params(deep=False)
        known = SelfPacedClassifier().get_params(deep=False).keys() - {"pace", "regularizer"}
        return cls(
            model.target,
            features=model.features,
            exclude=model.exclude,
            row_id=model.row_id,
            batches=model.batches,
            classifier=SelfPacedClassifier(
                **{name: value for name, value in shared.items() if name in known}
            ),
            decimal=model.decimal,
            thousands=model.thousands,
        )

    @property
    def fitted(self) -> SelfPacedClassifier:
        """The fitted model inside."""
        return self.classifier_

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in order."""
        return np.asarray(self.classifier_.classes_)

    def prepare(self, frame: Any) -> TrainingRows:
        """Decide how the columns become numbers, and return the rows that have a label."""
        table = as_table(frame)
        self._require_columns(table)
        hints = table_hints(table, self.decimal, self.thousands)
        column = values.plain(table[self.target])
        codes = labels.missing_codes(column, hints)
        found, notes = labels.unified(labels.label_texts(column, codes=codes.codes))
        if codes.said:
            notes.append(f"target {self.target!r}: {codes.said} taken as a missing label")
        labels.require_classes(found, self.target)
        wrong = labels.misspelt_rows(found)
        used = found != np.array(None)
        n_missing = int(np.sum(~used))
        if wrong is not None:
            used[wrong.places] = False
        self._require_rows(used)
        notes.insert(0, labels.classes_note(self.target, found[used]))
        places = np.full(used.size, np.nan)
        places[used] = np.unique(found[used].astype(str), return_inverse=True)[1]
        recipe, more = make_recipe(table, self._choice(), used, places, hints)
        is_text, reading = values.is_text(column.type), Reading(codes=codes.codes)
        self.recipe_ = replace(recipe, has_text_labels=is_text, target_reading=reading)
        self.notes_ = [*self._without_target(n_missing), *notes, *_misspelt(wrong), *more]
        rows = table if used.all() else table.filter(pa.array(used))
        X = self._named(self._preprocessor().matrix(rows))
        texts = rows.select([each.name for each in recipe.categorical])
        self._warn_of_leaks(X, texts, found[used])
        return TrainingRows(X, found[used], used, texts, self._batch_ids(rows), wrong)

    def _warn_of_leaks(self, X: Any, texts: pa.Table, found: NDArray[Any]) -> None:
        numeric = [each.name for each in self.recipe_.numeric]
        every = [(name, np.asarray(X.iloc[:, j])) for j, name in enumerate(numeric)]
        every += [(name, values.categories(texts[name])) for name in texts.column_names]
        for said in labels.leaks(every, found):
            warnings.warn(
                f"{said} of {self.target!r}: leakage? If it is not known when you predict, leave "
                f"it out with --exclude.",
                TargetWarning,
                stacklevel=3,
            )

    def fit_rows(self, rows: TrainingRows) -> TrainingRows:
        """Fit to rows from `prepare`, and return them as they were fitted."""
        template = self.classifier or SelfPacedClassifier()
        # Not scikit-learn's clone: callbacks and connections to a cluster have no copies.
        model = SelfPacedClassifier(**template.get_params(deep=False))
        masks = {"trusted": rows.trusted, "rejected": rows.rejected}
        self.classifier_ = model.fit(rows.X, rows.y.astype(str), batches=rows.batches, **masks)
        self.notes_ += model.notes_
        return rows

    def predict(self, frame: IntoDataFrame) -> NDArray[Any]:
        """Return the most probable label of each row; the target may be absent."""
        if not as_table(frame).num_rows:
            return self.classes_[:0]
        return np.asarray(self.classes_[np.argmax(self.predict_proba(frame), axis=1)])

    def predict_proba(self, frame: IntoDataFrame) -> Matrix:
        """Return the probability of each class, in the order of `classes_`."""
        check_is_fitted(self)
        found = [self.classifier_.predict_proba(self._named(each)) for each in self._blocks(frame)]
        return np.concatenate(found) if found else np.empty((0, self.classes_.size))

    def judged(self, frame: Any) -> JudgedLabelTable:
        """Return a table beside what the model thinks of its labels; it needs the target."""
        check_is_fitted(self)
        table = as_table(frame)
        given, known = self._given(table), self.with_target(table)
        wrong = self._wrong_labels(table, given, known)
        if not known.any() and wrong is None:
            raise TableError(f"no row has a value of the target {self.target!r}")
        X = self._named(self._preprocessor().matrix(table.filter(pa.array(known))))
        return JudgedLabelTable(self, table, known, X, given[known].astype(str), wrong)

    def judged_rows(self, table: pa.Table, rows: TrainingRows, origins: Any) -> JudgedLabelTable:
        """Return the table of the fit beside what the model thinks of its labels."""
        y = rows.y.astype(str)
        return JudgedLabelTable(self, table, rows.used, rows.X, y, rows.wrong, origins)

    def _texts(self, table: pa.Table) -> NDArray[np.object_]:
        """Return the label of every row as it is written."""
        require_column(table, self.target, "target")
        recipe = self.recipe_
        numeric, codes = not recipe.has_text_labels, recipe.target_reading.codes
        return labels.label_texts(table[self.target], numeric, codes)

    def _given(self, table: pa.Table) -> NDArray[np.object_]:
        """Return the label of every row, in the spelling of the fit where that is known."""
        given = self._texts(table)
        spelling = {str(each).casefold(): str(each) for each in self.classes_}
        found = [each if each is None else spelling.get(each.casefold(), each) for each in given]
        return np.array(found, dtype=object)

    def _wrong_labels(
        self, table: pa.Table, given: NDArray[np.object_], known: NDArray[np.bool_]
    ) -> labels.WrongLabels | None:
        places = np.flatnonzero(~known & (given != np.array(None)))
        if not places.size:
            return None
        found = [str(each) for each in given[places]]
        suggested = [str(each) for each in self.predict(table.take(pa.array(places)))]
        reasons = [f"{each!r} is not a class that the model has seen" for each in found]
        return labels.WrongLabels(places, found, suggested, reasons)

    def with_target(self, table: pa.Table) -> NDArray[np.bool_]:
        """Return which rows of a table have a label that the model knows."""
        return np.isin(self._given(table), self.classes_.astype(object))

    def decided(self, table: pa.Table, path: Path, decisions: Mapping[int, Decision]) -> Decided:
        """Bring decisions, read from `path`, to the rows of a table."""
        given, _ = labels.unified(self._texts(table))
        names = row_names(table, self.row_id).to_pylist()
        return decide_rows(path, decisions, names, given, self.target)

    def score(self, frame: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of rows that are predicted as labelled, of those that have a label."""
        check_is_fitted(self)
        given = self._given(as_table(frame)) if y is None else np.asarray(y, dtype=object)
        used = given != np.array(None)
        weight = None if sample_weight is None else np.asarray(sample_weight)[used]
        predicted = self.predict(frame)[used]
        return float(accuracy_score(given[used].astype(str), predicted, sample_weight=weight))

    def summary(self) -> LabelSummary:
        """Return what the fit found; see `SelfPacedClassifier.summary`."""
        check_is_fitted(self)
        found: LabelSummary = self.classifier_.summary()
        return found

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classifier_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False  # it is a column of the table
        tags.input_tags.string = tags.input_tags.allow_nan = True
        return tags


def require_linear(model: TableModel) -> None:
    """Refuse settings of a regression that classes do not have."""
    transform = None if model.regressor is None else model.regressor.target_transform
    if transform in ("log", "sqrt"):
        raise TableError(
            f"the target {model.target!r} holds classes, which have no {transform}: omit "
            f"--log-target and --target-transform, or add --task regression if they are numbers"
        )
    if model.model == "boosting":
        raise TableError(
            f"the target {model.target!r} holds classes, which are fitted by a linear model: omit "
            f"--model boosting, or add --task regression if they are numbers"
        )


def _misspelt(wrong: labels.WrongLabels | None) -> list[str]:
    if wrong is None:
        return []
    return [
        f"{count(len(wrong.places), 'row')} with a misspelt label, such as {wrong.given[0]!r} for "
        f"{wrong.suggested[0]!r}: not fitted, and listed as wrong"
    ]
