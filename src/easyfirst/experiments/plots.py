"""Plots drawn from records; nothing here fits anything. Needs matplotlib (the 'plot' extra)."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from easyfirst.experiments.base import Experiment
from easyfirst.experiments.tables import OURS, Results

# A colour and a marker belong to a method, in every figure.
STYLES: dict[str, tuple[str, str]] = {
    "easyfirst": ("#c1121f", "o"),
    "dspl": ("#e07a00", "s"),
    "dspl-until": ("#e07a00", "s"),
    "torr": ("#1f6f8b", "^"),
    "torr25": ("#63a8bd", "v"),
    "rlhh": ("#6a4c93", "D"),
    "drlr": ("#2a7f3f", "P"),
    "spl": ("#8d6b4b", "X"),
    "spl-pooled": ("#c9a27e", "x"),
    "stir": ("#b5179e", "<"),
    "svam": ("#7a7a7a", ">"),
    "least-squares": ("#b0b0b0", "1"),
}
LIMIT = "#000000"
LIMITS = {"oracle": ("--", "oracle"), "clean-labels": (":", "uncorrupted labels")}
SIZE = 3.6  # inches per panel


def draw(experiment: Experiment, results: Results, directory: Path) -> Path | None:
    """Draw one experiment as an SVG file, one panel per series; None if nothing is recorded."""
    if not results.methods_in(experiment):
        return None
    plt = _pyplot()
    if experiment.name == "pace":
        figure = _pace_figure(plt, experiment, results)
    else:
        figure = _series_figure(plt, experiment, results)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{experiment.name}.svg"
    text = StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    plt.close(figure)
    # A hundredth of a point is fine enough, and a third of the file.
    path.write_text(re.sub(r"(\d\.\d\d)\d+", r"\1", text.getvalue()), encoding="utf-8")
    return path


def _series_figure(plt: Any, experiment: Experiment, results: Results) -> Any:
    series = experiment.series
    columns = min(len(series), 3)
    rows = -(-len(series) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(SIZE * columns + 1.9, SIZE * rows), squeeze=False
    )
    for axis, name in zip(axes.ravel(), series, strict=False):
        _panel(axis, experiment, results, name)
    for axis in axes.ravel()[len(series) :]:
        axis.set_visible(False)
    _finish(figure, axes, experiment)
    return figure


def _panel(axis: Any, experiment: Experiment, results: Results, series: str) -> None:
    cells = experiment.cells_of(series)
    axis.set_title(series, fontsize=10)
    for method in results.methods_in(experiment):
        if method.name not in STYLES and method.name not in LIMITS:
            continue
        found = [(cell.x, results.of(cell, method.name)) for cell in cells]
        points = [(x, each.mean, each.spread) for x, each in found if each is not None]
        points = [point for point in points if np.isfinite(point[1])]
        if not points:
            continue
        x, mean, spread = np.array(points).T
        if method.kind == "limit":
            style, label = LIMITS[method.name]
            axis.plot(x, mean, style, color=LIMIT, lw=1.2, label=label)
            continue
        color, marker = STYLES[method.name]
        ours = method.name == OURS
        axis.plot(
            x,
            mean,
            color=color,
            marker=marker,
            ms=5 if ours else 3.5,
            lw=2.0 if ours else 1.0,
            zorder=5 if ours else 2,
            label=method.label,
        )
        low = np.maximum(mean - spread, 0.5 * mean) if experiment.log_scale else mean - spread
        if np.any(spread > 0):
            axis.fill_between(x, low, mean + spread, color=color, alpha=0.15, lw=0)
    _published(axis, experiment, series)
    if experiment.log_scale:
        _log_scale(axis)


def _log_scale(axis: Any) -> None:
    """Make the y axis logarithmic, with numbers that can be read at a glance."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_yscale("log")
    low, high = axis.get_ylim()
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    axis.yaxis.set_major_formatter(plain)
    axis.yaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
    axis.yaxis.set_minor_formatter(plain if high < 50 * low else NullFormatter())


def _published(axis: Any, experiment: Experiment, series: str) -> None:
    """Mark the paper's own method as it was published."""
    points = [
        (cell.x, experiment.published[series, cell.label]["dspl"])
        for cell in experiment.cells_of(series)
        if "dspl" in experiment.published.get((series, cell.label), {})
    ]
    if points:
        x, y = np.array(points).T
        axis.plot(
            x,
            y,
            ":",
            color=STYLES["dspl"][0],
            marker="s",
            mfc="white",
            ms=4.5,
            lw=1.0,
            label="DSPL, as published",
            zorder=3,
        )


def _pace_figure(plt: Any, experiment: Experiment, results: Results) -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(2 * SIZE + 2.4, SIZE), squeeze=False)
    for axis, metric in zip(axes[0], ("error", "lagrangian"), strict=True):
        for name in experiment.methods:
            found = [(cell.x, results.of(cell, name, metric)) for cell in experiment.cells]
            points = [(x, each.mean, each.spread) for x, each in found if each is not None]
            if not points:
                continue
            x, mean, spread = np.array(points).T
            if name == "dspl-until":
                color, marker = STYLES[name]
                axis.plot(x, mean, color=color, marker=marker, ms=3.5, lw=1.2, label="DSPL")
            else:
                color = LIMIT if name == "oracle" else STYLES[name][0]
                axis.plot(
                    x, mean, color=color, ls="--" if name == "oracle" else "-", label=name, lw=1.4
                )
            axis.fill_between(x, mean - spread, mean + spread, color=color, alpha=0.15, lw=0)
        if metric in experiment.published_curves:
            x, y = np.array(experiment.published_curves[metric]).T
            axis.plot(x, y, "s:", mfc="white", ms=4.5, lw=1, color="#555555", label="paper, fig. 2")
        axis.set_xscale("log")
        axis.set_title("recovery error" if metric == "error" else "Lagrangian", fontsize=10)
    _log_scale(axes[0][0])
    axes[0][1].set_yscale("symlog", linthresh=1e2)
    axes[0][1].set_ylim(top=0.0)
    _finish(figure, axes, experiment)
    return figure


def _finish(figure: Any, axes: Any, experiment: Experiment) -> None:
    handles: dict[str, Any] = {}
    for axis in axes.ravel():
        axis.grid(True, which="major", alpha=0.25, lw=0.5)
        axis.tick_params(which="both", labelsize=8)
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.suptitle(experiment.title, fontsize=11)
    figure.supxlabel(experiment.axis, fontsize=9)
    right = 1.0 - 1.9 / figure.get_size_inches()[0]
    figure.tight_layout(rect=(0, 0, right, 0.98))
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="center left",
        bbox_to_anchor=(right, 0.5),
        fontsize=8,
        frameon=False,
    )


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    # The same records give the same file, to the byte.
    matplotlib.rcParams["svg.hashsalt"] = "easyfirst"
    matplotlib.rcParams["svg.fonttype"] = "none"
    import matplotlib.pyplot as plt

    return plt
