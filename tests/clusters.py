"""What the tests of all cluster engines share: one problem, one digest, one way to kill."""

import contextlib
import hashlib
import importlib
import logging
import multiprocessing
import os
import signal
import threading
import time
from dataclasses import dataclass, field

import numpy as np
import pytest

from easyfirst import SelfPacedRegressor
from easyfirst.schedules import Geometric
from problems import corrupted_rows

N_BATCHES = 16


def require(module):
    """Return an optional module: skip where it is missing, but fail where CI promised it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"{module} is not installed ({error})", allow_module_level=True)


def digest(model):
    """A short name for the bits of the coefficients and, where there are some, the weights."""
    parts = [model.coef_, np.array([model.intercept_]), getattr(model, "weights_", np.zeros(0))]
    code = hashlib.blake2b(digest_size=8)
    for part in parts:
        code.update(np.ascontiguousarray(part, dtype=np.float64).tobytes())
    return code.hexdigest()


def sixteen_batches(engine, rows=None, **settings):
    """Fit the common problem, cut into 16 batches, on an engine."""
    rows = rows or corrupted_rows(n=N_BATCHES * 1500, p=20)
    return SelfPacedRegressor(n_batches=N_BATCHES, engine=engine, **settings).fit(rows.X, rows.y)


def long_problem(n=N_BATCHES * 10_000, p=40):
    """Rows whose fit with `long_settings` does seconds of real work, in many rounds."""
    return corrupted_rows(n=n, p=p)


def long_settings():
    """Settings that keep a fit busy: a pace that grows in small steps."""
    return {
        "pace": Geometric(start=0.01, factor=1.06, ceiling=4.0),
        "solver": "gram",
        "max_rounds": 150,
        "tol": 1e-12,
    }


@dataclass
class Killer:
    """Kill a random process every few seconds while the context lasts.

    As a callback of the fit it also kills in every tenth round, so that a fast machine cannot
    escape: the kill comes a moment after the round has begun, in the middle of its work.
    """

    pids: object  # returns the processes that may be killed now
    interval: float
    rng: np.random.Generator
    kills: int = 0
    _due: threading.Event = field(default_factory=threading.Event)
    _done: threading.Event = field(default_factory=threading.Event)

    def __enter__(self):
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._done.set()
        self._due.set()
        self._thread.join()

    def on_round_end(self, record):
        if record.round % 10 == 9:
            self._due.set()

    def _run(self):
        while not self._done.is_set():
            if self._due.wait(self.interval * self.rng.uniform(0.6, 1.4)):
                self._due.clear()
                self._done.wait(self.rng.uniform(0.0, 0.1))
            while not (candidates := sorted(self.pids())) and not self._done.wait(0.05):
                pass
            if candidates and not self._done.is_set():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(self.rng.choice(candidates)), signal.SIGKILL)
                    self.kills += 1


def kill_repeatedly(pids_fn, interval, rng):
    """Return a context that kills one of `pids_fn()` every `interval` seconds or so."""
    return Killer(pids_fn, interval, rng)


@contextlib.contextmanager
def local_dask(n_workers, threads_per_worker=1):
    """A real Dask cluster of worker processes, on loopback, without dashboards."""
    import dask
    import distributed

    # Forked from a process that has everything loaded, a killed worker is back in a moment; on a
    # busy machine it may take longer, and a local cluster gives it up after 15 seconds.
    settings = {
        "distributed.worker.multiprocessing-method": "forkserver",
        "distributed.deploy.lost-worker-timeout": "1 hour",
    }
    with dask.config.set(settings):
        distributed.utils.get_mp_context()  # which would replace the list that follows
    multiprocessing.set_forkserver_preload(["distributed.nanny", "easyfirst.estimators"])
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=threads_per_worker,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def dask_worker_pids(client):
    """The worker processes, as soon as all of them are up and known to the scheduler.

    Dask gives a worker up that dies while it starts. And on a busy machine, where a start takes
    longer than the time between two kills, a cluster that never gets whole again could only wait.
    """
    known = client.cluster.scheduler.workers
    nannies = client.cluster.workers.values()
    up = [
        nanny.pid
        for nanny in nannies
        if nanny.worker_address in known
        and nanny.status.name == "running"
        and nanny.process is not None
        and nanny.process.status.name == "running"
    ]
    return up if len(up) == len(nannies) else []


@contextlib.contextmanager
def at_most(seconds):
    """Fail if the block takes longer than this."""
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    assert took <= seconds, f"took {took:.1f} s, which is more than {seconds:.1f} s"
