"""Kill the driver of fits on a cluster at random moments, and go on with a fresh cluster.

    python killed_clusters.py FOLDER KILLS SEED ENGINE

ENGINE is "dask", "ray" or "spark". Each fit is a process of its own that starts its cluster, and
what is left of a cluster whose driver was killed is ended before the next one starts. Prints one
JSON object: how many kills hit, and how many fits ended with other bits or left something behind.
"""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import killed_fits
from clusters import PATIENCE

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from _arenas import ARENAS

PR_SET_CHILD_SUBREAPER = 36


class Driver:
    """Fits on fresh clusters, each in a process of its own."""

    def __init__(self, folder, engine):
        self.folder, self.engine = folder, engine
        self.reply = folder / "reply"
        self.fit = killed_fits.Fit(folder, "inline")
        # Orphans of a killed driver become children of this process, which can end them.
        assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        # Loaded here once, and not again in every fit; nothing of it runs before a fork.
        with contextlib.suppress(ImportError):
            __import__(
                {"dask": "distributed", "ray": "ray_cluster", "spark": "pyspark.sql"}[engine]
            )

    def __call__(self, at=None):
        """Return calls and bits of a fit, or None if it was killed at a call of a function."""
        self.reply.unlink(missing_ok=True)
        place = tempfile.mkdtemp(prefix="k", dir=self.folder)
        child = os.fork()
        if child == 0:
            self._child(at, place)
        _, ended = os.waitpid(child, 0)
        end_orphans()
        shutil.rmtree(place, ignore_errors=True)
        if os.WIFSIGNALED(ended) and os.WTERMSIG(ended) == signal.SIGKILL:
            return None
        assert ended == 0, f"a fit on {self.engine} failed"
        return json.loads(self.reply.read_text())

    def _child(self, at, place):
        code = 1
        try:
            tempfile.tempdir = place
            with ARENAS[self.engine]() as arena:
                self.fit.settings = {"n_batches": 4, "engine": arena.engine}
                found = self.fit(at)
            self.reply.write_text(json.dumps(found))
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)


def end_orphans():
    """Kill what a driver has left running, and wait for it."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        left = children()
        if not left:
            return
        assert time.monotonic() < deadline, left
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def children():
    """Return the processes whose parent this one is."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = entry.read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                found.append(int(entry.parent.name))
    return found


def main(folder, kills, seed, engine):
    expected = killed_fits.Fit(folder, "inline")()[1]
    rng, driver = np.random.default_rng(seed), Driver(folder, engine)
    shutil.rmtree(driver.fit.checkpoint)
    total, bits = driver()
    complete = len(os.listdir(driver.fit.checkpoint))
    found = {"kills": 0, "fits": 1, "other_bits": int(bits != expected), "left_behind": 0}
    while found["kills"] < kills:
        shutil.rmtree(driver.fit.checkpoint)
        for _ in range(2):  # the second kill hits a resumed fit
            found["kills"] += driver(1 + int(rng.random() * total)) is None
        found["fits"] += 1
        found["other_bits"] += driver()[1] != expected
        found["left_behind"] += len(os.listdir(driver.fit.checkpoint)) != complete
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
