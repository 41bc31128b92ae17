"""Torture: kill a random worker process every few seconds during whole fits, engine by engine.

    python benchmarks/torture.py                      # every engine that is installed
    python benchmarks/torture.py --engine dask --fits 10 --interval 3

Every fit must finish, with the bits of an undisturbed fit in one process, within five times the
undisturbed time. Kills hit processes that are at work. The exit code is 1 if one does not.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from _arenas import ARENAS

from clusters import (
    N_BATCHES,
    digest,
    kill_repeatedly,
    long_problem,
    long_settings,
    sixteen_batches,
)

LIMIT = 5.0  # times the undisturbed seconds
LEAST_KILLS = 5  # per fit


@dataclass
class Score:
    """How an engine did."""

    engine: str
    undisturbed: float
    seconds: list[float] = field(default_factory=list)
    kills: list[int] = field(default_factory=list)
    same: int = 0

    @property
    def passed(self) -> bool:
        """Whether every fit kept the bits, saw enough kills and ended in time."""
        return (
            self.same == len(self.seconds)
            and min(self.kills) >= LEAST_KILLS
            and max(self.seconds) <= LIMIT * self.undisturbed
        )

    def line(self) -> str:
        """Return the engine's row of the table."""
        slowest = max(self.seconds)
        return (
            f"{self.engine:8} {len(self.seconds):5d} {sum(self.kills):6d} {min(self.kills):9d} "
            f"{self.same:5d} of {len(self.seconds):<3d} {self.undisturbed:10.1f} {slowest:9.1f} "
            f"{slowest / self.undisturbed:7.2f}  {'passed' if self.passed else 'FAILED'}"
        )


HEADER = "engine    fits  kills  per fit>=   same bits  quiet (s)  slowest   ratio\n" + "-" * 78


def torture(name: str, fits: int, interval: float, n: int, p: int) -> Score:
    """Run the fits on one engine while its workers die."""
    rows = long_problem(n, p)

    def fit(engine: Any, *callbacks: Any) -> tuple[str, float]:
        began = time.monotonic()
        model = sixteen_batches(engine, rows, callbacks=list(callbacks), **long_settings())
        return digest(model), time.monotonic() - began

    expected, _ = fit("threads")
    with ARENAS[name]() as arena:
        undisturbed, seconds = fit(arena.engine)
        score = Score(name, seconds)
        if undisturbed != expected:
            raise SystemExit(f"{name}: other bits than one process even without kills")
        for seed in range(fits):
            rng = np.random.default_rng(seed)
            with kill_repeatedly(arena.pids, interval, rng) as killer:
                found, seconds = fit(arena.engine, killer)
            score.seconds.append(seconds)
            score.kills.append(killer.kills)
            score.same += found == expected
            print(f"{name} fit {seed + 1}: {killer.kills} kills, {seconds:.1f} s", file=sys.stderr)
    return score


def main() -> int:
    """Torture the engines asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", action="append", choices=sorted(ARENAS), help="default: all")
    parser.add_argument("--fits", type=int, default=10)
    parser.add_argument("--interval", type=float, default=3.0, help="seconds between kills")
    parser.add_argument("--rows", type=int, default=N_BATCHES * 20_000)
    parser.add_argument("--features", type=int, default=60)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    scores = [
        torture(name, given.fits, given.interval, given.rows, given.features)
        for name in given.engine or sorted(ARENAS)
    ]
    print(HEADER)
    for score in scores:
        print(score.line())
    return 0 if all(score.passed for score in scores) else 1


if __name__ == "__main__":
    sys.exit(main())
