"""Self-paced linear regression as a scikit-learn estimator."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from easyfirst.callbacks import Callback
from easyfirst.consensus.admm import AdmmSettings
from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.polish import polish
from easyfirst.consensus.rounds import RoundSettings, RoundsResult, run
from easyfirst.consensus.statistics import Objective, StackedStatistics
from easyfirst.contracts import Engine, Vector
from easyfirst.engines import Inline, Threads
from easyfirst.errors import RankWarning
from easyfirst.estimators import validation
from easyfirst.estimators.watching import Watch
from easyfirst.local.passes import Frame
from easyfirst.local.steps import Problem
from easyfirst.losses import Loss, Squared
from easyfirst.penalties import NoPenalty, Penalty, Ridge
from easyfirst.regularizers import Hard, SelfPacedRegularizer
from easyfirst.schedules import Geometric, PaceSchedule, Quantile
from easyfirst.sources import ArraySource


class SelfPacedRegressor(RegressorMixin, BaseEstimator):
    """Linear regression that fits the easy rows first and keeps corrupted rows out.

    Distributed Self-Paced Learning: the rows are split into batches; every round weighs each
    row by its own loss and the current pace, fits all batches to one consensus model, and lets
    the pace grow.

    Parameters
    ----------
    pace
        A schedule from `easyfirst.schedules`. None lets in a growing share of the rows,
        whatever the scale of y.
    regularizer
        How a row's loss becomes its weight, from `easyfirst.regularizers`. None: `Hard()`.
    loss
        None: `Squared()`, the only loss so far.
    penalty
        What large coefficients cost, from `easyfirst.penalties`. None: nothing. The intercept
        is never penalised.
    solver
        "admm" iterates towards consensus as the paper does; "gram" adds up the Gram matrices
        of all batches and solves once, with the same result. "auto" takes "gram" where the
        loss and the penalty are quadratic.
    rho
        Strength of the pull towards consensus: "auto" follows the data, "adaptive" is moved by
        the paper's rule, a number is taken as it is.
    over_relaxation
        Between 0 and 2; 1 is plain ADMM.
    n_batches
        Split the rows into this many batches. None: one batch per 16,384 rows.
    weights_from
        Judge a row by the "consensus" coefficients or, as the paper does, by those of its own
        "batch". They differ only while the batches disagree.
    update_weights
        Weigh the rows once per "round" or after every consensus "iteration".
    fit_intercept
        Whether to fit an intercept.
    max_rounds, max_iter
        Limits on the self-paced rounds, and on the consensus iterations within one.
    tol
        Rounds end when the pace is final and at most this share of the weight still changes;
        consensus iterations end when the optimality conditions hold to a hundredth of it.
    polish
        Solve once more, exactly, for the final weights. "auto" does so where a closed form
        exists; False returns the consensus as the last round left it.
    engine
        "threads", "inline", or an engine instance.
    n_jobs
        Threads of the "threads" engine; None uses every core.
    random_state
        Seed for whatever a schedule draws at random; the present schedules draw nothing.
    callbacks
        Objects with methods of `easyfirst.callbacks.Callback`; one may end the fit.
    verbose
        0 is silent, 1 logs each round to standard error.

    Attributes
    ----------
    coef_, intercept_
        The consensus model.
    weights_
        The self-paced weight of each training row, in [0, 1].
    selected_
        Which rows have a weight of at least one half.
    pace_
        The final pace, in units of the loss.
    status_
        How the fit ended: `code`, `message`, `converged`.
    history_
        One record per round and per iteration; `history_.to_frame()`.
    n_rounds_, n_iter_
        Rounds after the first fit of all rows; consensus iterations in all rounds.
    n_features_in_, feature_names_in_
        The columns seen by fit.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(10.0)[:, None]
    >>> y = 2.0 * X[:, 0] + 1.0
    >>> y[7] = -50.0
    >>> model = SelfPacedRegressor().fit(X, y)
    >>> float(model.coef_[0]), float(model.intercept_)
    (2.0, 1.0)
    >>> model.selected_.tolist().index(False)
    7
    """

    def __init__(
        self,
        *,
        pace: PaceSchedule | None = None,
        regularizer: SelfPacedRegularizer | None = None,
        loss: Loss | None = None,
        penalty: Penalty | None = None,
        solver: Literal["auto", "admm", "gram"] = "auto",
        rho: Literal["auto", "adaptive"] | float = "auto",
        over_relaxation: float = 1.0,
        n_batches: int | None = None,
        weights_from: Literal["consensus", "batch"] = "consensus",
        update_weights: Literal["round", "iteration"] = "round",
        fit_intercept: bool = True,
        max_rounds: int = 200,
        max_iter: int = 1000,
        tol: float = 1e-6,
        polish: Literal["auto"] | bool = "auto",
        engine: str | Engine = "threads",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        callbacks: Sequence[Callback] | None = None,
        verbose: int = 0,
    ) -> None:
        self.pace = pace
        self.regularizer = regularizer
        self.loss = loss
        self.penalty = penalty
        self.solver = solver
        self.rho = rho
        self.over_relaxation = over_relaxation
        self.n_batches = n_batches
        self.weights_from = weights_from
        self.update_weights = update_weights
        self.fit_intercept = fit_intercept
        self.max_rounds = max_rounds
        self.max_iter = max_iter
        self.tol = tol
        self.polish = polish
        self.engine = engine
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    @classmethod
    def paper(cls, **overrides: Any) -> Self:
        """Return the configuration of the paper; keyword arguments override parts of it."""
        settings: dict[str, Any] = {
            "pace": Geometric(start=0.1, factor=1.1, ceiling=1.0),
            "regularizer": Hard(),
            "penalty": Ridge(1.0),
            "solver": "admm",
            "fit_intercept": False,
            "weights_from": "batch",
            "polish": False,
        }
        return cls(**(settings | overrides))

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, batches: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            Rows by features: NumPy, SciPy sparse, pandas, polars or pyarrow.
        y
            One number per row.
        sample_weight
            How much each row counts: 2 is the same as the row twice, 0 as no row.
        batches
            An id per row: rows with the same id form a batch.
        """
        settings = self._checked_settings()
        source = validation.training_source(self, X, y, sample_weight, batches, self.n_batches)
        problem = Problem(
            frame=Frame(bool(self.fit_intercept)),
            loss=self.loss or Squared(),
            regularizer=self.regularizer or Hard(),
        )
        objective = Objective(self.penalty or NoPenalty(), bool(self.fit_intercept))
        with (
            Watch(self.callbacks, self.verbose, settings.max_rounds) as watch,
            self._engine().open(source.partitions()) as workers,
        ):
            fleet = Fleet.meet(workers, problem)
            result = run(fleet, objective, settings, watch.on_round)
            z = result.solution.z
            if self.polish:
                z = polish(fleet, objective, result.statistics, result.weightings, z)
            self._store(result, fleet.problem.frame, z)
            self.weights_ = _in_row_order(source, fleet.weights(result.weightings))
            watch.status = result.status
        self.selected_ = self.weights_ >= 0.5
        self._warn(result.statistics, result.solution.rank)
        return self

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

    def _store(self, result: RoundsResult, frame: Frame, z: Vector) -> None:
        self.coef_, self.intercept_ = frame.to_user(z)
        self.pace_ = result.pace.value
        self.status_ = result.status
        self.history_ = result.history
        self.n_rounds_ = len(result.history.rounds) - 1
        self.n_iter_ = len(result.history.iterations)

    def _warn(self, stats: StackedStatistics, rank: int) -> None:
        if not self.status_.converged:
            warnings.warn(self.status_.message, ConvergenceWarning, stacklevel=3)
        size = stats.rhs.shape[1]
        if rank < size:
            constant = self._constant_columns(stats)
            blame = f" ({constant})" if constant else ""
            warnings.warn(
                f"The kept rows determine only {rank} of {size} coefficients{blame}; the others "
                f"were chosen for the least norm. Drop redundant columns, add rows, or use "
                f"penalty=Ridge(...).",
                RankWarning,
                stacklevel=3,
            )

    def _constant_columns(self, stats: StackedStatistics) -> str:
        """Name the columns without spread among the kept rows."""
        gram = stats.pooled_gram[: self.n_features_in_]
        center = np.square(gram[:, -1]) / stats.pooled_gram[-1, -1] if self.fit_intercept else 0.0
        diagonal = np.diagonal(gram)
        flat = np.flatnonzero(diagonal - center <= 1e-12 * diagonal)
        names = getattr(self, "feature_names_in_", [f"column {j}" for j in range(len(diagonal))])
        if flat.size == 0:
            return ""
        return f"constant: {', '.join(str(names[j]) for j in flat[:5])}"

    def _engine(self) -> Engine:
        if self.engine == "threads":
            return Threads(self.n_jobs)
        if self.engine == "inline":
            return Inline()
        if hasattr(self.engine, "open") and not isinstance(self.engine, str):
            return self.engine
        raise ValueError(
            f"engine must be 'threads', 'inline' or an engine instance, got {self.engine!r}"
        )

    def _checked_settings(self) -> RoundSettings:
        """Check the parameters once, here, and hand them on as values."""
        _require_instance("pace", self.pace, PaceSchedule)
        _require_instance("regularizer", self.regularizer, SelfPacedRegularizer)
        _require_instance("loss", self.loss, Loss)
        _require_instance("penalty", self.penalty, Penalty)
        _require_choice("solver", self.solver, "auto", "admm", "gram")
        _require_choice("weights_from", self.weights_from, "consensus", "batch")
        _require_choice("update_weights", self.update_weights, "round", "iteration")
        _require_choice("polish", self.polish, "auto", True, False)
        _require_whole("max_rounds", self.max_rounds)
        _require_whole("max_iter", self.max_iter)
        if self.n_batches is not None:
            _require_whole("n_batches", self.n_batches)
        if isinstance(self.rho, str):
            _require_choice("rho", self.rho, "auto", "adaptive")
        elif not (math.isfinite(self.rho) and self.rho > 0):
            raise ValueError(f"rho must be > 0, 'auto' or 'adaptive', got {self.rho!r}")
        if not 0 < self.over_relaxation < 2:
            raise ValueError(
                f"over_relaxation must lie between 0 and 2, got {self.over_relaxation!r}"
            )
        if not 0 < self.tol < 1:
            raise ValueError(f"tol must lie between 0 and 1, got {self.tol!r}")
        return RoundSettings(
            schedule=self.pace or Quantile(),
            solver=self._solver(),
            admm=AdmmSettings(
                self.rho, float(self.over_relaxation), int(self.max_iter), self.tol * 1e-2
            ),
            weights_from=self.weights_from,
            update_weights=self.update_weights,
            max_rounds=int(self.max_rounds),
            tol=float(self.tol),
        )

    def _solver(self) -> Literal["admm", "gram"]:
        closed_form = (self.penalty or NoPenalty()).quadratic_strength is not None
        if self.solver == "auto":
            return "gram" if closed_form else "admm"
        if self.solver == "gram" and not closed_form:
            raise ValueError(
                f"solver='gram' needs a quadratic penalty, got {self.penalty!r}; use solver='admm'"
            )
        return self.solver


def _in_row_order(source: ArraySource, weights: list[Vector]) -> Vector:
    ordered = np.empty(source.X.shape[0])
    for rows, values in zip(source.rows(), weights, strict=True):
        ordered[rows] = values
    return ordered


def _require_instance(name: str, value: object, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        module = kind.__module__
        raise TypeError(f"{name} must be None or an instance from {module}, got {value!r}")


def _require_choice(name: str, value: object, *allowed: object) -> None:
    if not any(value is choice or value == choice for choice in allowed):
        listed = ", ".join(repr(choice) for choice in allowed)
        raise ValueError(f"{name} must be one of {listed}, got {value!r}")


def _require_whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number >= 1, got {value!r}")
