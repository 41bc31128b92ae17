"""The report: one HTML file that needs nothing else and shows no more than it was asked to.

The page has no script and loads nothing: a content security policy forbids both, whatever the
names of columns and rows contain. Every text passes the template's escaping; names are made
visible first (`wording.visible`).
"""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any, Self

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from easyfirst.atomic import atomic_write
from easyfirst.estimators.findings import Findings
from easyfirst.estimators.judging import JudgedRows
from easyfirst.report.batches import batch_lines
from easyfirst.report.fixes import Fixes
from easyfirst.report.least_squares import Comparison, compare_with_least_squares
from easyfirst.report.optional import optional
from easyfirst.report.pictures import pictures_of
from easyfirst.report.summary import Summary
from easyfirst.report.suspects import reason
from easyfirst.report.verdict import verdict_on
from easyfirst.report.wording import cell, number, percent, visible

MOST_COEFFICIENTS = 200
MOST_BATCHES = 50
MOST_SUSPECTS = 50
MOST_VALUES = 30  # columns shown of a suspicious row


@dataclass(frozen=True, eq=False)
class ReportRows:
    """The rows of a fit, judged, with what names and describes them.

    `X` is numeric, as the model takes it. `values` is None unless the user asked to see them.
    `remarks` are causes that only a table knows, by row.
    """

    X: Any
    judged: JudgedRows
    ids: NDArray[Any]
    fixes: Fixes
    values: Any = None
    show_target: bool = True
    remarks: Mapping[int, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse values of other rows."""
        n_rows = self.judged.given.size
        if self.values is not None and self.values.shape[0] != n_rows:
            raise ValueError(
                f"show_rows has {self.values.shape[0]:,} lines for {n_rows:,} rows of X"
            )


@dataclass(frozen=True)
class ColumnLine:
    """One column of a table: what it was taken as, and what became of it."""

    name: str
    kind: str
    becomes: str


@dataclass(frozen=True)
class Origin:
    """Where the rows come from, as the page says it first: details by name, columns, notes.

    `lead` is a sentence below the headline, about rows that the model does not judge.
    """

    details: Mapping[str, str] = field(default_factory=dict)
    columns: Sequence[ColumnLine] = ()
    notes: Sequence[str] = ()
    lead: str = ""


@dataclass(frozen=True, eq=False)
class Report:
    """The page; a notebook shows it in place.

    Parameters
    ----------
    html
        The whole page.
    path
        Where it was written, if it was.
    """

    html: str
    path: Path | None = None

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> Self:
        """Write the page; the file appears complete or not at all."""
        return replace(self, path=write_page(path, self.html, overwrite))

    def __repr__(self) -> str:
        where = "not saved" if self.path is None else str(self.path)
        return f"<easyfirst report of {len(self.html) // 1000:,} kB, {where}>"

    def _repr_html_(self) -> str:
        """Return the page in a frame, where its style and the notebook's do not meet."""
        frame = 'sandbox="" style="width: 100%; height: 46rem; border: 0" title="easyfirst report"'
        return f'<iframe {frame} srcdoc="{html.escape(self.html, quote=True)}"></iframe>'


def render(
    findings: Findings,
    rows: ReportRows | None = None,
    batches: NDArray[Any] | None = None,
    origin: Origin | None = None,
    patterns: Sequence[str] = (),
) -> str:
    """Return the page."""
    page: str = (
        environment()
        .get_template("report.html.j2")
        .render(
            _context(findings, rows, batches)
            | {"origin": origin or origin_of(findings), "patterns": patterns}
        )
    )
    return page


def environment() -> Any:
    """Return where templates are found, with what they write numbers and names by."""
    jinja2 = optional("jinja2", "A report")
    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": number,
        "percent": percent,
        "visible": visible,
        "chance": lambda share: f"{min(round(100 * share), 99)} %",
        "tied": lambda text: text.replace(" %", "\N{NO-BREAK SPACE}%"),
    }
    return made


def write_page(path: str | os.PathLike[str], page: str, overwrite: bool = False) -> Path:
    """Write the page in one step: the file is complete or not there."""
    target = Path(path)
    check_target(target, overwrite)
    with atomic_write(target, overwrite=overwrite) as beside:
        beside.write_text(page, encoding="utf-8", newline="\n")
    return target


def check_target(target: Path, overwrite: bool) -> None:
    """Protect what exists, and refuse a place where nothing can be written."""
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.parent} is not a directory: create it first")
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory: give the path of a file")
    if not overwrite and os.path.lexists(target):
        raise FileExistsError(f"{target} exists already: choose another path or overwrite=True")


def origin_of(findings: Findings) -> Origin:
    """Return what a model alone knows about its rows."""
    details = {}
    if findings.n_rows is not None:
        details["Rows"] = f"{findings.n_rows:,.0f}"
    details["Columns"] = f"{findings.coef.size:,}"
    if findings.fitted_at is not None:
        details["Fitted"] = written_time(findings.fitted_at)
    return Origin(details)


