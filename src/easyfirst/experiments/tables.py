"""Tables drawn from records: means and spreads, the oracle, the paper's values, lost cells."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from easyfirst.baselines.method import Method
from easyfirst.baselines.methods import METHODS
from easyfirst.experiments.base import Cell, Experiment, Record

OURS = "easyfirst"
CONFIDENCE = 0.975  # one side of the interval outside which a difference is no chance


@dataclass(frozen=True)
class Summary:
    """What the seeds of one method in one cell say together."""

    values: dict[int, float]

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return float(np.mean(list(self.values.values())))

    @property
    def spread(self) -> float:
        """Standard deviation over the seeds; 0 for one seed."""
        found = list(self.values.values())
        if len(found) < 2 or not np.all(np.isfinite(found)):
            return 0.0
        return float(np.std(found, ddof=1))


@dataclass(frozen=True)
class LostCell:
    """A cell in which a rival's mean error is smaller than ours."""

    cell: Cell
    method: Method
    ours: float
    theirs: float
    n_seeds: int
    chance: bool

    @property
    def excess(self) -> float:
        """By what share our error is larger."""
        return self.ours / self.theirs - 1.0

    @property
    def reason(self) -> str:
        """What stands behind it, as far as the records can tell."""
        if self.n_seeds < 2:
            size = "one seed, cannot be told from chance"
        elif self.chance:
            size = f"may be chance over {self.n_seeds} seeds"
        else:
            size = f"beyond chance over {self.n_seeds} seeds"
        return f"{size}; is told {self.method.told}" if self.method.told else size


