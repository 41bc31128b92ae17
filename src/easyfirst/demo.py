"""The main job in one minute: `python -m easyfirst.demo`, or `make demo`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from easyfirst import SelfPacedRegressor
from easyfirst.callbacks import ProgressBar
from easyfirst.datasets import CorruptedRegression, make_corrupted_regression

CORRUPTED = 0.4


def main() -> None:
    """Fit 100,000 rows, 40 % of them corrupted, and print who recovered the truth."""
    try:
        from rich.console import Console
    except ImportError:
        raise SystemExit("The demo needs the 'tool' extra: pip install 'easyfirst[tool]'") from None

    console = Console()
    data = make_corrupted_regression(
        10_000, 100, n_batches=10, corruption_ratio=CORRUPTED, random_state=0
    )
    n, p = data.X.shape
    console.print(
        f"\n{n:,} rows x {p} features. The response of {CORRUPTED:.0%} of the rows is nonsense.\n"
        f"Who finds the true coefficients, without being told which rows are wrong?\n"
    )
    model = SelfPacedRegressor(callbacks=[ProgressBar()])
    rows = [
        ("least squares", *_timed(_least_squares(), data)),
        ("HuberRegressor", *_timed(_huber(), data)),
        ("SelfPacedRegressor", *_timed(model, data)),
        ("oracle", *_timed_oracle(data)),
    ]
    console.print(_table(rows))
    console.print(
        "HuberRegressor and least squares are scikit-learn's; the oracle is least squares\n"
        "on the rows that are really clean, which nobody knows in practice."
    )
    console.print(_verdict(model, data))


def _timed(model: Any, data: CorruptedRegression) -> tuple[float, float]:
    return _measure(lambda: model.fit(data.X, data.y).coef_, data)


def _timed_oracle(data: CorruptedRegression) -> tuple[float, float]:
    X, y = data.X[data.clean], data.y[data.clean]
    return _measure(lambda: _least_squares().fit(X, y).coef_, data)


def _measure(fit: Callable[[], Any], data: CorruptedRegression) -> tuple[float, float]:
    """Return (coefficient error, seconds)."""
    began = time.perf_counter()
    coef = fit()
    seconds = time.perf_counter() - began
    return float(np.linalg.norm(coef - data.coef)), seconds


def _least_squares() -> Any:
    from sklearn.linear_model import LinearRegression

    return LinearRegression()


def _huber() -> Any:
    from sklearn.linear_model import HuberRegressor

    return HuberRegressor(max_iter=1000)


def _table(rows: list[tuple[str, float, float]]) -> Any:
    from rich.table import Table

    table = Table()
    table.add_column("method")
    table.add_column("coefficient error", justify="right")
    table.add_column("times the oracle's", justify="right")
    table.add_column("seconds", justify="right")
    oracle = rows[-1][1]
    for name, error, seconds in rows:
        table.add_row(name, f"{error:.4f}", f"{error / oracle:.2f}", f"{seconds:.2f}")
    return table


def _verdict(model: SelfPacedRegressor, data: CorruptedRegression) -> str:
    aside = ~model.selected_
    right = int(np.sum(aside & ~data.clean))
    n_bad = int(np.sum(~data.clean))
    low, high = model.corrupted_interval_
    return (
        f"\neasyfirst set {aside.sum():,} rows aside. "
        f"{right:,} ({right / aside.sum():.1%}) of them really were corrupted:\n"
        f"that is {right / n_bad:.1%} of the {n_bad:,} corrupted rows; the "
        f"others lie so near the truth that they do no harm.\n"
        f"Estimated share of corrupted rows: {model.corrupted_fraction_:.1%} "
        f"(95 % interval {low:.1%} to {high:.1%}); true share: {CORRUPTED:.1%}.\n"
    )


if __name__ == "__main__":
    main()
