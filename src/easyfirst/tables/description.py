"""A model file in words and plain data: what it is, when and how it was fitted, its status."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from easyfirst import files
from easyfirst.estimators import load
from easyfirst.tables.base import TableBase
from easyfirst.tables.judged_base import written
from easyfirst.tables.recipe import Feature


def describe(path: Path) -> dict[str, Any]:
    """Return what a model file holds, in the order in which to tell it."""
    model: Any = load(path)
    contents = files.read(path)
    is_table = isinstance(model, TableBase)
    inside: Any = model.fitted if is_table else model
    is_classifier = hasattr(inside, "classes_")
    state = contents.state["classifier" if is_classifier else "regressor"] if is_table else None
    state = contents.state if state is None else state
    fitted = state["fitted"] or {}
    described: dict[str, Any] = {
        "file": str(path),
        "kind": _kind(is_classifier, is_table),
        "format_version": contents.version,
        "digest": contents.digest,
        "fitted_at": fitted.get("at"),
        "rows": fitted.get("rows"),
        "batches": fitted.get("batches"),
        "saved_at": state["saved_at"],
        "versions": state["versions"],
        "settings": state["settings"],
        "status": inside.status_.message,
        "converged": inside.status_.converged,
        "doubts": "; ".join(inside.doubts_) or None,
        "rounds": inside.n_rounds_,
        "pace": inside.pace_,
        "target_transform": getattr(inside, "target_transform_", None),
        "classes": [str(each) for each in inside.classes_] if is_classifier else None,
        "noise_scale": getattr(inside, "noise_scale_", None),
        "corrupted_share": getattr(inside, "corrupted_fraction_", None),
        "corrupted_interval": _listed(getattr(inside, "corrupted_interval_", None)),
    }
    if is_table:
        described |= _table(model)
    return described | {"coefficients": coefficient_records(inside)}


def _kind(is_classifier: bool, is_table: bool) -> str:
    what = "classification" if is_classifier else "regression"
    return f"a {what} on a raw table" if is_table else f"a {what} on numbers"


def _table(model: TableBase) -> dict[str, Any]:
    recipe = model.recipe_
    return {
        "target": model.target,
        "row_id": model.row_id,
        "batch_column": model.batches,
        "columns": [
            {"name": each.name, "kind": each.kind, "becomes": becomes(each)}
            for each in recipe.features
        ],
        "left_out": [{"name": each.name, "reason": each.reason} for each in recipe.left_out],
        "notes": model.notes_,
    }


def becomes(feature: Feature) -> str:
    """Say what a column becomes in the design."""
    if feature.kind == "category":
        first, *others = feature.categories
        rare = ", one for rare ones" if feature.rare else ""
        return f"{len(others)} columns for categories compared with {first!r}{rare}"
    flag = ", and a column that says so" if feature.indicator else ""
    unit = "days since 1970" if feature.kind == "date" else "itself"
    if feature.reading.truths:
        truths, falsehoods = feature.reading.truths, feature.reading.falsehoods
        unit = f"1 for {', '.join(truths)}, 0 for {', '.join(falsehoods)}"
    return f"{unit}; {written(feature, feature.fill)} where missing{flag}"


def _listed(values: Any) -> list[float] | None:
    return None if values is None else [float(each) for each in values]


def coefficient_records(model: Any) -> list[dict[str, Any]]:
    """Return one record per coefficient: name, value, and what is known about its error.

    For a classifier, one per column and class.
    """
    columns = model.summary().columns()
    if not hasattr(model, "classes_"):
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    names, lines = model.summary().coefficients()
    return [
        {"name": name, "class": label, "coef": line[place]}
        for place, name in enumerate(names)
        for label, line in lines
    ]
