"""Batches that arrive one at a time: a bounded state, bad beginnings, drift."""

import pickle
import warnings

import numpy as np
import pytest

from easyfirst import SelfPacedRegressor
from easyfirst.consensus.streams.drift import BatchSummary, DriftWatch
from easyfirst.consensus.streams.stream import Reservoir
from easyfirst.errors import DriftWarning
from easyfirst.penalties import Lasso, Ridge
from easyfirst.schedules import Geometric

COEF = np.array([1.0, -2.0, 0.5])


def batches(n_batches, n=300, share=0.2, seed=0):
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n_batches):
        X = rng.normal(size=(n, 3))
        y = X @ COEF + 1.0 + 0.5 * rng.standard_normal(n)
        wrong = rng.random(n) < share
        y[wrong] += rng.uniform(5.0, 20.0, wrong.sum())
        made.append((X, y))
    return made


def streamed(parts, most=1000, **settings):
    """Fit batches one at a time with a small reservoir."""
    model = SelfPacedRegressor(engine="inline")
    half_life = settings.pop("half_life", None)
    for X, y in parts:
        model.partial_fit(X, y, half_life)
        model._stream.reservoir.most = most
    return model


def joined(parts):
    return np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def off(model):
    return float(np.hypot(np.linalg.norm(model.coef_ - COEF), model.intercept_ - 1.0))


def test_the_error_is_that_of_one_fit_in_order_or_shuffled():
    errors = []
    for seed in range(2):
        parts = batches(12, seed=seed)
        X, y = joined(parts)
        order = np.random.default_rng(seed).permutation(len(y))
        shuffled = [(X[rows], y[rows]) for rows in np.array_split(order, 12)]
        one = SelfPacedRegressor(engine="inline").fit(X, y)
        errors.append([off(streamed(parts)), off(streamed(shuffled)), off(one)])
    in_order, mixed, one_shot = np.sqrt(np.mean(np.square(errors), axis=0))
    assert in_order < 1.15 * one_shot
    assert mixed < 1.15 * one_shot


def test_a_stream_that_fits_into_the_reservoir_and_was_just_fitted_is_one_fit():
    (part,) = batches(1)
    here = SelfPacedRegressor().partial_fit(*part)
    there = SelfPacedRegressor().fit(*part)
    assert here.coef_.tobytes() == there.coef_.tobytes()
    np.testing.assert_array_equal(here.selected_, there.selected_)


def test_what_is_kept_does_not_grow():
    few, many = streamed(batches(6)), streamed(batches(14))
    assert many._stream.reservoir.y.size == few._stream.reservoir.y.size == 1000
    room = [len(pickle.dumps(model._stream)) for model in (few, many)]
    assert room[1] < room[0] + 14 * 100


@pytest.mark.parametrize("kind", ["anywhere", "another model"])
def test_batches_that_are_mostly_wrong_do_not_drag_it_away_even_first(kind):
    parts, rng = batches(14, share=0.1), np.random.default_rng(1)
    for number in (0, 1, 9):
        X, y = parts[number]
        wrong = rng.random(y.size) < 0.8
        other = X @ -COEF + 20.0 if kind == "another model" else rng.uniform(-40.0, 40.0, y.size)
        y[wrong] = other[wrong]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DriftWarning)
        model = streamed(parts)
    assert off(model) < 0.1
    assert model.batch_clean_share_[9] < 0.4
    assert model.batch_clean_share_[-1] > 0.8


def test_rows_let_in_by_a_bad_beginning_are_taken_back():
    parts, rng = batches(12), np.random.default_rng(0)
    for _, y in parts[:3]:
        wrong = rng.random(y.size) < 0.8
        y[wrong] = rng.uniform(-40.0, 40.0, wrong.sum())
    model = streamed(parts, most=10_000)
    assert not model._stream.reservoir.is_due  # some batches came after the last fit of the sample
    one = SelfPacedRegressor(engine="inline").fit(*joined(parts))
    assert np.linalg.norm(model.coef_ - one.coef_) < 0.1 * off(one)


@pytest.mark.parametrize("half_life", [None, 700.0])
def test_rows_that_stay_stand_for_those_that_did_not(half_life):
    held, totals = [Reservoir(seed, most=400) for seed in range(30)], []
    for reservoir in held:
        for _ in range(20):
            reservoir.add(np.zeros((100, 1)), np.zeros(100), half_life)
        totals.append(np.sum(reservoir.ages / reservoir.chances))
    ages = np.exp2(np.arange(-1999.0, 1.0) / half_life) if half_life else np.ones(2000)
    assert np.mean(totals) == pytest.approx(ages.sum(), rel=0.02)
    all_stay = Reservoir(0, most=400)
    all_stay.add(np.zeros((100, 1)), np.zeros(100), half_life)
    np.testing.assert_array_equal(all_stay.chances, 1.0)


