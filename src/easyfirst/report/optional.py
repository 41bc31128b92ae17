"""Packages that only reports need, and what to install where one is missing."""

from __future__ import annotations

import importlib
from typing import Any

EXTRAS = {"jinja2": "tool", "matplotlib": "plot"}


def optional(module: str, purpose: str) -> Any:
    """Import a module of an optional package, or say how to get it."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise ModuleNotFoundError(
            f"{purpose} needs {package}: pip install 'easyfirst[{EXTRAS[package]}]'",
            name=package,
        ) from None
