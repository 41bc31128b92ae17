"""What a fitted classifier tells people, and how it is passed on."""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from easyfirst import files
from easyfirst.contracts import Vector
from easyfirst.estimators import validation
from easyfirst.estimators.judged_labels import JudgedLabels, judge_new_labels
from easyfirst.estimators.label_serialization import KIND, serialize_classifier
from easyfirst.estimators.reporting import rows_digest
from easyfirst.files.layout import PathLike

# The layer above, loaded by name when somebody asks to see something: no fit needs it.
PRESENTATION = "easyfirst.report.labels"


class LabelReportingMixin:
    """The methods of a fitted classifier that present it, store it and pass it on."""

    classes_: NDArray[Any]

    def judge(self, X: Any, y: Any) -> JudgedLabels:
        """Return what the model thinks of every label, in the order of the rows.

        Rows of the fit keep what the fit thought of them. New ones are judged by the linear model
        alone and the noise that was estimated, which may depend on the columns; a label that was
        never seen is refused.
        """
        check_is_fitted(self)
        model: Any = self
        rows = validation.prediction_rows(model, X)
        given = validation.judged_labels(y, rows, self.classes_)
        known = vars(self).get("_rows_digest")
        if known is not None and "weights_" in vars(self) and rows_digest(rows, given) == known:
            suggested = np.searchsorted(self.classes_, model.suggested_labels_)
            return JudgedLabels(given.astype(np.intp), suggested, model.weights_)
        return self._judged_as_new(rows, given)

    def _judged_as_new(self, rows: Any, given: Vector) -> JudgedLabels:
        """Judge labels of rows that were checked already, as rows that the fit has not seen."""
        model: Any = self
        noise, rates = getattr(self, "label_noise_", None), vars(self).get("_rates_by_columns")
        errors = None if rates is None else rates.errors_of(rows)
        return judge_new_labels(model._probabilities_of(rows), noise, given, errors)

    def suspects(self, X: Any, y: Any = None, top: int | None = None, row_ids: Any = None) -> Any:
        """Return the rows whose labels look wrong, the worst first, each with the reason.

        Parameters
        ----------
        X, y
            Rows of the fit, which keep what the fit thought of them, or new ones. Those of a source
            are judged as new ones, one batch after the other; only suspicious ones are kept.
        top
            Return so many of the worst rows, whether or not they look wrong. None returns every
            row whose label looks wrong.
        row_ids
            A name per row for the column `row_id`. None takes the index of a pandas `X`, and
            otherwise counts the rows from 0.

        Returns
        -------
        frame
            From the library of `X` (pandas, polars or pyarrow), or the first one installed; without
            any, a dict of arrays. The columns, named as in cleanlab, are

            - `row_id`,
            - `is_label_issue`: more likely wrong than right,
            - `label_quality`: the probability that the given label is right,
            - `given_label`, `predicted_label`: the label, and the most probable one,
            - `reason`: a sentence.

        Examples
        --------
        >>> import numpy as np
        >>> from easyfirst import SelfPacedClassifier
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(600, 2))
        >>> right = (X[:, 0] > 0).astype(int)
        >>> y = np.where(rng.random(600) < 0.2, 1 - right, right)
        >>> suspects = SelfPacedClassifier().fit(X, y).suspects(X, y)
        >>> bool(np.mean(right[suspects["row_id"]] != suspects["given_label"]) > 0.95)
        True
        """
        return _presentation().suspects(self, X, y, top, row_ids)

    def summary(self) -> Any:
        """Return what the fit found: print it, or take its `to_frame()` of coefficients."""
        return _presentation().summary(self)

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        X: Any = None,
        y: Any = None,
        *,
        row_ids: Any = None,
        overwrite: bool = False,
    ) -> Any:
        """Show what the fit found as one page of HTML that needs no script and no network.

        Parameters
        ----------
        path
            Where to write; the file appears complete or not at all. None writes none.
        X, y
            The rows of the fit, to list those whose labels look wrong.
        row_ids
            A name per row, as in `suspects`.
        overwrite
            Whether to replace an existing file.

        Returns
        -------
        easyfirst.report.Report
            The page: `html`, `path` and `save(path)`.
        """
        return _presentation().report(self, path, X, y, row_ids=row_ids, overwrite=overwrite)

    def save(self, path: PathLike, *, overwrite: bool = False, weights: bool = True) -> None:
        """Write the fitted model to a file that `easyfirst.load` reads.

        As for `SelfPacedRegressor.save`: numbers and text, never code, with a digest. Models that
        judged the labels of the fit are not stored; what they found is.

        Parameters
        ----------
        path
            Where to write; by convention the name ends in `.safetensors`.
        overwrite
            Whether a file that is already there may be replaced.
        weights
            Whether to store `weights_` and `suggested_labels_` (16 bytes per row).

        Examples
        --------
        >>> import tempfile
        >>> from easyfirst import SelfPacedClassifier, load
        >>> X = [[0.0], [1.0], [2.0], [3.0]]
        >>> model = SelfPacedClassifier().fit(X, ["no", "no", "yes", "yes"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model.safetensors")
        ...     again = load(f"{folder}/model.safetensors")
        >>> again.predict([[2.5]]).tolist()
        ['yes']
        """
        state, arrays = serialize_classifier(self, weights)
        files.write(path, KIND, state, arrays, overwrite)

    def to_sklearn(self) -> LogisticRegression:
        """Return scikit-learn's `LogisticRegression` with these coefficients.

        It makes the same predictions and needs no easyfirst, so whatever works with scikit-learn's
        models (ONNX converters, for one) works with it.
        """
        check_is_fitted(self)
        model: Any = self
        plain = LogisticRegression(fit_intercept=bool(model.fit_intercept))
        plain.classes_ = self.classes_.copy()
        plain.coef_, plain.intercept_ = model.coef_.copy(), model.intercept_.copy()
        plain.n_iter_ = np.array([model.n_iter_], dtype=np.int32)
        plain.n_features_in_ = model.n_features_in_
        if hasattr(model, "feature_names_in_"):
            plain.feature_names_in_ = model.feature_names_in_.copy()
        return plain


def _presentation() -> Any:
    return importlib.import_module(PRESENTATION)
