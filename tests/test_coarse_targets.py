"""Targets of few different values: no row is wrong only because it has another value."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import HuberRegressor

from easyfirst import SelfPacedRegressor
from easyfirst.consensus.starts.coarse_targets import grid_cell, has_few_values


def table(seed: int, n: int = 600) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, X @ [0.5, -0.3, 0.2, 0.0, 0.4] + rng.normal(size=n), rng


def rated(z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.clip(np.round(4.3 + 0.3 * z + 0.6 * rng.normal(size=z.size)), 1, 5)


TARGETS = {
    "ratings": rated,
    "one value for most rows": lambda z, rng: np.where(z > 1.5, 2.0, np.where(z < -1.5, 0.0, 1.0)),
    "visits that X says nothing about": lambda z, rng: rng.integers(0, 5, z.size).astype(float),
    "a rare event": lambda z, rng: (z > 1.7).astype(float),
}


@pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")  # of many equal y
@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("seed", [11, 12])
def test_rows_off_the_most_frequent_value_are_not_wrong(kind: str, seed: int) -> None:
    X, z, rng = table(seed)
    y = TARGETS[kind](z, rng)
    model = SelfPacedRegressor().fit(X, y)
    assert np.mean(~model.selected_) < 0.02
    assert model.noise_scale_ > 0.2
    assert not any("fitted exactly" in doubt for doubt in model.doubts_)


@pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")  # of skewed noise
@pytest.mark.parametrize("kind", ["ratings", "one value for most rows"])
@pytest.mark.parametrize("code", [9.0, 99.0])
def test_values_off_the_grid_are_found(kind: str, code: float) -> None:
    X, z, rng = table(13)
    y = TARGETS[kind](z, rng)
    wrong = rng.random(y.size) < 0.08
    y[wrong] = code
    model = SelfPacedRegressor().fit(X, y)
    assert np.mean(~model.selected_[wrong]) > 0.95
    assert np.mean(~model.selected_[~wrong]) < 0.02


def test_an_identity_between_whole_numbers_stays_exact() -> None:
    rng = np.random.default_rng(14)
    X = rng.integers(0, 20, (600, 3)).astype(float)
    y = X[:, 0] - X[:, 1] - 6.0
    wrong = rng.random(600) < 0.1
    y[wrong] += rng.integers(1, 4, wrong.sum())
    model = SelfPacedRegressor().fit(X, y)
    assert np.array_equal(~model.selected_, wrong)
    assert model.coef_ == pytest.approx([1.0, -1.0, 0.0], abs=1e-9)


def test_the_note_says_what_was_returned() -> None:
    X, z, rng = table(11)
    model = SelfPacedRegressor().fit(X, rated(z, rng))
    assert any("few different values" in note for note in model.notes_)


def test_a_grid_is_known_by_its_repeated_values() -> None:
    rng = np.random.default_rng(15)
    assert grid_cell(rng.integers(0, 5, 300) * 0.25) == 0.25
    assert grid_cell(rng.normal(size=300)) == 0.0
    assert grid_cell(np.zeros(300)) == 0.0
    # Most rows decide: a stray value between two others does not make the grid finer.
    assert grid_cell(np.append(rng.integers(0, 5, 300), [2.5])) == 1.0


def test_few_values_are_those_of_a_grid_or_one_of_most_rows() -> None:
    rng = np.random.default_rng(16)
    amounts = rng.exponential(size=300)
    assert has_few_values(rng.poisson(0.3, 300).astype(float))
    assert has_few_values(np.where(rng.random(300) < 0.7, 0.0, amounts))
    assert not has_few_values(np.where(rng.random(300) < 0.3, 0.0, amounts))
    assert not has_few_values(amounts)


@pytest.mark.parametrize("seed", range(3))
def test_mostly_zero_counts_name_the_model_for_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 4))
    y = rng.poisson(np.exp(-1.6 + 0.3 * X[:, 0])).astype(float)
    with pytest.warns(UserWarning, match="PoissonDeviance"):
        model = SelfPacedRegressor().fit(X, y)
    assert np.mean(~model.selected_) < 0.05
    huber = HuberRegressor().fit(X, y).predict(X)
    assert np.mean(np.abs(y - model.predict(X))) < 1.25 * np.mean(np.abs(y - huber))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(3))
def test_amounts_that_are_zero_for_a_reason_are_no_code_and_no_mistakes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(800, 4))
    latent = X @ [1.0, 0.6, 0.2, -0.5]
    amount = np.exp(0.3 * (latent + 3.0) + 0.2 * rng.normal(size=800))
    y = np.where(latent + 1.5 * rng.normal(size=800) > 0.8, amount, 0.0)
    model = SelfPacedRegressor().fit(X, y)
    assert np.mean(~model.selected_) < 0.05
    assert any("y = 0 exactly" in doubt for doubt in model.doubts_)
    low, high = np.asarray(model.predict_interval(X, coverage=0.9)).T
    assert 0.8 < np.mean((low <= y) & (y <= high)) < 0.97
