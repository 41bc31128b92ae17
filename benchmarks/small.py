"""Small data in every kind of trouble, beside R's robustbase and statsmodels: where each breaks.

    python benchmarks/small.py [--samples 100] [--first-seed 0] [--only NAME] [--out FILE]

Ratio: the mean error over that of least squares on the truly clean rows, in the metric of X, so
that coefficients of which the rows say nothing do not count. Broken: more than four times that.
With `--keep FOLDER`, the others' answers are kept there: only our own fits are made again.
Columns of R and of statsmodels are left out where they are missing.
"""

from __future__ import annotations

import argparse
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import _robustbase
import _small_noise
import _small_peers
import numpy as np
from _small_cells import CELLS, Array, Cell
from _small_peers import METHODS, Coefficients

from easyfirst import SelfPacedRegressor

BROKEN = 4.0
NEAR, FAR_BEHIND = 1.05, 1.25  # of the best other method


@dataclass(frozen=True)
class Result:
    """The errors of all methods on one sample, how ours ended, and how well it knew its error."""

    oracle: float
    ours: float
    others: tuple[float, ...]
    finished: bool = True
    doubted: bool = False
    covered: float = np.nan


def measured(task: tuple[int, int, Coefficients]) -> Result:
    """Fit one sample; the coefficients of the other methods are given."""
    X, y, clean, truth = CELLS[task[0]].draw(task[1])
    design = np.column_stack([X, np.ones(len(y))])

    def error(coef: Array | None) -> float:
        if coef is None or not np.all(np.isfinite(coef)):
            return np.nan
        return float(np.linalg.norm(design[clean] @ (coef - truth)) / np.sqrt(clean.sum()))

    oracle = error(np.linalg.lstsq(design[clean], y[clean], rcond=None)[0])
    others = tuple(error(coef) for coef in task[2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = SelfPacedRegressor(engine="inline").fit(X, y)
        except Exception:  # one broken fit must not hide the others
            return Result(oracle, np.nan, others, finished=False)
    ours = error(np.append(model.coef_, model.intercept_))
    finished = hasattr(model, "noise_scale_") and model.status_.converged
    return Result(oracle, ours, others, finished, bool(model.doubts_), coverage(model, truth[:-1]))


def coverage(model: SelfPacedRegressor, truth: Array) -> float:
    """Return how many slopes lie within their 95 % intervals, of those that have one."""
    if not np.any(np.isfinite(getattr(model, "coef_standard_errors_", np.nan))):
        return np.nan
    bounds = model.confidence_intervals(0.95)
    low, high = (np.asarray(bounds[side])[: truth.size] for side in ("lower", "upper"))
    known = np.isfinite(low) & np.isfinite(high)
    return float(np.mean((low <= truth)[known] & (truth <= high)[known]))


@dataclass(frozen=True)
class Line:
    """What one cell comes to."""

    cell: Cell
    ours: float
    broken: float
    others: tuple[float, ...]
    others_broken: tuple[float, ...]
    only_ours: int  # samples in which ours is broken and lmrob is not
    unfinished: float
    doubted: float
    covered: float
    errors: Array  # of every sample by every method, ours first

    @classmethod
    def of(cls, cell: Cell, results: list[Result]) -> Line:
        """Take the samples together; a method without any result has no figure."""
        oracle = np.array([result.oracle for result in results])
        every = np.array([(result.ours, *result.others) for result in results])
        counted = np.isfinite(every).sum(axis=0) > 0
        means = np.full(every.shape[1], np.nan)
        means[counted] = np.nanmean(every[:, counted], axis=0) / oracle.mean()
        broken = every > BROKEN * oracle[:, None]
        only = broken[:, 0] & ~broken[:, 1] & np.isfinite(every[:, 1])
        covered = [result.covered for result in results if np.isfinite(result.covered)]
        return cls(
            cell=cell,
            ours=float(means[0]),
            broken=float(broken[:, 0].mean()),
            others=tuple(means[1:].tolist()),
            others_broken=tuple(broken[:, 1:].mean(axis=0).tolist()),
            only_ours=int(only.sum()),
            unfinished=float(np.mean([not result.finished for result in results])),
            doubted=float(np.mean([result.doubted for result in results])),
            covered=float(np.mean(covered)) if covered else np.nan,
            errors=every,
        )

    @property
    def behind(self) -> float:
        """Our ratio over that of the best other method."""
        best = min((ratio for ratio in self.others if np.isfinite(ratio)), default=np.nan)
        return self.ours / best

    def __str__(self) -> str:
        """Return a row of the table."""
        pairs = [(self.ours, self.broken), *zip(self.others, self.others_broken, strict=True)]
        shown = ["-" if np.isnan(a) else f"{a:.3g} ({100 * b:.0f} %)" for a, b in pairs]
        lost = " **behind**" if self.behind > FAR_BEHIND else ""
        rest = [f"{100 * self.unfinished:.0f} %", f"{100 * self.doubted:.0f} %"]
        covered = "-" if np.isnan(self.covered) else f"{self.covered:.2f}"
        return f"| {self.cell.name}{lost} | " + " | ".join([*shown, *rest, covered]) + " |"


PAGE = """# Small samples

{samples} samples of each kind (seeds from {first} on), beside R's `lmrob` (MM) and `ltsReg`
(robustbase) and statsmodels' `RLM` (Tukey's biweight) and `RLMDetSMM`; `python benchmarks/small.py`
makes this page. The figure is the mean error of the coefficients over that of least squares on the
clean rows, in the metric of X; in parentheses the share of samples in which it is more than four
times as large. *Unfinished*: fits that failed or did not converge. *Doubted*: fits with a warning
that the result may not be trusted. *Coverage*: that of 95 % intervals of the coefficients.

Noise has standard deviation 1, the signal 2. Uniform corruption adds U(-30, 30); a cluster lies 8
standard deviations out and its y is off by 15. Where 30 % are capped, the oracle leaves the capped
rows out; the default keeps them and says in a doubt that y is cut off.

A fit of R that has not ended after {patience:.0f} seconds of processor time is ended and counts as
none, as do those that end in an error: `ltsReg` stalls or fails on samples of one-hot columns.

{summary}

Where the default is behind, and why:

- *Shifts of 5 of 20 to 50 rows.* Four to ten rows together are worth too little to be told from
  noise with a tail, and are kept in some samples. `ltsReg` leaves out a fixed share of the rows
  without asking, at an error 15 to 50 % larger on clean ones.
- *40 % wrong of 20 rows, clusters of 20 to 50.* In some samples a part of the rows agrees by chance
  better than the clean ones do, and counts for too much in the average of likely fits.
- *One-hot columns.* Of a level with two to five rows, half or more are wrong in some samples. The
  default decides for some of them, and `RLM` for none, which is nearer to all in the mean.
- *100 x 40.* With 2.5 rows per coefficient and 20 or 30 % wrong, no start is free of wrong rows.
- *Exponential, lognormal, 200 x 10.* What is lost is the intercept: the default aims between the
  median and the mean of the noise, and the figure asks for the mean (`center="mean"`).
- *Fewer than 2 rows per coefficient* (24 x 20, 40 x 20). Only gross rows are set aside, and a doubt
  says that others cannot be told.
- *Coverage* is low where bad leverage lies near the true plane by chance (of 20 x 1, in half of the
  samples): nothing tells such rows from good ones, and they make the intervals narrow. So too in
  samples whose corrupted rows are not found, for scattered bad leverage, of which some rows lie
  near any fit, and for capped y.

{chance}
## Cells

{missing}| cell | easyfirst | {peers} | unfinished | doubted | coverage |
|{bars}
{lines}
"""


CHANCE = """
## What is possible

Being within {near} of the best of four others asks more than being as good as each of them: of few
samples, the least of several means is lower than any method's own. Cells in which each method is
near the best of all five, and behind it by more than {far}:

| | {names} |
|---|{bars}
| within {near} | {within} |
| more than {far} behind | {behind} |

On random halves of the samples ({halvings} times), the other method that is best on one half is
within {near} of the best other on the other half in {chosen:.0%} of the cells: a method as good as
the best one would not do better. The default is so in {ours:.0%}; beside the one that was best on
the other half, which no minimum has picked, in {fair:.0%}.
"""


def chance(lines: list[Line]) -> str:
    """Return what part of the cells any method could be near the best in."""
    known = [line for line in lines if np.isfinite(line.behind)]
    if not known or min(len(line.errors) for line in known) < 4:
        return ""
    means = np.array([(line.ours, *line.others) for line in known])
    over = _small_noise.over_the_best(means)
    ours, fair, chosen = _small_noise.halves([line.errors for line in known], NEAR)
    columns = range(over.shape[1])
    compared = [int(np.isfinite(over[:, k]).sum()) for k in columns]
    close = [_small_noise.within(over[:, k], NEAR) for k in columns]
    nearer = [_small_noise.within(over[:, k], FAR_BEHIND) for k in columns]
    return CHANCE.format(
        near=NEAR,
        far=FAR_BEHIND,
        names=" | ".join(("easyfirst", *METHODS)),
        bars="---|" * over.shape[1],
        within=" | ".join(f"{k} of {n}" for k, n in zip(close, compared, strict=True)),
        behind=" | ".join(str(n - k) for k, n in zip(nearer, compared, strict=True)),
        halvings=_small_noise.HALVINGS,
        ours=ours,
        fair=fair,
        chosen=chosen,
    )


def page(lines: list[Line], seeds: range) -> str:
    """Return the page as Markdown."""
    samples = len(seeds)
    known = [line for line in lines if np.isfinite(line.behind)]
    near = sum(line.behind <= NEAR for line in known)
    far = sum(line.behind > FAR_BEHIND for line in known)
    lost = sum(line.only_ours for line in lines)
    by_cell = [line.cell.name for line in lines if line.only_ours]
    summary = (
        f"Of {len(known)} cells the default is within {NEAR} of the best other method (or ahead of "
        f"it) in {near}, and more than {FAR_BEHIND} behind in {far}. It is broken where `lmrob` is "
        f"not in {lost} of {samples * len(lines)} samples"
        + (f": {'; '.join(by_cell)}." if by_cell else ".")
    )
    peers = np.array([line.others for line in lines])
    absent = [name for name, column in zip(METHODS, peers.T, strict=True) if np.isnan(column).all()]
    missing = f"Left out because not installed: {', '.join(absent)}.\n\n" if absent else ""
    return PAGE.format(
        samples=samples,
        first=seeds.start,
        patience=_robustbase.PATIENCE,
        summary=summary,
        chance=chance(lines),
        missing=missing,
        peers=" | ".join(METHODS),
        bars="---|" * (5 + len(METHODS)),
        lines="\n".join(map(str, lines)),
    )


def main() -> None:
    """Fit every cell and print one line for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=0, help="samples that no rule has seen")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--without-r", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder for the answers of the others")
    parser.add_argument("--out", type=Path, help="write the page to this file")
    arguments = parser.parse_args()
    with_r = not arguments.without_r and _robustbase.installed()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.samples)
    lines: list[Line] = []
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for number, cell in enumerate(CELLS):
            if not any(name in cell.name for name in arguments.only.split("|")):
                continue
            others = _small_peers.answers(cell, seeds, with_r, arguments.keep)
            tasks = [(number, seed, other) for seed, other in zip(seeds, others, strict=True)]
            lines.append(Line.of(cell, list(pool.map(measured, tasks))))
            print(lines[-1], flush=True)
            if arguments.out:
                arguments.out.write_text(page(lines, seeds))


if __name__ == "__main__":
    main()
