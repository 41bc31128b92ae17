"""Made tables of many kinds, with and without mistakes, beside least squares, LAD and Huber.

What a default should not do is lose to a plain fit. Each table is made anew from a seed: ordinary
ones, and those on which the model is wrong, the noise uneven, or some rows of another kind.

python benchmarks/made_tables.py [--seeds 3] [--first 0] [--rows 600] [--tables counts,curve]
    [--mistakes none,uniform] [--records cells.jsonl]
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from injected import MISTAKES, Rows, Values, _huber, _lad, _plain, bad_rows

from easyfirst import SelfPacedRegressor

COVERAGE = 0.9
TEST_ROWS = 2000
HARM = 1.03  # of the better plain fit's error
Draw = Callable[[Values, np.random.Generator], Values]


def _line(X: Values) -> Values:
    return 3.0 + X @ np.linspace(1.0, -0.5, X.shape[1])


def _normal(n: int, rng: np.random.Generator) -> Values:
    return rng.standard_normal((n, 5))


def _one_hot(n: int, rng: np.random.Generator) -> Values:
    return np.column_stack([np.eye(6)[rng.integers(0, 6, n)][:, 1:], rng.standard_normal((n, 2))])


def _long_tailed(n: int, rng: np.random.Generator) -> Values:
    return np.asarray(np.exp(rng.standard_normal((n, 3))))


TABLES: dict[str, tuple[Callable[[int, np.random.Generator], Values], Draw]] = {
    "clean": (_normal, lambda X, rng: _line(X) + 0.5 * rng.standard_normal(len(X))),
    "ties": (_normal, lambda X, rng: np.round(_line(X) + 0.5 * rng.standard_normal(len(X)))),
    "prices": (
        _normal,
        lambda X, rng: np.round(50.0 * np.exp(0.4 * _line(X) + 0.3 * rng.standard_normal(len(X)))),
    ),
    "curve": (
        _normal,
        lambda X, rng: _line(X) + np.square(X[:, 0]) + 0.5 * rng.standard_normal(len(X)),
    ),
    "growth": (
        lambda n, rng: np.column_stack([rng.uniform(0, 3, n), rng.standard_normal((n, 2))]),
        lambda X, rng: np.exp(X[:, 0]) + X[:, 1] + 0.5 * rng.standard_normal(len(X)),
    ),
    "hidden group": (
        _normal,
        lambda X, rng: (
            _line(X) + 0.5 * rng.standard_normal(len(X)) + 3.5 * (rng.random(len(X)) < 0.25)
        ),
    ),
    "counts": (
        _normal,
        lambda X, rng: rng.poisson(np.exp(-1.5 + 0.25 * (_line(X) - 3.0))).astype(np.float64),
    ),
    "many counts": (
        _normal,
        lambda X, rng: rng.poisson(np.exp(1.5 + 0.25 * (_line(X) - 3.0))).astype(np.float64),
    ),
    "spells": (  # zero in most rows, else an amount
        _normal,
        lambda X, rng: np.where(
            _line(X) + 2.0 * rng.standard_normal(len(X)) < 4.0,
            0.0,
            np.exp(0.3 * _line(X) + 0.3 * rng.standard_normal(len(X))),
        ),
    ),
    "cut off": (
        _normal,
        lambda X, rng: np.maximum(_line(X) - 3.0 + 0.5 * rng.standard_normal(len(X)), 0.0),
    ),
    "uneven": (
        _normal,
        lambda X, rng: _line(X) + np.exp(0.6 * X[:, 0]) * 0.5 * rng.standard_normal(len(X)),
    ),
    "skewed": (_normal, lambda X, rng: _line(X) + rng.exponential(0.7, len(X))),
    "heavy-tailed": (_normal, lambda X, rng: _line(X) + 0.5 * rng.standard_t(3, len(X))),
    "one-hot": (_one_hot, lambda X, rng: _line(X) + 0.5 * rng.standard_normal(len(X))),
    "long-tailed X": (_long_tailed, lambda X, rng: _line(X) + 0.5 * rng.standard_normal(len(X))),
    "groups by X": (
        _one_hot,
        lambda X, rng: _line(X) * (1.0 + 2.0 * X[:, 1]) + 0.5 * rng.standard_normal(len(X)),
    ),
}


def _near_leverage(X: Values, y: Values, bad: Rows, rng: np.random.Generator) -> Values:
    """Return columns whose wrong rows lie together, four standard deviations out."""
    moved = X.copy()
    moved[bad, -1] = moved[:, -1].mean() + X[:, -1].std() * (
        4.0 + 0.3 * rng.standard_normal(bad.sum())
    )
    return moved


@dataclass(frozen=True)
class Cell:
    """One fit of one table: test errors over the oracle's, flags, intervals, doubts."""

    table: str
    mistake: str
    share: float
    seed: int
    ours: float
    least_squares: float
    lad: float
    huber: float
    flagged: float
    recall: float
    precision: float
    covered: float
    doubts: tuple[str, ...]

    @property
    def harm(self) -> float:
        """Our error over that of the better of least squares and Huber on the same rows."""
        return self.ours / min(self.least_squares, self.huber)


