"""Noise models: what is chosen, what is flagged, and rows whose noise is their own."""

import itertools
import re
import warnings

import numpy as np
import pytest
import scipy.stats
from scipy.integrate import quad

import easyfirst
from easyfirst import SelfPacedRegressor
from easyfirst.calibration import fit_mixture
from easyfirst.errors import NoSingleModelWarning
from easyfirst.noise import (
    BESIDE_A_BUMP,
    NoiseModel,
    ScaleRule,
    clean_mass,
    fit_noise,
    likely_shares,
    normal_fits,
    of_mixture,
)
from easyfirst.noise.bump import TwoNormals
from easyfirst.noise.row_scale import columns_that_may_speak, fit_scale_rule
from easyfirst.schedules import Quantile
from easyfirst.summaries import LossSummary, histogram

N = 5000
NOISE = {
    "normal": lambda rng, n: rng.normal(size=n),
    "t(3)": lambda rng, n: rng.standard_t(3, size=n),
    "Laplace": lambda rng, n: rng.laplace(size=n),
    "lognormal": lambda rng, n: np.exp(0.5 * rng.normal(size=n)) - np.exp(0.125),
    "exponential": lambda rng, n: rng.exponential(size=n) - 1.0,
}
CORRUPTION = {
    "none": (0.0, lambda rng, n: np.zeros(n)),
    "uniform": (0.2, lambda rng, n: rng.uniform(-15, 15, n)),
    "shifted by 10": (0.2, lambda rng, n: np.full(n, 10.0)),
}


def residuals(noise, corruption, seed=0):
    rng = np.random.default_rng(seed)
    clean = NOISE[noise](rng, N)
    share, wrong = CORRUPTION[corruption]
    is_wrong = rng.random(N) < share
    return clean + is_wrong * clean.std() * wrong(rng, N), is_wrong


def summary(residual, n_coef=0):
    anchor = float(residual.std())
    return LossSummary(histogram(residual, None, anchor)[None, None], anchor, n_coef)


def read(residual):
    losses = summary(residual)
    mixture = fit_mixture(losses, 1.4826 * float(np.median(np.abs(residual))))
    return losses, mixture, fit_noise(losses, mixture).model


@pytest.mark.parametrize(("noise", "corruption"), list(itertools.product(NOISE, CORRUPTION)))
def test_clean_rows_are_kept_and_the_share_is_found_whatever_the_noise(noise, corruption):
    residual, is_wrong = residuals(noise, corruption)
    _, _, model = read(residual)
    wrong_flags = np.mean(model.posterior(residual)[~is_wrong] < 0.5)
    is_easy = noise != "exponential" and (corruption == "none" or noise == "normal")
    assert wrong_flags < (0.01 if is_easy else 0.08)
    assert 1.0 - model.share == pytest.approx(is_wrong.mean(), abs=0.07)


@pytest.mark.parametrize("noise", ["t(3)", "Laplace", "exponential"])
@pytest.mark.parametrize("wrong", ["normal", "uniform"])
def test_a_tenth_of_the_rows_that_agrees_is_not_lost_among_wide_mistakes(noise, wrong):
    rng = np.random.default_rng(3)
    clean = NOISE[noise](rng, 4 * N)
    wide = {"normal": rng.normal(0.0, 50.0, 4 * N), "uniform": rng.uniform(-120.0, 120.0, 4 * N)}
    is_wrong = rng.random(4 * N) < 0.9
    losses = summary(np.where(is_wrong, wide[wrong], clean))
    model = fit_noise(losses, fit_mixture(losses, 1.0)).model
    assert model.share == pytest.approx(0.1, abs=0.02)
    assert model.scale < 2.0


@pytest.mark.parametrize("corruption", ["none", "uniform"])
def test_normal_noise_stays_normal(corruption):
    looks_normal = []
    for seed in range(12):
        losses, mixture, model = read(residuals("normal", corruption, seed)[0])
        looks_normal.append(normal_fits(losses, mixture))
        assert model.is_normal
        assert model.scale == pytest.approx(1.0, abs=0.05)
    assert sum(looks_normal) >= 9  # the others are looked at more closely, and found to be normal


