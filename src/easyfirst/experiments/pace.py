"""Fig. 2: recovery error and Lagrangian against the pace at which the paper's method ends."""

from __future__ import annotations

from easyfirst.baselines.self_paced import FIRST_PACE
from easyfirst.experiments import published
from easyfirst.experiments.base import Cell, Experiment
from easyfirst.experiments.fig1 import QUICK_SIZES, SIZES, UNIFORM
from easyfirst.experiments.problems import Recovery

CORRUPTION = 0.9
GROWTH = 1.1
STEPS = 77  # from 0.012 to 18.5
EVERY = 4


def pace(*, quick: bool = False) -> Experiment:
    """Define the curve; methods that find their own pace are its level lines."""
    size = (QUICK_SIZES if quick else SIZES)["a"]
    spec = Recovery("uniform", CORRUPTION, size.n_samples_per_batch, size.n_features)
    steps = range(0, STEPS + 1, 3 * EVERY if quick else EVERY)
    paces = [float(f"{FIRST_PACE * GROWTH**step:.4g}") for step in steps]
    return Experiment(
        name="pace",
        title="Figure 2: the pace at which the paper's method ends, at 90 % corruption",
        axis="final pace",
        cells=tuple(Cell(UNIFORM, value, f"{value:.3g}", spec, value) for value in paces),
        methods=("oracle", "easyfirst", "dspl-until"),
        seeds=5,
        published_curves={}
        if quick
        else {"error": published.PACE_ERROR, "lagrangian": published.PACE_LAGRANGIAN},
        notes=(
            "Every point is a fit whose pace starts at 0.012, grows by 1.1 and ends at the value "
            "on the axis. The noise variance is 0.1, so the paper's end, 1, is (3.2 sigma)².",
        ),
    )
