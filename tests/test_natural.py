"""Ordinary tables in which nothing is known to be wrong: the default does no harm there."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import HuberRegressor, LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from easyfirst import SelfPacedRegressor

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "uci_natural"
AIR = DATA.parent / "air_quality" / "AirQualityUCI.csv"
MOST_ROWS = 6000


def split_of(name, number):
    path = DATA / f"{name}_data.csv.gz"
    if not path.exists():
        pytest.skip(f"the tables are not at {DATA}")
    values = np.loadtxt(path, delimiter=",")
    test = np.loadtxt(DATA / f"{name}_test_mask.csv.gz", delimiter=",").astype(bool)[:, number]
    train = np.flatnonzero(~test)
    train = train[:: 1 + len(train) // MOST_ROWS]
    return values[train, :-1], values[train, -1], values[test, :-1], values[test, -1]


@pytest.mark.parametrize("name", ["concrete", "energy", "machine", "parkinsons", "pol"])
def test_the_default_predicts_no_worse_than_least_squares_and_huber(name):
    errors = []
    for number in (0, 5):
        X, y, X_new, y_new = split_of(name, number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            models = [
                make_pipeline(StandardScaler(), LinearRegression()).fit(X, y),
                make_pipeline(StandardScaler(), HuberRegressor(max_iter=1000)).fit(X, y),
                SelfPacedRegressor().fit(X, y),
            ]
        errors.append([np.mean(np.abs(model.predict(X_new) - y_new)) for model in models])
        ours = models[2]
        assert np.mean(~ours.selected_) <= 0.1 or ours.doubts_
        predicted, width = ours.predict(X_new), np.ptp(y)
        assert y.min() - width <= predicted.min()
        assert predicted.max() <= y.max() + width
    plain, huber, ours = np.mean(errors, axis=0)
    assert ours <= 1.08 * min(plain, huber)


def test_rows_far_apart_that_the_columns_tell_are_a_kind_of_row():
    """Energy has two kinds of buildings; in this split a fit of the one is far from the other."""
    X, y, X_new, y_new = split_of("energy", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = SelfPacedRegressor().fit(X, y)
    plain = LinearRegression().fit(X, y)
    assert np.mean(~ours.selected_) < 0.1
    errors = [np.mean(np.abs(model.predict(X_new) - y_new)) for model in (ours, plain)]
    assert errors[0] < 1.05 * errors[1]


def benzene(number):
    """Benzene follows one sensor along a curve, so exactly that a strip of it looks like a line."""
    if not AIR.exists():
        pytest.skip(f"the table is not at {AIR}")
    frame = pd.read_csv(AIR, sep=";", decimal=",").filter(regex=r"^(PT08|T$|RH|AH|C6H6)")
    frame = frame[["C6H6(GT)", *frame.columns.drop("C6H6(GT)")]].dropna()
    rows = frame[(frame != -200).all(axis=1)].to_numpy(dtype=np.float64)
    tests = np.random.default_rng(0).permutation(len(rows))[: len(rows) // 10]
    rows = np.delete(rows, tests, axis=0)[::3]
    return rows[:, 1:], rows[:, 0], np.random.default_rng([0, number, 30])


def fitted_beside(X, y, wrong_y):
    """Return the share of wrong rows flagged, and the error beside that of a fit without them."""
    wrong = wrong_y != y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SelfPacedRegressor().fit(X, wrong_y)
        huber = make_pipeline(StandardScaler(), HuberRegressor(max_iter=1000))
        right = huber.fit(X[~wrong], y[~wrong])
    ours, theirs = (np.mean(np.abs(each.predict(X) - y)[~wrong]) for each in (model, right))
    return np.mean(~model.selected_[wrong]), ours / theirs


def test_a_start_that_runs_away_does_not_end_the_fit():
    X, y, rng = benzene(2)
    thousandfold = y.copy()
    thousandfold[rng.choice(y.size, round(0.3 * y.size), replace=False)] *= 1000.0
    found, error = fitted_beside(X, y, thousandfold)
    assert found > 0.99
    assert error < 1.05


def test_a_block_of_shifted_rows_is_found_beside_a_curve_that_is_nearly_exact():
    X, y, rng = benzene(7)
    n_rows = round(0.3 * y.size)
    first = int(rng.integers(0, y.size - n_rows + 1))
    shifted = y.copy()
    shifted[first : first + n_rows] += 3.0 * y.std()
    found, error = fitted_beside(X, y, shifted)
    assert found > 0.95
    assert error < 1.1
