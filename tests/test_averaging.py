"""A few dozen rows: the average of all likely fits instead of the likeliest one."""

from dataclasses import replace

import numpy as np

from easyfirst import SelfPacedRegressor
from easyfirst.consensus.averaging import counted, may_have_long_tails
from easyfirst.consensus.rounds.calibrated import Start
from easyfirst.consensus.starts.likely_fits import Average, likely_fits
from easyfirst.noise import NoiseModel
from test_small_samples import over_the_oracle, rows

SEEDS = range(300, 312)


def fits_of(X, y, coef, inside=None):
    """The likely fits from one start."""
    return likely_fits(np.column_stack([X, np.ones(len(y))]), y, [Start(coef, 1.0)], inside)


def mean_ratio(n, p, spoil):
    """The mean error over that of the oracle, of samples of which some rows are spoilt."""
    ratios = []
    for seed in SEEDS:
        rng, X, y, truth = rows(seed, n, p)
        clean = spoil(rng, X, y)
        ratios.append(over_the_oracle(X, y, clean, truth)[0])
    return float(np.mean(ratios))


def nothing(rng, X, y):
    """All rows are clean."""
    return np.ones(len(y), dtype=bool)


def test_an_average_errs_less_than_a_choice():
    assert mean_ratio(30, 3, nothing) < 1.15  # 1.33 by the fit that was found


def test_no_fit_sets_aside_more_than_the_one_that_was_found():
    _, X, y, truth = rows(1, 40, 2)
    y[:8] += 12.0
    fits, everyone = fits_of(X, y, truth), np.ones(40, dtype=bool)
    aside = {share: counted(fits, X, everyone, share) for share in (0.0, 0.2)}
    assert max(fit.sets_aside.sum() for fit in aside[0.2]) == 8
    assert 0 < len(aside[0.0]) < len(aside[0.2])
    assert max(fit.sets_aside.sum() for fit in aside[0.0]) <= 4


def test_columns_do_not_tell_which_rows_a_fit_sets_aside():
    _, X, y, truth = rows(1, 40, 2)
    X[:8, 0] = 3.0 + 0.1 * X[:8, 0]
    y[:8] += 12.0
    fits, everyone = fits_of(X, y, truth), np.ones(40, dtype=bool)
    assert any(fit.sets_aside[:8].all() for fit in fits)
    assert not any(fit.sets_aside[:8].all() for fit in counted(fits, X, everyone, 0.5))


def test_fits_count_by_how_likely_they_are():
    _, X, y, truth = rows(1, 40, 2)
    y[:8] += 12.0
    fits = fits_of(X, y, truth)
    average = Average.of(fits)
    assert average.likeliest.kind.has_bump
    np.testing.assert_array_equal(np.flatnonzero(average.likeliest.sets_aside), np.arange(8))
    np.testing.assert_allclose(average.coef, average.likeliest.coef, atol=0.05)


def test_fits_that_are_as_likely_widen_the_errors():
    _, X, y, truth = rows(2, 40, 2)
    first = fits_of(X, y, truth)[0]
    second = fits_of(X, y + 3.0 * X[:, 0], truth + np.array([3.0, 0.0, 0.0]))[0]
    average = Average.of([first, second])
    alone = np.diagonal(first.covariance)
    share = np.exp(second.worth - np.logaddexp(first.worth, second.worth))
    gained = np.diagonal(average.covariance) - alone
    np.testing.assert_allclose(average.coef[0] - first.coef[0], 3.0 * share, rtol=1e-6)
    np.testing.assert_allclose(gained[0], 9.0 * share * (1.0 - share), rtol=0.05)


def test_without_wrong_rows_the_covariance_is_that_of_least_squares():
    _, X, y, truth = rows(3, 60, 3)
    plain = next(
        fit
        for fit in fits_of(X, y, truth)
        if fit.noise.is_normal and fit.kind.zones is None and not fit.kind.has_skew
    )
    design = np.column_stack([X, np.ones(60)])
    coef = np.linalg.lstsq(design, y, rcond=None)[0]
    variance = np.sum((y - design @ coef) ** 2) / (60 - 4)
    np.testing.assert_allclose(plain.coef, coef)
    np.testing.assert_allclose(plain.covariance, variance * np.linalg.inv(design.T @ design))


