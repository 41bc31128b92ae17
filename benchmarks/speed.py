"""Time and memory of a robust fit, in units of plain least squares on the same data.

    python benchmarks/speed.py [--quick] [--only small,wide] [--repeats 3] [--out page.md]

The floor is the normal equations by NumPy: X'X, X'y, solve. Everything is timed side by side in one
run, methods taking turns; compare ratios, not seconds. With `--out`, the page and its pictures are
written; `--quick` takes small sizes, for a look.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
import warnings
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import _figures
import _measuring
import _peers
import numpy as np
import scipy.sparse as sp
import sklearn
from _measuring import Timing
from _peers import DEFAULT, DENSE, FLOOR, HUBER, LEAST_SQUARES, NAIVE, ORACLE, PAPER, make

from easyfirst import SelfPacedRegressor

RATIOS = (0.1, 0.5, 0.9)
LIMITS = {0.1: 1.02, 0.5: 1.05, 0.9: 1.25}  # on the error over the oracle's, at a million rows
HOPELESS = (10_000, 400, 0.9)  # a thousand clean rows for 400 coefficients
SMALL_LIMITS = {(200, 5): 30, (2_000, 10): 40, (10_000, 20): 50}  # milliseconds
WIDE_LIMITS = {1_000: 8, 2_000: 6}  # floors, of 20,000 rows
CLOCK = time.process_time  # other work on the machine does not count
SMALL, MORE = 100_000, 3  # rows below which runs are short, and timed so many times as often


@dataclass(frozen=True)
class Plan:
    """What is measured, and at which sizes."""

    tables: tuple[tuple[int, int], ...] = (
        (1_000_000, 100),
        (50_000, 100),
        (10_000, 100),
        (10_000, 400),
    )
    memory: tuple[int, int] = (1_000_000, 100)
    rows: tuple[int, ...] = (10_000, 30_000, 100_000, 300_000, 1_000_000, 4_000_000)
    batches: tuple[int, ...] = (10, 30, 100, 300, 1_000)
    batch_rows: int = 1_000_000
    columns: tuple[int, ...] = (20, 50, 100, 200, 500, 1_000)
    column_rows: int = 50_000
    sparse: tuple[int, int] = (200_000, 20_000)
    phases: tuple[int, int] = (1_000_000, 100)
    small: tuple[tuple[int, int], ...] = ((50, 3), (200, 5), (2_000, 10), (10_000, 20))
    paced: tuple[tuple[int, int], ...] = (
        (100, 5),
        (500, 5),
        (1_000, 10),
        (2_000, 20),
        (5_000, 50),
        (10_000, 100),
        (20_000, 50),
    )
    wide: tuple[int, ...] = (10, 30, 100, 200, 400, 700, 1_000, 1_400, 2_000, 2_800, 4_000)
    wide_rows: int = 20_000


QUICK = Plan(
    tables=((50_000, 100), (10_000, 100)),
    memory=(200_000, 100),
    rows=(10_000, 30_000, 100_000),
    batches=(10, 100),
    batch_rows=100_000,
    columns=(20, 100),
    column_rows=20_000,
    sparse=(40_000, 6_000),
    phases=(200_000, 100),
    small=((200, 5), (2_000, 10)),
    paced=((100, 5), (2_000, 20)),
    wide=(10, 30, 100, 200),
    wide_rows=4_000,
)


@dataclass
class Page:
    """The lines of the page, the verdicts on what was promised, and where pictures go."""

    figures: Path | None
    lines: list[str] = field(default_factory=list)
    verdicts: list[tuple[str, str, bool]] = field(default_factory=list)

    def add(self, *lines: str) -> None:
        """Append lines and show them."""
        self.lines += lines
        print("\n".join(lines), flush=True)

    def promise(self, what: str, measured: str, kept: bool) -> None:
        """Note whether a promise was kept."""
        self.verdicts.append((what, measured, bool(kept)))

    def picture(self, name: str, caption: str, draw, *args) -> None:
        """Draw a picture, if the page is written to a file."""
        if self.figures is not None:
            draw(self.figures / name, *args)
            self.add(f"![{caption}](figures/{name})", "")


def warm_up() -> None:
    """Use every method once: first use loads and compiles."""
    X, y, clean, _ = make(3000, 10, 0.3)
    for fit in DENSE.values():
        fit(X, y, clean)


def table(page: Page, n: int, p: int, repeats: int) -> None:
    """Add the table of one size: every method at every share of corrupted rows."""
    cells: dict[float, dict[str, Timing]] = {}
    for ratio in RATIOS:
        if (n, p, ratio) != HOPELESS:
            X, y, clean, coef = make(n, p, ratio)
            runs = {name: _bound(fit, X, y, clean) for name, fit in DENSE.items()}
            times = repeats * MORE if n < SMALL else repeats
            cells[ratio] = _measuring.taking_turns(runs, times, coef, CLOCK)
    header = " | ".join(f"{ratio:.0%}: time / floor (s); error" for ratio in cells)
    page.add(f"## {n:,} x {p}", "", f"| method | {header} |", "|---|" + "---|" * len(cells))
    for name in DENSE:
        parts = [_cell(times[name], times[FLOOR].median) for times in cells.values()]
        page.add(f"| {name} | " + " | ".join(parts) + " |")
    page.add("")
    _judge_size(page, n, p, cells)
    relative = {
        f"{ratio:.0%}": {name: times[name].median / times[FLOOR].median for name in DENSE}
        for ratio, times in cells.items()
    }
    page.picture(
        f"bench-{n}x{p}.svg",
        f"Time of every method, {n:,} x {p}",
        _figures.bars,
        f"{n:,} x {p}",
        relative,
    )


def _bound(fit, X, y, clean):
    return lambda: fit(X, y, clean)


def _cell(timing: Timing, floor: float) -> str:
    return (
        f"{timing.median / floor:.1f} ({timing.median:.3f} +- {timing.spread:.3f}); "
        f"{timing.error:.4f}"
    )


def _judge_size(page: Page, n: int, p: int, cells: dict[float, dict[str, Timing]]) -> None:
    ours = {ratio: times[DEFAULT] for ratio, times in cells.items()}
    floor = {ratio: times[FLOOR].median for ratio, times in cells.items()}
    errors = {ratio: ours[ratio].error / cells[ratio][ORACLE].error for ratio in cells}
    size = f"{n:,} x {p}"
    page.add(
        "Default's error over the oracle's: "
        + ", ".join(f"{e:.3f}" for e in errors.values())
        + ".",
        "",
    )
    if {PAPER, NAIVE} <= set(DENSE):
        slower = [cells[r][PAPER].median / cells[r][NAIVE].median for r in cells]
        page.promise(f"{size}: paper() never slower than naive", _ratios(slower), max(slower) <= 1)
    if n < 1_000_000:
        over = [ours[r].median - 10 * floor[r] for r in cells]
        page.promise(
            f"{size}: default at most 100 ms above 10 floors",
            ", ".join(f"{1000 * o:+.0f} ms" for o in over),
            max(over) <= 0.1,
        )
        return
    times = [ours[r].median / floor[r] for r in cells]
    page.promise(f"{size}: default at most 2 floors", _listed(times), max(times) <= 2)
    for name, least in {LEAST_SQUARES: 1, HUBER: 5}.items():
        if name in DENSE:
            faster = [cells[r][name].median / ours[r].median for r in cells]
            what = f"{size}: {least} times as fast as {name.replace('scikit-learn ', '')}"
            page.promise(what, _listed(faster), min(faster) >= least)
    page.promise(
        f"{size}: error at most {'/'.join(map(str, LIMITS.values()))} times the oracle's",
        ", ".join(f"{errors[r]:.3f}" for r in cells),
        all(errors[r] <= LIMITS[r] for r in cells),
    )
    if PAPER in DENSE:
        paper = [cells[r][PAPER].median / floor[r] for r in cells]
        page.promise(f"{size}: paper() at most 20 floors", _listed(paper), max(paper) <= 20)


def _listed(values: list[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


def _ratios(values: list[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def memory(page: Page, n: int, p: int) -> None:
    """Add how much memory fits take above what was there before."""
    page.add(
        "## Memory",
        "",
        f"Growth of a fresh process during a fit of {n:,} x {p} (50 % corrupted), in units of X.",
        "",
        "| method | memory / X |",
        "|---|---|",
    )
    for name in (FLOOR, "scikit-learn Ridge(cholesky)", LEAST_SQUARES, HUBER, PAPER, DEFAULT):
        extra = _measuring.extra_memory(name, n, p)
        page.add(f"| {name} | {100 * extra:.1f} % |")
    page.add("")
    page.promise("default: memory at most 15 % of X", f"{100 * extra:.1f} %", extra <= 0.15)


def growth(page: Page, plan: Plan, repeats: int) -> None:
    """Add the time over rows, batches and columns, with a picture."""
    rows = {n: _both(make(n, 50, 0.4), repeats) for n in plan.rows}
    data = make(plan.batch_rows, 100, 0.4)
    batches = {m: _both(data, repeats, n_batches=m) for m in plan.batches}
    columns = {p: _both(make(plan.column_rows, p, 0.4), repeats) for p in plan.columns}
    page.add("## Growth", "", "Default fit and floor, 40 % corrupted, median seconds.", "")
    panels = []
    for label, measured in (
        ("rows (50 columns)", rows),
        (f"batches ({plan.batch_rows:,} x 100)", batches),
        (f"columns ({plan.column_rows:,} rows)", columns),
    ):
        sizes = list(measured)
        ours, floor = ([pair[k].median for pair in measured.values()] for k in (0, 1))
        page.add(f"| {label} | " + " | ".join(f"{size:,}" for size in sizes) + " |")
        page.add("|---|" + "---|" * len(sizes))
        page.add("| default | " + " | ".join(f"{s:.3f}" for s in ours) + " |")
        page.add("| floor | " + " | ".join(f"{s:.3f}" for s in floor) + " |", "")
        panels.append((label, sizes, {"default": ours, "floor": floor}))
    page.picture("bench-growth.svg", "Time over rows, batches and columns", _figures.growth, panels)
    _judge_growth(page, panels)


def _both(data, repeats: int, **settings) -> tuple[Timing, Timing]:
    X, y, clean, _ = data
    runs = {
        "default": lambda: SelfPacedRegressor(**settings).fit(X, y).coef_,
        "floor": lambda: _peers.normal_equations(X, y, clean),
    }
    times = repeats * MORE if len(y) < SMALL else repeats
    timings = _measuring.taking_turns(runs, times, clock=CLOCK)
    return timings["default"], timings["floor"]


def _judge_growth(page: Page, panels) -> None:
    (_, rows, over_rows), (_, _, over_batches), (_, _, over_columns) = panels
    slope = float(np.polyfit(np.log(rows), np.log(over_rows["default"]), 1)[0])
    page.promise("slope over rows at most 1.05", f"{slope:.2f}", slope <= 1.05)
    most = max(over_batches["default"]) / over_batches["default"][0]
    page.promise("most over fewest batches at most 1.3 times", f"{most:.2f}", most <= 1.3)
    ours, floor = (over_columns[name][-1] / over_columns[name][0] for name in ("default", "floor"))
    page.promise(
        "growth over columns no worse than the floor's", f"{ours:.0f} : {floor:.0f}", ours <= floor
    )


def sparse(page: Page, n: int, p: int, repeats: int, density: float = 0.002) -> None:
    """Add the time on sparse columns, where a Gram matrix would be larger than the data."""
    rng = np.random.default_rng(0)
    per_row = max(1, round(density * p))
    indices = rng.integers(0, p, n * per_row, dtype=np.int32)
    indptr = np.arange(0, n * per_row + 1, per_row, dtype=np.int32)
    X = sp.csr_array((rng.standard_normal(n * per_row), indices, indptr), shape=(n, p))
    X.sum_duplicates()
    coef = rng.standard_normal(p) / np.sqrt(per_row)
    y = X @ coef + _peers.NOISE * rng.standard_normal(n)
    bad = rng.random(n) < 0.2
    y[bad] += rng.uniform(-20, 20, int(bad.sum()))
    runs = {name: _bound(fit, X, y, None) for name, fit in _peers.SPARSE.items()}
    page.add(
        f"## Sparse, {n:,} x {p:,} at {density:.1%}",
        "",
        "20 % corrupted. No matrix of all columns is formed, neither dense rows nor X'X.",
        "",
        "| method | seconds | error |",
        "|---|---|---|",
    )
    for name, timing in _measuring.taking_turns(runs, repeats, coef, CLOCK).items():
        page.add(f"| {name} | {timing.median:.2f} +- {timing.spread:.2f} | {timing.error:.3f} |")
    page.add("")


def small(page: Page, sizes: tuple[tuple[int, int], ...], repeats: int) -> None:
    """Add the processor's time of small fits, of which a grid search makes hundreds."""
    page.add(
        "## Small tables",
        "",
        "30 % corrupted, milliseconds of processor time; the import is that of a fresh process.",
        "",
        "| size | default | HuberRegressor |",
        "|---|---|---|",
    )
    for n, p in sizes:
        X, y, clean, _ = make(n, p, 0.3)
        runs = {name: _bound(DENSE[name], X, y, clean) for name in (DEFAULT, HUBER)}
        timings = _measuring.taking_turns(runs, MORE * repeats, clock=CLOCK)
        shown = (f"{1000 * timing.median:.0f}" for timing in timings.values())
        page.add(f"| {n:,} x {p} | " + " | ".join(shown) + " |")
        if (n, p) in SMALL_LIMITS:
            took, limit = 1000 * timings[DEFAULT].median, SMALL_LIMITS[n, p]
            page.promise(f"{n:,} x {p} within {limit} ms", f"{took:.0f} ms", took <= limit)
    modules = ("easyfirst.estimators.regressor", "sklearn.linear_model")
    ours, theirs = _measuring.import_seconds(modules, MORE * repeats)
    page.add(f"| import | {1000 * ours:.0f} | {1000 * theirs:.0f} |", "")
    page.promise(
        "importing the regressor at most 1.15 times scikit-learn's linear models",
        f"{ours / theirs:.2f}",
        ours <= 1.15 * theirs,
    )


