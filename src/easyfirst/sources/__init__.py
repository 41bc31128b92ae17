"""Sources: where rows come from, as partitions that know how to load themselves."""

from easyfirst.sources.arrays import ArraySource
from easyfirst.sources.arrow import ArrowSource, read_arrow
from easyfirst.sources.csv import CsvSource, read_csv
from easyfirst.sources.duckdb import read_duckdb
from easyfirst.sources.frames import read_frame
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
