"""Learn from data in which many rows are wrong: easy rows first, corrupted rows never."""

from easyfirst import (
    callbacks,
    datasets,
    engines,
    losses,
    metrics,
    penalties,
    regularizers,
    schedules,
    sources,
)
from easyfirst.estimators import SelfPacedRegressor

__version__ = "0.1.0"

__all__ = [
    "SelfPacedRegressor",
    "callbacks",
    "datasets",
    "engines",
    "losses",
    "metrics",
    "penalties",
    "regularizers",
    "schedules",
    "sources",
]
