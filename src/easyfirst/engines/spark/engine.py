"""The engine for Spark: jobs, replies and what to do when either fails."""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, Self

from easyfirst.contracts import Ledger, Partition, Step
from easyfirst.engines import residency
from easyfirst.engines.residency import Answer
from easyfirst.engines.spark import task_pools
from easyfirst.engines.spark.row_loaders import Job, row_loader_of
from easyfirst.engines.spark.spool import Spool
from easyfirst.engines.spark.tasks import (
    DeleteBatches,
    StepTask,
    count_rows,
    from_bytes,
    spool_here,
    to_bytes,
)
from easyfirst.errors import EngineLostError

MOST_FAILURES = 8  # of one job in a row, each after all of Spark's own retries

# In the errors of Spark Connect, whose client tries for minutes before it gives up.
SIGNS_OF_LOSS = ("UNAVAILABLE", "RETRIES_EXCEEDED", "SESSION_CLOSED", "SESSION_NOT_FOUND")

logger = logging.getLogger("easyfirst")


@dataclass(frozen=True, eq=False)
class SparkEngine:
    """Run steps on the executors of a Spark application.

    Parameters
    ----------
    spark
        A session, classic or Spark Connect; None takes the active one of this process.
    tasks
        How many tasks a step is cut into; each works on several batches and sends one reply.
        None: one per core. The result is bit-for-bit identical for any number.

    Notes
    -----
    Rows given as arrays are copied to every executor that works on them; larger data come as a
    Spark frame or as Parquet files, of which an executor reads only its share. The executors need
    easyfirst installed, and room for the batches in Spark's local directories.
    """

    spark: Any = None
    tasks: int | None = None

    def __post_init__(self) -> None:
        """Find the session, and refuse what is not one."""
        spark = _active_session() if self.spark is None else self.spark
        if not (hasattr(spark, "createDataFrame") and hasattr(spark, "range")):
            raise TypeError(f"spark must be a SparkSession, got {spark!r}")
        if self.tasks is not None and not (isinstance(self.tasks, Integral) and self.tasks > 0):
            raise ValueError(f"tasks must be a whole number > 0 or None, got {self.tasks!r}")
        object.__setattr__(self, "spark", spark)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Stay the same when an estimator is cloned: a connection has no copies."""
        return self

    @contextmanager
    def open(self, partitions: Sequence[Partition]) -> Iterator[SparkWorkers]:
        """Make the batches available to the executors for the duration of a fit."""
        workers = SparkWorkers(self.spark, partitions, self.tasks)
        try:
            workers.place()
            yield workers
        finally:
            workers.close()


class SparkWorkers:
    """Batches opened on a Spark cluster."""

    def __init__(self, spark: Any, partitions: Sequence[Partition], tasks: int | None) -> None:
        self.ledger = Ledger([0.0] * len(partitions))
        self._spark = spark
        self._n_batches = len(partitions)
        self._fit = uuid.uuid4().hex
        with _translated(spark):
            _share_python(spark)
            self._spool = _spool_of_driver(spark, self._fit)
            n_tasks = min(tasks or task_pools.parallelism(spark), self._n_batches)
            self._row_loader = row_loader_of(spark, partitions, n_tasks, self._spool)

    def place(self) -> None:
        """Bring the rows to the executors, as far as it is known which of them works on which."""
        step_task = self._step_task(count_rows, residency.addressed(None, None, self._n_batches))
        with _translated(self._spark):
            answers = self._answers(step_task, self._row_loader.place(step_task))
        residency.in_batch_order(answers, self.ledger)

    def map(
        self,
        step: Step,
        per_batch: Sequence[Any] | None,
        broadcast: Any,
        only: Sequence[int] | None = None,
    ) -> list[Any]:
        """Run the step on every batch, or on some; replies come back in batch order."""
        messages = residency.addressed(per_batch, only, self._n_batches)
        step_task = self._step_task(step, messages, broadcast)
        with _translated(self._spark):
            answers = self._answers(
                step_task, [Job(partial(self._row_loader.pool.run, step_task, only))]
            )
            missing = sorted(set(messages) - {answer.number for answer in answers})
            if missing:
                answers += self._answers(step_task, self._row_loader.fetch(step_task, missing))
        return residency.in_batch_order(answers, self.ledger)

    def close(self) -> None:
        """Delete the batches; what cannot be reached is deleted by Spark with its application."""
        with suppress(Exception):  # the fit is over; whoever is gone has forgotten already
            if self._spool is None:
                self._row_loader.pool.run(DeleteBatches(self._fit))
            self._row_loader.release()
        if self._spool is not None:
            self._spool.remove()

    def _step_task(
        self, step: Step, messages: Mapping[int, Any], broadcast: Any = None
    ) -> StepTask:
        return StepTask(self._fit, to_bytes((step, messages, broadcast)))

    def _answers(self, step_task: StepTask, jobs: Iterable[Job]) -> list[Answer]:
        """Run jobs one after the other and return what their tasks answered."""
        answers: list[Answer] = []
        for job in jobs:
            replies = self._persist(job)
            self.ledger.messages += 2 * len(replies)
            self.ledger.bytes_sent += len(step_task.order) * len(replies) + job.parcels
            self.ledger.bytes_received += sum(map(len, replies))
            for reply in replies:
                answers += from_bytes(reply)
        return answers

    def _persist(self, job: Job) -> list[bytes]:
        """Run a job until it succeeds: a step changes nothing, so it can always run again.

        Spark retries single tasks by itself, but not in local mode unless its master says so, as
        in "local[2,8]", and never more often than it was told.
        """
        for failures in range(1, MOST_FAILURES):
            try:
                return job.run()
            except Exception as error:
                if not _is_mishap(self._spark, error):
                    raise
                logger.warning("a Spark job lost its workers, %d in a row: run again", failures)
        return job.run()


@contextmanager
def _translated(spark: Any) -> Iterator[None]:
    """Turn every way in which Spark fails into one error that says what happened."""
    try:
        yield
    except Exception as error:
        if not _is_alive(spark, error):
            raise EngineLostError(
                f"The Spark application is gone or was stopped ({type(error).__name__})"
            ) from error
        if _is_python_error(error):
            raise RuntimeError(
                f"Spark's Python workers cannot run easyfirst: {_gist(error)}; its executors need "
                f"the same easyfirst and Python as the driver"
            ) from error
        if not _is_aborted(error):
            raise
        raise EngineLostError(
            f"Spark gave up on a step: {_gist(error)}; if its workers run out of memory, use "
            f"smaller batches or give the executors more"
        ) from error


def _is_mishap(spark: Any, error: Exception) -> bool:
    """Return whether a job failed because processes died, and may do better the next time."""
    return _is_aborted(error) and not _is_python_error(error) and _is_alive(spark, error)


def _is_aborted(error: Exception) -> bool:
    return "Job aborted" in str(error)


def _is_python_error(error: Exception) -> bool:
    from pyspark.errors import PythonException

    return isinstance(error, PythonException)


def _is_alive(spark: Any, error: Exception) -> bool:
    """Return whether the application still answers; Spark Connect says so only by its errors."""
    context = getattr(spark, "_sc", None)
    if context is None:
        return not any(sign in str(error) for sign in SIGNS_OF_LOSS)
    try:
        return not context._jsc.sc().isStopped()
    except Exception:
        return False


def _gist(error: Exception) -> str:
    """Return the one line of Spark's long messages that names the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ") or "Error: " in line]
    return (causes or lines or [type(error).__name__])[-1 if causes else 0][:500]


def _active_session() -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise ImportError(
            "SparkEngine needs the 'spark' extra: pip install 'easyfirst[spark]'"
        ) from None
    session = SparkSession.getActiveSession()
    if session is None:
        raise ValueError(
            "SparkEngine() found no active session: give one, as in "
            "SparkEngine(SparkSession.builder.getOrCreate())"
        )
    return session


def _local_context(spark: Any) -> Any:
    """Return the SparkContext if it runs its workers on this machine, as in local mode."""
    context = task_pools.context_of(spark)
    if context is None or not context.master.startswith("local") or "cluster" in context.master:
        return None
    return context


def _share_python(spark: Any) -> None:
    """Let local workers run this Python, which has easyfirst, unless the user chose another.

    Spark's own default is whichever python3 comes first in the path.
    """
    context = _local_context(spark)
    chosen = os.environ.get("PYSPARK_PYTHON")
    if context is not None and not (chosen or context.getConf().get("spark.pyspark.python")):
        context.pythonExec = sys.executable


def _spool_of_driver(spark: Any, fit: str) -> Spool | None:
    """Return the executors' spool if the driver can write to it: in local mode, where it is one."""
    return None if _local_context(spark) is None else spool_here(fit)
