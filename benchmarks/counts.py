"""Corrupted counts and amounts: the calibrated pace beside the fit of the clean rows.

python benchmarks/counts.py [--seeds 20] [--first 0] [--out docs/counts.md]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy import stats

from easyfirst import SelfPacedRegressor
from easyfirst.losses import GammaDeviance, Loss, PoissonDeviance

ROWS, COLUMNS, WRONG = 2000, 5, 0.2
MEANS = 3000  # drawn, over which densities of values of any row are averaged
ROUNDS_OF_TRUTH = 25
Numbers = NDArray[np.float64]
AIM = 1.15  # times the error of the oracle
KINDS = ("nothing", "times 10", "zeroed", "swapped", "all three")
INTRODUCTION = """# Counts, measured

{rows:,} rows, {columns} normal columns, a log link; the coefficients have the norm given. A fifth
of the values is corrupted: multiplied by ten, zeroed (amounts: divided by a hundred), swapped
among each other, or each of these for a third. {seeds} seeds per cell, all of them counted.
Columns: root mean square error of the coefficients and the intercept, over that of the oracle,
which is fitted to the rows that are not corrupted; the same for a GLM whose rows are weighed by
their probability of being clean, **the true noise known** (clean distribution, share and kind of
mistakes), which is about what can be reached; the same for the GLM of statsmodels on all rows; the
largest of our errors over the oracle's in one seed; the estimated share of corrupted
values minus the true one, in the mean and at worst; the share of clean rows flagged; the share of
corrupted rows found; the coverage of 90 % intervals for new clean values; seconds of processor
time per fit; fits with a doubt.

Counts with overdispersion are negative binomial with the variance mean + 0.25 mean²; amounts have
a coefficient of variation of 0.58. No robust GLM is installable from Python beside it (that of R,
`glmrob`, is not compared).

Made by `python benchmarks/counts.py --seeds {seeds} --first {first} --out docs/counts.md`, which
needs the extra `bench`.

