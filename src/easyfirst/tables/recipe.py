"""How a table becomes numbers, as plain data: the value that a model file keeps.

A recipe holds one `Feature` per column in use and a reason for each column that is not. It is
all that a prediction needs to know about the table a model was fitted to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self, cast, get_args

from easyfirst.tables.column_reading import Reading
from easyfirst.tables.errors import TableError

Kind = Literal["number", "boolean", "date", "category"]

IS_MISSING = " is missing"  # after the name of a column, that of its indicator
MISSING = "(missing)"  # the category of rows without one
RARE = "(rare)"  # the category of all categories with few rows


@dataclass(frozen=True)
class Feature:
    """One column and how it becomes numbers.

    Parameters
    ----------
    name
        The column's name in the table.
    kind
        "number" as it is, "boolean" as 0 and 1, "date" as days since 1970, "category" as one
        0/1 column per category.
    fill
        What stands for a missing value (not for categories, where missing is one of them).
    indicator
        Whether a 0/1 column says where the value was missing.
    categories
        Those with a column of their own, after the first, which the others are compared with.
    rare
        Whether there is a column for all other categories together.
    reading
        How the values of the table become the column's numbers.
    """

    name: str
    kind: Kind
    fill: float = 0.0
    indicator: bool = False
    categories: tuple[str, ...] = ()
    rare: bool = False
    reading: Reading = field(default=Reading())


@dataclass(frozen=True)
class LeftOut:
    """A column that is not used, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Recipe:
    """Everything that turns a table into a design matrix and a response.

    `has_text_labels` says that the target holds words to be classified, even if some look like
    numbers.
    """

    target: str
    features: tuple[Feature, ...]
    left_out: tuple[LeftOut, ...] = ()
    target_reading: Reading = field(default=Reading())
    has_text_labels: bool = False

    @property
    def text_columns(self) -> list[str]:
        """The columns to read as text, also where all values look like numbers."""
        needed = [each.name for each in self.features if each.kind == "category"]
        needed += [each.name for each in self.features if each.reading.needs_text]
        target_is_text = self.target_reading.needs_text or self.has_text_labels
        return [*needed, *([self.target] if target_is_text else [])]

    @property
    def numeric(self) -> tuple[Feature, ...]:
        """The columns that become one number each."""
        return tuple(each for each in self.features if each.kind != "category")

    @property
    def categorical(self) -> tuple[Feature, ...]:
        """The columns that become one 0/1 column per category."""
        return tuple(each for each in self.features if each.kind == "category")

    def design_names(self) -> list[str]:
        """Return the names of the columns of the design matrix, in order."""
        numbers = [
            f"{each.name} (days)" if each.kind == "date" else each.name for each in self.numeric
        ]
        missing = [f"{each.name}{IS_MISSING}" for each in self.numeric if each.indicator]
        levels = [
            f"{each.name}={level}"
            for each in self.categorical
            for level in (*each.categories[1:], *([RARE] if each.rare else []))
        ]
        return [*numbers, *missing, *levels]

    def to_data(self) -> dict[str, Any]:
        """Return the recipe as JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild a recipe from `to_data`, checking every part."""
        try:
            return cls(
                target=_text(data["target"]),
                features=tuple(_feature(each) for each in data["features"]),
                left_out=tuple(
                    LeftOut(_text(each["name"]), _text(each["reason"])) for each in data["left_out"]
                ),
                target_reading=Reading.from_data(data.get("target_reading")),
                has_text_labels=_flag(data.get("has_text_labels", False)),
            )
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise TableError(f"The model's preprocessing is invalid: {error!r}") from error


def _feature(data: Mapping[str, Any]) -> Feature:
    kind = data["kind"]
    categories = tuple(_text(each) for each in data["categories"])
    if kind not in get_args(Kind):
        raise ValueError(f"kind {kind!r}")
    if (kind == "category") != bool(categories) or len(set(categories)) != len(categories):
        raise ValueError(f"categories of {data['name']!r}")
    fill = float(data["fill"])
    if fill != fill or fill in (float("inf"), float("-inf")):
        raise ValueError(f"fill of {data['name']!r}")
    return Feature(
        name=_text(data["name"]),
        kind=cast("Kind", kind),
        fill=fill,
        indicator=_flag(data["indicator"]),
        categories=categories,
        rare=_flag(data["rare"]),
        reading=Reading.from_data(data.get("reading")),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text expected, got {value!r}")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"true or false expected, got {value!r}")
    return value
