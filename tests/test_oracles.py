"""The estimator against answers that are known: pooled fits, scikit-learn, symmetries."""

import math

import numpy as np
import pytest
import sklearn.linear_model as sk

from easyfirst import SelfPacedRegressor
from easyfirst.penalties import Ridge
from easyfirst.regularizers import Hard, Linear, SelfPacedRegularizer
from easyfirst.schedules import Constant, Geometric, Quantile
from problems import corrupted_rows, ladder, least_squares, members, pooled_self_paced, solution

EVERY_ROW = Constant(math.inf)
PACE = Geometric(start=0.2, factor=1.5, ceiling=4.0)
both_solvers = pytest.mark.parametrize("solver", ["admm", "gram"])
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])


def hard(losses, pace):
    return (losses < pace).astype(float)


def linear(losses, pace):
    return np.maximum(0.0, 1.0 - losses / pace)


@pytest.mark.parametrize("n_batches", [1, 4, 10, 50])
@both_solvers
@pytest.mark.parametrize(
    ("regularizer", "rule"), [(Hard(), hard), (Linear(), linear)], ids=["hard", "linear"]
)
@pytest.mark.parametrize("strength", [0.0, 1.0])
def test_every_split_and_solver_equals_pooled_self_paced_learning(
    n_batches, solver, regularizer, rule, strength
):
    rows = corrupted_rows(n=1000, p=3, share=0.3, noise=0.5)
    coef, weights = pooled_self_paced(
        rows.X, rows.y, ladder(PACE.start, PACE.factor, PACE.ceiling), rule, strength
    )
    model = SelfPacedRegressor(
        pace=PACE,
        regularizer=regularizer,
        penalty=Ridge(strength),
        solver=solver,
        n_batches=n_batches,
        polish=False,
        tol=1e-10,
    ).fit(rows.X, rows.y)
    assert model.status_.code == "converged"
    np.testing.assert_allclose(solution(model), coef, rtol=1e-6)
    losses = (rows.y - model.predict(rows.X)) ** 2
    doubtful = np.abs(losses - PACE.ceiling) < 1e-6
    np.testing.assert_allclose(model.weights_[~doubtful], weights[~doubtful], atol=1e-6)
    assert 0 < (weights > 0).sum() < rows.y.size
    assert len(model.history_.rounds[-1].batch_selected_share) == n_batches


@both_solvers
@with_and_without_intercept
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("polish", ["auto", False])
def test_an_infinite_pace_and_ridge_equal_scikit_learns_ridge(
    solver, fit_intercept, weighted, polish
):
    rows = corrupted_rows(n=300, p=5)
    sample_weight = np.random.default_rng(1).uniform(0.1, 3.0, 300) if weighted else None
    model = SelfPacedRegressor(
        pace=EVERY_ROW,
        penalty=Ridge(1.0),
        solver=solver,
        n_batches=6,
        fit_intercept=fit_intercept,
        polish=polish,
        tol=1e-9,
    ).fit(rows.X, rows.y, sample_weight=sample_weight)
    other = sk.Ridge(alpha=1.0, fit_intercept=fit_intercept).fit(
        rows.X, rows.y, sample_weight=sample_weight
    )
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-8)
    np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=1e-8)
    assert np.all(model.weights_ == 1)
    assert np.all(model.selected_)


@both_solvers
@with_and_without_intercept
def test_an_infinite_pace_without_penalty_equals_least_squares(solver, fit_intercept):
    rows = corrupted_rows(n=300, p=5)
    model = SelfPacedRegressor(
        pace=EVERY_ROW, solver=solver, n_batches=6, fit_intercept=fit_intercept
    ).fit(rows.X, rows.y)
    expected = least_squares(rows.X, rows.y, np.ones(300), fit_intercept=fit_intercept)
    np.testing.assert_allclose(solution(model), expected, rtol=1e-8)


@pytest.mark.parametrize("regularizer", [cls() for cls in members(SelfPacedRegularizer)], ids=repr)
def test_an_infinite_pace_gives_every_row_full_weight_under_every_rule(regularizer):
    rows = corrupted_rows(n=100, p=3)
    model = SelfPacedRegressor(pace=EVERY_ROW, regularizer=regularizer).fit(rows.X, rows.y)
    np.testing.assert_allclose(
        solution(model), least_squares(rows.X, rows.y, np.ones(100)), rtol=1e-9
    )
    assert np.all(model.weights_ == 1)


