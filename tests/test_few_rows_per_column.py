"""More columns than rows: a penalty leaves room to tell wrong rows, or a doubt says not."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.linear_model import Ridge as PlainRidge

from easyfirst import SelfPacedRegressor
from easyfirst.consensus.solvers import freedom
from easyfirst.errors import NoSingleModelWarning
from easyfirst.penalties import Lasso, Ridge


def rows_of_few_factors(n, p, seed):
    """Return rows whose columns follow eight factors, an eighth of them with a wrong y."""
    rng = np.random.default_rng(seed)
    factors, loadings = rng.standard_normal((n, 8)), rng.standard_normal((8, p))
    X = factors @ loadings + 0.5 * rng.standard_normal((n, p))
    y = 3.0 * factors[:, :3].sum(axis=1) + 0.3 * rng.standard_normal(n)
    bad = np.arange(n) < n // 8
    y[bad] += rng.choice([-1.0, 1.0], bad.sum()) * rng.uniform(10.0, 30.0, bad.sum())
    return X, y, bad


@pytest.mark.parametrize(("n", "p", "strength"), [(200, 2500, 2000.0), (100, 300, 300.0)])
@pytest.mark.parametrize("seed", [11, 12])
def test_a_ridge_fit_of_more_columns_than_rows_finds_the_wrong_ones(n, p, strength, seed):
    X, y, bad = rows_of_few_factors(n, p, seed)
    model = SelfPacedRegressor(penalty=Ridge(strength)).fit(X, y)
    assert np.array_equal(~model.selected_, bad)
    clean = PlainRidge(alpha=strength).fit(X[~bad], y[~bad])
    far = np.linalg.norm(PlainRidge(alpha=strength).fit(X, y).coef_ - clean.coef_)
    assert np.linalg.norm(model.coef_ - clean.coef_) < 0.05 * far


@pytest.mark.filterwarnings("ignore::easyfirst.errors.RankWarning")
@pytest.mark.parametrize(
    ("penalty", "p"),
    [(None, 60), (Ridge(1e-3), 60), (Lasso(5.0), 60), (None, 4000), (Ridge(1e-3), 4000)],
)
def test_a_doubt_says_that_wrong_rows_cannot_be_told(penalty, p):
    X, y, _ = rows_of_few_factors(30, p, 13)
    with pytest.warns(NoSingleModelWarning, match="too few to tell wrong ones"):
        model = SelfPacedRegressor(penalty=penalty).fit(X, y)
    assert any("too few to tell wrong ones" in doubt for doubt in model.doubts_)
    assert np.all(model.selected_)


def test_what_a_penalty_leaves_free_is_estimated_without_matrices(monkeypatch):
    X, y, _ = rows_of_few_factors(150, 400, 14)
    counted = []
    count = freedom.effective_coefficients

    def noted(*args):
        counted.append(count(*args))
        return counted[-1]

    monkeypatch.setattr("easyfirst.consensus.model.effective_coefficients", noted)
    for most in (1_000, 0):
        monkeypatch.setattr(freedom, "LARGEST_EXACT", most)
        SelfPacedRegressor(penalty=Ridge(300.0)).fit(X, y)
    centred = X - X.mean(axis=0)
    values = np.linalg.svd(centred, compute_uv=False) ** 2
    exact = np.sum(values / (values + 300.0)) + 1.0
    assert counted[0] == pytest.approx(exact, abs=1.5)
    assert counted[1] == pytest.approx(exact, rel=0.15)


def few_rows(n, p, n_wrong, seed):
    """Normal rows and noise, of which the first are off by 15 to 30 noise widths."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    coef = rng.normal(size=p)
    y = X @ coef + rng.normal(size=n)
    y[:n_wrong] += rng.uniform(15, 30, n_wrong) * rng.choice([-1, 1], n_wrong)
    return X, y, coef


@pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")
@pytest.mark.parametrize(("n", "p", "n_wrong"), [(40, 20, 3), (36, 20, 2), (16, 7, 1)])
def test_gross_rows_are_set_aside_of_fewer_than_two_per_coefficient(n, p, n_wrong):
    errors = {"ours": [], "least squares": [], "clean rows": []}
    for seed in range(8):
        X, y, coef = few_rows(n, p, n_wrong, seed)
        model = SelfPacedRegressor().fit(X, y)
        fits = {
            "ours": model,
            "least squares": LinearRegression().fit(X, y),
            "clean rows": LinearRegression().fit(X[n_wrong:], y[n_wrong:]),
        }
        for name, fit in fits.items():
            errors[name].append(np.linalg.norm(fit.coef_ - coef))
        assert any("too few to tell wrong ones" in doubt for doubt in model.doubts_)
    ours, all_rows, clean = (np.mean(errors[name]) for name in errors)
    assert ours < 0.5 * all_rows
    assert ours < 1.6 * clean


@pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")
@pytest.mark.parametrize(("n", "p"), [(40, 20), (30, 20), (16, 7), (12, 5)])
def test_good_rows_are_kept_of_fewer_than_two_per_coefficient(n, p):
    kept = [SelfPacedRegressor().fit(*few_rows(n, p, 0, seed)[:2]).selected_ for seed in range(25)]
    assert np.sum(np.all(kept, axis=1)) >= 24  # one sample of a hundred may fail by chance
