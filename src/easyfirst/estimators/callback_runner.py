"""Calling the user's callbacks at the right moments, whatever happens to the fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self

from easyfirst.callbacks import Callback, StderrLogger
from easyfirst.consensus.history import RoundRecord
from easyfirst.consensus.status import Status
from easyfirst.errors import EngineLostError


class CallbackRunner:
    """All callbacks of one fit, as a context: begin, rounds, end even after an error."""

    def __init__(self, callbacks: Sequence[Callback] | None, verbose: int, max_rounds: int) -> None:
        extra = [StderrLogger()] if verbose else []
        self.callbacks: list[Any] = [*(callbacks or ()), *extra]
        self.max_rounds = max_rounds
        self.status: Status | None = None
        self.stopped = False
        self.last: RoundRecord | None = None

    def __enter__(self) -> Self:
        """Tell every callback that a fit begins."""
        begun: list[Any] = []
        try:
            for callback in self.callbacks:
                self._call(callback, "on_fit_begin", self.max_rounds)
                begun.append(callback)
        except BaseException as error:
            self.callbacks = begun  # only what was begun has an end
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def on_round(self, record: RoundRecord) -> bool:
        """Show every callback the round; return whether one of them wants the end."""
        self.last = record
        answers = [self._call(callback, "on_round_end", record) for callback in self.callbacks]
        self.stopped = self.stopped or any(answer is True for answer in answers)
        return self.stopped

    @contextmanager
    def naming_the_round(self) -> Iterator[None]:
        """Say, where a cluster is lost, how far the fit had come."""
        try:
            yield
        except EngineLostError as error:
            done = "before the first round had ended"
            if self.last is not None:
                done = f"after round {self.last.round} (on {self.last.rows} rows)"
            raise EngineLostError(
                f"{error}. The cluster was lost {done}; what the rounds had found is lost with it: "
                f"fit again on a cluster that runs."
            ) from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Tell every callback how the fit ended."""
        status = self.status or Status("failed", f"The fit failed: {error}", converged=False)
        with ExitStack() as ends:  # one that fails keeps none of the others from ending
            for callback in reversed(self.callbacks):
                ends.callback(self._call, callback, "on_fit_end", status)

    @staticmethod
    def _call(callback: Any, method: str, argument: object) -> Any:
        function = getattr(callback, method, None)
        return None if function is None else function(argument)
