"""Ordinary tables in which nothing is known to be wrong: the default does no harm there."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import HuberRegressor, LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from easyfirst import SelfPacedRegressor

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "uci_natural"
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
