"""Labels that arrive batch by batch: an even sample of all rows seen is fitted anew when due."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from easyfirst.consensus.streams.drift import BatchSummary, Drift
from easyfirst.consensus.streams.stream import Reservoir, Stream
from easyfirst.contracts import Matrix, Vector
from easyfirst.estimators import validation
from easyfirst.estimators.availability import where
from easyfirst.estimators.parameters import seed
from easyfirst.estimators.partial import take_over, watch
from easyfirst.estimators.reporting import rows_digest
from easyfirst.local.design import dense


def _streams(model: Any) -> bool:
    """Return whether labels are judged, and not only paced."""
    return model.pace is None


class PartialLabelsMixin:
    """`partial_fit` for linear classification that judges its labels."""

    classes_: NDArray[Any]
    weights_: Vector
    batch_clean_share_: Vector

    @where(_streams)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, half_life: float | None = None
    ) -> Self:
        """Take in one more batch of rows; there with `pace=None`.

        What is kept does not grow with the number of rows seen: a sample of 10,000 rows, and what
        the last 100 batches looked like. The sample is fitted as `fit` does whenever a quarter of
        it has changed or a class is new, so that no mistake of an earlier batch stays.

        Afterwards `weights_`, `selected_` and `suggested_labels_` are those of the rows of this
        batch, `batch_clean_share_` those of the last 100 batches, and `drift_` the changes noticed
        so far.

        Parameters
        ----------
        X, y
            The rows of the batch, in memory and dense, with one label each. The first batch needs
            two classes.
        classes
            All labels that may come, as scikit-learn has it: others are refused. None: whatever
            comes.
        half_life
            After so many rows, a row is half as likely to be in the sample. None: all rows are
            equally likely.

        Warns
        -----
        DriftWarning
            The share of right labels in new batches has changed beyond chance.

        Examples
        --------
        >>> import numpy as np
        >>> from easyfirst import SelfPacedClassifier
        >>> rng = np.random.default_rng(0)
        >>> model = SelfPacedClassifier()
        >>> for _ in range(5):
        ...     X = rng.normal(size=(400, 2))
        ...     right = X[:, 0] + X[:, 1] > 0
        ...     model = model.partial_fit(X, right ^ (rng.random(400) < 0.1))
        >>> bool(np.mean(model.suggested_labels_ == right) > 0.95)
        True
        """
        model: Any = self
        model._checked()
        if half_life is not None and not half_life > 0:
            raise ValueError(f"half_life must be a number of rows > 0, got {half_life!r}")
        stream: Stream | None = vars(self).get("_stream")
        if stream is None:
            source, seen = validation.labelled_source(model, X, y, None, None, None)
            rows, given = dense(source.X), seen[source.y.astype(np.intp)]
            stream = Stream(Reservoir(seed(model.random_state)))
            self._known_labels: NDArray[Any] = seen[:0]
            self.drift_: tuple[Drift, ...] = ()
        else:
            rows = dense(validation.prediction_rows(model, X))
            validation.require_labels(y)
            given = np.asarray(y)
        if classes is not None:
            validation.judged_labels(given, rows, np.unique(classes))
        codes, is_new = self._codes_of(given, rows, stream)
        stream.reservoir.add(rows, codes, half_life)
        if is_new or stream.reservoir.is_due:
            self._fit_sample(stream.reservoir)
        self._stream = stream
        self._conclude_labels(stream, rows, given)
        return self

    def _codes_of(self, given: NDArray[Any], rows: Matrix, stream: Stream) -> tuple[Vector, bool]:
        """Return the numbers of labels, and whether one of them is new."""
        known = self._known_labels
        merged = np.unique(np.concatenate([known, np.unique(given)]))
        is_new = merged.size > known.size
        if is_new and known.size:
            places = np.searchsorted(merged, known)
            stream.reservoir.y = places[stream.reservoir.y.astype(np.intp)].astype(np.float64)
        self._known_labels = merged
        return validation.judged_labels(given, rows, merged), is_new

    def _fit_sample(self, held: Reservoir) -> None:
        """Fit the sample as `fit` does, and take over what was found."""
        take_over(self, held.X, self._known_labels[held.y.astype(np.intp)])
        held.renewed = 0

    def _conclude_labels(self, stream: Stream, rows: Matrix, given: NDArray[Any]) -> None:
        """Judge the labels of the batch, and say so if it differs from those before."""
        model: Any = self
        # The sample may hold no row of a very rare class: such labels are taken as they are.
        is_known = np.isin(given, self.classes_)
        self.weights_, self.suggested_labels_ = np.ones(given.size), given.copy()
        if is_known.any():
            codes = np.searchsorted(self.classes_, given[is_known])
            judged = model._judged_as_new(rows[is_known], codes.astype(np.float64))
            self.weights_[is_known] = judged.quality
            self.suggested_labels_[is_known] = self.classes_[judged.suggested]
        self.selected_ = self.weights_ >= 0.5
        places = np.minimum(np.searchsorted(self.classes_, given), self.classes_.size - 1)
        self._rows_digest = rows_digest(rows, places.astype(np.float64))
        watch(self, stream, BatchSummary(given.size, float(np.mean(self.weights_)), 0.0))
