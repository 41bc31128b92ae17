"""A fitted model at a glance, as text, as HTML and as a data frame."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from easyfirst.consensus.fitted import Calibration
from easyfirst.estimators.findings import Findings
from easyfirst.report.verdict import corrupted_share
from easyfirst.report.wording import number, percent, visible

WIDTH = 80
NAME_WIDTH = 24
MOST_SHOWN = 60  # coefficients in the text; the frame has all
NO_CALIBRATION = (
    "No standard errors, noise scale or corrupted share: only the calibrated pace (pace=None) "
    "estimates them."
)


@dataclass(frozen=True, eq=False)
class Summary:
    """What a fit found; print it, show it in a notebook, or take `to_frame()`.

    Parameters
    ----------
    findings
        The fitted model's findings.
    level
        Confidence level of the intervals.
    excused
        The share of rows that the fit takes for corrupted because something was filled in.
    """

    findings: Findings
    level: float = 0.95
    excused: float = 0.0

    def __post_init__(self) -> None:
        """Reject a level that is no probability."""
        if not 0 < self.level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {self.level!r}")

    def header(self) -> dict[str, str]:
        """Return what stands above the coefficients, in order, as text."""
        return dict(self._header())

    def notes(self) -> list[str]:
        """Return what a reader of the numbers must know: how it ended, and every doubt."""
        missing = [] if self.findings.calibration is not None else [NO_CALIBRATION]
        findings = self.findings
        return [findings.status.message, *missing, *findings.notes, *findings.doubts]

    def to_frame(self, backend: Any = "pandas") -> Any:
        """Return one row per coefficient as a data frame of the given library.

        Columns: name, coef, and for a calibrated pace std_err, t, lower, upper. The intercept,
        if there is one, is the last row.
        """
        return nw.from_dict(self.columns(), backend=backend).to_native()

    def columns(self) -> dict[str, list[Any]]:
        """Return the coefficient table as columns."""
        findings = self.findings
        table: dict[str, list[Any]] = {
            "name": list(findings.labels),
            "coef": findings.values.tolist(),
        }
        errors, bounds = findings.standard_errors, findings.intervals(self.level)
        if errors is not None and bounds is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                t = findings.values / errors
            table |= {
                "std_err": errors.tolist(),
                "t": t.tolist(),
                "lower": bounds[:, 0].tolist(),
                "upper": bounds[:, 1].tolist(),
            }
        return table

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        """Return the summary as text of 80 columns."""
        rule = "=" * WIDTH
        notes = [
            line
            for note in self.notes()
            for line in textwrap.wrap(note, WIDTH, subsequent_indent="  ")
        ]
        is_linear = self.findings.values.size > 0
        title = f"Self-paced {'linear ' if is_linear else ''}regression".center(WIDTH).rstrip()
        table = [*self._table_lines(), rule] if is_linear else []
        return "\n".join([title, rule, *self._header_lines(), rule, *table, *notes])

    def _repr_html_(self) -> str:
        """Return the summary for a notebook."""
        cells = [
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in self._header()
        ]
        head, *rows = self._text_table()
        top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
        body = [
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in rows
        ]
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes())
        return (
            f"<div><table>{''.join(cells)}</table>"
            f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(body)}</tbody></table>"
            f"<ul>{notes}</ul></div>"
        )

    def _header(self) -> Iterator[tuple[str, str]]:
        findings = self.findings
        if findings.n_rows is not None:
            yield "Rows", f"{findings.n_rows:,.0f}"
        if findings.values.size:
            yield "Coefficients", f"{findings.values.size:,}"
        if not findings.transform.is_identity:
            yield "Fitted", findings.transform.label()
        if findings.weights is not None:
            wrong = int(np.count_nonzero(findings.weights < 0.5))
            share = wrong / max(findings.weights.size, 1)
            yield "Rows that look wrong", f"{wrong:,} ({percent(share)})"
        if findings.calibration is not None:
            share, low, high = corrupted_share(findings, self.excused)
            yield "Corrupted share", f"{percent(share)} (95 %: {percent(low)} to {percent(high)})"
            yield self._noise(findings.calibration)
        yield "Pace", number(findings.pace)
        yield "Rounds", findings.rounds_in_words
        yield "Status", findings.status.code

    def _noise(self, calibration: Calibration) -> tuple[str, str]:
        """Return what clean rows look like: the name and the value."""
        if calibration.is_of_counts:
            spread = number(calibration.counts.dispersion)
            is_count = calibration.counts.family == "poisson"
            return "Variance", f"{'mean + ' if is_count else ''}{spread} mean^2"
        scale, transform = number(calibration.noise.scale), self.findings.transform
        return "Noise scale", scale if transform.is_identity else f"{scale} of {transform.label()}"

    def _header_lines(self) -> list[str]:
        return [f"{name + ':':<24}{value}" for name, value in self._header()]

    def _text_table(self) -> list[tuple[str, ...]]:
        """Return the head and the rows of the coefficient table as text."""
        table = self.columns()
        half = (1.0 - self.level) / 2.0
        heads = {
            "name": "",
            "coef": "coef",
            "std_err": "std err",
            "t": "t",
            "lower": f"[{half:.3g}",
            "upper": f"{1.0 - half:.3g}]",
        }
        names = [visible(name, NAME_WIDTH) for name in table["name"]]
        columns = [names, *([number(x) for x in table[key]] for key in list(table)[1:])]
        rows = list(zip(*columns, strict=True))
        if len(rows) > MOST_SHOWN:
            left_out = len(rows) - MOST_SHOWN
            filler = (f"... {left_out:,} more", *[""] * (len(columns) - 1))
            rows = [*rows[: MOST_SHOWN - 1], filler, rows[-1]]
        return [tuple(heads[key] for key in table), *rows]

    def _table_lines(self) -> list[str]:
        head, *rows = self._text_table()
        lines = [f"{row[0]:<{NAME_WIDTH}}" + "".join(f"{c:>11}" for c in row[1:]) for row in rows]
        top = f"{head[0]:<{NAME_WIDTH}}" + "".join(f"{cell:>11}" for cell in head[1:])
        return [top, "-" * WIDTH, *lines]
