"""Sources: where rows come from, as partitions that know how to load themselves."""

from easyfirst.sources.arrays import ArraySource

__all__ = ["ArraySource"]
