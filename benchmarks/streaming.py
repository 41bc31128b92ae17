"""Batches that arrive one at a time: accuracy beside one fit of all rows, and the drift alarm.

    python benchmarks/streaming.py [--seeds 10] [--streams 200] [--only alarm|numbers|labels]

First, the error of the coefficients (root mean square over seeds) after the last batch beside that
of one fit of all rows, in order, shuffled, and with bad batches first; for labels, the share of
wrong predictions. Second, how often the alarm is raised where nothing changes, and after how many
batches where something does, by residuals of batches of 200 rows from known distributions.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np

from easyfirst import SelfPacedClassifier, SelfPacedRegressor
from easyfirst.consensus.streams.drift import BatchSummary, DriftWatch

Batch = tuple[np.ndarray, np.ndarray]
COEF = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
ROWS = 200  # of a batch of the alarm
CHANGE = 40  # batch in which something changes
LONGEST = 60  # batches that are waited


def numbers(rng: np.random.Generator, n: int, share: float) -> Batch:
    """Rows of a line, a share of which is anywhere."""
    X = rng.standard_normal((n, COEF.size))
    y = X @ COEF + 1.0 + rng.standard_normal(n)
    wrong = rng.random(n) < share
    y[wrong] = rng.uniform(-30.0, 30.0, int(wrong.sum()))
    return X, y


def labels(rng: np.random.Generator, n: int, share: float) -> Batch:
    """Rows of two classes, a share of whose labels is the other one."""
    X = rng.standard_normal((n, COEF.size))
    chance = 1.0 / (1.0 + np.exp(-(X @ COEF + 1.0)))
    y = (rng.random(n) < chance) ^ (rng.random(n) < share)
    return X, np.where(y, "yes", "no")


def off(model: SelfPacedRegressor) -> float:
    """Return the squared error of the coefficients."""
    return float(np.sum(np.square(model.coef_ - COEF)) + (model.intercept_ - 1.0) ** 2)


def mistakes(model: SelfPacedClassifier) -> float:
    """Return the squared share of predictions that differ from the best ones."""
    X = np.random.default_rng(99).standard_normal((20_000, COEF.size))
    right = np.random.default_rng(98).random(20_000) < 1.0 / (1.0 + np.exp(-(X @ COEF + 1.0)))
    return float(np.mean((model.predict(X) == "yes") != right)) ** 2


def streams(
    make: Callable[..., Batch], rng: np.random.Generator, n_batches: int, n: int
) -> dict[str, list[Batch]]:
    """Return the same stream in order, shuffled, and with three bad batches first."""
    parts = [make(rng, n, share) for share in rng.uniform(0.05, 0.35, n_batches)]
    X, y = np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts])
    order = np.array_split(rng.permutation(y.size), n_batches)
    bad = [make(rng, n, 0.8) for _ in range(3)] if make is numbers else []
    if make is labels:
        bad = [make(rng, n, 0.45) for _ in range(3)]
    return {
        "in order": parts,
        "shuffled": [(X[rows], y[rows]) for rows in order],
        "bad first": [*bad, *parts],
    }


def accuracy(kind: str, seeds: int, n_batches: int, n: int) -> None:
    """Print how a stream ends beside one fit."""
    make, error = (numbers, off) if kind == "numbers" else (labels, mistakes)
    estimator = SelfPacedRegressor if kind == "numbers" else SelfPacedClassifier
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in range(seeds):
        made = streams(make, np.random.default_rng([seed, 5]), n_batches, n)
        for name, parts in made.items():
            model = estimator(engine="inline")
            for part in parts:
                model.partial_fit(*part)
            X, y = np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts])
            one = estimator(engine="inline").fit(X, y)
            found.setdefault(name, []).append((error(model), error(one)))
    for name, pairs in found.items():
        streamed, one = np.sqrt(np.mean(pairs, axis=0))
        print(
            f"| {kind} | {n_batches} x {n:,} | {name} | {streamed:.4f} | {one:.4f} | "
            f"{streamed / one:.3f} |",
            flush=True,
        )


def summaries(
    rng: np.random.Generator, share: float, times: float, uneven: float = 0.0
) -> BatchSummary:
    """Return a batch of residuals as a fitted model would see them.

    With `uneven`, clean shares and noise differ from batch to batch by that much.
    """
    own = np.clip(share + uneven * rng.standard_normal(), 0.0, 1.0)
    clean = rng.random(ROWS) < own
    z = np.where(
        clean,
        times * np.exp(uneven * rng.standard_normal()) * rng.standard_normal(ROWS),
        rng.uniform(-30, 30, ROWS),
    )
    flat = (1.0 - share) / 60.0
    normal = share * np.exp(-0.5 * np.square(z)) / np.sqrt(2.0 * np.pi)
    return BatchSummary.of(normal / (normal + flat), z)


def false_alarms(n_streams: int, bad: int, uneven: float) -> float:
    """Return alarms per 1,000 batches of streams in which nothing changes."""
    alarms = 0
    for seed in range(n_streams):
        rng, watch = np.random.default_rng([seed, 1]), DriftWatch()
        odd = set(rng.choice(8, bad, replace=False).tolist())
        for number in range(200):
            share = 0.3 if number in odd else 0.8
            alarms += watch.look(summaries(rng, share, 1.0, uneven)) is not None
    return 1000.0 * alarms / (200 * n_streams)


def delays(n_streams: int, share: float, times: float, bad: int) -> tuple[float, float, float]:
    """Return the median and 90 % delay in batches, and the share of streams without an alarm."""
    waited = []
    for seed in range(n_streams):
        rng, watch = np.random.default_rng([seed, 2]), DriftWatch()
        odd = set(rng.choice(8, bad, replace=False).tolist())
        for number in range(CHANGE):
            watch.look(summaries(rng, 0.3 if number in odd else 0.8, 1.0))
        found = (watch.look(summaries(rng, share, times)) for _ in range(LONGEST))
        waited.append(next((n for n, drift in enumerate(found, 1) if drift), LONGEST + 1))
    return (*np.quantile(waited, [0.5, 0.9]), float(np.mean(np.array(waited) > LONGEST)))


def alarm(n_streams: int) -> None:
    """Print false alarms and delays."""
    print("| steady stream | bad among the first eight | false alarms per 1,000 batches |")
    print("|---|---|---|")
    for uneven in (0.0, 0.05):
        for bad in (0, 1, 3):
            rate = false_alarms(n_streams, bad, uneven)
            print(f"| batches differ by {uneven:.2f} | {bad} | {rate:.2f} |", flush=True)
    print("\n| change | bad among the first eight | median delay | 90 % | never |")
    print("|---|---|---|---|---|")
    changes = {
        "clean share .80 to .75": (0.75, 1.0),
        "clean share .80 to .70": (0.7, 1.0),
        "clean share .80 to .50": (0.5, 1.0),
        "noise times 1.2": (0.8, 1.2),
        "noise times 1.5": (0.8, 1.5),
    }
    for name, (share, times) in changes.items():
        for bad in (0, 1, 3):
            middle, late, never = delays(n_streams, share, times, bad)
            print(f"| {name} | {bad} | {middle:.0f} | {late:.0f} | {100 * never:.0f} % |")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--only", choices=["alarm", "numbers", "labels"])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    kinds = [kind for kind in ("numbers", "labels") if given.only in (None, kind)]
    if kinds:
        print("| rows | batches | order | stream | one fit | ratio |\n|---|---|---|---|---|---|")
    for kind in kinds:
        accuracy(kind, given.seeds, 20, 200)
        accuracy(kind, given.seeds, 40, 1000)
    if given.only in (None, "alarm"):
        print()
        alarm(given.streams)


if __name__ == "__main__":
    main()
