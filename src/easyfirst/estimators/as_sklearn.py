"""Fitted models as plain models of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from easyfirst.losses import Squared
from easyfirst.transforms import TargetTransform


def as_sklearn(model: Any) -> LinearRegression | TransformedTargetRegressor:
    """Return scikit-learn's `LinearRegression` with the coefficients of a fitted model."""
    check_is_fitted(model)
    loss = model.loss or Squared()
    if loss.link != "identity":
        raise TypeError(
            f"a LinearRegression has no link, and loss={loss!r} has a {loss.link} link: its "
            f"predictions are loss.mean(X @ coef_ + intercept_)"
        )
    plain = LinearRegression(fit_intercept=bool(model.fit_intercept))
    plain.coef_ = model.coef_.copy()
    plain.intercept_ = np.float64(model.intercept_)  # some converters want NumPy's type
    plain.n_features_in_ = model.n_features_in_
    if hasattr(model, "feature_names_in_"):
        plain.feature_names_in_ = model.feature_names_in_.copy()
    return plain if model.target_transform_ is None else _around(plain, model._transform)


def _around(plain: LinearRegression, transform: TargetTransform) -> TransformedTargetRegressor:
    """Return scikit-learn's model of a transformed target, as if it had been fitted."""
    if transform.name != "log":
        raise TypeError(
            f"scikit-learn has no model that predicts like target_transform={transform.name!r}, "
            f"where a root below zero means zero: use target_transform='log' or None"
        )
    model = TransformedTargetRegressor(
        LinearRegression(fit_intercept=plain.fit_intercept), func=np.log, inverse_func=np.exp
    )
    model.regressor_ = plain
    model.transformer_ = FunctionTransformer(np.log, np.exp, check_inverse=False).fit([[1.0]])
    model._training_dim = 1
    return model
