"""Fit a Parquet table larger than a memory limit, beside bare passes and DuckDB's sums.

Write the rows to a folder of your choice, fit them in a process of its own, and print a table:

    python benchmarks/out_of_core.py --folder /data/big --rows 25_000_000 --memory-limit 1GB

takes 10 GB in the folder and as much again for the cache; `--rows 3_000_000` takes a look.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import easyfirst
from easyfirst.engines import OutOfCore
from easyfirst.engines.memory import as_bytes

IN_GROUP, IN_FILE = 65_536, 16  # rows of a row group, and row groups of a file
NOISE, REACH, CORRUPTED = 0.3, 20.0, 0.3


def truth(p: int) -> np.ndarray:
    """Return the coefficients of the clean rows."""
    return np.random.default_rng(0).normal(size=p)


def write_rows(folder: Path, n: int, p: int) -> None:
    """Write files of corrupted rows, one row group at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    coef, names = truth(p), [*(f"x{j}" for j in range(p)), "y"]
    schema, writer = pa.schema([(name, pa.float64()) for name in names]), None
    for number, begin in enumerate(range(0, n, IN_GROUP)):
        rng = np.random.default_rng([1, number])
        X = rng.normal(size=(min(IN_GROUP, n - begin), p))
        y = X @ coef + NOISE * rng.normal(size=len(X))
        bad = rng.random(len(X)) < CORRUPTED
        y[bad] += rng.uniform(-REACH, REACH, bad.sum())
        if number % IN_FILE == 0:
            if writer is not None:
                writer.close()
            path = folder / f"part-{number // IN_FILE:04d}.parquet"
            # Random digits cannot be compressed, and dictionaries would only cost time.
            writer = pq.ParquetWriter(
                path, schema, compression="none", use_dictionary=False, write_page_checksum=True
            )
        writer.write_table(pa.table(dict(zip(names, [*X.T, y], strict=True)), schema=schema))
    writer.close()


def fit(folder: Path, limit: str, cache: Path, jobs: int) -> dict[str, object]:
    """Fit all rows out of core."""
    rows = easyfirst.read_parquet(folder, "y", rows_per_batch=IN_GROUP)
    engine = OutOfCore(limit, cache, n_jobs=jobs)
    model = easyfirst.SelfPacedRegressor(engine=engine).fit(rows)
    error = float(np.linalg.norm(model.coef_ - truth(model.n_features_in_)))
    share = float(model.corrupted_fraction_)
    reading = model.reading_
    return {"error": error, "passes": reading.passes, "reading": str(reading), "corrupted": share}


def bare(folder: Path, passes: int) -> dict[str, object]:
    """Read the rows as often with pyarrow alone; each time a product with X and one with X'."""
    for _ in range(passes):
        for path in sorted(folder.glob("*.parquet")):
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                for group in range(file.num_row_groups):
                    table = file.read_row_group(group, use_threads=True)
                    *columns, y = (column.to_numpy() for column in table.columns)
                    X = np.empty((len(y), len(columns)))
                    for j, column in enumerate(columns):
                        X[:, j] = column
                    residual = y - X @ truth(X.shape[1])
                    X.T @ (np.exp(-np.square(residual)) * residual)
    return {"passes": passes, "error": float("nan")}


def sums(folder: Path, p: int, limit: str, jobs: int) -> dict[str, object]:
    """Solve least squares from sums of products that DuckDB adds up, which no robust fit is."""
    import duckdb

    names = [*(f"x{j}" for j in range(p)), "1.0", "y"]
    pairs = [(i, j) for i in range(p + 2) for j in range(i, p + 2)]
    chosen = ", ".join(f"sum({names[i]} * {names[j]})" for i, j in pairs)
    with duckdb.connect(config={"memory_limit": limit, "threads": jobs}) as connection:
        found = connection.sql(f"SELECT {chosen} FROM '{folder}/*.parquet'").fetchone()
    moments = np.zeros((p + 2, p + 2))
    for (i, j), value in zip(pairs, found, strict=True):
        moments[i, j] = moments[j, i] = value
    coef = np.linalg.solve(moments[:-1, :-1], moments[:-1, -1])
    return {"passes": 1, "error": float(np.linalg.norm(coef[:p] - truth(p)))}


def alone(arguments: argparse.Namespace, what: str, passes: int = 1) -> dict[str, object]:
    """Run one method in a process of its own: seconds, CPU seconds, peak memory, what it found."""
    command = [sys.executable, "-W", "ignore", __file__, "--only", what, "--passes", str(passes)]
    for name in ("folder", "rows", "columns", "memory_limit", "cache", "jobs"):
        command += [f"--{name.replace('_', '-')}", str(getattr(arguments, name))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def measured(arguments: argparse.Namespace) -> dict[str, object]:
    """Do what `alone` asks for."""
    began = time.perf_counter()
    folder, p = arguments.folder, arguments.columns
    if arguments.only == "fit":
        found = fit(folder, arguments.memory_limit, arguments.cache, arguments.jobs)
    elif arguments.only == "bare":
        found = bare(folder, arguments.passes)
    else:
        found = sums(folder, p, arguments.memory_limit, arguments.jobs)
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = {"seconds": time.perf_counter() - began, "cpu": used.ru_utime + used.ru_stime}
    return found | spent | {"peak": 1024 * used.ru_maxrss}


def main() -> None:
    """Write the rows, measure, print a table, and remove the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="where the rows are written")
    parser.add_argument("--cache", type=Path, help="where the cache is kept; default: the folder")
    parser.add_argument("--rows", type=int, default=25_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--memory-limit", default="1GB")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", action="store_true", help="leave the rows in the folder")
    parser.add_argument("--only", choices=["fit", "bare", "sums"], help=argparse.SUPPRESS)
    parser.add_argument("--passes", type=int, default=1, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.cache = arguments.cache or arguments.folder
    if arguments.only:
        print(json.dumps(measured(arguments)))
        return
    if not list(arguments.folder.glob("part-*.parquet")):
        write_rows(arguments.folder, arguments.rows, arguments.columns)
    files = sorted(arguments.folder.glob("part-*.parquet"))
    size = sum(path.stat().st_size for path in files)
    print(f"{arguments.rows:,} x {arguments.columns}, {size / 1e9:.1f} GB of Parquet, limit "
          f"{as_bytes('memory_limit', arguments.memory_limit) / 1e9:.2f} GB, {arguments.jobs} "
          f"threads\n")  # fmt: skip
    ours = alone(arguments, "fit")
    results = {
        "easyfirst, out of core": ours,
        "bare pyarrow passes, products with X": alone(arguments, "bare", int(ours["passes"])),
        "least squares by sums, DuckDB": alone(arguments, "sums"),
    }
    print(
        "| what | passes | seconds | CPU seconds | peak memory (MB) | error of the coefficients |"
    )
    print("|---|---|---|---|---|---|")
    for name, found in results.items():
        error = "" if found["error"] != found["error"] else f"{found['error']:.4f}"
        print(f"| {name} | {found['passes']} | {found['seconds']:.1f} | {found['cpu']:.1f} | "
              f"{found['peak'] / 1e6:.0f} | {error} |")  # fmt: skip
    print(f"\n{ours['reading']}; estimated share of corrupted rows {ours['corrupted']:.4f}")
    if not arguments.keep:
        for path in files:
            path.unlink()


if __name__ == "__main__":
    main()