@pytest.mark.parametrize("regularizer", [cls() for cls in members(SelfPacedRegularizer)], ids=repr)
def test_every_rule_finds_the_corrupted_rows(regularizer):
    rows = corrupted_rows(n=400, p=3, share=0.3)
    model = SelfPacedRegressor(
        pace=Geometric(0.1, 1.3, 1.0), regularizer=regularizer, n_batches=4
    ).fit(rows.X, rows.y)
    np.testing.assert_array_equal(model.selected_, rows.clean)
    assert np.linalg.norm(model.coef_ - rows.coef) < 0.05


def test_one_batch_by_admm_is_plain_self_paced_learning():
    rows = corrupted_rows(n=200, p=4)
    coef, weights = pooled_self_paced(
        rows.X, rows.y, ladder(PACE.start, PACE.factor, PACE.ceiling), hard
    )
    model = SelfPacedRegressor(pace=PACE, solver="admm", n_batches=1).fit(rows.X, rows.y)
    np.testing.assert_allclose(solution(model), coef, rtol=1e-9)
    np.testing.assert_array_equal(model.weights_, weights)


@pytest.mark.parametrize(
    "changes",
    [
        {"rho": "adaptive"},
        {"rho": 300.0},
        {"over_relaxation": 1.6},
        {"over_relaxation": 0.7},
        {"weights_from": "batch"},
        {"update_weights": "iteration"},
        {"update_weights": "iteration", "weights_from": "batch"},
    ],
    ids=str,
)
def test_every_way_to_consensus_ends_in_the_same_fit(changes):
    rows = corrupted_rows(n=600, p=3)
    settings = {"pace": PACE, "n_batches": 5, "polish": False, "tol": 1e-8}
    expected = SelfPacedRegressor(**settings, solver="gram").fit(rows.X, rows.y)
    model = SelfPacedRegressor(**settings, solver="admm", **changes).fit(rows.X, rows.y)
    assert model.status_.code == "converged"
    assert model.n_iter_ > model.n_rounds_
    np.testing.assert_allclose(solution(model), solution(expected), rtol=1e-6)
    np.testing.assert_array_equal(model.weights_, expected.weights_)


@both_solvers
@pytest.mark.parametrize("pace", [PACE, Quantile(0.4, 0.7, 0.1)], ids=repr)
def test_permuting_rows_within_batches_changes_nothing(solver, pace):
    rows = corrupted_rows(n=400, p=3)
    batches = np.repeat(np.arange(8), 50)
    order = np.concatenate([50 * i + np.random.default_rng(i).permutation(50) for i in range(8)])
    model = SelfPacedRegressor(pace=pace, solver=solver)
    expected = model.fit(rows.X, rows.y, batches=batches)
    coef, weights = solution(expected), expected.weights_
    model.fit(rows.X[order], rows.y[order], batches=batches)
    np.testing.assert_allclose(solution(model), coef, rtol=1e-10)
    np.testing.assert_array_equal(model.weights_, weights[order])


@both_solvers
@pytest.mark.parametrize("pace", [PACE, Quantile(0.4, 0.7, 0.1)], ids=repr)
def test_permuting_batches_changes_nothing(solver, pace):
    rows = corrupted_rows(n=400, p=3)
    batches = np.repeat(np.arange(8), 50)
    renamed = np.random.default_rng(0).permutation(8)[batches]
    model = SelfPacedRegressor(pace=pace, solver=solver)
    coef = solution(model.fit(rows.X, rows.y, batches=batches))
    weights = model.weights_
    model.fit(rows.X, rows.y, batches=renamed)
    np.testing.assert_allclose(solution(model), coef, rtol=1e-10)
    np.testing.assert_array_equal(model.weights_, weights)


def test_scattered_batch_ids_return_weights_in_row_order():
    rows = corrupted_rows(n=200, p=3)
    scattered = np.random.default_rng(0).choice(["north", "south", "west"], size=200)
    model = SelfPacedRegressor(pace=PACE).fit(rows.X, rows.y, batches=scattered)
    np.testing.assert_array_equal(model.selected_, rows.clean)
    shares = model.history_.rounds[-1].batch_selected_share
    for share, name in zip(shares, ["north", "south", "west"], strict=True):
        assert share == pytest.approx(rows.clean[scattered == name].mean())


