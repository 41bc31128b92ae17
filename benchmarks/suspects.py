"""Are the suspicious rows the corrupted ones? Beside the Bayes rule, and cleanlab if installed.

    python benchmarks/suspects.py [--seeds 10] [--rows 10000] [--out docs/suspects.md]

Precision: which share of the flagged rows is corrupted. Recall: which share of the corrupted rows
is flagged. The Bayes rule knows the true coefficients and the mixture the rows were drawn from,
and flags what is more likely corrupted than clean: no rule makes fewer mistakes.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.special import ndtr

from easyfirst import SelfPacedRegressor

NOISE = 0.1**0.5  # standard deviation of the clean noise
REACH = 5.0  # errors reach this many times the largest clean |y|
GROSS = 10.0  # noise scales that a gross error has at least
N_FEATURES = 20
RATIOS = (0.1, 0.4)
KINDS = ("gross", "one-sided", "uniform")


@dataclass(frozen=True)
class Rows:
    """Rows, which of them are corrupted, and what the Bayes rule knows about them."""

    X: np.ndarray
    y: np.ndarray
    corrupted: np.ndarray
    coef: np.ndarray
    kind: str
    reach: float


def draw(kind: str, ratio: float, n: int, seed: int) -> Rows:
    """Draw linear rows, a share of which gets an error added to y."""
    rng = np.random.default_rng(seed)
    coef = rng.uniform(size=N_FEATURES)
    coef /= np.linalg.norm(coef)
    X = rng.standard_normal((n, N_FEATURES))
    y = X @ coef + NOISE * rng.standard_normal(n)
    corrupted = np.zeros(n, dtype=bool)
    corrupted[rng.permutation(n)[: round(ratio * n)]] = True
    reach = REACH * float(np.max(np.abs(y)))
    least = 0.0 if kind == "uniform" else GROSS * NOISE
    size = rng.uniform(least, reach, size=n)
    sign = 1.0 if kind == "one-sided" else rng.choice([-1.0, 1.0], size=n)
    y[corrupted] += (sign * size)[corrupted]
    return Rows(X, y, corrupted, coef, kind, reach)


def bayes(rows: Rows) -> np.ndarray:
    """Return which rows are more likely corrupted than clean, knowing how they were drawn."""
    residual = rows.y - rows.X @ rows.coef
    share = float(np.mean(rows.corrupted))
    clean = np.exp(-0.5 * np.square(residual / NOISE)) / (NOISE * np.sqrt(2.0 * np.pi))
    least = 0.0 if rows.kind == "uniform" else GROSS * NOISE
    up = _uniform_plus_noise(residual, least, rows.reach)
    down = _uniform_plus_noise(-residual, least, rows.reach)
    corrupted = up if rows.kind == "one-sided" else 0.5 * (up + down)
    return share * corrupted > (1.0 - share) * clean


def _uniform_plus_noise(residual: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return the density of an error uniform in [low, high] plus the noise."""
    return (ndtr((residual - low) / NOISE) - ndtr((residual - high) / NOISE)) / (high - low)


def ours(rows: Rows) -> np.ndarray:
    """Return which rows `suspects` returns."""
    model = SelfPacedRegressor(engine="inline").fit(rows.X, rows.y)
    table = model.suspects(rows.X, rows.y)
    flagged = np.zeros(len(rows.y), dtype=bool)
    flagged[np.asarray(table["row_id"])] = True
    return flagged


def cleanlab(rows: Rows, **search: object) -> np.ndarray:
    """Return which rows cleanlab's regression finder flags, with its defaults unless told."""
    from cleanlab.regression.learn import CleanLearning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = CleanLearning(seed=0).find_label_issues(rows.X, rows.y, **search)
    return np.asarray(found["is_label_issue"], dtype=bool)


def cleanlab_searching_wider(rows: Rows) -> np.ndarray:
    """Return what cleanlab flags when told that up to 60 % may be wrong."""
    return cleanlab(rows, coarse_search_range=[0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6])


