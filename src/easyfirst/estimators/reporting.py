"""What a fitted model tells people: summary, suspicious rows, report."""

from __future__ import annotations

import hashlib
import importlib
import os
from typing import Any, overload

import numpy as np
import scipy.sparse as sp
from narwhals.typing import IntoDataFrameT
from numpy.typing import ArrayLike
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from easyfirst.consensus.fitted import Calibration
from easyfirst.consensus.history import History
from easyfirst.consensus.status import Status
from easyfirst.contracts import Matrix, Source, Vector
from easyfirst.estimators import validation
from easyfirst.estimators.findings import findings_of
from easyfirst.estimators.judging import JudgedRows, judge
from easyfirst.estimators.targets import require_one
from easyfirst.local.design import dense
from easyfirst.losses import Loss, Squared
from easyfirst.regularizers import SelfPacedRegularizer
from easyfirst.transforms import TRANSFORMS
from easyfirst.typing import LazyRows, TableLike, TableOfColumns

ROWS_IN_DIGEST = 256  # rows of X, spread evenly, that tell the rows of a fit from others
# The layer above, loaded by name when somebody asks to see something: no fit needs it.
PRESENTATION = "easyfirst.report.presenting"


class ReportingMixin:
    """The methods of a fitted model that present it."""

    pace_: float
    status_: Status
    target_transform_: str | None
    history_: History
    n_rounds_: int
    regularizer: SelfPacedRegularizer | None

    def _presented_by(self) -> Any:
        """Return the module of the layer above that shows this model."""
        return _presentation()

    def summary(self, level: float = 0.95) -> Any:
        """Return what the fit found: print it, or take its `to_frame()`.

        Parameters
        ----------
        level
            Confidence level of the coefficients' intervals.
        """
        return self._presented_by().summary(self, level)

    @overload
    def suspects(
        self,
        X: IntoDataFrameT,
        y: object = None,
        top: int | None = None,
        row_ids: ArrayLike | None = None,
    ) -> IntoDataFrameT: ...

    @overload
    def suspects(
        self,
        X: TableLike | LazyRows | Source,
        y: object = None,
        top: int | None = None,
        row_ids: ArrayLike | None = None,
    ) -> TableOfColumns: ...

    def suspects(
        self, X: Any, y: Any = None, top: int | None = None, row_ids: ArrayLike | None = None
    ) -> Any:
        """Return the rows that look wrong, the worst first, each with the reason.

        Rows of the fit are recognised and keep the weight that the fit gave them; any others
        are judged by the fitted model.

        Parameters
        ----------
        X, y
            Rows of the fit, or new ones. For rows that stay where they are, the source or the
            dask collections of the fit: only suspicious rows come to this process.
        top
            Return this many of the worst rows, whether or not they look wrong (`is_label_issue`
            tells). None returns every row that looks wrong.
        row_ids
            A name per row for the column `row_id`. None takes the index of a pandas `X` or the
            row ids of a source, and otherwise counts the rows from 0.

        Returns
        -------
        frame
            From the library of `X` (pandas, polars or pyarrow). For arrays, from the first of
            these that is installed; without any, a dict of arrays. The columns are

            - `row_id`,
            - `is_label_issue`: more likely corrupted than clean,
            - `label_quality`: the probability that the row is clean,
            - `given_label`, `predicted_label`: y, and what the model says,
            - `residual`: given minus predicted, in standard deviations of the noise,
            - `weight`: the self-paced weight,
            - `entry_pace`: the pace from which the row would have a weight of one half,
            - `likely_fix`: the simple mistake that explains the value, as what to do about it
              ("divide by 10", "swap with height"), or nothing,
            - `fixed_value`: y after that, missing where the true value is lost,
            - `fix_probability`: of this fix, given the model and the other suspicious rows,
            - `reason`: a sentence.

            Without a calibrated pace there is no noise scale and no probability: the residual
            is then in units of the largest residual selected, the root of the pace, and
            `label_quality` is one half where the row would just be selected.

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
        return self._presented_by().suspects(self, X, y, top, row_ids)

    def to_review(self, X: Any, y: Any, k: int = 20, row_ids: Any = None) -> Any:
        """Return the k rows whose review would change the model most, in that order.

        These are uncertain rows that matter: known to be right or wrong, they would move the fit
        furthest. Give the answers to `fit` as `trusted` and `rejected`. Rows that were trusted or
        rejected before are not asked for again.

        Parameters
        ----------
        X, y
            The rows of the fit.
        k
            How many rows; fewer are returned if fewer are uncertain.
        row_ids
            A name per row, as in `suspects`.

        Returns
        -------
        frame
            With the columns of `suspects`; not every row of it looks wrong.

        Examples
        --------
        >>> import numpy as np
        >>> from easyfirst import SelfPacedRegressor
        >>> X = np.arange(100.0)[:, None]
        >>> y = 2.0 * X[:, 0] + np.random.default_rng(0).uniform(-1.0, 1.0, 100)
        >>> y[[3, 99]] += [50.0, 2.0]  # one beyond doubt, one that may be noise and pulls
        >>> SelfPacedRegressor().fit(X, y).to_review(X, y, k=1)["row_id"].tolist()
        [99]
        """
        return self._presented_by().to_review(self, X, y, k, row_ids)

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        X: Any = None,
        y: Any = None,
        *,
        row_ids: Any = None,
        batches: Any = None,
        show_rows: Any = False,
        show_target: bool = True,
        overwrite: bool = False,
    ) -> Any:
        """Show what the fit found as one page of HTML that needs no script and no network.

        It says first how many rows look wrong and how sure that is, then lists them with their
        reasons and likely fixes; batches, coefficients and how the fit went come last. A notebook
        shows the page in place. Needs the extras 'tool' and 'plot'.

        Parameters
        ----------
        path
            Where to write; the file appears complete or not at all. None writes none.
        X, y
            The rows of the fit. Without them the page says what the fit alone knows: no
            suspicious rows, and no comparison with least squares. For rows that stay where they
            are, the source of the fit: up to 50,000 rows, evenly drawn, come to this process.
        row_ids
            A name per row, as in `suspects`.
        batches
            The batch ids that `fit` was given, so that batches have their names.
        show_rows
            Whether the page shows the columns of suspicious rows. A data frame with one line per
            row is shown in place of X.
        show_target
            Whether the page shows the given and predicted y of suspicious rows, the reasons and
            the fixes. Without them and `show_rows` it holds no value of any row, only row ids,
            residuals in standard deviations, and chances.
        overwrite
            Whether to replace an existing file.

        Returns
        -------
        easyfirst.report.Report
            The page: `html`, `path` and `save(path)`.
        """
        return self._presented_by().report(
            self,
            path,
            X,
            y,
            row_ids=row_ids,
            batches=batches,
            show_rows=show_rows,
            show_target=show_target,
            overwrite=overwrite,
        )


class LinearReportingMixin(ReportingMixin):
    """What only a linear model can tell."""

    coef_: Vector
    intercept_: float
    fit_intercept: bool
    loss: Loss | None

    def _calibrated(self, method: str) -> Calibration:
        """Return the calibration, or say that a method needs one."""
        raise NotImplementedError

    def confidence_intervals(self, level: float = 0.95) -> Any:
        """Return lower and upper bounds of each coefficient and of the intercept.

        Parameters
        ----------
        level
            The share of fits whose bounds hold the true value.

        Returns
        -------
        frame
            One row per coefficient, the intercept last, with the columns `name`, `coef`, `lower`
            and `upper`; a data frame of the first library installed of pandas, polars and
            pyarrow, or without any a dict of arrays.

        Examples
        --------
        >>> import numpy as np
        >>> from easyfirst import SelfPacedRegressor
        >>> X = np.arange(50.0)[:, None]
        >>> y = 2.0 * X[:, 0] + np.random.default_rng(1).standard_normal(50)
        >>> bounds = SelfPacedRegressor().fit(X, y).confidence_intervals()
        >>> list(bounds["name"])
        ['x0', '(intercept)']
        >>> bool(bounds["lower"][0] < 2.0 < bounds["upper"][0])
        True
        """
        calibration = self._calibrated("confidence_intervals")
        if not calibration.has_standard_errors:
            model: Any = self
            raise AttributeError(
                "confidence_intervals needs standard errors, which are known for "
                "regularizer=Entropic() and a smooth penalty: this model has "
                f"regularizer={model.regularizer!r} and penalty={model.penalty!r}"
            )
        return _presentation().confidence_intervals(self, level)

    def judge(
        self,
        X: Any,
        y: Any,
        *,
        blur: Vector | Matrix | None = None,
        weights: Vector | None = None,
    ) -> JudgedRows:
        """Return residual, weight and more for every row, in the order of the rows.

        `suspects` is the same for reading: the worst rows only, with reasons. `blur` is a
        standard deviation per row that its prediction has besides the noise, as where a value of
        X was filled in: what that explains is not held against the row. With two columns, they are
        for rows that lie below their prediction, and above. `weights` are those that
        the fit gave the rows, where these are known; rows of a fit in memory are recognised.
        """
        check_is_fitted(self)
        require_one(self, "judging rows")
        rows = validation.prediction_rows(self, X)
        target = validation.judged_target(y, rows)
        loss = self.loss or Squared()
        linear = np.asarray(rows @ self.coef_ + self.intercept_)
        complaint = loss.complaint(target)
        if complaint is not None:
            raise ValueError(f"loss={loss!r} {complaint}")
        transform = TRANSFORMS[self.target_transform_]
        fitted = transform.of(target)
        calibration = getattr(self, "_calibration", None)
        counts = calibration.counts if calibration is not None else None
        is_count = counts is not None and bool(counts.family)
        residual = loss.signed_root(fitted, fitted - linear)
        known = getattr(self, "_rows_digest", None)
        if weights is None and known is not None and rows_digest(rows, target) == known:
            weights = getattr(self, "weights_", None)
        if counts is not None and is_count:
            residual = counts.residual(fitted, linear)
            weights = counts.posterior(fitted, linear) if weights is None else weights
        findings = findings_of(self)
        own = None if calibration is None else calibration.scale_rule.of(rows)
        predicted = transform.back(loss.mean(linear))
        judged = judge(findings, target, predicted, residual, weights, blur, own)
        return judged if calibration is None else judged.without(calibration.is_aside(fitted))


def _presentation() -> Any:
    return importlib.import_module(PRESENTATION)


def rows_digest(X: Any, y: Vector) -> str:
    """Return a text that tells the rows of a fit, in their order, from others.

    All of y counts, and so many rows of X that a change of a column is noticed.
    """
    digest = hashlib.blake2b(np.ascontiguousarray(y, dtype=np.float64).data, digest_size=16)
    digest.update(repr(X.shape).encode())
    some = _safe_indexing(X, np.arange(0, X.shape[0], max(1, X.shape[0] // ROWS_IN_DIGEST)))
    some = some[:ROWS_IN_DIGEST]
    if sp.issparse(some):
        for row in range(some.shape[0]):  # one by one: all of them may be larger than the data
            digest.update(np.ascontiguousarray(dense(some[row : row + 1])).data)
    elif np.asarray(some).dtype.kind in "biuf":
        digest.update(np.ascontiguousarray(dense(some)).data)
    else:
        digest.update(repr(np.asarray(some).tolist()).encode())
    return digest.hexdigest()
