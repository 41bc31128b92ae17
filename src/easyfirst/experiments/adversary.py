"""What the paper did not test: corrupted rows that agree with each other, or have bad X."""

from __future__ import annotations

from easyfirst.baselines.methods import run_in
from easyfirst.datasets.adversarial import Kind
from easyfirst.experiments.base import Cell, Experiment
from easyfirst.experiments.problems import Adversarial

RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
QUICK_RATIOS = (0.1, 0.3, 0.6)
TITLES: dict[Kind, str] = {
    "other_model": "another linear model",
    "one_sided": "one-sided",
    "scattered_leverage": "scattered leverage",
    "leverage_cluster": "leverage cluster",
    "heavy_tails": "heavy-tailed clean noise",
    "heteroscedastic": "heteroscedastic clean noise",
}


def adversary(*, quick: bool = False) -> Experiment:
    """Define one series per kind of corruption."""
    n_samples, n_features = (4_000, 30) if quick else (20_000, 100)
    ratios = QUICK_RATIOS if quick else RATIOS
    return Experiment(
        name="adversary",
        title=f"Hostile corruption: recovery error, p = {n_features}, n = {n_samples:,} in all",
        axis="share of corrupted rows",
        cells=tuple(
            Cell(TITLES[kind], r, f"{r:.1f}", Adversarial(kind, r, n_samples, n_features))
            for kind in TITLES
            for r in ratios
        ),
        methods=run_in("recovery"),
        seeds=5,
    )
