"""A model file in words and plain data: what it is, when and how it was fitted, its status."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from easyfirst import files
from easyfirst.estimators import SelfPacedRegressor, load
from easyfirst.tables.model import TableModel
from easyfirst.tables.recipe import Feature
from easyfirst.tables.runs import coefficient_records


def describe(path: Path) -> dict[str, Any]:
    """Return what a model file holds, in the order in which to tell it."""
    model = load(path)
    contents = files.read(path)
    is_table = isinstance(model, TableModel)
    regressor: SelfPacedRegressor = model.regressor_ if is_table else model
    facts = contents.facts["regressor"] if is_table else contents.facts
    fitted = facts["fitted"] or {}
    described: dict[str, Any] = {
        "file": str(path),
        "kind": "a regression on a raw table" if is_table else "a regression on numbers",
        "format_version": contents.version,
        "digest": contents.digest,
        "fitted_at": fitted.get("at"),
        "rows": fitted.get("rows"),
        "batches": fitted.get("batches"),
        "saved_at": facts["saved_at"],
        "versions": facts["versions"],
        "settings": facts["settings"],
        "status": regressor.status_.message,
        "converged": regressor.status_.converged,
        "doubts": "; ".join(regressor.doubts_) or None,
        "rounds": regressor.n_rounds_,
        "pace": regressor.pace_,
        "noise_scale": getattr(regressor, "noise_scale_", None),
        "corrupted_share": getattr(regressor, "corrupted_fraction_", None),
        "corrupted_interval": _listed(getattr(regressor, "corrupted_interval_", None)),
    }
    if is_table:
        described |= _table(model)
    return described | {"coefficients": coefficient_records(regressor)}


def _table(model: TableModel) -> dict[str, Any]:
    recipe = model.recipe_
    return {
        "target": model.target,
        "row_id": model.row_id,
        "batch_column": model.batches,
        "columns": [
            {"name": each.name, "kind": each.kind, "becomes": _becomes(each)}
            for each in recipe.features
        ],
        "left_out": [{"name": each.name, "reason": each.reason} for each in recipe.left_out],
        "notes": model.notes_,
    }


def _becomes(feature: Feature) -> str:
    """Say what a column becomes in the design."""
    if feature.kind == "category":
        first, *others = feature.categories
        rare = ", one for rare ones" if feature.rare else ""
        return f"{len(others)} columns for categories compared with {first!r}{rare}"
    flag = ", and a column that says so" if feature.indicator else ""
    unit = " (days)" if feature.kind == "date" else ""
    return f"itself{unit}; {feature.fill:.6g} where missing{flag}"


def _listed(values: Any) -> list[float] | None:
    return None if values is None else [float(each) for each in values]
