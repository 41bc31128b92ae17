"""What a fitted model tells people: summary, suspicious rows, report."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from easyfirst.consensus.history import History
from easyfirst.consensus.status import Status
from easyfirst.contracts import Vector
from easyfirst.estimators import validation
from easyfirst.regularizers import SelfPacedRegularizer
from easyfirst.report.facts import facts_of
from easyfirst.report.html import ReportRows, check_target, render, write_page
from easyfirst.report.summary import Summary
from easyfirst.report.suspects import JudgedRows, judge, suspects_frame

ROWS_IN_DIGEST = 256  # rows of X, spread evenly, that tell the rows of a fit from others


class ReportingMixin:
    """The methods of a fitted model that present it."""

    coef_: Vector
    intercept_: float
    pace_: float
    status_: Status
    history_: History
    n_rounds_: int
    fit_intercept: bool
    regularizer: SelfPacedRegularizer | None

    def summary(self, level: float = 0.95) -> Summary:
        """Return what the fit found: print it, or take its `to_frame()`.

        Parameters
        ----------
        level
            Confidence level of the coefficients' intervals.
        """
        check_is_fitted(self)
        return Summary(facts_of(self), level)

    def suspects(self, X: Any, y: Any, top: int | None = None, row_ids: Any = None) -> Any:
        """Return the rows that look wrong, the worst first, each with the reason.

        Rows of the fit are recognised and keep the weight that the fit gave them; any others
        are judged by the fitted model.

        Parameters
        ----------
        X, y
            Rows of the fit, or new ones.
        top
            Return so many of the worst rows, whether or not they look wrong (`is_label_issue`
            tells). None returns every row that looks wrong.
        row_ids
            A name per row for the column `row_id`. None takes the index of a pandas `X`, and
            otherwise counts the rows from 0.

        Returns
        -------
        frame
            From the library of `X` (pandas, polars or pyarrow). For arrays, from the first of
            these that is installed; without any, a dict of arrays. The columns are

            - `row_id`,
            - `is_label_issue`: more likely corrupted than clean,
            - `label_quality`: the probability that the row is clean,
            - `given_label`, `predicted_label`: y, and what the model says,
            - `residual`: given minus predicted, in units of the noise scale,
            - `weight`: the self-paced weight,
            - `entry_pace`: the pace from which the row would have a weight of one half,
            - `reason`: a sentence.

            Without a calibrated pace there is no noise scale and no probability: the residual
            is then in units of the largest residual let in, the root of the pace, and
            `label_quality` is one half where the row would just be let in.

        Examples
        --------
        >>> import numpy as np
        >>> from easyfirst import SelfPacedRegressor
        >>> X = np.arange(50.0)[:, None]
        >>> y = 2.0 * X[:, 0] + np.random.default_rng(0).standard_normal(50)
        >>> y[7] = -50.0
        >>> suspects = SelfPacedRegressor().fit(X, y).suspects(X, y)
        >>> suspects["row_id"].tolist()
        [7]
        >>> suspects["is_label_issue"].tolist()
        [True]
        """
        rows = self.judge(X, y)
        if top is not None and (isinstance(top, bool) or not isinstance(top, int | np.integer)):
            raise TypeError(f"top must be None or a whole number, got {top!r}")
        if top is not None and top < 0:
            raise ValueError(f"top must be >= 0, got {top!r}")
        ids = validation.row_ids(row_ids, X, rows.given.size)
        return suspects_frame(facts_of(self), rows, ids, top, like=X)

    def report(
        self,
        path: str | os.PathLike[str],
        X: Any = None,
        y: Any = None,
        *,
        row_ids: Any = None,
        batches: Any = None,
        show_rows: Any = False,
        overwrite: bool = False,
    ) -> Path:
        """Write what the fit found as one HTML file that needs no script and no network.

        It says first how many rows look wrong and how sure that is, then shows the residuals,
        the suspicious rows, the coefficients, the batches and how the fit went. Needs the extras
        'tool' and 'plot'.

        Parameters
        ----------
        path
            Where to write; the file appears complete or not at all.
        X, y
            The rows of the fit. Without them the page says what the fit alone knows: no
            suspicious rows, and no comparison with least squares.
        row_ids
            A name per row, as in `suspects`.
        batches
            The batch ids that `fit` was given, so that batches have their names.
        show_rows
            Whether the page shows values of suspicious rows: y, the prediction and X. A data
            frame with one line per row is shown in place of X. By default the page holds no
            value of any row, only row ids, residuals in units of the noise, and chances.
        overwrite
            Whether to replace an existing file.

        Returns
        -------
        Path
            Where the page is.
        """
        check_is_fitted(self)
        check_target(Path(path), overwrite)
        if (X is None) != (y is None):
            raise ValueError("a report needs both X and y, or neither")
        rows = None if X is None else self._report_rows(X, y, row_ids, show_rows)
        ids = None if batches is None else validation.batch_ids(batches)
        return write_page(path, render(facts_of(self), rows, ids), overwrite)

    def _report_rows(self, X: Any, y: Any, row_ids: Any, show_rows: Any) -> ReportRows:
        numeric = validation.prediction_rows(self, X)
        judged = self._judge_checked(numeric, y)
        values = None if show_rows is False else numeric if show_rows is True else show_rows
        if values is not None and values.shape[0] != judged.given.size:
            raise ValueError(
                f"show_rows has {values.shape[0]:,} lines for {judged.given.size:,} rows of X"
            )
        ids = validation.row_ids(row_ids, X, judged.given.size)
        return ReportRows(numeric, judged, ids, values)

    def judge(self, X: Any, y: Any) -> JudgedRows:
        """Return residual, weight and more for every row, in the order of the rows.

        `suspects` is the same for reading: the worst rows only, with reasons.
        """
        check_is_fitted(self)
        return self._judge_checked(validation.prediction_rows(self, X), y)

    def _judge_checked(self, X: Any, y: Any) -> JudgedRows:
        target = validation.judged_target(y, X)
        predicted = np.asarray(X @ self.coef_ + self.intercept_)
        weights = getattr(self, "weights_", None)
        known = getattr(self, "_rows_digest", None)
        if weights is None or known is None or rows_digest(X, target) != known:
            weights = None
        return judge(facts_of(self), target, predicted, weights)


def rows_digest(X: Any, y: Vector) -> str:
    """Return a text that tells the rows of a fit, in their order, from others.

    All of y counts, and so many rows of X that a change of a column is noticed.
    """
    digest = hashlib.blake2b(np.ascontiguousarray(y, dtype=np.float64).data, digest_size=16)
    digest.update(repr(X.shape).encode())
    some = X[:: max(1, X.shape[0] // ROWS_IN_DIGEST)][:ROWS_IN_DIGEST]
    dense = some.toarray() if sp.issparse(some) else some
    digest.update(np.ascontiguousarray(dense, dtype=np.float64).data)
    return digest.hexdigest()
