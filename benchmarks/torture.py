"""Torture: kill workers, kill the fit itself, let calls to the disk fail, damage files.

    python benchmarks/torture.py                      # everything, on all installed engines
    python benchmarks/torture.py --only workers --engine dask --fits 10 --interval 3
    python benchmarks/torture.py --only driver --only disk --only files

- Workers: a random worker process is killed every few seconds during whole fits. Every fit must
  finish, with the bits of an undisturbed fit in one process, within five times the undisturbed
  time. Kills hit processes that are at work.
- Driver: the fitting process is killed at random calls of a function, goes on from its checkpoint,
  is killed again and goes on: the same bits, nothing left behind. On a cluster, the cluster dies
  with its driver, and the fit goes on with a fresh one.
- Disk: each single open, read, write, fsync and rename fails: the right result, or one documented
  error and no output, after which the fit goes on to the same bits.
- Files: mutated copies are refused or read unchanged; for CSV, which has no checksums, refused or
  read.

One table is printed; the exit code is 1 if anything else happened.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from _arenas import ARENAS

import faulty_disk
import killed_fits
from clusters import (
    N_BATCHES,
    digest,
    kill_repeatedly,
    long_problem,
    long_settings,
    sixteen_batches,
)

KINDS = ("workers", "driver", "disk", "files")
ENGINES = (*killed_fits.ENGINES, *sorted(ARENAS))
TESTS = Path(faulty_disk.__file__).parent
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


@dataclass(frozen=True)
class Outcome:
    """What came of one kind of torture: trials, and how many ended in which way."""

    what: str
    where: str
    trials: int
    right: int
    refused: int
    wrong: int
    remark: str = ""

    def line(self) -> str:
        """Return a row of the table."""
        verdict = "FAILED" if self.wrong or not self.trials else "passed"
        return (
            f"{self.what:18} {self.where:18} {self.trials:6d} {self.right:6d} {self.refused:8d} "
            f"{self.wrong:6d}  {verdict}  {self.remark}"
        )


COLUMNS = f"{'torture':18} {'where':18} {'trials':>6} {'right':>6} {'refused':>8} {'wrong':>6}"


def of_workers(name: str, given: argparse.Namespace) -> Outcome:
    """Kill workers during whole fits on an engine."""
    score = torture(name, given.fits, given.interval, given.rows, given.features)
    print(HEADER, score.line(), sep="\n", file=sys.stderr)
    wrong = len(score.seconds) - score.same + (not score.passed)
    remark = f"{max(score.seconds) / score.undisturbed:.1f} times the quiet seconds at most"
    return Outcome("workers killed", name, sum(score.kills), sum(score.kills), 0, wrong, remark)


def of_driver(engine: str, given: argparse.Namespace) -> Outcome:
    """Kill the fitting process itself, and go on from its checkpoint."""
    script, kills = "killed_fits.py", given.kills
    if engine in ARENAS:
        script, kills = "killed_clusters.py", given.cluster_kills
    found = json.loads(_script(script, "{folder}", str(kills), "0", engine))
    wrong = found["other_bits"] + found["left_behind"]
    right = found["kills"] if not wrong else 0
    return Outcome(
        "driver killed", engine, found["kills"], right, 0, wrong, f"{found['fits']} fits"
    )


def of_disk(scenario: str, given: argparse.Namespace) -> Outcome:
    """Let each call to the disk fail."""
    with tempfile.TemporaryDirectory() as folder:
        kinds = faulty_disk.run_alone(Path(folder), given.faults, [scenario])[scenario].values()
    tried, right, refused = (
        sum(each[name] for each in kinds) for name in ("failed", "right", "refused")
    )
    wrong = [line for each in kinds for line in each["wrong"]]
    remark = wrong[0] if wrong else ""
    return Outcome("disk faults", scenario, tried, right, refused, len(wrong), remark)


def of_files(kind: str, how: str, given: argparse.Namespace) -> Outcome:
    """Read mutated copies of a file; in CSV, which has no checksums, a digit may be another."""
    count = str(given.files)
    found = json.loads(_script("mutated_files.py", kind, "{folder}", count, "0", how))
    silent, other = len(found["silent"]), len(found["other"])
    wrong = other + (silent if kind == "parquet" else 0)
    remark = "" if kind == "parquet" else f"{silent} read as other values"
    where = f"{kind}, {how}"
    right, refused = found["unchanged"], found["refused"]
    return Outcome("damaged files", where, given.files, right, refused, wrong, remark)


def _script(name: str, *arguments: str) -> str:
    """Run a script of the tests with a folder of its own, and return its last line."""
    path = [str(TESTS), *sys.path]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(TESTS / name)]
            + [each.format(folder=folder) for each in arguments],
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
        )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout.splitlines()[-1]


def outcomes(given: argparse.Namespace) -> Iterator[Outcome]:
    """Yield what comes of each kind of torture that is asked for."""
    wanted, engines = given.only or KINDS, given.engine or ENGINES
    if "workers" in wanted:
        for name in sorted(ARENAS.keys() & engines):
            yield of_workers(name, given)
    if "driver" in wanted:
        for engine in engines:
            yield of_driver(engine, given)
    if "disk" in wanted:
        for scenario in faulty_disk.SCENARIOS:
            yield of_disk(scenario, given)
    if "files" in wanted:
        for kind in ("parquet", "csv"):
            for how in ("numbers", "pieces"):
                yield of_files(kind, how, given)


def main() -> int:
    """Torture what is asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=KINDS, help="default: all")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="default: all")
    parser.add_argument("--fits", type=int, default=10, help="whole fits per cluster engine")
    parser.add_argument("--interval", type=float, default=3.0, help="seconds between kills")
    parser.add_argument("--rows", type=int, default=N_BATCHES * 20_000)
    parser.add_argument("--features", type=int, default=60)
    parser.add_argument("--kills", type=int, default=170, help="of the driver, per embedded engine")
    parser.add_argument("--cluster-kills", type=int, default=20, help="the same on each cluster")
    parser.add_argument("--faults", type=int, help="calls per kind that fail; default: every one")
    parser.add_argument("--files", type=int, default=2000, help="damaged copies per kind")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found = []
    for outcome in outcomes(given):
        print(outcome.line(), file=sys.stderr)
        found.append(outcome)
    print(COLUMNS, "-" * len(COLUMNS), *(each.line() for each in found), sep="\n")
    return int(any(each.wrong or not each.trials for each in found))


if __name__ == "__main__":
    sys.exit(main())
