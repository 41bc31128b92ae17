"""Displays as pictures inside a page: SVG in a data URI, the same bytes for the same fit."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from io import StringIO
from typing import Any

from easyfirst.report.facts import FitFacts
from easyfirst.report.optional import optional
from easyfirst.report.path_displays import ConvergenceDisplay, PacePathDisplay
from easyfirst.report.row_displays import ResidualDisplay, WeightDisplay
from easyfirst.report.suspects import JudgedRows

SIZE = (6.2, 3.5)  # inches
WIDE = (7.6, 3.6)
STYLE = {"svg.hashsalt": "easyfirst", "font.size": 10.0}


@dataclass(frozen=True)
class Picture:
    """One figure of the page: its place, its bytes, what it shows and how to read it."""

    source: str
    alt: str
    caption: str


def pictures_of(facts: FitFacts, rows: JudgedRows | None) -> dict[str, Picture]:
    """Draw what can be drawn: residuals, weights, pace, convergence."""
    drawn = {
        "pace": Picture(
            _source(PacePathDisplay.from_facts(facts)),
            "The pace and the share of selected rows, round by round.",
            "The pace is the largest loss a row may have and still take part. It starts low, so "
            "that only the easiest rows are fitted, and grows"
            + (
                "."
                if facts.calibration is None
                else " until clean and corrupted rows can be told apart; then it is read off them."
            ),
        ),
        "convergence": Picture(
            _source(ConvergenceDisplay.from_facts(facts)),
            "How much still changed after each round, on a logarithmic scale.",
            f"A fit has ended when its weights stand still. {facts.status.message}",
        ),
    }
    if rows is not None or facts.calibration is not None:
        drawn["residuals"] = Picture(
            _source(ResidualDisplay.from_facts(facts, rows), WIDE),
            "How many rows lie how far from the model: a clean part around zero, a corrupted part "
            "spread out.",
            "Clean rows gather around zero as noise does; corrupted rows lie anywhere. A row looks "
            "wrong where the corrupted part is the higher one. Both axes are compressed, so that "
            "few rows and far rows can be seen.",
        )
    weights = facts.weights if rows is None else rows.weight
    if weights is not None:
        drawn["weights"] = Picture(
            _source(WeightDisplay.from_facts(facts, weights)),
            "How many rows have which weight between zero and one.",
            "Rows at the ends are judged with certainty, rows in the middle are in doubt.",
        )
    return drawn


def _source(display: Any, size: tuple[float, float] = SIZE) -> str:
    matplotlib = optional("matplotlib", "A report")
    figure = optional("matplotlib.figure", "A report").Figure(figsize=size, layout="constrained")
    text = StringIO()
    with matplotlib.rc_context(STYLE):
        display.plot(figure.subplots())
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    # A hundredth of a point is fine enough, and half of the file. Numbers below one are left
    # alone, since some are factors.
    svg = re.sub(r"(?<![\d.])([1-9]\d*\.\d\d)\d+", r"\1", text.getvalue())
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode("ascii")
