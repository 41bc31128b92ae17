"""Pictures of how a fit went, round by round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from easyfirst.contracts import Vector
from easyfirst.estimators.findings import Findings, findings_of
from easyfirst.report.drawing import (
    ACCENT,
    CLEAN,
    CORRUPTED,
    FAINT,
    OTHER,
    Display,
    axes_for,
    dress,
    legend_above,
    log_scale,
)

SMALLEST = 1e-16  # what counts as zero on a logarithmic axis


@dataclass(eq=False, repr=False)
class PacePathDisplay(Display):
    """How the pace grew, round by round, and which share of the rows it selected.

    Parameters
    ----------
    rounds, pace, selected_share
        One entry per round; the pace is in units of the loss.
    n_sample_rounds
        How many of the first rounds ran on a sample, to find the start.
    """

    rounds: Vector
    pace: Vector
    selected_share: Vector
    n_sample_rounds: int = 0

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the pace path of a fitted model."""
        return cls.from_findings(findings_of(estimator)).plot(ax)

    @classmethod
    def from_findings(cls, findings: Findings) -> Self:
        """Gather the data without drawing."""
        records = findings.history.rounds
        return cls(
            rounds=np.array([record.round for record in records], dtype=np.float64),
            pace=np.array([record.pace for record in records]),
            selected_share=np.array(
                [np.mean(record.batch_selected_share or (np.nan,)) for record in records]
            ),
            n_sample_rounds=sum(record.rows == "sample" for record in records),
        )

    def plot(self, ax: Any = None) -> Self:
        """Draw the pace on the left axis and the share of selected rows on the right one."""
        ax = axes_for(ax)
        dress(ax, "Pace path", "round", "pace (squared units of y)")
        finite = np.where(np.isfinite(self.pace) & (self.pace > 0), self.pace, np.nan)
        shade = _mark_sample(ax, self.rounds, self.n_sample_rounds)
        (line,) = ax.plot(self.rounds, finite, "o-", color=CLEAN, ms=4, label="pace (left axis)")
        if np.any(np.isfinite(finite)):
            log_scale(ax)
        right = ax.twinx()
        (share,) = right.plot(
            self.rounds,
            100.0 * self.selected_share,
            "s--",
            color=CORRUPTED,
            ms=4,
            label="rows selected (right axis)",
        )
        right.set_ylabel("rows selected (%)")
        right.set_ylim(0.0, 104.0)
        right.spines["top"].set_visible(False)
        legend_above(ax, [line, share, *shade])
        _whole_rounds(ax)
        return self._drawn(ax)


@dataclass(eq=False, repr=False)
class ConvergenceDisplay(Display):
    """How far from its end the fit was after each round; all curves should fall.

    Parameters
    ----------
    rounds
        The rounds' numbers.
    curves
        One entry per round for each named curve.
    n_sample_rounds
        How many of the first rounds ran on a sample, to find the start.
    """

    rounds: Vector
    curves: dict[str, Vector]
    n_sample_rounds: int = 0

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the convergence of a fitted model."""
        return cls.from_findings(findings_of(estimator)).plot(ax)

    @classmethod
    def from_findings(cls, findings: Findings) -> Self:
        """Gather the data without drawing."""
        records = findings.history.rounds
        fields = {
            "weight that still changed (share)": "changed",
            "gradient of the fit (cosine)": "kkt_residual",
            "batches from consensus (primal residual)": "primal_residual",
            "consensus from the last one (dual residual)": "dual_residual",
        }
        curves = {
            label: np.array([getattr(record, field) for record in records], dtype=np.float64)
            for label, field in fields.items()
        }
        return cls(
            rounds=np.array([record.round for record in records], dtype=np.float64),
            # A fit in one message per round has no consensus to wait for.
            curves={label: values for label, values in curves.items() if np.any(values > 0)},
            n_sample_rounds=sum(record.rows == "sample" for record in records),
        )

    def plot(self, ax: Any = None) -> Self:
        """Draw all curves on one logarithmic axis."""
        ax = axes_for(ax)
        dress(ax, "Convergence", "round", "distance from the end (log scale)")
        _mark_sample(ax, self.rounds, self.n_sample_rounds)
        styles = (("o-", CLEAN), ("s--", CORRUPTED), ("^:", OTHER), ("v-.", ACCENT))
        for (label, values), (style, color) in zip(self.curves.items(), styles, strict=False):
            shown = np.maximum(values, SMALLEST)
            ax.plot(self.rounds, shown, style, color=color, ms=4, label=label)
        if self.curves:
            log_scale(ax)
            ax.legend(loc="best", fontsize="small", framealpha=0.9)
        _whole_rounds(ax)
        return self._drawn(ax)


def _mark_sample(ax: Any, rounds: Vector, n_sample_rounds: int) -> list[Any]:
    """Shade the rounds that ran on a sample; return what belongs in the legend."""
    if not n_sample_rounds:
        return []
    first, last = rounds[0] - 0.5, rounds[n_sample_rounds - 1] + 0.5
    return [ax.axvspan(first, last, color=FAINT, alpha=0.3, lw=0, label="rounds on a sample")]


def _whole_rounds(ax: Any) -> None:
    """Rounds are counted, so ticks are whole numbers."""
    ax.xaxis.get_major_locator().set_params(integer=True)
