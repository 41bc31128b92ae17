"""`SelfPaced` around gradient boosting on corrupted targets, beside what else people do.

    python benchmarks/any_model.py [--seeds 2] [--rows 1500] [--only bike] [--out docs/any-model.md]
        [--records FILE] [--beside 2]

What else people do is fitted in the first `--beside` seeds. With `--records`, a run that was cut
off goes on where it ended. Needs the tables beside the repository; cleanlab and LightGBM (extra
'bench') join in if installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from _quick_bins import use_quick_bins
from _tables import tables
from scipy.stats import gaussian_kde
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict

from easyfirst import SelfPaced

SETS = ("california", "bike", "air-C6H6", "rental-la")
KINDS = ("uniform", "times 10", "swapped", "sentinel", "batch shifted")
SHARES = (0.2, 0.4, 0.1)
TEST_ROWS = 2000
BATCHES = 10
LARGE = 5.0  # noise scales from which an error should be found
BOOSTING = HistGradientBoostingRegressor(max_iter=50, random_state=0)
INTRODUCTION = """# Any model, corrupted targets

Gradient boosting (`HistGradientBoostingRegressor(max_iter=50)`) on {rows:,} rows of a table, a
share of whose targets is corrupted: replaced by uniform values three times as wide as the range
of y, multiplied by 10, swapped between rows, replaced by -999, or shifted by three standard
deviations in some of {batches} batches of rows (given as `batches=`). Made by `{command}`,
{seeds} of rows and corruption. A fit of `SelfPaced` took {seconds:.0f} seconds of one core;
with scikit-learn's own search for bin edges, which the benchmark replaces by a quicker one that
finds the same, it takes up to twice as long where columns have many values.

**Error** is the mean absolute error on {tests:,} untouched test rows over that of the same model
fitted to the clean rows alone. `bare` is the model on all rows, `absolute` the same with
absolute-error loss, `Huber` LightGBM's Huber loss, `cleanlab` its `CleanLearning` around the same
model. **Precision** and **recall** are about errors larger than {large:.0f} noise scales (the
median residual out of fold, without corruption): their share among those rows flagged by
`SelfPaced` that are such errors or clean, and the share of them that is flagged. Values that are
wrong by less count neither way; **of all** is the share of wrong rows, by however much, among all
flagged. **AP** is the average precision of the ranking of rows. The worst seed is in
brackets. **Fits** are models fitted for one `SelfPaced.fit`.

"""
KNOWING = """
## Beside a rule that knows

A value of another row is a usual value, and few of them are wrong by much. A third of the uniform
values lies within the range of y. **Knowing** is a rule that is told what nobody knows: the model
is fitted to the rows that are not wrong, and the share of wrong rows, how they are distributed, the
noise around the model and how it differs from row to row are the true ones. Both flag rows that are
more likely wrong than not.

"""
MISSES = """
## Where it falls short

- **Swapped values**: few are wrong by more than 5 noise scales, so that precision by this measure
  compares few rows with the clean ones that are flagged. Most flagged rows are wrong ("of all").
  The rule that knows the noise does not reach 0.9 either, except for C6H6; what is left to gain
  is the distance to that rule.
- **California, uniform values**: the clean houses that are flagged lie 4 to 11 noise scales from
  their prediction, many of them at the limit of y. Flagged rows are wrong about as often as their
  weights say, and the rule that knows is near 0.9 as well.
- **Fits**: 10 or 11 of them are small models of how large the noise of a row is.
"""


def corrupted(
    y: np.ndarray, share: float, kind: str, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return y with some values wrong, which, and the batches of the rows where these are."""
    n, k = y.size, round(share * y.size)
    y, wrong, batches = y.copy(), np.zeros(y.size, dtype=bool), None
    rows = rng.choice(n, k, False)
    if kind == "batch shifted":
        batches = rng.permutation(n) % BATCHES
        rows = np.flatnonzero(batches < share * BATCHES)
        k = rows.size
    wrong[rows] = True
    width = float(np.ptp(y))
    changed: dict[str, Callable[[], Any]] = {
        "uniform": lambda: rng.uniform(y.min() - width, y.max() + width, k),
        "times 10": lambda: 10.0 * y[rows],
        "swapped": lambda: y[rng.permutation(rows)],
        "sentinel": lambda: -999.0,
        "batch shifted": lambda: y[rows] + 3.0 * y.std(),
        "nothing": lambda: y[rows],
    }
    y[rows] = changed[kind]()
    return y, wrong, batches


