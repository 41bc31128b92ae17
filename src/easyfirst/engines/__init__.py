"""Engines: how steps reach the batches. Each file is the only one that knows its library."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from easyfirst.engines.embedded import Inline, Threads

if TYPE_CHECKING:
    from easyfirst.engines.out_of_core import OutOfCore

__all__ = ["Inline", "OutOfCore", "Threads"]


def __getattr__(name: str) -> Any:
    """Import the engine for rows on the disk when it is first asked for."""
    if name != "OutOfCore":
        raise AttributeError(f"module 'easyfirst.engines' has no attribute {name!r}")
    return importlib.import_module("easyfirst.engines.out_of_core").OutOfCore


def __dir__() -> list[str]:
    return __all__
