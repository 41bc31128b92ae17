"""Specifications of synthetic problems, judged by the distance to the true coefficients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from easyfirst.baselines.method import Coefficients
from easyfirst.contracts import Vector
from easyfirst.datasets.adversarial import Kind, make_adversarial_regression
from easyfirst.datasets.synthetic import CorruptedRegression, make_corrupted_regression
from easyfirst.experiments.base import BenchmarkProblem

FLOPS_PER_UNIT = 1e9


@dataclass(frozen=True)
class Recovery:
    """The paper's synthetic data.

    `ratio` is the share of corrupted rows in mode "uniform" and the share of bad batches in
    mode "batches".
    """

    mode: Literal["uniform", "batches"]
    ratio: float
    n_samples_per_batch: int
    n_features: int
    n_batches: int = 10

    @property
    def key(self) -> str:
        """Name with every number that shapes the data."""
        size = f"p{self.n_features}-n{self.n_samples_per_batch}-m{self.n_batches}"
        return f"recovery-{self.mode}-{size}-{100 * self.ratio:02.0f}"

    @property
    def cost(self) -> float:
        """About the time of one pass that forms a Gram matrix."""
        rows = self.n_samples_per_batch * self.n_batches
        return rows * self.n_features * (self.n_features + 100) / FLOPS_PER_UNIT

    def make(self, seed: int) -> BenchmarkProblem:
        """Draw the data set."""
        return recovery_problem(
            make_corrupted_regression(
                self.n_samples_per_batch,
                self.n_features,
                self.n_batches,
                mode=self.mode,
                corruption_ratio=self.ratio,
                n_bad_batches=round(self.ratio * self.n_batches),
                random_state=seed,
            )
        )


@dataclass(frozen=True)
class Adversarial:
    """Corruption of a hostile kind."""

    kind: Kind
    ratio: float
    n_samples: int
    n_features: int
    n_batches: int = 10

    @property
    def key(self) -> str:
        """Name with every number that shapes the data."""
        size = f"p{self.n_features}-n{self.n_samples}-m{self.n_batches}"
        return f"adversary-{self.kind}-{size}-{100 * self.ratio:02.0f}"

    @property
    def cost(self) -> float:
        """About the time of one pass that forms a Gram matrix."""
        return self.n_samples * self.n_features * (self.n_features + 100) / FLOPS_PER_UNIT

    def make(self, seed: int) -> BenchmarkProblem:
        """Draw the data set."""
        return recovery_problem(
            make_adversarial_regression(
                self.kind,
                self.n_samples,
                self.n_features,
                corruption_ratio=self.ratio,
                n_batches=self.n_batches,
                random_state=seed,
            )
        )


def recovery_problem(data: CorruptedRegression) -> BenchmarkProblem:
    """Judge a fit of these rows by the Euclidean distance to their true coefficients."""
    truth: Vector = data.coef

    def measure(model: Coefficients) -> Mapping[str, float]:
        return {"error": float(np.linalg.norm(model.coef - truth))}

    return BenchmarkProblem(
        X=data.X, y=data.y, batches=data.batches, clean=data.clean, measure=measure
    )
