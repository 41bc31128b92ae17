"""Pictures of the rows of a fit: their residuals and their weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from easyfirst.calibration import WINDOW
from easyfirst.contracts import Vector
from easyfirst.estimators.findings import Findings, findings_of
from easyfirst.estimators.judging import JudgedRows
from easyfirst.noise import NoiseModel
from easyfirst.report.drawing import CLEAN, CORRUPTED, Display, axes_for, dress, log_scale

BINS = 81  # odd, so that one bin is centred on zero
CORE = 3.0  # noise scales within which the axis is about linear; beyond it is logarithmic
FINENESS = 16  # points per bin at which a density is looked at
NARROWEST = 6.0  # noise scales shown on each side, at least


@dataclass(eq=False, repr=False)
class ResidualDisplay(Display):
    """The residuals' clean and corrupted parts, and the mixture that was fitted to them.

    Parameters
    ----------
    edges
        Bounds of the bins, in units of `unit`.
    clean, corrupted
        Expected numbers of clean and corrupted rows in each bin: sums of their weights, and of
        what is left to one. None where no rows were given.
    expected_clean, expected_corrupted
        The same as the fitted mixture has it. None without a calibrated pace.
    unit
        The unit of residuals, for the axis.
    """

    edges: Vector
    clean: Vector | None
    corrupted: Vector | None
    expected_clean: Vector | None
    expected_corrupted: Vector | None
    unit: str = "standard deviations"

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, y: Any = None, *, ax: Any = None
    ) -> Self:
        """Draw the residuals of rows, or without rows what the fit knows about them."""
        if (X is None) != (y is None):
            raise ValueError("give both X and y, or neither")
        rows = None if X is None else estimator.judge(X, y)
        return cls.from_findings(findings_of(estimator), rows).plot(ax)

    @classmethod
    def from_findings(cls, findings: Findings, rows: JudgedRows | None = None) -> Self:
        """Gather the data without drawing."""
        if rows is None and findings.calibration is None:
            raise ValueError(
                "without a calibrated pace the model knows nothing about its residuals: give the "
                "rows, X and y"
            )
        reach = WINDOW if rows is None else float(np.max(np.abs(rows.residual), initial=0.0))
        edges = _edges(max(1.02 * reach, NARROWEST))
        clean = corrupted = expected_clean = expected_corrupted = None
        if rows is not None:
            certain = rows.weight if findings.calibration is None else rows.quality
            clean = np.histogram(rows.residual, edges, weights=certain)[0]
            corrupted = np.histogram(rows.residual, edges, weights=1.0 - certain)[0]
        if findings.calibration is not None:
            noise = findings.calibration.noise
            n_rows = noise.total if rows is None else float(rows.given.size)
            expected_clean = n_rows * noise.scale * _per_bin(noise.clean_density, edges, noise)
            expected_corrupted = (
                n_rows * noise.scale * _per_bin(noise.corrupted_density, edges, noise)
            )
        unit = "standard deviations" if findings.calibration is not None else "roots of the pace"
        return cls(edges, clean, corrupted, expected_clean, expected_corrupted, unit)

    def plot(self, ax: Any = None) -> Self:
        """Draw bars for the rows and lines for the mixture."""
        ax = axes_for(ax)
        title = "Residuals: the clean and the corrupted part"
        dress(ax, title, f"given minus predicted ({self.unit})", "rows per bin")
        ax.set_xscale("asinh", linear_width=CORE)
        ax.set_yscale("function", functions=(_signed_root, _signed_square))
        for values, color, label in (
            (self.clean, CLEAN, "rows, clean part"),
            (self.corrupted, CORRUPTED, "rows, corrupted part"),
        ):
            if values is not None:
                ax.stairs(values, self.edges, fill=True, color=color, alpha=0.55, label=label)
        middle = CORE * np.sinh(0.5 * np.sum(_stretched(self.edges), axis=0))
        for values, color, style, label in (
            (self.expected_clean, CLEAN, "-", "clean, as fitted"),
            (self.expected_corrupted, CORRUPTED, "--", "corrupted, as fitted"),
        ):
            if values is not None:
                shown = np.where(values > 0, values, np.nan)
                ax.plot(middle, shown, style, color=color, lw=1.6, label=label)
        _readable_ticks(ax, float(self.edges[-1]))
        ax.set_ylim(bottom=0.0)
        ax.legend(loc="upper right", fontsize="small", framealpha=0.9)
        return self._drawn(ax)


@dataclass(eq=False, repr=False)
class WeightDisplay(Display):
    """How many rows have which weight: few in the middle means that few are in doubt.

    Parameters
    ----------
    weights
        One weight per row.
    meaning
        What a weight is, for the axis.
    """

    weights: Vector
    meaning: str = "probability that the row is clean"

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, y: Any = None, *, ax: Any = None
    ) -> Self:
        """Draw the weights of the rows of the fit, or of the rows given."""
        if (X is None) != (y is None):
            raise ValueError("give both X and y, or neither")
        findings = findings_of(estimator)
        weights = findings.weights if X is None else estimator.judge(X, y).weight
        if weights is None:
            raise ValueError("this model does not keep the weights of its rows: give X and y")
        return cls.from_findings(findings, weights).plot(ax)

    @classmethod
    def from_findings(cls, findings: Findings, weights: Vector) -> Self:
        """Gather the data without drawing."""
        if findings.calibration is None:
            return cls(weights, "self-paced weight")
        return cls(weights)

    def plot(self, ax: Any = None) -> Self:
        """Draw the histogram, kept rows and others in their colours."""
        ax = axes_for(ax)
        dress(ax, "Weights of the rows", f"weight ({self.meaning})", "rows (log scale)")
        edges = np.linspace(0.0, 1.0, 41)
        counts = np.histogram(self.weights, edges)[0]
        out = edges[:-1] < 0.5
        for part, color, label in (
            (out, CORRUPTED, "looks wrong: below one half"),
            (~out, CLEAN, "looks clean"),
        ):
            rows = int(counts[part].sum())
            ax.stairs(
                counts[part],
                np.append(edges[:-1][part], edges[1:][part][-1]),
                fill=True,
                color=color,
                alpha=0.8,
                label=f"{label} ({rows:,} rows)",
            )
        ax.set_ylim(0.5, 2.0 * max(float(counts.max(initial=1)), 1.0))
        log_scale(ax)
        ax.legend(loc="upper center", fontsize="small", framealpha=0.9)
        return self._drawn(ax)


def _edges(reach: float) -> Vector:
    """Return bin bounds that are even near zero and grow in proportion further out."""
    end = np.arcsinh(reach / CORE)
    return np.asarray(CORE * np.sinh(np.linspace(-end, end, BINS + 1)))


def _stretched(edges: Vector) -> Vector:
    place = np.arcsinh(edges / CORE)
    return np.stack([place[:-1], place[1:]])


def _per_bin(density: Callable[[Vector], Vector], edges: Vector, noise: NoiseModel) -> Vector:
    """Return the integral of a density over bins in noise scales; none outside the window."""
    points = edges[:-1] + np.diff(edges) * (np.arange(FINENESS)[:, None] + 0.5) / FINENESS
    mass = density((noise.scale * points).ravel()).reshape(points.shape).mean(axis=0)
    # A bin half inside would look like a drop.
    whole = (edges[:-1] >= -WINDOW) & (edges[1:] <= WINDOW)
    return np.asarray(np.where(whole, mass * np.diff(edges), 0.0))


def _signed_root(values: Any) -> Any:
    return np.sign(values) * np.sqrt(np.abs(values))


def _signed_square(values: Any) -> Any:
    return np.sign(values) * np.square(values)


def _readable_ticks(ax: Any, reach: float) -> None:
    """Label 0, 3, 10, 30 and so on, on both sides, as plain numbers."""
    steps = [base * 10.0**power for power in range(13) for base in (1.0, 3.0)]
    used = [step for step in steps if 3.0 <= step <= reach]
    used = used[:: max(1, -(-len(used) // 5))]
    ticks = [-step for step in reversed(used)] + [0.0, *used]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xticks([], minor=True)