def cell(table: str, mistake: str, share: float, seed: int, rows: int) -> Cell:
    """Make a table, put mistakes into it and fit it every way."""
    columns, draw = TABLES[table]
    names = [*MISTAKES, "leverage", "5 sd", "none"]
    rng = np.random.default_rng([seed, list(TABLES).index(table), names.index(mistake), rows])
    X, X_new = columns(rows, rng), columns(TEST_ROWS, rng)
    y, y_new = draw(X, rng), draw(X_new, rng)
    X_bad, wrong, bad = X, y, np.zeros(rows, dtype=bool)
    if mistake != "none":
        bad = bad_rows(mistake, y, share, rng)
    if mistake in MISTAKES:
        wrong = MISTAKES[mistake](y, bad, rng)
    elif mistake == "leverage":
        X_bad, wrong = _near_leverage(X, y, bad, rng), np.where(bad, y - 3.0 * y.std(), y)
    elif mistake == "5 sd":
        left = y - _plain(X, y).predict(X)
        wrong = np.where(bad, y + rng.choice([-5.0, 5.0], rows) * left.std(), y)

    def error(predicted: Values) -> float:
        return float(np.mean(np.abs(predicted - y_new)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        oracle = min(error(fit(X[~bad], y[~bad]).predict(X_new)) for fit in (_plain, _huber))
        model = SelfPacedRegressor().fit(X_bad, wrong)
        lower, upper = np.asarray(model.predict_interval(X_new, coverage=COVERAGE)).T
        errors = {
            "ours": error(model.predict(X_new)) / oracle,
            "least_squares": error(_plain(X_bad, wrong).predict(X_new)) / oracle,
            "lad": error(_lad(X_bad, wrong, X_new)) / oracle,
            "huber": error(_huber(X_bad, wrong).predict(X_new)) / oracle,
        }
    is_wrong, flagged = (wrong != y) | (X_bad != X).any(axis=1), model.weights_ < 0.5
    both = np.count_nonzero(flagged & is_wrong)
    return Cell(
        table=table,
        mistake=mistake,
        share=share,
        seed=seed,
        flagged=float(flagged.mean()),
        recall=both / max(np.count_nonzero(is_wrong), 1),
        precision=both / max(np.count_nonzero(flagged), 1),
        covered=float(np.mean((lower <= y_new) & (y_new <= upper))),
        doubts=tuple(model.doubts_),
        **errors,
    )


def _mean(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def line(name: str, cells: list[Cell]) -> str:
    """Return one row of the page."""
    shown = [
        f"{_mean([getattr(each, method) for each in cells]):.3f}"
        for method in ("ours", "least_squares", "lad", "huber")
    ]
    harms = [each.harm for each in cells]
    harmed = np.mean([harm > HARM for harm in harms])
    silent = np.mean([each.harm > HARM and not each.doubts for each in cells])
    return (
        f"| {name} | {len(cells)} | {' | '.join(shown)} | {max(harms):.2f} | {100 * harmed:.0f} % "
        f"| {100 * silent:.0f} % | {np.mean([each.flagged for each in cells]):.3f} "
        f"| {np.mean([each.recall for each in cells]):.2f} "
        f"| {np.mean([each.precision for each in cells]):.2f} "
        f"| {np.mean([each.covered for each in cells]):.2f} |"
    )


def grouped(cells: list[Cell], key: Callable[[Cell], str]) -> Iterator[str]:
    """Yield a table with a row for each group of cells."""
    yield (
        "| | cells | ours | least squares | LAD | Huber | worst harm | harmed | silently | flagged "
        "| recall | precision | covered |"
    )
    yield "|" + "---|" * 13
    for name in dict.fromkeys(key(each) for each in cells):
        yield line(name, [each for each in cells if key(each) == name])
    yield line("all", cells)


def main() -> None:
    """Fit every cell and print what became of it, by table and by mistake."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--tables", default=",".join(TABLES))
    mistakes = ",".join(["none", *MISTAKES, "leverage", "5 sd"])
    parser.add_argument("--mistakes", default=mistakes)
    parser.add_argument("--records", type=Path, default=None)
    arguments = parser.parse_args()
    cells = []
    for table in arguments.tables.split(","):
        for mistake in arguments.mistakes.split(","):
            for share in (0.0,) if mistake == "none" else (0.1, 0.3):
                for seed in range(arguments.first, arguments.first + arguments.seeds):
                    cells.append(cell(table, mistake, share, seed, arguments.rows))
                    if arguments.records:
                        with arguments.records.open("a") as file:
                            file.write(json.dumps(asdict(cells[-1])) + "\n")
    print("\n".join(grouped(cells, lambda each: each.table)))
    print()
    kinds = grouped(cells, lambda each: f"{each.mistake}, {100 * each.share:.0f} %")
    print("\n".join(kinds))


if __name__ == "__main__":
    main()