def precision_and_recall(flagged: np.ndarray, corrupted: np.ndarray) -> tuple[float, float]:
    """Return both; flagging nothing has no precision."""
    hits = np.sum(flagged & corrupted)
    return float(hits / flagged.sum()) if flagged.any() else np.nan, float(hits / corrupted.sum())


INTRODUCTION = """# Suspicious rows

`model.suspects(X, y)` returns the rows that are more likely corrupted than clean, the worst first,
in the frame library of `X`. Four columns have the names that cleanlab gives them
(`is_label_issue`, `label_quality`, `given_label`, `predicted_label`); the others are `row_id`,
`residual` (given minus predicted, in standard deviations of the noise), `weight`, `entry_pace` (the
pace from which the row would take part), `likely_fix`, `fixed_value` and `fix_probability` (see
[likely fixes](fixes.md)), and `reason`, a sentence such as

> given 42,310, predicted 4,198: 10 times 4,231; decimal slip?

`top=20` returns the twenty worst rows whether they look wrong or not. Rows that the fit has not
seen are judged too. `model.judge(X, y)` gives the same numbers for every row, in their order.

`model.report("report.html", X, y)` puts them on a page, below the verdict; the coefficients beside
those of least squares and how the fit went come last. The page is one file without script or
network. It shows the given and the predicted value of suspicious rows (`show_target=False` leaves
them out), and other columns only with `show_rows=True`. A notebook shows `model.report(X=X, y=y)`
in place.

![A report: the verdict, what was done to each column, suspicious rows](figures/report.png)

## Are they the corrupted ones?

{rows:,} rows, {features} standard normal columns, noise of standard deviation {noise:.3f}; seeds 0
to {last}. A corrupted row has an error added to y, between a least size and five times the largest
clean |y| (about 60 noise scales). **Gross** errors have at least ten noise scales, of either sign;
**one-sided** ones are gross and positive; **uniform** ones, as in the paper, start at zero, so that
some hide within the noise and no rule can find them.

*Bayes* is the rule that knows the true coefficients and the mixture. Every figure is the mean over
the seeds, with the lowest and the highest in parentheses. {peer}
`python benchmarks/suspects.py --out docs/suspects.md` makes this page.
"""
PEER = (
    "cleanlab {version}\nruns `CleanLearning().find_label_issues`, once with its defaults and once "
    "with a\n`coarse_search_range` up to 0.6."
)
NO_PEER = "cleanlab was not installed and is left out."


def page(rows: int, seeds: int) -> str:
    """Measure everything and return the page."""
    rules = {"easyfirst": ours, "Bayes": bayes}
    peer = NO_PEER
    if importlib.util.find_spec("cleanlab") is not None:
        rules |= {"cleanlab": cleanlab, "cleanlab, wider": cleanlab_searching_wider}
        peer = PEER.format(version=version("cleanlab"))
    lines = [
        INTRODUCTION.format(rows=rows, features=N_FEATURES, noise=NOISE, last=seeds - 1, peer=peer),
        "| errors | corrupted | rule | precision | recall |",
        "|---|---|---|---|---|",
    ]
    for kind in KINDS:
        for ratio in RATIOS:
            drawn = [draw(kind, ratio, rows, seed) for seed in range(seeds)]
            for name, rule in rules.items():
                figures = np.array([precision_and_recall(rule(d), d.corrupted) for d in drawn])
                cells = " | ".join(figure(column) for column in figures.T)
                lines.append(f"| {kind} | {100 * ratio:.0f} % | {name} | {cells} |")
                print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def figure(values: np.ndarray) -> str:
    """Return the mean and the range over the seeds."""
    known = values[np.isfinite(values)]
    if known.size == 0:
        return "nothing flagged"
    silent = (
        "" if known.size == values.size else f"; nothing flagged {values.size - known.size} times"
    )
    return f"{known.mean():.4f} ({known.min():.4f} to {known.max():.4f}{silent})"


def main() -> None:
    """Print the figures as they come, and write the page where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--out", type=Path, help="write the page to this file")
    options = parser.parse_args()
    text = page(options.rows, options.seeds)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
