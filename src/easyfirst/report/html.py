"""The report: one HTML file that needs nothing else and shows no more than it was asked to.

The page has no script and loads nothing: a content security policy forbids both, whatever the
names of columns and rows contain. Every text passes the template's escaping; names are made
visible first (`wording.visible`).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from easyfirst.report.batches import batch_lines
from easyfirst.report.facts import FitFacts
from easyfirst.report.least_squares import Comparison, compare_with_least_squares
from easyfirst.report.optional import optional
from easyfirst.report.pictures import pictures_of
from easyfirst.report.summary import Summary
from easyfirst.report.suspects import JudgedRows, reason
from easyfirst.report.verdict import verdict_on
from easyfirst.report.wording import number, percent, visible

MOST_COEFFICIENTS = 200
MOST_BATCHES = 50
MOST_SUSPECTS = 50
MOST_VALUES = 30  # columns shown of a suspicious row


@dataclass(frozen=True, eq=False)
class ReportRows:
    """The rows of a fit, judged, with what names and describes them.

    `X` is numeric, as the model takes it. `values` is None unless the user asked to see them.
    """

    X: Any
    judged: JudgedRows
    ids: NDArray[Any]
    values: Any = None


def render(
    facts: FitFacts, rows: ReportRows | None = None, batches: NDArray[Any] | None = None
) -> str:
    """Return the page."""
    jinja2 = optional("jinja2", "A report")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": number,
        "percent": percent,
        "visible": visible,
        "tied": lambda text: text.replace(" %", "\N{NO-BREAK SPACE}%"),
    }
    page: str = environment.get_template("report.html.j2").render(_context(facts, rows, batches))
    return page


def write_page(path: str | os.PathLike[str], page: str, overwrite: bool = False) -> Path:
    """Write the page in one step: the file is complete or not there."""
    target = Path(path)
    check_target(target, overwrite)
    beside = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}")
    try:
        with open(beside, "x", encoding="utf-8", newline="\n") as file:
            file.write(page)
            file.flush()
            os.fsync(file.fileno())
        check_target(target, overwrite)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
    return target


def check_target(target: Path, overwrite: bool) -> None:
    """Protect what exists, and refuse a place where nothing can be written."""
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.parent} is no directory: create it first")
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory: give the path of a file")
    if not overwrite and os.path.lexists(target):
        raise FileExistsError(f"{target} exists already: choose another path or overwrite=True")


def _template(name: str) -> str:
    return resources.files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


def _context(
    facts: FitFacts, rows: ReportRows | None, batches: NDArray[Any] | None
) -> Mapping[str, Any]:
    judged = None if rows is None else rows.judged
    weights = facts.weights if judged is None else judged.weight
    comparison = None if rows is None else compare_with_least_squares(facts, rows.X, rows.judged)
    lines = batch_lines(facts, batches)
    return {
        "verdict": verdict_on(facts, weights, comparison),
        "header": Summary(facts).header(),
        "facts": facts,
        "pictures": pictures_of(facts, judged),
        "coefficients": _coefficients(facts, comparison),
        "n_coefficients": facts.values.size,
        "most_coefficients": MOST_COEFFICIENTS,
        "has_errors": facts.calibration is not None,
        "has_least_squares": comparison is not None,
        "batches": lines[:MOST_BATCHES],
        "n_batches": len(lines),
        "n_bad_batches": sum(line.word == "bad" for line in lines),
        "suspects": None if rows is None else _suspects(facts, rows),
        "value_names": [] if rows is None else _value_names(facts, rows.values),
        "most_suspects": MOST_SUSPECTS,
        "shows_values": rows is not None and rows.values is not None,
    }


def _coefficients(facts: FitFacts, comparison: Comparison | None) -> list[dict[str, Any]]:
    table = Summary(facts).columns()
    if comparison is not None:
        table["least_squares"] = comparison.values.tolist()
        if facts.standard_errors is not None:
            errors = np.where(facts.standard_errors > 0, facts.standard_errors, np.nan)
            table["moved"] = ((comparison.values - facts.values) / errors).tolist()
    lines = [dict(zip(table, line, strict=True)) for line in zip(*table.values(), strict=True)]
    # The intercept is the last one and always shown.
    return (
        lines if len(lines) <= MOST_COEFFICIENTS else [*lines[: MOST_COEFFICIENTS - 1], lines[-1]]
    )


def _suspects(facts: FitFacts, rows: ReportRows) -> list[dict[str, Any]]:
    judged = rows.judged
    n_wrong = int(np.count_nonzero(judged.is_wrong))
    worst = judged.order()[: min(n_wrong, MOST_SUSPECTS)]
    shows = rows.values is not None
    cells = _values(rows.values, worst) if shows else [[] for _ in worst]
    return [
        {
            "id": rows.ids[row],
            "residual": float(judged.residual[row]),
            "quality": float(judged.quality[row]),
            "entry_pace": float(judged.entry_pace[row]),
            "reason": reason(facts, judged, int(row)) if shows else "",
            "values": values,
        }
        for row, values in zip(worst, cells, strict=True)
    ]


def _value_names(facts: FitFacts, values: Any) -> list[str]:
    if values is None:
        return []
    frame = nw.from_native(values, pass_through=True, eager_only=True)
    names = frame.columns if isinstance(frame, nw.DataFrame) else facts.names
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
    return [[_cell(value) for value in line] for line in table]


def _cell(value: Any) -> str:
    return number(value) if isinstance(value, float) else visible(value)
