"""The mixture behind the calibrated pace, against direct optimisation and against simulation."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import ndtr

from easyfirst import SelfPacedRegressor
from easyfirst.calibration import (
    PSEUDO_ROWS,
    ROOT_2PI,
    WINDOW,
    CleanMixture,
    bin_middles,
    clean_shares,
    corrupted_interval,
    fit_mixture,
    information,
    log_likelihood,
    mass_quantile,
    shortfall,
)
from easyfirst.datasets import make_corrupted_regression
from easyfirst.noise import clean_mass, of_mixture
from easyfirst.regularizers import Entropic
from easyfirst.schedules import Calibrated
from easyfirst.summaries import LossSummary, bin_edges, histogram


def residuals(n, share, *, scale=1.0, reach=20.0, above=0.5, seed=0):
    """Clean rows of N(0, scale**2), corrupted ones flat in +-reach, `above` of them positive."""
    rng = np.random.default_rng(seed)
    n_clean = round(share * n)
    size = rng.uniform(0.0, reach, n - n_clean)
    sign = np.where(rng.random(n - n_clean) < above, 1.0, -1.0)
    return np.concatenate([scale * rng.standard_normal(n_clean), size * sign])


def summary(*batches, anchor=None, n_coef=0):
    anchor = float(np.std(np.concatenate(batches))) if anchor is None else anchor
    counts = np.stack([histogram(values, None, anchor)[None] for values in batches])
    return LossSummary(counts, anchor, n_coef)


# A share's own standard deviation is at most sqrt(n share) / n plus that of the level; the bounds
# are four of these, from the information that `corrupted_interval` reports.
@pytest.mark.parametrize("share", [0.1, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("above", [0.5, 1.0])
def test_scale_share_and_levels_are_recovered_from_a_histogram(share, above):
    n = 40_000
    losses = summary(residuals(n, share, scale=0.7, above=above, seed=1))
    mixture = fit_mixture(losses, start=0.5)
    low, high = corrupted_interval(losses, mixture, z=4.0)
    assert low <= 1.0 - share <= high
    assert high - low < 0.05
    assert mixture.scale == pytest.approx(0.7, rel=4.0 / np.sqrt(share * n))
    level = (1.0 - share) * n / 20.0
    spread = 5.0 * np.sqrt(level / (WINDOW * 0.7)) + PSEUDO_ROWS
    assert mixture.above == pytest.approx(above * level, abs=spread)
    assert mixture.below == pytest.approx((1.0 - above) * level, abs=spread)


# Among thirty rows 85 % are taken for clean, so the scale may not be small enough for fewer.
@pytest.mark.parametrize(("n", "share"), [(30, 0.9), (100, 0.7), (400, 0.7), (400, 0.3)])
def test_few_rows_give_scale_and_share_without_bias_worth_mentioning(n, share):
    scales, shares = [], []
    for seed in range(60):
        mixture = fit_mixture(summary(residuals(n, share, seed=seed)), start=1.0)
        scales.append(mixture.scale)
        shares.append(mixture.share)
    assert np.mean(scales) == pytest.approx(1.0, abs=0.1)
    assert np.mean(shares) == pytest.approx(share, abs=0.04)


@pytest.mark.parametrize(("share", "above"), [(0.8, 0.5), (0.4, 0.2), (0.15, 1.0)])
def test_the_mixture_is_the_maximum_of_the_binned_likelihood(share, above):
    losses = summary(residuals(20_000, share, above=above, seed=2))
    mixture = fit_mixture(losses, start=1.0)
    edges = bin_edges(losses.anchor)

    def loss(theta, last):
        s, clean, below, above = np.exp(theta)
        width = np.diff(edges[: last + 1])
        mass = clean * np.diff(ndtr(edges[: last + 1] / s))
        rate = mass + np.array([[below], [above]]) * width
        prior = PSEUDO_ROWS * (np.log(below) + np.log(above))
        return rate.sum() - np.sum(losses.merged[:, :last] * np.log(rate)) - prior

    found = np.array([mixture.scale, mixture.clean, mixture.below, mixture.above])
    # The window is a whole number of bins, and follows the scale until it moves by less than 10 %.
    reaches = np.searchsorted(edges, WINDOW * mixture.scale) + np.arange(-2, 3)
    best = [
        np.exp(minimize(loss, np.log(found * 1.2), (last,), "Nelder-Mead", **TIGHT).x)
        for last in reaches
    ]
    assert min(np.max(np.abs(np.log(found / other))) for other in best) < 1e-3


TIGHT = {"options": {"xatol": 1e-8, "fatol": 1e-9, "maxiter": 8000, "maxfev": 8000}}


def test_the_window_never_ends_inside_the_clean_part():
    """A flat level over a window that is too narrow takes the clean tails for corruption."""
    losses = summary(residuals(20_000, 1.0, seed=3))
    assert fit_mixture(losses, start=0.4).share > 0.999


def test_the_posterior_is_bayes_rule():
    mixture = CleanMixture(total=1000.0, scale=0.5, clean=600.0, below=10.0, above=40.0)
    r = np.linspace(0.0, 3.0, 50)
    clean = 600.0 * np.exp(-0.5 * (r / 0.5) ** 2) / (0.5 * ROOT_2PI)
    below, above = mixture.posterior(r)[0]
    np.testing.assert_allclose(below, clean / (clean + 10.0), rtol=1e-12)
    np.testing.assert_allclose(above, clean / (clean + 40.0), rtol=1e-12)


def test_a_batch_with_its_own_share_has_its_own_prior_odds():
    mixture = CleanMixture(total=1000.0, scale=0.5, clean=600.0, below=10.0, above=40.0)
    r = np.linspace(0.0, 3.0, 50)
    overall, other = mixture.posterior(r, np.array([0.6, 0.2]))
    odds = (0.2 / 0.8) / (0.6 / 0.4)
    np.testing.assert_allclose(other / (1 - other), odds * overall / (1 - overall), rtol=1e-9)


def test_entropic_weights_at_the_thresholds_are_the_posterior():
    mixture = CleanMixture(total=1000.0, scale=0.5, clean=600.0, below=10.0, above=40.0)
    r = np.linspace(0.0, 3.0, 50)
    shares = np.array([0.6, 0.2, 0.95])
    rule = Entropic().with_width(mixture.width)
    posterior = mixture.posterior(r, shares)
    for batch, pair in enumerate(mixture.thresholds(shares)):
        for side, threshold in enumerate(pair):
            found = rule.weights(r**2, float(threshold))
            np.testing.assert_allclose(found, posterior[batch, side], rtol=1e-9, atol=1e-12)


def test_a_row_at_the_threshold_is_as_likely_clean_as_not():
    mixture = CleanMixture(total=1000.0, scale=0.5, clean=600.0, below=10.0, above=40.0)
    below, above = np.sqrt(mixture.thresholds(np.array([0.6]))[0])
    assert mixture.posterior(np.array([below]))[0, 0, 0] == pytest.approx(0.5)
    assert mixture.posterior(np.array([above]))[0, 1, 0] == pytest.approx(0.5)
    assert below > above  # fewer corrupted rows below zero, so rows may lie further out there


def test_every_batch_gets_its_own_clean_share():
    truth = [0.95, 0.6, 0.1, 0.6]
    losses = summary(*(residuals(4000, share, seed=k) for k, share in enumerate(truth)))
    mixture = fit_mixture(losses, start=1.0)
    shares = clean_shares(losses, mixture)
    assert shares.shape == (4, 1)
    np.testing.assert_allclose(shares[:, 0], truth, atol=0.04)
    assert mixture.share == pytest.approx(np.mean(truth), abs=0.02)


def test_the_share_of_a_batch_of_one_row_stays_near_the_overall_one():
    rng = np.random.default_rng(0)
    losses = summary(residuals(5000, 0.7, seed=4), rng.normal(size=1), np.array([15.0]))
    mixture = fit_mixture(losses, start=1.0)
    shares = clean_shares(losses, mixture)[:, 0]
    assert shares[2] < shares[0] < shares[1]  # one row says a little
    np.testing.assert_allclose(shares[1:], 0.7, atol=0.05)  # and not more than a little


@pytest.mark.parametrize("power", [-300, -20, 10, 200])
def test_everything_scales_exactly_with_the_unit_of_y(power):
    unit = 2.0**power
    r = residuals(3000, 0.6, above=0.8, seed=5)
    small, large = summary(r, n_coef=3), summary(unit * r, n_coef=3)
    np.testing.assert_array_equal(small.counts, large.counts)
    a, b = fit_mixture(small, 0.8), fit_mixture(large, unit * 0.8)
    assert b.scale == pytest.approx(unit * a.scale, rel=1e-10)
    assert b.clean == pytest.approx(a.clean, rel=1e-10)
    assert b.above * unit == pytest.approx(a.above, rel=1e-10)
    assert shortfall(large, b) == pytest.approx(shortfall(small, a), abs=1e-9)
    assert corrupted_interval(large, b) == pytest.approx(corrupted_interval(small, a), abs=1e-9)


def test_the_variance_is_divided_by_the_rows_left_after_fitting():
    rng = np.random.default_rng(6)
    X, noise = rng.normal(size=(400, 100)), rng.normal(size=400)
    left = noise - X @ np.linalg.lstsq(X, noise, rcond=None)[0]
    assert fit_mixture(summary(left, n_coef=100), 1.0).scale == pytest.approx(1.0, abs=0.1)
    assert fit_mixture(summary(left, n_coef=0), 1.0).scale < 0.93


def test_a_mixture_that_fits_has_no_shortfall_and_a_stretched_one_has():
    good = summary(residuals(20_000, 0.5, seed=7))
    assert shortfall(good, fit_mixture(good, 1.0)) < 0.01
    rng = np.random.default_rng(8)
    flat = summary(rng.uniform(-1.0, 1.0, 20_000), anchor=1.0)
    stretched = CleanMixture(20_000.0, 3**-0.5, 20_000.0, 0.1, 0.1)
    assert shortfall(flat, stretched) > 0.08


def test_the_likelihood_prefers_the_truth_to_neighbours():
    losses = summary(residuals(20_000, 0.5, seed=9))
    best = fit_mixture(losses, 1.0)
    for factor in (0.8, 1.25):
        worse = CleanMixture(
            best.total, factor * best.scale, best.clean, best.below, best.above, best.scale
        )
        assert log_likelihood(losses, worse) < log_likelihood(losses, best)


def test_information_is_the_sum_over_rows():
    r = residuals(20_000, 0.5, seed=10)
    losses = summary(r)
    mixture = fit_mixture(losses, 1.0)
    below, above = mixture.posterior(np.abs(r))[0]
    v = np.where(r < 0, below, above)
    weight, worth = information(losses, mixture)
    assert weight == pytest.approx(v.sum(), rel=1e-3)
    assert worth == pytest.approx(np.sum(v * (1 - (1 - v) * (r / mixture.scale) ** 2)), rel=1e-3)
    assert worth < weight


def test_quantiles_of_the_clean_mass_are_those_of_clean_rows():
    losses = summary(residuals(50_000, 0.6, seed=11))
    mass = clean_mass(losses, of_mixture(fit_mixture(losses, 1.0))).sum(axis=0)
    for level, truth in [(0.5, 0.6745), (0.9, 1.6449), (0.95, 1.96)]:
        assert mass_quantile(mass, losses.anchor, level) == pytest.approx(truth, rel=0.03)
    middles = bin_middles(losses.anchor)
    assert np.all((bin_edges(losses.anchor)[:-1] <= middles) & np.isfinite(middles))


# 200 intervals: a coverage of 0.95 gives fewer than 180 hits once in 2,000 suites.
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_the_interval_of_the_corrupted_share_covers_it(share):
    hits = 0
    for seed in range(200):
        losses = summary(residuals(800, share, seed=seed))
        low, high = corrupted_interval(losses, fit_mixture(losses, 1.0))
        hits += low <= 1.0 - share <= high
        assert high - low < 0.25
    assert hits >= 180


@pytest.mark.parametrize("mode", [{"corruption_ratio": 0.6}, {"mode": "batches"}])
def test_weights_are_the_probability_that_a_row_is_clean(mode):
    data = make_corrupted_regression(4000, 10, 10, random_state=0, **mode)
    weights = SelfPacedRegressor().fit(data.X, data.y, batches=data.batches).weights_
    groups = np.minimum((weights * 5).astype(int), 4)
    for k in range(5):
        rows = groups == k
        expected = weights[rows].mean()
        chance = np.sqrt(expected * (1 - expected) / rows.sum())
        assert rows.sum() > 100
        assert data.clean[rows].mean() == pytest.approx(expected, abs=4 * chance + 0.01)


def test_a_like_mixture_is_as_good_a_start_as_its_scale():
    few, many = (summary(residuals(n, 0.4, seed=13), n_coef=4) for n in (2000, 40_000))
    cold, warm = fit_mixture(many, 1.0), fit_mixture(many, fit_mixture(few, 1.0))
    for name in ("scale", "clean", "below", "above"):
        assert getattr(warm, name) == pytest.approx(getattr(cold, name), rel=1e-5)


def test_calibrating_twice_gives_the_same_pace():
    losses = summary(residuals(5000, 0.5, seed=12), n_coef=4)
    once = Calibrated().calibrate(losses, 1.0)
    again = Calibrated().calibrate(losses, once.mixture.scale)
    assert again.value == pytest.approx(once.value, rel=1e-3)
    assert again.width == pytest.approx(2.0 * once.mixture.scale**2, rel=1e-3)
