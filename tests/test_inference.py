"""How sure a calibrated fit is: standard errors, intervals, and what a callback or a copy keeps."""

import pickle

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone

from easyfirst import SelfPacedRegressor
from easyfirst.callbacks import Callback
from easyfirst.datasets import make_corrupted_regression
from easyfirst.schedules import Geometric
from problems import corrupted_rows


def draw(share, seed, n=2000, p=20):
    return make_corrupted_regression(n, p, 1, corruption_ratio=share, random_state=seed)


def fitted(data, **settings):
    return SelfPacedRegressor(engine="inline", **settings).fit(data.X, data.y)


# 15 seeds times 20 nearly independent coefficients: the binomial standard deviation of a coverage
# of 0.95 is 0.0126, so that 0.91 to 0.985 is three of them and more on either side.
@pytest.mark.parametrize("share", [0.0, 0.4, 0.8])
def test_95_percent_intervals_cover_the_coefficients_95_percent_of_the_time(share):
    hits = []
    for seed in range(15):
        data = draw(share, seed)
        low, high = bounds(fitted(data))[:-1].T
        hits.append((low <= data.coef) & (data.coef <= high))
    assert 0.91 <= np.mean(hits) <= 0.985


def test_without_corruption_standard_errors_are_those_of_least_squares():
    data = draw(0.0, 3)
    model = fitted(data)
    design = np.column_stack([data.X, np.ones(len(data.X))])
    residual = data.y - design @ np.linalg.lstsq(design, data.y, rcond=None)[0]
    variance = residual @ residual / (len(data.y) - 21)
    expected = np.sqrt(variance * np.diagonal(np.linalg.inv(design.T @ design)))
    np.testing.assert_allclose(model.coef_standard_errors_, expected[:-1], rtol=0.03)
    assert model.intercept_standard_error_ == pytest.approx(expected[-1], rel=0.03)


def test_the_intercept_of_columns_far_from_zero_is_as_unsure_as_least_squares_says():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(17_900, 19_700, 2000), rng.normal(size=2000)])
    y = 20.0 * X[:, 0] + X[:, 1] + rng.normal(0, 500, 2000)
    model = SelfPacedRegressor(engine="inline").fit(X, y)
    design = np.column_stack([X, np.ones(2000)])
    residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    covariance = residual @ residual / 1997 * np.linalg.inv(design.T @ design)
    assert model.intercept_standard_error_ == pytest.approx(np.sqrt(covariance[2, 2]), rel=0.05)


def bounds(model, level=0.95):
    return model.confidence_intervals(level)[["lower", "upper"]].to_numpy()


def test_intervals_have_names_and_the_intercept_comes_last():
    model = fitted(draw(0.4, 0))
    found = model.confidence_intervals()
    assert list(found.columns) == ["name", "coef", "lower", "upper"]
    assert list(found["name"]) == [*(f"x{j}" for j in range(model.coef_.size)), "(intercept)"]
    assert found["coef"].iloc[-1] == model.intercept_
    assert found["lower"].iloc[-1] < model.intercept_ < found["upper"].iloc[-1]


def test_without_an_intercept_there_are_no_bounds_for_it():
    rows = corrupted_rows(intercept=0.0)
    model = SelfPacedRegressor(fit_intercept=False).fit(rows.X, rows.y)
    assert list(model.confidence_intervals()["name"]) == ["x0", "x1", "x2"]


def test_intervals_widen_with_their_level_around_the_coefficients():
    model = fitted(draw(0.4, 0))
    narrow, wide = bounds(model, 0.5), bounds(model, 0.99)
    middle = np.append(model.coef_, model.intercept_)
    np.testing.assert_allclose(narrow.mean(axis=1), middle, rtol=1e-9)
    assert np.all(wide[:, 0] < narrow[:, 0])
    assert np.all(wide[:, 1] > narrow[:, 1])
    half = bounds(model)[:-1, 1] - model.coef_
    np.testing.assert_allclose(half / model.coef_standard_errors_, 1.96, rtol=0.01)


@pytest.mark.parametrize("n", [150, 4000])
def test_new_clean_rows_lie_in_their_intervals_as_often_as_promised(n):
    covered, widths = [], []
    for seed in range(6):
        data, fresh = draw(0.4, seed, n, 10), np.random.default_rng(seed)
        model = fitted(data)
        X = fresh.normal(size=(4000, 10))
        y = X @ data.coef + np.sqrt(0.1) * fresh.normal(size=4000)
        low, high = model.predict_interval(X, coverage=0.9).T
        covered.append(np.mean((low <= y) & (y <= high)))
        design = np.column_stack([data.X, np.ones(n)])[data.clean]
        target = data.y[data.clean]
        residual = target - design @ np.linalg.lstsq(design, target, rcond=None)[0]
        scale = np.sqrt(residual @ residual / (len(target) - 11) * (1 + 11 / len(target)))
        widths.append(np.mean(high - low) / (2 * norm.ppf(0.95) * scale))
    assert np.mean(covered) == pytest.approx(0.9, abs=0.03)
    assert np.mean(widths) <= 1.2


