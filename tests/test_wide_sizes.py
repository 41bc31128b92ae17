"""Wide sparse rows, too many columns for a matrix: wrong rows of unusual size are resisted."""

import numpy as np
import pytest
import scipy.sparse as sp

from easyfirst import SelfPacedRegressor
from easyfirst.penalties import Ridge

N, P, FILLED = 30_000, 6000, 30


def wide_rows(seed, far_share, times=8.0):
    """Rows of 30 values among 6,000 columns; 20 % of y are wrong, and some rows are far out."""
    rng = np.random.default_rng(seed)
    columns = np.sort(rng.integers(0, P, (N, FILLED)), axis=1)
    values, coef = rng.normal(size=(N, FILLED)), rng.normal(size=P)
    y = np.sum(values * coef[columns], axis=1) + 0.5 * rng.normal(size=N)
    wrong = rng.random(N) < 0.2
    y[wrong] += rng.uniform(-60, 60, wrong.sum())
    far = rng.random(N) < far_share
    values[far] *= times
    y[far] = 5.0 * rng.normal(size=far.sum())
    bounds = np.arange(0, N * FILLED + 1, FILLED)
    X = sp.csr_array((values.ravel(), columns.ravel(), bounds), shape=(N, P))
    return X, y, coef, wrong | far


def error_of(model, coef):
    return float(np.linalg.norm(model.coef_ - coef) / np.linalg.norm(coef))


@pytest.mark.parametrize("far_share", [0.0, 0.05])
@pytest.mark.parametrize("seed", [11, 12])
def test_the_fit_is_nearly_that_of_the_clean_rows(seed, far_share):
    X, y, coef, wrong = wide_rows(seed, far_share)
    found = SelfPacedRegressor(penalty=Ridge(1.0), engine="inline").fit(X, y)
    with np.errstate(all="ignore"):
        clean = SelfPacedRegressor(penalty=Ridge(1.0), engine="inline").fit(X[~wrong], y[~wrong])
    assert error_of(found, coef) < 1.15 * error_of(clean, coef)
    assert np.mean(found.selected_[wrong]) < 0.1
    assert np.mean(found.selected_[~wrong]) > 0.99


def test_large_rows_that_are_right_take_part():
    X, y, coef, _ = wide_rows(13, 0.0)
    rng = np.random.default_rng(13)
    large = rng.random(N) < 0.05
    X = sp.csr_array(sp.diags_array(np.where(large, 8.0, 1.0)) @ X)
    y[large] = X[large] @ coef + 0.5 * rng.normal(size=large.sum())
    found = SelfPacedRegressor(penalty=Ridge(1.0), engine="inline").fit(X, y)
    assert np.mean(found.selected_[large]) > 0.95


def test_engines_agree_to_the_bit():
    X, y, _, _ = wide_rows(14, 0.05)
    one, two = (
        SelfPacedRegressor(penalty=Ridge(1.0), engine=engine, n_batches=5).fit(X, y)
        for engine in ("inline", "threads")
    )
    assert one.coef_.tobytes() == two.coef_.tobytes()
    assert one.weights_.tobytes() == two.weights_.tobytes()
