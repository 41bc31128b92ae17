"""What estimators show of themselves; they load this module by name when they are asked."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from easyfirst.contracts import Vector
from easyfirst.estimators import clusters, validation
from easyfirst.estimators.expected_change import expected_changes, most_telling
from easyfirst.estimators.findings import Findings, findings_of
from easyfirst.estimators.judging import JudgedRows, judge
from easyfirst.local import judging as local
from easyfirst.local.design import stacked
from easyfirst.report.mistakes import SwapPartner
from easyfirst.report.page import Origin, Report, ReportRows, check_target, origin_of, render
from easyfirst.report.summary import Summary
from easyfirst.report.suspects import fixes_of, framed, partners_among, suspect_columns
from easyfirst.sources.arrays import ArraySource


def summary(model: Any, level: float) -> Summary:
    """Return what a fit found, as text and tables."""
    check_is_fitted(model)
    return Summary(findings_of(model), level)


def confidence_intervals(model: Any, level: float) -> Any:
    """Return the bounds of each coefficient and of the intercept, with their names."""
    table = Summary(findings_of(model), level).columns()
    bounds = {name: table[name] for name in ("name", "coef", "lower", "upper")}
    return framed(bounds, np.arange(len(bounds["name"])), like=None)


def suspects(model: Any, X: Any, y: Any, top: int | None, row_ids: Any) -> Any:
    """Return the rows that look wrong, the worst first, in the frame library of X."""
    check_top(top)
    check_is_fitted(model)
    if isinstance(X, ArraySource) and y is None:
        row_ids = X.row_ids if row_ids is None else row_ids
        X, y = _rows_in_memory(X), X.y
    elif clusters.source_of(X, y, None, None) is not None:
        return _suspects_elsewhere(model, X, y, top, row_ids)
    if y is None:
        raise TypeError("suspects needs y beside X; only a source holds both")
    judged = model.judge(X, y)
    return _listed(model, X, judged, judged.worst(top), row_ids)


def _rows_in_memory(source: ArraySource) -> Any:
    """Return the columns of a source in memory, with their names if it knows them."""
    if source.feature_names is None or not isinstance(source.X, np.ndarray):
        return source.X
    columns = dict(zip(source.feature_names, source.X.T, strict=True))
    frame = framed(columns, np.arange(len(source.X)), like=None)
    return source.X if isinstance(frame, dict) else frame


def to_review(model: Any, X: Any, y: Any, k: int, row_ids: Any) -> Any:
    """Return the rows whose review would change the model most, in the frame library of X."""
    check_top(k)
    judged = model.judge(X, y)
    in_doubt, is_linear = bool(model.doubts_), hasattr(model, "coef_")
    numeric = validation.prediction_rows(model, X) if is_linear else None
    with_intercept = is_linear and bool(model.fit_intercept)
    moves = expected_changes(numeric, judged, with_intercept, in_doubt)
    chosen = most_telling(moves, judged.quality >= 0.5, k, in_doubt)
    return _listed(model, X, judged, chosen, row_ids)


def _listed(model: Any, X: Any, judged: JudgedRows, chosen: NDArray[np.intp], row_ids: Any) -> Any:
    """Return what is known of some rows, in the frame library of X."""
    ids = validation.row_ids(row_ids, X, judged.given.size)
    findings = findings_of(model)
    partners = _partners(model, X, findings, judged)
    columns = suspect_columns(findings, judged, fixes_of(findings, judged, partners), chosen)
    return framed({"row_id": ids[chosen], **columns}, chosen, like=X)


def _partners(model: Any, X: Any, findings: Findings, judged: JudgedRows) -> list[SwapPartner]:
    """Return the columns that the target may have changed places with; linear models can tell."""
    if not findings.coef.size:
        return []
    numeric = validation.prediction_rows(model, X)
    return partners_among(numeric, findings, judged)


def _suspects_elsewhere(model: Any, X: Any, y: Any, top: int | None, row_ids: Any) -> Any:
    """Return the suspicious rows of a source, of which nothing else is kept."""
    if row_ids is not None:
        raise ValueError("row_ids is for rows in memory: name the column where the source is made")
    findings = findings_of(model)
    kept: list[tuple[JudgedRows, Vector, NDArray[Any]]] = []
    n_before = 0
    for batch in model.weights_by_batch(X, y):
        rows = _judged(findings, batch)
        given, chosen = rows.given, rows.worst(top)
        ids = np.arange(n_before, n_before + given.size) if batch.row_ids is None else batch.row_ids
        above = np.append(np.nan, given[:-1])
        kept.append((rows.some(chosen), above[chosen], np.asarray(ids)[chosen]))
        n_before += given.size
    judged = JudgedRows.joined([rows for rows, _, _ in kept])
    above = np.concatenate([each for _, each, _ in kept])
    names = np.concatenate([ids for _, _, ids in kept])
    chosen = judged.worst(top)
    columns = suspect_columns(findings, judged, fixes_of(findings, judged, above=above), chosen)
    return framed({"row_id": names[chosen], **columns}, np.arange(chosen.size), like=None)


def _judged(findings: Findings, rows: local.JudgedRows) -> JudgedRows:
    """Return what a worker found of its rows as it is shown."""
    given = rows.prediction + rows.residual
    return judge(findings, given, rows.prediction, rows.signed, rows.weights, own_scale=rows.scale)


def check_top(top: Any) -> None:
    """Refuse what is no number of rows."""
    if top is not None and (isinstance(top, bool) or not isinstance(top, int | np.integer)):
        raise TypeError(f"top must be None or a whole number, got {top!r}")
    if top is not None and top < 0:
        raise ValueError(f"top must be >= 0, got {top!r}")


def report(
    model: Any,
    path: str | os.PathLike[str] | None,
    X: Any,
    y: Any,
    *,
    row_ids: Any,
    batches: Any,
    show_rows: Any,
    show_target: bool,
    overwrite: bool,
) -> Report:
    """Return the page, written to a file if a path is given."""
    check_is_fitted(model)
    if path is not None and not isinstance(path, str | os.PathLike):
        raise TypeError(
            f"path must be the name of a file or None, got {type(path).__name__}; rows come after "
            f"it: report(None, X, y)"
        )
    if path is not None:
        check_target(Path(path), overwrite)
    names = None if batches is None else validation.batch_ids(batches)
    findings = findings_of(model)
    rows = origin = None
    if X is not None and clusters.source_of(X, y, None, None) is not None:
        if row_ids is not None or show_rows not in (True, False):
            raise ValueError(
                "row_ids and a table for show_rows are for rows in memory: name the column where "
                "the source is made, and use show_rows=True"
            )
        rows, origin = _rows_of_source(model, X, y, show_rows, show_target)
    elif (X is None) != (y is None):
        raise ValueError("a report needs both X and y, or neither")
    elif X is not None:
        numeric = validation.prediction_rows(model, X) if findings.coef.size else X
        judged = model.judge(X, y)
        partners = _partners(model, X, findings, judged)
        rows = ReportRows(
            X=numeric,
            judged=judged,
            ids=validation.row_ids(row_ids, X, judged.given.size),
            fixes=fixes_of(findings, judged, partners),
            values=None if show_rows is False else numeric if show_rows is True else show_rows,
            show_target=show_target,
        )
    page = Report(render(findings, rows, names, origin))
    return page if path is None else page.save(path, overwrite)


def _rows_of_source(
    model: Any, X: Any, y: Any, shows_values: bool, show_target: bool
) -> tuple[ReportRows, Origin]:
    """Return rows evenly drawn from a source, of which nothing else comes here; one pass."""
    findings = findings_of(model)
    parts = model.shown_rows(X, y)
    judged = JudgedRows.joined([_judged(findings, part.judged) for part in parts])
    starts = np.cumsum([0, *(part.n_rows for part in parts)])
    numeric = stacked([part.X for part in parts])
    ids = np.concatenate(
        [
            first + part.places if part.judged.row_ids is None else part.judged.row_ids
            for first, part in zip(starts[:-1], parts, strict=True)
        ]
    )
    above = np.concatenate([part.above for part in parts])
    partners = _partners(model, numeric, findings, judged)
    rows = ReportRows(
        X=numeric,
        judged=judged,
        ids=ids,
        fixes=fixes_of(findings, judged, partners, above),
        values=numeric if shows_values else None,
        show_target=show_target,
    )
    origin, n_rows = origin_of(findings), int(starts[-1])
    if judged.given.size < n_rows:
        lead = (
            f"This page shows {judged.given.size:,} of {n_rows:,} rows, evenly drawn; "
            f"suspects(source) lists the worst of all."
        )
        origin = replace(origin, lead=lead)
    return rows, origin
