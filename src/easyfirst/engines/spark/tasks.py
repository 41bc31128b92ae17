"""What runs inside Spark's Python workers: a step on the batches that lie on this host."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from easyfirst.contracts import Batch, Resident
from easyfirst.engines import residency
from easyfirst.engines.residency import Work
from easyfirst.engines.spark.spool import Spool

Load = Callable[[], Batch]


@dataclass(frozen=True, eq=False)
class StepTask:
    """One task's part of a step, for any of the tasks.

    `order` is the step with its messages, by batch, serialized. Without `loads` the task answers
    for those of its batches that lie on its host; with them, for those that it is told how to load.
    """

    fit: str
    order: bytes
    loads: Mapping[int, Load] | None = None

    def __call__(self, numbers: Iterable[int]) -> Iterator[bytes]:
        """Run the step and pack the answers into one reply; no reply if there is no answer."""
        spool = spool_here(self.fit)
        known = spool.has if self.loads is None else self.loads.__contains__
        mine = [number for number in numbers if known(number)]
        if not mine:
            return
        step, messages, broadcast = from_bytes(self.order)
        works = [
            Work(number, partial(self._load, spool, number), messages[number], held=True)
            for number in mine
            if number in messages
        ]
        if works:
            yield to_bytes(residency.carry_out(self.fit, works, step, broadcast))

    def _load(self, spool: Spool, number: int) -> Batch:
        if self.loads is not None and not spool.has(number):
            spool.write(number, self.loads[number]())
        return spool.read(number)


@dataclass(frozen=True, eq=False)
class Placement:
    """A step in the tasks that read a frame: the rows of each partition become its batch.

    `reads` has the batch's number and how to read it for every partition of the frame that is
    wanted.
    """

    reads: Mapping[int, tuple[int, Callable[[Any], Batch]]]
    step_task: StepTask

    def __call__(self, pieces: Iterator[Any]) -> Iterator[Any]:
        """Store the rows on this host and answer for them: (number, reply)."""
        import pyarrow as pa
        from pyspark import TaskContext

        task: Any = TaskContext.get()
        number, read = self.reads.get(task.partitionId(), (None, None))
        received = list(pieces)
        if number is None or read is None:
            return
        table = pa.Table.from_batches(received) if received else None
        step_task = replace(self.step_task, loads={number: partial(read, table)})
        for reply in step_task([number]):
            yield pa.record_batch({"number": [number], "reply": [reply]})


@dataclass(frozen=True, eq=False)
class DeleteBatches:
    """Delete what this host keeps of a fit."""

    fit: str

    def __call__(self, numbers: Iterable[int]) -> Iterator[bytes]:
        """Forget and delete; there is nothing to say."""
        del numbers
        residency.forget(self.fit)
        spool_here(self.fit).remove()
        return iter(())


def count_rows(resident: Resident, message: None, broadcast: None) -> int:
    """Return the number of rows: the step that only asks whether a batch is there."""
    del message, broadcast
    return resident.batch.n_samples


def spool_here(fit: str) -> Spool:
    """Return where this executor keeps the batches of a fit.

    In the directory of the application's files, which Spark deletes with the application even if
    nobody else can.
    """
    from pyspark import SparkFiles

    return Spool(Path(SparkFiles.getRootDirectory()) / f"easyfirst-{fit}")


def to_bytes(value: Any) -> bytes:
    """Serialize by Spark's own means, which are those of every function that Spark runs."""
    return bytes(_serializer().dumps(value))


def from_bytes(blob: bytes) -> Any:
    """Undo `to_bytes`."""
    return _serializer().loads(blob)


def _serializer() -> Any:
    serializers: Any = importlib.import_module("pyspark.serializers")
    return serializers.CloudPickleSerializer()
