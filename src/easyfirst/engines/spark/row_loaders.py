"""Where the rows of the batches come from: from the driver, or from a Spark frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from easyfirst.contracts import HeldPartition, Partition
from easyfirst.engines.spark import task_pools
from easyfirst.engines.spark.spool import Spool
from easyfirst.engines.spark.task_pools import TaskPool
from easyfirst.engines.spark.tasks import Placement, StepTask, to_bytes

LIGHT = 1 << 16  # bytes: a larger partition carries its rows, a smaller one names them
LARGEST_PARCEL = 1 << 26  # bytes of partitions that one job sends


@dataclass(frozen=True, eq=False)
class Job:
    """Something for Spark to do that returns replies; `parcels` counts the bytes of rows sent."""

    run: Callable[[], list[bytes]]
    parcels: int = 0


class RowLoader(Protocol):
    """The rows of all batches of a fit, and the pool that works on them."""

    pool: TaskPool

    def place(self, step_task: StepTask) -> Iterator[Job]:
        """Bring the rows to the executors as far as possible, and run a step meanwhile."""
        ...

    def fetch(self, step_task: StepTask, missing: Sequence[int]) -> Iterator[Job]:
        """Bring these batches to where they are worked on, and run a step on them."""
        ...

    def release(self) -> None:
        """Free what Spark remembers of the batches."""
        ...


def row_loader_of(
    spark: Any, partitions: Sequence[Partition], n_tasks: int, spool: Spool | None
) -> RowLoader:
    """Return the supply for partitions of any kind; `spool` is one that the driver can reach."""
    rows = [part for part in partitions if isinstance(part, HeldPartition) and _in_frame(part)]
    if rows and len(rows) == len(partitions):
        return FrameRowLoader(spark, rows, n_tasks)
    return DriverRowLoader(spark, partitions, n_tasks, spool)


def _in_frame(part: HeldPartition) -> bool:
    """Return whether the block is (frame, number of the partition in it)."""
    return isinstance(part.block, tuple) and hasattr(part.block[0], "mapInArrow")


class DriverRowLoader:
    """Partitions that the driver has: rows in its memory, or the names of files."""

    def __init__(
        self, spark: Any, partitions: Sequence[Partition], n_tasks: int, spool: Spool | None
    ) -> None:
        self.pool: TaskPool = task_pools.gather(spark, len(partitions), n_tasks)
        self._partitions = partitions
        self._spool = spool

    def place(self, step_task: StepTask) -> Iterator[Job]:
        """Store rows that are in memory, if the driver is on the executors' host; else wait."""
        del step_task
        if self._spool is not None:
            for number, part in enumerate(self._partitions):
                if len(to_bytes(part)) > LIGHT:
                    self._spool.write(number, part.load())
        return iter(())

    def fetch(self, step_task: StepTask, missing: Sequence[int]) -> Iterator[Job]:
        """Send the partitions to the tasks that miss them, as many at once as is prudent."""
        for group, size in self._groups(missing):
            loads = {number: self._partitions[number].load for number in group}
            yield Job(partial(self.pool.run, replace(step_task, loads=loads), group), size)

    def release(self) -> None:
        """Free what Spark remembers of the batches."""
        self.pool.numbers.unpersist()

    def _groups(self, numbers: Sequence[int]) -> Iterator[tuple[list[int], int]]:
        group: list[int] = []
        size = 0
        for number in numbers:
            group.append(number)
            size += len(to_bytes(self._partitions[number]))
            if size > LARGEST_PARCEL:
                yield group, size
                group, size = [], 0
        if group:
            yield group, size


class FrameRowLoader:
    """Partitions of a Spark frame, which are stored where Spark reads them.

    A cached frame has one row per batch on the executor that stored the batch. Where an executor
    is lost, Spark computes its part of the cached frame again, and so stores the batch again.
    """

    def __init__(self, spark: Any, partitions: Sequence[HeldPartition], n_tasks: int) -> None:
        self._spark = spark
        self._n_tasks = n_tasks
        self._placed: Any = None
        self._frame = partitions[0].block[0]
        self._places = [part.block[1] for part in partitions]
        self._reads = [part.read for part in partitions]

    def place(self, step_task: StepTask) -> Iterator[Job]:
        """Read the whole frame, and remember where each part of it was read."""
        self._placed = self._placing(step_task, range(len(self._places))).persist()
        yield Job(partial(_replies, self._placed))
        # Not before: tasks are grouped by where the rows are at this moment.
        self.pool = task_pools.follow(self._spark, self._placed, self._n_tasks)

    def fetch(self, step_task: StepTask, missing: Sequence[int]) -> Iterator[Job]:
        """Read some partitions again, where Spark happens to read them."""
        yield Job(partial(_replies, self._placing(step_task, missing)))

    def release(self) -> None:
        """Free what Spark remembers of the batches."""
        if self._placed is not None:
            self._placed.unpersist()

    def _placing(self, step_task: StepTask, numbers: Sequence[int]) -> Any:
        from pyspark.sql.functions import spark_partition_id

        frame = self._frame
        if len(numbers) < len(self._places):
            frame = frame.where(spark_partition_id().isin([self._places[n] for n in numbers]))
        reads = {self._places[n]: (n, self._reads[n]) for n in numbers}
        placement = Placement(reads, step_task)
        return frame.mapInArrow(lambda pieces: placement(pieces), "number bigint, reply binary")


def _replies(placed: Any) -> list[bytes]:
    return [bytes(reply) for (reply,) in placed.select("reply").collect()]
