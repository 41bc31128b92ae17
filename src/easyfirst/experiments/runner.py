"""Running experiments: every problem is drawn once and all methods fit it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from threadpoolctl import threadpool_limits

from easyfirst.baselines.methods import METHODS
from easyfirst.experiments.base import Experiment, Record, Spec
from easyfirst.experiments.methods import run_method
from easyfirst.experiments.records import Store


@dataclass(frozen=True)
class Task:
    """A problem to draw and the fits of it that are missing: (method, setting) pairs."""

    spec: Spec
    seed: int
    fits: tuple[tuple[str, float | None], ...]

    @property
    def cost(self) -> float:
        """Relative duration."""
        return self.spec.cost * (0.6 + sum(METHODS[name].cost for name, _ in self.fits))


def plan(
    experiments: Iterable[Experiment],
    store: Store,
    *,
    seeds: int | None = None,
    methods: Sequence[str] | None = None,
    again: bool = False,
) -> list[Task]:
    """List what is not recorded yet, each problem once, even if several experiments share it.

    Seeds come first: whenever a run is broken off, most cells have the same number of seeds.
    """
    wanted: dict[tuple[int, str], tuple[Spec, dict[tuple[str, float | None], None]]] = {}
    for experiment in experiments:
        for seed in range(experiment.seeds if seeds is None else seeds):
            for cell in experiment.cells:
                _, fits = wanted.setdefault((seed, cell.spec.key), (cell.spec, {}))
                for name in experiment.methods:
                    if methods is not None and name not in methods:
                        continue
                    setting = cell.setting if METHODS[name].needs_pace else None
                    if again or not store.holds(cell.spec.key, seed, name, setting):
                        fits[name, setting] = None
    tasks = [Task(spec, seed, tuple(fits)) for (seed, _), (spec, fits) in wanted.items() if fits]
    return sorted(tasks, key=lambda task: task.seed)


def run(
    tasks: Sequence[Task],
    directory: Path,
    *,
    jobs: int = 1,
    on_done: Callable[[Task], None] = lambda task: None,
) -> None:
    """Carry out the tasks, several at a time, each with one BLAS thread."""
    for task in _results(tasks, directory, jobs):
        on_done(task)


def _results(tasks: Sequence[Task], directory: Path, jobs: int) -> Iterator[Task]:
    if jobs == 1 or len(tasks) < 2:
        with threadpool_limits(1):
            for task in tasks:
                yield carry_out(task, directory)
        return
    # Fresh processes rather than forks: a fork would inherit the state of threads it lacks.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=context) as pool:
        waiting = iter(tasks)
        running = {pool.submit(_alone, task, directory) for task in islice(waiting, jobs)}
        try:
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
                    for task in islice(waiting, 1):
                        running.add(pool.submit(_alone, task, directory))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _alone(task: Task, directory: Path) -> Task:
    with threadpool_limits(1):
        return carry_out(task, directory)


def carry_out(task: Task, directory: Path) -> Task:
    """Draw the problem, run the missing fits, and record each as soon as it ends."""
    store = Store(directory)
    problem = task.spec.make(task.seed)
    for name, setting in task.fits:
        outcome = run_method(METHODS[name], problem, setting)
        store.write(
            [
                Record(
                    spec=task.spec.key,
                    seed=task.seed,
                    method=name,
                    setting=setting,
                    metric=metric,
                    value=value,
                    seconds=outcome.seconds,
                    status=outcome.status,
                )
                for metric, value in outcome.figures.items()
            ]
        )
    return task