def paced(page: Page, sizes: tuple[tuple[int, int], ...], repeats: int) -> None:
    """Add the paper's configuration beside naive self-paced learning, at small sizes too."""
    page.add(
        "## paper() beside naive self-paced learning",
        "",
        "Milliseconds of processor time, and paper()'s over naive's. Naive self-paced learning is",
        "a dozen lines of NumPy that check nothing and record nothing.",
        "",
        "| size | " + " | ".join(f"{ratio:.0%}: naive, paper()" for ratio in RATIOS) + " |",
        "|---|" + "---|" * len(RATIOS),
    )
    for n, p in sizes:
        shown, ratios = [], []
        for ratio in RATIOS:
            X, y, clean, _ = make(n, p, ratio)
            runs = {name: _bound(DENSE[name], X, y, clean) for name in (NAIVE, PAPER)}
            timings = _measuring.taking_turns(runs, MORE * repeats, clock=CLOCK)
            naive, ours = (1000 * timings[name].median for name in (NAIVE, PAPER))
            ratios.append(ours / naive)
            shown.append(f"{naive:.2f}, {ours:.2f} ({ours / naive:.2f})")
        page.add(f"| {n:,} x {p} | " + " | ".join(shown) + " |")
        size = f"{n:,} x {p}"
        page.promise(f"{size}: paper() never slower than naive", _ratios(ratios), max(ratios) <= 1)
    page.add("")


