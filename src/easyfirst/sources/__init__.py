"""Sources: where rows come from, as partitions that know how to load themselves."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from easyfirst.sources.arrays import ArraySource
from easyfirst.sources.frames import read_frame

if TYPE_CHECKING:
    from easyfirst.sources.arrow import ArrowSource, read_arrow
    from easyfirst.sources.csv import CsvSource, read_csv
    from easyfirst.sources.duckdb import read_duckdb
    from easyfirst.sources.parquet import ParquetSource, read_parquet

__all__ = [
    "ArraySource",
    "ArrowSource",
    "CsvSource",
    "ParquetSource",
    "read_arrow",
    "read_csv",
    "read_duckdb",
    "read_frame",
    "read_parquet",
]

# Where names are defined that rows in memory have no use for.
ELSEWHERE = {
    "ArrowSource": "arrow",
    "CsvSource": "csv",
    "ParquetSource": "parquet",
    "read_arrow": "arrow",
    "read_csv": "csv",
    "read_duckdb": "duckdb",
    "read_parquet": "parquet",
}


def __getattr__(name: str) -> Any:
    """Import a source when it is first asked for."""
    if name not in ELSEWHERE:
        raise AttributeError(f"module 'easyfirst.sources' has no attribute {name!r}")
    return getattr(importlib.import_module(f"easyfirst.sources.{ELSEWHERE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
