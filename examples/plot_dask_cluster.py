"""
On a Dask cluster
=================

The rows stay where they are: every worker reads its own batches, and only small summaries
travel. The model is that of a fit on one machine. This script starts two workers of its own;
`Client("scheduler:8786")` would use a cluster that is already there. Needs the 'dask' extra.
"""

import matplotlib.pyplot as plt
import numpy as np
from dask import array
from dask.distributed import Client, LocalCluster

from easyfirst import SelfPacedRegressor
from easyfirst.datasets import make_corrupted_regression

# %%
# Eighty thousand rows, of which 40 % are wrong; in eight chunks, which become the batches.
X, y, batches, clean, coef = make_corrupted_regression(
    10_000, 20, 8, corruption_ratio=0.4, random_state=6
)


def fit_on_a_cluster():
    """Fit chunks on two worker processes that can be reached from this machine only."""
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster) as client,
    ):
        chunks = array.from_array(X, chunks=(10_000, -1)), array.from_array(y, chunks=10_000)
        return SelfPacedRegressor(engine=client).fit(*chunks)


# %%
# Worker processes import this script, so the work is done only where it is the main program.
if __name__ == "__main__":
    model = fit_on_a_cluster()
    alone = SelfPacedRegressor(engine="inline").fit(X, y, batches=batches)
    print(model.status_)
    print(f"coefficient error: {np.linalg.norm(model.coef_ - coef):.4f}")
    print(f"difference to a fit here: at most {np.max(np.abs(model.coef_ - alone.coef_)):.0e}")

    rounds = model.history_.to_frame()
    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    ax.bar(rounds["round"], rounds["bytes_received"] / 1024, label="from the workers")
    ax.bar(rounds["round"], -rounds["bytes_sent"] / 1024, label="to the workers")
    ax.axhline(0, color="black", lw=0.5)
    ax.set(xlabel="round", ylabel="traffic / KiB", title=f"{X.nbytes / 2**20:.0f} MiB stay put")
    ax.legend()
    plt.show()
