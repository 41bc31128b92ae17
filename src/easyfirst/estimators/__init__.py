"""Estimators: the scikit-learn face of the library."""

from easyfirst.estimators.regressor import SelfPacedRegressor
from easyfirst.estimators.saving import load

__all__ = ["SelfPacedRegressor", "load"]
