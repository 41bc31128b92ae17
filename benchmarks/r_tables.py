"""Does the default do harm on tables that nobody here has looked at? Those of R's packages.

python benchmarks/r_tables.py FOLDER [--only MASS,carData] [--splits 3] [--labels]

Writes every data frame of the installed R packages to FOLDER as CSV (where none is there yet), then
predicts up to two columns of each from the others: numbers beside least squares and Huber or, with
--labels, classes beside logistic regression on the labels as given. Targets that least squares
reproduces are left out. Needs Rscript; which tables there are depends on the packages (r-cran-aer,
-cardata, -modeldata, -hsaur3, -dslabs, -psychtools, -metadat, -kmsurv, -gss, -rrcov are rich).
"""

from __future__ import annotations

import argparse
import subprocess
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import HuberRegressor, LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from easyfirst import SelfPacedClassifier, SelfPacedRegressor

EXPORT = """
folder <- commandArgs(TRUE)[1]
for (package in rownames(installed.packages())) {
  items <- tryCatch(data(package=package)$results[, "Item"], error=function(e) NULL)
  for (item in sub(" .*", "", items)) try({
    found <- new.env()
    suppressWarnings(data(list=item, package=package, envir=found))
    for (name in ls(found)) {
      table <- get(name, found)
      if (is.matrix(table)) table <- as.data.frame(table)
      if (!is.data.frame(table) || nrow(table) < 80 || ncol(table) < 3) next
      table <- as.data.frame(table)
      plain <- sapply(table, function(x) is.numeric(x) || is.factor(x) || is.character(x))
      write.csv(table[, plain, drop=FALSE], file.path(folder, paste0(package, "__", name, ".csv")),
                row.names=FALSE)
    }
  }, silent=TRUE)
}
"""
MOST_ROWS, LEAST_ROWS, MOST_COLUMNS = 4000, 80, 60
LEVELS = 12  # of a text that is a category
REPRODUCED = 1e-6  # standard deviations of y: an error that small is rounding

Rows = tuple[NDArray[np.float64], NDArray[np.generic]]


def problems(folder: Path, only: list[str], is_target: Callable[[pd.Series], bool]) -> Iterator:
    """Yield a name, X and y for up to two targets of every table."""
    for path in sorted(folder.glob("*.csv")):
        if only and not any(path.name.startswith(f"{package}__") for package in only):
            continue
        table = pd.read_csv(path, low_memory=False)
        table = table.sample(min(len(table), MOST_ROWS), random_state=1)
        table = table.loc[:, table.isna().mean() < 0.3].dropna()
        targets = [name for name in table if is_target(table[name])]
        rng = np.random.default_rng(zlib.crc32(path.stem.encode()))
        for target in rng.permutation(targets)[:2] if len(table) >= LEAST_ROWS else ():
            texts = table.drop(columns=target).select_dtypes(exclude="number")
            many = [name for name in texts if texts[name].nunique() > LEVELS]
            others = table.drop(columns=[target, *many])
            if others.empty:
                continue
            X = pd.get_dummies(others, drop_first=True, dtype=float)
            X = X.loc[:, X.nunique() > 1].iloc[:, :MOST_COLUMNS].to_numpy(float)
            if 1 <= X.shape[1] <= len(X) / 5 and np.isfinite(X).all():
                yield f"{path.stem}:{target}", X, table[target].to_numpy()


def splits(X: NDArray, y: NDArray, n_splits: int) -> Iterator[tuple[Rows, Rows]]:
    """Yield rows to fit and rows to test; columns that are constant among the first are dropped."""
    for seed in range(n_splits):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = np.split(order, [int(0.7 * len(y))])
        kept = X[train].std(axis=0) > 0
        yield (X[train][:, kept], y[train]), (X[test][:, kept], y[test])


def of_numbers(train: Rows, test: Rows) -> tuple[float, ...]:
    """Return the errors of least squares, Huber and ours; flagged; covered; doubted."""
    X, y = test
    huber = make_pipeline(StandardScaler(), HuberRegressor(max_iter=1000))
    model = SelfPacedRegressor(n_jobs=1)
    errors = [
        float(np.mean(np.abs(each.fit(*train).predict(X) - y)))
        for each in (LinearRegression(), huber, model)
    ]
    low, high = model.predict_interval(X).T
    covered = float(np.mean((y >= low) & (y <= high)))
    return *errors, float(np.mean(~model.selected_)), covered, float(bool(model.doubts_))


def of_labels(train: Rows, test: Rows) -> tuple[float, ...]:
    """Return log loss over that of logistic regression; share flagged; accuracy more than its."""
    X, y = test
    plain = LogisticRegression(max_iter=2000).fit(*train)
    model = SelfPacedClassifier(n_jobs=1).fit(*train)
    losses = [
        log_loss(y, np.clip(m.predict_proba(X), 1e-6, 1.0), labels=plain.classes_)
        for m in (model, plain)
    ]
    better = np.mean(model.predict(X) == y) - np.mean(plain.predict(X) == y)
    return losses[0] / max(losses[1], 1e-3), np.mean(~model.selected_), better


