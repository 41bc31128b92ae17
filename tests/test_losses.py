"""Every loss keeps the contract of `easyfirst.losses.Loss`."""

import copy
import pickle

import numpy as np
import pytest

from easyfirst.losses import Loss, Squared
from problems import members

LOSSES = [cls() for cls in members(Loss)]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


@pytest.fixture
def pairs():
    rng = np.random.default_rng(0)
    return rng.normal(scale=3.0, size=200), rng.normal(scale=3.0, size=200)


def test_the_battery_covers_the_squared_loss():
    assert Squared() in LOSSES


@every_loss
def test_central_differences_equal_the_gradient(loss, pairs):
    y, prediction = pairs
    h = 1e-5
    slope = (loss.value(y, prediction + h) - loss.value(y, prediction - h)) / (2 * h)
    np.testing.assert_allclose(loss.gradient(y, prediction), slope, rtol=1e-6, atol=1e-6)


@every_loss
def test_gradient_differences_stay_below_the_curvature_and_equal_it_where_quadratic(loss, pairs):
    y, prediction = pairs
    h = 1e-5
    slope = (loss.gradient(y, prediction + h) - loss.gradient(y, prediction - h)) / (2 * h)
    curvature = loss.curvature(y, prediction)
    assert curvature.shape == y.shape
    assert np.all(slope <= curvature + 1e-6)
    if loss.quadratic:
        np.testing.assert_allclose(curvature, slope, rtol=1e-6)


@every_loss
def test_a_perfect_prediction_costs_nothing_and_has_no_slope(loss, pairs):
    y, _ = pairs
    assert np.all(loss.value(y, y) == 0)
    assert np.all(loss.gradient(y, y) == 0)


@every_loss
def test_a_wrong_prediction_costs_something(loss, pairs):
    y, prediction = pairs
    assert np.all(loss.value(y, prediction) > 0)


@every_loss
def test_each_row_is_judged_by_itself(loss, pairs):
    y, prediction = pairs
    for function in (loss.value, loss.gradient, loss.curvature):
        alone = [function(y[i : i + 1], prediction[i : i + 1])[0] for i in range(10)]
        np.testing.assert_array_equal(function(y, prediction)[:10], alone)


@every_loss
def test_copies_and_pickles_equal_the_original(loss):
    assert copy.deepcopy(loss) == loss
    assert pickle.loads(pickle.dumps(loss)) == loss


def test_the_squared_loss_has_no_factor_one_half():
    assert Squared().value(np.array([3.0]), np.array([1.0]))[0] == 4.0
