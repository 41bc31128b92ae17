"""Values of y that many rows share: codes for missing values, zeros, caps, copies, counts."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from easyfirst import SelfPacedRegressor, load
from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.rounds.common import RoundSettings
from easyfirst.consensus.starts.point_masses import judged_masses, point_masses
from easyfirst.consensus.starts.sample import Sample
from easyfirst.consensus.statistics import Objective
from easyfirst.engines import Inline
from easyfirst.local.design import Coordinates
from easyfirst.local.weighing import Problem
from easyfirst.losses import Squared
from easyfirst.penalties import NoPenalty
from easyfirst.regularizers import Entropic
from easyfirst.schedules import Calibrated
from easyfirst.sources import ArraySource

AIR = Path(__file__).resolve().parents[2] / "shared" / "data" / "air_quality" / "AirQualityUCI.csv"


def fitted(X, y, **settings):
    """Fit; doubts are looked at afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SelfPacedRegressor(**({"engine": "inline"} | settings)).fit(X, y)


def clean_rows(n, p, seed):
    rng = np.random.default_rng([seed, n, p])
    X = rng.normal(size=(n, p))
    coef = rng.normal(size=p)
    coef *= 2.0 / np.linalg.norm(coef)
    return rng, X, X @ coef + 1.0 + rng.normal(size=n), np.append(coef, 1.0)


def ratio(model, X, y, bad, truth):
    """The error over that of least squares on the clean rows."""
    design = np.column_stack([X, np.ones(len(X))])
    oracle = np.linalg.lstsq(design[~bad], y[~bad], rcond=None)[0]
    found = np.append(model.coef_, model.intercept_)
    return np.linalg.norm(design @ (found - truth)) / np.linalg.norm(design @ (oracle - truth))


def with_mistakes(kind, share, seed, n=500, p=5):
    """Rows of which a share has the same y; which of them; the truth."""
    rng, X, y, truth = clean_rows(n, p, seed)
    bad = np.zeros(n, dtype=bool)
    bad[rng.choice(n, round(share * n), replace=False)] = True
    spoilt = y.copy()
    if kind == "copies":
        X[bad], spoilt[bad] = rng.normal(size=p), 8.0
    elif kind == "capped":
        limit = np.quantile(y, 1.0 - share)
        bad, spoilt = y > limit, np.minimum(y, limit)
    else:
        spoilt[bad] = {"zeros": 0.0, "sentinel": -999.0}[kind]
    return X, y, spoilt, bad, truth


def masses_of(X, y, coef=None, scale=1.0):
    """The point masses of y, judged by coefficients if there are some."""
    problem = Problem(Coordinates(fit_intercept=True), Squared(), Entropic())
    with Inline().open(ArraySource(X, y).partitions()) as workers:
        fleet = Fleet.meet(workers, problem)
        objective = Objective(NoPenalty(), fit_intercept=True)
        sample = Sample.draw(fleet, objective, RoundSettings(Calibrated()), 20_000, 0)
    found = point_masses(sample)
    return found if coef is None else judged_masses(sample, found, coef, scale)


# Which values count as point masses.


def test_continuous_and_rounded_values_have_no_point_mass():
    rng, X, y, _ = clean_rows(3000, 3, 0)
    assert masses_of(X, y) == ()
    assert masses_of(X, np.round(y, 1)) == ()
    assert masses_of(X, rng.poisson(0.5, 3000).astype(float)) == ()
    assert masses_of(X, 10.0 * rng.choice(11, 3000, p=[0.3, *[0.07] * 10])) == ()


@pytest.mark.parametrize("grid", [None, 0.1])
def test_a_value_that_a_tenth_of_the_rows_share_is_one(grid):
    rng, X, y, _ = clean_rows(2000, 3, 1)
    y = y if grid is None else grid * np.round(y / grid)
    y[rng.random(2000) < (0.1 if grid is None else 0.4)] = 0.0
    (mass,) = masses_of(X, y)
    assert mass.value == 0.0
    assert not mass.is_apart


