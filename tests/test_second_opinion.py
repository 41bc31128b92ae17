"""What is returned where the calibrated fit alone would do harm, and where it is right."""

import numpy as np
import pytest
from sklearn.linear_model import HuberRegressor

from easyfirst import SelfPacedRegressor
from easyfirst.consensus.checks.beside_a_group import start_beside_a_group
from easyfirst.consensus.robust.huber import huber, least_absolute_deviations

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def fitted(X, y):
    return SelfPacedRegressor().fit(X, y)


def leaves_the_range(model, X, y):
    prediction, width = model.predict(X), np.ptp(y)
    return prediction.max() > y.max() + width or prediction.min() < y.min() - width


@pytest.mark.parametrize("seed", range(3))
def test_a_slope_from_the_middle_of_a_long_tailed_column_is_not_followed_to_its_end(seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.gamma(4.0, 0.7, 3000), rng.normal(size=(3000, 3))])
    X[:6, 0] = [1200.0, 600.0, 500.0, 230.0, 80.0, 60.0]
    y = X[:, 1:] @ [1.0, -0.5, 0.3] - 0.12 * np.minimum(X[:, 0], 6.0) + 0.5 * rng.normal(size=3000)
    model = fitted(X[1:], y[1:])
    assert not leaves_the_range(model, X, y)
    assert np.allclose(model.coef_[1:], [1.0, -0.5, 0.3], atol=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_a_row_far_out_whose_y_is_far_out_as_well_keeps_the_slope(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1000, 3))
    X[:2, 0] = [100.0, -60.0]
    y = X @ [2.0, 1.0, 0.0] + 0.3 * rng.normal(size=1000)
    assert np.allclose(fitted(X, y).coef_, [2.0, 1.0, 0.0], atol=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_a_new_row_off_a_direction_that_no_row_knows_is_predicted_within_range(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1500, 3))
    y = X @ [1.0, 0.5, 0.0] + 0.5 * rng.normal(size=1500)
    X = np.column_stack([X, X[:, 0] + 1e-5 * (rng.normal(size=1500) + 0.1 * y)])
    new = np.array([[0.0, 0.0, 0.0, 0.5]])
    assert not leaves_the_range(fitted(X, y), new, y)


@pytest.mark.parametrize("seed", range(3))
def test_a_shifted_block_that_x_tells_apart_does_not_outvote_the_majority(seed):
    rng = np.random.default_rng(seed)
    season = np.linspace(-1.5, 1.5, 800)
    X = np.column_stack([season + 0.4 * rng.normal(size=800), rng.normal(size=(800, 4))])
    y = X @ [1.0, 2.0, -1.0, 0.5, 0.0] + 0.3 * np.square(X[:, 0]) + 0.5 * rng.normal(size=800)
    wrong = np.zeros(800, dtype=bool)
    wrong[500:740] = True
    model = fitted(X, y + 8.0 * wrong)
    assert np.mean(model.weights_[wrong] < 0.5) > 0.95
    assert np.mean(model.weights_[~wrong] < 0.5) < 0.1


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_uneven_noise_explains_are_not_left_out_of_the_fit(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1200, 4))
    center = X @ [1.0, -1.0, 0.5, 0.0] + 0.4 * np.square(X[:, 0])
    y = center + np.exp(1.2 * X[:, 0]) * rng.normal(size=1200)
    model = fitted(X, y)
    design = np.column_stack([X, np.ones(1200)])
    plain = design @ np.linalg.lstsq(design, center, rcond=None)[0]
    ours, best = (np.mean(np.abs(p - center)) for p in (model.predict(X), plain))
    assert ours < 1.25 * best


def test_a_fit_of_a_minority_is_not_kept_because_others_lie_far_out():
    rng = np.random.default_rng(0)
    kind = rng.random(700) < 0.45
    X = np.column_stack([np.where(kind, 5.0, 0.0), rng.normal(size=(700, 3))])
    slope = np.where(kind, 3.0, 1.0)
    y = slope * X[:, 1] + X[:, 2] + 2.0 * kind + np.where(kind, 1.5, 0.2) * rng.normal(size=700)
    model = fitted(X, y)
    design = np.column_stack([X, np.ones(700)])
    plain = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    ours, least_squares = (np.mean(np.abs(y - p)) for p in (model.predict(X), plain))
    assert ours < 1.03 * least_squares


def mean_miss(model, X, y):
    return np.mean(np.abs(y - model.predict(X)))


def oracle_miss(X, y, wrong):
    design = np.column_stack([X, np.ones(len(X))])[~wrong]
    best = design @ np.linalg.lstsq(design, y[~wrong], rcond=None)[0]
    return np.mean(np.abs(y[~wrong] - best))


