"""What all baselines share: checked input, batches, fitted attributes, prediction."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from easyfirst.baselines.checks import require_choice
from easyfirst.baselines.rows import Mask, Rows, centre_of, to_user
from easyfirst.consensus.status import Status
from easyfirst.contracts import Matrix, Resident, Vector
from easyfirst.errors import RankWarning
from easyfirst.estimators import clusters, validation
from easyfirst.estimators.clusters import SharedEngineMixin
from easyfirst.sources.arrays import ArrayPartition, ArraySource, rows_by_id


@dataclass(frozen=True, eq=False)
class RowsFit:
    """The fit of one batch: coefficients of its design, kept rows, and how it went.

    `runs` are the coefficients of all runs, one per row, where a method makes several;
    `last_pace` is where a pace ended, where a method has one.
    """

    coef: Vector
    selected: Mask
    n_iter: int = 1
    converged: bool = True
    rank: int | None = None
    runs: Matrix | None = None
    last_pace: float | None = None


class LinearBaseline(SharedEngineMixin, RegressorMixin, BaseEstimator):
    """A linear model fitted to all rows at once, or to each batch and then combined.

    A method says how it fits one batch (`_fit_rows`) and, unless the mean is meant, how the
    batches become one model (`_combine`).

    Attributes
    ----------
    coef_, intercept_
        The combined model.
    batch_coef_, batch_intercept_
        The model of each batch, in the order of the sorted ids; one row for a pooled fit.
    selected_
        Which rows the fit of their batch kept.
    n_iter_
        Iterations of the batch that took most.
    status_
        How the fit ended: `code`, `message`, `converged`.
    """

    scope: str = "batches"
    fit_intercept: bool = True
    engine: Any = "inline"

    def fit(self, X: Any, y: Any = None, *, batches: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            Rows by features, dense or sparse.
        y
            One number per row.
        batches
            An id per row; each batch is then fitted on its own. None: one batch.
        """
        return self._fit(X, y, None, batches)

    def predict(self, X: Any) -> Vector:
        """Return the prediction for each row."""
        check_is_fitted(self)
        rows = validation.prediction_rows(self, X)
        return np.asarray(rows @ self.coef_ + self.intercept_)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what this estimator takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @abstractmethod
    def _fit_rows(self, rows: Rows, index: int) -> RowsFit:
        """Fit the batch with this index."""

    def _check_parameters(self, n_batches: int) -> None:
        """Raise where a parameter makes no sense."""
        require_choice("scope", self.scope, "batches", "pooled")

    def _combine(self, coefs: Matrix) -> Vector:
        """Return the model that the batches' coefficients become."""
        return np.asarray(coefs.mean(axis=0))

    def _counts(self, index: int) -> bool:
        """Return whether a batch has a part in the combined model."""
        return True

    def _fit(self, X: Any, y: Any, sample_weight: Any, batches: Any) -> Self:
        source = validation.training_source(self, X, y, sample_weight, batches, None)
        parts = _parts(source, self.scope)
        self._check_parameters(len(parts))
        center = centre_of(source.X, source.sample_weight, self.fit_intercept)
        fits = self._fit_parts(source, parts, center)
        coefs = np.array([fit.coef for fit in fits])
        self._store(coefs, center)
        self._store_runs(fits, center)
        self.selected_ = np.zeros(source.X.shape[0], dtype=bool)
        for index, (part, fit) in enumerate(zip(parts, fits, strict=True)):
            self.selected_[part] = fit.selected & self._counts(index)
        self._report(fits)
        return self

    def _fit_parts(
        self, source: ArraySource, parts: Sequence[Any], center: Vector | None
    ) -> list[RowsFit]:
        """Fit every batch where the engine has it."""
        there: Any = clone(self)
        there.engine = "inline"  # what is sent to a worker must not hold the way to it
        arrays = (source.X, source.y, source.sample_weight)
        batches = [ArrayPartition(*arrays, part) for part in parts]
        with clusters.find_engine(self.engine, None, source).open(batches) as workers:
            fits: list[RowsFit] = workers.map(_fit_batch, range(len(parts)), (there, center))
        return fits

    def _store(self, coefs: Matrix, center: Vector | None) -> None:
        self.batch_coef_, self.batch_intercept_ = to_user(coefs, center)
        slopes, intercepts = to_user(self._combine(coefs)[None, :], center)
        self.coef_, self.intercept_ = slopes[0], float(intercepts[0])

    def _store_runs(self, fits: Sequence[RowsFit], center: Vector | None) -> None:
        """Set attributes that only this method has."""

    def _report(self, fits: Sequence[RowsFit]) -> None:
        """Say how the fits ended, and warn where a user should know."""
        self.n_iter_ = max(fit.n_iter for fit in fits)
        self.status_ = _status(fits, self.n_iter_)
        if not self.status_.converged:
            warnings.warn(self.status_.message, ConvergenceWarning, stacklevel=4)
        short = [fit for fit in fits if fit.rank is not None and fit.rank < fit.coef.size]
        if short:
            warnings.warn(
                f"In {len(short)} of {len(fits)} batches the kept rows determine only "
                f"{min(fit.rank or 0 for fit in short)} of {short[0].coef.size} coefficients; "
                f"the others are those of the minimum-norm solution. Drop redundant columns or "
                "add rows.",
                RankWarning,
                stacklevel=4,
            )


class WeightedBaseline(LinearBaseline):
    """A baseline for which the importance of a row has a meaning."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, batches: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            Rows by features, dense or sparse.
        y
            One number per row.
        sample_weight
            How much each row counts: 2 is the same as the row twice, 0 as no row.
        batches
            An id per row; each batch is then fitted on its own. None: one batch.
        """
        return self._fit(X, y, sample_weight, batches)


def _parts(source: ArraySource, scope: str) -> Sequence[Any]:
    """Return the rows of each batch, without batches that have no weight."""
    if source.batches is None or scope == "pooled":
        return [slice(0, source.X.shape[0])]
    parts = rows_by_id(source.batches)
    if source.sample_weight is None:
        return parts
    return [part for part in parts if np.any(source.sample_weight[part] > 0)]


def _fit_batch(
    resident: Resident, index: int, method: tuple[LinearBaseline, Vector | None]
) -> RowsFit:
    """Fit one batch: a step for the workers of an engine."""
    model, center = method
    batch = resident.batch
    return model._fit_rows(Rows.of(batch.X, batch.y, batch.sample_weight, center), index)


def _status(fits: Sequence[RowsFit], n_iter: int) -> Status:
    unconverged = sum(not fit.converged for fit in fits)
    if not unconverged:
        return Status("converged", f"Converged after {n_iter} iterations.", converged=True)
    return Status(
        "max_iter",
        f"{unconverged} of {len(fits)} batches had not converged after {n_iter} iterations; "
        f"raise max_iter or tol.",
        converged=False,
    )
