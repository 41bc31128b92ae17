"""What a fit costs on a cluster: a model fitted to measured runs, checked on others, extrapolated.

    python benchmarks/scaling.py [--quick] [--out docs/scaling.md]

Every call of the workers is timed on a local Dask cluster whose partitions make their own rows, so
nothing is read or sent but messages. The model has one price per message, per byte, per batch and
per number of X that a step reads; what the driver does alone is priced per batch and round, and per
number of the sample. Prices come from some runs and are checked on runs of other shapes.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from _arenas import dask_arena
from _made import MadeSource
from scipy.optimize import nnls

from easyfirst import SelfPacedRegressor

FITTED = [  # rows, columns, batches, workers
    (200_000, 20, 8, 1),
    (200_000, 20, 8, 2),
    (800_000, 20, 40, 2),
    (200_000, 100, 8, 1),
    (400_000, 100, 40, 2),
    (400_000, 50, 160, 2),
    (100_000, 20, 400, 2),
    (800_000, 50, 16, 1),
]
CHECKED = [(1_500_000, 50, 40, 2), (400_000, 80, 100, 2), (200_000, 20, 1_000, 2)]
BEGIN, END = "<!-- measured -->", "<!-- end -->"  # of the measured part of a page
QUICK_FITTED = FITTED[:4]
QUICK_CHECKED = [(300_000, 50, 20, 2)]


@dataclass
class Call:
    """One step on all batches: its name, how long it took, what it sent and received."""

    step: str
    seconds: float
    busy: float  # of the busiest worker, as far as seconds per batch tell
    messages: int
    sent: int
    received: int


@dataclass
class Meter:
    """An engine that writes down every call."""

    engine: object
    calls: list[Call] = field(default_factory=list)

    @contextmanager
    def open(self, partitions):
        """Open the engine below."""
        with self.engine.open(partitions) as workers:
            self.workers = workers
            yield self

    @property
    def ledger(self):
        """The ledger of the workers below."""
        return self.workers.ledger

    def map(self, step, per_batch, broadcast, only=None):
        """Pass a step on and time it."""
        ledger = self.ledger
        before = (ledger.messages, ledger.bytes_sent, ledger.bytes_received)
        then, began = sum(ledger.seconds), time.perf_counter()
        replies = self.workers.map(step, per_batch, broadcast, only)
        seconds = time.perf_counter() - began
        after = (ledger.messages, ledger.bytes_sent, ledger.bytes_received)
        spent = [a - b for a, b in zip(after, before, strict=True)]
        self.calls.append(Call(step.__name__, seconds, sum(ledger.seconds) - then, *spent))
        return replies


@dataclass
class Run:
    """One fit: its shape and what was measured."""

    rows: int
    columns: int
    batches: int
    workers: int
    seconds: float
    rounds: int
    calls: list[Call]

    @property
    def driver(self) -> float:
        """Seconds in which no worker was asked anything."""
        return self.seconds - sum(call.seconds for call in self.calls)


def measure(shape, engine) -> Run:
    """Fit once to load the rows and once to time; the fastest of four timings counts."""
    rows, columns, batches, workers = shape
    source = MadeSource(rows, columns, batches)
    best = None
    for _ in range(4):
        meter = Meter(engine)
        model = SelfPacedRegressor(engine=meter)
        began = time.perf_counter()
        model.fit(source)
        seconds = time.perf_counter() - began
        # The first call loads the rows, which is the price of the storage, not ours.
        seconds -= meter.calls[0].seconds
        found = Run(
            rows,
            columns,
            batches,
            workers,
            seconds,
            sum(record.rows == "all" for record in model.history_.rounds),
            meter.calls[1:],
        )
        best = found if best is None or found.seconds < best.seconds else best
    return best


def run_all(shapes) -> list[Run]:
    """Measure every shape, on clusters of as many workers as it names."""
    found = {}
    for workers in sorted({shape[3] for shape in shapes}):
        with dask_arena(workers) as arena:
            measure((20_000, 10, 2 * workers, workers), arena.engine)  # first use loads libraries
            for shape in shapes:
                if shape[3] == workers:
                    found[shape] = measure(shape, arena.engine)
    return [found[shape] for shape in shapes]


def call_terms(run: Run, call: Call, steps: list[str]) -> list[float]:
    """Return what a call is priced by: messages, bytes; and batches, rows, numbers per step."""
    this = np.array([call.step == step for step in steps], dtype=float)
    amounts = run.batches, run.rows, run.rows * run.columns
    of_steps = [value for amount in amounts for value in amount / run.workers * this]
    return [call.messages, call.sent + call.received, *of_steps]


def driver_terms(run: Run) -> list[float]:
    """Return what the driver's own time is priced by: batches per round, sample, once."""
    sample = sum(call.received for call in run.calls if call.step == "sample") / 8.0
    return [run.batches * run.rounds, sample * run.columns, 1.0]


@dataclass(frozen=True)
class Prices:
    """The fitted model, in seconds per unit."""

    steps: list[str]
    calls: np.ndarray
    driver: np.ndarray

    @classmethod
    def fit(cls, runs: list[Run]) -> Prices:
        """Fit non-negative prices, between absolute and relative errors."""
        steps = sorted({call.step for run in runs for call in run.calls})
        rows = [(call_terms(run, call, steps), call.seconds) for run in runs for call in run.calls]
        own = [(driver_terms(run), run.driver) for run in runs]
        return cls(steps, _nonnegative(rows), _nonnegative(own))

    def predict(self, run: Run) -> float:
        """Return the seconds of a fit with these calls."""
        asked = sum(float(self.calls @ call_terms(run, call, self.steps)) for call in run.calls)
        return asked + float(self.driver @ driver_terms(run))


