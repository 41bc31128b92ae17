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
    from easyfirst.estimators import (
        SelfPaced,
        SelfPacedClassifier,
        SelfPacedRegressor,
        load,
    )
    from easyfirst.report.pipelines import suspects
    from easyfirst.sources import (
        read_arrow,
        read_csv,
        read_duckdb,
        read_frame,
        read_parquet,
    )

__version__ = "0.2.0"

__all__ = [
    "SelfPaced",
    "SelfPacedClassifier",
    "SelfPacedRegressor",
    "baselines",
    "callbacks",
    "datasets",
    "engines",
    "load",
    "losses",
    "metrics",
    "penalties",
    "read_arrow",
    "read_csv",
    "read_duckdb",
    "read_frame",
    "read_parquet",
    "regularizers",
    "report",
    "schedules",
    "sources",
    "suspects",
]

# Where public names are defined that are not modules.
ELSEWHERE = {
    "SelfPaced": "easyfirst.estimators",
    "SelfPacedClassifier": "easyfirst.estimators",
    "SelfPacedRegressor": "easyfirst.estimators",
    "load": "easyfirst.estimators",
    "read_arrow": "easyfirst.sources",
    "read_csv": "easyfirst.sources",
    "read_duckdb": "easyfirst.sources",
    "read_frame": "easyfirst.sources",
    "read_parquet": "easyfirst.sources",
    "suspects": "easyfirst.report.pipelines",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for.

    scikit-learn takes a second to load, which a command that only prints its help need not wait
    for.
    """
    if name not in __all__:
        raise AttributeError(f"module 'easyfirst' has no attribute {name!r}")
    if name in ELSEWHERE:
        return getattr(importlib.import_module(ELSEWHERE[name]), name)
    return importlib.import_module(f"easyfirst.{name}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
