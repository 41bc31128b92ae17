"""`SelfPaced` around classifiers on noisy labels, beside the linear classifier and cleanlab.

    python benchmarks/any_labels.py [--seeds 3] [--rows 1500] [--out docs/any-labels.md]

Prints the share of wrong predictions on untouched test rows: of the model fitted to right labels,
of the bare model, of `SelfPaced` and cleanlab's `CleanLearning` around it; and the average
precision with which wrong labels are ranked. With --out, the page is written again after every
line. Needs the tables beside the repository.
"""

from __future__ import annotations

import argparse
import importlib.util
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from labels import flipped, table
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

from easyfirst import SelfPaced, SelfPacedClassifier

TABLES = ("adult", "phoneme", "ring")
RATES: dict[str, tuple[float, float]] = {
    "none": (0.0, 0.0),
    "20 %": (0.2, 0.2),
    "30 % of one class": (0.0, 0.3),
}
MODELS = {
    "logistic": LogisticRegression(max_iter=1000),
    "boosting": HistGradientBoostingClassifier(max_iter=50, random_state=0),
}

INTRODUCTION = """# Any classifier, wrong labels

Labels of three public tables are flipped: a fifth of all, 30 % of one class, or none. At most
{rows:,} rows train, as many others test with their own labels. Means over {seeds} seed(s), made
by `{command}`.

**Right labels** to **cleanlab** are shares of wrong predictions on the test rows: of the model
fitted to the right labels, of the bare model on the labels given, of `SelfPaced` around it, of
`SelfPacedClassifier` (linear, the same for both models), and of cleanlab's `CleanLearning` around
the model. **AP** is the average precision of the ranking of wrong labels: by `SelfPaced`, by
`SelfPacedClassifier`, by cleanlab. **Flagged** and **fits** are those of `SelfPaced`.
Where nothing tells flips from classes that overlap, every label is taken as right: none is flagged,
and `SelfPaced` is the bare model. Labels are then put in order by how probable they are.

"""


def cell(name: str, model: str, rates: tuple[float, float], seed: int, most: int) -> list[float]:
    """Return errors with right labels, bare, self-paced, linear and cleanlab's, then precisions."""
    X, right, tests, truth = table(name, seed, most)
    given = flipped(X, right, rates, seed)
    wrong, template = given != right, MODELS[model]

    def error(fitted: Any) -> float:
        return float(np.mean(fitted.predict(tests) != truth))

    def precision(quality: Any) -> float:
        if not wrong.any():
            return np.nan
        return float(average_precision_score(wrong, 1.0 - np.asarray(quality)))

    ours = SelfPaced(template).fit(X, given)
    linear = SelfPacedClassifier(engine="inline").fit(X, given)
    plain = [error(clone(template).fit(X, y)) for y in (right, given)]
    theirs = (np.nan, np.nan)
    if importlib.util.find_spec("cleanlab") is not None:
        from cleanlab.classification import CleanLearning

        lab = CleanLearning(clone(template), seed=0, verbose=False).fit(X, given)
        theirs = (error(lab), precision(lab.get_label_issues()["label_quality"]))
    found = [precision(ours.weights_), precision(linear.weights_), theirs[1]]
    flagged = float(np.mean(~ours.selected_))
    return [*plain, error(ours), error(linear), theirs[0], *found, flagged, ours.n_fits_]


HEAD = (
    "| table | wrong | model | right labels | bare | SelfPaced | SelfPacedClassifier "
    "| cleanlab | AP | AP linear | AP cleanlab | flagged | fits |\n|" + "---|" * 13 + "\n"
)


def line(name: str, kind: str, model: str, seeds: int, rows: int) -> str:
    """Return a line of the table, the mean over seeds."""
    means = np.mean([cell(name, model, RATES[kind], s, rows) for s in range(seeds)], axis=0)
    shown = [f"{100 * value:.1f} %" for value in means[:5]]
    shown += ["" if np.isnan(value) else f"{value:.2f}" for value in means[5:8]]
    shown += [f"{100 * means[8]:.1f} %", f"{means[9]:.0f}"]
    return f"| {name} | {kind} | {model} | " + " | ".join(shown) + " |\n"


def main() -> None:
    """Print the table, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    command = f"python benchmarks/any_labels.py --seeds {given.seeds} --rows {given.rows}"
    text = INTRODUCTION.format(rows=given.rows, seeds=given.seeds, command=command) + HEAD
    print(HEAD, end="")
    for name in TABLES:
        for kind in RATES:
            for model in MODELS:
                added = line(name, kind, model, given.seeds, given.rows)
                print(added, end="", flush=True)
                text += added
                if given.out is not None:
                    given.out.write_text(text)


if __name__ == "__main__":
    main()
