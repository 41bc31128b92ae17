"""Few rows of which many are wrong, and few that are all right."""

import warnings

import numpy as np
import pytest

from easyfirst import SelfPacedRegressor
from easyfirst.schedules import Calibrated


def rows(n, p, share, by, seed):
    """Return X, y, which rows are shifted, and the coefficients with the intercept last."""
    rng = np.random.default_rng([seed, n, p])
    X = rng.normal(size=(n, p))
    truth = np.append(rng.normal(size=p), 1.0)
    y = X @ truth[:-1] + 1.0 + rng.normal(size=n)
    bad = np.zeros(n, dtype=bool)
    bad[rng.choice(n, round(share * n), replace=False)] = True
    y[bad] += by
    return X, y, bad, truth


def ratio(X, y, bad, truth):
    """Return the error of the default over that of least squares on the clean rows."""
    design = np.column_stack([X, np.ones(len(y))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SelfPacedRegressor(engine="inline").fit(X, y)
    oracle = np.linalg.lstsq(design[~bad], y[~bad], rcond=None)[0]
    errors = [
        design @ (np.append(model.coef_, model.intercept_) - truth),
        design @ (oracle - truth),
    ]
    return np.linalg.norm(errors[0]) / np.linalg.norm(errors[1])


@pytest.mark.parametrize(("n", "p"), [(50, 3), (100, 8)])
def test_a_shift_of_40_percent_of_few_rows_is_found(n, p):
    ratios = [ratio(*rows(n, p, 0.4, 10.0, seed)) for seed in range(4)]
    assert np.mean(ratios) < 2.0
    assert np.sum(np.array(ratios) > 4.0) <= 1


@pytest.mark.parametrize(("n", "p"), [(20, 1), (50, 10)])
def test_half_of_few_clean_rows_is_no_better_model_of_them(n, p):
    ratios = [ratio(*rows(n, p, 0.0, 0.0, seed)) for seed in range(4)]
    assert np.mean(ratios) < 1.2


def test_a_share_that_is_taken_for_granted_lies_between_none_and_all():
    with pytest.raises(ValueError, match="granted must lie in"):
        Calibrated(granted=0.0)
