"""Checks of constructor parameters, with messages that name the parameter, the rule, the value."""

from __future__ import annotations

import math

import numpy as np


def require_choice(name: str, value: object, *allowed: str) -> None:
    """Reject anything but the listed words."""
    if not any(isinstance(value, str) and value == choice for choice in allowed):
        listed = ", ".join(repr(choice) for choice in allowed)
        raise ValueError(f"{name} must be one of {listed}, got {value!r}")


def require_whole(name: str, value: object, at_least: int = 1) -> None:
    """Reject anything but whole numbers from `at_least` on."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < at_least:  # type: ignore[operator]
        raise ValueError(f"{name} must be a whole number >= {at_least}, got {value!r}")


def require_number(
    name: str, value: object, *, more_than: float | None = None, at_least: float | None = None
) -> None:
    """Reject anything but finite numbers above a bound."""
    number = (
        isinstance(value, int | float | np.integer | np.floating)
        and not isinstance(value, bool)
        and math.isfinite(value)
    )
    if more_than is not None and not (number and value > more_than):  # type: ignore[operator]
        raise ValueError(f"{name} must be a finite number > {more_than:g}, got {value!r}")
    if at_least is not None and not (number and value >= at_least):  # type: ignore[operator]
        raise ValueError(f"{name} must be a finite number >= {at_least:g}, got {value!r}")
