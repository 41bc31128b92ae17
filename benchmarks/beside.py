"""Which wrong rows other tools find on the same table: Huber, RANSAC, cleanlab, great_expectations.

    python benchmarks/beside.py [--seeds 5] [--rows 2000] [--out docs/beside.md]

cleanlab and great_expectations take part where they are installed. Prints Markdown; --out puts the
tables between the marks in a page.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from sklearn.linear_model import HuberRegressor, RANSACRegressor
from sklearn.preprocessing import StandardScaler

from easyfirst import SelfPacedRegressor

SHARE = 0.1  # of the rows get an error
FAR = 2.5  # robust standard deviations from the fit at which Huber's rows count as flagged
NORMAL_MEDIAN = 0.6745  # median of |z| for a standard normal z
BEGIN, END = "<!-- measured -->", "<!-- end -->"


@dataclass(frozen=True)
class Case:
    """A table of flats, the rent asked for each, and which rows are wrong."""

    X: pd.DataFrame
    y: np.ndarray
    wrong: np.ndarray


def flats(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw flats: area, rooms, floor, age, and in which of three cities they are."""
    area = rng.uniform(20, 120, n)
    city = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    return pd.DataFrame(
        {
            "area": area,
            "rooms": np.clip(np.round(area / 30 + rng.normal(0, 0.7, n)), 1, 6),
            "floor": rng.integers(0, 9, n).astype(float),
            "age": rng.uniform(0, 100, n),
            "in_bonn": (city == 1).astype(float),
            "in_kiel": (city == 2).astype(float),
        }
    )


def rent(X: pd.DataFrame) -> np.ndarray:
    """Return the rent without noise: linear in the columns."""
    return np.asarray(150 + 9 * X["area"] + 40 * X["rooms"] - 1.5 * X["age"] + 150 * X["in_bonn"])


def slipped(case: Case, rows: np.ndarray, rng: np.random.Generator) -> None:
    """Let the decimal point slip."""
    case.y[rows] *= rng.choice([0.1, 10.0], rows.size)


def yearly(case: Case, rows: np.ndarray, rng: np.random.Generator) -> None:
    """Give the rent of a year."""
    case.y[rows] *= 12


def missing_code(case: Case, rows: np.ndarray, rng: np.random.Generator) -> None:
    """Write -1 for a rent that is not known."""
    case.y[rows] = -1


def exchanged(case: Case, rows: np.ndarray, rng: np.random.Generator) -> None:
    """Give each the rent of another flat: every value is plausible by itself."""
    case.y[rows] = case.y[np.roll(rows, 1)]


def wrong_area(case: Case, rows: np.ndarray, rng: np.random.Generator) -> None:
    """Give the area in square feet: the rent is right, a feature is not."""
    case.X.loc[rows, "area"] *= 10.76


MISTAKES: dict[str, Callable[[Case, np.ndarray, np.random.Generator], None]] = {
    "slipped decimal point": slipped,
    "rent of a year": yearly,
    "-1 for missing": missing_code,
    "rent of another flat": exchanged,
    "area in square feet": wrong_area,
}


def draw(mistake: str, n: int, seed: int) -> Case:
    """Draw a table with one kind of mistake, or with none."""
    rng = np.random.default_rng(seed)
    X = flats(n, rng)
    y = rent(X) + 40 * rng.standard_normal(n)
    wrong = np.zeros(n, dtype=bool)
    case = Case(X, y, wrong)
    if mistake in MISTAKES:
        rows = rng.permutation(n)[: round(SHARE * n)]
        MISTAKES[mistake](case, rows, rng)
        wrong[rows] = True
    elif mistake == "none, but the rent is a curve":
        y += 0.1 * np.square(X["area"] - 20)
    elif mistake == "none, but the noise is skewed":
        y += 80 * (rng.lognormal(0, 1, n) - np.exp(0.5))
    return case


def easyfirst(case: Case) -> np.ndarray:
    """Flag rows that are more likely wrong than right."""
    return ~SelfPacedRegressor(engine="inline").fit(case.X, case.y).selected_


def huber(case: Case) -> np.ndarray:
    """Flag rows far from scikit-learn's Huber fit, in robust standard deviations."""
    X = StandardScaler().fit_transform(case.X)
    residual = case.y - HuberRegressor(max_iter=1000).fit(X, case.y).predict(X)
    scale = np.median(np.abs(residual)) / NORMAL_MEDIAN
    return np.abs(residual) > FAR * scale