def test_intervals_are_centred_and_grow_with_their_coverage():
    data = draw(0.4, 1)
    model = fitted(data)
    inner, outer = model.predict_interval(data.X, 0.5), model.predict_interval(data.X, 0.95)
    np.testing.assert_allclose(inner.mean(axis=1), model.predict(data.X), atol=1e-12)
    assert np.all(outer[:, 0] < inner[:, 0])
    assert np.all(inner[:, 1] < outer[:, 1])


@pytest.mark.parametrize("bad", [0.0, 1.0, -1.0, 90])
def test_a_level_outside_zero_and_one_is_refused(bad):
    data = draw(0.2, 0, 300, 3)
    model = fitted(data)
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
        model.predict_interval(data.X, bad)
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        model.confidence_intervals(bad)


def test_what_needs_a_noise_scale_says_so_without_one():
    rows = corrupted_rows()
    model = SelfPacedRegressor(pace=Geometric()).fit(rows.X, rows.y)
    for ask in (
        lambda: model.predict_interval(rows.X),
        lambda: model.confidence_intervals(),
        lambda: model.clean_probability(rows.X, rows.y),
    ):
        with pytest.raises(AttributeError, match="only the calibrated pace"):
            ask()
    assert not hasattr(model, "corrupted_fraction_")


def test_another_schedule_leaves_nothing_of_the_calibration_behind():
    rows = corrupted_rows()
    model = SelfPacedRegressor().fit(rows.X, rows.y)
    assert model.corrupted_fraction_ == pytest.approx(0.25, abs=0.05)
    model.set_params(pace=Geometric()).fit(rows.X, rows.y)
    assert not hasattr(model, "corrupted_fraction_")
    assert not hasattr(model, "coef_standard_errors_")


def test_the_clean_probability_of_training_rows_is_their_weight():
    data = draw(0.4, 2)
    model = fitted(data)
    np.testing.assert_allclose(model.clean_probability(data.X, data.y), model.weights_, atol=0.02)


def test_the_interval_of_the_corrupted_share_holds_the_estimate_and_the_truth():
    for seed in range(5):
        data = draw(0.4, seed)
        model = fitted(data)
        low, high = model.corrupted_interval_
        assert low <= model.corrupted_fraction_ <= high
        assert low - 0.01 <= np.mean(~data.clean) <= high + 0.01
        assert high - low < 0.06


def test_batch_shares_follow_the_bad_batches():
    data = make_corrupted_regression(500, 5, 10, mode="batches", n_bad_batches=5, random_state=0)
    model = SelfPacedRegressor().fit(data.X, data.y, batches=data.batches)
    truth = [np.mean(data.clean[data.batches == k]) for k in range(10)]
    np.testing.assert_allclose(model.batch_clean_share_, truth, atol=0.06)


def test_a_fitted_model_survives_pickling_and_its_clone_is_new():
    data = draw(0.4, 4, 1500, 5)
    model = fitted(data)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_interval(data.X), model.predict_interval(data.X))
    np.testing.assert_array_equal(bounds(copy), bounds(model))
    again = clone(model)
    assert not hasattr(again, "coef_")
    np.testing.assert_array_equal(again.fit(data.X, data.y).coef_, model.coef_)


class StopAfter(Callback):
    """Ends the fit after so many rounds."""

    def __init__(self, rounds):
        self.left = rounds

    def on_round_end(self, record):
        self.left -= 1
        return self.left <= 0


@pytest.mark.parametrize("rounds", [1, 3, 8, 13])
def test_a_fit_that_a_callback_ends_is_usable_and_says_how_it_ended(rounds):
    data = draw(0.4, 5, 3000, 5)
    model = fitted(data, callbacks=[StopAfter(rounds)])
    assert model.status_.code == "callback"
    assert np.all(np.isfinite(model.predict(data.X)))
    assert model.weights_.shape == (3000,)
    assert np.all((model.weights_ >= 0) & (model.weights_ <= 1))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("max_rounds", [1, 2, 5])
def test_few_rounds_give_a_model_that_is_close_all_the_same(max_rounds):
    data = draw(0.4, 6, 3000, 5)
    full = fitted(data)
    short = fitted(data, max_rounds=max_rounds)
    assert np.all(np.isfinite(short.coef_))
    if max_rounds > 1:
        assert np.linalg.norm(short.coef_ - data.coef) < 10 * np.linalg.norm(full.coef_ - data.coef)
