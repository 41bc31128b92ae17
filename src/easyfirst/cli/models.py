"""Finding the model file that a command was given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from easyfirst.tables import TableFormat, TableModel


def model_file(path: Path) -> Path:
    """Return the file itself, for a run's directory the model in it."""
    from easyfirst.errors import ModelFileError
    from easyfirst.tables.runs import MODEL_FILE

    file = path / MODEL_FILE if path.is_dir() else path
    if not file.exists():
        what = f"{path} holds no {MODEL_FILE}" if path.is_dir() else f"{path} does not exist"
        raise ModelFileError(f"{what}; name the output of 'easyfirst fit', or a model file")
    return file


def load_table_model(path: Path) -> TableModel:
    """Return the model with its preprocessing."""
    from easyfirst.errors import ModelFileError
    from easyfirst.estimators import load
    from easyfirst.tables import TableModel

    file = model_file(path)
    model = load(file)
    if not isinstance(model, TableModel):
        raise ModelFileError(
            f"{file} holds a bare {type(model).__name__}, which does not know the columns of a "
            f"table; fit it with 'easyfirst fit', or load it in Python with easyfirst.load"
        )
    return model


def read_for(model: TableModel, data: Path, form: TableFormat) -> pa.Table:
    """Read a table as the model needs it: categories as text, also where they look like numbers."""
    from easyfirst.tables import read_table

    categories = [each.name for each in model.recipe_.categorical]
    return read_table(data, form, text_columns=categories)