def ransac(case: Case) -> np.ndarray:
    """Flag what scikit-learn's RANSAC calls outliers."""
    return ~RANSACRegressor(random_state=0).fit(case.X, case.y).inlier_mask_


def cleanlab(case: Case) -> np.ndarray:
    """Flag what cleanlab's CleanLearning finds, with its defaults."""
    from cleanlab.regression.learn import CleanLearning

    found = CleanLearning(seed=0).find_label_issues(case.X.to_numpy(), case.y)
    return np.asarray(found["is_label_issue"], dtype=bool)


def cleanlab_trees(case: Case) -> np.ndarray:
    """Flag what cleanlab finds around boosted trees."""
    from cleanlab.regression.learn import CleanLearning
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(random_state=0)
    found = CleanLearning(model, seed=0).find_label_issues(case.X.to_numpy(), case.y)
    return np.asarray(found["is_label_issue"], dtype=bool)


def great_expectations(case: Case) -> np.ndarray:
    """Flag values more than three standard deviations from the mean of their column."""
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    table = case.X.drop(columns=["in_bonn", "in_kiel"]).assign(rent=case.y)
    batch = (
        context.data_sources.add_pandas("memory")
        .add_dataframe_asset("flats")
        .add_batch_definition_whole_dataframe("all")
        .get_batch(batch_parameters={"dataframe": table})
    )
    flagged = np.zeros(len(table), dtype=bool)
    for column in table:
        found = batch.validate(
            gx.expectations.ExpectColumnValueZScoresToBeLessThan(
                column=column, threshold=3, double_sided=True
            ),
            result_format={"result_format": "COMPLETE"},
        )
        flagged[found.result["unexpected_index_list"]] = True
    return flagged


def installed(package: str) -> bool:
    """Return whether a package can be imported."""
    return importlib.util.find_spec(package) is not None


METHODS: dict[str, Callable[[Case], np.ndarray]] = {
    "easyfirst": easyfirst,
    "Huber": huber,
    "RANSAC": ransac,
}
if installed("cleanlab"):
    METHODS |= {"cleanlab": cleanlab, "cleanlab, trees": cleanlab_trees}
if installed("great_expectations"):
    METHODS["great_expectations"] = great_expectations
CLEAN = ("none", "none, but the rent is a curve", "none, but the noise is skewed")


def cell(mistake: str, method: str, n: int, seeds: int, seconds: dict[str, float]) -> str:
    """Return precision and recall, or the share of good rows flagged, over the seeds."""
    flagged = wrong = hits = 0
    for seed in range(seeds):
        case = draw(mistake, n, seed)
        began = time.perf_counter()
        found = METHODS[method](case)
        seconds[method] = seconds.get(method, 0.0) + time.perf_counter() - began
        flagged += int(found.sum())
        wrong += int(case.wrong.sum())
        hits += int(np.sum(found & case.wrong))
    if not wrong:
        return f"{flagged / (n * seeds):.1%}".replace("%", " %")
    precision = f"{hits / flagged:.2f}" if flagged else "–"
    return f"{hits / wrong:.2f} / {precision}"


def tables(n: int, seeds: int) -> str:
    """Return both tables and the seconds as Markdown."""
    seconds: dict[str, float] = {}
    head = "| " + " | ".join(METHODS) + " |"
    lines = [f"| mistake {head}", "|" + "---|" * (len(METHODS) + 1)]
    for mistake in MISTAKES:
        row = (cell(mistake, method, n, seeds, seconds) for method in METHODS)
        lines.append(f"| {mistake} | {' | '.join(row)} |")
    lines += ["", f"| nothing is wrong {head}", "|" + "---|" * (len(METHODS) + 1)]
    for mistake in CLEAN:
        row = (cell(mistake, method, n, seeds, seconds) for method in METHODS)
        lines.append(f"| {mistake} | {' | '.join(row)} |")
    runs = seeds * (len(MISTAKES) + len(CLEAN))
    lines.append("| seconds | " + " | ".join(f"{seconds[m] / runs:.2f}" for m in METHODS) + " |")
    others = [name for name in ("cleanlab", "great_expectations") if installed(name)]
    versions = ", ".join(f"{name} {version(name)}" for name in ("scikit-learn", *others))
    return "\n".join(
        [*lines, "", f"{n:,} rows, {seeds} seed{'s' if seeds > 1 else ''}; {versions}."]
    )


def main() -> None:
    """Print the tables, and put them into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--out", type=Path, help="a page with marks for the tables")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    text = tables(options.rows, options.seeds)
    print(text)
    if options.out:
        page = options.out.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        after = rest.partition(END)[2]
        options.out.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
