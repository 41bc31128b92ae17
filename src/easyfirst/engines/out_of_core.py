"""Rows that do not fit into memory, in one process: what fits is kept, the rest is read again.

Batches are gone through in order, by a few threads at a time. What a step remembers of a batch
(residuals, weights) is kept before the batch itself: it is smaller and saves as much. A batch that
is not kept comes from a cache of decoded batches on the local disk, or from its source. The result
is bit-for-bit that of `Inline`, because a step returns the same bits whatever is remembered.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from easyfirst.contracts import Batch, Ledger, Partition, Resident, Spread, Step
from easyfirst.engines.blas import one_blas_thread
from easyfirst.engines.block_cache import BlockCache
from easyfirst.engines.embedded import Threads
from easyfirst.engines.memory import (
    as_bytes,
    available_bytes,
    give_back_freed_memory,
    resident_bytes,
    shown_bytes,
    size_of,
)

logger = logging.getLogger("easyfirst")

KEPT_SHARE = 0.3  # of the memory that the limit leaves, for batches and what is remembered of them
WORK_SHARE = 0.3  # for batches that are worked on; the rest is for the driver's sample
WORKING_SPACE = 2.5  # of a batch while it is read and worked on, in sizes of the batch
NEARLY_FULL = 0.85  # of the limit: from there on, freed memory is given back after each batch
DEFAULT_SHARE = 0.5  # of the memory that is free, where no limit is given
LOG_SECONDS = 10.0  # between two lines about the same pass
DEFAULT_LIMIT = 10**9  # where the system does not say what is free

_Memory = dict[str, tuple[object, Any]]


@dataclass(frozen=True)
class Reading:
    """What was read during a fit: passes over all rows, and bytes by where they came from."""

    passes: int
    bytes_in_all: int
    bytes_from_source: int
    bytes_from_cache: int
    batches: int
    batches_kept: int

    def __str__(self) -> str:
        return (
            f"{self.passes} passes over {shown_bytes(self.bytes_in_all)} of rows: "
            f"{shown_bytes(self.bytes_from_source)} read from the source, "
            f"{shown_bytes(self.bytes_from_cache)} from the cache, "
            f"{self.batches_kept} of {self.batches} batches kept in memory"
        )


@dataclass(frozen=True)
class PassProgress:
    """How far a pass over the rows has come: its number, and bytes of rows gone through.

    `bytes_in_all` is an estimate until all rows were seen once. `seconds_left` is for this pass, at
    its present speed: how many more there are, the data decide.
    """

    number: int
    bytes_done: int
    bytes_in_all: int
    seconds_left: float

    @property
    def share(self) -> float:
        """The share of the bytes that this pass has gone through."""
        return min(1.0, self.bytes_done / max(self.bytes_in_all, 1))

    def __str__(self) -> str:
        return (
            f"pass {self.number}: {100 * self.share:.0f} % of {shown_bytes(self.bytes_in_all)}, "
            f"{self.seconds_left:.0f} s left in this pass"
        )


@dataclass(frozen=True)
class OutOfCore:
    """Fit rows that do not fit into memory, in this process.

    Parameters
    ----------
    memory_limit
        What this process may take in all, such as "1GB". None: half of what is free.
    cache_folder
        Where decoded batches are kept while the fit lasts; None is the system's folder for
        temporary files. Choose a fast local disk. Nothing is left there, even after a kill.
    cache_limit
        How large that cache may get: None is half of what is free on the disk, 0 is no cache.
    n_jobs
        Threads, as for `Threads`. Fewer are used where the limit has no room for their batches.
    progress
        A function that is given a `PassProgress` after each batch of a pass over all rows. With
        `verbose=1` the same is logged, at most every ten seconds.

    Examples
    --------
    >>> import numpy as np
    >>> from easyfirst import SelfPacedRegressor
    >>> X = np.arange(10.0)[:, None]
    >>> model = SelfPacedRegressor(engine=OutOfCore("2GB")).fit(X, 3.0 * X[:, 0])
    >>> float(model.coef_[0])
    3.0
    """

    memory_limit: str | int | None = None
    cache_folder: str | os.PathLike[str] | None = None
    cache_limit: str | int | None = None
    n_jobs: int | None = None
    progress: Callable[[PassProgress], None] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Reject sizes and thread counts that mean nothing."""
        Threads(self.n_jobs)
        for name in ("memory_limit", "cache_limit"):
            if getattr(self, name) is not None:
                as_bytes(name, getattr(self, name))

    @property
    def n_threads(self) -> int:
        """The number of threads that may work at a time."""
        return Threads(self.n_jobs).n_threads

    @property
    def limit(self) -> int:
        """The memory limit in bytes."""
        if self.memory_limit is not None:
            return as_bytes("memory_limit", self.memory_limit)
        free = available_bytes()
        return DEFAULT_LIMIT if free is None else resident_bytes() + int(DEFAULT_SHARE * free)

    def for_one_pass(self) -> OutOfCore:
        """Return the engine for work that reads the rows once, for which a cache is in vain."""
        return replace(self, cache_limit=0)

    @contextmanager
    def open(self, partitions: Sequence[Partition]) -> Iterator[StreamedWorkers]:
        """Make the batches available for the duration of a fit."""
        size = None if self.cache_limit is None else as_bytes("cache_limit", self.cache_limit)
        cache = None if size == 0 else BlockCache(self.cache_folder, size)
        with one_blas_thread(), closing(cache) if cache else nullcontext():
            store = BatchStore(partitions, cache, self.limit)
            n_threads = store.room_for_threads(self.n_threads)
            tell = _Telling(self.progress)
            if n_threads == 1:
                yield StreamedWorkers(store, tell=tell)
            else:
                with ThreadPoolExecutor(n_threads, "easyfirst") as pool:
                    yield StreamedWorkers(store, pool.map, tell)
            logger.info("%s", store.reading)


