"""How often a fit reads its rows, by the kind of noise: what a table on a disk would cost.

    python benchmarks/passes.py [--rows 100_000] [--columns 8] [--seeds 3]

Rows are in memory here, and every pass over them is counted as `OutOfCore` counts it. The error is
that of the coefficients over the error of least squares on the clean rows.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from dataclasses import replace

import numpy as np

from easyfirst import SelfPacedRegressor
from easyfirst.datasets import CorruptedRegression, make_adversarial_regression
from easyfirst.engines import OutOfCore, out_of_core

KINDS = (
    "heavy_tails",
    "laplace",
    "exponential",
    "lognormal",
    "heteroscedastic",
    "proportional",
    "one_sided",
    "scattered_leverage",
    "leverage_cluster",
    "other_model",
    "skewed_and_uneven",
    "curved",
)
SHARES = (0.0, 0.1, 0.3)
LEAST_WRONG = ("one_sided", "scattered_leverage", "leverage_cluster", "other_model")


def made_rows(kind: str, n: int, p: int, share: float, seed: int) -> CorruptedRegression:
    """Draw rows; two kinds are not in the library: a curve, and skewed noise that grows."""
    if kind not in ("skewed_and_uneven", "curved"):
        return make_adversarial_regression(kind, n, p, corruption_ratio=share, random_state=seed)
    made = make_adversarial_regression("one_sided", n, p, corruption_ratio=0.0, random_state=seed)
    rng, expected = np.random.default_rng(seed), made.X @ made.coef
    if kind == "curved":
        y = expected + 0.5 * np.square(made.X[:, 0]) + 0.3 * rng.normal(size=n)
    else:
        y = expected + 0.3 * np.exp(0.4 * made.X[:, 1]) * (rng.gamma(2.0, size=n) - 2.0)
    bad = rng.random(n) < share
    y[bad] += rng.uniform(-20.0, 20.0, bad.sum())
    return replace(made, y=y, clean=~bad)


def passes_of(kind: str, share: float, n: int, p: int, seed: int) -> tuple[int, float, float, str]:
    """Return passes, the error beside that of an oracle, CPU seconds, and the steps."""
    made = made_rows(kind, n, p, share, seed)
    steps: Counter[str] = Counter()
    whole = out_of_core.StreamedWorkers.map

    def counted(self, step, per_batch, broadcast, only=None):
        if only is None:
            steps[getattr(step, "__name__", type(step).__name__)] += 1
        return whole(self, step, per_batch, broadcast, only)

    out_of_core.StreamedWorkers.map = counted
    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = SelfPacedRegressor(engine=OutOfCore(n_jobs=1), n_batches=16).fit(made.X, made.y)
    finally:
        out_of_core.StreamedWorkers.map = whole
    seconds = time.process_time() - began
    X, y, _, clean, coef = made
    design = np.column_stack([X, np.ones(len(X))])[clean]
    oracle = np.linalg.lstsq(design, y[clean], rcond=None)[0][:-1]
    error = np.linalg.norm(model.coef_ - coef) / np.linalg.norm(oracle - coef)
    told = ", ".join(f"{name} {times}" for name, times in steps.items())
    return model.reading_.passes, float(error), seconds, told


def main() -> None:
    """Print a line for each kind of noise and share of wrong rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    for kind in KINDS:
        for share in SHARES:
            if kind in LEAST_WRONG and share == 0.0:
                continue
            for seed in range(given.first, given.first + given.seeds):
                n, error, seconds, steps = passes_of(kind, share, given.rows, given.columns, seed)
                print(
                    f"{kind:20} {share:4.1f} {seed:3d} {n:4d} {error:8.3f} {seconds:6.1f}  {steps}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
