"""Estimators: the scikit-learn face of the library."""

from easyfirst.estimators.any_model import SelfPaced
from easyfirst.estimators.classifier import SelfPacedClassifier
from easyfirst.estimators.regressor import SelfPacedRegressor
from easyfirst.estimators.saving import load

__all__ = ["SelfPaced", "SelfPacedClassifier", "SelfPacedRegressor", "load"]