class BatchStore:
    """The batches of one fit: in memory within a budget, in a cache, or at their source."""

    def __init__(
        self, partitions: Sequence[Partition], cache: BlockCache | None, limit: int
    ) -> None:
        """Divide what the limit leaves beside what the process holds already."""
        self._partitions, self._cache, self._limit = partitions, cache, limit
        self._room = max(limit - resident_bytes(), 0)
        self._kept: dict[int, Batch] = {}
        self._memories: dict[int, _Memory] = {}
        self._remembered: dict[int, int] = {}  # bytes of memories
        self._sizes: dict[int, int] = {}  # bytes of batches seen so far
        self._lock = threading.Lock()
        self._passes = self._from_source = self._from_cache = 0
        self._stores = cache is not None

    def room_for_threads(self, wanted: int) -> int:
        """Return how many threads may work at a time; the first batch tells what they need."""
        if not self._partitions:
            return 1
        with self.visit(0) as resident:
            size = size_of(resident.batch)
        if self._is_held(0):
            return min(wanted, len(self._partitions))
        n = int(WORK_SHARE * self._room / (WORKING_SPACE * max(size, 1)))
        return max(1, min(wanted, n, len(self._partitions)))

    @property
    def reading(self) -> Reading:
        """What was read so far."""
        return Reading(
            self._passes,
            sum(self._sizes.values()),
            self._from_source,
            self._from_cache,
            len(self._partitions),
            len(self._kept),
        )

    def progress(self, last: int) -> tuple[int, int, int]:
        """Return the number of this pass, and bytes of rows: up to this batch, and in all.

        Batches that were not seen yet count like the others.
        """
        with self._lock:
            sizes = self._sizes
            known = sum(sizes.values())
            usual = known / max(len(sizes), 1)
            done = sum(size for number, size in sizes.items() if number <= last)
            in_all = known + usual * (len(self._partitions) - len(sizes))
        return self._passes, done, int(in_all)

    @property
    def reads_again(self) -> bool:
        """Whether some batches seen so far are not in memory."""
        return any(n not in self._kept and not self._is_held(n) for n in self._sizes)

    def begin_pass(self, is_whole: bool) -> None:
        """Count a step that goes through all batches; others leave nothing in the cache."""
        self._passes += is_whole
        self._stores = is_whole and self._cache is not None

    @contextmanager
    def visit(self, number: int) -> Iterator[Resident]:
        """Yield a batch with what is remembered of it."""
        with self._lock:
            memory = self._memories.setdefault(number, {})
        batch = self._kept.get(number)
        resident = Resident(self._read(number) if batch is None else batch, memory)
        yield resident
        del resident, batch
        self._settle(number, memory)
        if resident_bytes() > NEARLY_FULL * self._limit:
            give_back_freed_memory()

    def _is_held(self, number: int) -> bool:
        """Whether the rows are in memory anyway, so that reading them costs nothing."""
        return bool(getattr(self._partitions[number], "in_memory", False))

    def _read(self, number: int) -> Batch:
        """Return a batch from the cache or its source, and keep it where there is room."""
        cached = None if self._cache is None else self._cache.load(number)
        if cached is not None:
            self._note(number, size_of(cached), from_cache=True)
            return cached
        batch = self._partitions[number].load()
        if self._is_held(number):
            return batch
        size = size_of(batch)
        self._require_room(number, size)
        self._note(number, size)
        if not self._keep(number, batch, size) and self._stores and self._cache is not None:
            self._stores = self._cache.store(number, batch)
        return batch

    def _note(self, number: int, size: int, from_cache: bool = False) -> None:
        with self._lock:
            self._sizes[number] = size
            if from_cache:
                self._from_cache += size
            else:
                self._from_source += size

    def _keep(self, number: int, batch: Batch, size: int) -> bool:
        with self._lock:
            fits = self._taken() + size <= KEPT_SHARE * self._room
            if fits:
                self._kept[number] = batch
        return fits

    def _settle(self, number: int, memory: _Memory) -> None:
        """Let go of what the budget has no room for: late batches first, memories last."""
        with self._lock:
            self._remembered[number] = size_of([value for _, value in list(memory.values())])
            while self._kept and self._taken() > KEPT_SHARE * self._room:
                last = max(self._kept)
                batch = self._kept.pop(last)
                if self._cache is not None:
                    self._cache.store(last, batch)
            if self._taken() > KEPT_SHARE * self._room:
                self._memories.pop(number, None)
                self._remembered.pop(number, None)

    def _taken(self) -> int:
        kept = sum(self._sizes[number] for number in self._kept)
        return kept + sum(self._remembered.values())

    def _require_room(self, number: int, size: int) -> None:
        needed = int(WORKING_SPACE * size)
        if needed > (1.0 - KEPT_SHARE) * self._room:
            least = self._limit - self._room + needed / (1.0 - KEPT_SHARE)
            raise MemoryError(
                f"batch {number} takes {shown_bytes(size)}, and work on it about "
                f"{shown_bytes(needed)}, for which memory_limit={shown_bytes(self._limit)} has no "
                f"room beside the {shown_bytes(self._limit - self._room)} that the process took "
                f"before: set it to {shown_bytes(1.1 * least)} or more, or make batches smaller "
                f"(rows_per_batch; for Parquet also the row groups of the files)"
            )


