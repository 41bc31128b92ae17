"""Counts and positive amounts: corrupted ones are found, and the fit is not misled."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import easyfirst
from easyfirst import SelfPacedRegressor
from easyfirst.engines import Inline, Threads
from easyfirst.errors import ModelFileError
from easyfirst.losses import GammaDeviance, Logistic, PoissonDeviance
from easyfirst.noise.counts import FACTORS, CountNoise
from easyfirst.regularizers import Hard
from easyfirst.schedules import Constant
from test_engines import Forgetful

COEF = np.array([0.5, -0.4, 0.3, 0.0])


def counts(n=1500, mean=15.0, kind="times ten", dispersion=0.0, seed=0):
    """Counts of which a fifth is corrupted: X, y, and which rows are wrong."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    mu = mean * np.exp(X @ COEF)
    if dispersion:
        mu = mu * rng.gamma(1 / dispersion, dispersion, n)
    y = rng.poisson(mu).astype(float)
    bad = rng.random(n) < (0.0 if kind == "nothing" else 0.2)
    return X, _corrupted(y, bad, kind, rng), bad


def amounts(n=1500, kind="times ten", seed=0):
    """Gamma amounts of which a fifth is corrupted."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = rng.gamma(8.0, 15.0 * np.exp(X @ COEF) / 8.0)
    bad = rng.random(n) < (0.0 if kind == "nothing" else 0.2)
    return X, _corrupted(y, bad, kind, rng), bad


def _corrupted(y, bad, kind, rng):
    if kind == "times ten":
        return np.where(bad, 10.0 * y, y)
    if kind == "zeroed":
        return np.where(bad, 0.0, y)
    if kind == "a hundredth":
        return np.where(bad, y / 100.0, y)
    y = y.copy()
    if kind == "swapped":
        y[bad] = rng.permutation(y[bad])
    return y


@pytest.mark.parametrize("kind", ["times ten", "zeroed", "swapped"])
def test_corrupted_counts_do_not_mislead(kind):
    errors = []
    for seed in range(3):
        X, y, bad = counts(kind=kind, seed=seed)
        model = SelfPacedRegressor(loss=PoissonDeviance()).fit(X, y)
        oracle = SelfPacedRegressor(loss=PoissonDeviance(), pace=Constant()).fit(X[~bad], y[~bad])
        plain = SelfPacedRegressor(loss=PoissonDeviance(), pace=Constant()).fit(X, y)
        errors.append([np.linalg.norm(fit.coef_ - COEF) for fit in (model, oracle, plain)])
        assert model.corrupted_fraction_ == pytest.approx(bad.mean(), abs=0.04)
        low, high = model.corrupted_interval_
        assert low <= model.corrupted_fraction_ <= high
    ours, oracle, plain = np.sqrt(np.mean(np.square(errors), axis=0))
    assert ours < 1.3 * oracle
    assert ours < 0.5 * plain


@pytest.mark.parametrize("kind", ["times ten", "a hundredth"])
def test_corrupted_amounts_are_found(kind):
    X, y, bad = amounts(kind=kind)
    model = SelfPacedRegressor(loss=GammaDeviance()).fit(X, y)
    oracle = SelfPacedRegressor(loss=GammaDeviance(), pace=Constant()).fit(X[~bad], y[~bad])
    assert np.linalg.norm(model.coef_ - oracle.coef_) < 0.03
    assert np.mean(model.selected_ == ~bad) > 0.97
    assert model.dispersion_ == pytest.approx(1 / 8, rel=0.15)


def test_multiples_are_not_taken_for_the_upper_tail_of_what_is_clean():
    errors, too_many = [], []
    for seed in range(4):
        X, y, bad = counts(2000, 20.0, dispersion=0.25, seed=seed)
        model = SelfPacedRegressor(loss=PoissonDeviance()).fit(X, y)
        oracle = SelfPacedRegressor(loss=PoissonDeviance(), pace=Constant()).fit(X[~bad], y[~bad])
        errors.append([np.linalg.norm(fit.coef_ - COEF) for fit in (model, oracle)])
        too_many.append(model.corrupted_fraction_ - bad.mean())
        assert model.dispersion_ == pytest.approx(0.25, abs=0.05)
    ours, oracle = np.sqrt(np.mean(np.square(errors), axis=0))
    assert ours < 1.3 * oracle
    assert np.mean(too_many) < 0.03


def test_swapped_amounts_are_told_from_a_wide_spread():
    X, y, bad = amounts(2000, kind="swapped", seed=3)
    model = SelfPacedRegressor(loss=GammaDeviance()).fit(X, y)
    assert model.dispersion_ == pytest.approx(1 / 8, rel=0.25)
    assert model.corrupted_fraction_ == pytest.approx(bad.mean(), abs=0.06)


@pytest.mark.parametrize("dispersion", [0.0, 0.3])
def test_clean_counts_are_left_alone(dispersion):
    X, y, _ = counts(kind="nothing", dispersion=dispersion)
    model = SelfPacedRegressor(loss=PoissonDeviance()).fit(X, y)
    plain = SelfPacedRegressor(loss=PoissonDeviance(), pace=Constant()).fit(X, y)
    assert np.mean(~model.selected_) < 0.01
    assert model.corrupted_fraction_ < 0.02
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=0.015)
    assert model.dispersion_ == pytest.approx(dispersion, abs=0.05)
    assert model.doubts_ == ()


@pytest.mark.parametrize("dispersion", [0.0, 0.3])
def test_intervals_hold_clean_counts(dispersion):
    X, y, _ = counts(dispersion=dispersion)
    model = SelfPacedRegressor(loss=PoissonDeviance()).fit(X, y)
    rows, new, _ = counts(3000, kind="nothing", dispersion=dispersion, seed=1)
    bounds = model.predict_interval(rows, 0.9)
    assert 0.87 < np.mean((new >= bounds[:, 0]) & (new <= bounds[:, 1])) < 0.95


def test_intervals_hold_clean_amounts():
    X, y, _ = amounts()
    model = SelfPacedRegressor(loss=GammaDeviance()).fit(X, y)
    rows, new, _ = amounts(3000, kind="nothing", seed=1)
    bounds = model.predict_interval(rows, 0.9)
    assert 0.87 < np.mean((new >= bounds[:, 0]) & (new <= bounds[:, 1])) < 0.93


def test_standard_errors_say_how_far_coefficients_are_off():
    ratios = []
    for seed in range(8):
        X, y, _ = counts(500, seed=seed)
        model = SelfPacedRegressor(loss=PoissonDeviance()).fit(X, y)
        ratios.append((model.coef_ - COEF) / model.coef_standard_errors_)
    assert 0.7 < np.sqrt(np.mean(np.square(ratios))) < 1.3


def test_bad_batches_of_counts_are_named():
    rng = np.random.default_rng(3)
    X, y, _ = counts(2000, kind="nothing")
    batches = np.repeat(np.arange(10), 200)
    bad = (rng.random(2000) < 0.6) & np.isin(batches, [2, 7])
    model = SelfPacedRegressor(loss=PoissonDeviance()).fit(
        X, np.where(bad, 10.0 * y, y), batches=batches
    )
    assert sorted(np.argsort(model.batch_clean_share_)[:2].tolist()) == [2, 7]
    assert model.batch_clean_share_[2] == pytest.approx(0.4, abs=0.1)


def test_every_engine_gives_the_same_bits():
    X, y, _ = counts(600)
    settings = {"loss": PoissonDeviance(), "n_batches": 3}
    here = SelfPacedRegressor(**settings, engine=Inline()).fit(X, y)
    for engine in (Threads(2), Threads(3), Forgetful()):
        there = SelfPacedRegressor(**settings, engine=engine).fit(X, y)
        np.testing.assert_array_equal(there.coef_, here.coef_)
        np.testing.assert_array_equal(there.weights_, here.weights_)
        assert there.corrupted_fraction_ == here.corrupted_fraction_


def test_sparse_rows_and_weights_give_the_fit_of_dense_and_repeated_ones():
    X, y, _ = counts(500)
    X[np.abs(X) < 0.5] = 0.0
    times = np.random.default_rng(0).integers(0, 3, 500)
    loss = PoissonDeviance()
    weighted = SelfPacedRegressor(loss=loss).fit(X, y, sample_weight=times)
    sparse = SelfPacedRegressor(loss=loss).fit(sp.csr_array(X), y, sample_weight=times)
    repeated = SelfPacedRegressor(loss=loss).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(sparse.coef_, weighted.coef_, atol=1e-6)
    np.testing.assert_allclose(repeated.coef_, weighted.coef_, atol=2e-3)


def test_trusted_and_rejected_counts():
    X, y, bad = counts(600)
    wrong = np.flatnonzero(bad & (y > 0))
    trusted, rejected = np.zeros(600, dtype=bool), np.zeros(600, dtype=bool)
    trusted[wrong[0]] = rejected[wrong[1]] = True
    model = SelfPacedRegressor(loss=PoissonDeviance()).fit(X, y, trusted=trusted, rejected=rejected)
    assert model.weights_[trusted] == 1.0
    assert model.weights_[rejected] == 0.0


@pytest.mark.parametrize(
    ("loss", "made"),
    [(PoissonDeviance(), counts), (GammaDeviance(), amounts)],
    ids=["counts", "amounts"],
)
def test_a_model_file_gives_every_bit_back(tmp_path, loss, made):
    X, y, _ = made(400)
    model = SelfPacedRegressor(loss=loss, n_batches=2).fit(X, y)
    model.save(tmp_path / "model.safetensors")
    again = easyfirst.load(tmp_path / "model.safetensors")
    assert again.dispersion_ == model.dispersion_
    np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))
    np.testing.assert_array_equal(again.clean_probability(X, y), model.clean_probability(X, y))
    assert str(again.summary()) == str(model.summary())
    assert len(again.suspects(X, y)) == np.sum(~model.selected_)
    model._calibration.counts.__dict__["dispersion"] = -1.0
    model.save(tmp_path / "damaged.safetensors")
    with pytest.raises(ModelFileError, match="out of range"):
        easyfirst.load(tmp_path / "damaged.safetensors")


def test_suspects_summary_and_report_speak_of_counts(tmp_path):
    X, y, bad = counts(600)
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = SelfPacedRegressor(loss=PoissonDeviance()).fit(frame, y)
    assert "Variance" in str(model.summary())
    found = model.suspects(frame, y)
    assert np.mean(bad[found["row_id"].to_numpy()]) > 0.95
    assert found["residual"].abs().min() > 2.0
    fresh = model.judge(frame[:100], y[:100])
    np.testing.assert_allclose(fresh.quality, model.clean_probability(frame[:100], y[:100]))
    page = model.report(tmp_path / "report.html", frame, y)
    assert "looks wrong" in page.html or "look wrong" in page.html


def test_weights_of_rows_that_stay_where_they_are(tmp_path):
    X, y, _ = counts(600)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=200)
    source = easyfirst.read_parquet(tmp_path / "rows.parquet", target="y", rows_per_batch=200)
    there = SelfPacedRegressor(loss=PoissonDeviance()).fit(source)
    here = SelfPacedRegressor(loss=PoissonDeviance(), n_batches=3).fit(X, y)
    np.testing.assert_array_equal(there.coef_, here.coef_)
    parts = list(there.weights_by_batch(source))
    np.testing.assert_array_equal(np.concatenate([p.weights for p in parts]), here.weights_)


def test_what_cannot_be_calibrated_is_refused_with_a_way_out():
    X, y, _ = counts(100)
    with pytest.raises(ValueError, match="give a schedule"):
        SelfPacedRegressor(loss=Logistic()).fit(X, (y > 10).astype(float))
    with pytest.raises(ValueError, match="use None"):
        SelfPacedRegressor(loss=PoissonDeviance(), regularizer=Hard()).fit(X, y)
    with pytest.raises(ValueError, match="needs responses >= 0"):
        SelfPacedRegressor(loss=PoissonDeviance()).fit(X, y - 50.0)
    model = SelfPacedRegressor(loss=PoissonDeviance()).fit(X, y)
    with pytest.raises(ValueError, match="needs responses >= 0"):
        model.clean_probability(X, -y - 1.0)


def test_densities_add_up_to_one():
    values = np.arange(0.0, 2000.0)
    for dispersion in (0.0, 0.4):
        noise = CountNoise("poisson", dispersion=dispersion)
        mass = np.exp(noise.log_density(values, np.full(values.size, np.log(12.0))))
        assert mass.sum() == pytest.approx(1.0, abs=1e-9)
        assert mass @ values == pytest.approx(12.0)
        variance = mass @ np.square(values - 12.0)
        assert variance == pytest.approx(12.0 + dispersion * 144.0, rel=1e-6)
    grid = np.linspace(1e-6, 400.0, 400_001)
    noise = CountNoise("gamma", dispersion=0.3)
    density = np.exp(noise.log_density(grid, np.full(grid.size, np.log(12.0))))
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-6)
    assert np.trapezoid(density * grid, grid) == pytest.approx(12.0, abs=1e-4)


@pytest.mark.parametrize("factor", [8.0, 0.125])
def test_densities_of_multiples_add_up_to_their_share(factor):
    number = int(np.argmin(np.abs(np.log(FACTORS / factor))))
    shares = tuple(0.2 * (np.arange(FACTORS.size) == number))
    noise = CountNoise("gamma", 0.8, 0.0, 0.3, shares, (0.0,), (0.0,), (0.0,))
    grid = np.geomspace(1e-6, 1e4, 400_001)
    found = noise.densities(grid, np.full(grid.size, np.log(12.0))).multiplied
    assert np.trapezoid(found[0], grid) == pytest.approx(0.2, abs=1e-6)
    assert np.trapezoid(found[0] * grid, grid) == pytest.approx(0.2 * 12.0 * factor, rel=1e-4)
