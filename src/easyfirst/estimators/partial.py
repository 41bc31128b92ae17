"""Fitting batches as they arrive, with a state that does not grow."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from easyfirst.consensus.fitted import Calibration
from easyfirst.consensus.streams.drift import BatchSummary, Drift
from easyfirst.consensus.streams.stream import Reservoir, Stream, contradicts
from easyfirst.contracts import Matrix, Vector
from easyfirst.errors import DriftWarning
from easyfirst.estimators import parameters, validation
from easyfirst.estimators.availability import where
from easyfirst.estimators.reporting import rows_digest
from easyfirst.local.design import dense
from easyfirst.noise.model import t_weight
from easyfirst.penalties import NoPenalty

MOST_ALARMS = 100  # that are kept
CORRECTIONS = 2  # of the sums: weights follow the coefficients, and these the weights


def take_over(model: Any, X: Any, y: Any) -> None:
    """Fit rows as `fit` does, and take over what was found."""
    inner = clone(model).set_params(n_batches=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inner.fit(X, y)
    own = {"n_features_in_", "feature_names_in_", *inner.get_params(deep=False)}
    for name, value in vars(inner).items():
        if name not in own:
            setattr(model, name, value)


def watch(model: Any, stream: Stream, summary: BatchSummary) -> None:
    """Keep what a batch looks like, and say so if it differs from those before."""
    stream.summaries.append(summary)
    model.batch_clean_share_ = np.array([each.clean_share for each in stream.summaries])
    drift = stream.watch.look(summary)
    if drift is not None:
        model.drift_ = (*model.drift_, drift)[-MOST_ALARMS:]
        # Of the line that called partial_fit.
        warnings.warn(f"{drift} Check the batches since.", DriftWarning, stacklevel=4)


def _streams(model: Any) -> bool:
    """Return whether sums over weighted rows can honour the settings."""
    strength = getattr(model.penalty or NoPenalty(), "quadratic_strength", None)
    is_plain = model.pace is None and model.loss is None and model.target_transform != "auto"
    return is_plain and strength is not None


class PartialFitMixin:
    """`partial_fit` for linear regression with the calibrated pace."""

    coef_: Vector
    intercept_: float
    weights_: Vector
    _calibration: Calibration

    @where(_streams)
    def partial_fit(self, X: Any, y: Any, half_life: float | None = None) -> Self:
        """Take in one more batch of rows.

        There with `pace=None`, `loss=None`, no penalty or `Ridge`, and a `target_transform` other
        than "auto".

        What is kept of the rows seen does not grow with their number: weighted sums, and a
        sample of 10,000 rows. The sample is fitted as `fit` does, anew whenever a quarter of it has
        changed, and tells clean rows from others; the sums hold what all clean rows said. Where
        rows of the sample are judged otherwise than when they came, the sums are corrected by what
        these stand for; where they contradict the sample, as after a bad beginning, they begin
        again from it.

        Afterwards `weights_` and `selected_` are those of the rows of this batch,
        `batch_clean_share_` those of the last 100 batches, and `drift_` the changes noticed so far.

        Parameters
        ----------
        X, y
            The rows of the batch, in memory and dense, with one number each.
        half_life
            After so many rows, a row counts half. None: all rows count the same.

        Warns
        -----
        DriftWarning
            The clean share or the noise of new batches has changed beyond chance.

        Examples
        --------
        >>> import numpy as np
        >>> from easyfirst import SelfPacedRegressor
        >>> rng = np.random.default_rng(0)
        >>> model = SelfPacedRegressor()
        >>> for _ in range(5):
        ...     X = rng.normal(size=(200, 2))
        ...     y = X @ [1.0, 2.0] + 0.1 * rng.normal(size=200)
        ...     y[:40] += rng.uniform(5.0, 20.0, 40)
        ...     model = model.partial_fit(X, y)
        >>> np.round(model.coef_, 1).tolist()
        [1.0, 2.0]
        >>> int(np.sum(~model.selected_))
        40
        """
        model: Any = self
        parameters.checked(model)
        if half_life is not None and not half_life > 0:
            raise ValueError(f"half_life must be a number of rows > 0, got {half_life!r}")
        stream: Stream | None = vars(self).get("_stream")
        if stream is None:
            source = validation.training_source(model, X, y, None, None, None)
            rows, target = dense(source.X), source.y
            stream = Stream(Reservoir(parameters.seed(model.random_state)))
            self.drift_: tuple[Drift, ...] = ()
        else:
            rows = dense(validation.prediction_rows(model, X))
            target = validation.judged_target(y, rows)
        stays = stream.reservoir.add(rows, target, half_life)
        self._learn(stream, rows, target, stays, half_life)
        self._stream = stream
        self._conclude(stream, rows, target)
        return self

    def _learn(
        self, stream: Stream, rows: Matrix, target: Vector, stays: Any, half_life: float | None
    ) -> None:
        """Fit the reservoir anew if that is due, and bring the sums up to date."""
        model: Any = self
        held, is_due = stream.reservoir, stream.is_due
        fitted = self._renew(stream) if is_due else None
        if is_due and fitted is None:
            return
        if stream.sums is not None:
            values = model._transform.of(target)
            stream.add(rows, values, self._counts(rows, target), stays, half_life)
        for _ in range(CORRECTIONS if is_due else 0):
            self._correct(stream)
        self._solve(stream)
        if fitted is not None and held.seen == held.y.size:
            self.coef_, self.intercept_ = fitted  # of all rows seen, by all that a fit does

    def _renew(self, stream: Stream) -> tuple[Vector, float] | None:
        """Fit the reservoir, and give up the sums where it contradicts them.

        Returns its coefficients, and None where there are too few rows to tell clean ones.
        """
        before = None if stream.sums is None else (self.coef_, self.intercept_)
        fitted = self._fit_reservoir(stream.reservoir)
        is_known = hasattr(self, "_calibration")
        if not is_known or before is None or self._contradicts(stream.reservoir, before, fitted):
            stream.sums = None
        else:
            self.coef_, self.intercept_ = before  # of more rows; weights follow them
        return fitted if is_known else None

    def _correct(self, stream: Stream) -> None:
        """Let the rows of the reservoir count in the sums as they look now."""
        model: Any = self
        held = stream.reservoir
        assert held.X is not None
        values, counts = model._transform.of(held.y), self._counts(held.X, held.y)
        stream.correct(values, counts, bool(model.fit_intercept))
        self._solve(stream)

    def _solve(self, stream: Stream) -> None:
        """Take over the coefficients that the sums make."""
        model: Any = self
        assert stream.sums is not None
        penalty = float((model.penalty or NoPenalty()).quadratic_strength)
        self.coef_, self.intercept_ = stream.sums.solved(penalty)

    def _contradicts(
        self, held: Reservoir, ours: tuple[Vector, float], theirs: tuple[Vector, float]
    ) -> bool:
        """Return whether the coefficients of the sums differ from the reservoir's beyond chance."""
        assert held.X is not None
        clean = held.y.size * float(self._calibration.noise.share)
        return contradicts(held.X, ours, theirs, self._noise_scale(), clean)

    def _fit_reservoir(self, held: Reservoir) -> tuple[Vector, float]:
        """Fit the reservoir as `fit` does, and take over what was found."""
        self.__dict__.pop("_calibration", None)
        take_over(self, held.X, held.y)
        return self.coef_, self.intercept_

    def _counts(self, rows: Matrix, target: Vector) -> Vector:
        """Return how much rows count: in the tails of heavy-tailed noise they pull less."""
        weights, scaled = self._weighed(rows, target)
        noise = self._calibration.noise
        side = np.where(scaled < noise.center, noise.below, noise.above)
        return weights * t_weight(np.square((scaled - noise.center) / side), noise.dof)

    def _weighed(self, rows: Matrix, target: Vector) -> tuple[Vector, Vector]:
        """Return the weights of rows by the model as it is, and their residuals in row scales."""
        model: Any = self
        known, fitted = self._calibration, model._transform.of(target)
        scaled = (fitted - model._linear(rows)) / known.scale_rule.of(rows)
        return np.where(known.is_aside(fitted), 0.0, known.noise.posterior(scaled)), scaled

    def _conclude(self, stream: Stream, rows: Matrix, target: Vector) -> None:
        """Judge the rows of the batch, and say so if it differs from those before."""
        if not hasattr(self, "_calibration"):
            self.weights_, self.selected_ = np.ones(target.size), np.ones(target.size, dtype=bool)
            return
        weights, scaled = self._weighed(rows, target)
        self.weights_, self.selected_ = weights, weights >= 0.5
        self._rows_digest = rows_digest(rows, target)
        watch(self, stream, BatchSummary.of(weights, scaled / self._noise_scale()))

    def _noise_scale(self) -> float:
        return max(float(self._calibration.noise.scale), 1e-300)
