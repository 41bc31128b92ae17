"""Engines: how steps reach the batches. Each file is the only one that knows its library."""

from easyfirst.engines.embedded import Inline, Threads

__all__ = ["Inline", "Threads"]
