"""Finding the model file that a command was given."""

from __future__ import annotations

import glob
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from easyfirst.tables import TableFormat
    from easyfirst.tables.base import TableBase


def model_file(path: Path) -> Path:
    """Return the file itself, for a run's directory the model in it."""
    from easyfirst.errors import ModelFileError
    from easyfirst.tables.runs import MODEL_FILE

    file = path / MODEL_FILE if path.is_dir() else path
    if not file.exists():
        what = f"{path} holds no {MODEL_FILE}" if path.is_dir() else f"{path} does not exist"
        raise ModelFileError(f"{what}; name the output of 'easyfirst fit', or a model file")
    return file


def load_table_model(path: Path) -> Any:
    """Return the model with its preprocessing."""
    from easyfirst.errors import ModelFileError
    from easyfirst.estimators import load
    from easyfirst.tables.base import TableBase

    file = model_file(path)
    model = load(file)
    if not isinstance(model, TableBase):
        raise ModelFileError(
            f"{file} holds a bare {type(model).__name__}, which does not know the columns of a "
            f"table; fit it with 'easyfirst fit', or load it in Python with easyfirst.load"
        )
    return model


def read_for(model: TableBase, data: str | Path, form: TableFormat) -> pa.Table:
    """Read a table as the model needs it: as text what the model reads in a way of its own.

    Marks of numbers that the user names are those of this table, and replace the model's.
    """
    from easyfirst.tables import read_table

    marked = form.decimal is not None or form.thousands is not None
    recipe = model.recipe_
    categories = [each.name for each in recipe.categorical]
    return read_table(data, form, text_columns=categories if marked else recipe.text_columns)


def fitted_table(run: Path) -> str:
    """Return the table that a run was fitted to, as its summary names it."""
    from easyfirst.tables.errors import TableError
    from easyfirst.tables.places import ADDRESS, STDIN
    from easyfirst.tables.runs import SUMMARY_FILE

    if not run.is_dir():
        raise TableError(f"{run} is not the output of 'easyfirst fit'; name that folder")
    again = f"name the table after {run}"
    try:
        named = str(json.loads((run / SUMMARY_FILE).read_text(encoding="utf-8"))["data"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TableError(f"{run / SUMMARY_FILE} does not say what was fitted; {again}") from error
    if named == STDIN:
        raise TableError(f"{run} was fitted to standard input; {again}")
    for place in (named, str(run.parent / named)):
        if Path(place).exists() or glob.glob(place) or ADDRESS.match(place):
            return place
    raise TableError(f"the table {named} of {run} is gone; {again} if it has moved")
