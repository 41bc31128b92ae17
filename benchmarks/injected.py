"""Mistakes of nine kinds put into ordinary tables, beside a fit of the rows without them.

python benchmarks/injected.py [--splits 1] [--rows 3000] [--only concrete] [--kinds zeros]
    [--out docs/injected.md] [--records cells.jsonl]
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _tables import GASES, SENSORS, SENTINEL, WEATHER, Table, air_quality, tables
from sklearn.linear_model import HuberRegressor, LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from easyfirst import SelfPacedRegressor
from easyfirst.consensus.robust.huber import least_absolute_deviations

SHARES = (0.1, 0.3)
NEAR, FAR = 1.05, 1.5  # of the oracle's error
METHODS = ("ours", "least_squares", "lad", "huber")
NAMES = {"ours": "ours", "least_squares": "least squares", "lad": "LAD", "huber": "Huber"}
INTRODUCTION = """# Injected mistakes

Mistakes of nine kinds are put into 10 and 30 % of the training rows of
[ordinary tables](natural.md): y replaced by values drawn evenly from its range, times 10, times
1000, swapped among rows, set to 0, set to -999, with the wrong sign, shifted by three standard
deviations in one block of rows, or cut off at a quantile. Mean absolute error on test rows, without
mistakes, over that of the better of `LinearRegression` and `HuberRegressor` fitted to the rows
without mistakes: the oracle, which nothing can know. Beside the default: least squares, least
absolute deviations (LAD) and `HuberRegressor`. {splits} split(s) of each table, at most {rows:,}
training rows. Made by `python benchmarks/injected.py {options} --out docs/injected.md`, which needs
the tables beside the repository.

"""

Values = np.ndarray[Any, np.dtype[np.float64]]
Rows = np.ndarray[Any, np.dtype[np.bool_]]


def _drawn(y: Values, bad: Rows, rng: np.random.Generator) -> Values:
    return np.where(bad, rng.uniform(y.min(), y.max(), y.size), y)


def _swapped(y: Values, bad: Rows, rng: np.random.Generator) -> Values:
    wrong = y.copy()
    wrong[bad] = rng.permutation(y[bad])
    return wrong


MISTAKES: dict[str, Callable[[Values, Rows, np.random.Generator], Values]] = {
    "uniform": _drawn,
    "times 10": lambda y, bad, rng: np.where(bad, 10.0 * y, y),
    "times 1000": lambda y, bad, rng: np.where(bad, 1000.0 * y, y),
    "swapped": _swapped,
    "zeros": lambda y, bad, rng: np.where(bad, 0.0, y),
    "-999": lambda y, bad, rng: np.where(bad, -999.0, y),
    "sign": lambda y, bad, rng: np.where(bad, -y, y),
    "block": lambda y, bad, rng: np.where(bad, y + 3.0 * y.std(), y),
    "capped": lambda y, bad, rng: np.where(bad, y[~bad].max(), y),
}


def bad_rows(kind: str, y: Values, share: float, rng: np.random.Generator) -> Rows:
    """Return which rows get the mistake: the largest, one block, or any."""
    n, bad = y.size, np.zeros(y.size, dtype=bool)
    n_bad = round(share * n)
    if kind == "capped":
        bad[y > np.quantile(y, 1.0 - share)] = True
    elif kind == "block":
        first = int(rng.integers(0, n - n_bad + 1))
        bad[first : first + n_bad] = True
    else:
        bad[rng.choice(n, n_bad, replace=False)] = True
    return bad


@dataclass(frozen=True)
class Cell:
    """One split of one table with one kind of mistakes: errors over the oracle's, and flags."""

    table: str
    kind: str
    share: float
    split: int
    ours: float
    least_squares: float
    lad: float
    huber: float
    recall: float
    precision: float
    has_doubts: bool


def _plain(X: Values, y: Values) -> Any:
    return make_pipeline(StandardScaler(), LinearRegression()).fit(X, y)


def _huber(X: Values, y: Values) -> Any:
    return make_pipeline(StandardScaler(), HuberRegressor(max_iter=1000)).fit(X, y)


def _lad(X: Values, y: Values, X_new: Values) -> Values:
    scaler = StandardScaler().fit(X)
    design, there = (
        np.column_stack([scaler.transform(part), np.ones(len(part))]) for part in (X, X_new)
    )
    return there @ least_absolute_deviations(design, y, np.ones(len(y)))