def test_values_apart_are_found_whatever_the_grid_of_the_others():
    rng, X, _, _ = clean_rows(2000, 3, 2)
    y = rng.poisson(3.0, 2000).astype(float)
    y[:100], y[100:150] = -999.0, -99.0
    assert [mass.value for mass in masses_of(X, y) if mass.is_apart] == [-999.0, -99.0]


def test_a_value_of_trusted_rows_stands_for_itself():
    X, _, spoilt, bad, _ = with_mistakes("zeros", 0.3, 0)
    trusted = np.zeros(len(X), dtype=bool)
    trusted[np.flatnonzero(bad)[:3]] = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SelfPacedRegressor(engine="inline").fit(X, spoilt, trusted=trusted)
    assert not any("exactly" in note for note in model.notes_)


# Mistakes.


@pytest.mark.parametrize("share", [0.1, 0.3, 0.45])
@pytest.mark.parametrize("kind", ["zeros", "sentinel", "copies"])
def test_rows_of_a_point_mass_are_set_aside_where_it_is_a_mistake(kind, share):
    for seed in range(2):
        X, y, spoilt, bad, truth = with_mistakes(kind, share, seed)
        model = fitted(X, spoilt)
        assert ratio(model, X, y, bad, truth) < 1.05
        assert np.all(model.weights_[bad] == 0.0)
        assert np.mean(model.selected_[~bad]) > 0.99
        assert model.corrupted_fraction_ == pytest.approx(share, abs=0.01)
        low, high = model.corrupted_interval_
        assert low <= share + 0.002 <= high + 0.002
        assert len(model.notes_) == 1
        assert f"{100 * share:.2g} % of the rows have y = " in model.notes_[0]
        assert not model.doubts_


def test_a_cap_is_kept_and_said_to_be_one():
    for seed in range(2):
        X, y, spoilt, bad, truth = with_mistakes("capped", 0.3, seed)
        model = fitted(X, spoilt)
        assert ratio(model, X, y, bad, truth) < 2.0
        assert np.mean(model.selected_) > 0.95
        assert any("y seems to be cut off there" in doubt for doubt in model.doubts_)


def test_new_rows_with_the_value_are_wrong_wherever_the_model_predicts_it(tmp_path):
    X, _, spoilt, bad, _ = with_mistakes("zeros", 0.3, 3)
    model = fitted(X, spoilt)
    near = np.argsort(np.abs(model.predict(X)))[:5]
    model.save(tmp_path / "model.easyfirst")
    for judge in (model, load(tmp_path / "model.easyfirst")):
        assert np.all(judge.clean_probability(X[near], np.zeros(5)) == 0.0)
        assert np.all(judge.clean_probability(X[near], np.full(5, 1e-9)) > 0.9)
        assert judge.judge(X[near], np.zeros(5)).is_wrong.all()
    assert np.array_equal(model.clean_probability(X, spoilt) == 0.0, bad)


