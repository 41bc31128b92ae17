"""scikit-learn's own checks, without a single expected failure, and its tools around us."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from easyfirst import SelfPacedRegressor
from easyfirst.engines import Inline, Threads
from easyfirst.penalties import Ridge
from easyfirst.regularizers import Entropic, Linear
from easyfirst.schedules import Geometric, Quantile
from problems import Spy, corrupted_rows, solution

CONFIGURATIONS = [
    SelfPacedRegressor(),
    # The paper's pace is an absolute number; this one covers the scales of the checks' data.
    SelfPacedRegressor.paper(pace=Geometric(1e3, 10.0, 1e6)),
    # Limits, because the checks' data has more columns than rows and keeps ADMM busy for long.
    SelfPacedRegressor(pace=Quantile(), solver="admm", max_iter=100, max_rounds=30),
    SelfPacedRegressor(pace=Quantile(), engine="inline", fit_intercept=False),
    SelfPacedRegressor(pace=Quantile(0.5, 0.9, 0.1), regularizer=Linear(), engine=Inline()),
    SelfPacedRegressor(
        pace=Geometric(1e2, 10.0, 1e4), regularizer=Entropic(), penalty=Ridge(0.1), n_batches=1
    ),
    SelfPacedRegressor(
        pace=Quantile(),
        solver="admm",
        update_weights="iteration",
        weights_from="batch",
        max_iter=50,
        max_rounds=30,
    ),
]

PACE = Geometric(start=0.2, factor=1.5, ceiling=4.0)


# The checks fit single rows, constant columns and noise, on purpose, and do not mind being told.
@pytest.mark.filterwarnings("ignore::easyfirst.errors.RankWarning")
@pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(CONFIGURATIONS)
def test_scikit_learns_check_passes(estimator, check):
    check(estimator)


def test_a_grid_search_really_changes_the_fit():
    rows = corrupted_rows(n=300, p=3, share=0.2)
    grid = {"pace": [Quantile(0.05, 0.1, 0.05), Quantile(0.5, 0.75)], "penalty": [None, Ridge(1e4)]}
    search = GridSearchCV(
        SelfPacedRegressor(), grid, cv=3, scoring="neg_median_absolute_error"
    ).fit(rows.X, rows.y)
    assert np.unique(search.cv_results_["mean_test_score"]).size == 4
    assert search.best_params_ == {"pace": Quantile(0.5, 0.75), "penalty": None}
    assert np.linalg.norm(search.best_estimator_.coef_ - rows.coef) < 0.05


def test_a_pipeline_fits_predicts_and_scores():
    rows = corrupted_rows(n=300, p=3)
    model = make_pipeline(StandardScaler(), SelfPacedRegressor(pace=PACE)).fit(
        100 * rows.X + 7, rows.y
    )
    np.testing.assert_array_equal(model[-1].selected_, rows.clean)
    assert model.score(100 * rows.X[rows.clean] + 7, rows.y[rows.clean]) > 0.99
    scores = cross_val_score(model, rows.X[rows.clean], rows.y[rows.clean], cv=3)
    assert scores.min() > 0.98


def test_a_clone_has_equal_parameters_and_no_fit():
    rows = corrupted_rows(n=100, p=2)
    model = SelfPacedRegressor(pace=PACE, regularizer=Linear(), n_batches=3, engine=Threads(2))
    model.fit(rows.X, rows.y)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(rows.X)
    np.testing.assert_array_equal(copy.fit(rows.X, rows.y).coef_, model.coef_)


def test_parameters_can_be_read_and_set():
    model = SelfPacedRegressor(pace=PACE)
    assert set(model.get_params(deep=False)) == {
        "pace", "regularizer", "loss", "penalty", "target_transform", "solver", "admm_on", "rho",
        "over_relaxation", "n_batches", "weights_from", "update_weights", "fit_intercept",
        "center", "max_rounds", "max_iter", "tol", "polish", "engine", "n_jobs", "random_state",
        "callbacks", "verbose",
    }  # fmt: skip
    assert model.set_params(pace=Quantile(), solver="admm").pace == Quantile()
    assert model.get_params()["solver"] == "admm"
    with pytest.raises(ValueError, match="Invalid parameter 'lambda_'"):
        model.set_params(lambda_=1.0)


def test_the_html_repr_names_the_estimator_and_its_parameters():
    html = SelfPacedRegressor(pace=Quantile(0.25, 0.5))._repr_html_()
    assert "SelfPacedRegressor" in html
    assert "Quantile(start=0.25, end=0.5, step=0.05)" in html


def test_sample_weight_and_batches_are_routed_through_a_pipeline():
    rows = corrupted_rows(n=200, p=3)
    rng = np.random.default_rng(0)
    weight, batches = rng.integers(0, 3, 200).astype(float), rng.integers(0, 5, 200)
    direct = SelfPacedRegressor(pace=PACE).fit(
        rows.X, rows.y, sample_weight=weight, batches=batches
    )
    with sklearn.config_context(enable_metadata_routing=True):
        model = SelfPacedRegressor(pace=PACE).set_fit_request(sample_weight=True, batches=True)
        pipeline = make_pipeline(
            StandardScaler(with_mean=False, with_std=False).set_fit_request(sample_weight=False),
            model,
        )
        pipeline.fit(rows.X, rows.y, sample_weight=weight, batches=batches)
    np.testing.assert_array_equal(pipeline[-1].coef_, direct.coef_)
    np.testing.assert_array_equal(pipeline[-1].weights_, direct.weights_)
    assert len(pipeline[-1].history_.rounds[-1].batch_selected_share) == 5


def test_batches_are_routed_through_a_grid_search_and_cut_with_the_folds():
    rows = corrupted_rows(n=200, p=3)
    batches = np.arange(200) % 4
    with sklearn.config_context(enable_metadata_routing=True):
        model = SelfPacedRegressor(pace=PACE).set_fit_request(batches=True)
        search = GridSearchCV(model, {"penalty": [None, Ridge(1.0)]}, cv=4)
        search.fit(rows.X, rows.y, batches=batches)
    assert len(search.best_estimator_.history_.rounds[-1].batch_selected_share) == 4
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))


def test_batches_that_nobody_asked_for_are_refused_by_the_router():
    rows = corrupted_rows(n=40, p=2)
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(SelfPacedRegressor(pace=PACE), {"penalty": [None]}, cv=2)
        with pytest.raises(UnsetMetadataPassedError, match="batches"):
            search.fit(rows.X, rows.y, batches=np.zeros(40))


@pytest.mark.parametrize(
    "container", [np.asarray, sp.csr_array, sp.csc_matrix], ids=lambda c: c.__name__
)
@pytest.mark.parametrize("solver", ["gram", "admm"])
@pytest.mark.parametrize("pace", [PACE, Quantile(0.4, 0.8, 0.1)], ids=repr)
@pytest.mark.parametrize("regularizer", [None, Entropic()], ids=repr)
def test_weight_zero_is_no_row_and_weight_two_is_the_row_twice(
    container, solver, pace, regularizer
):  # fmt: skip
    rows = corrupted_rows(n=150, p=3)
    rows.X[np.abs(rows.X) < 0.5] = 0.0
    weight = np.random.default_rng(1).integers(0, 4, size=150)
    settings = {"pace": pace, "regularizer": regularizer, "solver": solver, "tol": 1e-10}
    weighted = SelfPacedRegressor(**settings).fit(
        container(rows.X), rows.y, sample_weight=weight.astype(float)
    )
    order = np.repeat(np.arange(150), weight)
    repeated = SelfPacedRegressor(**settings).fit(container(rows.X[order]), rows.y[order])
    np.testing.assert_allclose(solution(weighted), solution(repeated), rtol=1e-9)
    np.testing.assert_allclose(weighted.weights_[order], repeated.weights_, atol=1e-9)
    np.testing.assert_allclose(weighted.pace_, repeated.pace_, rtol=1e-9)


def test_scaling_all_sample_weights_changes_nothing():
    rows = corrupted_rows(n=150, p=3)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=150)
    model = SelfPacedRegressor(pace=Quantile(0.4, 0.8, 0.1))
    coef = solution(model.fit(rows.X, rows.y, sample_weight=weight))
    model.fit(rows.X, rows.y, sample_weight=1e5 * weight)
    np.testing.assert_allclose(solution(model), coef, rtol=1e-9)


def test_counts_are_sums_of_sample_weights():
    rows = corrupted_rows(n=150, p=3)
    weight = np.random.default_rng(1).integers(0, 4, size=150).astype(float)
    model = SelfPacedRegressor(pace=PACE).fit(rows.X, rows.y, sample_weight=weight)
    assert model.history_.rounds[-1].selected == weight[model.selected_].sum()
    assert model.history_.rounds[0].selected == weight.sum()


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_float32_stays_float32_in_storage_and_is_summed_in_float64(container):
    rows = corrupted_rows(n=3000, p=5)
    narrow = rows.X.astype(np.float32)
    spy = Spy()
    # Soft weights show every digit of the predictions; hard ones would hide them.
    settings = {"pace": PACE, "regularizer": Entropic(), "n_batches": 3}
    single = SelfPacedRegressor(engine=spy, **settings).fit(container(narrow), rows.y)
    assert [batch.X.dtype for batch in spy.batches] == [np.float32] * 3
    assert {batch.y.dtype for batch in spy.batches} == {np.dtype(np.float64)}
    assert single.coef_.dtype == np.float64
    double = SelfPacedRegressor(**settings).fit(narrow.astype(np.float64), rows.y)
    np.testing.assert_allclose(solution(single), solution(double), rtol=1e-11)
    np.testing.assert_allclose(single.weights_, double.weights_, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("container", [sp.csr_array, sp.csc_array, sp.csr_matrix, sp.csc_matrix])
def test_sparse_rows_reach_the_batches_sparse(container):
    X = sp.random_array((60, 10), density=0.2, rng=np.random.default_rng(0))
    spy = Spy()
    SelfPacedRegressor(pace=Quantile(), penalty=Ridge(1.0), n_batches=2, engine=spy).fit(
        container(X), np.arange(60.0)
    )
    assert all(sp.issparse(batch.X) for batch in spy.batches)
    assert sum(batch.X.nnz for batch in spy.batches) == X.nnz


def test_dense_batches_are_views_of_the_users_rows():
    rows = corrupted_rows(n=100, p=3)
    spy = Spy()
    SelfPacedRegressor(pace=PACE, n_batches=4, engine=spy).fit(rows.X, rows.y)
    assert all(np.shares_memory(batch.X, rows.X) for batch in spy.batches)


def test_a_fit_leaves_its_inputs_alone():
    rows = corrupted_rows(n=100, p=3)
    weight = np.random.default_rng(0).uniform(size=100)
    before = [part.copy() for part in (rows.X, rows.y, weight)]
    for part in (rows.X, rows.y, weight):
        part.flags.writeable = False
    SelfPacedRegressor(pace=PACE, n_batches=4).fit(rows.X, rows.y, sample_weight=weight)
    for part, old in zip((rows.X, rows.y, weight), before, strict=True):
        np.testing.assert_array_equal(part, old)


def test_a_default_fit_finds_the_corrupted_rows_of_an_easy_problem():
    rows = corrupted_rows(n=1000, p=3, share=0.2)
    model = SelfPacedRegressor().fit(rows.X, rows.y)
    assert not np.any(model.selected_ & ~rows.clean)
    assert np.linalg.norm(model.coef_ - rows.coef) < 0.05
    assert model.status_.converged
    assert model.n_features_in_ == 3
    assert model.weights_.shape == model.selected_.shape == (1000,)
    np.testing.assert_array_equal(model.selected_, model.weights_ >= 0.5)


def test_a_second_fit_forgets_the_first():
    rows = corrupted_rows(n=100, p=3)
    other = corrupted_rows(n=150, p=2, seed=1)
    model = SelfPacedRegressor(pace=PACE).fit(rows.X, rows.y).fit(other.X, other.y)
    fresh = SelfPacedRegressor(pace=PACE).fit(other.X, other.y)
    np.testing.assert_array_equal(model.coef_, fresh.coef_)
    assert model.weights_.shape == (150,)
