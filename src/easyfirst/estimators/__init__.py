"""Estimators: the scikit-learn face of the library."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from easyfirst.estimators.any_model import SelfPaced
    from easyfirst.estimators.classifier import SelfPacedClassifier
    from easyfirst.estimators.regressor import SelfPacedRegressor
    from easyfirst.estimators.saving import load

__all__ = ["SelfPaced", "SelfPacedClassifier", "SelfPacedRegressor", "load"]

HOMES = {
    "SelfPaced": "any_model",
    "SelfPacedClassifier": "classifier",
    "SelfPacedRegressor": "regressor",
    "load": "saving",
}


def __getattr__(name: str) -> Any:
    """Import an estimator when it is first asked for: each of them loads much of its own."""
    if name not in HOMES:
        raise AttributeError(f"module 'easyfirst.estimators' has no attribute {name!r}")
    return getattr(importlib.import_module(f"easyfirst.estimators.{HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
