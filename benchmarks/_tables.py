"""Ordinary tables on which a robust fit must do no harm: features, target, ten splits each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from easyfirst.experiments.cities import BARCELONA, LA, NYC, city_split

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"
SETS = [
    "concrete",
    "elevators",
    "energy",
    "keggdirected",
    "machine",
    "parkinsons",
    "pol",
    "protein",
    "solar",
]  # of uci_natural
SENSORS = ("PT08.S1(CO)", "PT08.S2(NMHC)", "PT08.S3(NOx)", "PT08.S4(NO2)", "PT08.S5(O3)")
WEATHER = ("T", "RH", "AH")
GASES = ("CO(GT)", "NO2(GT)", "NOx(GT)", "C6H6(GT)")
SENTINEL = -200
MOST_ROWS = 30_000  # of a city, so that ten splits do not take the day


@dataclass(frozen=True, eq=False)
class Table:
    """Rows in which nothing is known to be wrong, and which of them test in each split."""

    name: str
    X: NDArray[np.float64]
    y: NDArray[np.float64]
    tests: NDArray[np.bool_]  # (n_splits, n_rows)

    def splits(self, most: int) -> Iterator[tuple[int, NDArray[np.intp], NDArray[np.intp]]]:
        """Yield (number, training rows, test rows)."""
        for number, test in enumerate(self.tests[:most]):
            yield number, np.flatnonzero(~test), np.flatnonzero(test)


def tables(names: list[str] | None = None) -> Iterator[Table]:
    """Yield the tables, or those whose names begin with one of `names`."""
    for name, make in _catalogue().items():
        if names is None or any(name.startswith(wanted) for wanted in names):
            yield make()


def air_quality() -> pd.DataFrame:
    """Return the raw table with decimal commas read and -200 left as it is."""
    return pd.read_csv(DATA / "air_quality" / "AirQualityUCI.csv", sep=";", decimal=",")


def _catalogue() -> dict[str, Callable[[], Table]]:
    made: dict[str, Callable[[], Table]] = {}
    for name in SETS:
        made[name] = lambda name=name: _uci(name)
    made["california"] = lambda: _california("california", log=False)
    made["california-log"] = lambda: _california("california-log", log=True)
    made["bike"] = lambda: _bike("bike", log=False)
    made["bike-log"] = lambda: _bike("bike-log", log=True)
    for gas in GASES:
        made[f"air-{gas.split('(')[0]}"] = lambda gas=gas: _air(gas)
    for city, short in ((NYC, "nyc"), (LA, "la"), (BARCELONA, "barcelona")):
        for log in (False, True):
            name = f"rental-{short}" + ("-log" if log else "")
            made[name] = lambda name=name, city=city, log=log: _rental(name, city, log)
    return made


def _random_tests(n: int) -> NDArray[np.bool_]:
    tests = np.zeros((10, n), dtype=bool)
    for seed, test in enumerate(tests):
        test[np.random.default_rng(seed).permutation(n)[: n // 10]] = True
    return tests


def _uci(name: str) -> Table:
    folder = DATA / "uci_natural"
    values = np.loadtxt(folder / f"{name}_data.csv.gz", delimiter=",")
    masks = np.loadtxt(folder / f"{name}_test_mask.csv.gz", delimiter=",").astype(bool)
    return Table(name, np.ascontiguousarray(values[:, :-1]), values[:, -1].copy(), masks.T)


def _california(name: str, log: bool) -> Table:
    frame = pd.read_parquet(DATA / "california_housing" / "california_housing_sklearn.parquet")
    y = frame.pop("MedHouseVal").to_numpy(dtype=np.float64)
    X = frame.to_numpy(dtype=np.float64)
    return Table(name, X, np.log(y) if log else y, _random_tests(len(y)))


def _bike(name: str, log: bool) -> Table:
    frame = pd.read_parquet(DATA / "bike_sharing" / "bike_hourly.parquet")
    y = frame.pop("count").to_numpy(dtype=np.float64)
    kinds = ["season", "month", "hour", "weekday", "weather"]
    X = pd.get_dummies(frame, columns=kinds).to_numpy(dtype=np.float64)
    return Table(name, X, np.log1p(y) if log else y, _random_tests(len(y)))


def _air(gas: str) -> Table:
    frame = air_quality()[[*SENSORS, *WEATHER, gas]].astype(np.float64)
    frame = frame[(frame != SENTINEL).all(axis=1)]
    y = frame.pop(gas).to_numpy()
    return Table(f"air-{gas.split('(')[0]}", frame.to_numpy(), y, _random_tests(len(y)))


def _rental(name: str, city: object, log: bool) -> Table:
    split = city_split(city, "honest", DATA, 1)  # type: ignore[arg-type]
    every = max(1, len(split.y_train) // MOST_ROWS)
    X, y = split.X_train[::every], split.y_train[::every]
    return Table(name, X, np.log(y) if log else y, _random_tests(len(y)))
