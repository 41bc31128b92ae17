"""What a cluster adds to a fit, and how the clusters' own robust regressions compare.

    python benchmarks/clusters.py overhead [--rows 2000000] [--engine dask ...]
    python benchmarks/clusters.py peers [--rows 200000]

`overhead` fits the same batches on threads and on two local workers of each engine, the rows being
loaded on both sides before the clock starts, and prints time, rounds, messages and bytes. `peers`
puts Spark MLlib's huber regression and dask-ml's ADMM beside easyfirst on the same cluster and the
same rows, at 10, 50 and 90 % corruption.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from _arenas import ARENAS
from _made import MadeRows, MadeSource, true_coef

from easyfirst import SelfPacedRegressor
from easyfirst.contracts import Partition
from easyfirst.engines import Threads

# Seconds that a round may cost beyond 1.5 times the threads' total.
ALLOWED = {"dask": 0.1, "ray": 0.1, "spark": 0.5}


@dataclass
class Stopwatch:
    """An engine whose clock starts when all batches are loaded."""

    engine: Any
    loaded_at: float = field(init=False, default=0.0)

    @contextlib.contextmanager
    def open(self, partitions: Sequence[Partition]) -> Iterator[Any]:
        """Open the engine, touch every batch, and note the time."""
        with self.engine.open(partitions) as workers:
            workers.map(_count_rows, None, None)
            self.loaded_at = time.perf_counter()
            yield workers


def _count_rows(resident: Any, message: None, broadcast: None) -> int:
    return int(resident.batch.n_samples)


def timed_fit(engine: Any, source: MadeSource, repeats: int) -> tuple[SelfPacedRegressor, float]:
    """Return the model and the least seconds of several fits."""
    best = np.inf
    for _ in range(repeats):
        watch = Stopwatch(engine)
        model = SelfPacedRegressor(engine=watch).fit(source)
        best = min(best, time.perf_counter() - watch.loaded_at)
    return model, best


def overhead(names: Sequence[str], source: MadeSource, repeats: int) -> None:
    """Print the table of the engines."""
    here, threads = timed_fit(Threads(2), source, repeats)
    print(f"{source.n_rows:,} rows x {source.n_columns} in {source.n_batches} batches, two workers")
    print("| engine | seconds | allowed | same bits | rounds | messages | MB sent | MB received |")
    print("|---|---|---|---|---|---|---|---|")
    print(_line("threads", threads, None, here, here))
    for name in names:
        with ARENAS[name]() as arena:
            model, seconds = timed_fit(arena.engine, source, repeats)
        allowed = 1.5 * threads + ALLOWED[name] * _rounds_on_all(here)
        print(_line(name, seconds, allowed, model, here), flush=True)


def _rounds_on_all(model: SelfPacedRegressor) -> int:
    return sum(record.rows == "all" for record in model.history_.rounds)


def _line(name: str, seconds: float, allowed: float | None, model: Any, reference: Any) -> str:
    rounds = [record for record in model.history_.rounds if record.rows == "all"]
    same = "yes" if model.coef_.tobytes() == reference.coef_.tobytes() else "NO"
    limit = "" if allowed is None else f"{allowed:.2f}"
    return (
        f"| {name} | {seconds:.2f} | {limit} | {same} | {len(rounds)} | "
        f"{sum(record.messages for record in rounds)} | "
        f"{sum(record.bytes_sent for record in rounds) / 1e6:.2f} | "
        f"{sum(record.bytes_received for record in rounds) / 1e6:.2f} |"
    )


@dataclass(frozen=True)
class Found:
    """What one method found: seconds and coefficients."""

    seconds: float
    coef: Any

    def line(self, name: str, corruption: float) -> str:
        """Return a row of the table."""
        error = np.linalg.norm(self.coef - true_coef(len(self.coef)))
        return f"| {corruption:.0%} | {name} | {self.seconds:.2f} | {error:.5f} |"


def peers(source: MadeSource) -> None:
    """Print time and coefficient error of each method at three shares of corrupted rows."""
    print(f"{source.n_rows:,} rows x {source.n_columns} in {source.n_batches} batches, two workers")
    print("| corrupted | method | seconds | coefficient error |")
    print("|---|---|---|---|")
    for name, compare in (("dask", _on_dask), ("spark", _on_spark)):
        with ARENAS[name]() as arena:
            for corruption in (0.1, 0.5, 0.9):
                rows = replace(source, corruption=corruption)
                model, seconds = timed_fit(arena.engine, rows, repeats=2)
                print(Found(seconds, model.coef_).line(f"easyfirst, on {name}", corruption))
                for method, found in compare(arena.engine, rows):
                    print(found.line(f"{method}, on {name}", corruption), flush=True)


def _on_dask(engine: Any, source: MadeSource) -> Iterator[tuple[str, Found]]:
    try:
        from dask_ml.linear_model import LinearRegression
    except Exception as error:  # it may be missing, or not work with this version of dask
        print(f"dask-ml is left out: {error}", file=sys.stderr)
        return
    del engine  # its client is the current one
    X, y = _dask_arrays(source)
    plain = LinearRegression(solver="admm", penalty="l2", C=1e6, fit_intercept=False)
    yield "dask-ml LinearRegression (admm)", _timed(lambda: plain.fit(X, y).coef_)


def _dask_arrays(source: MadeSource) -> tuple[Any, Any]:
    import dask
    import dask.array as da

    loads = [dask.delayed(_arrays)(part) for part in source.partitions()]
    each = source.n_rows // source.n_batches
    shape = (each, source.n_columns)
    X = da.concatenate([da.from_delayed(load[0], shape, dtype=float) for load in loads])
    y = da.concatenate([da.from_delayed(load[1], (each,), dtype=float) for load in loads])
    return dask.persist(X, y)


def _arrays(part: MadeRows) -> tuple[Any, Any]:
    batch = part.load()
    return batch.X, batch.y


def _on_spark(engine: Any, source: MadeSource) -> Iterator[tuple[str, Found]]:
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.regression import LinearRegression

    with tempfile.TemporaryDirectory() as folder:
        names = _write(source, folder)
        table = engine.spark.read.parquet(folder)
        rows = VectorAssembler(inputCols=names, outputCol="features").transform(table)
        rows = rows.select("features", "y").cache()
        rows.count()  # loads the rows
        huber = LinearRegression(labelCol="y", loss="huber", maxIter=200)
        yield (
            "MLlib LinearRegression (huber)",
            _timed(lambda: huber.fit(rows).coefficients.toArray()),
        )


def _write(source: MadeSource, folder: str) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [f"x{j}" for j in range(source.n_columns)]
    for part in source.partitions():
        batch = part.load()
        columns = dict(zip(names, batch.X.T, strict=True))
        path = os.path.join(folder, f"part-{part.number:04d}.parquet")
        pq.write_table(pa.table({**columns, "y": batch.y}), path)
    return names


def _timed(fit: Callable[[], Any]) -> Found:
    began = time.perf_counter()
    coef = fit()
    return Found(time.perf_counter() - began, np.asarray(coef))


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["overhead", "peers"], nargs="?", default="overhead")
    parser.add_argument("--engine", action="append", choices=sorted(ARENAS), help="default: all")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.what == "overhead":
        source = MadeSource(given.rows or 2_000_000, given.columns, given.batches)
        overhead(given.engine or sorted(ARENAS), source, given.repeats)
    else:
        peers(MadeSource(given.rows or 200_000, given.columns, given.batches))


if __name__ == "__main__":
    main()
