"""Fitted table models as files: the contents of the model inside, and the preprocessing as JSON.

The preprocessing goes into an array of bytes, because a table may have more categories than the
header of a file has room for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.estimators.label_serialization import deserialize_classifier, serialize_classifier
from easyfirst.estimators.serialization import deserialize_regressor, serialize_regressor
from easyfirst.tables.filling import Sides
from easyfirst.tables.recipe import Recipe

if TYPE_CHECKING:
    from easyfirst.tables.base import TableBase

KIND = "table-model"
TABLE = "table"  # the array of the preprocessing
INSIDE = "regressor/"  # before the names of the arrays of the model inside

State = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


def serialize_table_model(model: TableBase, weights: bool = True) -> tuple[State, Arrays]:
    """Return a fitted table model as JSON state and named arrays."""
    inside = "classifier" if hasattr(model, "classifier_") else "regressor"
    serialize = serialize_classifier if inside == "classifier" else serialize_regressor
    state, arrays = serialize(model.fitted, weights)
    table = {
        "features": None if model.features is None else list(model.features),
        "exclude": list(model.exclude),
        "row_id": model.row_id,
        "batches": model.batches,
        "notes": list(model.notes_),
        "fill_spread": getattr(model, "fill_spread_", {}),
        "recipe": model.recipe_.to_data(),
    }
    text = json.dumps(table, allow_nan=False).encode()
    named = {INSIDE + name: array for name, array in arrays.items()}
    return {inside: state}, {TABLE: np.frombuffer(text, np.uint8), **named}


def deserialize_table_model(state: Mapping[str, Any], arrays: Arrays) -> TableBase:
    """Return the table model, or raise an error if the contents do not make one."""
    from easyfirst.tables.classifier import TableClassifier
    from easyfirst.tables.model import TableModel

    table = table_json(arrays)
    recipe = Recipe.from_data(table["recipe"])
    features = table["features"]
    kind = TableClassifier if "classifier" in state else TableModel
    model: Any = kind(
        recipe.target,
        features=None if features is None else _texts(features),
        exclude=_texts(table["exclude"]),
        row_id=_optional(table["row_id"]),
        batches=_optional(table["batches"]),
    )
    model.recipe_ = recipe
    model.notes_ = list(_texts(table["notes"]))
    own = {
        name.removeprefix(INSIDE): array
        for name, array in arrays.items()
        if name.startswith(INSIDE)
    }
    if kind is TableClassifier:
        model.classifier = model.classifier_ = deserialize_classifier(state["classifier"], own)
    else:
        model.fill_spread_ = _sides(table.get("fill_spread", {}))
        model.regressor = model.regressor_ = deserialize_regressor(state["regressor"], own)
    if list(getattr(model.fitted, "feature_names_in_", ())) != recipe.design_names():
        raise ValueError("its coefficients do not belong to its preprocessing")
    found: TableBase = model
    return found


def table_json(arrays: Arrays) -> dict[str, Any]:
    """Return the preprocessing as plain data."""
    stored = arrays[TABLE]
    if stored.dtype != np.uint8 or stored.ndim != 1:
        raise ValueError("its preprocessing is not a string")
    found = json.loads(stored.tobytes())
    if not isinstance(found, dict):
        raise ValueError("its preprocessing is not an object")
    return found


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise ValueError(f"a list of strings expected, got {str(values)[:40]!r}")
    return tuple(values)


def _sides(values: Any) -> dict[str, Sides]:
    """Return two numbers by name; older files have one for both sides, or none at all."""
    if not isinstance(values, dict):
        raise ValueError(f"numbers by name expected, got {str(values)[:40]!r}")
    sides: dict[str, Sides] = {}
    for name, given in values.items():
        below, above = given if isinstance(given, list) else (given, given)
        sides[str(name)] = float(below), float(above)
    if not all(0.0 <= size < float("inf") for pair in sides.values() for size in pair):
        raise ValueError("a spread of filled-in values is out of range")
    return sides


def _optional(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"a string expected, got {value!r}")
    return value