@pytest.mark.parametrize("noise", ["t(3)", "Laplace", "lognormal", "exponential"])
def test_other_noise_does_not_pass_for_normal(noise):
    residual, _ = residuals(noise, "none")
    losses, mixture, model = read(residual)
    assert not normal_fits(losses, mixture)
    assert not model.is_normal


def test_a_bump_of_corrupted_rows_near_the_clean_ones_is_told_from_them():
    rng = np.random.default_rng(1)
    is_wrong = rng.random(N) < 0.2
    residual = rng.normal(size=N) + 5.0 * is_wrong
    _, mixture, model = read(residual)
    assert abs(1.0 - model.share - is_wrong.mean()) < 0.02
    assert abs(1.0 - mixture.share - is_wrong.mean()) > 0.05  # what a flat part makes of it


def test_rows_between_two_bumps_belong_to_the_nearer_one():
    rng = np.random.default_rng(3)
    is_wrong = np.arange(100) < 30
    residual = rng.normal(size=100) + 8.0 * is_wrong
    losses = summary(residual)
    found = fit_noise(losses, fit_mixture(losses, 1.0))
    assert found.kind == BESIDE_A_BUMP
    low, high = found.model.posterior(np.array([2.5, 5.5]))
    assert low > 0.95
    assert high < 0.02


@pytest.mark.parametrize("noise", NOISE)
def test_no_tail_is_a_bump(noise):
    for seed in range(3):
        residual = residuals(noise, "none", seed)[0][:300]
        losses = summary(residual)
        mixture = fit_mixture(losses, 1.4826 * float(np.median(np.abs(residual))))
        assert not fit_noise(losses, mixture).kind.has_bump


def test_a_bump_in_steps_is_the_normal_it_stands_for():
    normals = TwoNormals(share=0.7, scale=1.0, location=-6.0, spread=1.5)
    noise = normals.noise(1000.0)
    residual = np.linspace(-12.0, 4.0, 101)
    expected = 0.3 * scipy.stats.norm.pdf(residual, -6.0, 1.5)
    np.testing.assert_allclose(noise.corrupted_density(residual), expected, atol=0.004)
    assert noise.is_normal
    assert noise.share == 0.7


def test_the_density_of_clean_rows_adds_up_to_their_share():
    model = NoiseModel(100.0, 0.7, 0.5, 1.0, 3.0, 4.0, (-np.inf, 0.0), (0.01, 0.02))
    mass = quad(lambda r: float(model.clean_density(np.array([r]))[0]), -np.inf, np.inf)[0]
    assert mass == pytest.approx(0.7, abs=1e-6)


def test_a_normal_mixture_and_its_noise_model_give_the_same_probabilities():
    residual, _ = residuals("normal", "uniform")
    losses = summary(residual)
    mixture = fit_mixture(losses, 1.0)
    below, above = mixture.posterior(np.abs(residual))[0]
    expected = np.where(residual < 0, below, above)
    np.testing.assert_allclose(of_mixture(mixture).posterior(residual), expected, atol=1e-12)
    assert clean_mass(losses, of_mixture(mixture)).sum() == pytest.approx(mixture.clean, rel=0.01)


def test_batches_have_their_own_clean_shares():
    rng = np.random.default_rng(2)
    parts = []
    for share in (0.0, 0.6):
        wrong = rng.random(N) < share
        parts.append(rng.standard_t(4, N) + wrong * rng.uniform(-30, 30, N))
    anchor = float(np.std(parts))
    counts = np.stack([histogram(part, None, anchor) for part in parts])[:, None]
    losses = LossSummary(counts, anchor)
    model = fit_noise(losses, fit_mixture(losses, 1.0)).model
    first, second = likely_shares(losses, model).ravel()
    assert first > 0.95
    assert second == pytest.approx(0.4, abs=0.05)


