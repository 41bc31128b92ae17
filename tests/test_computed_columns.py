"""Columns computed from others: their ends are no mistakes in X."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from easyfirst import SelfPacedRegressor
from easyfirst.consensus.starts.computed_columns import computed_columns


def curve(seed, n):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    return x, np.sin(4 * x) + 0.1 * rng.normal(size=n)


def test_powers_logarithms_and_products_are_computed():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 200))
    X = np.column_stack([a, b, a**2, np.exp(a), 3 * a * b + b - 2, rng.normal(size=200) ** 3])
    assert computed_columns(X).tolist() == [False, False, True, True, True, False]


def test_a_mistake_in_a_computed_column_shows():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 200))
    square = a**2
    square[7] *= 10
    assert not computed_columns(np.column_stack([a, b, square])).any()


def test_of_two_columns_that_follow_from_each_other_one_is_left():
    a = np.random.default_rng(2).normal(size=100)
    assert computed_columns(np.column_stack([a**3, a, 5 - 2 * a])).sum() == 2


@pytest.mark.parametrize("rows", [2, 5, 11])
def test_few_rows_refute_nothing_and_show_nothing(rows):
    X = np.random.default_rng(3).normal(size=(rows, 3))
    assert not computed_columns(X).any()


@pytest.mark.filterwarnings("ignore:Errors grow")  # a cubic is not quite enough for the curve
@pytest.mark.parametrize("seed", [14, 15, 20])
@pytest.mark.parametrize("degree", [3, 7])
def test_the_ends_of_a_polynomial_are_kept(seed, degree):
    x, y = curve(seed, 100)
    new, truth = curve(seed + 100, 1000)
    powers = make_pipeline(PolynomialFeatures(degree, include_bias=False), StandardScaler())
    X, X_new = powers.fit_transform(x[:, None]), powers.transform(new[:, None])
    ours, plain = (
        model.fit(X, y).predict(X_new) for model in (SelfPacedRegressor(), LinearRegression())
    )
    assert np.abs(ours - truth).mean() < 1.05 * np.abs(plain - truth).mean()


def test_mistakes_in_the_column_itself_are_still_found():
    rng = np.random.default_rng(4)
    x = rng.normal(size=400)
    y = 1 + 2 * x + x**2 + 0.2 * rng.normal(size=400)
    wrong = np.arange(400) < 40
    given = np.where(wrong, x + rng.choice([-6, 6], 400), x)
    model = SelfPacedRegressor().fit(np.column_stack([given, given**2]), y)
    assert np.mean(~model.selected_[wrong]) > 0.9
    assert np.mean(~model.selected_[~wrong]) < 0.02
    np.testing.assert_allclose(model.coef_, [2, 1], atol=0.1)
