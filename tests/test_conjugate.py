"""Fits that form no square matrix end where the others do."""

import numpy as np
import pytest
import scipy.sparse as sp

from easyfirst import SelfPacedRegressor
from easyfirst.errors import RankWarning
from easyfirst.local.design import Design
from easyfirst.penalties import Ridge
from easyfirst.schedules import Constant, Geometric
from problems import corrupted_rows

WIDE = 6_000  # columns, for which "auto" forms no matrix


@pytest.fixture(scope="module")
def rows():
    return corrupted_rows(n=6_000, p=40, share=0.3)


def fitted(X, y, solver, **settings):
    return SelfPacedRegressor(solver=solver, n_batches=4, **settings).fit(X, y)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("penalty", [None, Ridge(10.0)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_conjugate_gradients_end_where_gram_matrices_do(rows, container, penalty, fit_intercept):
    settings = {"penalty": penalty, "fit_intercept": fit_intercept}
    y = rows.y if fit_intercept else rows.y - rows.intercept
    free = fitted(container(rows.X), y, "cg", **settings)
    formed = fitted(container(rows.X), y, "gram", **settings)
    off = np.abs(free.coef_ - formed.coef_) / formed.coef_standard_errors_
    assert np.max(off) < 0.1
    assert free.noise_scale_ == pytest.approx(formed.noise_scale_, rel=2e-3)
    assert free.corrupted_fraction_ == pytest.approx(formed.corrupted_fraction_, abs=1e-3)
    assert np.mean(free.selected_ != formed.selected_) < 1e-3
    # The columns are independent, as the standard errors without a matrix suppose.
    np.testing.assert_allclose(free.coef_standard_errors_, formed.coef_standard_errors_, rtol=0.1)


def test_a_fixed_pace_is_solved_to_many_digits(rows):
    for pace in (Constant(), Geometric(start=0.1, factor=2.0, ceiling=1.0)):
        free = fitted(rows.X, rows.y, "cg", pace=pace)
        formed = fitted(rows.X, rows.y, "gram", pace=pace)
        np.testing.assert_allclose(free.coef_, formed.coef_, rtol=1e-6)
        np.testing.assert_array_equal(free.selected_, formed.selected_)


def test_the_record_of_a_round_is_that_of_the_true_objective(rows):
    free, formed = (fitted(rows.X, rows.y, solver, pace=Constant()) for solver in ("cg", "gram"))
    ours, theirs = free.history_.rounds[-1], formed.history_.rounds[-1]
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-3)
    assert ours.kkt_residual < 1e-3


def test_columns_far_from_zero_are_fitted_in_a_shifted_frame(rows):
    for container in (np.asarray, sp.csr_array):
        free = fitted(container(rows.X + 1000.0), rows.y, "cg")
        plain = fitted(rows.X, rows.y, "cg")
        np.testing.assert_allclose(free.coef_, plain.coef_, atol=1e-4)


def wide_rows(n=40_000, per_row=30, seed=0):
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, WIDE, (n, per_row)).ravel()
    parts = (rng.normal(size=columns.size), columns, np.arange(0, columns.size + 1, per_row))
    X = sp.csr_array(parts, shape=(n, WIDE))
    X.sum_duplicates()
    coef = rng.normal(size=WIDE)
    y = X @ coef + 0.3 * rng.normal(size=n)
    clean = rng.random(n) > 0.2
    y[~clean] += rng.uniform(-60, 60, np.sum(~clean))
    return X, y, clean, coef


@pytest.fixture(scope="module")
def wide():
    return wide_rows()


def test_thousands_of_sparse_columns_are_fitted_without_a_gram_matrix(wide, monkeypatch):
    def refuse(*args):
        raise AssertionError("a Gram matrix of all columns was formed")

    monkeypatch.setattr(Design, "gram", refuse)
    X, y, clean, coef = wide
    model = SelfPacedRegressor().fit(X, y)
    assert model.status_.converged
    assert np.mean(model.selected_ == clean) > 0.97
    assert model.corrupted_fraction_ == pytest.approx(0.2, abs=0.02)
    assert model.noise_scale_ == pytest.approx(0.3, rel=0.05)
    z = (model.coef_ - coef) / model.coef_standard_errors_
    assert 0.8 < np.sqrt(np.mean(z**2)) < 1.25


def test_a_column_without_entries_is_named_and_gets_no_say(wide):
    X, y, _, _ = wide
    part = X[:15_000].tolil()
    part[:, 3] = 0.0
    with pytest.warns(RankWarning, match="column 3"):
        model = SelfPacedRegressor().fit(sp.csr_array(part), y[:15_000])
    assert model.coef_[3] == 0.0
    assert model.coef_standard_errors_[3] == np.inf


def test_a_solver_that_needs_matrices_refuses_too_many_columns():
    X = sp.csr_array(sp.eye_array(30, 20_000))
    with pytest.raises(ValueError, match=r"20,000 columns.*'gram' needs square matrices"):
        SelfPacedRegressor(solver="gram").fit(X, np.arange(30.0))
