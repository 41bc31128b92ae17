"""Draw the picture of the README: coefficient error over the share of corrupted rows.

    python benchmarks/picture.py [--out docs/figures/error-by-corruption.svg]

Needs matplotlib: pip install 'easyfirst[plot]'.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import HuberRegressor, LinearRegression, RANSACRegressor

from easyfirst import SelfPacedRegressor
from easyfirst.datasets import make_corrupted_regression

RATIOS = np.arange(0.0, 0.91, 0.1)
SEEDS = 3
# Okabe and Ito's palette, legible to colour-blind readers; markers repeat the distinction.
STYLES = {
    "least squares": ("#D55E00", "v"),
    "RANSAC": ("#CC79A7", "x"),
    "Huber": ("#E69F00", "^"),
    "easyfirst": ("#0072B2", "o"),
    "oracle (knows the clean rows)": ("#000000", ""),
}


def errors(ratio: float, seed: int) -> dict[str, float]:
    """Return every method's coefficient error on one data set."""
    X, y, _, clean, coef = make_corrupted_regression(
        2000, 20, 10, corruption_ratio=ratio, random_state=seed
    )
    ransac = RANSACRegressor(random_state=seed)
    fits = {
        "least squares": LinearRegression().fit(X, y).coef_,
        "RANSAC": ransac.fit(X, y).estimator_.coef_,
        "Huber": HuberRegressor(max_iter=1000).fit(X, y).coef_,
        "easyfirst": SelfPacedRegressor().fit(X, y).coef_,
        "oracle (knows the clean rows)": LinearRegression().fit(X[clean], y[clean]).coef_,
    }
    return {name: float(np.linalg.norm(found - coef)) for name, found in fits.items()}


def main() -> None:
    """Fit every share and seed, and save the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path("docs/figures/error-by-corruption.svg")
    parser.add_argument("--out", type=Path, default=default)
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = [[errors(ratio, seed) for seed in range(SEEDS)] for ratio in RATIOS]
    mpl.rcParams["svg.hashsalt"] = "easyfirst"
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, (colour, marker) in STYLES.items():
        values = np.array([[run[name] for run in cell] for cell in runs])
        style = "--" if name.startswith("oracle") else "-"
        axes.plot(100 * RATIOS, values.mean(axis=1), style, color=colour, marker=marker, label=name)
        axes.fill_between(
            100 * RATIOS, values.min(axis=1), values.max(axis=1), color=colour, alpha=0.15
        )
    axes.set_yscale("log")
    axes.set_xlabel("corrupted rows (%)")
    axes.set_ylabel("coefficient error ||w - w*||")
    axes.set_title(f"20,000 rows, 20 features; mean and range of {SEEDS} seeds")
    axes.legend(frameon=False, ncols=2, loc="upper left", bbox_to_anchor=(0.0, 0.97))
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(top=300)
    figure.savefig(options.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
