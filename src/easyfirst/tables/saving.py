"""Fitted table models as files: the regressor's contents, and the preprocessing as JSON.

The preprocessing goes into an array of bytes, because a table may have more categories than the
header of a file has room for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.estimators.contents import regressor_from_contents, regressor_to_contents
from easyfirst.tables.recipe import Recipe

if TYPE_CHECKING:
    from easyfirst.tables.model import TableModel

KIND = "table-model"
TABLE = "table"  # the array of the preprocessing
REGRESSOR = "regressor/"  # before the names of the regressor's arrays

Facts = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


def table_model_to_contents(model: TableModel, weights: bool = True) -> tuple[Facts, Arrays]:
    """Return a fitted table model as JSON facts and named arrays."""
    facts, arrays = regressor_to_contents(model.regressor_, weights)
    table = {
        "features": None if model.features is None else list(model.features),
        "exclude": list(model.exclude),
        "row_id": model.row_id,
        "batches": model.batches,
        "notes": list(model.notes_),
        "recipe": model.recipe_.to_data(),
    }
    text = json.dumps(table, allow_nan=False).encode()
    named = {REGRESSOR + name: array for name, array in arrays.items()}
    return {"regressor": facts}, {TABLE: np.frombuffer(text, np.uint8), **named}


def table_model_from_contents(facts: Mapping[str, Any], arrays: Arrays) -> TableModel:
    """Return the table model, or raise an error if the contents do not make one."""
    from easyfirst.tables.model import TableModel

    table = table_facts(arrays)
    recipe = Recipe.from_data(table["recipe"])
    features = table["features"]
    model = TableModel(
        recipe.target,
        features=None if features is None else _texts(features),
        exclude=_texts(table["exclude"]),
        row_id=_optional(table["row_id"]),
        batches=_optional(table["batches"]),
    )
    model.recipe_ = recipe
    model.notes_ = list(_texts(table["notes"]))
    own = {
        name.removeprefix(REGRESSOR): array
        for name, array in arrays.items()
        if name.startswith(REGRESSOR)
    }
    model.regressor_ = regressor_from_contents(facts["regressor"], own)
    model.regressor = model.regressor_
    if list(getattr(model.regressor_, "feature_names_in_", ())) != recipe.design_names():
        raise ValueError("its coefficients do not belong to its preprocessing")
    return model


def table_facts(arrays: Arrays) -> dict[str, Any]:
    """Return the preprocessing as plain data."""
    stored = arrays[TABLE]
    if stored.dtype != np.uint8 or stored.ndim != 1:
        raise ValueError("its preprocessing is not a text")
    found = json.loads(stored.tobytes())
    if not isinstance(found, dict):
        raise ValueError("its preprocessing is not an object")
    return found


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise ValueError(f"a list of texts expected, got {str(values)[:40]!r}")
    return tuple(values)


def _optional(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"a text expected, got {value!r}")
    return value
