"""How step tasks reach the executors: by RDDs where the session has them, else by frames.

A task pool is a small cached collection of batch numbers. Caching it makes Spark remember which
executor worked on which numbers, and send the next task there. RDDs answer several times faster,
because a frame is planned and optimised again for every task; Spark Connect has frames only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Protocol

Run = Callable[[Iterable[int]], Iterator[bytes]]

REPLIES = "reply binary"


class TaskPool(Protocol):
    """Tasks that can be sent out with work."""

    @property
    def numbers(self) -> Any:
        """The collection of batch numbers that the tasks share."""
        ...

    def run(self, step_task: Run, numbers: Collection[int] | None = None) -> list[bytes]:
        """Send all tasks, or those that have these batches; return the replies."""
        ...


def gather(spark: Any, n_batches: int, n_tasks: int) -> TaskPool:
    """Return a pool in which every task has an even share of the batches."""
    bounds = [n_batches * task // n_tasks for task in range(n_tasks + 1)]
    context = context_of(spark)
    if context is None:
        frame = spark.range(0, n_batches, 1, n_tasks).toDF("number").persist()
        return FrameTaskPool(frame)
    shares = [list(range(first, last)) for first, last in pairwise(bounds)]
    homes = {number: task for task, share in enumerate(shares) for number in share}
    return RddTaskPool(context.parallelize(shares, n_tasks).persist(), homes)


def follow(spark: Any, placed: Any, n_tasks: int) -> TaskPool:
    """Return a pool that works where the rows of a cached frame of (number, ...) were placed."""
    numbers = placed.select("number").coalesce(n_tasks)
    if context_of(spark) is None:
        return FrameTaskPool(numbers)
    return RddTaskPool(numbers.rdd)


@dataclass(frozen=True, eq=False)
class RddTaskPool:
    """A pool on an RDD of lists of numbers; `homes` has the partition of each, if known."""

    numbers: Any
    homes: dict[int, int] | None = None

    def run(self, step_task: Run, numbers: Collection[int] | None = None) -> list[bytes]:
        """Send all tasks, or those that have these batches; return the replies."""
        chosen = None
        if numbers is not None and self.homes is not None:
            chosen = sorted({self.homes[number] for number in numbers})

        def run(lists: Iterable[Iterable[int]]) -> Iterator[bytes]:
            return step_task(chain.from_iterable(lists))

        return list(self.numbers.context.runJob(self.numbers, run, chosen))


@dataclass(frozen=True, eq=False)
class FrameTaskPool:
    """A pool on a frame with a column of batch numbers, for sessions without RDDs."""

    numbers: Any

    def run(self, step_task: Run, numbers: Collection[int] | None = None) -> list[bytes]:
        """Send all tasks, or those that have these batches; return the replies."""
        frame = self.numbers
        if numbers is not None:
            frame = frame.where(frame["number"].isin(*map(int, numbers)))
        return [
            bytes(reply) for (reply,) in frame.mapInArrow(_in_arrow(step_task), REPLIES).collect()
        ]


def _in_arrow(step_task: Run) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def run(pieces: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        numbers = [number for piece in pieces for number in piece.column(0).to_pylist()]
        for reply in step_task(numbers):
            yield pa.record_batch({"reply": pa.array([reply], pa.binary())})

    return run


def context_of(spark: Any) -> Any:
    """Return the session's SparkContext, or None where it has none that may be used."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return None
    try:
        spark.sparkContext.parallelize([0], 1)
    except Exception:  # some platforms keep the class and forbid its use
        return None
    return spark.sparkContext


def parallelism(spark: Any) -> int:
    """Return how many tasks the cluster runs at once, as far as it tells."""
    context = context_of(spark)
    if context is not None:
        return int(context.defaultParallelism)
    from pyspark.sql.functions import spark_partition_id

    return int(spark.range(1 << 12).select(spark_partition_id()).distinct().count())
