"""Raw tables: read them, turn their columns into numbers, fit, and keep all that in one file."""

try:
    from easyfirst.tables.classifier import TableClassifier
    from easyfirst.tables.errors import OutputError, TableError
    from easyfirst.tables.model import TableModel
    from easyfirst.tables.reading import TableFormat, read_table
except ModuleNotFoundError as error:
    if error.name not in ("pandas", "pyarrow"):
        raise
    raise ModuleNotFoundError(
        f"easyfirst.tables needs {error.name}: pip install 'easyfirst[tool]'", name=error.name
    ) from None

__all__ = [
    "OutputError",
    "TableClassifier",
    "TableError",
    "TableFormat",
    "TableModel",
    "read_table",
]
