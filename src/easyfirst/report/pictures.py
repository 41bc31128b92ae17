"""Displays as pictures inside a page: SVG in a data URI, the same bytes for the same fit."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from io import StringIO
from typing import Any

from easyfirst.estimators.findings import Findings
from easyfirst.estimators.judging import JudgedRows
from easyfirst.report.drawing import IN_THE_DARK, INK
from easyfirst.report.optional import optional
from easyfirst.report.path_displays import ConvergenceDisplay, PacePathDisplay
from easyfirst.report.row_displays import ResidualDisplay, WeightDisplay

SIZE = (6.2, 3.5)  # inches
STYLE: dict[str, Any] = {"svg.hashsalt": "easyfirst", "font.size": 10.0}
STYLE |= dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), INK)
STYLE |= dict.fromkeys(("xtick.color", "ytick.color", "legend.labelcolor"), INK)
STYLE |= dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none")
STYLE |= {"legend.facecolor": "none", "legend.edgecolor": "none"}


@dataclass(frozen=True)
class Picture:
    """One figure of the page: its place, its bytes, what it shows and how to read it."""

    source: str
    alt: str
    caption: str


def pictures_of(findings: Findings, rows: JudgedRows | None) -> dict[str, Picture]:
    """Draw what can be drawn: residuals, weights, pace, convergence."""
    drawn = {
        "pace": Picture(
            _source(PacePathDisplay.from_findings(findings)),
            "The pace and the share of selected rows, round by round.",
            "The pace is the largest loss at which a row is still selected. It starts low, so "
            "that only the easiest rows are fitted, and grows"
            + (
                "."
                if findings.calibration is None
                else " until clean and corrupted rows can be told apart; then it is read off them."
            ),
        ),
        "convergence": Picture(
            _source(ConvergenceDisplay.from_findings(findings)),
            "How much still changed after each round, on a logarithmic scale.",
            f"A fit ends when its weights stop changing. {findings.status.message}",
        ),
    }
    if rows is not None or findings.calibration is not None:
        drawn["residuals"] = Picture(
            _source(ResidualDisplay.from_findings(findings, rows)),
            "How many rows lie how far from the model: a clean part around zero, a corrupted part "
            "spread out.",
            "Clean rows gather around zero as noise does; corrupted rows lie anywhere. A row looks "
            "wrong where the corrupted part is the higher one. Both axes are compressed, so that "
            "few rows and far rows can be seen.",
        )
    weights = findings.weights
    if rows is not None:
        weights = rows.weight if findings.calibration is None else rows.quality
    if weights is not None:
        drawn["weights"] = Picture(
            _source(WeightDisplay.from_findings(findings, weights)),
            "How many rows have which weight between zero and one.",
            "Rows at the ends are judged with certainty, rows in the middle are in doubt.",
        )
    return drawn


def _source(display: Any) -> str:
    matplotlib = optional("matplotlib", "A report")
    text = StringIO()
    with matplotlib.rc_context(STYLE):
        made = optional("matplotlib.figure", "A report").Figure
        figure = made(figsize=SIZE, layout="constrained")
        display.plot(figure.subplots())
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    # A hundredth of a point is fine enough, and half of the file. Numbers below one are left
    # alone, since some are factors.
    svg = re.sub(r"(?<![\d.])([1-9]\d*\.\d\d)\d+", r"\1", text.getvalue())
    svg = svg.replace("</style>", f"{_dark_rules()}</style>", 1)
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode("ascii")


def _dark_rules() -> str:
    """Return the style by which a picture changes its colours with the page around it."""
    rules = [
        f'[style*="{what}: {light.lower()}"]{{{what}:{dark} !important}}'
        for light, dark in IN_THE_DARK.items()
        for what in ("fill", "stroke")
    ]
    return "@media (prefers-color-scheme: dark){" + "".join(rules) + "}"
