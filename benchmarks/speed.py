"""Time and memory of a robust fit, in units of plain least squares on the same data.

    python benchmarks/speed.py [--quick] [--repeats 3] [--out docs/benchmarks.md]

The floor is the normal equations by NumPy: X'X, X'y, solve. Everything is timed side by side in one
run; compare ratios, not seconds. Peers: scikit-learn, and self-paced learning written naively.
"""

from __future__ import annotations

import argparse
import gc
import platform
import resource
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.linear_model import HuberRegressor, LinearRegression, Ridge, SGDRegressor

from easyfirst import SelfPacedRegressor
from easyfirst.baselines import Torrent

SIZES = [(1_000_000, 100), (50_000, 100), (10_000, 100), (10_000, 400)]
QUICK_SIZES = [(50_000, 100), (10_000, 100)]
RATIOS = (0.1, 0.5, 0.9)
NOISE = 0.1

Fit = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def make(n: int, p: int, ratio: float, seed: int = 0):
    """Return X, y, which rows are clean, and the true coefficients."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    coef = rng.random(p)
    coef /= np.linalg.norm(coef)
    y = X @ coef + NOISE * rng.standard_normal(n)
    clean = rng.random(n) >= ratio
    reach = 5 * np.abs(y[clean]).max()
    y[~clean] += rng.uniform(-reach, reach, size=int(np.sum(~clean)))
    return X, y, clean, coef


def normal_equations(X, y, clean):
    """Solve for all rows by NumPy: the floor."""
    return np.linalg.solve(X.T @ X, X.T @ y)


def oracle(X, y, clean):
    """Solve for the clean rows by NumPy."""
    return normal_equations(X[clean], y[clean], clean)


def naive_self_paced(X, y, clean):
    """Fit the paper's schedule on pooled rows, selecting and solving afresh every round."""
    coef = np.linalg.solve(X.T @ X + np.eye(X.shape[1]), X.T @ y)
    pace, selected = 0.1, None
    for _ in range(200):
        now = np.square(y - X @ coef) < pace
        if pace >= 1.0 and selected is not None and np.array_equal(now, selected):
            break
        rows, target, selected = X[now], y[now], now
        coef = np.linalg.solve(rows.T @ rows + np.eye(X.shape[1]), rows.T @ target)
        pace = min(1.1 * pace, 1.0)
    return coef


def of(model) -> Fit:
    """Return a fit function for an estimator, created afresh each time."""
    return lambda X, y, clean: model().fit(X, y).coef_


def torrent(X, y, clean):
    """Fit TORRENT with the true share of corrupted rows, which nobody knows."""
    return Torrent(corruption_ratio=float(np.mean(~clean))).fit(X, y).coef_


OURS = {
    "**SelfPacedRegressor()**": of(SelfPacedRegressor),
    "**SelfPacedRegressor.paper()**": of(SelfPacedRegressor.paper),
}
PEERS = {
    "normal equations (floor)": normal_equations,
    "oracle (clean rows)": oracle,
    "scikit-learn Ridge(cholesky)": of(lambda: Ridge(alpha=1e-9, solver="cholesky")),
    "scikit-learn LinearRegression": of(LinearRegression),
    "scikit-learn HuberRegressor": of(lambda: HuberRegressor(max_iter=1000)),
    "scikit-learn SGDRegressor(huber)": of(lambda: SGDRegressor(loss="huber", random_state=0)),
    "TORRENT given the true ratio": torrent,
    "self-paced learning, naive": naive_self_paced,
}


def measure(n: int, p: int, ratio: float, repeats: int) -> dict[str, tuple[float, float, float]]:
    """Return {method: (median seconds, spread, coefficient error)}; methods take turns."""
    X, y, clean, coef = make(n, p, ratio)
    methods = PEERS | OURS
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    error: dict[str, float] = {}
    SelfPacedRegressor().fit(X[:3000], y[:3000])  # first use loads libraries
    for _ in range(repeats):
        for name, fit in methods.items():
            gc.collect()
            began = time.perf_counter()
            found = fit(X, y, clean)
            seconds[name].append(time.perf_counter() - began)
            error[name] = float(np.linalg.norm(found - coef))
    return {
        name: (float(np.median(times)), float(np.ptp(times)), error[name])
        for name, times in seconds.items()
    }


