"""Engines inside this process: a plain loop and a thread pool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from numbers import Integral

import joblib

from easyfirst.contracts import Batch, Engine, Partition, Resident, Spread
from easyfirst.engines.blas import one_blas_thread
from easyfirst.workers import ResidentWorkers

RUNS = 8  # of batches, that each thread loads


@cache
def _cores() -> int:
    # Reading what the machine grants this process takes longer than a round of a small fit.
    return int(joblib.cpu_count())


@dataclass(frozen=True)
class Inline:
    """Run every step in the calling thread, one batch after the other."""

    n_threads = 1

    @contextmanager
    def open(self, partitions: Sequence[Partition]) -> Iterator[ResidentWorkers]:
        """Load the batches for the duration of a fit."""
        with one_blas_thread():
            yield ResidentWorkers([Resident(part.load()) for part in partitions])


@dataclass(frozen=True)
class Threads:
    """Run steps in a pool of threads; `n_jobs=None` uses every core of this machine.

    The linear algebra releases Python's global lock, so batches really run side by side.
    """

    n_jobs: int | None = None

    def __post_init__(self) -> None:
        """Reject thread counts that mean nothing."""
        if self.n_jobs is not None and not (isinstance(self.n_jobs, Integral) and self.n_jobs):
            raise ValueError(
                f"n_jobs must be a whole number other than 0, or None for every core, "
                f"got {self.n_jobs!r}"
            )

    @property
    def n_threads(self) -> int:
        """Return the number of threads; negative `n_jobs` count back from all cores."""
        cores = _cores()
        if self.n_jobs is None:
            return cores
        return self.n_jobs if self.n_jobs > 0 else max(1, cores + 1 + self.n_jobs)

    @contextmanager
    def open(self, partitions: Sequence[Partition]) -> Iterator[ResidentWorkers]:
        """Load the batches and keep the threads for the duration of a fit."""
        if self.n_threads == 1:
            with Inline().open(partitions) as workers:
                yield workers
            return
        with one_blas_thread(), ThreadPoolExecutor(self.n_threads, "easyfirst") as pool:
            batches = _loaded(partitions, pool, self.n_threads)
            # Of one batch alone, threads share the rows: nobody else needs them.
            spread: Spread = pool.map if len(batches) == 1 else map
            yield ResidentWorkers([Resident(batch, spread=spread) for batch in batches], pool.map)


def _loaded(
    partitions: Sequence[Partition], pool: ThreadPoolExecutor, n_threads: int
) -> list[Batch]:
    """Load the batches, a few runs of them per thread: a task for each would cost more itself."""
    length = max(1, -(-len(partitions) // (RUNS * n_threads)))
    runs = [partitions[k : k + length] for k in range(0, len(partitions), length)]
    # Starting a thread takes longer than one batch, or any number of them that need no copy.
    if len(runs) == 1 or all(getattr(part, "is_view", False) for part in partitions):
        return [part.load() for part in partitions]
    return [batch for run in pool.map(lambda run: [p.load() for p in run], runs) for batch in run]


@contextmanager
def cores_of_driver(engine: Engine) -> Iterator[Spread]:
    """Yield a `map` over the cores that the driver may use itself: an engine's limit holds here.

    Clusters limit their workers; the driver's own machine waits for them most of the time.
    """
    n_threads = getattr(engine, "n_threads", None) or _cores()
    if n_threads == 1:
        yield map
        return
    with ThreadPoolExecutor(n_threads, "easyfirst-driver") as pool:
        yield pool.map