@dataclass(frozen=True, eq=False)
class Case:
    """Rows of a table with something wrong in them, and rows to test on."""

    X: np.ndarray
    true: np.ndarray
    y: np.ndarray
    wrong: np.ndarray
    batches: np.ndarray | None
    new_rows: np.ndarray
    new_y: np.ndarray
    kind: str

    @classmethod
    def of(cls, name: str, share: float, kind: str, seed: int, n_rows: int) -> Case:
        """Draw rows, and corrupt them."""
        table = next(iter(tables([name])))
        rng = np.random.default_rng(seed)
        order = rng.permutation(table.y.size)
        rows, tests = np.sort(order[:n_rows]), order[n_rows : n_rows + TEST_ROWS]
        true = table.y[rows]
        y, wrong, batches = corrupted(true, share, kind, rng)
        return cls(table.X[rows], true, y, wrong, batches, table.X[tests], table.y[tests], kind)

    def error(self, model: Any) -> float:
        """Return the error of a fitted model on the test rows."""
        return float(np.mean(np.abs(model.predict(self.new_rows) - self.new_y)))

    @cached_property
    def oracle(self) -> float:
        """The error of the model of the rows that are not wrong."""
        return self.error(clone(BOOSTING).fit(self.X[~self.wrong], self.y[~self.wrong]))

    def relative(self, model: Any) -> float:
        """Return the error of a model, fitted here, over that of the clean rows."""
        return self.error(model.fit(self.X, self.y)) / self.oracle

    @cached_property
    def is_large(self) -> np.ndarray:
        """Which rows are wrong by many noise scales."""
        residual = self.true - cross_val_predict(clone(BOOSTING), self.X, self.true, cv=3)
        scale = 1.4826 * float(np.median(np.abs(residual)))
        return np.abs(self.y - self.true) > LARGE * scale

    def scores(self, chance: np.ndarray) -> dict[str, float]:
        """Return how well a probability that each row is wrong tells which are."""
        flagged, large = chance > 0.5, self.is_large
        hits, misses = int(np.sum(flagged & large)), int(np.sum(flagged & ~self.wrong))
        return {
            "precision": hits / (hits + misses) if hits + misses else 1.0,
            "of all": float(np.mean(self.wrong[flagged])) if flagged.any() else 1.0,
            "recall": float(np.mean(flagged[large])) if large.any() else 1.0,
            "AP": float(average_precision_score(self.wrong, chance)),
        }


def ours(case: Case) -> dict[str, float]:
    """Return what `SelfPaced` makes of the rows."""
    began = time.process_time()
    model = SelfPaced(BOOSTING).fit(case.X, case.y, batches=case.batches)
    flagged = ~model.selected_
    found = {
        "fits": model.n_fits_,
        "seconds": time.process_time() - began,
        "flagged": float(np.mean(flagged)),
        "error": case.error(model) / case.oracle,
        "bare": case.relative(clone(BOOSTING)),
    }
    if not case.wrong.any():
        return found
    found |= case.scores(1.0 - model.weights_)
    if case.kind in KNOWABLE:
        knowing = case.scores(chance_knowing(case))
        found |= {f"knowing {name}": value for name, value in knowing.items()}
    return found


def chance_knowing(case: Case) -> np.ndarray:
    """Return the probability that each value is wrong, by all that is true of the rows.

    The model is fitted to the rows that are not wrong, their noise and how it differs from row to
    row is that of the true values, and wrong values are distributed as they were drawn.
    """
    n, around = case.y.size, np.empty(case.y.size)
    for part in np.array_split(np.random.default_rng(0).permutation(n), 5):
        others = ~case.wrong
        others[part] = False
        around[part] = clone(BOOSTING).fit(case.X[others], case.y[others]).predict(case.X[part])
    residual = case.true - around
    size = np.log(np.abs(residual) + 1e-3 * np.median(np.abs(residual)))
    by = np.column_stack([case.X, around])
    small = HistGradientBoostingRegressor(max_iter=30, max_leaf_nodes=8, random_state=0)
    scale = np.exp(cross_val_predict(small, by, size, cv=5))
    noise = gaussian_kde(np.arcsinh(residual / scale))
    z = (case.y - around) / scale
    clean = noise(np.arcsinh(z)) / np.sqrt(1.0 + np.square(z)) / scale
    stray = KNOWABLE[case.kind](case)
    share = float(np.mean(case.wrong))
    return np.asarray(share * stray / (share * stray + (1.0 - share) * clean))


# The density of wrong values, where it does not depend on the row.
KNOWABLE: dict[str, Callable[[Case], np.ndarray]] = {
    "swapped": lambda case: gaussian_kde(case.true, bw_method=0.1)(case.y),
    "uniform": lambda case: np.full(case.y.size, 1.0 / (3.0 * np.ptp(case.true))),
}


