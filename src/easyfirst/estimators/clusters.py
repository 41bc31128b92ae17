"""From what a user gives to a source and an engine: data and clusters of every supported kind.

Libraries are recognised by the module of a type and asked only if they are loaded already, so
that a fit of arrays never imports a cluster library, and "auto" never starts anything.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst import engines
from easyfirst.contracts import Batch, Engine, Source, Vector, Workers
from easyfirst.engines.memory import available_bytes
from easyfirst.local.judging import WeightTotals, total_weights
from easyfirst.penalties import Penalty
from easyfirst.sources.arrays import ArraySource
from easyfirst.sources.changed import ChangedSource
from easyfirst.sources.frames import library_of, source_module
from easyfirst.transforms import TargetTransform

# Engines that are loaded when asked for: their module and class.
CLUSTER_ENGINES = {
    "dask": ("easyfirst.engines.dask", "DaskEngine"),
    "ray": ("easyfirst.engines.ray", "RayEngine"),
    "spark": ("easyfirst.engines.spark", "SparkEngine"),
}
NAMES = ("auto", "threads", "inline", "out-of-core", *CLUSTER_ENGINES)
SHARE_OF_MEMORY = 0.5  # of what is free, beyond which files are not loaded as a whole
MOST_COUNTED = 2.0**40  # beyond, sums of whole weights lose the single row: they only compare
CONNECTIONS = {"distributed": "dask", "pyspark": "spark"}  # whose connections stand for engines


class SharedEngineMixin:
    """Estimators whose clones share the engine: a connection to a cluster cannot be copied."""

    engine: Any

    def __sklearn_clone__(self) -> Any:
        """Return an unfitted copy with the same engine."""
        elsewhere = copy(self)
        elsewhere.__dict__["engine"] = "inline"
        twin: Any = super(SharedEngineMixin, elsewhere).__sklearn_clone__()  # type: ignore[misc]
        if "engine" in vars(twin):  # a parameter of this estimator
            twin.engine = self.engine
        return twin


def source_of(X: Any, y: Any, sample_weight: Any, batches: Any) -> Source | None:
    """Return the source that fit's arguments are or stand for; None for rows in memory."""
    is_source = hasattr(X, "partitions") and library_of(X) is None
    if not is_source and library_of(X) is None:
        return None
    if batches is not None:
        raise ValueError("batches is for rows in memory; here, each partition is a batch")
    if is_source:
        if y is not None or sample_weight is not None:
            raise ValueError(
                "a source holds y and the sample weights itself: give fit the source alone, and "
                "name the columns where the source is made"
            )
        source: Source = X
        return source
    if library_of(X) != "dask":
        raise TypeError(
            f"fit cannot tell the target among the columns of {type(X).__name__}: give "
            f"fit(easyfirst.read_frame(frame, target=...))"
        )
    pair: Source = source_module("dask").DaskPairSource(X, y, sample_weight)
    return pair


def find_engine(given: Any, n_jobs: int | None, source: Source) -> Engine:
    """Return the engine that a name, a connection or an instance stands for."""
    if isinstance(given, str) and given in NAMES:
        if given == "auto":
            return _best_engine(source, n_jobs)
        return _named(given, n_jobs)
    if not isinstance(given, str):
        library = type(given).__module__.partition(".")[0]
        if library in CONNECTIONS:
            connected: Engine = _cluster_engine(CONNECTIONS[library])(given)
            return connected
        if hasattr(given, "open"):
            engine: Engine = given
            return engine
    names = ", ".join(map(repr, NAMES))
    raise ValueError(
        f"engine must be one of {names}, a dask Client, a Spark session or an engine instance, "
        f"got {given!r}"
    )


def _named(name: str, n_jobs: int | None) -> Engine:
    if name == "threads":
        return engines.Threads(n_jobs)
    if name == "inline":
        return engines.Inline()
    if name == "out-of-core":
        return engines.OutOfCore(n_jobs=n_jobs)
    engine: Engine = _cluster_engine(name)(*_connection(name))
    return engine


def _cluster_engine(name: str) -> Callable[..., Any]:
    module, engine = CLUSTER_ENGINES[name]
    loaded: Callable[..., Any] = getattr(importlib.import_module(module), engine)
    return loaded


def _best_engine(source: Source, n_jobs: int | None) -> Engine:
    """Choose by where the rows are, then by what is connected; rows in memory stay here."""
    if isinstance(source, ArraySource):
        return engines.Threads(n_jobs)
    home = type(source).__module__.rpartition(".")[2]
    candidates = [home] if home in CLUSTER_ENGINES else list(CLUSTER_ENGINES)
    for name in candidates:
        if _is_connected(name):
            return _named(name, n_jobs)
    kind = engines.OutOfCore if _is_too_large(source) else engines.Threads
    return kind(n_jobs=n_jobs)


