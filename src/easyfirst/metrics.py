"""Errors that can be trusted when the rows they are measured on are dirty too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from easyfirst.contracts import Vector


@dataclass(frozen=True)
class TrustedError:
    """The root mean squared error on the rows a model trusts, and the share it trusts."""

    error: float
    share: float


def trusted_error(model: Any, X: Any, y: Any) -> TrustedError:
    """Measure a calibrated model on rows weighted by its probability that they are clean.

    A model that trusts few rows has a small error on them, so the two numbers belong together;
    to choose between models, use `trimmed_error`, which fixes the share.
    """
    v = model.clean_probability(X, y)
    total = float(np.sum(v))
    if total <= 0:
        return TrustedError(float("inf"), 0.0)
    squares = np.square(np.asarray(y, dtype=np.float64) - model.predict(X))
    return TrustedError(float(np.sqrt(v @ squares / total)), total / len(v))


def trimmed_error(y_true: Vector, y_pred: Vector, share: float = 0.5) -> float:
    """Return the root mean square of the smallest `share` of the errors.

    Rows that are wrong have large errors under any good model and drop out, as long as they are
    fewer than the rest.

    Examples
    --------
    >>> trimmed_error([1.0, 2.0, 3.0, 99.0], [1.0, 2.0, 5.0, 4.0], share=0.75)
    1.1547
    """
    if not 0 < share <= 1:
        raise ValueError(f"share must lie in (0, 1], got {share!r}")
    errors = np.abs(np.asarray(y_true, dtype=np.float64) - np.asarray(y_pred))
    kept = max(1, int(np.floor(share * len(errors))))
    return float(np.sqrt(np.mean(np.square(np.partition(errors, kept - 1)[:kept]))))


def make_trimmed_scorer(share: float = 0.5) -> Callable[[Any, Any, Any], float]:
    """Return a scorer for GridSearchCV: minus the trimmed error at a fixed share."""

    def score(estimator: Any, X: Any, y: Any) -> float:
        return -trimmed_error(y, estimator.predict(X), share)

    return score


def trusted_scores(estimator: Any, X: Any, y: Any) -> dict[str, float]:
    """Score for GridSearchCV with several metrics; use refit="neg_trusted_error" or a callable."""
    found = trusted_error(estimator, X, y)
    return {"neg_trusted_error": -found.error, "trusted_share": found.share}
