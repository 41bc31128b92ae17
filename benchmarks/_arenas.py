"""Local clusters of two workers on loopback, one for each engine, as the tests start them."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))
# Workers are processes of their own, and import the modules beside this one as well.
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])


@dataclass(frozen=True)
class Arena:
    """A running cluster: its engine, and the worker processes that may be killed now."""

    engine: Any
    pids: Callable[[], list[int]]


@contextlib.contextmanager
def dask_arena(n_workers: int = 2) -> Iterator[Arena]:
    """Dask workers of one thread."""
    from clusters import dask_worker_pids, local_dask
    from easyfirst.engines.dask import DaskEngine

    with local_dask(n_workers) as client:
        yield Arena(DaskEngine(client), lambda: dask_worker_pids(client))


@contextlib.contextmanager
def ray_arena() -> Iterator[Arena]:
    """Ray on two CPUs."""
    from easyfirst.engines.ray import RayEngine
    from ray_cluster import at_work, local_ray

    with local_ray(2, store=2**31):
        yield Arena(RayEngine(), at_work)


@contextlib.contextmanager
def spark_arena() -> Iterator[Arena]:
    """Spark with two cores, failed tasks retried."""
    from easyfirst.engines.spark import SparkEngine
    from sparks import busy_workers, java_pid, start_spark, stop_spark

    with tempfile.TemporaryDirectory() as folder:
        spark = start_spark(folder, **{"spark.driver.memory": "4g"})
        try:
            java = java_pid(spark)
            yield Arena(SparkEngine(spark), lambda: busy_workers(java))
        finally:
            stop_spark(spark)


ARENAS: dict[str, Callable[[], contextlib.AbstractContextManager[Arena]]] = {
    "dask": dask_arena,
    "ray": ray_arena,
    "spark": spark_arena,
}