def is_number(column: pd.Series) -> bool:
    """Whether a column is worth predicting as a number."""
    return pd.api.types.is_numeric_dtype(column) and column.nunique() >= 15


def is_class(column: pd.Series) -> bool:
    """Whether a column holds few classes, each of some rows."""
    few = 2 <= column.nunique() <= 6
    text = not pd.api.types.is_numeric_dtype(column) or column.nunique() == 2
    return few and text and column.value_counts().min() >= 20


def lines_of_numbers(found: dict[str, NDArray[np.float64]]) -> Iterator[str]:
    """Yield a line per target, worst last, and a table of what they come to."""
    ratios = {}
    for name, splits_of in found.items():
        mean = splits_of.mean(axis=0)
        ratios[name] = mean[:3] / min(mean[:2])
    for name in sorted(ratios, key=lambda each: ratios[each][2]):
        plain, huber, ours = ratios[name]
        _, _, _, flagged, covered, doubted = found[name].mean(axis=0)
        yield (
            f"{name:60} ours {ours:.3f}, least squares {plain:.3f}, Huber {huber:.3f}; flagged "
            f"{flagged:.2f}, covered {covered:.2f}, doubted {doubted:.1f}"
        )
    table, fits = np.array(list(ratios.values())), np.concatenate(list(found.values()))
    many, silent = fits[:, 3] > 0.1, fits[:, 5] == 0.0
    covered = np.array([each[:, 4].mean() for each in found.values()])
    yield f"\n{len(table)} targets, {len(fits)} fits\n"
    yield "| | ours | least squares | Huber |\n|---|---|---|---|"
    measures: dict[str, Callable[[NDArray[np.float64]], str]] = {
        "geometric mean within a factor of two": lambda own: (
            f"{np.exp(np.mean(np.log(np.clip(own, 0.5, 2.0)))):.3f}"
        ),
        "above 1.03": lambda own: f"{np.mean(own > 1.03):.1%}",
        "above 1.1": lambda own: f"{np.mean(own > 1.1):.1%}",
        "above 1.25": lambda own: f"{np.mean(own > 1.25):.1%}",
    }
    for name, measure in measures.items():
        plain, huber, ours = (measure(own) for own in table.T)
        yield f"| error over the better of both, {name} | {ours} | {plain} | {huber} |"
    yield f"| fits with more than a tenth of the rows flagged | {np.mean(many):.1%} | | |"
    yield f"| likewise, and without any doubt | {np.mean(many & silent):.1%} | | |"
    yield f"| other fits with a doubt | {np.mean(~many & ~silent):.1%} | | |"
    low = np.mean(covered < 0.85)
    yield f"| targets whose 90 % intervals cover less than .85 | {low:.1%} | | |"


def lines_of_labels(found: dict[str, NDArray[np.float64]]) -> Iterator[str]:
    """Yield a line per target, worst last, and what they come to."""
    means = {name: each.mean(axis=0) for name, each in found.items()}
    for name, (ratio, flagged, other) in sorted(means.items(), key=lambda item: item[1][0]):
        yield f"{name:60} ratio {ratio:.3f} flagged {flagged:.2f} {other:+.3f}"
    ratio, flagged, other = np.array(list(means.values())).T
    yield (
        f"{len(found)} targets: geometric mean {np.exp(np.mean(np.log(ratio))):.4f}, above 1.03 "
        f"{np.mean(ratio > 1.03):.1%}, above 1.1 {np.mean(ratio > 1.1):.1%}, more than a tenth "
        f"flagged {np.mean(flagged > 0.1):.1%}, mean of the last column {np.mean(other):.3f}"
    )


def main() -> None:
    """Print a line per target, worst last, and what they come to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--labels", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    asked.folder.mkdir(parents=True, exist_ok=True)
    if not any(asked.folder.glob("*.csv")):
        subprocess.run(
            ["Rscript", "-e", EXPORT, str(asked.folder)], check=True, capture_output=True
        )
    measure, kind = (of_labels, is_class) if asked.labels else (of_numbers, is_number)
    found = {}
    for name, X, y in problems(asked.folder, [p for p in asked.only.split(",") if p], kind):
        if asked.labels:
            X, y = (X - X.mean(axis=0)) / X.std(axis=0), y.astype(str)
        parts = np.array([measure(*part) for part in splits(X, y, asked.splits)])
        if asked.labels or parts[:, 0].mean() > REPRODUCED * np.std(y.astype(float)):
            found[name] = parts
    for line in lines_of_labels(found) if asked.labels else lines_of_numbers(found):
        print(line)


if __name__ == "__main__":
    main()