def _nonnegative(pairs) -> np.ndarray:
    terms = np.array([row for row, _ in pairs])
    seconds = np.array([value for _, value in pairs])
    weight = 1.0 / np.sqrt(np.maximum(seconds, 0.02 * seconds.max()))
    size = np.maximum(np.abs(terms).max(axis=0), 1e-12)
    return nnls(terms / size * weight[:, None], seconds * weight)[0] / size


def grown(pattern: Run, rows: int, columns: int, batches: int, workers: int) -> Run:
    """Return a far larger fit that makes the calls of `pattern`, with the bytes these would take.

    Replies hold a histogram and a vector per batch; the sample has as many rows as ever; orders
    hold the coefficients once per worker and thresholds for every batch.
    """
    more_columns, more_batches = columns / pattern.columns, batches / pattern.batches
    calls = []
    for call in pattern.calls:
        vectors = 8.0 * (columns - pattern.columns) * pattern.batches
        received = (call.received + vectors) * more_batches
        if call.step == "sample":
            received = call.received * more_columns
        sent = call.sent * max(more_columns * workers / pattern.workers, more_batches)
        calls.append(Call(call.step, 0.0, 0.0, 2 * workers, int(sent), int(received)))
    return Run(rows, columns, batches, workers, 0.0, pattern.rounds, calls)


def parts(prices: Prices, run: Run) -> dict[str, str]:
    """Return where the model sees the time of a round, and of the whole fit."""
    sweep = next(call for call in run.calls if call.step == "sweep")
    terms = np.array(call_terms(run, sweep, prices.steps)) * prices.calls
    return {
        "workers": f"{run.workers:,}",
        "batches": f"{run.batches:,}",
        "MB through the driver per round": f"{(sweep.sent + sweep.received) / 1e6:,.0f}",
        "messages (s)": f"{terms[0]:.1f}",
        "bytes (s)": f"{terms[1]:.1f}",
        "calibration (s)": f"{prices.driver[0] * run.batches:.1f}",
        "pass over the rows (s)": f"{terms[2:].sum():.1f}",
        "whole fit (s)": f"{prices.predict(run):,.0f}",
    }


def report(fitted: list[Run], checked: list[Run], prices: Prices) -> str:
    """Return the measured part of the page."""
    lines = [
        "| run | rows | columns | batches | workers | rounds | messages | MB | seconds | model | "
        "model / measured |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for kind, runs in (("fitted", fitted), ("checked", checked)):
        for run in runs:
            said = prices.predict(run)
            amount = sum(call.sent + call.received for call in run.calls) / 1e6
            lines.append(
                f"| {kind} | {run.rows:,} | {run.columns} | {run.batches:,} | {run.workers} | "
                f"{run.rounds} | {sum(call.messages for call in run.calls)} | {amount:.1f} | "
                f"{run.seconds:.2f} | {said:.2f} | {said / run.seconds:.2f} |"
            )
    message, byte, *by_step = prices.calls
    per_batch, per_sample, once = prices.driver
    lines += [
        "",
        f"Prices: {1e3 * message:.2f} ms per message, {1e9 * byte:.2f} s per GB through the "
        f"driver; of the driver alone, {1e6 * per_batch:.0f} us per batch and round, "
        f"{1e9 * per_sample:.2f} ns per number of the sample and column, {once:.2f} s once. On a "
        f"worker:",
        "",
        "| step | us per batch | ns per row | ns per number of X |",
        "|---|---|---|---|",
    ]
    for step, batch, row, number in zip(prices.steps, *np.reshape(by_step, (3, -1)), strict=True):
        lines.append(f"| {step} | {1e6 * batch:.0f} | {1e9 * row:.1f} | {1e9 * number:.3f} |")
    lines += ["", "10 billion rows x 200 columns, in batches of 1 and of 10 million rows:", ""]
    cells = [
        parts(prices, grown(checked[0], 10**10, 200, 10**10 // size, workers))
        for size in (10**6, 10**7)
        for workers in (100, 1_000)
    ]
    lines.append("| " + " | ".join(cells[0]) + " |")
    lines.append("|" + "---|" * len(cells[0]))
    lines += ["| " + " | ".join(cell.values()) + " |" for cell in cells]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, fit, check, extrapolate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few small runs")
    parser.add_argument("--out", type=Path, help="a page whose measured part is to be replaced")
    parser.add_argument("--calls", type=Path, help="also write every call here, as JSON")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    shapes = (QUICK_FITTED, QUICK_CHECKED) if options.quick else (FITTED, CHECKED)
    runs = run_all([*shapes[0], *shapes[1]])
    fitted, checked = runs[: len(shapes[0])], runs[len(shapes[0]) :]
    if options.calls:
        calls = [vars(call) | {"run": i} for i, run in enumerate(runs) for call in run.calls]
        options.calls.write_text(json.dumps(calls))
    text = report(fitted, checked, Prices.fit(fitted))
    print(text)
    if options.out:
        before, rest = options.out.read_text().split(BEGIN)
        after = rest.split(END)[1]
        options.out.write_text(f"{before}{BEGIN}\n{text}{END}{after}")


if __name__ == "__main__":
    main()
