"""The pictures of the benchmark page."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("svg")
from matplotlib import pyplot as plt

STYLE = {"svg.hashsalt": "easyfirst", "svg.fonttype": "none", "font.size": 9}


def save(figure, path: Path) -> None:
    """Write a picture that depends on the measurements alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def bars(path: Path, title: str, ratios: dict[str, dict[str, float]]) -> None:
    """Draw one group of bars per method: time in units of the floor, per share of bad rows."""
    methods = list(next(iter(ratios.values())))
    figure, axes = plt.subplots(figsize=(7, 0.42 * len(methods) + 1))
    place = np.arange(len(methods))
    for k, (label, times) in enumerate(ratios.items()):
        axes.barh(place + 0.26 * (k - 1), [times[m] for m in methods], 0.24, label=label)
    axes.set_yticks(place, [m.strip("*") for m in methods])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(3.0, color="grey", linewidth=0.8, linestyle=":")
    axes.set_xlabel("time, in units of least squares by the normal equations")
    axes.set_title(title)
    axes.legend(title="corrupted", frameon=False)
    save(figure, path)


def growth(path: Path, panels: list[tuple[str, list[float], dict[str, list[float]]]]) -> None:
    """Draw time over rows, batches and columns side by side, on logarithmic axes."""
    figure, all_axes = plt.subplots(1, len(panels), figsize=(3.2 * len(panels), 3))
    for axes, (label, sizes, lines) in zip(np.atleast_1d(all_axes), panels, strict=True):
        for name, seconds in lines.items():
            axes.loglog(sizes, seconds, marker="o", markersize=3, label=name)
        axes.set_xlabel(label)
        axes.legend(frameon=False)
    np.atleast_1d(all_axes)[0].set_ylabel("seconds")
    figure.tight_layout()
    save(figure, path)


def phases(path: Path, fits: dict[str, dict[str, float]]) -> None:
    """Draw one stacked bar per fit: its seconds by phase."""
    figure, axes = plt.subplots(figsize=(7, 0.5 * len(fits) + 1.2))
    names = list(dict.fromkeys(name for times in fits.values() for name in times))
    left = np.zeros(len(fits))
    for name in names:
        seconds = np.array([times.get(name, 0.0) for times in fits.values()])
        axes.barh(list(fits), seconds, left=left, label=name)
        left += seconds
    axes.invert_yaxis()
    axes.set_xlabel("seconds")
    axes.legend(frameon=False, bbox_to_anchor=(1.0, 1.0), loc="upper left")
    save(figure, path)
