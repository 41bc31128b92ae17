"""Fit a wide sparse problem with wrong y and wrong rows far out, in memory: error, time, peak.

python benchmarks/sparse.py takes 1,000,000 x 200,000 with 30 values per row (about a minute).
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings

import numpy as np
import scipy.sparse as sp

from easyfirst import SelfPacedRegressor
from easyfirst.penalties import Ridge

FILLED, NOISE, BLOCK = 30, 0.5, 100_000
WRONG, FAR, TIMES = 0.2, 0.05, 8.0  # shares of rows, and how much larger far ones are


def made(n: int, p: int, seed: int) -> tuple[sp.csr_array, np.ndarray, np.ndarray, np.ndarray]:
    """Return X, y, the coefficients and which rows are wrong, made a block of rows at a time."""
    rng = np.random.default_rng(seed)
    coef = rng.normal(size=p)
    values, columns = np.empty(n * FILLED), np.empty(n * FILLED, np.int32)
    y, wrong = np.empty(n), np.zeros(n, dtype=bool)
    for begin in range(0, n, BLOCK):
        end = min(n, begin + BLOCK)
        rows, entries = slice(begin, end), slice(begin * FILLED, end * FILLED)
        where = np.sort(rng.integers(0, p, (end - begin, FILLED)), axis=1)
        given = rng.normal(size=where.shape)
        y[rows] = np.sum(given * coef[where], axis=1) + NOISE * rng.normal(size=end - begin)
        bad, far = rng.random(end - begin) < WRONG, rng.random(end - begin) < FAR
        y[rows][bad] += rng.uniform(-60, 60, bad.sum())
        given[far] *= TIMES
        y[rows][far] = 5.0 * rng.normal(size=far.sum())
        values[entries], columns[entries], wrong[rows] = given.ravel(), where.ravel(), bad | far
    bounds = np.arange(0, n * FILLED + 1, FILLED, dtype=np.int32)
    return sp.csr_array((values, columns, bounds), shape=(n, p)), y, coef, wrong


def peak() -> int:
    """Return the most memory that this process has taken, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Make the rows, fit them, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=6)
    given = parser.parse_args()
    bare = peak()
    X, y, coef, wrong = made(given.rows, given.columns, given.seed)
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes
    before, began = peak(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SelfPacedRegressor(penalty=Ridge(1.0), n_jobs=1).fit(X, y)
    error = np.linalg.norm(model.coef_ - coef) / np.linalg.norm(coef)
    print(f"{given.rows:,} x {given.columns:,}, {FILLED} values per row: {size / 1e6:.0f} MB")
    print(
        f"{time.process_time() - began:.0f} CPU seconds, peak {peak() / 1e6:.0f} MB, of which "
        f"{bare / 1e6:.0f} before any rows were made and {before / 1e6:.0f} before the fit"
    )
    print(
        f"relative error of the coefficients {error:.4f}; {np.mean(~model.selected_[wrong]):.1%} "
        f"of wrong rows and {np.mean(~model.selected_[~wrong]):.3%} of others found wrong"
    )


if __name__ == "__main__":
    main()
