"""The common look of displays, in colours that any colour vision tells apart (Okabe and Ito)."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

from easyfirst.report.optional import optional

CLEAN = "#0072B2"  # blue
CORRUPTED = "#D55E00"  # vermilion
OTHER = "#009E73"  # bluish green
ACCENT = "#CC79A7"  # reddish purple
INK = "#333333"
FAINT = "#bbbbbb"
# The same on a dark page.
IN_THE_DARK = {
    CLEAN: "#56b4e9",
    CORRUPTED: "#f0924c",
    OTHER: "#35c99c",
    ACCENT: "#e6a5c8",
    INK: "#d5dce4",
    FAINT: "#4a5563",
}


class Display:
    """A picture in the manner of scikit-learn's displays.

    `from_estimator` gathers the data and draws, `plot` draws again; afterwards `ax_` and
    `figure_` hold the matplotlib objects. Needs the 'plot' extra.
    """

    ax_: Any
    figure_: Any

    def __repr__(self) -> str:
        """Return the fields, arrays by their length: a notebook shows the picture, not the data."""
        shown = []
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value is not None:
                shown.append(f"{field.name}={_brief(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def _drawn(self, ax: Any) -> Self:
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _brief(value: Any) -> str:
    """Return a value in a few words."""
    if isinstance(value, str | int | float):
        return repr(value)
    return f"<{len(value):,} values>" if hasattr(value, "__len__") else f"<{type(value).__name__}>"


def axes_for(ax: Any) -> Any:
    """Return the axes given, or new ones."""
    if ax is not None:
        return ax
    pyplot = optional("matplotlib.pyplot", "A display")
    return pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")[1]


def dress(ax: Any, title: str, x: str, y: str) -> None:
    """Give axes their title, their labels with units, and the common look."""
    ax.set_title(title, loc="left", color=INK)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.grid(True, axis="y", color=FAINT, alpha=0.5, lw=0.5)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def log_scale(ax: Any) -> None:
    """Make the y axis logarithmic, with ticks at powers of ten, or closer where these are few."""
    ticker = optional("matplotlib.ticker", "A display")
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    ax.yaxis.set_minor_locator(ticker.NullLocator())
    if high < 100.0 * low:
        ax.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))


def legend_above(ax: Any, handles: list[Any]) -> None:
    """Put the legend between title and plot, where it hides nothing."""
    ax.set_title(ax.get_title(loc="left"), loc="left", pad=22)
    ax.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=len(handles),
        fontsize="small",
        frameon=False,
        borderaxespad=0.2,
        columnspacing=1.2,
        handletextpad=0.5,
    )