def wide(page: Page, columns: tuple[int, ...], n: int, repeats: int) -> None:
    """Add the time over the number of columns, where no step may be steeper than the floor's."""
    measured = {p: _both(make(n, p, 0.3), repeats) for p in columns}
    ratios = [ours.median / floor.median for ours, floor in measured.values()]
    page.add(
        "## Few rows per column",
        "",
        f"{n:,} rows, 30 % corrupted, processor time.",
        "",
        "| columns | " + " | ".join(f"{p:,}" for p in columns) + " |",
        "|---|" + "---|" * len(columns),
        "| seconds | " + " | ".join(f"{ours.median:.2f}" for ours, _ in measured.values()) + " |",
        "| time / floor | " + " | ".join(f"{ratio:.1f}" for ratio in ratios) + " |",
        "",
    )
    for p, limit in WIDE_LIMITS.items():
        if p in measured:
            took = ratios[columns.index(p)]
            page.promise(f"{n:,} x {p:,} at most {limit} floors", f"{took:.1f}", took <= limit)
    steps = [after / before for before, after in pairwise(ratios)]
    page.promise(
        "no step over the columns that the floor does not have, of twice or more",
        f"{max(steps):.1f}",
        max(steps) < 2,
    )


def single(page: Page, n: int, p: int, repeats: int) -> None:
    """Add the time of rows in single precision, which take half the memory."""
    X, y, _, _ = make(n, p, 0.3)
    narrow = X.astype(np.float32)
    runs = {
        "double": lambda: SelfPacedRegressor().fit(X, y).coef_,
        "single": lambda: SelfPacedRegressor().fit(narrow, y).coef_,
    }
    timings = _measuring.taking_turns(runs, repeats, clock=CLOCK)
    took = timings["single"].median / timings["double"].median
    page.add(
        "## Single precision",
        "",
        f"{n:,} x {p} in float32 take {took:.2f} times the processor time of float64.",
        "Rows and what a fit takes besides, in units of the rows in float64:",
        "",
        "| | rows | fit | together |",
        "|---|---|---|---|",
    )
    together = {}
    for kind, rows in (("float64", 1.0), ("float32", 0.5)):
        fit = rows * _measuring.extra_memory(DEFAULT, n, p, kind)
        together[kind] = rows + fit
        page.add(f"| {kind} | {rows:.1%} | {fit:.1%} | {rows + fit:.1%} |")
    page.add("")
    share = together["float32"] / together["float64"]
    page.promise("float32 takes about half the memory", f"{share:.2f}", share <= 0.6)
    page.promise("float32 at most 1.2 times the time of float64", f"{took:.2f}", took <= 1.2)


