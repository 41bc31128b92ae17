"""Estimators: the scikit-learn face of the library."""

from easyfirst.estimators.regressor import SelfPacedRegressor

__all__ = ["SelfPacedRegressor"]