def uneven(n=6000, share=0.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    coef = np.array([1.0, -1.0, 0.5, 0.0, 2.0])
    scale = np.exp(X[:, 0])
    y = X @ coef + 3.0 + scale * rng.normal(size=n)
    wrong = rng.random(n) < share
    y[wrong] += rng.uniform(-60, 60, int(wrong.sum()))
    return X, y, coef, scale, wrong


def test_a_scale_rule_follows_the_columns_and_knows_sparse_rows():
    import scipy.sparse as sp

    X, y, coef, scale, _ = uneven()
    rule = fit_scale_rule(X, coef, 3.0, y - X @ coef - 3.0, columns_that_may_speak(X))
    assert np.corrcoef(np.log(rule.of(X)), np.log(scale))[0, 1] > 0.97
    np.testing.assert_allclose(rule.of(sp.csr_array(X)), rule.of(X))
    assert np.all(ScaleRule.even().of(X) == 1.0)


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_noise_that_grows_along_a_column_flags_few_good_rows(share):
    X, y, coef, scale, wrong = uneven(share=share)
    model = SelfPacedRegressor().fit(X, y)
    assert np.mean(~model.selected_[~wrong]) < 0.02
    assert model.corrupted_fraction_ == pytest.approx(share, abs=0.03)
    noisiest = scale > np.quantile(scale, 0.9)
    lower, upper = model.predict_interval(X, coverage=0.9).T
    inside = (lower <= y) & (y <= upper)
    assert 0.8 < np.mean(inside[noisiest & ~wrong]) < 0.97
    assert np.linalg.norm(model.coef_ - coef) < 0.15


def test_skewed_noise_gets_intervals_that_are_wider_on_its_longer_side():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4000, 3))
    y = X @ [1.0, 2.0, 3.0] + np.exp(0.5 * rng.normal(size=4000))
    model = SelfPacedRegressor().fit(X, y)
    lower, upper = (model.predict_interval(X, coverage=0.9) - model.predict(X)[:, None]).T
    assert upper.mean() > 1.5 * -lower.mean()
    assert np.mean((lower <= y - model.predict(X)) & (y - model.predict(X) <= upper)) > 0.87
    assert np.mean(~model.selected_) < 0.05


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_edge_of_noise_is_flagged_only_with_a_doubt(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.exponential(size=2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoSingleModelWarning)
        model = SelfPacedRegressor().fit(X, y)
    assert np.mean(~model.selected_) <= 0.05 or model.doubts_


def curved(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 3.0, size=(3000, 2))
    return X, np.exp(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=3000)


def test_a_line_through_a_curve_sets_few_rows_aside_and_says_why():
    X, y = curved()
    with pytest.warns(NoSingleModelWarning, match="A line is not enough"):
        model = SelfPacedRegressor().fit(X, y)
    plain = np.linalg.lstsq(np.column_stack([X, np.ones(len(y))]), y, rcond=None)[0]
    error = np.mean(np.abs(y - X @ plain[:2] - plain[2]))
    assert np.mean(np.abs(y - model.predict(X))) < 1.03 * error
    assert np.mean(~model.selected_) < 0.05
    assert any("Residuals depend on" in note for note in model.notes_)


def test_mistakes_at_random_leave_no_notes():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(3000, 4))
    y = X @ [1.0, 2.0, 3.0, 4.0] + rng.normal(size=3000)
    y[rng.random(3000) < 0.3] += 30.0
    model = SelfPacedRegressor().fit(X, y)
    assert model.notes_ == ()
    assert model.corrupted_fraction_ == pytest.approx(0.3, abs=0.03)


def test_the_second_opinion_listens_to_rows_by_their_weight():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2))
    y = X @ [1.0, -1.0] + 0.3 * rng.normal(size=4000)
    y[2000:] += np.exp(X[2000:, 0]) * rng.normal(size=2000)
    weight = np.where(np.arange(4000) < 2000, 1.5, 1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        heard = SelfPacedRegressor(engine="inline").fit(X, y, sample_weight=weight)
        evenly = SelfPacedRegressor(engine="inline").fit(X, y)
    assert heard.notes_ == ()
    assert heard.coef_ == pytest.approx([1.0, -1.0], abs=0.05)
    assert evenly.notes_


@pytest.fixture(scope="module")
def skewed_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 3))
    y = X @ [1.0, -1.0, 0.5] + np.exp(0.5 * rng.normal(size=6000))
    bad = rng.random(6000) < 0.1
    y[bad] += rng.uniform(-30.0, 30.0, bad.sum())
    return X, y, ~bad


