"""Tables in which many or most rows are wrong, and tables that only look like that."""

import numpy as np
import pytest
from sklearn.linear_model import HuberRegressor

from easyfirst import SelfPacedRegressor
from easyfirst.errors import NoSingleModelWarning


@pytest.mark.parametrize("seed", [0, 3, 5])
def test_rows_that_agree_are_seen_around_a_plain_fit_beside_many_wrong_ones(seed):
    """Prices: skewed, curved, with noise that grows, and 70 % of them wrong by up to 600."""
    rng = np.random.default_rng(seed)
    X, wrong = rng.normal(size=(8000, 4)), rng.random(8000) < 0.7
    y = 100.0 * np.exp(0.5 * X[:, 0] + 0.2 * X[:, 1] + 0.35 * rng.normal(size=8000))
    clean = y.copy()
    y[wrong] += rng.uniform(-600.0, 600.0, wrong.sum())
    with pytest.warns(NoSingleModelWarning, match=r"Only (29|3\d) % of the rows look clean"):
        model = SelfPacedRegressor().fit(X, y)
    assert abs(model.corrupted_fraction_ - 0.7) < 0.04
    best = HuberRegressor(max_iter=1000).fit(X[~wrong], clean[~wrong])
    least = np.mean(np.abs(clean - best.predict(X)))
    assert np.mean(np.abs(clean - model.predict(X))) < 1.02 * least


def one_sided(seed, n, p, share, most):
    rng = np.random.default_rng(seed)
    X, wrong, coef = rng.normal(size=(n, p)), rng.random(n) < share, rng.normal(size=p)
    y = X @ coef + 0.5 * rng.normal(size=n)
    y[wrong] += rng.uniform(0.0, most, wrong.sum())
    return X, y, coef, wrong


@pytest.mark.parametrize("share", [0.6, 0.7, 0.8])
def test_errors_on_one_side_in_most_rows_are_found(share):
    X, y, coef, wrong = one_sided(5, 6000, 8, share, 20.0)
    with pytest.warns(NoSingleModelWarning, match="on one side of them"):
        model = SelfPacedRegressor().fit(X, y)
    assert abs(model.corrupted_fraction_ - wrong.mean()) < 0.03
    assert abs(model.intercept_) < 0.15
    np.testing.assert_allclose(model.coef_, coef, atol=0.1)


def test_errors_on_one_side_that_pass_for_noise_have_a_doubt():
    X, y, _, _ = one_sided(12, 20_000, 10, 0.9, 10.0)
    with pytest.warns(NoSingleModelWarning, match="evenly above it"):
        model = SelfPacedRegressor().fit(X, y)
    assert model.corrupted_fraction_ < 0.1
    with pytest.warns(NoSingleModelWarning, match="evenly below it"):
        SelfPacedRegressor().fit(X, -y)


@pytest.mark.parametrize("draw", ["exponential", "lognormal", "standard_gamma"])
def test_the_tail_of_skewed_noise_is_no_plateau(draw):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 5))
    shape = (2.0,) if draw == "standard_gamma" else ()
    noise = getattr(rng, draw)(*shape, size=3000)
    y = X @ [1.0, -1.0, 0.5, 0.0, 2.0] + noise
    model = SelfPacedRegressor().fit(X, y)
    assert np.mean(~model.selected_) < 0.1
    np.testing.assert_allclose(model.coef_, [1.0, -1.0, 0.5, 0.0, 2.0], atol=0.1)


@pytest.mark.parametrize("n", [1500, 6000])
def test_a_group_of_rows_beside_the_others_is_counted_right_however_many_rows(n):
    rng = np.random.default_rng(n)
    X, other = rng.normal(size=(n, 4)), rng.random(n) < 0.3
    y = X @ [1.0, 0.5, 0.0, 0.0] + 0.5 * rng.normal(size=n) + 3.0 * other
    with pytest.warns(NoSingleModelWarning, match="lie together above the others"):
        model = SelfPacedRegressor().fit(X, y)
    assert abs(model.corrupted_fraction_ - other.mean()) < 0.03
    assert abs(model.intercept_) < 0.06
