"""Which of the rows known to be bad each method flags, on the small classics of robust regression.

    python benchmarks/classics.py [--data tests/data/robust_classics] [--out FILE]

Ours flags rows with a weight below one half. The others have no such weight: rows further from
their fit than 2.5 robust scales (the median absolute residual over 0.6745) count as flagged.
Prints Markdown.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.linear_model import HuberRegressor, RANSACRegressor, TheilSenRegressor

from easyfirst import SelfPacedRegressor

try:
    import statsmodels.api as statsmodels
except ImportError:
    statsmodels = None

DATA = Path(__file__).resolve().parents[1] / "tests" / "data" / "robust_classics"
LIMIT = 2.5  # robust scales
NORMAL_MEDIAN = 0.6745  # median of |z| for a standard normal z


@dataclass(frozen=True)
class Classic:
    """A data set, and what the literature says about its rows, counted from one."""

    name: str
    file: str
    bad: frozenset[int]  # rows that every robust fit should flag
    unclear: frozenset[int] = frozenset()  # rows that may be flagged or not
    good_leverage: frozenset[int] = frozenset()  # far out in X and right all the same


CLASSICS = [
    Classic("stackloss", "datasets__stackloss", frozenset({1, 3, 4, 21}), frozenset({2})),
    Classic(
        "hbk",
        "robustbase__hbk",
        frozenset(range(1, 11)),
        good_leverage=frozenset(range(11, 15)),
    ),
    Classic("starsCYG", "robustbase__starsCYG", frozenset({11, 20, 30, 34}), frozenset({7, 9, 14})),
    Classic("telef", "robustbase__telef", frozenset(range(15, 21)), frozenset({14, 21})),
    Classic("wood", "robustbase__wood", frozenset({4, 6, 8, 19})),
]

Flags = Callable[[np.ndarray, np.ndarray], np.ndarray]


def load(classic: Classic, folder: Path = DATA) -> tuple[np.ndarray, np.ndarray]:
    """Return X and y; the response is the last column of every file."""
    with (folder / f"{classic.file}.csv").open(encoding="utf-8-sig", newline="") as file:
        table = np.array([row[1:] for row in csv.reader(file)][1:], dtype=float)
    return table[:, :-1], table[:, -1]


def ours(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Flag rows that are more likely corrupted than clean."""
    return ~SelfPacedRegressor().fit(X, y).selected_


def by_residual(predict: Flags) -> Flags:
    """Flag rows far from a fit, in robust scales of its residuals."""

    def flags(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        size = np.abs(y - predict(X, y))
        return size > LIMIT * np.median(size) / NORMAL_MEDIAN

    return flags


def least_squares(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the fitted values of least squares."""
    design = np.column_stack([X, np.ones(len(X))])
    return design @ np.linalg.lstsq(design, y, rcond=None)[0]


def rlm(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the fitted values of statsmodels' M-estimator with Tukey's biweight."""
    design = statsmodels.add_constant(X)
    fit = statsmodels.RLM(y, design, M=statsmodels.robust.norms.TukeyBiweight()).fit()
    return np.asarray(fit.fittedvalues)


METHODS: dict[str, Flags] = {
    "easyfirst": ours,
    "least squares": by_residual(least_squares),
    "Huber": by_residual(lambda X, y: HuberRegressor(max_iter=10_000).fit(X, y).predict(X)),
    "RANSAC": by_residual(lambda X, y: RANSACRegressor(random_state=0).fit(X, y).predict(X)),
    "Theil-Sen": by_residual(lambda X, y: TheilSenRegressor(random_state=0).fit(X, y).predict(X)),
}
if statsmodels is not None:
    METHODS["RLM (biweight)"] = by_residual(rlm)


def verdict(classic: Classic, flagged: np.ndarray) -> str:
    """Say how many bad rows were found, which were missed, and which good rows were flagged."""
    rows = {int(row) + 1 for row in np.flatnonzero(flagged)}
    missed = sorted(classic.bad - rows)
    wrong = sorted(rows - classic.bad - classic.unclear)
    text = f"{len(classic.bad) - len(missed)}/{len(classic.bad)}"
    if missed:
        text += f", misses {listed(missed)}"
    if wrong:
        text += f", also {listed(wrong)}"
    return text


def listed(rows: list[int]) -> str:
    """Return row numbers as text, runs of three or more shortened."""
    runs: list[list[int]] = []
    for row in rows:
        if runs and row == runs[-1][-1] + 1:
            runs[-1].append(row)
        else:
            runs.append([row])
    parts = ([f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(row) for row in run] for run in runs)
    return " ".join(text for part in parts for text in part)


def table(folder: Path = DATA) -> str:
    """Return the comparison as Markdown."""
    lines = [
        "| data | known bad rows | " + " | ".join(METHODS) + " |",
        "|" + "---|" * (len(METHODS) + 2),
    ]
    for classic in CLASSICS:
        X, y = load(classic, folder)
        cells = [f"{classic.name} ({len(y)} x {X.shape[1]})", listed(sorted(classic.bad))]
        for flags in METHODS.values():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                cells.append(verdict(classic, flags(X, y)))
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "Not counted either way: " + unclear() + "."]
    if statsmodels is None:
        lines += ["", "statsmodels is not installed, so its RLM is missing from the table."]
    return "\n".join(lines)


def unclear() -> str:
    """Say which rows may be flagged or not."""
    return "; ".join(
        f"{classic.name} {listed(sorted(classic.unclear))}"
        for classic in CLASSICS
        if classic.unclear
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, help="write the table to this file as well")
    options = parser.parse_args()
    if not options.data.exists():
        print(f"No data at {options.data}; name the folder with --data")
        return
    text = table(options.data)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