def table(n: int, p: int, repeats: int) -> list[str]:
    """Return the Markdown table of one size."""
    cells = {ratio: measure(n, p, ratio, repeats) for ratio in RATIOS}
    lines = [
        f"## {n:,} x {p}",
        "",
        "| method | "
        + " | ".join(f"{ratio:.0%}: time / floor (s); error" for ratio in RATIOS)
        + " |",
        "|---|" + "---|" * len(RATIOS),
    ]
    for name in PEERS | OURS:
        parts = []
        for ratio in RATIOS:
            middle, spread, error = cells[ratio][name]
            floor = cells[ratio]["normal equations (floor)"][0]
            parts.append(f"{middle / floor:.1f} ({middle:.3f} +- {spread / 2:.3f}); {error:.4f}")
        lines.append(f"| {name} | " + " | ".join(parts) + " |")
    ours, best = "**SelfPacedRegressor()**", "oracle (clean rows)"
    oracle_row = [f"{cell[ours][2] / cell[best][2]:.3f}" for cell in cells.values()]
    lines += ["", f"Default's error over the oracle's: {', '.join(oracle_row)}.", ""]
    return lines


def memory(n: int, p: int) -> str:
    """Return how much memory a default fit takes above its data, measured in a fresh process."""
    code = (
        "import sys; sys.path.insert(0, 'benchmarks'); import speed; "
        f"print(speed.extra_memory({n}, {p}))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    return f"{100 * float(out):.1f} %"


def extra_memory(n: int, p: int) -> float:
    """Return how much this process grows at most during a fit, over the size of X."""
    X, y, _, _ = make(n, p, 0.5)
    SelfPacedRegressor().fit(X[:3000], y[:3000])
    gc.collect()
    before, peak, done = resident_bytes(), 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.002):
            peak = max(peak, resident_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    SelfPacedRegressor().fit(X, y)
    done.set()
    watcher.join()
    return (peak - before) / X.nbytes


def resident_bytes() -> int:
    """Return the memory this process has in use now (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def growth(sizes: list[int], p: int = 50) -> list[str]:
    """Return the time of the default over the number of rows, and the slope on log-log axes."""
    seconds = []
    for n in sizes:
        X, y, _, _ = make(n, p, 0.4)
        times = []
        for _ in range(3):
            began = time.perf_counter()
            SelfPacedRegressor().fit(X, y)
            times.append(time.perf_counter() - began)
        seconds.append(min(times))
    large = [k for k, n in enumerate(sizes) if n >= 100_000]
    logs = np.log([sizes[k] for k in large]), np.log([seconds[k] for k in large])
    slope = np.polyfit(*logs, 1)[0] if len(large) > 1 else float("nan")
    rows = [f"| {n:,} | {s:.3f} |" for n, s in zip(sizes, seconds, strict=True)]
    return [
        f"## Growth over rows (p = {p}, 40 % corrupted)",
        "",
        "| rows | seconds |",
        "|---|---|",
        *rows,
        "",
        f"Slope on log-log axes from 100,000 rows on: {slope:.2f}.",
        "",
    ]


def main() -> None:
    """Run everything and print the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = [
        "# Benchmarks",
        "",
        "`python benchmarks/speed.py` makes this page. Times are in units of the floor (seconds,",
        f"median and half the range of {options.repeats} run(s)) on {platform.machine()}, Python "
        f"{platform.python_version()}, NumPy {np.__version__}.",
        "",
    ]
    for n, p in QUICK_SIZES if options.quick else SIZES:
        lines += table(n, p, options.repeats)
    n = 100_000 if options.quick else 1_000_000
    lines += ["## Memory", "", f"Above the data, {n:,} x 100: {memory(n, 100)} of X.", ""]
    sizes = [10_000, 100_000, 300_000] if options.quick else [10**4, 10**5, 10**6, 4 * 10**6]
    lines += growth(sizes)
    text = "\n".join(lines)
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
