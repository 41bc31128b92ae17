"""`read_frame`: a table of any library as a source, without loading libraries that are not used."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import narwhals as nw

from easyfirst.contracts import Source
from easyfirst.sources.arrays import ArraySource
from easyfirst.sources.columns import Columns

# Libraries whose data live on a cluster, and the source that reads their frames.
CLUSTER_SOURCES = {"dask": "DaskSource", "ray": "RaySource", "pyspark": "SparkSource"}
MODULES = {"dask": "dask", "ray": "ray", "pyspark": "spark"}  # by which easyfirst's are named


def library_of(data: Any) -> str | None:
    """Return the cluster library that data belong to: "dask", "ray", "pyspark", or None."""
    for kind in type(data).__mro__:
        library = kind.__module__.partition(".")[0]
        if library in CLUSTER_SOURCES:
            return library
    return None


def source_module(library: str) -> Any:
    """Return the module of easyfirst that knows a cluster library's data."""
    return importlib.import_module(f"easyfirst.sources.{MODULES[library]}")


def read_frame(
    frame: Any,
    target: str,
    *,
    features: Sequence[str] | None = None,
    row_id: str | None = None,
    sample_weight: str | None = None,
) -> Source:
    """Return the rows of a table as a source for `fit`.

    Parameters
    ----------
    frame
        A pandas, polars or pyarrow table; or a dask DataFrame, a Ray Dataset or a Spark DataFrame,
        whose partitions become batches and stay where they are.
    target
        The column to predict.
    features
        The columns to predict from. None: all that have no other role.
    row_id
        A column with the names of the rows, given back beside their weights.
    sample_weight
        A column that says how much each row counts.

    Examples
    --------
    >>> import polars as pl
    >>> from easyfirst import SelfPacedRegressor, read_frame
    >>> rooms = [1, 2, 3, 4, 5, 6, 7, 8]
    >>> flats = pl.DataFrame({"rooms": rooms, "price": [10 * n + 1 for n in rooms]})
    >>> model = SelfPacedRegressor().fit(read_frame(flats, target="price"))
    >>> float(model.coef_[0])
    10.0
    """
    library = library_of(frame)
    if library is not None:
        source = getattr(source_module(library), CLUSTER_SOURCES[library])
        made: Source = source(
            frame, target=target, features=features, row_id=row_id, sample_weight=sample_weight
        )
        return made
    table = nw.from_native(frame, pass_through=True)
    if isinstance(table, nw.LazyFrame):
        raise TypeError("a lazy frame is not computed yet: call .collect() on it first")
    if not isinstance(table, nw.DataFrame):
        raise TypeError(f"frame must be a table with named columns, got {type(frame)!r}")
    columns = Columns.choose(table.columns, target, features, row_id, sample_weight)
    batch = columns.batch(frame, "frame")
    if batch.n_samples == 0:
        raise ValueError("frame has no rows: nothing is there to fit")
    return ArraySource(
        batch.X,
        batch.y,
        batch.sample_weight,
        feature_names=columns.features,
        row_ids=batch.row_ids,
    )
