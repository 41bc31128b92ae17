"""Rental prices: the published protocol, which measures its own leak, and an honest one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from easyfirst.baselines.method import PAPER_NOISE, Coefficients
from easyfirst.baselines.methods import run_in
from easyfirst.consensus.robust.huber import MEDIAN_TO_SCALE
from easyfirst.contracts import Matrix, Vector
from easyfirst.datasets.synthetic import random_shares
from easyfirst.experiments import published
from easyfirst.experiments.base import BenchmarkProblem, Cell, Experiment
from easyfirst.experiments.cities import BARCELONA, LA, NYC, City, Protocol, Split, city_split

LEAK_SD = 20.0  # dollars: the noise on the label that the published features contain
REACH = 0.5  # of the largest price in a batch: how far the corruption of a label goes


@dataclass(frozen=True)
class Rental:
    """A city's prices, a share of which is corrupted.

    As in the authors' program, the share differs from batch to batch, and a corrupted price
    gets an error of up to half the largest price of its batch added or subtracted.
    """

    city: City
    protocol: Protocol
    ratio: float
    directory: Path
    every: int = 1  # keep every so many rows, for a quick run

    @property
    def key(self) -> str:
        """Name with everything that shapes the data, apart from the files themselves."""
        city = self.city.name.lower().replace(" ", "-")
        thin = f"-every{self.every}" if self.every > 1 else ""
        return f"rental-{city}-{self.protocol.replace(' ', '-')}{thin}-{100 * self.ratio:02.0f}"

    @property
    def cost(self) -> float:
        """About as long as a synthetic problem with ten columns."""
        return self.city.n_rows / self.every * 3e-6

    def make(self, seed: int) -> BenchmarkProblem:
        """Corrupt the training prices and, as published, draw the noise of the leak."""
        rng = check_random_state(seed)
        split = city_split(self.city, self.protocol, self.directory, self.every)
        if self.protocol == "as published":
            split = _with_leak(split, rng)
        n = len(split.y_train)
        batches = np.arange(n) * self.city.n_batches // n
        y, clean = corrupt_prices(split.y_train, batches, self.ratio, rng)
        honest = self.protocol == "honest"
        return BenchmarkProblem(
            X=split.X_train,
            y=y,
            batches=batches,
            clean=clean,
            measure=_measure(split, root=not honest),
            fit_intercept=honest,
            unit=_unit(split, honest),
            y_clean=split.y_train,
        )


def corrupt_prices(
    prices: Vector, batches: NDArray[np.intp], ratio: float, rng: np.random.RandomState
) -> tuple[Vector, NDArray[np.bool_]]:
    """Return prices with errors in a share of the rows, and which rows have none."""
    y, clean = prices.copy(), np.ones(len(prices), dtype=bool)
    ids = np.unique(batches)
    for batch, share in zip(ids, random_shares(len(ids), ratio, rng), strict=True):
        rows = np.flatnonzero(batches == batch)
        bad = rng.choice(rows, size=round(share * len(rows)), replace=False)
        reach = REACH * prices[rows].max()
        y[bad] += rng.uniform(-reach, reach, size=len(bad))
        clean[bad] = False
    return y, clean


def _with_leak(split: Split, rng: np.random.RandomState) -> Split:
    """Append the column that the published features end with: the price plus noise."""

    def leaking(X: Matrix, y: Vector) -> Matrix:
        return np.column_stack([X, y + LEAK_SD * rng.standard_normal(len(y))])

    return Split(
        leaking(split.X_train, split.y_train),
        split.y_train,
        leaking(split.X_test, split.y_test),
        split.y_test,
    )


def _measure(split: Split, *, root: bool) -> Any:
    """Judge by the mean absolute error in dollars, or by its root as the published metric does."""

    def measure(model: Coefficients) -> Mapping[str, float]:
        wrong = split.y_test - split.X_test @ model.coef - model.intercept
        mae = float(np.mean(np.abs(wrong)))
        median = float(np.median(np.abs(wrong)))
        return {"error": float(np.sqrt(mae)) if root else mae, "median": median}

    return measure


def _unit(split: Split, fit_intercept: bool) -> float:
    """Return what to divide dollars by so that clean residuals are like the synthetic noise."""
    n = len(split.y_train)
    design = np.column_stack([split.X_train, np.ones((n, int(fit_intercept)))])
    coef = np.linalg.lstsq(design, split.y_train, rcond=None)[0]
    residual = split.y_train - design @ coef
    return float(MEDIAN_TO_SCALE * np.median(np.abs(residual)) / PAPER_NOISE)


def rental(*, quick: bool = False, directory: Path) -> tuple[Experiment, Experiment]:
    """Define both protocols."""
    ratios = (0.1, 0.5, 0.9) if quick else published.RENTAL_RATIOS
    labels = [f"{100 * ratio:.0f} %" for ratio in published.RENTAL_RATIOS]

    def cells(protocol: Protocol, *cities: City) -> tuple[Cell, ...]:
        return tuple(
            Cell(
                city.name,
                ratio,
                f"{100 * ratio:.0f} %",
                Rental(city, protocol, ratio, directory, _thinning(city) if quick else 1),
            )
            for city in cities
            for ratio in ratios
        )

    values: dict[tuple[str, str], dict[str, float]] = {}
    spreads: dict[tuple[str, str], dict[str, float]] = {}
    for city in (NYC, LA):
        values |= published.by_cell(city.name, labels, published.RENTAL[city.name])
        spreads |= published.by_cell(city.name, labels, published.RENTAL_SPREAD[city.name])
    return (
        Experiment(
            name="rental-published",
            title="Rental prices as published: root of the mean absolute error, label leaked",
            axis="corrupted prices",
            cells=cells("as published", NYC, LA),
            methods=run_in("rental"),
            published=values,
            published_spread=spreads,
            log_scale=False,
            digits=3,
            published_digits=3,
        ),
        Experiment(
            name="rental",
            title="Rental prices, honest: mean absolute error in dollars (Barcelona: euros)",
            axis="corrupted prices",
            cells=cells("honest", NYC, LA, BARCELONA),
            also={"median": "median absolute error"},
            methods=run_in("rental"),
            log_scale=False,
            digits=2,
        ),
    )


def _thinning(city: City) -> int:
    return 20 if city is BARCELONA else 4
