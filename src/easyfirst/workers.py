"""Working through batches: large ones side by side, small ones in runs.

Threads gain nothing from small batches, because between any two calls of NumPy they wait for
Python's lock. A step that can work on several batches at once gets a run of them; other steps get
small batches one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from easyfirst.contracts import GroupStep, Ledger, LightStep, Resident, Spread, Step

# Entries of X per batch below which threads wait longer for Python's lock than they save,
FOR_A_THREAD = 1 << 19
# and rows per batch likewise, for light steps.
ROWS_FOR_A_THREAD = 1 << 16
# Entries per batch below which batches are better worked on together, by steps that can,
FOR_ITSELF = 1 << 21
# and entries in a run of them: calls of NumPy then take so long that the lock is free.
IN_A_RUN = 1 << 23

Timed = tuple[Any, float]  # a reply and the seconds it took


def work_through(
    step: Step,
    residents: Sequence[Resident],
    messages: Sequence[Any],
    broadcast: Any,
    apply: Spread,
) -> list[Timed]:
    """Run a step on every batch; replies and seconds come back in batch order."""
    are_small = len(residents) > 1 and sum(_entries(residents)) < FOR_ITSELF * len(residents)
    last = residents[-2:], messages[-2:], broadcast
    if isinstance(step, GroupStep) and are_small and step.suits(*last):
        return _in_runs(step, residents, messages, broadcast, apply)

    def alone(resident: Resident, message: Any) -> Timed:
        began = time.perf_counter()
        reply = step(resident, message, broadcast)
        return reply, time.perf_counter() - began

    in_turn = apply if _is_for_threads(step, residents) else map
    return list(in_turn(alone, residents, messages))


def _in_runs(
    step: GroupStep,
    residents: Sequence[Resident],
    messages: Sequence[Any],
    broadcast: Any,
    apply: Spread,
) -> list[Timed]:
    sizes = _entries(residents)

    def together(run: slice) -> list[Timed]:
        began = time.perf_counter()
        replies = step.many(residents[run], messages[run], broadcast)
        spent = (time.perf_counter() - began) / max(sum(sizes[run]), 1)
        return [(reply, spent * size) for reply, size in zip(replies, sizes[run], strict=True)]

    return [timed for run in apply(together, runs_of(sizes)) for timed in run]


def _is_for_threads(step: Step, residents: Sequence[Resident]) -> bool:
    if isinstance(step, LightStep):
        n_rows = sum(resident.batch.n_samples for resident in residents)
        return n_rows >= ROWS_FOR_A_THREAD * len(residents)
    return sum(_entries(residents)) >= FOR_A_THREAD * len(residents)


def _entries(residents: Sequence[Resident]) -> list[int]:
    return [resident.batch.X.size for resident in residents]


def runs_of(sizes: Sequence[int]) -> list[slice]:
    """Return consecutive runs of equally large batches, each as long as IN_A_RUN permits."""
    runs: list[slice] = []
    start = 0
    for i in range(1, len(sizes) + 1):
        ends = i == len(sizes) or sizes[i] != sizes[start]
        if ends or (i + 1 - start) * sizes[start] > IN_A_RUN:
            runs.append(slice(start, i))
            start = i
    return runs


@dataclass(frozen=True, eq=False)
class ResidentWorkers:
    """Batches in this process, and the `map` that runs steps on them (the built-in by default)."""

    residents: Sequence[Resident]
    apply: Spread = map
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        """Open an account for every batch."""
        object.__setattr__(self, "ledger", Ledger([0.0] * len(self.residents)))

    def map(self, step: Step, per_batch: Sequence[Any] | None, broadcast: Any) -> list[Any]:
        """Run the step on every batch; replies come back in batch order."""
        messages = [None] * len(self.residents) if per_batch is None else per_batch
        timed = work_through(step, self.residents, messages, broadcast, self.apply)
        for number, (_, seconds) in enumerate(timed):
            self.ledger.seconds[number] += seconds
        return [reply for reply, _ in timed]
