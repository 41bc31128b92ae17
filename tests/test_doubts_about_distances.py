"""Rows set aside that may be right: the tail of the noise, or a part of the table far out in X."""

import numpy as np
import pytest

from easyfirst import SelfPacedRegressor

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

COEF = np.array([1.0, -1.0, 0.5])


def table(seed, n=150):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return rng, X, X @ COEF, rng.normal(size=n)


def doubts(X, y):
    model = SelfPacedRegressor(engine="inline").fit(X, y)
    return float(np.mean(~model.selected_)), " ".join(model.doubts_)


def test_rows_set_aside_near_the_others_raise_a_doubt():
    found = []
    for seed in range(6):
        rng, X, line, noise = table(seed)
        wide = np.where(rng.random(150) < 0.3, 5.0, 1.0)
        share, words = doubts(X, line + wide * noise)
        said = "noise with a long tail" in words
        assert share > 0.1 or not said
        found.append(said)
    assert sum(found) >= 4


@pytest.mark.parametrize("seed", range(4))
def test_mistakes_far_off_raise_none(seed):
    rng, X, line, noise = table(seed)
    wrong = rng.random(150) < 0.3
    share, words = doubts(X, line + np.where(wrong, rng.uniform(-40.0, 40.0, 150), noise))
    assert share > 0.2
    assert "long tail" not in words


def far_out(seed, n_far):
    _, X, line, noise = table(seed)
    y = line + noise
    X[:n_far] += 20.0
    y[:n_far] = -60.0 + noise[:n_far]
    return X, y


@pytest.mark.parametrize("seed", range(4))
def test_many_rows_far_out_are_worth_a_note_and_few_are_not(seed):
    for n_far, is_noted in ((25, True), (7, False)):
        model = SelfPacedRegressor(engine="inline").fit(*far_out(seed, n_far))
        assert np.mean(~model.selected_) == pytest.approx(n_far / 150, abs=0.03)
        assert ("lie far out in X and look wrong" in " ".join(model.notes_)) == is_noted
