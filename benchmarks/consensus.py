"""What a consensus iteration costs, and how many it takes.

    python benchmarks/consensus.py

An ADMM iteration works on stacked q x q matrices and touches no row, so its cost must not depend on
the number of rows; the number of iterations must not depend on the units of the columns.
"""

from __future__ import annotations

import numpy as np

import easyfirst.consensus.solvers.admm as admm
from easyfirst import SelfPacedRegressor
from easyfirst.datasets import make_corrupted_regression


def microseconds_per_iteration(rows_per_batch: int, repeats: int = 5) -> float:
    """Return the median time of an ADMM iteration of a paper-configured fit."""
    X, y, batches, _, _ = make_corrupted_regression(rows_per_batch, 100, 10, random_state=0)
    times = []
    for _ in range(repeats):
        model = SelfPacedRegressor.paper(admm_on="driver").fit(X, y, batches=batches)
        times += [record.seconds for record in model.history_.iterations]
    return 1e6 * float(np.median(times))


def iterations(
    share: float = 1.0, unit: float = 1.0, over_relaxation: float = 1.6, mixed: bool = False
) -> int:
    """Return the iterations of a whole fit for one choice of rho, relaxation and columns."""
    X, y, batches, _, _ = make_corrupted_regression(
        2000, 100, 10, mode="batches", n_bad_batches=4, random_state=0
    )
    X[:, ::2] *= unit
    if mixed:
        X = X @ np.random.default_rng(0).standard_normal((100, 100))
    admm.AUTO_SHARE = share
    model = SelfPacedRegressor.paper(
        penalty=None, over_relaxation=over_relaxation, admm_on="driver"
    )
    return model.fit(X, y, batches=batches).n_iter_


def main() -> None:
    """Print the tables."""
    print("rows per batch (p = 100, m = 10) | microseconds per iteration | ratio to the first")
    first = None
    for rows in (500, 2000, 8000, 32000):
        cost = microseconds_per_iteration(rows)
        first = first or cost
        print(f"{rows:>32,} | {cost:26.0f} | {cost / first:18.2f}")
    print("\nrho, as a share of the batches' mean curvature | iterations of a whole fit")
    for share in (0.1, 0.3, 1.0, 2.0, 5.0):
        print(f"{share:>46} | {iterations(share):25d}")
    print("\nover-relaxation | iterations of a whole fit")
    for step in (1.0, 1.3, 1.6, 1.8):
        print(f"{step:>15} | {iterations(over_relaxation=step):25d}")
    print("\ncolumns | iterations of a whole fit")
    print(f"{'as they are':>32} | {iterations():25d}")
    print(f"{'every second in units of 1e-6':>32} | {iterations(unit=1e-6):25d}")
    print(f"{'every second in units of 1e6':>32} | {iterations(unit=1e6):25d}")
    print(f"{'mixed (condition number 250,000)':>32} | {iterations(mixed=True):25d}")


if __name__ == "__main__":
    main()
