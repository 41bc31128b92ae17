"""Raw tables: read them, turn their columns into numbers, fit, and keep all that in one file."""

from easyfirst.tables.errors import OutputError, TableError
from easyfirst.tables.model import TableModel
from easyfirst.tables.reading import TableFormat, read_table

__all__ = ["OutputError", "TableError", "TableFormat", "TableModel", "read_table"]
