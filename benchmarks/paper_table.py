"""The paper's corrupted-batches table: `SelfPacedRegressor.paper()` beside the printed values.

    python benchmarks/paper_table.py [--seeds 10]

Ten batches of 10,000 rows, 100 features; bad batches are 90 % corrupted, the others 10 %.
"""

from __future__ import annotations

import argparse

import numpy as np

from easyfirst import SelfPacedRegressor
from easyfirst.datasets import make_corrupted_regression

PRINTED = {4: 0.030, 5: 0.034, 6: 0.039, 7: 0.036, 8: 0.041, 9: 0.045}


def main() -> None:
    """Print mean and spread of the coefficient error for each number of bad batches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    print("| bad batches | printed | paper() | default | oracle | every seed of paper() |")
    print("|---|---|---|---|---|---|")
    for n_bad, printed in PRINTED.items():
        rows = np.array([errors(n_bad, seed) for seed in range(seeds)])
        mean = rows.mean(axis=0)
        every = " ".join(f"{value:.4f}" for value in rows[:, 0])
        print(
            f"| {n_bad}/10 | {printed:.3f} | {mean[0]:.4f} | {mean[1]:.4f} | {mean[2]:.4f} | "
            f"{every} |",
            flush=True,
        )


def errors(n_bad: int, seed: int) -> tuple[float, float, float]:
    """Return the errors of the paper's configuration, the default and the oracle."""
    X, y, batches, clean, coef = make_corrupted_regression(
        10_000, 100, 10, mode="batches", n_bad_batches=n_bad, random_state=seed
    )
    paper = SelfPacedRegressor.paper().fit(X, y, batches=batches)
    default = SelfPacedRegressor(fit_intercept=False).fit(X, y, batches=batches)
    oracle = np.linalg.lstsq(X[clean], y[clean], rcond=None)[0]
    found = (paper.coef_, default.coef_, oracle)
    return tuple(float(np.linalg.norm(value - coef)) for value in found)


if __name__ == "__main__":
    main()
