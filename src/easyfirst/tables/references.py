"""Choosing another category to compare with, where the fit has lost the present one.

A fit that loses all rows of a category can find them again by moving that category's coefficient.
The category that the others are compared with has none, so once lost it stays lost: every row of it
looks wrong. Compared with a category that the fit has kept, it gets one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from easyfirst.contracts import Vector
from easyfirst.tables import values
from easyfirst.tables.recipe import Feature, Recipe

STARVED = 0.5  # of the overall mean weight: a category whose rows weigh less is lost


def better_references(recipe: Recipe, texts: pa.Table, weights: Vector) -> dict[str, str]:
    """Return, for columns whose reference is lost, the category that the fit has kept best."""
    found = {}
    for each in recipe.categorical:
        levels = pd.Series(values.categories(texts[each.name]))
        kept = pd.Series(weights).groupby(levels).mean().reindex(each.categories).fillna(0.0)
        if kept.iloc[0] < STARVED * float(np.mean(weights)) and kept.argmax() != 0:
            found[each.name] = str(kept.idxmax())
    return found


def with_references(recipe: Recipe, references: dict[str, str]) -> Recipe:
    """Return the recipe with other categories to compare with; old and new change places."""
    features = tuple(
        _swapped(each, references[each.name]) if each.name in references else each
        for each in recipe.features
    )
    return replace(recipe, features=features)


def recoded(X: Any, old: Recipe, new: Recipe, texts: pa.Table) -> Any:
    """Return the design frame with the columns of the new recipe instead of the old one's."""
    X = X.copy(deep=False)
    for before, after in zip(old.features, new.features, strict=True):
        if before != after:
            lost, kept = before.categories[0], after.categories[0]
            is_lost = values.categories(texts[before.name]) == lost
            column = is_lost.astype(np.float64)
            name = f"{before.name}={kept}"
            sparse = isinstance(X[name].dtype, pd.SparseDtype)
            X[name] = pd.arrays.SparseArray(column, fill_value=0.0) if sparse else column
    X.columns = new.design_names()
    return X


def _swapped(feature: Feature, reference: str) -> Feature:
    levels = list(feature.categories)
    place = levels.index(reference)
    levels[0], levels[place] = levels[place], levels[0]
    return replace(feature, categories=tuple(levels))
