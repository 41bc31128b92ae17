"""Rows beside a jump in y: a model that has not seen them does not know on which side they lie."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor

from easyfirst import SelfPaced
from easyfirst.estimators.nearby_rows import NearbyRows
from easyfirst.noise.of_rows import Told, read_noise

BOOSTING = HistGradientBoostingRegressor(max_iter=40, learning_rate=0.2, random_state=0)


def stairs(X):
    """Four steps along one column."""
    return 30.0 * np.floor(4.0 * X[:, 0])


def oblique(X):
    """One step that runs across two columns."""
    return 40.0 * (X[:, 0] + X[:, 1] > 1.0)


def table(true, seed, n=1000):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 4))
    return X, true(X) + rng.standard_normal(n), rng


@pytest.mark.parametrize(("true", "most"), [(stairs, 0.005), (oblique, 0.05)])
def test_rows_beside_a_jump_do_not_look_wrong(true, most):
    X, y, _ = table(true, seed=1)
    model = SelfPaced(BOOSTING).fit(X, y)
    assert np.mean(~model.selected_) <= most


def test_wrong_values_are_found_among_jumps():
    X, y, rng = table(stairs, seed=2)
    wrong = rng.random(y.size) < 0.2
    given = np.where(wrong, rng.uniform(-100.0, 200.0, y.size), y)
    model = SelfPaced(BOOSTING).fit(X, given)
    new, new_y, _ = table(stairs, seed=3)
    of_clean = clone(BOOSTING).fit(X[~wrong], y[~wrong])
    errors = [np.mean(np.abs(each.predict(new) - new_y)) for each in (model, of_clean)]
    assert errors[0] <= 1.1 * errors[1]
    assert np.mean(~model.selected_[~wrong]) <= 0.01
    assert np.mean(~model.selected_[wrong]) >= 0.9


def test_new_rows_beside_a_jump_do_not_look_wrong_either():
    X, y, _ = table(stairs, seed=1)
    model = SelfPaced(BOOSTING).fit(X, y)
    new, new_y, _ = table(stairs, seed=4)
    assert np.mean(model.clean_probability(new, new_y) < 0.5) <= 0.01
    assert np.mean(model.clean_probability(new, new_y + 15.0) < 0.5) >= 0.9


def test_a_value_of_the_other_side_is_clean_beside_a_jump_only():
    rng = np.random.default_rng(0)
    value, y = np.zeros(500), rng.standard_normal(500)
    nearby = np.zeros((500, 2))
    nearby[:50, 0] = 40.0
    y[:20] += 40.0
    told = Told.even(value, nearby)
    noise = read_noise(y, told, np.ones(500), anchor=0.7)
    at_forty = noise.clean_density(told, np.full(500, 40.0))
    assert np.all(noise.odds(told, y)[:20] < 1.0)
    assert np.all(at_forty[:50] > 1e6 * at_forty[50:].max())


def test_values_that_gather_where_predictions_are_far_off_are_not_those_of_other_rows():
    rng = np.random.default_rng(0)
    n = 1000
    true = np.where(rng.random(n) < 0.5, 0.0, 40.0)
    y = true + rng.standard_normal(n)
    unknown = np.arange(n) < 150
    told = Told(np.where(unknown, 40.0 - true, true), 1.0 * unknown, np.empty((n, 0)))
    at_random = Told(told.value, rng.standard_normal(n), told.nearby)
    assert read_noise(y, told, np.ones(n), anchor=20.0).strayed == 0.0
    assert read_noise(y, at_random, np.ones(n), anchor=20.0).strayed > 0.05


@pytest.mark.parametrize("library", [pd, pl])
def test_nearby_rows_of_frames_keep_kinds_and_what_is_no_degree(library):
    rng = np.random.default_rng(0)
    columns = {
        "number": rng.standard_normal(200),
        "whole": np.arange(200),
        "kind": np.repeat([0, 1], 100),
        "text": ["a", "b"] * 100,
    }
    columns["number"][3] = np.nan
    frame = library.DataFrame(columns)
    if library is pd:
        frame.index = frame.index + 1000
    asked = []

    class Remembering:
        def predict(self, rows):
            asked.append(rows)
            return np.zeros(200)

    nearby = NearbyRows.of(frame, seed=0)
    assert nearby.predicted(Remembering(), frame).shape == (200, 4)
    for rows in asked:
        moved = np.asarray(rows["whole"])
        assert rows["whole"].dtype == frame["whole"].dtype
        assert np.all(np.abs(moved - np.arange(200)) <= 10)
        assert np.sum(moved != np.arange(200)) >= 190
        assert list(rows["kind"]) == list(columns["kind"])
        assert list(rows["text"]) == columns["text"]
        assert np.isnan(np.asarray(rows["number"])[3])


def test_a_value_beyond_all_that_were_seen_stays_where_it_is():
    X = np.arange(100.0)[:, None]
    nearby = NearbyRows.of(X, seed=0)
    asked = []

    class Remembering:
        def predict(self, rows):
            asked.append(rows)
            return np.zeros(len(rows))

    nearby.predicted(Remembering(), np.array([[-50.0], [50.0], [500.0]]))
    for rows in asked:
        assert rows[0, 0] == -50.0
        assert rows[2, 0] == 500.0
        assert 0 < abs(rows[1, 0] - 50.0) <= 6.0


@pytest.mark.parametrize("X", [np.repeat([[0.0, 1.0]], 50, axis=0), np.empty((50, 0))])
def test_columns_of_few_values_have_nothing_nearby(X):
    assert NearbyRows.of(X, seed=0).predicted(None, X).shape == (50, 0)
