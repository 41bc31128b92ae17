"""Batches on a Spark cluster: kept as files on the hosts, worked on by one task per core.

Spark chooses the Python process that runs a task, so no process owns a batch: its rows lie in
memory-mapped files beside Spark's own (`spool.py`), shared by all workers of an executor. A task
(`tasks.py`) answers for the batches that it finds there; those that nobody answered for are then
sent or read again where they are missing (`row_loaders.py`). So a dead worker or executor costs a
retry, and perhaps a reload. Loaded only when asked for; needs the 'spark' extra.
"""

from easyfirst.engines.spark.engine import SparkEngine, SparkWorkers

__all__ = ["SparkEngine", "SparkWorkers"]