def others(case: Case) -> dict[str, float]:
    """Return what else people do makes of the rows."""
    absolute = clone(BOOSTING).set_params(loss="absolute_error")
    return {"absolute": case.relative(absolute)} | _huber(case) | _cleanlab(case)


def _huber(case: Case) -> dict[str, float]:
    if importlib.util.find_spec("lightgbm") is None:
        return {}
    from lightgbm import LGBMRegressor

    alpha = 1.345 * 1.4826 * float(np.median(np.abs(case.y - np.median(case.y))))
    model = LGBMRegressor(n_estimators=50, objective="huber", alpha=alpha, verbose=-1, n_jobs=1)
    return {"Huber": case.relative(model)}


def _cleanlab(case: Case) -> dict[str, float]:
    if importlib.util.find_spec("cleanlab") is None:
        return {}
    from cleanlab.regression.learn import CleanLearning

    model = CleanLearning(clone(BOOSTING), n_boot=0, cv_n_folds=3, seed=0)
    found = {"cleanlab": case.relative(model)}
    if case.wrong.any():
        quality = model.get_label_issues()["label_quality"].to_numpy()
        found["cleanlab AP"] = float(average_precision_score(case.wrong, -quality))
    return found


def cells(only: str | None) -> Iterator[tuple[str, float, str]]:
    """Yield every table with nothing wrong, then with every kind of corruption."""
    names = [name for name in SETS if only is None or name.startswith(only)]
    yield from ((name, 0.0, "nothing") for name in names)
    for share in SHARES:
        for kind in KINDS:
            yield from ((name, share, kind) for name in names)


def page(records: list[dict[str, Any]], n_rows: int, command: str) -> str:
    """Return the results as a page."""
    lines = [
        INTRODUCTION.format(
            rows=n_rows,
            command=command,
            seeds=_seeds(records),
            seconds=float(np.mean([r["seconds"] for r in records if "seconds" in r])),
            tests=TEST_ROWS,
            batches=BATCHES,
            large=LARGE,
        )
    ]
    head = ("table", "wrong", "kind", "SelfPaced", "bare", "absolute", "Huber", "cleanlab")
    head += ("flagged", "precision", "of all", "recall", "AP", "cleanlab AP", "fits")
    lines += ["| " + " | ".join(head) + " |\n", "|" + "---|" * len(head) + "\n"]
    for key in sorted({_key(record) for record in records}):
        own = [record for record in records if _key(record) == key]
        row = [key[0], f"{100 * key[1]:.0f} %", key[2], _with_worst(own, "error")]
        row += [_mean(own, each) for each in ("bare", "absolute", "Huber", "cleanlab")]
        row += [f"{100 * np.mean(_values(own, 'flagged')):.1f} %"]
        row += [_mean(own, each) for each in ("precision", "of all", "recall", "AP", "cleanlab AP")]
        lines.append("| " + " | ".join([*row, f"{np.mean(_values(own, 'fits')):.0f}"]) + " |\n")
    beside = len({record["seed"] for record in records if "absolute" in record})
    lines.append(f"\nThe others were fitted in the first {_counted(beside, 'seed')}.\n")
    lines += ["\n## Goals\n\n", _goals(records), _beside_knowing(records), MISSES]
    return "".join(lines)


def _beside_knowing(records: list[dict[str, Any]]) -> str:
    """Return how wrong values are told, beside the best that can be done."""
    compared = [record for record in records if "knowing AP" in record]
    if not compared:
        return ""
    names = ("precision", "of all", "recall", "AP")
    head = ("table", "wrong", "kind", *names, *(f"{name}, knowing" for name in names))
    lines = [KNOWING, "| " + " | ".join(head) + " |\n", "|" + "---|" * len(head) + "\n"]
    for key in sorted({_key(record) for record in compared}):
        own = [record for record in compared if _key(record) == key]
        row = [key[0], f"{100 * key[1]:.0f} %", key[2], *(_mean(own, name) for name in names)]
        row += [_mean(own, f"knowing {name}") for name in names]
        lines.append("| " + " | ".join(row) + " |\n")
    return "".join(lines)


def _seeds(records: list[dict[str, Any]]) -> str:
    """Return how many seeds there are in all cells, and in which shares there are more."""
    found: dict[float, set[int]] = {}
    for record in records:
        found.setdefault(record["share"], set()).add(record["seed"])
    least = min(map(len, found.values()))
    more = [f"{100 * share:.0f} %" for share in sorted(found) if len(found[share]) > least]
    said = f" (and one more where {' and '.join(more)} are wrong)" if more else ""
    return _counted(least, "seed") + said


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _values(records: list[dict[str, Any]], name: str) -> list[float]:
    return [record[name] for record in records if name in record]


