"""Errors and warnings of the library's own."""

from __future__ import annotations


class NoRowSelectedError(ValueError):
    """The pace let no row in, so there is nothing to fit."""


class ModelFileError(ValueError):
    """A file is not a sound model file; the message says what is wrong and what to do."""


class CheckpointError(ValueError):
    """A checkpoint belongs to another fit; the message names what differs."""


class EngineLostError(RuntimeError):
    """The cluster that a fit ran on is gone: its scheduler, its driver, or all of its workers."""


class RankWarning(UserWarning):
    """The kept rows do not determine every coefficient."""


class ManyPassesWarning(UserWarning):
    """Rows that do not fit into memory would be read many times; the message says what to do."""


class NoSingleModelWarning(UserWarning):
    """The data may not hold one recoverable model; the message says why and what to do.

    "When to use it, and when not" in the documentation explains each case.
    """


class BadFileError(ValueError):
    """A file that cannot be read or fitted; the message says where and why.

    `path`, `row_group` and `column` are None where they are not known.
    """

    def __init__(
        self,
        message: str,
        path: str | None = None,
        row_group: int | None = None,
        column: str | None = None,
    ) -> None:
        super().__init__(message)
        self.path, self.row_group, self.column = path, row_group, column

    def __reduce__(self) -> tuple[object, ...]:
        """Travel with everything, as from a worker."""
        return type(self), (str(self), self.path, self.row_group, self.column)


class DriftWarning(UserWarning):
    """Rows that arrive now differ from earlier ones; the message says in what."""
