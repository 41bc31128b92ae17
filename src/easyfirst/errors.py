"""Errors and warnings of the library's own."""

from __future__ import annotations


class NoRowSelectedError(ValueError):
    """The pace let no row in, so there is nothing to fit."""


class ModelFileError(ValueError):
    """A file is not a sound model file; the message says what is wrong and what to do."""


class EngineLostError(RuntimeError):
    """The cluster that a fit ran on is gone: its scheduler, its driver, or all of its workers."""


class RankWarning(UserWarning):
    """The kept rows do not determine every coefficient."""


class NoSingleModelWarning(UserWarning):
    """The data may not hold one recoverable model; the message says why."""
