"""The cities of the rental experiments: their snapshots, and the features of a listing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from easyfirst.contracts import Matrix, Vector
from easyfirst.datasets.rental import DETAILED, SUMMARY, read_directory

Protocol = Literal["as published", "honest"]

SMOOTHING = 20.0  # listings that the mean of the whole city counts for in a neighbourhood's mean
RARE = 0.01  # share of rows below which a category has no column of its own
MOST_NIGHTS = 30.0
COUNTS = ("accommodates", "bathrooms", "bedrooms", "beds")


@dataclass(frozen=True)
class City:
    """Where a city's files lie, and which snapshots train and test.

    The folder is looked for below the user's directory; the names are those of our copies and a
    short one.
    """

    name: str
    folders: tuple[str, ...]
    train: tuple[str, str]
    test: tuple[str, str]
    needs: tuple[str, ...] = DETAILED
    n_batches: int = 10
    n_rows: int = 27_000  # about, for the estimate of the time left


NYC = City("New York City", ("airbnb_nyc", "nyc"), ("2015", "2015"), ("2016", "2020"))
LA = City("Los Angeles", ("airbnb_la", "la"), ("2015", "2017"), ("2018", "2020"), n_rows=19_000)
BARCELONA = City(
    "Barcelona",
    ("airbnb_barcelona_panel", "barcelona"),
    ("2015", "2017"),
    ("2018", "2019"),
    needs=SUMMARY,
    n_batches=16,
    n_rows=322_000,
)


@dataclass(frozen=True, eq=False)
class Split:
    """Features and prices of a city; the last column leaks the label if the protocol says so."""

    X_train: Matrix
    y_train: Vector
    X_test: Matrix
    y_test: Vector


@cache
def city_split(city: City, protocol: Protocol, directory: Path, every: int) -> Split:
    """Read a city's files and turn them into features; once per process."""
    folder = _folder(city, directory)
    train = _priced(
        read_directory(folder, needs=city.needs, first=city.train[0], last=city.train[1])
    )
    test = _priced(read_directory(folder, needs=city.needs, first=city.test[0], last=city.test[1]))
    if every > 1:
        train, test = train.iloc[::every], test.iloc[::every]
    make = _published_features if protocol == "as published" else _honest_features
    return make(train, test)


def _folder(city: City, directory: Path) -> Path:
    for name in city.folders:
        if (directory / name).is_dir():
            return directory / name
    raise FileNotFoundError(
        f"the listings of {city.name} are looked for in a folder "
        f"{' or '.join(city.folders)} of {directory}, and there is none"
    )


def _priced(table: Any) -> Any:
    return table[table["price"] > 0]


def _published_features(train: Any, test: Any) -> Split:
    """Return the five columns of the authors' program that do not contain the label.

    Mean price per bed of the neighbourhood, from the training files, and the four counts. Rows
    with a missing value, without a bed or from an unseen neighbourhood are dropped.
    """
    train, test = (part.dropna(subset=[*COUNTS, "neighbourhood"]) for part in (train, test))
    train, test = (part[part["beds"] > 0] for part in (train, test))
    per_bed = (train["price"] / train["beds"]).groupby(train["neighbourhood"]).mean()
    test = test[test["neighbourhood"].isin(per_bed.index)]

    def features(table: Any) -> Matrix:
        means = table["neighbourhood"].map(per_bed).to_numpy(dtype=np.float64)
        return np.column_stack([means, table[list(COUNTS)].to_numpy(dtype=np.float64)])

    return Split(features(train), _price(train), features(test), _price(test))


def _honest_features(train: Any, test: Any) -> Split:
    """Return what is known about a listing without its price; constants come from `train`.

    Columns that only one of the tables has are left out.
    """
    columns = [
        _neighbourhood_means(train, test),
        *(_counts(train, test, name) for name in COUNTS if name in train and name in test),
        _categories(train["room_type"], test["room_type"]),
    ]
    if "property_type" in train and "property_type" in test:
        columns.append(
            _categories(*(part["property_type"].map(_building) for part in (train, test)))
        )
    for name in ("minimum_nights", "number_of_reviews", "availability_365", "host_listings"):
        if name in train and name in test:
            columns.append(_counts(train, test, name, squeeze=True))
    X_train, X_test = (np.column_stack(parts) for parts in zip(*columns, strict=True))
    center, spread = X_train.mean(axis=0), X_train.std(axis=0)
    varies = spread > 0
    X_train, X_test = ((X[:, varies] - center[varies]) / spread[varies] for X in (X_train, X_test))
    return Split(X_train, _price(train), X_test, _price(test))


def _neighbourhood_means(train: Any, test: Any) -> tuple[Matrix, Matrix]:
    """Return mean prices of training rows, drawn towards the city's mean where rows are few."""
    overall = float(train["price"].mean())
    groups = train["price"].groupby(train["neighbourhood"])
    means = (groups.sum() + SMOOTHING * overall) / (groups.count() + SMOOTHING)

    def column(table: Any) -> Matrix:
        found = table["neighbourhood"].map(means).fillna(overall)
        return np.asarray(found.to_numpy(dtype=np.float64)[:, None])

    return column(train), column(test)


def _counts(train: Any, test: Any, name: str, *, squeeze: bool = False) -> tuple[Matrix, Matrix]:
    """Return a number per listing, the training median where it is missing."""
    middle = float(train[name].median())

    def column(table: Any) -> Matrix:
        values = table[name].fillna(middle).to_numpy(dtype=np.float64)
        if name == "minimum_nights":
            values = np.minimum(values, MOST_NIGHTS)
        return np.asarray((np.log1p(np.maximum(values, 0.0)) if squeeze else values)[:, None])

    return column(train), column(test)


def _categories(train: Any, test: Any) -> tuple[Matrix, Matrix]:
    """Return a column per category that is not rare; the most frequent one has none."""
    shares = train.value_counts(normalize=True)
    kept = [name for name in shares.index[1:] if shares[name] >= RARE]
    return tuple(  # type: ignore[return-value]
        np.column_stack([(part == name).to_numpy(dtype=np.float64) for name in kept])
        if kept
        else np.zeros((len(part), 0))
        for part in (train, test)
    )


def _building(kind: object) -> str:
    """Return the kind of building in words that did not change over the years."""
    text = str(kind).lower()
    for word, name in (
        ("apartment", "apartment"),
        ("rental unit", "apartment"),
        ("condo", "apartment"),
        ("loft", "loft"),
        ("guest", "guesthouse"),
        ("bed & breakfast", "guesthouse"),
        ("bed and breakfast", "guesthouse"),
        ("hotel", "hotel"),
        ("hostel", "hotel"),
        ("house", "house"),
        ("home", "house"),
        ("villa", "house"),
        ("bungalow", "house"),
    ):
        if word in text:
            return name
    return "other"


def _price(table: Any) -> Vector:
    return np.asarray(table["price"].to_numpy(dtype=np.float64))
