"""From a recipe to scikit-learn's transformers, and from a table to a design matrix.

The transformers are never stored. They are fitted to a small table made from the recipe, whose
medians, categories and counts are those of the recipe; so a model that was just fitted and one
that was loaded from a file prepare rows by the very same steps.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from easyfirst.contracts import Matrix, Vector
from easyfirst.tables import values
from easyfirst.tables.errors import TableError, listed
from easyfirst.tables.recipe import RARE, Feature, Recipe

BLOCK_ROWS = 65_536
DENSE_BYTES = 4_000_000_000  # a larger design matrix is stored sparse, if it has zeros to save
CHECKS = {
    "number": values.require_numbers,
    "boolean": values.require_numbers,
    "date": values.require_dates,
}
FREQUENT = 2  # rows per kept category in the small table; a rare one has a single row


@dataclass(frozen=True)
class Preprocessor:
    """Turns tables with the columns of a recipe into matrices with `recipe.design_names()`.

    It `checks` that a column is as in the table of the fit, unless the table is a piece of it.
    """

    recipe: Recipe
    checks: bool = True

    @cached_property
    def transformer(self) -> ColumnTransformer:
        """The transformers, fitted to the small table of the recipe."""
        numbers = [_label(each) for each in self.recipe.numeric]
        flagged = [_label(each) for each in self.recipe.numeric if each.indicator]
        texts = [_label(each) for each in self.recipe.categorical]
        transformer = ColumnTransformer(
            [
                ("numbers", SimpleImputer(strategy="median"), numbers),
                ("missing", MissingIndicator(features="all"), flagged),
                ("categories", self._encoder(), texts),
            ],
            sparse_threshold=0.0,
        )
        return transformer.fit(self._small_table())

    def blocks(self, table: pa.Table) -> Iterator[Matrix]:
        """Yield the design matrix of the table, some rows at a time."""
        table = self.read(table)
        with warnings.catch_warnings():
            # Unseen categories count as rare ones, or as the one others are compared with.
            warnings.filterwarnings("ignore", "Found unknown categories", UserWarning)
            for start in range(0, table.num_rows, BLOCK_ROWS):
                frame = self._frame(table.slice(start, BLOCK_ROWS))
                yield np.asarray(self.transformer.transform(frame), dtype=np.float64)

    def matrix(self, table: pa.Table) -> Any:
        """Return the whole design matrix: an array, or CSR where zeros would fill the memory."""
        n_columns = len(self.recipe.design_names())
        if self._wants_sparse(table.num_rows, n_columns):
            return sp.vstack([sp.csr_array(block) for block in self.blocks(table)], format="csr")
        whole = np.empty((table.num_rows, n_columns))
        start = 0
        for block in self.blocks(table):
            whole[start : start + len(block)] = block
            start += len(block)
        return whole

    def read(self, table: pa.Table) -> pa.Table:
        """Return the columns of the recipe, those that text becomes numbers in as numbers.

        A column that is not as in the table of the fit is refused, or missing where it cannot be
        read if nothing is checked. What was read stays as it is.
        """
        self._require_columns(table)
        columns = []
        for each in self.recipe.features:
            column = values.plain(table[each.name])
            if each.kind == "category":
                values.require_categories(each.name, column)
            elif values.is_text(column.type):
                found = values.given_numbers(column, each.reading)
                if self.checks:
                    CHECKS[each.kind](each.name, column, each.reading, found)
                column = values.as_numbers(found, each.kind)
            else:
                CHECKS[each.kind](each.name, column, each.reading)
            columns.append(column)
        return pa.table(columns, names=[each.name for each in self.recipe.features])

    def numbers(self, table: pa.Table, feature: Feature) -> Vector:
        """Return a column of a table from `read` as one number per row; NaN where missing."""
        return values.numbers(table[feature.name], feature.reading)

    def missing(self, table: pa.Table) -> dict[str, NDArray[np.bool_]]:
        """Return where values are filled in, by column; only columns that have such rows."""
        table = self.read(table)
        masks = {each.name: np.isnan(self.numbers(table, each)) for each in self.recipe.numeric}
        return {name: mask for name, mask in masks.items() if mask.any()}

    def unseen(self, table: pa.Table) -> dict[str, int]:
        """Return how many rows of which columns hold a category that has no coefficient."""
        found = {}
        for each in self.recipe.categorical:
            texts = values.categories(table[each.name])
            n_unseen = int(np.sum(~np.isin(texts, each.categories)))
            if n_unseen:
                found[each.name] = n_unseen
        return found

    def _encoder(self) -> OneHotEncoder:
        # scikit-learn wants at least the shape of a list, also where there is no such column.
        kept = [list(each.categories) for each in self.recipe.categorical]
        return OneHotEncoder(
            categories=[
                [*levels, *([_rare_name(each)] if each.rare else [])]
                for each, levels in zip(self.recipe.categorical, kept, strict=True)
            ],
            drop=[levels[0] for levels in kept],
            min_frequency=FREQUENT,
            handle_unknown="infrequent_if_exist",
            sparse_output=False,
        )

    def _small_table(self) -> pd.DataFrame:
        columns = {_label(each): _levels_with_counts(each) for each in self.recipe.categorical}
        n_rows = max((len(levels) for levels in columns.values()), default=1)
        small: dict[str, Any] = {}
        for each in self.recipe.features:
            label = _label(each)
            if each.kind == "category":
                levels = columns[label]
                padded = levels + [each.categories[0]] * (n_rows - len(levels))
                small[label] = np.array(padded, dtype=object)
            else:
                small[label] = np.full(n_rows, each.fill)
        return pd.DataFrame(small)

    def _frame(self, table: pa.Table) -> pd.DataFrame:
        columns: dict[str, Any] = {}
        for each in self.recipe.features:
            column = table[each.name]
            columns[_label(each)] = (
                values.categories(column) if each.kind == "category" else self.numbers(table, each)
            )
        return pd.DataFrame(columns, copy=False)

    def _require_columns(self, table: pa.Table) -> None:
        present = set(table.column_names)
        absent = [each.name for each in self.recipe.features if each.name not in present]
        if absent:
            raise TableError(
                f"the table lacks {listed(absent)}, which the model was fitted with; "
                f"it has {listed(table.column_names)}"
            )

    def _wants_sparse(self, n_rows: int, n_columns: int) -> bool:
        n_zero_one = n_columns - len(self.recipe.numeric)
        return 8 * n_rows * n_columns > DENSE_BYTES and n_zero_one > 0.7 * n_columns


def _label(feature: Feature) -> str:
    """Return the name under which scikit-learn sees a column: any text, so none is special."""
    return f"column {feature.name}"


def _rare_name(feature: Feature) -> str:
    """Return a name for the rare categories that none of the kept ones has."""
    name = RARE
    while name in feature.categories:
        name += "."
    return name


def _levels_with_counts(feature: Feature) -> list[str]:
    levels = [level for level in feature.categories for _ in range(FREQUENT)]
    return levels + [_rare_name(feature)] * feature.rare
