"""Errors measured on rows that are dirty too."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from easyfirst import SelfPacedRegressor
from easyfirst.metrics import make_trimmed_scorer, trimmed_error, trusted_error, trusted_scores
from easyfirst.penalties import Ridge
from easyfirst.schedules import Geometric
from problems import corrupted_rows


def test_the_trusted_error_is_that_of_the_clean_rows():
    train = corrupted_rows(2000, 3, share=0.3, seed=0)
    model = SelfPacedRegressor().fit(train.X, train.y)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 3))
    y = X @ train.coef + train.intercept + 0.1 * rng.normal(size=2000)
    y[:800] += rng.uniform(5, 15, 800)
    found = trusted_error(model, X, y)
    assert found.error == pytest.approx(0.1, rel=0.1)
    assert found.share == pytest.approx(0.6, abs=0.02)


def test_a_model_that_trusts_no_row_has_an_infinite_error():
    train = corrupted_rows(500, 3, seed=0)
    model = SelfPacedRegressor().fit(train.X, train.y)
    found = trusted_error(model, train.X, train.y + 1e6)
    assert found.share == pytest.approx(0.0, abs=1e-6)
    assert found.error > 1e5


def test_a_trusted_error_needs_a_calibrated_model():
    rows = corrupted_rows()
    model = SelfPacedRegressor(pace=Geometric()).fit(rows.X, rows.y)
    with pytest.raises(AttributeError, match="only the calibrated pace"):
        trusted_error(model, rows.X, rows.y)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 1.0])
def test_the_trimmed_error_is_the_root_mean_of_the_smallest_squares(share):
    rng = np.random.default_rng(2)
    y, guess = rng.normal(size=(2, 57))
    smallest = np.sort((y - guess) ** 2)[: int(share * 57)]
    assert trimmed_error(y, guess, share) == pytest.approx(np.sqrt(smallest.mean()))


def test_the_trimmed_error_does_not_see_rows_that_are_wild():
    rng = np.random.default_rng(3)
    y = rng.normal(size=100)
    dirty = y.copy()
    dirty[:30] = 1e300
    assert trimmed_error(dirty, np.zeros(100), 0.7) == pytest.approx(np.sqrt(np.mean(y[30:] ** 2)))


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(ValueError, match="share must lie in"):
        trimmed_error([1.0], [1.0], share)
    with pytest.raises(ValueError, match="share must lie in"):
        make_trimmed_scorer(share)(LinearRegression().fit([[0.0], [1.0]], [0, 1]), [[0.0]], [0.0])


# A candidate that is wrong may say so; the search has to go on.
@pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")
def test_a_grid_search_on_dirty_rows_picks_the_right_degree():
    rng = np.random.default_rng(4)
    x = rng.uniform(-2, 2, size=(1650, 1))
    y = 1.0 - 2.0 * x[:, 0] + 1.5 * x[:, 0] ** 2 + 0.1 * rng.normal(size=1650)
    y[::3] = rng.uniform(-60, 60, 550)
    search = GridSearchCV(
        make_pipeline(PolynomialFeatures(include_bias=False), SelfPacedRegressor()),
        {"polynomialfeatures__degree": [1, 2]},
        scoring=make_trimmed_scorer(0.5),
        cv=3,
        error_score="raise",
    )
    search.fit(x, y)
    assert search.best_params_ == {"polynomialfeatures__degree": 2}
    assert -search.best_score_ < 0.15


@pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")
def test_a_grid_search_on_dirty_rows_picks_the_right_penalty():
    rows = corrupted_rows(1600, 5, share=0.3, seed=5)
    grid = {"penalty": [None, Ridge(1e3)]}
    search = GridSearchCV(
        SelfPacedRegressor(), grid, scoring=make_trimmed_scorer(0.5), cv=3, error_score="raise"
    )
    search.fit(rows.X, rows.y)
    assert search.best_params_ == {"penalty": None}


@pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")
def test_several_metrics_at_once_tell_error_and_share():
    rows = corrupted_rows(1600, 3, share=0.3, seed=6)
    search = GridSearchCV(
        SelfPacedRegressor(),
        {"fit_intercept": [True, False]},
        scoring=trusted_scores,
        refit="neg_trusted_error",
        cv=3,
        error_score="raise",
    ).fit(rows.X, rows.y)
    assert search.best_params_ == {"fit_intercept": True}
    results = search.cv_results_
    assert -results["mean_test_neg_trusted_error"][0] == pytest.approx(0.1, rel=0.15)
    assert results["mean_test_trusted_share"][0] == pytest.approx(0.7, abs=0.03)