class _Telling:
    """Tells how far a pass is: to a function after every batch, to the log now and then."""

    def __init__(self, progress: Callable[[PassProgress], None] | None) -> None:
        self._progress = progress
        self._began = self._said = time.monotonic()

    def begin(self) -> None:
        """Begin a pass."""
        self._began = self._said = time.monotonic()

    def after_batch(self, number: int, done: int, in_all: int) -> None:
        """Tell that so many bytes of a pass are done."""
        now = time.monotonic()
        left = (now - self._began) * max(in_all - done, 0) / max(done, 1)
        made = PassProgress(number, done, in_all, left)
        if self._progress is not None:
            self._progress(made)
        if now - self._said > LOG_SECONDS:
            logger.info("%s", made)
            self._said = now


@dataclass(frozen=True, eq=False)
class StreamedWorkers:
    """Batches of a store, and the `map` that runs steps on them (the built-in by default)."""

    store: BatchStore
    apply: Spread = map
    tell: _Telling = field(default_factory=lambda: _Telling(None))
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        """Open an account for every batch."""
        object.__setattr__(self, "ledger", Ledger([0.0] * self.store.reading.batches))

    @property
    def reading(self) -> Reading:
        """What was read so far."""
        return self.store.reading

    @property
    def reads_again(self) -> bool:
        """Whether some batches seen so far are not in memory."""
        return self.store.reads_again

    def map(
        self,
        step: Step,
        per_batch: Sequence[Any] | None,
        broadcast: Any,
        only: Sequence[int] | None = None,
    ) -> list[Any]:
        """Run the step on every batch, or on some; replies come back in batch order."""
        numbers = range(len(self.ledger.seconds)) if only is None else only
        messages = [None] * len(numbers) if per_batch is None else per_batch
        self.store.begin_pass(is_whole=only is None)

        def work(number: int, message: Any) -> tuple[Any, float]:
            began = time.perf_counter()
            with self.store.visit(number) as resident:
                reply = step(resident, message, broadcast)
            return reply, time.perf_counter() - began

        self.tell.begin()
        replies: list[Any] = []
        for number, (reply, seconds) in zip(
            numbers, self.apply(work, numbers, messages), strict=True
        ):
            self.ledger.seconds[number] += seconds
            replies.append(reply)
            if only is None:
                self.tell.after_batch(*self.store.progress(number))
        return replies
