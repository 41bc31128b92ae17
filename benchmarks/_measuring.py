"""Clocks: methods taking turns, memory in a process of its own, and phases within one fit."""

from __future__ import annotations

import gc
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
from _peers import DENSE, make

from easyfirst.consensus import ending, judged
from easyfirst.consensus import model as plan
from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.rounds import calibrated as calibrated_rounds
from easyfirst.consensus.rounds import of_noise as noise_rounds
from easyfirst.consensus.rounds import self_paced
from easyfirst.estimators import validation
from easyfirst.workers import ResidentWorkers

PAUSE = 0.25  # seconds before each run


@dataclass(frozen=True)
class Timing:
    """Seconds of every run of one method, and the error of the last."""

    seconds: tuple[float, ...]
    error: float = float("nan")

    @property
    def median(self) -> float:
        """The middle run."""
        return float(np.median(self.seconds))

    @property
    def spread(self) -> float:
        """Half the distance of the slowest from the fastest run."""
        return float(np.ptp(self.seconds)) / 2.0


def taking_turns(
    runs: dict[str, Callable[[], np.ndarray]], repeats: int, coef=None, clock=time.perf_counter
):
    """Time every run `repeats` times, one after the other in each turn.

    The pause lets the threads of BLAS fall asleep, which otherwise keep a core busy for a tenth of
    a second after a method that used them, at the expense of the next.
    """
    seconds: dict[str, list[float]] = defaultdict(list)
    error: dict[str, float] = {}
    for _ in range(repeats):
        for name, run in runs.items():
            gc.collect()
            time.sleep(PAUSE)
            began = clock()
            found = run()
            seconds[name].append(clock() - began)
            error[name] = float("nan") if coef is None else float(np.linalg.norm(found - coef))
    return {name: Timing(tuple(times), error[name]) for name, times in seconds.items()}


def import_seconds(modules: Sequence[str], repeats: int) -> list[float]:
    """Return the median processor's time that fresh processes take to import each module.

    The processes take turns. All find compiled code, as installed packages do: a folder of their
    own for it is filled before, as the environment may forbid to write beside the sources.
    """
    taken: list[list[float]] = [[] for _ in modules]
    with tempfile.TemporaryDirectory() as folder:
        settings = os.environ | {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        for turn in range(repeats + 1):
            for module, times in zip(modules, taken, strict=True):
                clock = "import time; t = time.process_time(); "
                code = f"{clock} import {module}; print(time.process_time() - t)"
                done = subprocess.run(
                    [sys.executable, "-c", code],
                    capture_output=True,
                    text=True,
                    check=True,
                    env=settings,
                )
                times += [float(done.stdout)] if turn else []  # the first turn compiles
    return [statistics.median(times) for times in taken]


def extra_memory(method: str, n: int, p: int, kind: str = "float64") -> float:
    """Return how much a process of its own grows during a fit, over the size of X."""
    code = f"import _measuring; print(_measuring.growth_during({method!r}, {n}, {p}, {kind!r}))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
    )
    return float(done.stdout)


def growth_during(method: str, n: int, p: int, kind: str = "float64") -> float:
    """Return how much this process grows at most during a fit, over the size of X."""
    X, y, clean, _ = make(n, p, 0.5)
    X = X.astype(kind, copy=False)
    fit = DENSE[method]
    fit(X[:3000], y[:3000], clean[:3000])  # first use loads libraries
    gc.collect()
    before, peak, done = resident_bytes(), 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.002):
            peak = max(peak, resident_bytes())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    fit(X, y, clean)
    done.set()
    watcher.join()
    return (peak - before) / X.nbytes


def resident_bytes() -> int:
    """Return the memory this process has in use now (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


# The steps of a worker, by what they cost: X'X, or products of X with a vector.
GRAM_STEPS = {"form", "triangle", "turnover"}
KINDS = ("passes", "Gram matrices", "driver")
# The functions of one fit in the order of `consensus/model.py`, and what they are called here.
PHASES = {
    (validation, "training_source"): "checking the input",
    (Fleet, "meet"): "describing the batches",
    (plan, "find_start"): "fits of a sample",
    (plan, "find_second_model"): "looking for a second model",
    (calibrated_rounds, "run"): "rounds on all rows",
    (self_paced, "run"): "rounds on all rows",
    (noise_rounds, "run"): "rounds on all rows, by their noise",
    (ending, "polish"): "polish",
    (judged, "standard_errors"): "standard errors",
    (Fleet, "weights"): "weights of all rows",
}


class PhaseClock:
    """Seconds by (phase, kind of work) while a fit runs."""

    def __init__(self) -> None:
        self.seconds: dict[tuple[str, str], float] = defaultdict(float)
        self.calls: dict[tuple[str, str], int] = defaultdict(int)
        self._phases = ["everything else"]
        self._since = time.perf_counter()

    def _spend(self, kind: str) -> None:
        now = time.perf_counter()
        self.seconds[self._phases[-1], kind] += now - self._since
        self._since = now

    def phase(self, function, name: str):
        """Return the function, its time counted for a phase unless one is already on."""

        def timed(*args, **kwargs):
            if len(self._phases) > 1:
                return function(*args, **kwargs)
            self._spend("driver")
            self._phases.append(name)
            try:
                return function(*args, **kwargs)
            finally:
                self._spend("driver")
                self._phases.pop()

        return timed

    def step(self, mapping):
        """Return `Workers.map`, its time counted by what the step does."""

        def timed(workers, step, *args):
            self._spend("driver")
            replies = mapping(workers, step, *args)
            kind = "Gram matrices" if step.__name__ in GRAM_STEPS else "passes"
            self.calls[self._phases[-1], kind] += 1
            self._spend(kind)
            return replies

        return timed

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch the fits made in this context."""
        with ExitStack() as stack:
            for (owner, name), phase in PHASES.items():
                timed = self.phase(getattr(owner, name), phase)
                stack.enter_context(mock.patch.object(owner, name, timed))
            timed_map = self.step(ResidentWorkers.map)
            stack.enter_context(mock.patch.object(ResidentWorkers, "map", timed_map))
            self._since = time.perf_counter()
            yield
            self._spend("driver")