def test_with_a_half_life_the_model_follows_a_change():
    before, after = batches(6), [(X, y + 6.0 * X[:, 0]) for X, y in batches(5, seed=1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DriftWarning)
        follows = streamed([*before, *after], half_life=400)
    assert abs(follows.coef_[0] - 7.0) < 0.2


def test_the_reservoir_is_even_and_ages_with_a_half_life():
    even, aging = Reservoir(0, most=500), Reservoir(0, most=500)
    for start in range(0, 10_000, 100):
        rows = np.arange(start, start + 100.0)
        even.add(rows[:, None], rows, None)
        aging.add(rows[:, None], rows, 1000.0)
    assert even.seen == 10_000
    assert abs(even.y.mean() - 5000.0) < 4 * 2887.0 / np.sqrt(500)
    recent = np.mean(aging.y > 9000.0)
    assert 0.35 < recent < 0.7
    assert even.X[:, 0].tolist() == even.y.tolist()


def test_a_change_raises_the_alarm_and_none_does_not():
    steady = batches(25, n=200)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DriftWarning)
        model = streamed(steady)
    assert model.drift_ == ()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for X, y in batches(4, n=200, share=0.6, seed=5):
            model.partial_fit(X, y)
    assert ["share of clean rows went from" in str(each.message) for each in caught] == [True]
    (drift,) = model.drift_
    assert drift.what == "clean share"
    assert 25 <= drift.batch <= 28


@pytest.mark.parametrize("times", [0.6, 1.6])
def test_a_change_of_the_noise_is_told(times):
    rng, watch, found = np.random.default_rng(0), DriftWatch(), []
    for number in range(60):
        z = rng.standard_normal(200) * (times if number >= 40 else 1.0)
        found.append(watch.look(BatchSummary.of(np.ones(200), z)))
    alarms = [(number, each) for number, each in enumerate(found) if each is not None]
    assert len(alarms) == 1
    assert alarms[0][0] < 46
    assert alarms[0][1].what == "noise"
    assert "times what it was" in str(alarms[0][1])


def test_few_rows_at_first_are_taken_as_they_are():
    X, y = batches(1, n=40, share=0.0)[0]
    model = SelfPacedRegressor()
    for row in range(0, 40, 2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.partial_fit(X[row : row + 2], y[row : row + 2])
    assert off(model) < 1.0
    assert model.weights_.shape == (2,)


def test_a_fit_begins_anew():
    parts = batches(2)
    model = streamed(parts).fit(*parts[0])
    assert not hasattr(model, "drift_")
    assert model.weights_.size == 300
    model.partial_fit(*parts[1])
    assert model._stream.reservoir.seen == 300


@pytest.mark.parametrize(
    "settings",
    [
        {"pace": Geometric(0.1, 1.1, 1.0)},
        {"target_transform": "auto"},
        {"penalty": Lasso(1.0)},
    ],
)
def test_what_a_stream_cannot_honour_is_refused(settings):
    assert not hasattr(SelfPacedRegressor(**settings), "partial_fit")
    (part,) = batches(1)
    with pytest.raises(ValueError, match="half_life must be a number of rows > 0"):
        SelfPacedRegressor().partial_fit(*part, -1.0)


def test_transforms_and_penalties_are_honoured():
    parts = [(X, np.exp(y / 4.0)) for X, y in batches(6, share=0.0)]
    model = SelfPacedRegressor(target_transform="log", penalty=Ridge(300.0))
    for X, y in parts:
        model.partial_fit(X, y)
    one = SelfPacedRegressor(target_transform="log", penalty=Ridge(300.0)).fit(*joined(parts))
    np.testing.assert_allclose(model.coef_, one.coef_, rtol=0.02)


@pytest.mark.parametrize("bad", [1, 3])
def test_bad_batches_among_the_first_hide_no_later_change(bad):
    rng, watch = np.random.default_rng(bad), DriftWatch()

    def look(share):
        clean = rng.random(200) < share
        return watch.look(BatchSummary.of(clean.astype(float), rng.standard_normal(200)))

    assert not any(look(0.2 if number in range(2, 2 + bad) else 0.8) for number in range(30))
    found = [look(0.6) for _ in range(4)]
    (drift,) = [each for each in found if each is not None]
    assert drift.before == pytest.approx(0.8, abs=0.05)
    assert drift.now == pytest.approx(0.6, abs=0.12)