def _mean(records: list[dict[str, Any]], name: str) -> str:
    values = _values(records, name)
    return f"{np.mean(values):.2f}" if values else ""


def _with_worst(records: list[dict[str, Any]], name: str) -> str:
    values = _values(records, name)
    return f"**{np.mean(values):.2f}** ({max(values):.2f})"


def _is_precise(record: dict[str, Any]) -> bool:
    return bool(record["precision"] >= 0.9)


def _is_swapped(record: dict[str, Any]) -> bool:
    return bool(record["kind"] == "swapped")


def _goals(records: list[dict[str, Any]]) -> str:
    """Return how many cells (each seed counts) reach what was aimed at."""

    def share(which: Callable[[Any], bool], reached: Callable[[Any], bool]) -> str:
        counted = [record for record in records if "error" in record and which(record)]
        return f"{sum(map(reached, counted))} of {len(counted)}"

    goals = [
        (
            "Nothing wrong: error at most 1.01 of the bare model",
            share(lambda r: not r["share"], lambda r: r["error"] <= 1.01 * r["bare"]),
        ),
        (
            "Nothing wrong: at most 1 % flagged",
            share(lambda r: not r["share"], lambda r: r["flagged"] <= 0.01),
        ),
        (
            "10 and 20 % wrong: error at most 1.10",
            share(lambda r: r["share"] in (0.1, 0.2), lambda r: r["error"] <= 1.10),
        ),
        (
            "40 % wrong: error at most 1.25",
            share(lambda r: r["share"] == 0.4, lambda r: r["error"] <= 1.25),
        ),
        (
            "Precision at least 0.9, values not swapped",
            share(lambda r: r["share"] and r["kind"] != "swapped", _is_precise),
        ),
        ("Precision at least 0.9, swapped values", share(_is_swapped, _is_precise)),
        (
            "Recall of large errors at least 0.8",
            share(lambda r: r["share"] > 0, lambda r: r["recall"] >= 0.8),
        ),
    ]
    measured = [pair for pair in goals if pair[1] != "0 of 0"]
    lines = [f"- {goal}: {reached} cells.\n" for goal, reached in measured]
    return "".join([*lines, _ranking(records)])


def _ranking(records: list[dict[str, Any]]) -> str:
    """Return how often wrong rows are ranked as well as by cleanlab, over the seeds of a cell."""
    pairs = []
    for key in {_key(record) for record in records}:
        own = [record for record in records if _key(record) == key]
        ranked = [_values(own, name) for name in ("AP", "cleanlab AP")]
        if all(ranked):
            pairs.append([np.mean(values) for values in ranked])
    better = sum(mine >= theirs for mine, theirs in pairs)
    return (
        f"- AP at least cleanlab's, means over seeds: {better} of {len(pairs)}.\n" if pairs else ""
    )


def _key(record: dict[str, Any]) -> tuple[str, float, str]:
    return record["set"], record["share"], record["kind"]


def main() -> None:
    """Run every cell, writing each down as it ends, and make the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--only")
    parser.add_argument("--records", type=Path, help="File of results, to go on from.")
    parser.add_argument("--beside", type=int, help="Seeds in which the others are fitted, too.")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    known = given.records is not None and given.records.exists()
    records = [json.loads(line) for line in given.records.read_text().splitlines()] if known else []
    done = {(*_key(r), r["seed"], "error" in r) for r in records}
    use_quick_bins()
    beside = given.seeds if given.beside is None else given.beside
    for seed in range(given.seeds):
        parts = {True: ours, False: others} if seed < beside else {True: ours}
        for name, share, kind in cells(given.only):
            missing = [p for p in parts if (name, share, kind, seed, p) not in done]
            case = Case.of(name, share, kind, seed, given.rows) if missing else None
            for part in missing:
                cell = {"set": name, "share": share, "kind": kind, "seed": seed}
                records.append(cell | parts[part](case))
                print(json.dumps(records[-1]), flush=True)
                if given.records is not None:
                    with given.records.open("a") as file:
                        file.write(json.dumps(records[-1]) + "\n")
    command = f"python benchmarks/any_model.py --seeds {given.seeds} --rows {given.rows}"
    if given.out is not None:
        given.out.write_text(page(records, given.rows, command))


if __name__ == "__main__":
    main()
