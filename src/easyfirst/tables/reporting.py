"""The report of a raw table: what stands in it besides what any model can say of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from easyfirst.estimators.validation import prediction_rows
from easyfirst.report import labels
from easyfirst.report.page import (
    MOST_SUSPECTS,
    MOST_VALUES,
    ColumnLine,
    Origin,
    Report,
    ReportRows,
    render,
    written_time,
)
from easyfirst.report.wording import cell, count
from easyfirst.tables.base import TableBase, ids_array, row_names
from easyfirst.tables.description import becomes
from easyfirst.tables.judged_base import JudgedBase
from easyfirst.tables.judged_labels import JudgedLabelTable
from easyfirst.tables.judging import JudgedTable

SHOWN_REMARKS = 200  # rows whose causes are looked up; the page lists fewer


def report_on(
    judged: JudgedBase,
    *,
    data: str,
    fitted_at: str,
    batches: Any = None,
    show_rows: bool = False,
    show_target: bool = True,
) -> Report:
    """Return the page on a table and its model.

    Parameters
    ----------
    judged
        The table beside what its model thinks of it.
    data
        Where the table comes from, in words.
    fitted_at
        When it was fitted, in ISO format.
    batches
        The batch ids of the rows with a target, if they have names.
    show_rows, show_target
        As for `SelfPacedRegressor.report`.
    """
    if batches is None and judged.model.batches is not None:
        batches = ids_array(row_names(judged.rows, judged.model.batches))
    origin = _origin(judged, data, fitted_at)
    patterns = [pattern.words for pattern in judged.patterns] if show_target else []
    if isinstance(judged, JudgedLabelTable):
        names = None if batches is None else np.unique(batches).tolist()
        lines = _label_lines(judged, show_rows)
        return labels.render(
            judged.model.classifier_,
            labels.counted(judged.wrong_places.size, judged.n_given),
            lines,
            judged.wrong_places.size,
            origin=origin,
            patterns=patterns,
            batch_names=names,
            shows_target=show_target,
        )
    assert isinstance(judged, JudgedTable)
    worst = judged.judged.worst()[:SHOWN_REMARKS]
    rows = ReportRows(
        X=_numbers(judged),
        judged=judged.judged,
        ids=ids_array(judged.row_names)[judged.used],
        fixes=judged.fixes,
        values=_other_columns(judged, judged.rows) if show_rows else None,
        show_target=show_target,
        remarks={int(row): judged.remarks(int(row)) for row in worst},
    )
    return Report(render(judged.findings, rows, batches, origin, patterns))


def _numbers(judged: JudgedTable) -> Any:
    """Return the rows as the model takes them."""
    model = judged.model.regressor_
    return prediction_rows(model, judged.X) if judged.findings.coef.size else judged.X


def _label_lines(judged: JudgedLabelTable, show_rows: bool) -> list[dict[str, Any]]:
    """Return what the page says of the worst labels."""
    places, found = judged.suspects(MOST_SUSPECTS)
    found = found.filter(found["is_label_issue"])
    lines: list[dict[str, Any]] = [{"id": line.pop("row_id"), **line} for line in found.to_pylist()]
    unknown = (
        {}
        if judged.wrong is None
        else dict(zip(judged.wrong.places.tolist(), judged.wrong.reasons, strict=True))
    )
    others = _other_columns(judged, judged.table)
    for place, line in zip(places.tolist(), lines, strict=False):
        line["remark"] = unknown.get(place, "")
        if show_rows:
            (row,) = others.slice(place, 1).to_pylist()
            line["values"] = [(name, cell(value)) for name, value in row.items()][:MOST_VALUES]
    return lines


def _other_columns(judged: JudgedBase, rows: Any) -> Any:
    """Return the columns that the list of suspicious rows does not show anyway."""
    shown = (judged.model.target, judged.model.row_id)
    return rows.drop_columns([each for each in rows.column_names if each in shown])


def _origin(judged: JudgedBase, data: str, fitted_at: str) -> Origin:
    model = judged.model
    details = {"File": data, "Target": model.target, "Rows": f"{judged.used.size:,}"}
    n_wrong = 0 if judged.wrong is None else judged.wrong.places.size
    n_missing = judged.used.size - judged.places.size - n_wrong
    if n_wrong:
        details["Target cannot be right"] = count(n_wrong, "row")
    if n_missing:
        details["Without a target"] = count(n_missing, "row")
    details["Fitted"] = written_time(fitted_at)
    lead = _not_judged(judged) if isinstance(judged, JudgedTable) else ""
    return Origin(details, _columns(model), model.notes_, lead)


def _not_judged(judged: JudgedTable) -> str:
    """Say which rows are wrong beyond doubt, and so are not among those that look wrong."""
    if judged.wrong is None:
        return ""
    n_wrong = judged.wrong.places.size
    hold, were = ("holds", "it was") if n_wrong == 1 else ("hold", "they were")
    return (
        f"{count(n_wrong, 'more row')} {hold} a target that cannot be right "
        f"({judged.wrong.reasons[0]}): {were} not fitted. The list of suspects has them."
    )


def _columns(model: TableBase) -> list[ColumnLine]:
    roles = {model.row_id: "names of the rows", model.batches: "batches"}
    used = [ColumnLine(each.name, each.kind, becomes(each)) for each in model.recipe_.features]
    named = [ColumnLine(name, role, "not a feature") for name, role in roles.items() if name]
    left_out = [
        ColumnLine(each.name, "left out", each.reason)
        for each in model.recipe_.left_out
        if each.name not in roles
    ]
    return [*used, *named, *left_out]
