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
from sklearn.exceptions import ConvergenceWarning

from easyfirst import SelfPacedRegressor
from easyfirst.losses import Logistic
from easyfirst.schedules import Geometric, Quantile
from problems import corrupted_rows

N_BATCHES = 16


# Seconds until what should happen soon counts as hanging, on the busiest machine.
PATIENCE = 600.0


def require(module):
    """Return an optional module, or skip the test module that asks for it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        pytest.skip(f"{module} is not installed ({error})", allow_module_level=True)


def wait_until(happened, *, explain=str):
    """Wait for what must happen sooner or later, however busy the machine is."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, explain()
        time.sleep(0.05)


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


def default_fit(engine, rows=None, **settings):
    """Fit with every parameter at its default, so also the pace and the number of batches."""
    rows = rows or corrupted_rows(n=80_000, p=40)  # some batches, a few rounds on all rows
    return SelfPacedRegressor(engine=engine, **settings).fit(rows.X, rows.y)


def consensus_fit(engine, loss=None, p=6, **settings):
    """Fit labels by the paper's consensus, iterated where the rows are, for a few iterations."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, p))
    y = (X[:, 0] + rng.normal(size=800) > 0).astype(float)
    model = SelfPacedRegressor.paper(
        loss=loss or Logistic(),
        pace=Quantile(0.6, 0.8, 0.2),
        admm_on="workers",
        n_batches=4,
        max_rounds=2,
        max_iter=5,
        engine=engine,
        **settings,
    )
    with pytest.warns(ConvergenceWarning):  # it takes a few more
        return model.fit(X, y)


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

    As a callback of the fit it also kills after every few rounds. With `alive` it does so at once,
    so that the number of kills follows from the rounds and not from the speed of the machine;
    without, soon after the next round has begun. Between two kills by the clock it waits ever
    longer until a round ends: on a busy machine no process would live to finish its work.
    """

    pids: object  # returns the processes that may be killed in the middle of their work
    interval: float
    rng: np.random.Generator
    alive: object = None  # returns the processes that may be killed between two rounds
    waits: bool = True  # for a process to kill, where new ones start by themselves
    every: int = 10  # rounds
    kills: int = 0
    patience: float = 1.0  # how many intervals to wait now
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
        self.patience = 1.0
        if record.round % self.every != self.every - 1:
            return
        if self.alive is None:
            self._due.set()
        else:
            wait_until(lambda: self._kill_one_of(self.alive()) or not self.waits)

    def _kill_one_of(self, candidates):
        """Kill one of the processes, and return whether there was one."""
        if not candidates:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(self.rng.choice(sorted(candidates))), signal.SIGKILL)
            self.kills += 1
            return True
        return False

    def _run(self):
        while not self._done.is_set():
            if self._due.wait(self.patience * self.interval * self.rng.uniform(0.6, 1.4)):
                self._due.clear()
                self._done.wait(self.rng.uniform(0.0, 0.1))
            while not (candidates := self.pids()) and not self._done.wait(0.05):
                pass
            if not self._done.is_set():
                self._kill_one_of(candidates)
                self.patience *= 2.0


def kill_repeatedly(pids_fn, interval, rng, **settings):
    """Return a context that kills one of `pids_fn()` every `interval` seconds or so."""
    return Killer(pids_fn, interval, rng, **settings)


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
