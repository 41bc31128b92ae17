"""Wrong rows far out in X do not lead a fit with thousands of columns astray."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge as PlainRidge

from easyfirst import SelfPacedRegressor
from easyfirst.consensus.starts.wide_leverage import wide_far_rule
from easyfirst.engines import Inline, Threads
from easyfirst.penalties import Ridge

N, P, PER_ROW = 16_000, 5_500, 30
OFF = 8.0  # how far out a cluster lies in each of ten columns


def sparse_rows(seed):
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, P, N * PER_ROW)
    parts = (rng.standard_normal(columns.size), (np.repeat(np.arange(N), PER_ROW), columns))
    X = sp.csr_array(sp.coo_array(parts, shape=(N, P)))
    coef = rng.standard_normal(P) / np.sqrt(PER_ROW)
    return X, coef, rng


def with_cluster(X, rows):
    shift = sp.csr_array((np.full(10, OFF), (np.zeros(10, dtype=int), np.arange(10))), shape=(1, P))
    return sp.csr_array(X + sp.csr_array(rows[:, None].astype(float)) @ shift)


def with_long_rows(X, rows):
    return sp.csr_array(sp.diags_array(np.where(rows, 10.0, 1.0)) @ X)


def chosen(rng, share):
    rows = np.zeros(N, dtype=bool)
    rows[rng.choice(N, int(share * N), replace=False)] = True
    return rows


@pytest.mark.parametrize(
    ("far", "share", "most"), [(with_cluster, 0.3, 1.02), (with_long_rows, 0.2, 1.1)]
)
def test_bad_leverage_is_left_out_of_a_fit_of_thousands_of_columns(far, share, most):
    X, coef, rng = sparse_rows(1)
    bad = chosen(rng, share)
    X = far(X, bad)
    y = X @ coef + 0.5 * rng.standard_normal(N)
    y[bad] = -y[bad] - 10.0
    model = SelfPacedRegressor(penalty=Ridge(1.0)).fit(X, y)
    oracle = PlainRidge(alpha=1.0, solver="sparse_cg").fit(X[~bad], y[~bad])
    error = np.linalg.norm(oracle.coef_ - coef)
    assert np.linalg.norm(model.coef_ - coef) < most * error
    assert np.mean(model.selected_ != bad) > 0.97


@pytest.mark.parametrize("far", [with_cluster, with_long_rows])
def test_good_rows_far_out_take_part(far):
    X, coef, rng = sparse_rows(2)
    X = far(X, chosen(rng, 0.2))
    y = X @ coef + 0.5 * rng.standard_normal(N)
    model = SelfPacedRegressor(penalty=Ridge(1.0)).fit(X, y)
    plain = PlainRidge(alpha=1.0, solver="sparse_cg").fit(X, y)
    error = np.linalg.norm(plain.coef_ - coef)
    assert np.linalg.norm(model.coef_ - coef) < 1.1 * error
    assert np.mean(model.selected_) > 0.97


def test_engines_agree_to_the_bit_where_starts_are_compared_on_all_rows():
    X, coef, rng = sparse_rows(3)
    bad = chosen(rng, 0.3)
    X = with_cluster(X, bad)
    y = np.where(bad, -15.0, X @ coef) + 0.5 * rng.standard_normal(N)
    fits = [
        SelfPacedRegressor(penalty=Ridge(1.0), engine=engine, n_batches=4).fit(X, y)
        for engine in (Inline(), Threads(2))
    ]
    assert np.array_equal(fits[0].coef_, fits[1].coef_)


def test_a_rule_depends_on_no_unit_and_leaves_half_of_the_rows_inside():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((900, 300))
    far = rng.random(900) < 0.4
    X[far, :30] += 4.0
    units = np.exp(rng.normal(size=300))
    rule, scaled = (wide_far_rule(rows[::2], rows[1::2]) for rows in (X, X * units))
    score = rule.score(X)
    np.testing.assert_allclose(scaled.score(X * units), score, rtol=1e-6)
    assert np.mean(score[far] > 1.0) > 0.99
    assert np.mean(score[~far] > 1.0) < 0.05
    assert np.mean(score > 1.0) <= 0.5


def test_long_tails_are_no_cluster():
    X, _, _ = sparse_rows(5)
    rule = wide_far_rule(X[:4000], X[4000:8000])
    assert np.mean(rule.score(X) > 1.0) < 0.02


def test_sparse_and_dense_rows_get_the_same_scores():
    rng = np.random.default_rng(6)
    X = sp.random_array((400, 200), density=0.1, rng=rng, format="csr")
    rule = wide_far_rule(X[::2], X[1::2])
    np.testing.assert_allclose(rule.score(X.toarray()), rule.score(X), rtol=1e-9)


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_rows_with_an_entry_in_the_columns_of_a_cluster_are_not_far(share):
    X, _, rng = sparse_rows(7)
    X, bad = X[:6000, :2500], rng.random(6000) < share
    X = sp.csr_array(sp.diags_array((~bad).astype(float)) @ X)
    cluster = np.zeros(2500)
    cluster[:30] = 8.0  # what most entries of these columns then are
    X = sp.csr_array(X + sp.csr_array(bad[:, None].astype(float)) @ sp.csr_array(cluster[None]))
    score = wide_far_rule(X[::2], X[1::2]).score(X)
    assert np.mean(score[bad] > 1.0) > 0.99
    assert np.mean(score[~bad] > 1.0) < 0.1


def test_a_cluster_is_noticed_by_what_it_does_to_its_own_direction(monkeypatch):
    # As if there were thousands of columns, in which the move of the whole fit is chance.
    for module in ("search", "screens"):
        monkeypatch.setattr(f"easyfirst.consensus.starts.{module}.SCREENED_FEATURES", 100)
    monkeypatch.setattr("easyfirst.consensus.starts.screens.MATTERS", np.inf)
    rng = np.random.default_rng(8)
    n, p = 3000, 300
    X = sp.random_array((n, p), density=0.05, rng=rng, format="csr", data_sampler=rng.normal)
    coef = rng.normal(size=p) / 5.0
    bad = rng.random(n) < 0.1
    shift = np.zeros(p)
    shift[:10] = 8.0
    X = sp.csr_array(X + sp.csr_array(bad[:, None].astype(float)) @ sp.csr_array(shift[None]))
    y = X @ coef + 0.3 * rng.normal(size=n)
    y[bad] = -15.0 + 0.3 * rng.normal(size=bad.sum())
    model = SelfPacedRegressor().fit(X, y)
    assert np.mean(model.selected_[bad]) < 0.01
    assert np.mean(model.selected_[~bad]) > 0.98
    monkeypatch.setattr("easyfirst.consensus.starts.screens.SURELY", np.inf)
    misled = SelfPacedRegressor().fit(X, y)
    assert np.mean(misled.selected_[bad]) > 0.5
