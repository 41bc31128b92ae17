"""Learn from data in which many rows are wrong: easy rows first, corrupted rows never."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from easyfirst import (
        baselines,
        callbacks,
        datasets,
        engines,
        losses,
        metrics,
        penalties,
        regularizers,
        report,
        schedules,
        sources,
    )
    from easyfirst.estimators import SelfPacedRegressor, load
    from easyfirst.sources import read_frame, read_parquet

__version__ = "0.1.0"

__all__ = [
    "SelfPacedRegressor",
    "baselines",
    "callbacks",
    "datasets",
    "engines",
    "load",
    "losses",
    "metrics",
    "penalties",
    "read_frame",
    "read_parquet",
    "regularizers",
    "report",
    "schedules",
    "sources",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for.

    scikit-learn takes a second to load, which a command that only prints its help need not wait
    for.
    """
    if name not in __all__:
        raise AttributeError(f"module 'easyfirst' has no attribute {name!r}")
    if name in ("SelfPacedRegressor", "load"):
        return getattr(importlib.import_module("easyfirst.estimators"), name)
    if name in ("read_frame", "read_parquet"):
        return getattr(importlib.import_module("easyfirst.sources"), name)
    return importlib.import_module(f"easyfirst.{name}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
