"""The corrupted-batches table: some of ten batches are 90 % corrupted, the others 10 %."""

from __future__ import annotations

from easyfirst.baselines.methods import run_in
from easyfirst.experiments import published
from easyfirst.experiments.base import Cell, Experiment
from easyfirst.experiments.fig1 import BAD_BATCHES, QUICK_SIZES, SIZES
from easyfirst.experiments.problems import Recovery


def batches(*, quick: bool = False) -> Experiment:
    """Define the table; its problems are those of fig. 1(a), so records serve both."""
    size = (QUICK_SIZES if quick else SIZES)["a"]
    labels = [f"{bad}/10" for bad in published.BATCHES_BAD]
    cells = [
        Cell(
            BAD_BATCHES,
            bad / 10,
            label,
            Recovery("batches", bad / 10, size.n_samples_per_batch, size.n_features),
        )
        for bad, label in zip(published.BATCHES_BAD, labels, strict=True)
    ]
    return Experiment(
        name="batches",
        title="Corrupted batches: recovery error",
        axis="batches with 90 % corrupted rows",
        cells=tuple(cells),
        methods=(*run_in("recovery")[:3], "dspl-rho1", *run_in("recovery")[3:]),
        published_digits=3,
        published={} if quick else published.by_cell(BAD_BATCHES, labels, published.BATCHES),
    )
