"""The report on all experiments: one Markdown file and its figures, from records alone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from string import Template

from easyfirst.atomic import atomic_write
from easyfirst.experiments.base import Cell, Experiment
from easyfirst.experiments.catalogue import NAMES, define
from easyfirst.experiments.plots import draw
from easyfirst.experiments.records import Store, archive_machines, read_archive, write_table
from easyfirst.experiments.tables import (
    Agreement,
    LostCell,
    Results,
    agreements,
    below_oracle,
    grid,
    losses,
    markdown,
    n_comparisons,
    ratios_to_oracle,
    ratios_to_published,
    time_table,
)
from easyfirst.experiments.wording import FINDINGS, INTRODUCTION

ARCHIVE = "records.parquet"
TOLERANCE = 0.15
MOST_RIVALS = 3  # that are named where a cell is lost
TOLD = "the corruption ratio or the noise scale, which the default has to find out"


def write_report(records: Path, docs: Path, *, quick: bool = False) -> Path:
    """Write `reproduction.md` and `figures/` below `docs`, and return the path of the text.

    All records are copied into one file beside the figures. Where `records` holds none, that
    file is read instead, so that the report can be written again from the documentation alone.
    """
    figures = docs / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    archive = figures / ARCHIVE
    if any(records.rglob("*.parquet")):
        write_table(Store(records).table(), archive)
    if not archive.is_file():
        raise FileNotFoundError(f"there are no records in {records} and none at {archive}")
    results = Results(read_archive(archive))
    experiments = [each for name in NAMES for each in define(name, quick=quick, data=Path("data"))]
    sections = [section(each, results, figures) for each in experiments]
    text = Template(INTRODUCTION).substitute(
        scoreboard=scoreboard(experiments, results),
        machine="\n".join(f"- {each}" for each in _machines(archive)),
    )
    target = docs / "reproduction.md"
    with atomic_write(target) as beside:
        beside.write_text(text + "\n" + "\n".join(filter(None, sections)), encoding="utf-8")
    return target


def section(experiment: Experiment, results: Results, figures: Path) -> str:
    """Return the part of the report on one experiment; empty if nothing is recorded."""
    if not results.methods_in(experiment):
        return f"## {experiment.title}\n\nNot run yet.\n"
    parts = [f"## {experiment.title}", *FINDINGS.get(experiment.name, ()), *experiment.notes]
    parts.append(_missing(experiment, results))
    path = draw(experiment, results, figures)
    if path is not None:
        parts.append(f"![{experiment.title}](figures/{path.name})")
    for series in experiment.series:
        rows = grid(experiment, results, series)
        if len(rows) > 1:
            parts += [f"### {_heading(experiment, series, results)}", markdown(rows)]
        for metric, title in experiment.also.items():
            more = grid(experiment, results, series, metric)
            if len(more) > 1:
                parts += [f"The same fits, {title}:", markdown(more)]
    parts += [
        _lost(experiment, results),
        _agreement(experiment, results),
        _time(experiment, results),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def scoreboard(experiments: Iterable[Experiment], results: Results) -> str:
    """Return how our default did in every experiment, in one table.

    Its error over the oracle's and over the published DSPL's is given as the smallest and the
    largest of all cells.
    """
    rows = [
        [
            "experiment",
            "seeds",
            "cells",
            "won",
            "lost",
            "lost beyond chance",
            "default / oracle",
            "default / published DSPL",
        ]
    ]
    for experiment in experiments:
        cells, _ = n_comparisons(experiment, results)
        if not cells or experiment.name == "pace":
            continue
        lost = losses(experiment, results)
        places = {loss.cell for loss in lost}
        real = {loss.cell for loss in lost if not loss.chance}
        low, high = results.seeds_in(experiment.cells)
        rows.append(
            [
                experiment.name,
                str(low) if low == high else f"{low} to {high}",
                str(cells),
                str(cells - len(places)),
                str(len(places)),
                str(len(real)),
                _span(ratios_to_oracle(experiment, results)),
                _span(ratios_to_published(experiment, results)),
            ]
        )
    return markdown(rows)


def _span(ratios: list[float]) -> str:
    return f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else ""


def _heading(experiment: Experiment, series: str, results: Results) -> str:
    low, high = results.seeds_in(experiment.cells_of(series))
    seeds = f"{low}" if low == high else f"{low} to {high}"
    return f"{series[0].upper()}{series[1:]} ({seeds} seed{'' if high == 1 else 's'})"


def _missing(experiment: Experiment, results: Results) -> str:
    """Say what of the definition has not been run."""
    fits = [results.of(cell, name) for cell in experiment.cells for name in experiment.methods]
    counts = [len(found.values) for found in fits if found is not None]
    absent = len(fits) - len(counts)
    low, high = min(counts, default=0), max(counts, default=0)
    if not absent and low >= experiment.seeds:
        return ""
    seeds = str(low) if low == high else f"{low} to {high}"
    return (
        f"*Incomplete:* {absent} of {len(fits)} entries have not been run, and those that have "
        f"rest on {seeds} of {experiment.seeds} seeds, not all methods on the same. Wins and "
        f"losses are counted over the seeds that both methods have run."
    )


def _lost(experiment: Experiment, results: Results) -> str:
    if experiment.name == "pace":
        return ""
    cells, pairs = n_comparisons(experiment, results)
    lost = losses(experiment, results)
    if not lost:
        return (
            f"**Lost cells.** None: the default has the smaller mean error in all {pairs} "
            f"comparisons ({cells} cells)."
        )
    lines = [
        f"**Lost cells.** In {cells - len({loss.cell for loss in lost})} of {cells} cells the "
        f"default has the smallest mean error. A rival's is smaller in {len(lost)} of {pairs} "
        f"comparisons, listed here by how much larger ours is. Bold: beyond chance, at 95 % over "
        f"the seeds that both have run; others may be chance. *Told*: the rival knows {TOLD}.",
        "",
        *(_cell_line(cell, found) for cell, found in _by_cell(lost).items()),
    ]
    return "\n".join(lines)


def _by_cell(lost: Iterable[LostCell]) -> dict[Cell, list[LostCell]]:
    found: dict[Cell, list[LostCell]] = {}
    for loss in lost:
        found.setdefault(loss.cell, []).append(loss)
    return found


def _cell_line(cell: Cell, lost: list[LostCell]) -> str:
    ordered = sorted(lost, key=lambda loss: loss.theirs)
    rivals = [_rival(loss) for loss in ordered[:MOST_RIVALS]]
    if len(ordered) > MOST_RIVALS:
        rivals.append(f"and {len(ordered) - MOST_RIVALS} more")
    seeds = max(loss.n_seeds for loss in lost)
    return (
        f"- {cell.series}, {cell.label} ({seeds} seed{'' if seeds == 1 else 's'}): "
        f"{'; '.join(rivals)}"
    )


def _rival(loss: LostCell) -> str:
    excess = f"+{100 * loss.excess:.1f} %"
    told = ", told" if loss.method.told else ""
    return f"{loss.method.label} ({excess if loss.chance else f'**{excess}**'}{told})"


def _agreement(experiment: Experiment, results: Results) -> str:
    """Say how near our runs of the paper's methods come to its values, and what cannot be."""
    pairs = agreements(experiment, results)
    if not pairs:
        return ""
    by_method: dict[str, list[Agreement]] = {}
    for pair in pairs:
        by_method.setdefault(pair.method.label, []).append(pair)
    rows = [["method", "our mean / published", "cells within 15 %", "outside"]]
    for label, found in by_method.items():
        ratios = [pair.ratio for pair in found]
        far = [pair for pair in found if abs(pair.ratio - 1.0) > TOLERANCE]
        rows.append(
            [
                label,
                f"{min(ratios):.2f} to {max(ratios):.2f}",
                f"{len(found) - len(far)} of {len(found)}",
                ", ".join(f"{_place(pair.cell, pairs)} ({pair.ratio:.2f})" for pair in far),
            ]
        )
    text = "**Agreement with the published values.**\n\n" + markdown(rows)
    impossible = below_oracle(experiment, results)
    if impossible:
        text += (
            f"\n\n† {len(impossible)} published values lie below the mean error of the oracle "
            f"on our data, which no fit of such data can: they come from other data and are not "
            f"comparable."
        )
    return text


def _place(cell: Cell, pairs: Iterable[Agreement]) -> str:
    """Return the label of a cell, with its series where there are several."""
    several = len({pair.cell.series for pair in pairs}) > 1
    return f"{cell.series} {cell.label}" if several else cell.label


def _time(experiment: Experiment, results: Results) -> str:
    rows = time_table(experiment, results)
    summary = "Where the time went: one core, one BLAS thread, all seeds"
    return f"<details><summary>{summary}</summary>\n\n{markdown(rows)}\n\n</details>"


def _machines(archive: Path) -> list[str]:
    lines = [
        f"{each['cores']} cores, {each['memory_gb']} GB, {each['machine']}; Python "
        f"{each['python']}, NumPy {each['numpy']}, SciPy {each['scipy']}, "
        f"scikit-learn {each['scikit-learn']}"
        for each in archive_machines(archive)
    ]
    return list(dict.fromkeys(lines))
