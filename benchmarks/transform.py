"""Transformations of a positive target: taken where they help, and only there.

python benchmarks/transform.py [--splits 3] [--seeds 2] [--rows 500] [--out docs/transform.md]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _positive import BETTER_LOGARITHM, BETTER_ROOT, KINDS, RIGHT_AS_IT_IS, corrupted
from _tables import Table, tables
from sklearn.linear_model import HuberRegressor, LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from easyfirst import SelfPacedRegressor

COVERAGE = 0.9
MOST_ROWS = 2000  # of a table, so that the page takes minutes
SHARES = (0.1, 0.3)
INTRODUCTION = """# Transformed targets

Does `target_transform="auto"` take the logarithm or the square root of a positive target where that
helps, and leave it alone elsewhere? What it compares is in
[the calibrated pace](calibrated-pace.md). Made by
`python benchmarks/transform.py --splits {splits} --seeds {seeds} --rows {rows}`, which needs the
tables beside the repository.

## Ordinary tables with a positive target

Mean absolute error on test rows in units of y over {splits} splits, relative to the better of
`LinearRegression` and `HuberRegressor` fitted to y; the share of test rows in a 90 % interval; the
share of training rows that look wrong; seconds of processor time per fit. At most {most:,} rows of
each table. "auto, mean" predicts the mean of y instead of its median: for the logarithm, times the
mean of exp(residual) over the clean rows (Duan's smearing).

"""
CELLS = """
## Targets of known nature, with mistakes that leave them positive

{rows} rows, 5 columns, {seeds} seed(s) of each of {kinds} kinds of mistake (times 10, divided by
10, either, times 1000, uniform, shuffled, capped, one value, a block shifted, doubled) in 10 % and
in 30 % of the rows, and none: {cells} fits of each nature. Right is y itself where effects add up,
and elsewhere the transformation by which y was made.

"""


def table_lines(splits: int, only: list[str] | None) -> Iterator[str]:
    """Yield one line per table with a positive target, then the geometric means."""
    yield (
        "| table | rows | taken | advised | None | auto | auto, mean | covered, None "
        "| covered, auto | wrong, None | wrong, auto | s, None | s, auto |"
    )
    yield "|" + "---|" * 13
    ratios = []
    for table in tables(only):
        if not np.all(table.y > 0.0):
            continue
        found = [_split(table, a, b) for _, a, b in table.splits(splits)]
        mean = {key: np.mean([each[key] for each in found]) for key in found[0] if key != "taken"}
        better = min(mean["ls"], mean["huber"])
        ratios.append([mean["none"] / better, mean["auto"] / better, mean["smeared"] / better])
        taken = [each["taken"] or "y" for each in found]
        listed = ", ".join(f"{name} {taken.count(name)}" for name in sorted(set(taken)))
        yield (
            f"| {table.name} | {min(len(table.y), MOST_ROWS)} x {table.X.shape[1]} | {listed} "
            f"| {mean['advised'] * splits:.0f}/{splits} | "
            + " | ".join(f"{ratio:.3f}" for ratio in ratios[-1])
            + f" | {mean['covered_none']:.3f} | {mean['covered_auto']:.3f} "
            f"| {mean['wrong_none']:.3f} | {mean['wrong_auto']:.3f} "
            f"| {mean['s_none']:.2f} | {mean['s_auto']:.2f} |"
        )
    means = np.exp(np.mean(np.log(ratios), axis=0))
    yield ""
    yield (
        f"Geometric means over {len(ratios)} tables: None {means[0]:.3f}, auto {means[1]:.3f}, "
        f"auto with predicted means {means[2]:.3f}; worst table: None "
        f"{max(r[0] for r in ratios):.3f}, auto {max(r[1] for r in ratios):.3f}."
    )


def _split(table: Table, train: np.ndarray, test: np.ndarray) -> dict[str, Any]:
    train = train[:: max(1, len(train) // MOST_ROWS)]
    X, y, X_new, y_new = table.X[train], table.y[train], table.X[test], table.y[test]
    found: dict[str, Any] = {}
    for name, plain in (("ls", LinearRegression()), ("huber", HuberRegressor(max_iter=1000))):
        model = make_pipeline(StandardScaler(), plain).fit(X, y)
        found[name] = np.mean(np.abs(model.predict(X_new) - y_new))
    for name, asked in (("none", None), ("auto", "auto")):
        began = time.process_time()
        model = SelfPacedRegressor(target_transform=asked).fit(X, y)
        found[f"s_{name}"] = time.process_time() - began
        low, high = model.predict_interval(X_new, COVERAGE).T
        found[f"covered_{name}"] = np.mean((low <= y_new) & (y_new <= high))
        found[f"wrong_{name}"] = np.mean(model.weights_ < 0.5)
        found[name] = np.mean(np.abs(model.predict(X_new) - y_new))
        if asked is None:
            found["advised"] = any("target_transform" in note for note in model.notes_)
    found["taken"] = model.target_transform_
    found["smeared"] = np.mean(np.abs(_mean_prediction(model, X, y, X_new) - y_new))
    return found


def _mean_prediction(model: SelfPacedRegressor, X: Any, y: Any, X_new: Any) -> Any:
    """Return predictions by the mean over clean rows of what their residuals make of them."""
    predicted, weights = model.predict(X_new), model.weights_
    if model.target_transform_ == "log":
        return predicted * np.average(y / model.predict(X), weights=weights)
    if model.target_transform_ == "sqrt":
        spread = np.square(np.sqrt(y) - np.sqrt(model.predict(X)))
        return predicted + np.average(spread, weights=weights)
    return predicted


def cell_lines(seeds: int, rows: int) -> Iterator[str]:
    """Yield one line per nature of the target."""
    yield "| target | right | y | sqrt | log | neither right nor y |"
    yield "|---|---|---|---|---|---|"
    groups = (("y", RIGHT_AS_IT_IS), ("log", BETTER_LOGARITHM), ("sqrt", BETTER_ROOT))
    lost = []
    for right, natures in groups:
        for nature, make in natures.items():
            counts = {"y": 0, "sqrt": 0, "log": 0}
            for kind, share in [("none", 0.0), *((k, s) for k in KINDS for s in SHARES)]:
                for seed in range(seeds):
                    rng = np.random.default_rng(seed)
                    X, y = make(rng, rows)
                    y = corrupted(y, kind, share, rng)
                    model = SelfPacedRegressor(target_transform="auto").fit(X, y)
                    name = model.target_transform_ or "y"
                    counts[name] += 1
                    if right == "y" and name != "y":
                        lost.append(f"{nature}, {kind} {share:.0%}, seed {seed}: {name}")
            other = sum(count for name, count in counts.items() if name not in (right, "y"))
            taken = " | ".join(str(count) for count in counts.values())
            yield f"| {nature} | {right} | {taken} | {other} |"
    yield ""
    listed = "; ".join(lost) or "never"
    yield f"A transformation taken where y is right, {len(lost)} times: {listed}."


def main() -> None:
    """Print the page, and write it if asked to."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--only", default=None)
    parser.add_argument("--out", type=Path, default=None)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    cells = chosen.seeds * (1 + len(KINDS) * len(SHARES))
    parts: list[str] = [
        INTRODUCTION.format(
            splits=chosen.splits, seeds=chosen.seeds, rows=chosen.rows, most=MOST_ROWS
        )
    ]
    settings = {"seeds": chosen.seeds, "rows": chosen.rows, "cells": cells, "kinds": len(KINDS)}
    for lines in (
        table_lines(chosen.splits, chosen.only.split(",") if chosen.only else None),
        [CELLS.format(**settings)],
        cell_lines(chosen.seeds, chosen.rows),
    ):
        for line in lines:
            print(line, flush=True)
            parts.append(line if line.endswith("\n") else line + "\n")
    if chosen.out:
        chosen.out.write_text("".join(parts))


if __name__ == "__main__":
    main()
