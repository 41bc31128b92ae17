"""Robust regression as scikit-learn has it, for comparisons on a user's table."""

from __future__ import annotations

from sklearn.linear_model import HuberRegressor, RANSACRegressor, TheilSenRegressor

from easyfirst.baselines.method import Method

HUBER_ITERATIONS = 1000

METHODS = (
    Method(
        "huber",
        "Huber",
        lambda told: HuberRegressor(max_iter=HUBER_ITERATIONS),
        takes_batches=False,
        experiments=(),
        compare=("huber", "Huber"),
    ),
    Method(
        "ransac",
        "RANSAC",
        lambda told: RANSACRegressor(random_state=told.seed),
        takes_batches=False,
        experiments=(),
        compare=("ransac", "RANSAC"),
    ),
    Method(
        "theil-sen",
        "Theil-Sen",
        lambda told: TheilSenRegressor(random_state=told.seed),
        takes_batches=False,
        experiments=(),
        compare=("theil-sen", "Theil-Sen"),
    ),
)