@pytest.mark.parametrize("regularizer", [cls() for cls in members(SelfPacedRegularizer)], ids=repr)
@both_solvers
@pytest.mark.parametrize("factor", [1e-3, 1024.0])
def test_scaling_y_and_the_pace_scales_the_coefficients(regularizer, solver, factor):
    rows = corrupted_rows(n=200, p=3)
    square = factor**2
    settings = {"regularizer": regularizer, "solver": solver, "n_batches": 4}
    small = SelfPacedRegressor(pace=Geometric(0.2, 1.5, 4.0), **settings).fit(rows.X, rows.y)
    large = SelfPacedRegressor(pace=Geometric(0.2 * square, 1.5, 4.0 * square), **settings).fit(
        rows.X, factor * rows.y
    )
    np.testing.assert_allclose(solution(large), factor * solution(small), rtol=1e-8)
    np.testing.assert_allclose(large.weights_, small.weights_, atol=1e-8)


def test_a_quantile_pace_needs_no_scaling():
    rows = corrupted_rows(n=200, p=3)
    model = SelfPacedRegressor(pace=Quantile(0.4, 0.7, 0.1))
    coef, weights = solution(model.fit(rows.X, rows.y)), model.weights_
    model.fit(rows.X, 1e6 * rows.y)
    np.testing.assert_allclose(solution(model), 1e6 * coef, rtol=1e-9)
    np.testing.assert_array_equal(model.weights_, weights)


@both_solvers
def test_scaling_columns_scales_their_coefficients_and_keeps_the_weights(solver):
    rows = corrupted_rows(n=200, p=3)
    scale = np.array([1e-6, 1.0, 1e5])
    model = SelfPacedRegressor(pace=PACE, solver=solver, n_batches=4)
    coef, weights = model.fit(rows.X, rows.y).coef_, model.weights_
    model.fit(rows.X * scale, rows.y)
    np.testing.assert_allclose(model.coef_, coef / scale, rtol=1e-9)
    np.testing.assert_array_equal(model.weights_, weights)


def test_adding_a_linear_function_to_y_adds_its_coefficients():
    rows = corrupted_rows(n=200, p=3)
    model = SelfPacedRegressor(pace=PACE)
    coef, weights = solution(model.fit(rows.X, rows.y)), model.weights_
    model.fit(rows.X, rows.y + rows.X @ [1.0, -2.0, 30.0] + 7.0)
    np.testing.assert_allclose(solution(model), coef + np.array([1.0, -2.0, 30.0, 7.0]), rtol=1e-9)
    np.testing.assert_array_equal(model.weights_, weights)


def test_moving_excluded_rows_further_away_changes_nothing():
    rows = corrupted_rows(n=300, p=3)
    model = SelfPacedRegressor(pace=PACE)
    coef = solution(model.fit(rows.X, rows.y))
    out = ~model.selected_
    moved = rows.y.copy()
    moved[out] += 3.0 * np.sign(rows.y - model.predict(rows.X))[out]
    model.fit(rows.X, moved)
    np.testing.assert_array_equal(model.selected_, ~out)
    np.testing.assert_allclose(solution(model), coef, rtol=1e-10)


def test_the_number_of_batches_changes_nothing_after_the_polish():
    rows = corrupted_rows(n=300, p=3)
    fits = [SelfPacedRegressor(pace=PACE, n_batches=m).fit(rows.X, rows.y) for m in (1, 2, 7, 300)]
    for other in fits[1:]:
        np.testing.assert_allclose(solution(other), solution(fits[0]), rtol=1e-10)
        np.testing.assert_array_equal(other.weights_, fits[0].weights_)


def test_the_number_of_batches_follows_from_the_number_of_rows_alone():
    X = np.random.default_rng(0).normal(size=(40_000, 1))
    model = SelfPacedRegressor(pace=EVERY_ROW, n_jobs=1).fit(X, X[:, 0])
    assert len(model.history_.rounds[-1].batch_selected_share) == 3


def test_the_papers_configuration_is_the_papers():
    params = SelfPacedRegressor.paper(n_batches=3).get_params()
    assert params["pace"] == Geometric(0.1, 1.1, 1.0)
    assert params["regularizer"] == Hard()
    assert params["penalty"] == Ridge(1.0)
    assert params["solver"] == "admm"
    assert params["weights_from"] == "batch"
    assert params["fit_intercept"] is False
    assert params["polish"] is False
    assert params["n_batches"] == 3
    assert SelfPacedRegressor.paper(penalty=None).penalty is None
