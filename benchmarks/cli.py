"""Time and memory of `easyfirst fit` on a CSV file of a million rows: the whole command.

    python benchmarks/cli.py [--rows 1000000] [--columns 50] [--folder DIR] [--out FILE.md]

The table has `columns` features, a fifth of its targets replaced by nonsense, and is written as
CSV with six significant digits, as such files usually come. The command runs in a process of its
own, and its time includes starting Python, reading, fitting and the report.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

CORRUPTED = 0.2
NOISE = 0.5
BLOCK = 100_000


def make_csv(path: Path, n_rows: int, n_columns: int, seed: int = 0) -> np.ndarray:
    """Write the table, some rows at a time, and return the true coefficients."""
    rng = np.random.default_rng(seed)
    coef = rng.normal(size=n_columns)
    names = [f"x{j}" for j in range(n_columns)]
    schema = pa.schema([(name, pa.float64()) for name in [*names, "y"]])
    with pa_csv.CSVWriter(path, schema) as file:
        for start in range(0, n_rows, BLOCK):
            size = min(BLOCK, n_rows - start)
            X = np.round(rng.normal(size=(size, n_columns)), 5)
            y = X @ coef + NOISE * rng.normal(size=size)
            wrong = rng.random(size) < CORRUPTED
            y[wrong] = rng.uniform(-50.0, 50.0, size=int(wrong.sum()))
            columns = [pa.array(column) for column in (*X.T, np.round(y, 5))]
            file.write_table(pa.Table.from_arrays(columns, schema=schema))
    return coef


def measure(csv: Path, output: Path) -> dict[str, float]:
    """Run the command and return seconds, CPU seconds and peak memory in MB."""
    command = [sys.executable, "-m", "easyfirst.cli.main", "fit", str(csv), "--target", "y"]
    began = time.perf_counter()
    process = subprocess.Popen([*command, "-o", str(output), "--quiet"])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the command failed with exit code {process.returncode}")
    return {
        "seconds": time.perf_counter() - began,
        "cpu": usage.ru_utime + usage.ru_stime,
        "megabytes": usage.ru_maxrss / 1024,
    }


def least_help_seconds(repeats: int = 5) -> float:
    """Return the least time that `easyfirst --help` took."""
    command = [sys.executable, "-m", "easyfirst.cli.main", "--help"]
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - began)
    return min(times)


def page(csv: Path, run: Path, found: dict[str, float], coef: np.ndarray, help_: float) -> str:
    """Return the results as Markdown."""
    summary = json.loads((run / "summary.json").read_text())
    estimated = np.array([each["coef"] for each in summary["coefficients"]])[: len(coef)]
    stages = ", ".join(f"{name} {value:.1f}" for name, value in summary["seconds"].items())
    rows = summary["rows"]
    return "\n".join(
        [
            "# The command line on a large file",
            "",
            "`python benchmarks/cli.py` makes this page: the whole command, from the start of",
            "Python to the written report.",
            "",
            f"- {rows['read']:,} rows x {len(coef)} columns, {csv.stat().st_size / 1e6:,.0f} MB of "
            f"CSV, {CORRUPTED:.0%} of the targets replaced by nonsense",
            f"- {found['seconds']:.1f} s ({found['cpu']:.1f} s of CPU) on {os.cpu_count()} cores "
            f"({platform.machine()}, Python {platform.python_version()}); by stage: {stages}",
            f"- {found['megabytes']:,.0f} MB of memory at most (the table as numbers: "
            f"{8e-6 * rows['read'] * (len(coef) + 1):,.0f} MB)",
            f"- rows found wrong: {rows['look_wrong']:,}; largest error of a coefficient: "
            f"{np.abs(estimated - coef).max():.4f}",
            f"- report: {(run / 'report.html').stat().st_size / 1e3:,.0f} kB",
            f"- `easyfirst --help`: {help_:.2f} s, the least of five",
            "",
        ]
    )


def main() -> None:
    """Make the file, run the command, print the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--folder", type=Path, help="where the CSV file is kept for another time")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        csv = (options.folder or Path(scratch)) / f"table-{options.rows}x{options.columns}.csv"
        coef = np.random.default_rng(0).normal(size=options.columns)
        if not csv.exists():
            coef = make_csv(csv, options.rows, options.columns)
        run = Path(scratch) / "run"
        text = page(csv, run, measure(csv, run), coef, least_help_seconds())
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
