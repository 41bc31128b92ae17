"""What a worker process of a cluster keeps of the batches it works on.

Only a cache: a process that starts anew, or that meets a batch for the first time, loads it and
computes the same bits. So engines may move batches between workers, and workers may die.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from easyfirst.contracts import Batch, Resident, Step
from easyfirst.engines.blas import one_blas_thread

KEPT_FITS = 2  # of which a process remembers the batches; older ones have usually ended

_residents: OrderedDict[str, dict[int, Resident]] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True, eq=False)
class Work:
    """One batch's part of a step: its number, how to load it, the message to it."""

    number: int
    load: Callable[[], Batch]
    message: Any


@dataclass(frozen=True, eq=False)
class Answer:
    """What a step returned for one batch, and how long it took."""

    number: int
    reply: Any
    seconds: float


def carry_out(fit: str, works: Sequence[Work], step: Step, broadcast: Any) -> list[Answer]:
    """Run a step on some batches of a fit, in this process."""
    with one_blas_thread():
        return [_answer(fit, work, step, broadcast) for work in works]


def _answer(fit: str, work: Work, step: Step, broadcast: Any) -> Answer:
    began = time.perf_counter()
    reply = step(resident(fit, work.number, work.load), work.message, broadcast)
    return Answer(work.number, reply, time.perf_counter() - began)


def resident(fit: str, number: int, load: Callable[[], Batch]) -> Resident:
    """Return the batch of this number with what is remembered about it, loading it if needed."""
    with _lock:
        known = _residents.setdefault(fit, {})
        _residents.move_to_end(fit)
        while len(_residents) > KEPT_FITS:
            _residents.popitem(last=False)
        found = known.get(number)
    if found is None:
        # Outside the lock: others load meanwhile. Two loads of one batch give the same rows.
        found = known.setdefault(number, Resident(load()))
    return found


def forget(fit: str) -> None:
    """Drop all batches of a fit that has ended."""
    with _lock:
        _residents.pop(fit, None)
