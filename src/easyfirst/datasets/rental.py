"""Listings of holiday rentals as published by Inside Airbnb, whatever the year's columns.

There are two kinds of file: the summary (`listings.csv`) and the detailed one
(`listings.csv.gz`, with beds and bathrooms). Their columns changed over the years; here they
all become the columns of `COLUMNS`, where the file has them. Needs pandas (the 'tool' extra).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

# Our name, and the names it has had, best first.
COLUMNS: dict[str, tuple[str, ...]] = {
    "id": ("id", "listing_id"),
    "snapshot": ("snapshot", "last_scraped"),
    "neighbourhood": ("neighbourhood_cleansed", "neighbourhood", "neighborhood"),
    "neighbourhood_group": ("neighbourhood_group_cleansed", "neighbourhood_group", "borough"),
    "latitude": ("latitude",),
    "longitude": ("longitude",),
    "property_type": ("property_type",),
    "room_type": ("room_type",),
    "bed_type": ("bed_type",),
    "accommodates": ("accommodates",),
    "bathrooms": ("bathrooms", "bathrooms_text", "baths"),
    "bedrooms": ("bedrooms",),
    "beds": ("beds",),
    "price": ("price",),
    "minimum_nights": ("minimum_nights",),
    "number_of_reviews": ("number_of_reviews",),
    "host_listings": (
        "calculated_host_listings_count",
        "host_listings_count",
        "host_listing_count",
    ),
    "availability_365": ("availability_365",),
}
DETAILED = ("neighbourhood", "room_type", "accommodates", "bathrooms", "bedrooms", "beds")
SUMMARY = ("neighbourhood", "room_type", "minimum_nights", "number_of_reviews")
TEXT = {"snapshot", "neighbourhood", "neighbourhood_group"} | {
    f"{what}_type" for what in ("property", "room", "bed")
}
SUFFIXES = (".csv", ".csv.gz", ".parquet")
DATE = re.compile(r"(20\d\d)-(0[1-9]|1[0-2])(?:-(\d\d))?")


@dataclass(frozen=True)
class ListingsFile:
    """A file in the user's directory, and the date its name bears (None: it bears none)."""

    path: Path
    date: str | None


def find_listings(directory: Path | str) -> list[ListingsFile]:
    """Return the listings files below a directory, in the order of their names."""
    root = Path(directory)
    if not root.is_dir():
        raise FileNotFoundError(f"there is no directory {root}")
    paths = sorted(path for path in root.rglob("*") if path.name.lower().endswith(SUFFIXES))
    return [ListingsFile(path, _date(path, root)) for path in paths]


def read_listings(path: Path | str) -> pd.DataFrame:
    """Read one file and return it with the columns of `COLUMNS` that it has.

    Prices become floats, whatever they look like ("$1,250.00", "€85", 85); what cannot be read
    becomes missing. A column `snapshot` comes from the file or from the date in its name.

    Raises
    ------
    ValueError
        If the file has no price, or is none of CSV, CSV.gz and Parquet.
    """
    path = Path(path)
    raw = _read(path)
    found = {name: _pick(raw.columns, known) for name, known in COLUMNS.items()}
    if found["price"] is None:
        listed = ", ".join(map(str, raw.columns[:8]))
        raise ValueError(f"{path.name} has no column 'price'; its columns begin with {listed}")
    table = raw[[column for column in found.values() if column is not None]].copy()
    table.columns = [name for name, column in found.items() if column is not None]
    for name in table.columns:
        if name in TEXT:
            table[name] = table[name].astype("object").where(table[name].notna(), None)
        elif name != "id":
            table[name] = parse_numbers(table[name])
    if "snapshot" not in table:
        table["snapshot"] = _date(path, path.parent.parent)
    return table


def read_directory(
    directory: Path | str,
    *,
    needs: Sequence[str] = SUMMARY,
    first: str | None = None,
    last: str | None = None,
) -> pd.DataFrame:
    """Read the files that have the needed columns and lie in a window of time, as one table.

    Parameters
    ----------
    directory
        Where the files are; folders below it count too.
    needs
        Columns without which a file is passed over; `DETAILED` or `SUMMARY`.
    first, last
        The window, as "2015" or "2015-01" or "2015-01-31"; both ends belong to it.
    """
    pandas = _pandas()
    tables, seen = [], []
    for file in find_listings(directory):
        seen.append(file.path.name)
        if file.date is not None and not within(file.date, first, last):
            continue
        try:
            table = read_listings(file.path)
        except ValueError:
            continue
        if not set(needs) <= set(table.columns):
            continue
        if first is not None or last is not None:
            table = table[[within(date, first, last) for date in table["snapshot"]]]
        if len(table):
            tables.append(table)
    if not tables:
        raise FileNotFoundError(
            f"no file in {directory} has the columns {', '.join(needs)} between {first} and "
            f"{last}; found {', '.join(seen) if seen else 'no CSV or Parquet file'}"
        )
    return pandas.concat(tables, ignore_index=True)


def parse_numbers(values: Any) -> Any:
    """Return a column as floats, without currency signs, separators and words around it.

    Examples
    --------
    >>> parse_numbers(["$1,250.00", "1.5 shared baths", "Half-bath", 80, None]).tolist()
    [1250.0, 1.5, 0.5, 80.0, nan]
    """
    pandas = _pandas()
    column = pandas.Series(values)
    if pandas.api.types.is_numeric_dtype(column):
        return column.astype(np.float64)
    text = column.astype("str").str.replace(",", "", regex=False)
    number = text.str.extract(r"(-?\d+(?:\.\d+)?)", expand=False)
    number = number.where(~text.str.contains("half-bath", case=False), "0.5")
    return pandas.to_numeric(number, errors="coerce").astype(np.float64)


def within(date: object, first: str | None, last: str | None) -> bool:
    """Return whether a date lies in a window whose ends may be years, months or days.

    Examples
    --------
    >>> within("2015-12-03", "2015", "2015-12"), within("2016-01", None, "2015")
    (True, False)
    """
    if not isinstance(date, str):
        return False
    after = first is None or date[: len(first)] >= first
    return after and (last is None or date[: len(last)] <= last)


def _read(path: Path) -> Any:
    pandas = _pandas()
    name = path.name.lower()
    if name.endswith(".parquet"):
        return pandas.read_parquet(path)
    if name.endswith((".csv", ".csv.gz")):
        return pandas.read_csv(path, low_memory=False, encoding="utf-8-sig")
    raise ValueError(f"{path.name} is none of {', '.join(SUFFIXES)}")


def _pick(columns: Any, known: Sequence[str]) -> str | None:
    return next((name for name in known if name in columns), None)


def _date(path: Path, root: Path) -> str | None:
    """Return the date in the file's name, or in the folder that is nearest to it."""
    parts = path.relative_to(root).parts if path.is_relative_to(root) else (path.name,)
    for part in reversed(parts):
        dates = DATE.findall(part)
        if len(dates) == 1:  # two are a period, and then the rows bear their own dates
            return "-".join(group for group in dates[0] if group)
        if dates:
            return None
    return None


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError(
            "reading listings needs the 'tool' extra: pip install 'easyfirst[tool]'"
        ) from None
    return pandas