@pytest.mark.parametrize("n", [300, 1500])
@pytest.mark.parametrize("seed", range(6))
def test_a_column_ten_times_too_large_in_a_tenth_of_the_rows_is_not_followed(n, seed):
    rng = np.random.default_rng([seed, n])
    X = np.exp(0.5 * rng.normal(size=(n, 5)))
    y = X @ rng.normal(size=5) + 0.3 * rng.normal(size=n)
    wrong = np.zeros(n, dtype=bool)
    wrong[rng.choice(n, n // 10, replace=False)] = True
    seen = X.copy()
    seen[wrong, seed % 5] *= 10.0
    model = fitted(seen, y)
    assert mean_miss(model, X[~wrong], y[~wrong]) < 1.1 * oracle_miss(X, y, wrong)
    assert not any("A line is not enough" in doubt for doubt in model.doubts_)


@pytest.mark.parametrize("seed", range(4))
def test_rows_scattered_far_out_have_no_vote_against_all_others(seed):
    rng = np.random.default_rng(seed)
    X = np.exp(0.5 * rng.normal(size=(1500, 6)))
    y = X @ rng.normal(size=6) + 0.3 * rng.normal(size=1500)
    wrong = np.arange(1500) % 10 == 0
    X[wrong] = X.mean(axis=0) + 8.0 * X.std(axis=0) * rng.normal(size=(wrong.sum(), 6))
    model = fitted(X, y)
    assert mean_miss(model, X[~wrong], y[~wrong]) < 1.05 * oracle_miss(X, y, wrong)


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_are_zero_throughout_do_not_decide_about_the_others(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(900, 4))
    empty = rng.random(900) < 0.7
    X[empty] = 0.0
    y = X @ [3.0, -2.0, 1.0, 0.5] + np.where(empty, 0.0, 1.0 * rng.normal(size=900))
    model = fitted(X, y)
    design = np.column_stack([X, np.ones(900)])
    plain = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    assert mean_miss(model, X, y) < 1.05 * np.mean(np.abs(y - plain))


@pytest.mark.parametrize("seed", range(3))
def test_mistakes_as_wide_in_every_row_do_not_hide_that_noise_is_uneven(seed):
    rng = np.random.default_rng(200 + seed)
    X, wrong = rng.normal(size=(6000, 4)), rng.uniform(size=6000) < 0.4
    sizes = np.exp(0.5 * X[:, 0])
    y = X @ [1.0, 0.5, -0.5, 0.0] + sizes * rng.normal(size=6000)
    y[wrong] += rng.uniform(-25.0, 25.0, wrong.sum())
    model = fitted(X, y)
    assert model.corrupted_fraction_ == pytest.approx(wrong.mean(), abs=0.006)
    bounds = model.predict_interval(X)
    inside = (y >= bounds[:, 0]) & (y <= bounds[:, 1])
    for half in (X[:, 0] < -0.5, X[:, 0] > 0.5):
        assert inside[half & ~wrong].mean() == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_a_bump_beside_a_gap_is_not_excused_by_rows_of_the_nearer_tail(seed):
    """A third of the rows is shifted far off in one season; the others have long tails."""
    rng = np.random.default_rng(seed)
    season = np.linspace(-1.5, 1.5, 900)
    X = np.column_stack([season + 0.3 * rng.normal(size=900), rng.normal(size=(900, 3))])
    y = X @ [1.0, 2.0, -1.0, 0.5] + 0.5 * rng.standard_t(3, size=900)
    wrong = np.arange(900) >= 630
    model = fitted(X, y + 9.0 * wrong)
    assert np.mean(model.weights_[wrong] < 0.5) > 0.95
    assert np.allclose(model.coef_, [1.0, 2.0, -1.0, 0.5], atol=0.25)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["sign", "swapped"])
def test_mistakes_that_pass_for_noise_bend_slopes_no_more_than_hubers(kind, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(800, 4))
    truth = np.array([1.0, -0.5, 0.5, 0.2])
    y = X @ truth + 0.5 * rng.standard_t(3, size=800) + (1.0 if kind == "sign" else 0.0)
    wrong = rng.random(800) < 0.3
    y[wrong] = -y[wrong] if kind == "sign" else rng.permutation(y[wrong])
    ours = np.linalg.norm(fitted(X, y).coef_ - truth)
    theirs = np.linalg.norm(HuberRegressor().fit(X, y).coef_ - truth)
    assert ours < 1.1 * theirs


@pytest.mark.parametrize("seed", range(3))
def test_the_usual_knee_stays_where_slopes_agree_but_for_chance(seed):
    """Heavy tails and even noise: a knee close to the median would only lose rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1500, 3))
    y = X @ [1.0, -0.5, 0.5] + rng.standard_t(4, size=1500)
    theirs = HuberRegressor(epsilon=1.9).fit(X, y).coef_  # whose knee is about ours
    assert np.allclose(fitted(X, y).coef_, theirs, atol=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_a_block_of_shifted_rows_that_x_partly_tells_is_found_beside_a_curve(seed):
    rng, n = np.random.default_rng(seed), 1500
    block = np.arange(n) < 0.3 * n
    X = rng.normal(size=(n, 4))
    X[:, 1:3] += block[:, None] * np.array([1.0, -1.0])  # a season, say
    y = 10.0 * X[:, 0] + 3.0 * np.maximum(X[:, 0], 0.0) ** 2 + 0.3 * rng.normal(size=n)
    model = SelfPacedRegressor(engine="inline").fit(X, np.where(block, y + 60.0, y))
    assert np.mean(~model.selected_[block]) > 0.9
    assert np.mean(~model.selected_[~block]) < 0.05


@pytest.mark.parametrize("seed", range(3))
def test_plain_fits_do_not_begin_at_one_half_of_two(seed):
    rng, n = np.random.default_rng(seed), 1500
    X = rng.normal(size=(n, 3))
    other_kind = X[:, 1] + 0.5 * rng.normal(size=n) > 0.1
    y = X[:, 0] + 0.2 * rng.normal(size=n) + 20.0 * other_kind
    design, counts = np.column_stack([X, np.ones(n)]), np.ones(n)
    plain = huber(design, y, least_absolute_deviations(design, y, counts), counts)
    assert start_beside_a_group(design, y, counts, plain) is None
