"""Does the default do harm where nothing is known to be wrong? Beside least squares and Huber.

python benchmarks/natural.py [--splits 10] [--only concrete,pol] [--out docs/natural.md]
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _tables import Table, tables
from sklearn.linear_model import HuberRegressor, LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from easyfirst import SelfPacedRegressor

COVERAGE = 0.9
INTRODUCTION = """# Ordinary tables

Does the default do harm where nothing is known to be wrong? Mean absolute error on test rows over
{splits} splits of each table, beside `LinearRegression` and `HuberRegressor` on scaled columns; the
share of training rows that look wrong; how many test rows a 90 % interval covers; how far
predictions leave the range of y, in widths of it; how many fits raise a doubt; seconds per fit,
on a machine with other jobs: they say nothing about speed.
Made by `python benchmarks/natural.py --splits {splits} --out docs/natural.md`, which needs the
tables beside the repository.

"""
CONCLUSION = """
Where it loses: machine has 188 training rows and 21 test rows, which differ much between splits. In
elevators, columns that nearly all rows agree in are left out (a note names them), because in other
splits rows off them are predicted far beyond any y: that costs up to 5 percent in splits without
such rows. In California housing a few rows lie a hundred standard deviations out in a heavy-tailed
column; the slope that suits the other rows is given up for them, which costs 2 to 3 percent of the
error in splits without such test rows and saves up to 30 percent in those with one. In one split of
both a test row, twice as far out as any training row, is predicted 1.8 and 1.7 widths of y beyond
its range: no linear model knows better (least squares 1.5 and 0.9, Huber 2.3 and 1.8, and in two
other splits 9 to 35). Solar has one value of y in 83 percent of the rows, and a doubt says so.

## Tables of R's packages

The tables above were looked at while the default was made. `python benchmarks/r_tables.py FOLDER`
predicts up to two columns of every data frame of 80 to 4,000 rows that comes with some 160 R
packages (one split each), most of which nobody has looked at: 1,612 targets, among them many
that no linear model is for (numbers of persons, years, identities that hold in a part of the rows).

| | ours | least squares | Huber |
|---|---|---|---|
| error over the better of both, geometric mean within a factor of two | 1.010 | 1.066 | 1.008 |
| above 1.03 | 12.7 % | 34.3 % | 5.0 % |
| above 1.1 | 4.0 % | 17.1 % | 1.4 % |
| above 1.25 | 1.6 % | 8.6 % | 0.5 % |
| fits with more than a tenth of the rows flagged | 10.4 % | | |
| likewise, and without any doubt | 2.8 % | | |
| other fits with a doubt | 22.8 % | | |
| 90 % intervals cover less than .85 (flagged rows count as missed) | 21.2 % | | |

Where Huber or least squares is ahead by more than a quarter, 14 of 26 fits raise a doubt:
identities to the last digit in a part of the rows, curves of which a stretch is straight
(DNase), rows far out in X that few others resemble, and targets that are zero in most rows. Read
the doubts and the notes, and compare with `HuberRegressor` before you trust a fit of a few hundred
rows.
"""


@dataclass(frozen=True)
class Outcome:
    """One split of one table: test errors, and what the fit says of its rows."""

    least_squares: float
    huber: float
    ours: float
    flagged: float
    covered: float
    beyond: float  # how far predictions leave the range of y, in widths of it
    doubts: tuple[str, ...]
    seconds: float

    @property
    def ratio(self) -> float:
        """Our error over the better of the two others."""
        return self.ours / min(self.least_squares, self.huber)


def outcome(table: Table, train: np.ndarray, test: np.ndarray) -> Outcome:
    """Fit a split three ways."""
    X, y, X_new, y_new = table.X[train], table.y[train], table.X[test], table.y[test]

    def error(model: object) -> float:
        return float(np.mean(np.abs(model.predict(X_new) - y_new)))  # type: ignore[attr-defined]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = make_pipeline(StandardScaler(), LinearRegression()).fit(X, y)
        huber = make_pipeline(StandardScaler(), HuberRegressor(max_iter=1000)).fit(X, y)
        began = time.perf_counter()
        ours = SelfPacedRegressor().fit(X, y)
        seconds = time.perf_counter() - began
        lower, upper = np.asarray(ours.predict_interval(X_new, coverage=COVERAGE)).T
    predicted = ours.predict(X_new)
    width = np.ptp(y)
    beyond = max(float(predicted.max() - y.max()), float(y.min() - predicted.min()), 0.0) / width
    return Outcome(
        least_squares=error(plain),
        huber=error(huber),
        ours=error(ours),
        flagged=float(np.mean(ours.weights_ < 0.5)),
        covered=float(np.mean((lower <= y_new) & (y_new <= upper))),
        beyond=beyond,
        doubts=tuple(ours.doubts_),
        seconds=seconds,
    )


def main() -> None:
    """Fit every table and print one line for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--only", default=None)
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    head = (
        "| table | rows | LS | Huber | ours | ours / better (worst split) | flagged | covered "
        "| beyond y | doubts | s |"
    )
    lines = [head, "|" + "---|" * 11]
    print("\n".join(lines))
    ratios = []
    for table in tables(arguments.only.split(",") if arguments.only else None):
        found = [outcome(table, a, b) for _, a, b in table.splits(arguments.splits)]
        mean = {
            name: np.mean([getattr(o, name) for o in found])
            for name in ("least_squares", "huber", "ours", "flagged", "covered", "seconds")
        }
        ratio = mean["ours"] / min(mean["least_squares"], mean["huber"])
        ratios.append(ratio)
        worst = max(o.ratio for o in found)
        doubted = sum(bool(o.doubts) for o in found)
        line = (
            f"| {table.name} | {len(table.y)} x {table.X.shape[1]} | {mean['least_squares']:.4g} "
            f"| {mean['huber']:.4g} | {mean['ours']:.4g} | {ratio:.3f} ({worst:.3f}) "
            f"| {mean['flagged']:.3f} | {mean['covered']:.3f} | {max(o.beyond for o in found):.2f} "
            f"| {doubted}/{len(found)} | {mean['seconds']:.2f} |"
        )
        print(line, flush=True)
        lines.append(line)
    summary = f"Geometric mean of the ratios: {np.exp(np.mean(np.log(ratios))):.4f}"
    print(summary)
    if arguments.out:
        page = INTRODUCTION.format(splits=arguments.splits) + "\n".join([*lines, "", summary])
        arguments.out.write_text(page + "\n" + CONCLUSION)


if __name__ == "__main__":
    main()
