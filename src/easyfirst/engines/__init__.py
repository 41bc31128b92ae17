"""Engines: how steps reach the batches. Each file is the only one that knows its library."""

from easyfirst.engines.embedded import Inline, Threads
from easyfirst.engines.out_of_core import OutOfCore

__all__ = ["Inline", "OutOfCore", "Threads"]
