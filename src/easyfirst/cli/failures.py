"""Exit codes, and what each kind of failure becomes on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

FAILED, USAGE, DATA, MODEL, OUTPUT, TOO_WRONG, INTERRUPTED = 1, 2, 3, 4, 5, 6, 130

EXIT_CODES = """\b
Exit codes:
  0    done
  1    failed: a bug, a missing package or a lost cluster
  2    wrong options or configuration
  3    the data cannot be read or used
  4    the model file was rejected
  5    the output exists or cannot be written
  6    more rows look wrong than --fail-above allows, or runs differ (diff --exit-code)
  130  interrupted (143: terminated)
"""


class Failure(click.ClickException):
    """A failure shown as one message without a traceback; each kind has its exit code."""

    exit_code = FAILED

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message to standard error."""
        del file
        click.echo(f"Error: {self.format_message()}", err=True)


class DataFailure(Failure):
    """The data cannot be read or used."""

    exit_code = DATA


class ModelFailure(Failure):
    """The model file is refused."""

    exit_code = MODEL


class OutputFailure(Failure):
    """The output exists or cannot be written."""

    exit_code = OUTPUT


class TooManyWrongRows(Failure):
    """More rows look wrong than the user allows; everything was written all the same."""

    exit_code = TOO_WRONG


class Interrupted(Failure):
    """The user pressed Ctrl-C."""

    exit_code = INTERRUPTED


@contextmanager
def explained(debug: bool) -> Iterator[None]:
    """Turn what goes wrong inside into a message and an exit code."""
    try:
        yield
    except click.UsageError as error:
        if "unexpected extra argument" not in error.message:
            raise
        hint = "put a pattern of files in quotes, so that the shell leaves it alone"
        raise click.UsageError(f"{error.message}; {hint}", error.ctx) from None
    except (click.ClickException, click.exceptions.Exit, ModuleNotFoundError):
        raise
    except (KeyboardInterrupt, click.Abort):
        raise Interrupted("interrupted; no output was left half-written") from None
    except BrokenPipeError:
        raise  # click ends quietly when the reader of a pipe is gone
    except Exception as error:
        if debug:
            raise
        raise _failure(error) from error


def _failure(error: Exception) -> Failure:
    from easyfirst.errors import EngineLostError, ModelFileError
    from easyfirst.tables.errors import OutputError, TableError

    kinds: dict[type[Exception], type[Failure]] = {
        TableError: DataFailure,
        ModelFileError: ModelFailure,
        OutputError: OutputFailure,
        EngineLostError: Failure,
        ImportError: Failure,
    }
    for kind, failure in kinds.items():
        if isinstance(error, kind):
            return failure(str(error))
    if isinstance(error, MemoryError):
        return Failure("not enough memory; use fewer columns (--features) or fewer rows")
    return Failure(
        f"{type(error).__name__}: {error}\nThis is a bug in easyfirst, not a problem with your "
        f"data. 'easyfirst --debug ...' shows where it happened."
    )