def phases(page: Page, n: int, p: int) -> None:
    """Add where the time of one fit goes, by phase and by kind of work."""
    page.add(
        "## Where the time goes",
        "",
        f"One fit of {n:,} x {p}, 50 % corrupted, by phase. *Passes* are products of X with a",
        "vector and what is done with each row meanwhile, *Gram matrices* are X'X, *driver* is the",
        "rest: mixtures, solves, distances in X, consensus. The default finds its pace on a sample",
        "and forms its Gram matrices there; on all rows it makes a few passes, each of which reads",
        "X once: residual, weight, histogram and pull while a block is in cache. The last of them",
        "is the polish. The paper's configuration forms Gram matrices of the rows that changed.",
        "",
        "| fit | phase | passes | Gram matrices | driver | seconds | share |",
        "|---|---|---|---|---|---|---|",
    )
    X, y, _, _ = make(n, p, 0.5)
    drawn = {}
    for label, model in (("default", SelfPacedRegressor), ("paper()", SelfPacedRegressor.paper)):
        model().fit(X, y)
        clock = _measuring.PhaseClock()
        with clock.running():
            model().fit(X, y)
        total = sum(clock.seconds.values())
        drawn[label] = {}
        for phase in dict.fromkeys(phase for phase, _ in clock.seconds):
            kinds = [clock.seconds.get((phase, k), 0.0) for k in _measuring.KINDS]
            counts = [clock.calls.get((phase, k), 0) for k in _measuring.KINDS]
            shown = [
                f"{s:.3f}" + (f" ({c})" if c else "") for s, c in zip(kinds, counts, strict=True)
            ]
            share = f"{sum(kinds):.3f} | {sum(kinds) / total:.0%}"
            page.add(f"| {label} | {phase} | " + " | ".join(shown) + f" | {share} |")
            drawn[label][phase] = sum(kinds)
    page.add("", "In parentheses: how often the workers were asked.", "")
    page.picture("bench-phases.svg", "Seconds of one fit by phase", _figures.phases, drawn)


