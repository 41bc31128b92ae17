"""Sources: where rows come from, as partitions that know how to load themselves."""

from easyfirst.sources.arrays import ArraySource
from easyfirst.sources.frames import read_frame
from easyfirst.sources.parquet import ParquetSource, read_parquet

__all__ = ["ArraySource", "ParquetSource", "read_frame", "read_parquet"]
