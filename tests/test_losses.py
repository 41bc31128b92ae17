"""Every loss keeps the contract of `easyfirst.losses.Loss`."""

import copy
import pickle

import numpy as np
import pytest

from easyfirst.losses import (
    Absolute,
    Cauchy,
    GammaDeviance,
    Huber,
    Logistic,
    Loss,
    Pinball,
    PoissonDeviance,
    Squared,
    SquaredHinge,
)
from problems import members

VARIANTS = [Huber(0.2), Pinball(0.9, 0.5), Absolute(2.0), Cauchy(0.3)]
LOSSES = [cls() for cls in members(Loss)] + VARIANTS
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
every_log_link = pytest.mark.parametrize("loss", [PoissonDeviance(), GammaDeviance()])


def responses(loss, n=200):
    """Draw responses that the loss accepts."""
    rng = np.random.default_rng(0)
    y = rng.normal(scale=3.0, size=n)
    for allowed in (y, np.rint(np.abs(y)), np.abs(y), (y > 0).astype(float)):
        if loss.complaint(allowed) is None:
            return allowed
    raise AssertionError(f"no responses for {loss!r}")


def predictions(n=200):
    return np.random.default_rng(1).normal(scale=3.0, size=n)


def test_the_battery_covers_every_loss():
    named = {Absolute, Cauchy, GammaDeviance, Huber, Logistic, Pinball, PoissonDeviance, Squared}
    assert named | {SquaredHinge} <= {type(loss) for loss in LOSSES}


@every_loss
def test_central_differences_equal_the_gradient(loss):
    y, prediction = responses(loss), predictions()
    h = 1e-6
    slope = (loss.value(y, prediction + h) - loss.value(y, prediction - h)) / (2 * h)
    np.testing.assert_allclose(loss.gradient(y, prediction), slope, rtol=1e-5, atol=1e-6)


@every_loss
def test_gradient_differences_stay_below_the_curvature_and_equal_it_where_quadratic(loss):
    y, prediction = responses(loss), predictions()
    h = 1e-6
    slope = (loss.gradient(y, prediction + h) - loss.gradient(y, prediction - h)) / (2 * h)
    curvature = loss.curvature(y, prediction)
    assert curvature.shape == y.shape
    assert np.all(curvature >= 0)
    assert np.all(slope <= curvature * (1 + 1e-6) + 1e-4)
    if loss.quadratic:
        np.testing.assert_allclose(curvature, slope, rtol=1e-6)


@every_loss
def test_convex_losses_lie_above_their_tangents_and_others_below_their_parabola(loss):
    y, here, there = responses(loss), predictions(), predictions()[::-1]
    step = there - here
    tangent = loss.value(y, here) + loss.gradient(y, here) * step
    reached = loss.value(y, there)
    slack = 1e-9 * (1 + np.abs(reached) + np.abs(tangent))
    if loss.convex:
        assert np.all(reached >= tangent - slack)
    else:
        assert np.all(reached <= tangent + 0.5 * loss.curvature(y, here) * step**2 + slack)
        assert np.any(reached < tangent - 1e-3)


@every_loss
def test_extreme_predictions_give_numbers(loss):
    y = np.tile(responses(loss, 5), 8)
    extreme = np.repeat([0.0, 1e-300, 1e3, 1e8, 1e150, -1e3, -1e8, -1e150], 5)
    with np.errstate(over="ignore"):
        for function in (loss.value, loss.gradient, loss.curvature):
            assert not np.any(np.isnan(function(y, extreme)))
        assert not np.any(np.isnan(loss.mean(extreme)))


@every_loss
def test_losses_are_never_negative_and_wrong_predictions_cost_something(loss):
    y, prediction = responses(loss), predictions()
    assert np.all(loss.value(y, prediction) >= 0)
    assert np.mean(loss.value(y, prediction)) > 0


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if not loss.unit_free], ids=repr)
def test_a_perfect_prediction_costs_nothing_and_has_no_slope(loss):
    y = responses(loss)
    assert np.all(loss.value(y, y) == 0)
    assert np.all(loss.gradient(y, y) == 0)


