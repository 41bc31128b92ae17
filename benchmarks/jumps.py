"""`SelfPaced` around gradient boosting where y jumps, by 30 to 50 times the noise.

    python benchmarks/jumps.py [--seeds 3] [--rows 1500] [--append docs/any-model.md]

Prints a section of Markdown. Rows beside a jump are off by all of it for models that have not seen
them, and should not look wrong for that.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _quick_bins import use_quick_bins
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor

from easyfirst import SelfPaced

BOOSTING = HistGradientBoostingRegressor(random_state=0)
COLUMNS, TEST_ROWS, SHARE = 5, 2000, 0.2
SECTION = """
## Where y jumps

A model that has not seen a row beside a jump in y may be off by all of the jump. Steps 30 to 50
times as high as the noise in {rows:,} rows of {columns} columns, {seeds} seed(s), made by
`python benchmarks/jumps.py --seeds {seeds} --rows {rows}`. **Errors** are over that of the model of
the clean rows, the worst seed in brackets; **errors found** are those larger than 5 noise scales.

| y | wrong | SelfPaced | bare | clean rows flagged | errors found |
|---|---|---|---|---|---|
"""
TRUE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "two steps": lambda X: 40.0 * (X[:, 0] > 0.37) + 30.0 * (X[:, 1] > 0.61),
    "stairs of five": lambda X: 30.0 * np.floor(5.0 * X[:, 0]),
    "a corner of two columns": lambda X: 50.0 * ((X[:, 0] > 0.5) & (X[:, 1] > 0.4)) + 5.0 * X[:, 2],
    "a step across two columns": lambda X: 40.0 * (X[:, 0] + X[:, 1] > 1.0),
    "hours of rush": lambda X: (
        40.0 * np.isin(np.floor(24.0 * X[:, 0]), (7, 8, 9, 17, 18, 19)) + 30.0 * (X[:, 1] > 0.7)
    ),
    "none: a smooth curve": lambda X: 5.0 * np.sin(6.0 * X[:, 0]) + 5.0 * X[:, 1] ** 2,
}
WRONG: dict[str, Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]] = {
    "nothing": lambda y, rows, rng: y[rows],
    "uniform": lambda y, rows, rng: rng.uniform(
        y.min() - np.ptp(y), y.max() + np.ptp(y), rows.size
    ),
    "times 10": lambda y, rows, rng: 10.0 * y[rows],
    "swapped": lambda y, rows, rng: y[rng.permutation(rows)],
}


def measured(name: str, kind: str, seed: int, n_rows: int) -> tuple[float, ...]:
    """Return errors over that of the clean rows' model, the bare one's, and shares flagged."""
    rng = np.random.default_rng([seed, list(TRUE).index(name)])
    X = rng.uniform(size=(n_rows + TEST_ROWS, COLUMNS))
    if name == "hours of rush":
        X[:, 0] = np.floor(24.0 * X[:, 0]) / 24.0
    y = TRUE[name](X) + rng.standard_normal(len(X))
    tests, truth, X, y = X[n_rows:], y[n_rows:], X[:n_rows], y[:n_rows]
    rows = rng.choice(n_rows, round(SHARE * n_rows), replace=False)
    wrong = np.zeros(n_rows, dtype=bool)
    wrong[rows] = kind != "nothing"
    given = y.copy()
    given[rows] = WRONG[kind](y, rows, rng)

    def error(model: object, some: np.ndarray) -> float:
        return float(np.mean(np.abs(model.fit(X[some], given[some]).predict(tests) - truth)))

    everyone, paced = np.ones(n_rows, dtype=bool), SelfPaced(clone(BOOSTING))
    of_clean = error(clone(BOOSTING), ~wrong)
    ours, bare = error(paced, everyone), error(clone(BOOSTING), everyone)
    flagged = ~paced.selected_
    far = wrong & (np.abs(given - y) > 5.0)
    found = float(np.mean(flagged[far])) if far.any() else np.nan
    return ours / of_clean, bare / of_clean, float(np.mean(flagged[~wrong])), found


def main() -> None:
    """Print a row for every table and kind of mistake."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--append", type=Path, help="File that the section is added to.")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    use_quick_bins()
    section = SECTION.format(rows=given.rows, columns=COLUMNS, seeds=given.seeds)
    print(section, end="")
    for name in TRUE:
        for kind in WRONG:
            found = np.array([measured(name, kind, k, given.rows) for k in range(given.seeds)])
            row = _line(name, kind, found)
            print(row, end="", flush=True)
            section += row
    if given.append is not None:
        with given.append.open("a", encoding="utf-8") as file:
            file.write(section)


def _line(name: str, kind: str, found: np.ndarray) -> str:
    error, bare, flagged, hits = found.mean(axis=0)
    share = "nothing" if kind == "nothing" else f"{100 * SHARE:.0f} % {kind}"
    cells = [name, share, f"**{error:.2f}** ({found[:, 0].max():.2f})", f"{bare:.1f}"]
    cells.append(f"{100 * flagged:.1f} % ({100 * found[:, 2].max():.1f})")
    cells.append("" if np.isnan(hits) else f"{100 * hits:.0f} %")
    return "| " + " | ".join(cells) + " |\n"


if __name__ == "__main__":
    main()