def test_batches_and_engines_agree_to_the_bit():
    X, _, spoilt, bad, _ = with_mistakes("sentinel", 0.3, 4, n=1200)
    batches = np.repeat(np.arange(3), 400)
    models = []
    for engine in ("inline", "threads"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            models.append(SelfPacedRegressor(engine=engine).fit(X, spoilt, batches=batches))
    first, second = models
    assert np.array_equal(first.coef_, second.coef_)
    assert np.array_equal(first.weights_, second.weights_)
    expected = [np.mean(~bad[batches == k]) for k in range(3)]
    assert first.batch_clean_share_ == pytest.approx(expected, abs=0.02)


# Values that are part of what is to be predicted.


def kept(X, y):
    """Return the only point mass after a look at it, which must not be set aside."""
    (mass,) = masses_of(X, y, *plain_fit(X, y))
    assert not mass.is_aside
    return mass


def plain_fit(X, y):
    """Least squares of the rows with values of their own."""
    values, counts = np.unique(y, return_counts=True)
    rare = ~np.isin(y, values[counts > 10])
    center, middle = X[rare].mean(axis=0), y[rare].mean()
    slopes = np.linalg.lstsq(X[rare] - center, y[rare] - middle, rcond=None)[0]
    coef = np.append(slopes, middle - center @ slopes)
    return coef, np.std(y[rare] - X[rare] @ slopes - coef[-1])


def test_a_floor_that_the_model_predicts_is_a_limit():
    _, X, y, _ = clean_rows(2000, 4, 5)
    mass = kept(X, np.maximum(y, 0.0))
    assert mass.is_limit


def test_values_that_people_round_to_are_predicted():
    rng, X, y, _ = clean_rows(4000, 4, 6)
    near = (np.abs(y - 2.0) < 0.3) & (rng.random(4000) < 0.9)
    mass = kept(X, np.where(near, 2.0, y))
    assert mass.is_predicted
    assert not mass.is_limit


def test_zeros_that_a_column_explains_are_kept():
    rng, X, y, _ = clean_rows(2000, 4, 7)
    is_open = rng.random(2000) > 0.2
    X[:, 0] = is_open
    mass = kept(X, np.where(is_open, y + 30.0, 0.0))
    assert mass.is_apart


def amounts(n, zeros, seed):
    """Positive amounts, and none in a share of the rows that no column tells."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    some = np.exp(1.0 + 0.3 * X[:, 0] + 0.3 * rng.normal(size=n))
    return X, np.where(rng.random(n) < zeros, 0.0, some)


@pytest.mark.parametrize("seed", range(3))
def test_the_zeros_of_most_amounts_are_not_called_wrong(seed):
    X, y = amounts(300, 0.7, seed)
    model = fitted(X, y)
    assert model.selected_[y == 0.0].mean() > 0.95
    assert any("have y = 0" in doubt for doubt in model.doubts_)


def test_zeros_of_fewer_amounts_that_are_set_aside_raise_a_doubt():
    X, y = amounts(1000, 0.3, 0)
    model = fitted(X, y)
    assert not model.selected_[y == 0.0].any()
    assert any("If 0 is a real amount" in doubt for doubt in model.doubts_)


def test_repeated_rows_that_agree_with_the_others_are_kept():
    rng, X, y, truth = clean_rows(1000, 4, 8)
    X[:200] = rng.normal(size=4)
    y[:200] = X[0] @ truth[:-1] + truth[-1] + 0.5
    assert kept(X, y).is_predicted


def test_mostly_zero_counts_are_fitted_as_they_were():
    rng, X, _, _ = clean_rows(1500, 4, 9)
    y = rng.poisson(np.exp(-1.0 + 0.5 * X[:, 0])).astype(float)
    model = fitted(X, y)
    plain = np.linalg.lstsq(np.column_stack([X, np.ones(len(X))]), y, rcond=None)[0]
    error = np.mean(np.abs(model.predict(X) - y))
    assert error < 1.03 * np.mean(np.abs(X @ plain[:-1] + plain[-1] - y))


# The air of an Italian city, with -200 where a value is missing.


@pytest.mark.parametrize("gas", ["CO(GT)", "NO2(GT)", "NOx(GT)", "NMHC(GT)"])
def test_sentinels_in_measurements_of_the_air_are_all_found(gas):
    pandas = pytest.importorskip("pandas")
    if not AIR.exists():
        pytest.skip(f"the table is not at {AIR}")
    frame = pandas.read_csv(AIR, sep=";", decimal=",").dropna(how="all")
    sensors = [name for name in frame if name.startswith("PT08")] + ["T", "RH", "AH"]
    frame = frame[(frame[sensors] != -200).all(axis=1)]
    X, y = frame[sensors].to_numpy(dtype=float), frame[gas].to_numpy(dtype=float)
    bad = y == -200
    model = fitted(X, y)
    flagged = ~model.selected_
    assert np.all(flagged[bad])
    assert np.mean(bad[flagged]) >= 0.95
    design = np.column_stack([X, np.ones(len(X))])[~bad]
    plain = np.linalg.lstsq(design, y[~bad], rcond=None)[0]
    error = np.mean(np.abs(y - model.predict(X))[~bad])
    assert error < 1.1 * np.mean(np.abs(y[~bad] - design @ plain))