@every_log_link
def test_the_loss_is_least_where_the_mean_is_the_response(loss):
    y = responses(loss)
    y = y[y > 0]
    prediction = np.log(y)
    np.testing.assert_allclose(loss.mean(prediction), y)
    np.testing.assert_allclose(loss.value(y, prediction), 0, atol=1e-12)
    np.testing.assert_allclose(loss.gradient(y, prediction), 0, atol=1e-12)


@every_loss
def test_the_root_of_a_loss_has_the_sign_of_the_residual(loss):
    y, prediction = responses(loss), predictions()
    residual = y - prediction
    root = loss.signed_root(y, residual)
    np.testing.assert_allclose(root**2, loss.at_residual(y, residual), rtol=1e-12)
    assert np.all((root == 0) | (np.sign(root) == np.sign(residual)))


@every_loss
def test_each_row_is_judged_by_itself(loss):
    y, prediction = responses(loss), predictions()
    for function in (loss.value, loss.gradient, loss.curvature):
        alone = [function(y[i : i + 1], prediction[i : i + 1])[0] for i in range(10)]
        np.testing.assert_array_equal(function(y, prediction)[:10], alone)


@every_loss
def test_stages_lead_to_the_loss_itself(loss):
    stages = loss.stages(100.0)
    assert stages[-1] == loss
    widths = [getattr(stage, "smoothing", 0.0) for stage in stages]
    assert widths == sorted(widths, reverse=True)
    if len(stages) > 1:
        assert 50.0 <= widths[0] <= 100.0


@every_loss
def test_copies_and_pickles_equal_the_original(loss):
    assert copy.deepcopy(loss) == loss
    assert pickle.loads(pickle.dumps(loss)) == loss


def test_the_losses_have_their_documented_values():
    zero = np.zeros(1)
    assert Squared().value(np.array([3.0]), np.array([1.0]))[0] == 4.0
    assert Huber(1.0).value(np.array([3.0]), zero)[0] == 5.0
    assert Absolute(1e-9).value(np.array([-3.0]), zero)[0] == pytest.approx(3.0)
    assert Pinball(0.9, 1e-9).value(np.array([3.0, -3.0]), np.zeros(2)) == pytest.approx([2.7, 0.3])
    assert Logistic().value(np.ones(1), zero)[0] == pytest.approx(np.log(2))
    assert SquaredHinge().value(np.ones(1), np.array([-1.0]))[0] == 4.0
    assert PoissonDeviance().value(zero, zero)[0] == 2.0
    assert GammaDeviance().value(np.ones(1), np.ones(1))[0] == pytest.approx(2 / np.e)


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        (Logistic(), [0.0, 2.0], "responses that are 0 or 1, got 2"),
        (SquaredHinge(), [-1.0, 1.0], "responses that are 0 or 1, got -1"),
        (PoissonDeviance(), [1.0, -1.0], "responses >= 0, got -1"),
        (GammaDeviance(), [1.0, 0.0], "responses > 0, got 0"),
    ],
)
def test_responses_that_a_loss_cannot_have_are_named(loss, y, message):
    assert message in loss.complaint(np.array(y))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Huber(0.0), "delta must be a finite number > 0, got 0.0"),
        (lambda: Pinball(1.0), "level must lie between 0 and 1, got 1.0"),
        (lambda: Pinball(0.5, -1.0), "smoothing must be a finite number > 0, got -1.0"),
        (lambda: Absolute(np.inf), "smoothing must be a finite number > 0, got inf"),
        (lambda: Cauchy(np.nan), "scale must be a finite number > 0, got nan"),
    ],
)
def test_bad_parameters_are_refused_by_name_and_value(build, message):
    with pytest.raises(ValueError, match=message):
        build()
