"""A doubt where X tells the rows set aside, or the residuals: the model is wrong, not the rows."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from easyfirst import SelfPacedRegressor
from easyfirst.errors import NoSingleModelWarning

AIR = Path(__file__).parents[2] / "shared" / "data" / "air_quality" / "AirQualityUCI.csv"


def doubts(X, y, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoSingleModelWarning)
        return SelfPacedRegressor(**settings).fit(X, y).doubts_


def of_shape(found):
    return [doubt for doubt in found if "differ in X" in doubt or "A line is not" in doubt]


def plain(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    return X, X["a"] - X["b"] + 0.3 * rng.standard_normal(n), rng


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_a_curve_is_doubted_and_its_column_named(share):
    X, y, rng = plain()
    y = y + X["c"] ** 2
    wrong = rng.random(len(y)) < share
    y[wrong] += rng.uniform(10.0, 30.0, wrong.sum())
    (doubt,) = of_shape(doubts(X, y))
    assert "column 'c'" in doubt
    assert "SelfPaced" in doubt


def test_the_column_of_a_curve_is_named_among_many():
    X, y, rng = plain()
    more = pd.DataFrame(rng.normal(size=(len(y), 40)), columns=[f"x{j}" for j in range(40)])
    (doubt,) = of_shape(doubts(pd.concat([more, X], axis=1), y + X["c"] ** 2))
    assert "column 'c'" in doubt


def test_a_part_of_the_rows_with_another_slope_is_told_by_its_columns():
    X, y, _ = plain()
    part = (X["c"] > 0.8) & (X["b"] > -0.5)
    y[part] += 6.0 + 3.0 * X["a"][part]
    (doubt,) = of_shape(doubts(X, y))
    assert "the model is probably wrong, not the rows" in doubt
    assert "'c'" in doubt


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["nothing", "anywhere", "one side", "by x"])
def test_wrong_rows_are_no_reason_to_doubt_the_shape(kind, seed):
    X, y, rng = plain(seed=seed)
    wrong = {
        "nothing": np.zeros(len(y), dtype=bool),
        "anywhere": rng.random(len(y)) < 0.3,
        "one side": rng.random(len(y)) < 0.3,
        "by x": (X["c"] > 0.5).to_numpy() & (rng.random(len(y)) < 0.6),
    }[kind]
    low = 5.0 if kind == "one side" else -20.0
    y[wrong] += rng.uniform(low, 20.0, wrong.sum())
    assert of_shape(doubts(X, y)) == []


def test_every_engine_has_the_same_doubts():
    X, y, _ = plain(6000)
    y = y + X["c"] ** 2
    here = doubts(X, y, engine="inline", n_batches=4)
    assert here == doubts(X, y, engine="threads", n_batches=4, n_jobs=3)
    assert of_shape(here)


@pytest.mark.skipif(not AIR.exists(), reason="the air-quality table is not beside the repository")
def test_benzene_is_doubted_and_the_sensor_named():
    table = pd.read_csv(AIR, sep=";", decimal=",")
    sensors = [c for c in table if c.startswith("PT08")] + ["T", "RH", "AH"]
    table = table[[*sensors, "C6H6(GT)"]].astype(float)
    table = table[(table != -200).all(axis=1)].iloc[::3]
    found = of_shape(doubts(table[sensors], table["C6H6(GT)"]))
    assert "column 'PT08.S2(NMHC)'" in found[0]
