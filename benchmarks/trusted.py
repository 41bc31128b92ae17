"""What a person's answers are worth: trusted rows between two models, and 50 rows to review.

    python benchmarks/trusted.py [--seeds 10]

First, how often 1 % of trusted rows settle which of two models of equal support is meant, and how
often a few answers do, about rows drawn at random or chosen by `to_review`. Second, the squared
error of the coefficients after 50 answers: about rows drawn at random, about the most suspicious
rows, and about those that `to_review` chooses.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np

from easyfirst import SelfPacedRegressor

ANSWERS = 50
FEW = (1, 2, 3, 5, 10, 20)  # answers that may settle which of two models is meant
Problem = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # X, y, which are wrong, coef


def another_model(rng: np.random.Generator, share: float, distance: float, noise: float) -> Problem:
    """Rows of which a share follows another model."""
    X = rng.standard_normal((1000, 5))
    coef = rng.standard_normal(5)
    other = coef + distance * rng.standard_normal(5)
    wrong = rng.random(1000) < share
    y = np.where(wrong, X @ other, X @ coef) + noise * rng.standard_normal(1000)
    return X, y, wrong, coef


def grows_with_a_column(rng: np.random.Generator) -> Problem:
    """Rows of which most with a large first column are too high by a multiple of it."""
    X = rng.standard_normal((1000, 5))
    coef = rng.standard_normal(5)
    wrong = (rng.random(1000) < 0.8) & (X[:, 0] > 0.5)
    y = X @ coef + rng.standard_normal(1000) + np.where(wrong, 2.5 * X[:, 0], 0.0)
    return X, y, wrong, coef


def far_out(rng: np.random.Generator) -> Problem:
    """Rows of which a tenth lies far out in X, where one slope is another."""
    X = rng.standard_normal((1000, 5))
    wrong = rng.random(1000) < 0.1
    X[wrong] *= 3.0
    coef = rng.standard_normal(5)
    y = X @ coef + rng.standard_normal(1000) + np.where(wrong, 1.2 * X[:, 0], 0.0)
    return X, y, wrong, coef


def uniform(rng: np.random.Generator) -> Problem:
    """Rows of which 40 % hold anything: the easy case, in which answers can add little."""
    X = rng.standard_normal((1000, 5))
    coef = rng.standard_normal(5)
    wrong = rng.random(1000) < 0.4
    y = np.where(wrong, rng.uniform(-50, 50, 1000), X @ coef + rng.standard_normal(1000))
    return X, y, wrong, coef


CASES: dict[str, Callable[[np.random.Generator], Problem]] = {
    "40 % of a near model": lambda rng: another_model(rng, 0.4, 1.5, 1.0),
    "error grows with a column": grows_with_a_column,
    "a tenth far out in X": far_out,
    "two models, half each": lambda rng: another_model(rng, 0.5, 4.0, 0.3),
    "40 % uniform": uniform,
}


def fitted(X: np.ndarray, y: np.ndarray, **known: np.ndarray) -> SelfPacedRegressor:
    """Fit, whatever it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SelfPacedRegressor(engine="inline").fit(X, y, **known)


def answered(problem: Problem, rows: np.ndarray) -> float:
    """Return the squared error after answers about these rows."""
    X, y, wrong, coef = problem
    asked = np.zeros(y.size, dtype=bool)
    asked[rows] = True
    model = fitted(X, y, trusted=asked & ~wrong, rejected=asked & wrong)
    return float(np.sum(np.square(model.coef_ - coef)))


def errors(problem: Problem, rng: np.random.Generator) -> list[float]:
    """Return the error without answers, and with answers about differently chosen rows."""
    X, y, _, coef = problem
    model = fitted(X, y)
    worst = model.suspects(X, y, top=ANSWERS)["row_id"].to_numpy()
    telling = model.to_review(X, y, k=ANSWERS)["row_id"].to_numpy()
    choices = (rng.choice(y.size, ANSWERS, replace=False), worst, telling)
    before = float(np.sum(np.square(model.coef_ - coef)))
    return [before, *(answered(problem, rows) for rows in choices)]


def settled(seed: int) -> tuple[bool, bool]:
    """Return whether the right model of two is found, without and with 1 % of trusted rows."""
    rng = np.random.default_rng(seed)
    X, y, wrong, coef = another_model(rng, 0.5, 4.0, 0.3)
    trusted = np.zeros(y.size, dtype=bool)
    trusted[rng.choice(np.flatnonzero(~wrong), 10, replace=False)] = True
    found = (fitted(X, y), fitted(X, y, trusted=trusted))
    alone, told = (bool(np.linalg.norm(model.coef_ - coef) < 0.1) for model in found)
    return alone, told


def settled_by_few(seed: int) -> list[list[bool]]:
    """Return whether the right model of two is found by few answers: at random, by `to_review`."""
    rng = np.random.default_rng([seed, 11])
    problem = another_model(rng, 0.5, 4.0, 0.3)
    X, y, *_ = problem
    drawn = rng.permutation(y.size)
    telling = fitted(X, y).to_review(X, y, k=max(FEW))["row_id"].to_numpy()
    return [[answered(problem, rows[:k]) < 0.01 for k in FEW] for rows in (drawn, telling)]


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    seeds = range(parser.parse_args().seeds)
    alone, told = np.sum([settled(seed) for seed in seeds], axis=0)
    print(
        f"two models of equal support: {alone} of {len(seeds)} right without trusted rows, "
        f"{told} with 1 %\n"
    )
    few = np.sum([settled_by_few(seed) for seed in seeds], axis=0)
    print("| answers | " + " | ".join(map(str, FEW)) + " |\n|" + "---|" * (len(FEW) + 1))
    for name, counts in zip(("at random", "to_review"), few, strict=True):
        print(f"| right after answers, {name} | " + " | ".join(map(str, counts)) + " |")
    print("\n| squared error after 50 answers | none | at random | most suspicious | to_review |")
    print("|---|---|---|---|---|")
    for name, make in CASES.items():
        rows = []
        for seed in seeds:
            rng = np.random.default_rng([seed, 7])
            rows.append(errors(make(rng), rng))
        print(f"| {name} | " + " | ".join(f"{value:.4f}" for value in np.mean(rows, axis=0)) + " |")


if __name__ == "__main__":
    main()
