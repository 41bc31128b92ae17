"""What a worker process of a cluster keeps of the batches it works on.

Only a cache: a process that has restarted, or that meets a batch for the first time, loads it and
computes bit-for-bit the same. So engines may move batches between workers, and workers may die.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from easyfirst.contracts import Batch, Ledger, Resident, Spread, Step
from easyfirst.engines.blas import one_blas_thread
from easyfirst.workers import FOR_A_THREAD

KEPT_FITS = 2  # of which a process remembers the batches; older ones have usually ended

_Memory = dict[str, tuple[object, Any]]
_memories: OrderedDict[str, dict[int, _Memory]] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True, eq=False)
class Work:
    """One batch's part of a step: its number, how to load it, the message to it.

    `held` says that the cluster keeps the batch itself, so that loading it costs nothing and
    nothing of it need be kept here.
    """

    number: int
    load: Callable[[], Batch]
    message: Any
    held: bool = False


@dataclass(frozen=True, eq=False)
class Answer:
    """What a step returned for one batch, and how long it took; or the error that it raised.

    Errors travel as values: clusters wrap what a task raises in tracebacks of their own, and run
    the task again, as if another worker could make a bad file good.
    """

    number: int
    reply: Any
    seconds: float
    error: Exception | None = None


def carry_out(
    fit: str, works: Sequence[Work], step: Step, broadcast: Any, threads: int = 1
) -> list[Answer]:
    """Run a step on some batches of a fit, in this process."""
    with one_blas_thread():
        if min(threads, len(works)) <= 1:
            return [_answer(fit, work, step, broadcast) for work in works]
        with ThreadPoolExecutor(min(threads, len(works)), "easyfirst") as pool:
            # Known before the step, because small batches are none for threads.
            sizes = list(pool.map(lambda work: _entries(fit, work), works))
            in_turn: Spread = pool.map if sum(sizes) >= FOR_A_THREAD * len(works) else map
            return list(in_turn(lambda work: _answer(fit, work, step, broadcast), works))


def _entries(fit: str, work: Work) -> int:
    try:
        return int(resident(fit, work.number, work.load, work.held).batch.X.size)
    except Exception:
        return 0  # the step will meet the same error, and say so


def addressed(
    per_batch: Sequence[Any] | None, only: Sequence[int] | None, n_batches: int
) -> dict[int, Any]:
    """Return the message to each batch that a step runs on, by the batch's number."""
    numbers = range(n_batches) if only is None else only
    messages = [None] * len(numbers) if per_batch is None else per_batch
    return dict(zip(numbers, messages, strict=True))


def in_batch_order(answers: Iterable[Answer], ledger: Ledger) -> list[Any]:
    """Return the replies to a step, book their seconds, and raise the first error among them."""
    ordered = sorted(answers, key=lambda answer: answer.number)
    for answer in ordered:
        if answer.error is not None:
            raise answer.error
        ledger.seconds[answer.number] += answer.seconds
    return [answer.reply for answer in ordered]


def _answer(fit: str, work: Work, step: Step, broadcast: Any) -> Answer:
    began = time.perf_counter()
    try:
        rows = resident(fit, work.number, work.load, work.held)
        reply, error = step(rows, work.message, broadcast), None
    except Exception as raised:
        reply, error = None, raised
    return Answer(work.number, reply, time.perf_counter() - began, error)


def resident(fit: str, number: int, load: Callable[[], Batch], held: bool = False) -> Resident:
    """Return the batch of this number with what is remembered about it, loading it if needed."""
    with _lock:
        known = _memories.setdefault(fit, {})
        _memories.move_to_end(fit)
        while len(_memories) > KEPT_FITS:
            _memories.popitem(last=False)
        memory = known.setdefault(number, {})
    if held:
        return Resident(load(), memory)
    # Outside the lock: others load meanwhile. Two loads of one batch give the same rows.
    found: tuple[object, Any] = memory.get("batch") or (None, load())
    return Resident(memory.setdefault("batch", found)[1], memory)


def forget(fit: str) -> None:
    """Drop all batches of a fit that has ended."""
    with _lock:
        _memories.pop(fit, None)