def written_time(moment: str) -> str:
    """Return a moment in ISO format as a person reads it.

    Examples
    --------
    >>> written_time("2026-03-01T14:05:59+00:00")
    '2026-03-01 14:05 UTC'
    """
    return f"{datetime.fromisoformat(moment).astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _template(name: str) -> str:
    return resources.files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


def _context(
    findings: Findings, rows: ReportRows | None, batches: NDArray[Any] | None
) -> dict[str, Any]:
    judged = None if rows is None else rows.judged
    weights = findings.weights if judged is None else judged.quality
    comparison = None if rows is None else compare_with_least_squares(findings, rows.X, rows.judged)
    lines = batch_lines(findings, batches)
    if batches is None and all(line.word == "ordinary" for line in lines):
        lines = []  # pieces of the table that nobody named, and none of which stands out
    return {
        "verdict": verdict_on(
            findings, weights, comparison, 0.0 if judged is None else judged.excused
        ),
        "header": _header(findings, judged),
        "findings": findings,
        "pictures": pictures_of(findings, judged),
        "coefficients": _coefficients(findings, comparison),
        "n_coefficients": findings.values.size,
        "most_coefficients": MOST_COEFFICIENTS,
        "has_errors": findings.calibration is not None,
        "has_least_squares": comparison is not None,
        "batches": lines[:MOST_BATCHES],
        "n_batches": len(lines),
        "n_bad_batches": sum(line.word == "bad" for line in lines),
        "suspects": None if rows is None else _suspects(findings, rows),
        "value_names": [] if rows is None else _value_names(findings, rows.values),
        "n_suspects": 0 if rows is None else int(np.count_nonzero(rows.judged.is_wrong)),
        "shows_target": rows is not None and rows.show_target,
    }


def _header(findings: Findings, judged: JudgedRows | None) -> dict[str, str]:
    """Return the fit in numbers; how many rows look wrong is what the page says above."""
    header = Summary(findings).header()
    if judged is not None:
        header.pop("Rows that look wrong", None)
        header.pop("Corrupted share", None)
    return header


def _coefficients(findings: Findings, comparison: Comparison | None) -> list[dict[str, Any]]:
    table = Summary(findings).columns()
    if comparison is not None:
        table["least_squares"] = comparison.values.tolist()
        if findings.standard_errors is not None:
            errors = np.where(findings.standard_errors > 0, findings.standard_errors, np.nan)
            table["moved"] = ((comparison.values - findings.values) / errors).tolist()
    lines = [dict(zip(table, line, strict=True)) for line in zip(*table.values(), strict=True)]
    # The intercept is the last one and always shown.
    return (
        lines if len(lines) <= MOST_COEFFICIENTS else [*lines[: MOST_COEFFICIENTS - 1], lines[-1]]
    )


def _suspects(findings: Findings, rows: ReportRows) -> list[dict[str, Any]]:
    judged, fixes = rows.judged, rows.fixes
    worst = judged.worst()[:MOST_SUSPECTS]
    cells = [[] for _ in worst] if rows.values is None else _values(rows.values, worst)
    return [
        {
            "id": rows.ids[row],
            "residual": float(judged.residual[row]),
            "quality": float(judged.quality[row]),
            "given": float(judged.given[row]),
            "predicted": float(judged.predicted[row]),
            "reason": _why(findings, rows, int(row)),
            "fix": fixes.fix[row],
            "fixed": float(fixes.value[row]),
            "probability": float(fixes.probability[row]),
            "values": values,
        }
        for row, values in zip(worst, cells, strict=True)
    ]


def _why(findings: Findings, rows: ReportRows, row: int) -> str:
    """Return the reason without the values, which stand in columns of their own."""
    whole = reason(findings, rows.judged, row, rows.fixes.cause[row], rows.remarks.get(row, ()))
    return whole.partition(": ")[2]


def _value_names(findings: Findings, values: Any) -> list[str]:
    if values is None:
        return []
    frame = nw.from_native(values, pass_through=True, eager_only=True)
    names = frame.columns if isinstance(frame, nw.DataFrame) else findings.names
    return [str(name) for name in names[:MOST_VALUES]]


def _values(values: Any, rows: NDArray[np.intp]) -> list[list[str]]:
    """Return the values of some rows as text."""
    frame = nw.from_native(values, pass_through=True, eager_only=True)
    if isinstance(frame, nw.DataFrame):
        picked = frame[rows.tolist(), :]
        columns = [picked[name].to_list() for name in frame.columns[:MOST_VALUES]]
        table = [list(line) for line in zip(*columns, strict=True)]
    else:
        part = values[rows][:, :MOST_VALUES]
        table = (part.toarray() if sp.issparse(part) else np.asarray(part)).tolist()
    return [[cell(value) for value in line] for line in table]
