"""Where noise is not normal, a sample finds the way and few passes over all rows confirm it."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from easyfirst import SelfPacedRegressor
from easyfirst.consensus import confirmation, other_noise
from easyfirst.contracts import Batch, Resident
from easyfirst.engines import OutOfCore
from easyfirst.local import confirming, steps, weighing
from easyfirst.local.confirming import Conclusion
from easyfirst.local.design import Coordinates
from easyfirst.local.steps import Change
from easyfirst.local.weighing import NoiseRule, Problem, Weighting
from easyfirst.losses import Squared
from easyfirst.noise import NoiseModel
from easyfirst.noise.row_scale import ScaleRule
from easyfirst.regularizers import Entropic

N, P = 90_000, 6
COEF = np.linspace(1.0, 2.0, P)
MOST_PASSES = 8

NOISES = {
    "heavy tails": lambda rng, X: 0.3 * rng.standard_t(3, size=N),
    "Laplace": lambda rng, X: 0.3 * rng.laplace(size=N),
    "exponential": lambda rng, X: rng.exponential(size=N),
    "lognormal": lambda rng, X: rng.lognormal(sigma=0.5, size=N),
    "gamma": lambda rng, X: 0.3 * rng.gamma(8.0, size=N),
    "growing": lambda rng, X: 0.3 * np.exp(X[:, 0] / 2.0) * rng.normal(size=N),
    "skewed and growing": lambda rng, X: 0.3 * np.exp(0.4 * X[:, 1]) * rng.gamma(2.0, size=N),
    "a curve": lambda rng, X: 0.5 * np.square(X[:, 0]) + 0.3 * rng.normal(size=N),
}


def rows_with(noise, share, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, P))
    y = X @ COEF + NOISES[noise](rng, X)
    bad = rng.random(N) < share
    y[bad] += rng.uniform(-30, 30, bad.sum())
    return X, y


def fitted(X, y, **settings):
    settings = {"engine": OutOfCore(n_jobs=1), "n_batches": 8, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # doubts about curves and skewed noise
        return SelfPacedRegressor(**settings).fit(X, y)


@pytest.mark.parametrize("share", [0.0, 0.2])
@pytest.mark.parametrize("noise", NOISES)
def test_few_passes_lead_to_where_many_rounds_do(noise, share, monkeypatch):
    X, y = rows_with(noise, share, seed=3)
    few = fitted(X, y)
    assert few.reading_.passes <= MOST_PASSES
    # As if the sample were all rows.
    monkeypatch.setattr(other_noise, "first_size", lambda fleet: N)
    many = fitted(X, y)
    assert many.reading_.passes > few.reading_.passes
    errors = few.coef_standard_errors_
    assert np.max(np.abs(few.coef_ - many.coef_) / errors) < 1.0
    np.testing.assert_allclose(errors, many.coef_standard_errors_, rtol=0.06)
    assert few.noise_scale_ == pytest.approx(many.noise_scale_, rel=0.06)
    assert few.corrupted_fraction_ == pytest.approx(many.corrupted_fraction_, abs=0.06)
    if noise != "exponential":  # whose tail no noise model of ours describes: it may be wrong rows
        assert np.mean(few.selected_ != many.selected_) < 0.03


@pytest.mark.parametrize(
    ("center", "expected"), [("mean", 2.4), ("median", 2.3)], ids=["mean", "median"]
)
def test_the_intercept_aims_at_what_was_asked_for(center, expected):
    X, y = rows_with("gamma", 0.0, seed=4)
    model = fitted(X, y, center=center)
    assert model.reading_.passes <= MOST_PASSES
    assert model.intercept_ == pytest.approx(expected, abs=0.02)


def test_rows_fewer_than_a_sample_go_through_the_same_rounds_as_ever(monkeypatch):
    X, y = rows_with("lognormal", 0.2, seed=5)

    def fails(*arguments):
        raise AssertionError("a sample that is all rows has nothing to confirm")

    monkeypatch.setattr(other_noise.confirmation, "confirm", fails)
    fitted(X[:15_000], y[:15_000])


def test_the_last_pass_tells_what_separate_passes_do():
    rng = np.random.default_rng(0)
    X, p = rng.normal(size=(3000, 4)), 4
    batch = Batch(X, X @ np.ones(p) + rng.gamma(2.0, size=3000), rng.uniform(size=3000))
    problem = Problem(Coordinates(True), Squared(), Entropic(), anchor=2.0)
    noise = NoiseModel(3000.0, 0.9, 1.0, 0.6, 1.4, 9.0, (-np.inf, 0.0), (0.01, 0.02))
    slopes = np.array([0.2, 0.0, 0.0, 0.0])
    knots = np.array([-1.0, 1.0])
    scales = ScaleRule(np.ones(p), 0.0, knots, np.array([-0.2, 0.2]), slopes, 0.0)
    rule = NoiseRule(noise, (0.85,), 2.0, scales)
    coef = np.append(np.ones(p), 0.1)
    now = Weighting(tuple(coef.tolist()), noise_rule=rule)
    change, center = Change(now, Weighting(None)), 1.25
    asked = Conclusion(change, center, middle=rule)
    found = confirming.conclude(Resident(batch), asked, problem)
    moved = Weighting((*now.coef[:-1], now.coef[-1] + center), noise_rule=rule)
    np.testing.assert_array_equal(found.counts, steps.summarize(Resident(batch), moved, problem))
    formed = steps.form(Resident(batch), change, problem)
    measured = found.measured
    np.testing.assert_array_equal(measured.gram, formed.gram)
    outer, weight, slope = steps.scatter(Resident(batch), (now, 1.0), problem)
    np.testing.assert_array_equal(measured.outer, outer)
    assert (measured.weight, measured.slope) == (weight, slope)
    again = confirming.measure(Resident(batch), asked, problem)
    np.testing.assert_array_equal(again.gram, measured.gram)
    some = confirming.measure(Resident(batch), replace(asked, quota=1500), problem)
    for name in ("gram", "outer", "center_slope"):
        whole, drawn = getattr(measured, name), getattr(some, name)
        np.testing.assert_allclose(drawn, whole, atol=0.15 * np.max(np.abs(whole)))
    assert not measured.fourths.any()
    design = np.column_stack([X, np.ones(3000)])
    own = weighing.row_weights(Resident(batch), now, problem)
    fourths = np.sum(np.square(own[:, None] * np.square(design)), axis=0)
    np.testing.assert_allclose(some.fourths, 2.0 * fourths, rtol=0.2)
    counts, drawn = confirming.draw(Resident(batch), change, problem)
    np.testing.assert_array_equal(counts, steps.summarize(Resident(batch), now, problem))
    np.testing.assert_allclose(drawn.rhs, formed.rhs - formed.gram @ coef, atol=1e-9)
    pull, _ = steps.clean_pull(Resident(batch), (now, center), problem)
    assert found.center_pull == pytest.approx(pull, rel=1e-12)


def rare_rows(share, seed):
    """Rows with noise that has long tails, the last column of which says who is in a category."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(N, P - 1)), rng.random(N) < share])
    return X, X @ COEF + 0.3 * rng.standard_t(3, size=N)


