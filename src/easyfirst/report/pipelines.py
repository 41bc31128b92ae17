"""Wrong rows as a model sees them that is wrapped in scikit-learn: pipelines, searches, targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
from narwhals.typing import IntoDataFrameT
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from easyfirst.contracts import Source, Vector
from easyfirst.estimators import validation
from easyfirst.estimators.findings import findings_of
from easyfirst.report.fixes import Fixes
from easyfirst.report.labels import suspects as label_suspects
from easyfirst.report.presenting import check_top
from easyfirst.report.suspects import fixes_of, framed, suspect_columns
from easyfirst.typing import LazyRows, TableLike, TableOfColumns


@dataclass(frozen=True, eq=False)
class Unwrapped:
    """The estimator inside a wrapper, with the rows as it sees them.

    `back` takes its target to that of the user; None where they are the same.
    """

    estimator: Any
    X: Any
    y: Any
    back: Callable[[Vector], Vector] | None = None


@overload
def suspects(
    model: object,
    X: IntoDataFrameT,
    y: object = None,
    top: int | None = None,
    row_ids: ArrayLike | None = None,
) -> IntoDataFrameT: ...


@overload
def suspects(
    model: object,
    X: TableLike | LazyRows | Source,
    y: object = None,
    top: int | None = None,
    row_ids: ArrayLike | None = None,
) -> TableOfColumns: ...


def suspects(
    model: Any, X: Any, y: Any = None, top: int | None = None, row_ids: ArrayLike | None = None
) -> Any:
    """Return the rows that look wrong to a fitted model, also if it is part of a larger one.

    Looks into pipelines, searches such as `GridSearchCV`, and `TransformedTargetRegressor`, in any
    order, for the `SelfPacedRegressor` or `SelfPacedClassifier` inside.

    Parameters
    ----------
    model
        A fitted estimator that is or contains one of these.
    X, y
        Rows of the fit, or new ones, as the outermost estimator takes them. A `TableModel` and a
        source hold y themselves.
    top
        Return this many of the worst rows, whether or not they look wrong. None returns every row
        that looks wrong.
    row_ids
        A name per row. None takes the index of a pandas `X`, and otherwise counts from 0.

    Returns
    -------
    frame
        The columns of `suspects` of the estimator inside, in the frame library of `X`. Given and
        predicted values are in the units of `y`. Where the target is transformed (a logarithm,
        for example), residuals are in standard deviations of the transformed target, and no fix is
        suggested.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> import easyfirst
    >>> X = np.arange(50.0)[:, None]
    >>> y = 2.0 * X[:, 0] + np.random.default_rng(0).standard_normal(50)
    >>> y[7] = -50.0
    >>> model = make_pipeline(StandardScaler(), easyfirst.SelfPacedRegressor()).fit(X, y)
    >>> easyfirst.suspects(model, X, y)["row_id"].tolist()
    [7]
    """
    inner = unwrapped(model, X, y)
    estimator = inner.estimator
    if inner.back is None and inner.X is X:  # nothing that was wrapped around it matters
        own = {} if y is None else {"y": y}
        own |= {} if row_ids is None else {"row_ids": row_ids}
        return estimator.suspects(X, top=top, **own)
    check_top(top)
    if hasattr(estimator, "classes_"):
        ids = validation.row_ids(row_ids, X, inner.X.shape[0])
        return label_suspects(estimator, inner.X, inner.y, top, ids, like=X)
    judged = estimator.judge(inner.X, inner.y)
    findings = findings_of(estimator)
    if inner.back is None:
        # Which of the user's columns a column of the regressor is, nobody knows: no swaps.
        fixes = fixes_of(findings, judged, [])
    else:
        fixes = Fixes.none(judged.given.size)
        given = np.asarray(y, dtype=np.float64).reshape(-1)
        judged = replace(judged, given=given, predicted=inner.back(judged.predicted))
    ids = validation.row_ids(row_ids, X, judged.given.size)
    chosen = judged.worst(top)
    columns = suspect_columns(findings, judged, fixes, chosen)
    return framed({"row_id": ids[chosen], **columns}, chosen, like=X)


def unwrapped(model: Any, X: Any, y: Any) -> Unwrapped:
    """Return the estimator inside that can judge rows, and the rows as it sees them."""
    if hasattr(model, "suspects"):
        check_is_fitted(model)
        return Unwrapped(model, X, y)
    if hasattr(model, "best_estimator_"):
        return unwrapped(model.best_estimator_, X, y)
    if hasattr(model, "steps"):
        check_is_fitted(model)
        before = model[:-1]
        return unwrapped(model[-1], before.transform(X) if len(before) else X, y)
    if hasattr(model, "transformer_") and hasattr(model, "regressor_"):
        return _with_own_target(model, X, y)
    check_is_fitted(model)
    raise TypeError(
        f"suspects needs a model that is or contains a SelfPacedRegressor or a "
        f"SelfPacedClassifier, got {type(model).__name__}; pipelines, searches (GridSearchCV and "
        f"the like) and TransformedTargetRegressor are looked into"
    )


def _with_own_target(model: Any, X: Any, y: Any) -> Unwrapped:
    """Look into a `TransformedTargetRegressor`."""
    column = np.asarray(y, dtype=np.float64).reshape(-1, 1)
    inner = unwrapped(model.regressor_, X, model.transformer_.transform(column).reshape(-1))

    def back(values: Vector) -> Vector:
        if inner.back is not None:
            values = inner.back(values)
        return np.asarray(model.transformer_.inverse_transform(values.reshape(-1, 1))).reshape(-1)

    return Unwrapped(inner.estimator, inner.X, inner.y, back)
