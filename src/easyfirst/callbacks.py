"""Callbacks: watch a fit round by round, and end it early.

A callback is any object with (some of) the methods of `Callback`. Library code itself never
prints; `verbose` only chooses one of these.
"""

from __future__ import annotations

import logging
import math
import sys
from typing import Any

from easyfirst.consensus.history import RoundRecord
from easyfirst.consensus.status import Status

logger = logging.getLogger("easyfirst")


class Callback:
    """Do nothing; subclass and override what you need."""

    def on_fit_begin(self, max_rounds: int) -> None:
        """Prepare for a fit of at most `max_rounds` rounds."""

    def on_round_end(self, record: RoundRecord) -> bool | None:
        """Look at the round that just ended; return True to end the fit."""

    def on_fit_end(self, status: Status) -> None:
        """Clean up; also called when the fit fails, with a status that says so."""


class RoundLogger(Callback):
    """Log one line per round to the logger "easyfirst", at level INFO."""

    def on_round_end(self, record: RoundRecord) -> None:
        """Log the round."""
        logger.info(
            "round %d on %s rows: pace %.4g, %.0f rows selected, %.3g %% of the weight changed, "
            "%d iterations, %.3f s",
            record.round,
            record.rows,
            record.pace,
            record.selected,
            100 * record.changed,
            record.iterations,
            record.seconds,
        )

    def on_fit_end(self, status: Status) -> None:
        """Log how the fit ended."""
        logger.info("%s", status)


class StderrLogger(RoundLogger):
    """`RoundLogger`, shown on standard error while the fit runs: what `verbose=1` means."""

    def on_fit_begin(self, max_rounds: int) -> None:
        """Show the logger's messages."""
        del max_rounds
        self._handler = logging.StreamHandler(sys.stderr)
        self._handler.setFormatter(logging.Formatter("[easyfirst] %(message)s"))
        self._level = logger.level
        logger.addHandler(self._handler)
        logger.setLevel(logging.INFO)

    def on_fit_end(self, status: Status) -> None:
        """Log how the fit ended and stop showing messages."""
        super().on_fit_end(status)
        logger.removeHandler(self._handler)
        logger.setLevel(self._level)
        del self._handler  # it cannot be pickled, and a model keeps its callbacks


class ProgressBar(Callback):
    """Show a live bar on standard error; needs rich (the 'tool' extra).

    The number of rounds is not known in advance, so the bar shows how much of the weight still
    moves: it fills as the selection settles.
    """

    def __init__(self) -> None:
        self._progress: Any = None

    def __repr__(self) -> str:
        return "ProgressBar()"

    def on_fit_begin(self, max_rounds: int) -> None:
        """Open the bar."""
        del max_rounds
        try:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, SpinnerColumn, TimeElapsedColumn
        except ImportError:
            raise ImportError(
                "ProgressBar needs the 'tool' extra: pip install 'easyfirst[tool]'"
            ) from None
        self._progress = Progress(
            SpinnerColumn(),
            "round {task.fields[round]}",
            BarColumn(),
            "pace {task.fields[pace]:.3g}",
            "{task.fields[selected]:,.0f} rows selected",
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._progress.start()
        self._task = self._progress.add_task(
            "fit", total=1.0, round=0, pace=float("inf"), selected=0.0
        )

    def on_round_end(self, record: RoundRecord) -> None:
        """Move the bar."""
        self._progress.update(
            self._task,
            completed=progress_of(record.changed),
            round=record.round,
            pace=record.pace,
            selected=record.selected,
        )

    def on_fit_end(self, status: Status) -> None:
        """Close the bar, and let go of it: a model that keeps this callback can be pickled."""
        del status
        self._progress.stop()
        self._progress = None


def progress_of(changed: float) -> float:
    """Map the share of weight that moved to [0, 1]: one percent is 1/3, a millionth is 1."""
    return min(1.0, max(0.0, -math.log10(max(changed, 1e-6)) / 6.0))