def opening(repeats: int) -> list[str]:
    """Return the first lines of the page."""
    left_out = (
        f" Not installed and left out: {', '.join(_peers.LEFT_OUT)}." if _peers.LEFT_OUT else ""
    )
    return [
        "# Benchmarks",
        "",
        "`make bench` makes this page. Times are those of the processor, with one thread, in units",
        "of the floor, the normal equations (in parentheses seconds: median and half the range of",
        f"{repeats} runs, or of {MORE * repeats} below {SMALL:,} rows, methods taking turns).",
        "Ratios are within one run; seconds depend on what else the machine does meanwhile.",
        f"{platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, NumPy {np.__version__}, scikit-learn {sklearn.__version__}."
        f"{left_out}",
        "",
    ]


def verdicts(page: Page) -> list[str]:
    """Return the table of what was promised."""
    rows = [
        f"| {what} | {measured} | {'kept' if kept else '**missed**'} |"
        for what, measured, kept in page.verdicts
    ]
    return ["## Promises", "", "| promise | measured | |", "|---|---|---|", *rows, ""]


def main() -> None:
    """Measure, print, and write the page if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", help="parts of the page: tables, small, wide, memory, ...")
    parser.add_argument("--methods", help="parts of names of the methods in the tables")
    parser.add_argument("--out", type=Path, help="write the page here, pictures beside it")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    plan = QUICK if options.quick else Plan()
    page = Page(options.out.parent / "figures" if options.out else None)
    if options.methods:
        wanted = {FLOOR, ORACLE, DEFAULT}
        wanted |= {name for name in DENSE for part in options.methods.split(",") if part in name}
        for name in set(DENSE) - wanted:
            del DENSE[name]
    warm_up()
    parts = {
        "tables": lambda: [table(page, n, p, options.repeats) for n, p in plan.tables],
        "small": lambda: small(page, plan.small, options.repeats),
        "paced": lambda: paced(page, plan.paced, options.repeats),
        "wide": lambda: wide(page, plan.wide, plan.wide_rows, options.repeats),
        "memory": lambda: memory(page, *plan.memory),
        "growth": lambda: growth(page, plan, options.repeats),
        "single": lambda: single(page, *plan.memory, options.repeats),
        "sparse": lambda: sparse(page, *plan.sparse, options.repeats),
        "phases": lambda: phases(page, *plan.phases),
    }
    for name in options.only.split(",") if options.only else parts:
        parts[name]()
    print("\n".join(verdicts(page)))
    if options.out:
        lines = opening(options.repeats) + verdicts(page) + page.lines
        options.out.write_text("\n".join(lines).rstrip("\n") + "\n")


if __name__ == "__main__":
    main()
