"""Live progress on standard error: what is being done, and the rounds of the fit."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from easyfirst.callbacks import progress_of


class LiveProgress:
    """Shows the stages of a run; also a callback that shows the rounds of a fit.

    On a terminal one line changes in place and is gone in the end. Elsewhere each stage is one
    line of text, and `quiet` shows nothing.
    """

    def __init__(self, quiet: bool) -> None:
        self.console = Console(stderr=True, quiet=quiet)
        self.live = not quiet and self.console.is_terminal
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[left]}"),
            console=self.console,
            transient=True,
            disable=not self.live,
        )
        self._task: Any = None
        self._done = 0.0

    def __enter__(self) -> Self:
        """Begin to show."""
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the line away."""
        self._progress.stop()

    def stage(self, description: str) -> None:
        """Say what is being done now."""
        if not self.live:
            self.say(f"{description} ...")
            return
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(description, total=None, detail="", left="")

    def detail(self, text: str) -> None:
        """Show on the line how far the stage is."""
        if self.live and self._task is not None:
            self._progress.update(self._task, detail=text)

    def share(self, text: str, done: float) -> None:
        """Show what is being done, and which share of it is; the bar tells the time left."""
        if self.live and self._task is not None:
            self._progress.update(self._task, total=1.0, completed=done, detail=text, left="left")

    def say(self, message: str) -> None:
        """Print a message, which stays."""
        self.console.print(message, markup=False, highlight=False, soft_wrap=True)

    def on_fit_begin(self, max_rounds: int) -> None:
        """Prepare for the rounds, whose number nobody knows."""
        del max_rounds
        self._done = 0.0

    def on_round_end(self, record: Any) -> None:
        """Show a round: where it ran, its pace, and how many rows it selects."""
        if self._task is None or not self.live:
            return
        # The first rounds run on a sample and end near zero too: they are half of the way.
        share = 0.5 * (progress_of(record.changed) + (record.rows == "all"))
        self._done = max(self._done, share)
        where = "" if record.rows == "all" else " on a sample"
        detail = f"round {record.round}{where}, pace {record.pace:.3g}, "
        detail += f"{record.selected:,.0f} rows selected"
        self._progress.update(
            self._task,
            total=1.0,
            completed=self._done,
            refresh=True,
            detail=detail,
            left="left",
        )
