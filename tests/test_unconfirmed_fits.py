"""Few rows: a fit that sets many of them aside has to show that they are wrong."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from easyfirst import SelfPacedRegressor
from easyfirst.consensus.checks.telling import telling_of

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def drawn(seed, n):
    rng = np.random.default_rng(seed)
    return rng, rng.normal(size=(n, 3))


def test_columns_tell_rows_that_lie_on_one_side_of_a_plane():
    rng, X = drawn(0, 60)
    found = telling_of(X, X[:, 1] + 0.5 * rng.normal(size=60) > 0.5)
    assert found.is_clear
    assert found.columns == (1,)


@pytest.mark.parametrize("seed", range(5))
def test_columns_do_not_tell_rows_chosen_at_random(seed):
    rng, X = drawn(seed, 60)
    assert not telling_of(X, rng.random(60) < 0.3).is_clear


def test_nothing_is_told_by_constant_columns_or_beside_too_few_rows():
    aside = np.arange(30) < 10
    assert not telling_of(np.ones((30, 2)), aside).is_clear
    assert not telling_of(np.eye(30)[:, :28], aside).is_clear


def test_the_tail_of_skewed_noise_in_sixty_rows_is_not_set_aside():
    flagged, covered = [], []
    for seed in range(6):
        rng, X = drawn(seed, 1060)
        y = X @ [1.0, -1.0, 0.5] + rng.exponential(size=1060) ** 1.5
        model = SelfPacedRegressor().fit(X[:60], y[:60])
        low, high = model.predict_interval(X[60:]).T
        flagged.append(np.mean(~model.selected_))
        covered.append(np.mean((y[60:] >= low) & (y[60:] <= high)))
    assert np.mean(flagged) < 0.1
    assert np.mean(covered) > 0.8


@pytest.mark.parametrize("seed", range(3))
def test_a_part_of_the_table_that_follows_another_rule_is_not_set_aside(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(90, 4))
    other = X[:, 0] + X[:, 1] > 0.6
    y = X @ [1.0, 1.0, 0.0, 0.0] + 0.3 * rng.normal(size=90)
    y += other * (3.0 * X[:, 2] + 2.0 * rng.normal(size=90))
    model = SelfPacedRegressor().fit(X, y)
    assert np.mean(~model.selected_) < 0.1
    assert any("told by column" in note for note in model.notes_)


@pytest.mark.parametrize("seed", range(3))
def test_rows_shifted_at_random_are_still_found_among_eighty(seed):
    rng, X = drawn(seed, 80)
    wrong = np.arange(80) < 24
    y = X @ [1.0, -1.0, 0.5] + rng.normal(size=80) + 6.0 * wrong
    model = SelfPacedRegressor().fit(X, y)
    assert np.mean((model.weights_ < 0.5) == wrong) > 0.85


def test_values_that_coincide_by_rounding_are_not_taken_for_all_clean_rows():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(1500, 2)).astype(float)
    y = np.round(np.exp(0.5 * rng.normal(size=1500) + 0.2 * X[:, 0] + 2.0) * 4.0) / 4.0
    model = SelfPacedRegressor().fit(X, y)
    assert np.mean(~model.selected_) < 0.1


@pytest.mark.parametrize("seed", range(3))
def test_a_hidden_group_is_named_as_a_second_population(seed):
    rng, X = drawn(seed, 400)
    y = X @ [1.0, -1.0, 0.5] + rng.normal(size=400) + 8.0 * (rng.random(400) < 0.25)
    model = SelfPacedRegressor().fit(X, y)
    assert any("a second population" in doubt for doubt in model.doubts_)


@pytest.mark.parametrize("seed", range(3))
def test_mistakes_that_scatter_are_no_second_population(seed):
    rng, X = drawn(seed, 400)
    wrong = rng.random(400) < 0.25
    y = X @ [1.0, -1.0, 0.5] + rng.normal(size=400) + wrong * rng.uniform(-30.0, 30.0, 400)
    assert SelfPacedRegressor().fit(X, y).doubts_ == ()


@pytest.mark.parametrize("seed", range(4))
def test_later_years_of_what_grows_are_not_taken_for_mistakes_in_x(seed):
    rng = np.random.default_rng(300 + seed)
    year = np.arange(104.0)
    money = np.where(year < 58, 50 + 0.35 * year, 70 * np.exp(0.045 * (year - 58)))
    output = np.where(year < 58, 1400 + 28 * year, 3000 + 75 * (year - 58))
    X = np.column_stack([money, 3 + 0.05 * year + rng.normal(size=104)])
    y = output + 100 * rng.normal(size=104)
    model, plain = SelfPacedRegressor().fit(X, y), LinearRegression().fit(X, y)
    missed, by_plain = (np.mean(np.abs(y - each.predict(X))) for each in (model, plain))
    assert missed < 1.1 * by_plain
    assert np.mean(~model.selected_) < 0.1