@pytest.mark.parametrize(
    ("share", "asks_all"), [(0.3, False), (0.005, True)], ids=["common", "rare"]
)
def test_errors_are_those_of_all_rows_where_some_would_not_tell(share, asks_all, monkeypatch):
    X, y = rare_rows(share, seed=6)
    asked = []

    def noted(resident, message, problem):
        asked.append(message.quota)
        return confirming.measure(resident, message, problem)

    monkeypatch.setattr(confirmation, "measure", noted)
    monkeypatch.setattr(confirmation, "ROWS_FOR_ERRORS", 30_000)
    errors = fitted(X, y).coef_standard_errors_
    assert asked == ([None] * 8 if asks_all else [])
    monkeypatch.setattr(confirmation, "ROWS_FOR_ERRORS", N)
    whole = fitted(X, y).coef_standard_errors_
    np.testing.assert_allclose(errors, whole, rtol=1e-12 if asks_all else 0.05)


def test_curvature_and_slope_are_those_of_the_pull():
    """By differences: the pull at coefficients a little further on."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 2))
    batch = Batch(X, X @ np.ones(2) + rng.gamma(2.0, size=2000))
    problem = Problem(Coordinates(True), Squared(), Entropic(), anchor=2.0)
    noise = NoiseModel(2000.0, 0.9, 1.0, 0.6, 1.4, np.inf, (-np.inf, 0.0), (0.01, 0.02))
    rule, coef, tiny = NoiseRule(noise, (0.9,), 2.0), np.array([1.0, 1.0, 0.3]), 1e-6

    def change(at):
        return Change(Weighting(tuple(at.tolist()), noise_rule=rule))

    curve = confirming.curvature(Resident(batch), change(coef), problem)
    for j, direction in enumerate(np.eye(3)):
        further, before = (
            confirming.draw(Resident(batch), change(coef + step * direction), problem)[1].rhs
            for step in (tiny, -tiny)
        )
        np.testing.assert_allclose((before - further) / (2 * tiny), curve[:, j], rtol=2e-2, atol=5)