def centred(X, y, center, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SelfPacedRegressor(engine="inline", center=center, **settings).fit(X, y)


def test_the_intercept_aims_at_the_mean_the_median_or_between(skewed_rows):
    X, y, clean = skewed_rows
    models = {name: centred(X, y, name) for name in ("median", "middle", "mean")}
    residual = {name: (y - model.predict(X))[clean] for name, model in models.items()}
    assert np.mean(residual["median"] < 0) == pytest.approx(0.5, abs=0.015)
    assert np.mean(residual["mean"]) == pytest.approx(0.0, abs=0.03)
    heights = [models[name].intercept_ for name in ("median", "middle", "mean")]
    assert heights == sorted(heights)
    for model in models.values():
        assert model.coef_ == pytest.approx([1.0, -1.0, 0.5], abs=0.03)
        inside = np.asarray(model.predict_interval(X, coverage=0.9)).T
        share = np.mean(((inside[0] <= y) & (y <= inside[1]))[clean])
        assert share == pytest.approx(0.9, abs=0.03)


def test_the_aim_is_saved_with_the_model(skewed_rows, tmp_path):
    X, y, _ = skewed_rows
    model = centred(X[:1500], y[:1500], "mean")
    model.save(tmp_path / "model")
    loaded = easyfirst.load(tmp_path / "model")
    assert loaded.center == "mean"
    assert np.array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"center": "mode"}, "center must be one of 'middle', 'mean', 'median', got 'mode'"),
        ({"center": "mean", "fit_intercept": False}, "fit_intercept=True"),
        ({"center": "median", "pace": Quantile()}, "use pace=None"),
    ],
)
def test_an_aim_that_cannot_be_met_is_refused(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        SelfPacedRegressor(**settings).fit(np.eye(9), np.arange(9.0))


def test_broad_mistakes_and_a_few_rows_far_beyond_them_are_no_noise():
    rng = np.random.default_rng(0)
    residual = np.where(rng.random(N) < 0.9, rng.uniform(-300.0, 300.0, N), rng.normal(size=N))
    residual[:5] = [700.0, -800.0, 900.0, -950.0, 990.0]
    losses = summary(residual)
    model = fit_noise(losses, fit_mixture(losses, 1.0)).model
    assert model.share == pytest.approx(0.1, abs=0.02)
    assert model.scale == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("share", [0.1, 0.4])
@pytest.mark.parametrize("noise", ["t(3)", "Laplace", "lognormal", "exponential"])
def test_the_share_of_many_rows_is_found_around_their_own_fit(noise, share):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40_000, 5))
    y = X @ [1.0, -1.0, 0.5, 0.0, 2.0] + NOISE[noise](rng, len(X))
    wrong = rng.random(len(X)) < share
    y[wrong] += rng.uniform(-15.0, 15.0, np.count_nonzero(wrong))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SelfPacedRegressor(engine="inline").fit(X, y)
    assert model.corrupted_fraction_ == pytest.approx(np.mean(wrong), abs=0.02)


def test_a_minority_of_clean_rows_does_not_get_the_noise_of_all():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20_000, 4))
    y = X @ [1.0, -1.0, 0.5, 0.0] + np.exp(0.8 * X[:, 0]) * rng.normal(size=20_000)
    wrong = rng.random(20_000) < 0.7
    y[wrong] += rng.uniform(-200.0, 200.0, np.count_nonzero(wrong))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SelfPacedRegressor(engine="inline").fit(X, y)
    assert model.corrupted_fraction_ == pytest.approx(0.7, abs=0.05)
    assert model.noise_scale_ < 3.0
