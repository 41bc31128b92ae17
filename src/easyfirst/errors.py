"""Errors and warnings of the library's own."""

from __future__ import annotations


class NoRowSelectedError(ValueError):
    """The pace let no row in, so there is nothing to fit."""


class RankWarning(UserWarning):
    """The kept rows do not determine every coefficient."""


class NoSingleModelWarning(UserWarning):
    """The data may not hold one recoverable model; the message says why."""
