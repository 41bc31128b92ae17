"""The small classics of robust regression: known bad rows flagged, good leverage points kept."""

import csv
from pathlib import Path

import numpy as np
import pytest

from easyfirst import SelfPacedRegressor

DATA = Path(__file__).parent / "data" / "robust_classics"

# Row numbers from one: those to flag, and those that may be flagged or not.
KNOWN = {
    "datasets__stackloss": ({1, 3, 4, 21}, {2}),
    "robustbase__hbk": (set(range(1, 11)), set()),  # 11 to 14 are good leverage
    "robustbase__starsCYG": ({11, 20, 30, 34}, {7}),
    "robustbase__telef": (set(range(15, 21)), {14, 21}),
    "robustbase__wood": ({4, 6, 8, 19}, set()),
}


def load(name):
    with (DATA / f"{name}.csv").open(encoding="utf-8-sig", newline="") as file:
        table = np.array([row[1:] for row in csv.reader(file)][1:], dtype=float)
    return table[:, :-1], table[:, -1]


@pytest.mark.parametrize("random_state", [None, 1])
@pytest.mark.parametrize("name", KNOWN)
def test_the_known_bad_rows_are_flagged_and_no_other(name, random_state):
    X, y = load(name)
    bad, unclear = KNOWN[name]
    model = SelfPacedRegressor(random_state=random_state).fit(X, y)
    flagged = {int(row) + 1 for row in np.flatnonzero(~model.selected_)}
    assert bad <= flagged <= bad | unclear


@pytest.mark.parametrize("name", KNOWN)
def test_units_order_and_batches_do_not_change_what_is_flagged(name):
    X, y = load(name)
    expected = SelfPacedRegressor().fit(X, y).selected_
    order = np.random.default_rng(0).permutation(len(y))
    unit = 10.0 ** np.arange(X.shape[1])
    shuffled = SelfPacedRegressor(n_batches=3).fit((X * unit)[order], 1e4 * y[order])
    np.testing.assert_array_equal(shuffled.selected_, expected[order])


def test_the_good_leverage_points_of_hbk_are_trusted():
    X, y = load("robustbase__hbk")
    assert np.all(SelfPacedRegressor().fit(X, y).weights_[10:14] > 0.9)
