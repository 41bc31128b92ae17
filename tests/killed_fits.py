"""Kill fits with a checkpoint at random moments and go on; run as a process, which forks.

    python killed_fits.py FOLDER KILLS SEED ENGINE

ENGINE is "inline", "threads" or "out-of-core", whose rows come from Parquet. Prints one JSON
object: how many kills hit, and how many fits ended with other bits or left something behind.
"""

import json
import os
import shutil
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import easyfirst
from easyfirst.engines import OutOfCore
from problems import corrupted_rows

ENGINES = ("inline", "threads", "out-of-core")


class Fit:
    """A fit of the same rows again and again, killed at a call of a function or not."""

    def __init__(self, folder, engine):
        self.checkpoint = folder / "checkpoint"
        rows = corrupted_rows(n=1600, p=2)
        self.given = (rows.X, rows.y)
        self.settings = {"n_batches": 4, "engine": engine, "n_jobs": 2}
        if engine == "out-of-core":
            path = folder / "rows.parquet"
            table = pa.table({"a": rows.X[:, 0], "b": rows.X[:, 1], "y": rows.y})
            pq.write_table(table, path, row_group_size=400)
            self.given = (easyfirst.read_parquet(path, "y", rows_per_batch=400),)
            self.settings = {"engine": OutOfCore("4GB", folder, n_jobs=2)}

    def __call__(self, at=None):
        calls = 0

        def count(frame, event, argument):
            nonlocal calls
            calls += 1
            if calls == at:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(count)
        threading.setprofile(count)
        try:
            model = easyfirst.SelfPacedRegressor(**self.settings).fit(
                *self.given, checkpoint=self.checkpoint, resume=True
            )
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        return calls, (model.coef_.tobytes() + repr(model.noise_scale_).encode()).hex()


def main(folder, kills, seed, engine):
    rng, fit = np.random.default_rng(seed), Fit(folder, engine)
    fit()  # what is loaded once, is loaded now
    shutil.rmtree(fit.checkpoint)
    total, expected = fit()
    complete = len(os.listdir(fit.checkpoint))
    found = {"kills": 0, "fits": 0, "other_bits": 0, "left_behind": 0}
    while found["kills"] < kills:
        shutil.rmtree(fit.checkpoint)
        for _ in range(2):  # the second kill hits a resumed fit
            moment = 1 + int(rng.random() * total)
            child = os.fork()
            if child == 0:
                fit(moment)
                os._exit(0)
            found["kills"] += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        found["fits"] += 1
        found["other_bits"] += fit()[1] != expected
        found["left_behind"] += len(os.listdir(fit.checkpoint)) != complete
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