def cell(table: Table, kind: str, share: float, split: int, rows: int) -> Cell:
    """Put mistakes into the training rows of a split and fit it every way."""
    _, train, test = list(table.splits(split + 1))[split]
    train = train[:: -(-len(train) // rows)]
    X, y, X_new, y_new = table.X[train], table.y[train], table.X[test], table.y[test]
    number = list(MISTAKES).index(kind)
    rng = np.random.default_rng([split, number, round(100 * share)])
    bad = bad_rows(kind, y, share, rng)
    wrong = MISTAKES[kind](y, bad, rng)

    def error(predicted: Values) -> float:
        return float(np.mean(np.abs(predicted - y_new)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        oracle = min(error(fit(X[~bad], y[~bad]).predict(X_new)) for fit in (_plain, _huber))
        model = SelfPacedRegressor().fit(X, wrong)
        found = {
            "ours": error(model.predict(X_new)) / oracle,
            "least_squares": error(_plain(X, wrong).predict(X_new)) / oracle,
            "lad": error(_lad(X, wrong, X_new)) / oracle,
            "huber": error(_huber(X, wrong).predict(X_new)) / oracle,
        }
    is_wrong = wrong != y
    flagged = model.weights_ < 0.5
    both = np.count_nonzero(flagged & is_wrong)
    return Cell(
        table=table.name,
        kind=kind,
        share=share,
        split=split,
        recall=both / max(np.count_nonzero(is_wrong), 1),
        precision=both / max(np.count_nonzero(flagged), 1),
        has_doubts=bool(model.doubts_),
        **found,
    )


def _line(name: str, cells: list[Cell]) -> str:
    parts = []
    for method in METHODS:
        ratios = np.array([getattr(each, method) for each in cells])
        mean = np.exp(np.mean(np.log(ratios)))
        near, far = np.mean(ratios <= NEAR), np.mean(ratios > FAR)
        parts.append(f"{mean:.3f} ({100 * near:.0f} %, {100 * far:.0f} %)")
    return f"| {name} | {len(cells)} | " + " | ".join(parts) + " |"


def _grouped(cells: list[Cell], key: Callable[[Cell], str]) -> Iterator[str]:
    yield "| | cells | " + " | ".join(NAMES[method] for method in METHODS) + " |"
    yield "|" + "---|" * (2 + len(METHODS))
    for name in dict.fromkeys(key(each) for each in cells):
        yield _line(name, [each for each in cells if key(each) == name])
    yield _line("all", cells)


def _lost(cells: list[Cell]) -> Iterator[str]:
    yield "| table | mistake | share | ours | LAD | Huber | recall | precision | a doubt |"
    yield "|" + "---|" * 9
    for each in sorted(cells, key=lambda each: -each.ours):
        if each.ours > NEAR:
            yield (
                f"| {each.table} | {each.kind} | {100 * each.share:.0f} % | {each.ours:.3f} "
                f"| {each.lad:.3f} | {each.huber:.3f} | {each.recall:.2f} | {each.precision:.2f} "
                f"| {'yes' if each.has_doubts else 'no'} |"
            )


def air_quality_lines() -> Iterator[str]:
    """Fit the gases of the raw table, in which -200 stands for a missing value."""
    yield "| gas | rows | -200 | flagged | recall | precision | error / least squares | seconds |"
    yield "|" + "---|" * 8
    frame = air_quality()
    for gas in (*GASES, "NMHC(GT)"):
        part = frame[[*SENSORS, *WEATHER, gas]].dropna().astype(np.float64)
        part = part[(part[[*SENSORS, *WEATHER]] != SENTINEL).all(axis=1)]
        y = part.pop(gas).to_numpy()
        X, bad = part.to_numpy(), y == SENTINEL
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = SelfPacedRegressor().fit(X, y)
        seconds = time.process_time() - began
        plain = LinearRegression().fit(X[~bad], y[~bad])
        ours, theirs = (np.mean(np.abs(m.predict(X[~bad]) - y[~bad])) for m in (model, plain))
        flagged = model.weights_ < 0.5
        both = np.count_nonzero(flagged & bad)
        recall = f"{both / bad.sum():.3f} | {both / flagged.sum():.3f}" if bad.any() else "- | -"
        yield (
            f"| {gas.split('(')[0]} | {len(y)} | {100 * bad.mean():.1f} % "
            f"| {100 * flagged.mean():.1f} % | {recall} | {ours / theirs:.3f} | {seconds:.1f} |"
        )


def page(cells: list[Cell], splits: int, rows: int, options: str) -> str:
    """Return the page: by mistake, by table, and every cell that is not near the oracle."""
    shown = "Geometric mean of the ratios; in parentheses the share of cells"
    return INTRODUCTION.format(splits=splits, rows=rows, options=options) + "\n".join(
        [
            f"{shown} at most {NEAR} and above {FAR}. By kind of mistake:\n",
            *_grouped(cells, lambda each: f"{each.kind}, {100 * each.share:.0f} %"),
            "\nBy table:\n",
            *_grouped(cells, lambda each: each.table),
            f"\nEvery cell above {NEAR}, with how many of the wrong rows are flagged (recall), how "
            "many of the flagged rows are wrong (precision), and whether the fit raises a doubt:\n",
            *_lost(cells),
            "\n## Codes for missing values in raw data\n",
            "Air quality as it was published, with -200 where a gas was not measured: how many of "
            "these rows are flagged (recall), how many of the flagged rows have the code "
            "(precision), the mean absolute error on the other rows over that of least squares "
            "fitted to them alone, and processor seconds. In C6H6, which follows one sensor along "
            "a curve, nothing is missing.\n",
            *air_quality_lines(),
            "",
        ]
    )


def main() -> None:
    """Fit every cell, print it, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--only", default=None)
    parser.add_argument("--kinds", default=",".join(MISTAKES))
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--records", type=Path, default=None)
    arguments = parser.parse_args()
    cells = []
    for table in tables(arguments.only.split(",") if arguments.only else None):
        for kind in arguments.kinds.split(","):
            for share in SHARES:
                for split in range(arguments.splits):
                    found = cell(table, kind, share, split, arguments.rows)
                    cells.append(found)
                    if arguments.records:
                        with arguments.records.open("a") as file:
                            file.write(json.dumps(asdict(found)) + "\n")
        print(_line(table.name, [each for each in cells if each.table == table.name]), flush=True)
    only = f" --only {arguments.only}" if arguments.only else ""
    options = f"--splits {arguments.splits} --rows {arguments.rows}{only}"
    text = page(cells, arguments.splits, arguments.rows, options)
    print(text)
    if arguments.out:
        arguments.out.write_text(text)


if __name__ == "__main__":
    main()