"""


@dataclass(frozen=True)
class Table:
    """A distribution of clean values: its name, the mean, the norm of the coefficients."""

    name: str
    mean: float
    norm: float

    @property
    def loss(self) -> Loss:
        """The loss that suits it."""
        return GammaDeviance() if self.name == "gamma" else PoissonDeviance()

    @property
    def family(self) -> Any:
        """The family in statsmodels."""
        if self.name == "gamma":
            return sm.families.Gamma(sm.families.links.Log())
        return sm.families.Poisson()

    def draw(self, mean: Numbers, rng: np.random.Generator) -> Numbers:
        """Return clean values."""
        if self.name == "gamma":
            return rng.gamma(3.0, mean / 3.0)
        if self.name == "negative binomial":
            mean = mean * rng.gamma(4.0, 0.25, mean.size)
        return rng.poisson(mean).astype(float)

    def density(self, y: Numbers, mean: Numbers) -> Numbers:
        """Return how probable clean values are; no count is broken."""
        if self.name == "gamma":
            return np.asarray(stats.gamma.pdf(y, 3.0, scale=mean / 3.0))
        if self.name == "negative binomial":
            return np.asarray(stats.nbinom.pmf(y, 4.0, 1.0 / (1.0 + 0.25 * mean)))
        return np.asarray(stats.poisson.pmf(y, mean))

    def usual_density(self, y: Numbers) -> Numbers:
        """Return how probable values of any row are."""
        normal = np.random.default_rng(0).normal(size=MEANS)
        means = self.mean * np.exp(self.norm * normal)
        values, where = np.unique(y, return_inverse=True)
        return np.array([self.density(value, means).mean() for value in values])[where]


TABLES = (
    Table("Poisson", 3.0, 1.0),
    Table("Poisson", 20.0, 0.5),
    Table("Poisson", 20.0, 1.0),
    Table("negative binomial", 20.0, 1.0),
    Table("gamma", 20.0, 1.0),
)


def corrupted(y: Numbers, kind: str, is_amount: bool, rng: np.random.Generator) -> Numbers:
    """Return the values with mistakes."""
    if kind == "nothing":
        return y
    chosen = rng.random(y.size) < WRONG
    which = (
        rng.integers(0, 3, y.size)
        if kind == "all three"
        else np.full(y.size, KINDS.index(kind) - 1)
    )
    given = np.where(chosen & (which == 0), 10.0 * y, y)
    given = np.where(chosen & (which == 1), y / 100.0 if is_amount else 0.0, given)
    swapped = np.flatnonzero(chosen & (which == 2))
    given[swapped] = y[rng.permutation(swapped)]
    return given


def weighed_by_the_truth(
    table: Table, kind: str, design: Numbers, y: Numbers, start: Numbers
) -> Numbers:
    """Return the coefficients of a GLM whose weights know how values were corrupted."""
    is_amount, usual = table.name == "gamma", table.usual_density(y)

    def mistaken(mean: Numbers) -> Numbers:
        times = table.density(y / 10.0, mean) / (10.0 if is_amount else 1.0)
        zeroed = 100.0 * table.density(100.0 * y, mean) if is_amount else (y == 0).astype(float)
        kinds = [np.where(y > 0, times, 0.0), zeroed, usual]
        return np.mean(kinds, axis=0) if kind == "all three" else kinds[KINDS.index(kind) - 1]

    coef = start
    for _ in range(ROUNDS_OF_TRUTH):
        mean = np.exp(design @ coef)
        clean = (1.0 - WRONG) * table.density(y, mean)
        weights = clean / np.maximum(clean + WRONG * mistaken(mean), 1e-300)
        model = sm.GLM(y, design, family=table.family, var_weights=weights)
        coef = np.asarray(model.fit(start_params=coef, maxiter=3).params)
    return coef


def outcome(table: Table, kind: str, seed: int) -> tuple[float, ...]:
    """Return squared errors of ours and of three other fits, and what was found."""
    rng = np.random.default_rng([seed, 7])
    coef = rng.normal(size=COLUMNS)
    coef = np.append(coef * table.norm / np.linalg.norm(coef), np.log(table.mean))
    X = rng.normal(size=(2 * ROWS, COLUMNS))
    design = np.column_stack([X, np.ones(2 * ROWS)])
    clean = table.draw(np.exp(design @ coef), rng)
    y = corrupted(clean[:ROWS], kind, table.name == "gamma", rng)
    wrong = y != clean[:ROWS]
    began = time.process_time()
    model = SelfPacedRegressor(loss=table.loss).fit(X[:ROWS], y)
    seconds = time.process_time() - began

    def off(found: Numbers) -> float:
        return float(np.sum(np.square(found - coef)))

    def glm(rows: Any) -> Numbers:
        return np.asarray(sm.GLM(y[rows], design[:ROWS][rows], family=table.family).fit().params)

    low, high = model.predict_interval(X[ROWS:]).T
    new, oracle = clean[ROWS:], glm(~wrong)
    known = oracle
    if kind != "nothing":
        known = weighed_by_the_truth(table, kind, design[:ROWS], y, oracle)
    return (
        off(np.append(model.coef_, model.intercept_)),
        off(oracle),
        off(known),
        off(glm(slice(None))),
        model.corrupted_fraction_ - float(wrong.mean()),
        float(np.mean(~model.selected_[~wrong])),
        float(np.mean(~model.selected_[wrong])) if wrong.any() else float("nan"),
        float(np.mean((new >= low) & (new <= high))),
        seconds,
        float(bool(model.doubts_)),
    )


def lines(seeds: range) -> Iterator[str]:
    """Yield one line of the page for each cell."""
    yield (
        "| values | mean, norm | corrupted | error / oracle | noise known | GLM | worst seed | "
        "share off (worst) | clean flagged | found | coverage | s | doubts |"
    )
    yield "|" + "---|" * 13
    missed = []
    for table in TABLES:
        for kind in KINDS:
            found = np.array([outcome(table, kind, seed) for seed in seeds])
            ours, oracle, known, plain = np.sqrt(found[:, :4].mean(axis=0))
            worst = float(np.max(np.sqrt(found[:, 0] / found[:, 1])))
            mean, share = found.mean(axis=0), found[:, 4]
            if ours > AIM * oracle:
                missed.append(
                    f"{table.name} {table.mean:g}, {kind} ({ours / oracle:.2f}; the noise known "
                    f"{known / oracle:.2f})"
                )
            yield (
                f"| {table.name} | {table.mean:g}, {table.norm:g} | {kind} | {ours / oracle:.2f} | "
                f"{known / oracle:.2f} | {plain / oracle:.1f} | {worst:.1f} | {share.mean():+.3f} "
                f"({share[np.argmax(np.abs(share))]:+.3f}) | {mean[5]:.4f} | {mean[6]:.2f} | "
                f"{mean[7]:.3f} | {mean[8]:.1f} | {int(found[:, 9].sum())} |"
            ).replace(" nan ", " ")
    yield f"\nMore than {AIM} times the error of the oracle: {'; '.join(missed) or 'none'}."


def main() -> None:
    """Fit every cell, print one line for each, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    written = []
    for line in lines(range(arguments.first, arguments.first + arguments.seeds)):
        print(line, flush=True)
        written.append(line)
    if arguments.out:
        page = INTRODUCTION.format(
            rows=ROWS, columns=COLUMNS, seeds=arguments.seeds, first=arguments.first
        )
        arguments.out.write_text(page + "\n".join(written) + "\n")


if __name__ == "__main__":
    main()
