"""Generators of corrupted data."""

import numpy as np
import pytest

from easyfirst.datasets import make_adversarial_regression, make_corrupted_regression
from easyfirst.datasets.synthetic import random_shares


def bad_share(data):
    """The share of corrupted rows of each batch."""
    return np.array([np.mean(~data.clean[data.batches == b]) for b in np.unique(data.batches)])


def test_the_result_unpacks_and_has_the_stated_shapes():
    X, y, batches, clean, coef = make_corrupted_regression(50, 7, 4, random_state=0)
    assert X.shape == (200, 7)
    assert y.shape == batches.shape == clean.shape == (200,)
    assert coef.shape == (7,)
    assert np.bincount(batches).tolist() == [50] * 4
    assert clean.dtype == bool


def test_the_true_coefficients_are_positive_and_of_length_one():
    for seed in range(20):
        coef = make_corrupted_regression(2, 30, 1, random_state=seed).coef
        assert np.all(coef > 0)
        assert np.linalg.norm(coef) == pytest.approx(1.0)
        # Uniform before scaling: a normal direction, made positive, would spread further.
        assert coef.max() / np.median(coef) < 3


@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_uniform_corruption_has_the_same_share_in_every_batch(ratio):
    data = make_corrupted_regression(200, 3, 5, corruption_ratio=ratio, random_state=0)
    np.testing.assert_allclose(bad_share(data), ratio)


def test_corrupted_batches_are_nine_tenths_corrupted_and_the_rest_one_tenth():
    data = make_corrupted_regression(100, 3, 10, mode="batches", n_bad_batches=7, random_state=0)
    shares = bad_share(data)
    np.testing.assert_allclose(np.sort(shares), [0.1] * 3 + [0.9] * 7)
    assert not np.array_equal(shares, np.sort(shares)), "bad batches are chosen at random"
    four = make_corrupted_regression(100, 3, 10, mode="batches", random_state=0)
    assert np.sum(bad_share(four) > 0.5) == 4


@pytest.mark.parametrize("ratio", [0.1, 0.4, 0.7, 0.9, 0.99])
def test_heterogeneous_shares_differ_and_average_to_the_ratio(ratio):
    data = make_corrupted_regression(
        1000, 2, 10, mode="heterogeneous", corruption_ratio=ratio, random_state=0
    )
    shares = bad_share(data)
    assert shares.mean() == pytest.approx(ratio, abs=0.5e-3)
    assert np.ptp(shares) > 0.005


@pytest.mark.parametrize("ratio", [0.0, 0.3, 0.9, 0.999, 1.0])
def test_random_shares_have_the_exact_mean_after_one_draw_each(ratio):
    for seed in range(200):
        rng, twin = np.random.RandomState(seed), np.random.RandomState(seed)
        shares = random_shares(10, ratio, rng)
        assert np.all((shares >= 0) & (shares <= 1))
        assert shares.mean() == pytest.approx(ratio, abs=1e-12)
        # Rejection would take a quarter of a million draws per sample at 0.9.
        twin.uniform(size=10)
        assert rng.uniform() == twin.uniform()


@pytest.mark.parametrize("mode", ["uniform", "batches", "heterogeneous"])
def test_a_seed_reproduces_the_data(mode):
    one = make_corrupted_regression(20, 3, 4, mode=mode, random_state=5)
    two = make_corrupted_regression(20, 3, 4, mode=mode, random_state=5)
    other = make_corrupted_regression(20, 3, 4, mode=mode, random_state=6)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(one.y, other.y)


def test_clean_rows_have_the_stated_noise():
    data = make_corrupted_regression(5000, 3, 4, corruption_ratio=0.3, random_state=0)
    noise = (data.y - data.X @ data.coef)[data.clean]
    assert noise.var() == pytest.approx(0.1, rel=0.05)
    assert noise.mean() == pytest.approx(0.0, abs=0.01)
    exact = make_corrupted_regression(50, 3, 2, corruption_ratio=0.0, noise_variance=0.0)
    np.testing.assert_allclose(exact.y, exact.X @ exact.coef)


def test_corruption_is_symmetric_uniform_and_reaches_five_times_the_largest_clean_response():
    data = make_corrupted_regression(4000, 3, 3, corruption_ratio=0.5, random_state=0)
    for batch in range(3):
        here = data.batches == batch
        u = (data.y - data.X @ data.coef)[here & ~data.clean]
        largest_clean = np.abs(data.y[here & data.clean]).max()
        largest = np.abs((data.X @ data.coef)[here]).max() + 4 * np.sqrt(0.1)
        assert 4.5 * largest_clean < np.abs(u).max() < 5 * largest + 5 * 0.1
        assert abs(u.mean()) < 0.05 * np.abs(u).max()
        assert np.mean(np.abs(u) < np.abs(u).max() / 2) == pytest.approx(0.5, abs=0.05)


def test_corruption_leaves_the_rows_of_x_alone():
    data = make_corrupted_regression(5000, 3, 2, corruption_ratio=0.5, random_state=0)
    for mask in (data.clean, ~data.clean):
        assert data.X[mask].mean() == pytest.approx(0.0, abs=0.05)
        assert data.X[mask].var() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_samples_per_batch": 0}, "n_samples_per_batch must be .* got 0"),
        ({"n_features": 0}, "n_features must be .* got 0"),
        ({"n_batches": -1}, "n_batches must be .* got -1"),
        ({"corruption_ratio": 1.5}, r"corruption_ratio must lie in \[0, 1\], got 1.5"),
        ({"corruption_ratio": -0.1}, r"corruption_ratio must lie in \[0, 1\], got -0.1"),
        ({"corruption_ratio": np.nan}, r"corruption_ratio must lie in \[0, 1\], got nan"),
        ({"mode": "evil"}, "mode must be .* got 'evil'"),
        ({"mode": "batches", "n_bad_batches": 11}, r"n_bad_batches must lie in \[0, 10\], got 11"),
        ({"noise_variance": -1.0}, "noise_variance must be .* got -1.0"),
    ],
)
def test_bad_parameters_are_refused_by_name_and_value(settings, message):
    with pytest.raises(ValueError, match=message):
        make_corrupted_regression(**{"n_samples_per_batch": 10, "n_features": 2, **settings})


SKEWS = {"laplace": 0.0, "exponential": 2.0, "lognormal": 1.75, "proportional": 0.0}


@pytest.mark.parametrize("kind", SKEWS)
def test_odd_noise_has_mean_zero_the_stated_variance_and_its_skew(kind):
    X, y, _, clean, coef = make_adversarial_regression(
        kind, 200_000, 3, corruption_ratio=0.0, random_state=0
    )
    noise = y - X @ coef - (4.0 if kind == "proportional" else 0.0)
    assert clean.all()
    assert noise.mean() == pytest.approx(0.0, abs=4.0 * np.sqrt(0.1 / len(y)))
    assert noise.var() == pytest.approx(0.1, rel=0.03)
    assert np.mean((noise / noise.std()) ** 3) == pytest.approx(SKEWS[kind], abs=0.15)


def test_proportional_noise_grows_with_the_expected_response():
    X, y, _, _, coef = make_adversarial_regression(
        "proportional", 100_000, 3, corruption_ratio=0.0, random_state=0
    )
    expected = X @ coef + 4.0
    assert np.std((y - expected) / expected) == pytest.approx(np.sqrt(0.1 / 17.0), rel=0.02)