def test_rows_far_out_have_no_vote():
    _, X, y, truth = rows(4, 40, 1)
    X[:12], y[:12] = 8.0, -20.0
    inside = np.arange(40) >= 12
    asked = Average.of(fits_of(X, y, truth, inside))
    assert abs(asked.coef[0] - truth[0]) < 0.5


def test_rows_in_another_order_or_twice_as_often_counted_are_the_same():
    rng, X, y, _ = rows(5, 30, 2)
    y[:6] += rng.uniform(-30, 30, 6)
    order = rng.permutation(30)
    one = SelfPacedRegressor(engine="inline").fit(X, y)
    other = SelfPacedRegressor(engine="inline").fit(X[order], y[order])
    np.testing.assert_array_equal(one.coef_, other.coef_)
    weights = np.where(np.arange(30) < 10, 2.0, 1.0)
    weighted = SelfPacedRegressor(engine="inline").fit(X, y, sample_weight=weights)
    repeated = SelfPacedRegressor(engine="inline").fit(np.vstack([X, X[:10]]), np.append(y, y[:10]))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-8)


def test_the_average_aims_where_the_fit_does():
    _, X, y, _ = rows(6, 50, 1, lambda rng, n: rng.exponential(size=n))
    found = {
        center: SelfPacedRegressor(engine="inline", center=center).fit(X, y)
        for center in ("mean", "median")
    }
    left = {center: y - model.predict(X) for center, model in found.items()}
    kept = {center: model.selected_ for center, model in found.items()}
    assert abs(np.mean(left["mean"][kept["mean"]])) < abs(np.mean(left["median"][kept["median"]]))


def test_more_rows_are_averaged_where_their_noise_may_have_tails():
    """Laplace noise: neither a normal nor a t is right, and the mean of both errs less."""
    found, least = [], []
    for seed in SEEDS:
        _, X, y, truth = rows(seed, 200, 10, lambda rng, n: rng.laplace(scale=0.5**0.5, size=n))
        ratio, model = over_the_oracle(X, y, np.ones(200, dtype=bool), truth)
        found.append(ratio)
        least.append(np.mean(~model.selected_))
    assert np.mean(found) < 0.82  # 0.845 by the fit that was found
    assert np.mean(least) < 0.02


def test_more_rows_of_normal_noise_keep_the_fit_that_was_found():
    rng = np.random.default_rng(8)
    residual = rng.normal(size=300)
    normal = NoiseModel(300.0, 0.99, 0.0, 1.0, 1.0, np.inf, (-np.inf,), (1e-4,))
    assert not may_have_long_tails(residual, normal)
    assert may_have_long_tails(rng.laplace(size=300), replace(normal, below=1.4, above=1.4))


def test_a_fit_of_hardly_more_than_half_of_the_rows_counts():
    """Eight of twenty rows are wrong: without that fit, the average is one of fits of all rows."""
    rng = np.random.default_rng([5345, 20, 1])
    X = rng.normal(size=(20, 1))
    y = 2.0 * np.sign(rng.normal()) * X[:, 0] + 1.0 + rng.normal(size=20)
    clean = np.ones(20, dtype=bool)
    clean[rng.choice(20, 8, replace=False)] = False
    y[~clean] += rng.uniform(-30, 30, 8)
    model = SelfPacedRegressor().fit(X, y)
    assert model.noise_scale_ < 3.0  # eleven where all rows were kept
    assert np.mean(~model.selected_[~clean]) > 0.5


def test_a_row_that_the_noise_has_no_place_for_ends_in_no_warning():
    residual = np.append(np.random.default_rng(9).normal(size=300), 1e9)
    nowhere = NoiseModel(301.0, 1.0, 0.0, 1.0, 1.0, np.inf, (-np.inf,), (0.0,))
    assert may_have_long_tails(residual, nowhere)