class Results:
    """The records, found by problem, method, setting and metric."""

    def __init__(self, records: Iterable[Record]) -> None:
        found: defaultdict[tuple[str, str, float | None, str], dict[int, float]] = defaultdict(dict)
        self.seconds: defaultdict[str, dict[str, list[float]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self.failures: list[Record] = []
        for record in records:
            key = (record.spec, record.method, record.setting, record.metric)
            found[key][record.seed] = record.value
            if record.metric == "error":
                self.seconds[record.spec][record.method].append(record.seconds)
                if record.status != "ok":
                    self.failures.append(record)
        self._found = dict(found)

    def of(self, cell: Cell, method: str, metric: str = "error") -> Summary | None:
        """Return what one method did in one cell, or None if it did not run."""
        setting = cell.setting if METHODS[method].needs_pace else None
        values = self._found.get((cell.spec.key, method, setting, metric))
        return None if values is None else Summary(values)

    def methods_in(self, experiment: Experiment) -> list[Method]:
        """Return the methods of an experiment that have a record in it."""
        return [
            METHODS[name]
            for name in experiment.methods
            if any(self.of(cell, name) is not None for cell in experiment.cells)
        ]

    def seeds_in(self, cells: Iterable[Cell]) -> tuple[int, int]:
        """Return the smallest and largest number of seeds behind our own figures."""
        counts = [len(found.values) for cell in cells if (found := self.of(cell, OURS))]
        return (min(counts), max(counts)) if counts else (0, 0)


def losses(experiment: Experiment, results: Results) -> list[LostCell]:
    """List the cells where a rival's mean is below ours, over the seeds that both have run."""
    lost = []
    for cell in experiment.cells:
        ours = results.of(cell, OURS)
        if ours is None:
            continue
        for method in results.methods_in(experiment):
            theirs = results.of(cell, method.name)
            if method.kind != "rival" or theirs is None:
                continue
            loss = _compare(cell, method, ours, theirs)
            if loss is not None:
                lost.append(loss)
    return lost


def _compare(cell: Cell, method: Method, ours: Summary, theirs: Summary) -> LostCell | None:
    common = sorted(ours.values.keys() & theirs.values.keys())
    if not common:
        return None
    a = np.array([ours.values[seed] for seed in common])
    b = np.array([theirs.values[seed] for seed in common])
    if not np.mean(a) > np.mean(b):
        return None
    difference = a - b
    error = float(np.std(difference, ddof=1) / math.sqrt(len(common))) if len(common) > 1 else 1.0
    bound = float(stdtrit(len(common) - 1, CONFIDENCE)) if len(common) > 1 else math.inf
    chance = not bool(np.mean(difference) > bound * error)
    return LostCell(cell, method, float(np.mean(a)), float(np.mean(b)), len(common), chance)


def n_comparisons(experiment: Experiment, results: Results) -> tuple[int, int]:
    """Return how many cells have our result, and how many pairs with a rival there are."""
    cells = [cell for cell in experiment.cells if results.of(cell, OURS)]
    rivals = [method for method in results.methods_in(experiment) if method.kind == "rival"]
    pairs = sum(results.of(cell, method.name) is not None for cell in cells for method in rivals)
    return len(cells), pairs


def ratios_to_oracle(experiment: Experiment, results: Results) -> list[float]:
    """Return our mean error over the oracle's, in every cell that has both."""
    pairs = [(results.of(cell, OURS), results.of(cell, "oracle")) for cell in experiment.cells]
    return [ours.mean / oracle.mean for ours, oracle in pairs if ours and oracle]


def ratios_to_published(experiment: Experiment, results: Results) -> list[float]:
    """Return our mean error over the paper's own method as published, where that can be."""
    impossible = below_oracle(experiment, results)
    ratios = []
    for cell in experiment.cells:
        value = experiment.published.get((cell.series, cell.label), {}).get("dspl")
        ours = results.of(cell, OURS)
        if value and ours and (cell.series, cell.label, "dspl") not in impossible:
            ratios.append(ours.mean / value)
    return ratios


def below_oracle(experiment: Experiment, results: Results) -> set[tuple[str, str, str]]:
    """Return (series, label, method) of published values that no fit of such data can reach.

    They lie below the mean error of least squares on exactly the clean rows.
    """
    found = set()
    for cell in experiment.cells:
        oracle = results.of(cell, "oracle")
        for method, value in experiment.published.get((cell.series, cell.label), {}).items():
            if oracle is not None and value < oracle.mean:
                found.add((cell.series, cell.label, method))
    return found


def grid(
    experiment: Experiment, results: Results, series: str, metric: str = "error"
) -> list[list[str]]:
    """Return one panel as text: a heading, then a row per method and per published row.

    `*` marks the smallest error of a cell among the methods, limits apart; `!` a cell where a
    rival's mean is below ours; `†` a published value below the oracle.
    """
    cells = experiment.cells_of(series)
    rows = [["method", *(cell.label for cell in cells)]]
    columns = [_column(experiment, results, cell, metric) for cell in cells]
    for method in results.methods_in(experiment):
        texts = [column.get(method.name, "") for column in columns]
        if any(texts):
            rows.append([method.label, *texts])
    return rows + (_published_rows(experiment, results, cells) if metric == "error" else [])


def _column(experiment: Experiment, results: Results, cell: Cell, metric: str) -> dict[str, str]:
    """Return what a table says about one cell, by method."""
    found = {
        method: summary
        for method in results.methods_in(experiment)
        if (summary := results.of(cell, method.name, metric)) is not None
    }
    contest = [summary.mean for method, summary in found.items() if method.kind != "limit"]
    best = min(contest, default=math.inf)
    texts = {}
    for method, summary in found.items():
        text = _text(summary, experiment.digits)
        if method.kind != "limit" and summary.mean <= best:
            text += " *"
        elif method.kind == "ours":
            text += " !"
        texts[method.name] = text
    return texts


def _text(summary: Summary, digits: int) -> str:
    if not math.isfinite(summary.mean):
        return "failed"
    spread = f" ± {summary.spread:.{digits}f}" if len(summary.values) > 1 else ""
    return f"{summary.mean:.{digits}f}{spread}"


def _published_rows(
    experiment: Experiment, results: Results, cells: Sequence[Cell]
) -> list[list[str]]:
    impossible, digits = below_oracle(experiment, results), experiment.published_digits
    values = [experiment.published.get((cell.series, cell.label), {}) for cell in cells]
    spreads = [experiment.published_spread.get((cell.series, cell.label), {}) for cell in cells]
    names = [name for name in experiment.methods if any(name in each for each in values)]
    rows = []
    for name in names:
        row = [f"paper: {METHODS[name].label.split(',')[0]}"]
        for cell, value, spread in zip(cells, values, spreads, strict=True):
            text = f"{value[name]:.{digits}f}" if name in value else ""
            if name in spread:
                text += f" ± {spread[name]:.{digits}f}"
            row.append(text + (" †" if (cell.series, cell.label, name) in impossible else ""))
        rows.append(row)
    return rows


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown, the first row as its heading."""
    heading, *body = rows
    lines = ["| " + " | ".join(heading) + " |", "|" + " --- |" * len(heading)]
    lines += ["| " + " | ".join(row) + " |" for row in body]
    return "\n".join(lines)


@dataclass(frozen=True)
class Agreement:
    """How near our run of a method comes to what the paper printed for it in one cell."""

    cell: Cell
    method: Method
    found: float
    printed: float

    @property
    def ratio(self) -> float:
        """Our mean over the printed value."""
        return self.found / self.printed


def agreements(experiment: Experiment, results: Results) -> list[Agreement]:
    """Compare every published value with our run of the same method."""
    pairs = []
    for cell in experiment.cells:
        for name, printed in experiment.published.get((cell.series, cell.label), {}).items():
            found = results.of(cell, name)
            if found is not None and math.isfinite(found.mean):
                pairs.append(Agreement(cell, METHODS[name], found.mean, printed))
    return pairs


def time_table(experiment: Experiment, results: Results) -> list[list[str]]:
    """Return where the time of an experiment went: seconds per fit, and the share of the whole."""
    specs = dict.fromkeys(cell.spec.key for cell in experiment.cells)
    totals: dict[str, list[float]] = {}
    for spec in specs:
        for name, seconds in results.seconds.get(spec, {}).items():
            if name in experiment.methods:
                totals.setdefault(name, []).extend(seconds)
    everything = sum(sum(seconds) for seconds in totals.values()) or 1.0
    ordered = sorted(totals.items(), key=lambda item: -sum(item[1]))
    return [
        ["method", "seconds per fit", "share of the time"],
        *(
            [
                METHODS[name].label,
                f"{np.mean(seconds):.2f}",
                f"{100 * sum(seconds) / everything:.0f} %",
            ]
            for name, seconds in ordered
        ),
    ]
