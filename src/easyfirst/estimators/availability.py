"""Methods that exist only where the settings of an estimator permit them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sklearn.utils.metaestimators import available_if

Method = TypeVar("Method", bound=Callable[..., Any])


def where(check: Callable[[Any], bool]) -> Callable[[Method], Method]:
    """Return a decorator by which a method exists only where a check says so."""
    found: Callable[[Method], Method] = available_if(check)
    return found
