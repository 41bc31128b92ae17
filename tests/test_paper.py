"""Reduced versions of what the paper claims."""

import numpy as np
import pytest

from easyfirst import SelfPacedRegressor
from easyfirst.datasets import make_corrupted_regression
from problems import ladder, least_squares, pooled_self_paced


def error(coef, data):
    return float(np.linalg.norm(coef - data.coef))


def oracle(data):
    """Least squares on the rows that are known to be clean."""
    return least_squares(data.X, data.y, data.clean.astype(float), fit_intercept=False)


def batch_by_batch(data):
    """Self-paced learning in each batch by itself, then the average: the paper's "SPL"."""
    coefs = [
        SelfPacedRegressor.paper(solver="gram", n_batches=1)
        .fit(data.X[data.batches == batch], data.y[data.batches == batch])
        .coef_
        for batch in np.unique(data.batches)
    ]
    return np.mean(coefs, axis=0)


def draws(n_samples_per_batch, n_bad_batches):
    return [
        make_corrupted_regression(
            n_samples_per_batch,
            50,
            10,
            mode="batches",
            n_bad_batches=n_bad_batches,
            random_state=seed,
        )
        for seed in range(3)
    ]


@pytest.mark.parametrize(("n_bad_batches", "bound"), [(4, 1.2), (6, 1.25), (9, 1.7)])
def test_the_papers_table_reduced_stays_near_the_oracle(n_bad_batches, bound):
    found, best, naive = [], [], []
    for data in draws(1000, n_bad_batches):
        model = SelfPacedRegressor.paper().fit(data.X, data.y, batches=data.batches)
        assert model.status_.code == "converged"
        assert model.selected_[data.clean].mean() > 0.99
        assert model.selected_[~data.clean].mean() < 0.1
        found.append(error(model.coef_, data))
        best.append(error(oracle(data), data))
        naive.append(
            error(least_squares(data.X, data.y, np.ones(10_000), fit_intercept=False), data)
        )
    assert np.mean(found) < bound * np.mean(best)
    assert np.mean(found) < 0.25 * np.mean(naive)


def test_consensus_beats_averaging_when_the_easy_rows_are_clustered_in_few_batches():
    # Eight of ten batches hold 30 clean rows for 50 coefficients: nobody can fit those alone.
    for data in draws(300, 8):
        together = SelfPacedRegressor.paper().fit(data.X, data.y, batches=data.batches)
        alone = error(batch_by_batch(data), data)
        assert error(together.coef_, data) < 1.8 * error(oracle(data), data)
        assert alone > 5.0 * error(together.coef_, data)


def test_the_papers_configuration_equals_self_paced_learning_on_the_pooled_rows():
    data = draws(300, 8)[0]
    coef, weights = pooled_self_paced(
        data.X,
        data.y,
        ladder(0.1, 1.1, 1.0),
        lambda losses, pace: (losses < pace).astype(float),
        strength=1.0,
        fit_intercept=False,
    )
    model = SelfPacedRegressor.paper().fit(data.X, data.y, batches=data.batches)
    np.testing.assert_allclose(model.coef_, coef, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(model.weights_, weights)


@pytest.mark.parametrize("mode", ["uniform", "heterogeneous"])
def test_the_papers_configuration_survives_other_kinds_of_corruption(mode):
    data = make_corrupted_regression(500, 20, 6, mode=mode, corruption_ratio=0.4, random_state=0)
    model = SelfPacedRegressor.paper().fit(data.X, data.y, batches=data.batches)
    assert error(model.coef_, data) < 1.3 * error(oracle(data), data)