def _is_too_large(source: Source) -> bool:
    """Return whether the rows, as far as the source knows their size, do not fit into memory."""
    size, free = getattr(source, "n_bytes", None), available_bytes()
    return size is not None and free is not None and size > SHARE_OF_MEMORY * free


def for_one_pass(engine: Engine) -> Engine:
    """Return the engine for work that reads the rows just once."""
    once = getattr(engine, "for_one_pass", None)
    found: Engine = engine if once is None else once()
    return found


def store_reading(model: Any, workers: Workers) -> None:
    """Keep what an engine that reads rows again and again says of it, as `reading_`."""
    vars(model).pop("reading_", None)
    reading = getattr(workers, "reading", None)
    if reading is not None:
        model.reading_ = reading


def _is_connected(name: str) -> bool:
    """Return whether this process is connected to such a cluster; nothing is loaded to find out."""
    if name == "dask":
        return _dask_client() is not None
    if name == "ray":
        ray = sys.modules.get("ray")
        return ray is not None and bool(ray.is_initialized())
    return bool(_connection("spark"))


def _dask_client() -> Any:
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.Client.current()
    except ValueError:
        return None


def _connection(name: str) -> list[Any]:
    """Return what an engine's constructor needs to reach its cluster."""
    sql = sys.modules.get("pyspark.sql")
    if name != "spark" or sql is None:
        return []
    session = sql.SparkSession.getActiveSession()
    return [] if session is None else [session]


def with_countable_weights(
    source: Source, penalty: Penalty, engine: Engine
) -> tuple[Source, Penalty]:
    """Return the source with sample weights that can be counted like rows.

    Whole weights are repeated rows. Others only say how rows compare, so they are brought to a
    mean of one, and a quadratic penalty along with them. Finding out costs one reading of the
    rows, where weights are given at all.
    """
    if not _is_weighted(source):
        return source, penalty
    totals = _weight_totals(source, engine)
    weight = sum(total.total for total in totals)
    if weight <= 0:
        raise ValueError("sample_weight is zero for every row: nothing is left to fit")
    if weight <= MOST_COUNTED and all(total.whole for total in totals):
        return source, penalty
    factor = sum(total.positive for total in totals) / weight
    penalty = penalty.scaled(factor)
    if isinstance(source, ArraySource):
        assert source.sample_weight is not None
        return replace(source, sample_weight=source.sample_weight * factor), penalty
    return ChangedSource(source, _Rescale(factor)), penalty


def _weight_totals(source: Source, engine: Engine) -> list[WeightTotals]:
    """Add up the sample weights batch by batch, so that every kind of source gives the same."""
    if isinstance(source, ArraySource):
        assert source.sample_weight is not None
        return [WeightTotals.of(source.sample_weight[rows]) for rows in source.rows()]
    with for_one_pass(engine).open(source.partitions()) as workers:
        totals: list[WeightTotals] = workers.map(total_weights, None, None)
    return totals


def _is_weighted(source: Any) -> bool:
    columns = getattr(source, "columns", None)
    named = getattr(columns, "sample_weight", None) is not None
    given = getattr(source, "sample_weight", None) is not None
    return named or given or bool(getattr(source, "is_weighted", False))


@dataclass(frozen=True)
class _Rescale:
    """Multiplies the sample weights of a batch."""

    factor: float

    def __call__(self, batch: Batch) -> Batch:
        if batch.sample_weight is None:
            return batch
        return replace(batch, sample_weight=batch.sample_weight * self.factor)


def with_transformed_target(source: Source, transform: TargetTransform) -> Source:
    """Return the source with its target transformed, on the workers that read it."""
    if transform.is_identity:
        return source
    if not isinstance(source, ArraySource):
        return ChangedSource(source, _TransformTarget(transform))
    weight = source.sample_weight
    return replace(source, y=_transformed(transform, source.y, weight, source.row_ids))


@dataclass(frozen=True)
class _TransformTarget:
    transform: TargetTransform

    def __call__(self, batch: Batch) -> Batch:
        y = _transformed(self.transform, batch.y, batch.sample_weight, batch.row_ids)
        return replace(batch, y=y)


def _transformed(
    transform: TargetTransform, y: Vector, weight: Vector | None, ids: NDArray[Any] | None
) -> Vector:
    """Transform what takes part; rows of weight zero may hold anything."""
    if weight is not None and not np.all(weight > 0):
        absent = ~(weight > 0) & ~transform.has(y)
        y = np.where(absent, np.median(y[~absent]) if not absent.all() else 1.0, y)
    complaint = transform.complaint(y, ids)
    if complaint is not None:
        raise ValueError(complaint)
    return transform.of(y)
