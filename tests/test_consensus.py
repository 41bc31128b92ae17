"""Consensus ADMM by itself: its steps, its fixed point, and what its Lagrangian does."""

import math
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from easyfirst import SelfPacedRegressor
from easyfirst.consensus.solvers import admm, gram
from easyfirst.consensus.solvers.admm import AdmmSettings, OnDriver
from easyfirst.consensus.solvers.rho import RhoMatrix
from easyfirst.consensus.statistics import Objective, StackedStatistics
from easyfirst.local.steps import Statistics
from easyfirst.penalties import NoPenalty, Ridge
from easyfirst.schedules import Constant, Geometric
from problems import corrupted_rows, solution

problems = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10_000),
        "m": st.integers(1, 6),
        "n": st.integers(15, 40),
        "p": st.integers(1, 4),
        "share": st.sampled_from([0.0, 0.2, 0.4]),
        "strength": st.sampled_from([0.0, 0.1, 10.0]),
        "fit_intercept": st.booleans(),
    }
)


def statistics(m=4, n=30, p=3, seed=0):
    """The statistics of m unweighted batches."""
    rng = np.random.default_rng(seed)
    replies = []
    for _ in range(m):
        X, y = rng.normal(size=(n, p)), rng.normal(size=n)
        replies.append(
            Statistics(
                gram=X.T @ X,
                rhs=X.T @ y,
                square=y @ y,
                pacing=0.0,
                weight=n,
                selected=n,
                changed=0.0,
                total=n,
            )
        )
    return StackedStatistics.stack(replies)


def iterated(state, stats, objective, settings):
    """Do one iteration on the driver."""
    batches = OnDriver(stats, objective, settings)
    pooled = admm.pooled_inverse(stats, objective, state.rho)
    return admm.iterate(state, batches, pooled, objective, settings)


def solved(stats, objective, settings, start=None):
    """Iterate on the driver until the batches agree."""
    batches = OnDriver(stats, objective, settings)
    return admm.solve(batches, stats, objective, settings, start, round_number=0)


def fit(problem, **settings):
    rows = corrupted_rows(
        problem["m"] * problem["n"],
        problem["p"],
        share=problem["share"],
        noise=0.5,
        seed=problem["seed"],
    )
    model = SelfPacedRegressor(
        pace=Geometric(1.0, 2.0, 5.0),
        penalty=Ridge(problem["strength"]),
        solver="admm",
        admm_on="driver",
        n_batches=problem["m"],
        fit_intercept=problem["fit_intercept"],
        **settings,
    )
    return rows, model.fit(rows.X, rows.y)


def design(rows, model):
    ones = np.ones((len(rows.y), 1))
    return np.hstack([rows.X, ones]) if model.fit_intercept else rows.X


@pytest.mark.parametrize("is_matrix", [False, True])
@pytest.mark.parametrize("over_relaxation", [0.5, 1.0, 1.7])
def test_the_local_step_solves_its_subproblem(over_relaxation, is_matrix):
    stats, objective = statistics(), Objective(Ridge(2.0), False)
    rng = np.random.default_rng(1)
    root = rng.normal(size=(3, 3))
    rho = 7.0 * np.eye(3) + (root @ root.T if is_matrix else 0.0)
    settings = AdmmSettings(7.0, over_relaxation)
    state = admm.State.at(
        z=rng.normal(size=3),
        coefs=rng.normal(size=(4, 3)),
        duals=rng.normal(size=(4, 3)),
        rho=RhoMatrix(rho if is_matrix else np.full(3, 7.0)),
    )
    after = iterated(state, stats, objective, settings)
    # Over-relaxation pulls each batch to a mixture of the consensus and its last coefficients.
    targets = over_relaxation * after.z + (1 - over_relaxation) * state.coefs
    for i in range(4):
        w = after.coefs[i]
        slope = 2 * (stats.gram[i] @ w - stats.rhs[i]) + state.duals[i] + rho @ (w - targets[i])
        np.testing.assert_allclose(slope, 0.0, atol=1e-10)
        # The multiplier then cancels the batch's own gradient, as the paper's proof needs.
        np.testing.assert_allclose(
            after.duals[i], -2 * (stats.gram[i] @ w - stats.rhs[i]), atol=1e-10
        )
    np.testing.assert_allclose(after.duals, state.duals + (after.coefs - targets) @ rho)
    points = state.coefs @ rho + state.duals
    # The paper's equation for z with its strength of one: rho / (2 strength + rho m) sum(points).
    system = 2 * 2.0 * np.eye(3) + 4 * rho
    np.testing.assert_allclose(after.z, np.linalg.solve(system, points.sum(axis=0)))


def test_batches_are_inverted_as_far_as_they_can_be():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 6)) * 10.0 ** np.arange(-3, 3)
    whole = rows.T @ rows
    np.testing.assert_allclose(admm._inverse(whole) @ whole, np.eye(6), atol=1e-6)
    assert np.array_equal(admm._inverse(whole), admm._inverse(whole).T)
    flat = np.zeros((3, 3))
    flat[:2, :2] = [[2.0, 1.0], [1.0, 2.0]]
    np.testing.assert_allclose(admm._inverse(flat), np.linalg.pinv(flat), atol=1e-12)


def test_an_enormous_rho_returns_the_center():
    stats, settings = statistics(), AdmmSettings(rho=1e9)
    objective = Objective(NoPenalty(), False)
    rho = admm.choose_rho(stats, objective, settings)
    state = admm.State.at(np.zeros(3), np.full((4, 3), 0.5), np.zeros((4, 3)), rho)
    after = iterated(state, stats, objective, settings)
    np.testing.assert_allclose(after.z, 0.5)
    np.testing.assert_allclose(after.coefs, 0.5, atol=1e-6)


@pytest.mark.parametrize("rho", ["auto", "adaptive", 50.0])
@pytest.mark.parametrize("over_relaxation", [0.8, 1.0, 1.6])
def test_the_fixed_point_satisfies_the_optimality_conditions(rho, over_relaxation):
    stats, objective = statistics(), Objective(Ridge(2.0), False)
    settings = AdmmSettings(rho, over_relaxation, max_iter=2000, tol=1e-11)
    found = solved(stats, objective, settings)
    assert found.agreed
    np.testing.assert_allclose(found.coefs, np.tile(found.z, (4, 1)), atol=1e-8)
    np.testing.assert_allclose(found.duals.sum(axis=0), 2 * 2.0 * found.z, atol=1e-7)
    np.testing.assert_allclose(found.z, gram.solve(stats, objective).z, rtol=1e-7)


def test_a_warm_start_at_the_solution_agrees_at_once():
    stats, objective, settings = statistics(), Objective(NoPenalty(), False), AdmmSettings()
    found = solved(stats, objective, settings)
    again = solved(stats, objective, settings, found)
    assert len(found.iterations) > 3
    assert len(again.iterations) == 1


def test_an_adaptive_rho_moves_from_a_bad_start_and_a_fixed_one_never():
    rows = corrupted_rows(n=400, p=3)
    settings = {"pace": Constant(math.inf), "solver": "admm", "n_batches": 4}
    fixed = SelfPacedRegressor(rho=123.0, **settings).fit(rows.X, rows.y)
    np.testing.assert_allclose([record.rho for record in fixed.history_.iterations], 123.0)
    stats = statistics()
    rho = admm.choose_rho(stats, Objective(NoPenalty(), False), AdmmSettings())
    state = admm.initial_state(stats, rho, None)
    apart = admm.State.at(state.z, state.coefs + 1.0, state.duals, state.rho)
    moved = admm.State.at(state.z + 1.0, state.coefs + 1.0, state.duals, state.rho)
    assert admm.rebalance(apart, apart) == 2.0
    assert admm.rebalance(state, moved) == 0.5


def test_correlated_columns_take_hardly_more_iterations():
    rows = corrupted_rows(n=600, p=8)
    mixed = rows.X @ np.random.default_rng(0).normal(size=(8, 8))
    mixed[:, 0] = mixed[:, 1] + 1e-3 * mixed[:, 0]
    assert np.linalg.cond(mixed) > 1e4
    settings = {"pace": Geometric(1.0, 2.0, 5.0), "solver": "admm", "n_batches": 4}
    settings["admm_on"] = "driver"
    plain = SelfPacedRegressor(polish=False, **settings).fit(rows.X, rows.y)
    model = SelfPacedRegressor(polish=False, **settings).fit(mixed, rows.y)
    assert model.status_.code == "converged"
    assert model.n_iter_ <= 1.5 * plain.n_iter_
    np.testing.assert_allclose(model.predict(mixed), plain.predict(rows.X), atol=1e-6)


def test_columns_that_the_rows_do_not_determine_are_pulled_each_on_its_own():
    stats, objective = statistics(), Objective(NoPenalty(), False)
    assert not admm.choose_rho(stats, objective, AdmmSettings()).is_diagonal
    alone = AdmmSettings(follows_correlation=False)
    assert admm.choose_rho(stats, objective, alone).is_diagonal
    twice = np.repeat(np.eye(3), 2, axis=1)  # every column twice
    open_ended = replace(
        stats, pooled_gram=twice.T @ stats.pooled_gram @ twice, pooled_rhs=np.zeros(6)
    )
    assert admm.choose_rho(open_ended, objective, AdmmSettings()).is_diagonal
    # A quadratic penalty determines them; another one leaves no linear system for z.
    assert not admm.choose_rho(open_ended, Objective(Ridge(1.0), False), AdmmSettings()).is_diagonal


@pytest.mark.parametrize("seed", range(2, 6))
def test_weights_of_every_iteration_let_nothing_run_away(seed):
    rng = np.random.default_rng(seed)
    X, coef = rng.normal(size=(300, 6)), rng.normal(size=6)
    y = X @ coef + 0.1 * rng.normal(size=300)
    bad = rng.random(300) < 0.4
    y[bad] += rng.uniform(-20, 20, size=bad.sum())
    model = SelfPacedRegressor(
        pace=Geometric(0.2, 1.5, 4.0),
        solver="admm",
        update_weights="iteration",
        weights_from="batch",
        n_batches=5,
    ).fit(X, y)
    assert model.status_.code == "converged"
    np.testing.assert_allclose(model.coef_, coef, atol=0.2)


def test_automatic_over_relaxation_is_for_weights_that_stay():
    rows = corrupted_rows(n=400, p=3)
    settings = {"pace": Geometric(1.0, 2.0, 5.0), "solver": "admm", "n_batches": 4}
    settings["admm_on"] = "driver"

    def iterations(**more):
        return SelfPacedRegressor(**settings, **more).fit(rows.X, rows.y).history_.iterations

    def path(records):
        return [(record.primal_residual, record.lagrangian) for record in records]

    assert path(iterations()) == path(iterations(over_relaxation=1.6))
    assert path(iterations()) != path(iterations(over_relaxation=1.0))
    again = {"update_weights": "iteration"}
    assert path(iterations(**again)) == path(iterations(over_relaxation=1.0, **again))


@pytest.mark.parametrize("strength", [0.0, 1.0])
def test_the_point_of_consensus_found_at_once_is_the_one_that_iterations_lead_to(strength):
    rows = corrupted_rows(n=800, p=6, share=0.3, noise=0.2)
    settings = {"penalty": Ridge(strength), "n_batches": 5}
    at_once = SelfPacedRegressor.paper(**settings).fit(rows.X, rows.y)
    step_by_step = SelfPacedRegressor.paper(**settings, admm_on="driver").fit(rows.X, rows.y)
    np.testing.assert_allclose(at_once.coef_, step_by_step.coef_, atol=1e-7)
    np.testing.assert_array_equal(at_once.weights_, step_by_step.weights_)
    rounds = at_once.history_.rounds
    assert [record.iterations for record in rounds] == [1] * len(rounds)
    assert step_by_step.n_iter_ > 3 * at_once.n_iter_
    for ours, theirs in zip(rounds, step_by_step.history_.rounds, strict=True):
        assert ours.kkt_residual <= 1e-12
        assert ours.rho == pytest.approx(theirs.rho, rel=1e-6)
        assert ours.lagrangian == pytest.approx(theirs.lagrangian, rel=1e-6)


@pytest.mark.parametrize("asked", [{"rho": 50.0}, {"over_relaxation": 1.2}, {"admm_on": "driver"}])
def test_who_asks_for_iterations_gets_them(asked):
    rows = corrupted_rows(n=800, p=6, share=0.3, noise=0.2)
    model = SelfPacedRegressor.paper(n_batches=5, **asked).fit(rows.X, rows.y)
    assert len(model.history_.iterations) > 2 * len(model.history_.rounds)


@given(problems)
def test_the_kkt_residual_ends_below_the_tolerance(problem):
    rows, model = fit(problem, polish=False, tol=1e-6)
    assert model.status_.code == "converged"
    assert model.history_.rounds[-1].kkt_residual <= 1e-8
    # The same from the rows, not from what the fit recorded.
    matrix, v, coef = design(rows, model), model.weights_, solution(model)
    gradient = 2 * matrix.T @ (v * (matrix @ coef - rows.y))
    gradient[: problem["p"]] += 2 * problem["strength"] * model.coef_
    scale = 2 * np.sqrt(np.sum(v[:, None] * matrix**2, axis=0) * np.sum(v * rows.y**2))
    assert np.max(np.abs(gradient) / scale) <= 1.1e-8


@given(problems)
def test_the_polish_leaves_no_gradient(problem):
    rows, model = fit(problem)
    matrix, v, coef = design(rows, model), model.weights_, solution(model)
    gradient = matrix.T @ (v * (matrix @ coef - rows.y))
    gradient[: problem["p"]] += problem["strength"] * model.coef_
    scale = np.sqrt(np.sum(v[:, None] * matrix**2, axis=0) * np.sum(v * rows.y**2))
    assert np.max(np.abs(gradient) / scale) <= 1e-13


@given(problems)
def test_the_last_weights_minimise_the_objective_at_the_last_coefficients(problem):
    rows, model = fit(problem, tol=1e-8)
    losses = (rows.y - model.predict(rows.X)) ** 2
    doubtful = np.abs(losses - model.pace_) < 1e-6
    np.testing.assert_array_equal(
        model.weights_[~doubtful], (losses < model.pace_)[~doubtful].astype(float)
    )


def rises(model, scale):
    """By how much the Lagrangian rises between iterations of one round, at most."""
    worst = -np.inf
    records = model.history_.iterations
    for before, after in pairwise(records):
        if before.round == after.round:
            worst = max(worst, (after.lagrangian - before.lagrangian) / scale)
    return worst


def rho_bound(rows, problem):
    """A rho with rho * gamma(rho) > 2 * phi**2 for any weights up to one.

    phi = 2 * lambda_max(D'VD) bounds how fast a batch's gradient turns, and the local problem
    is strongly convex with gamma = 2 * lambda_min(D'VD) + rho >= rho.
    """
    ones = np.ones((len(rows.y), int(problem["fit_intercept"])))
    batches = np.array_split(np.hstack([rows.X, ones]), problem["m"])
    phi = max(2 * np.linalg.norm(part, 2) ** 2 for part in batches)
    return 1.01 * math.sqrt(2.0) * phi


@given(problems)
def test_above_the_bound_the_lagrangian_never_rises_from_the_second_iteration(problem):
    rows = corrupted_rows(
        problem["m"] * problem["n"], problem["p"], share=problem["share"], noise=0.5,
        seed=problem["seed"],
    )  # fmt: skip
    with warnings.catch_warnings():
        # Such a large rho is slow; the statement is about every iteration, not about the last.
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, model = fit(problem, rho=rho_bound(rows, problem), max_iter=60, max_rounds=8)
    assert len(model.history_.iterations) > len(model.history_.rounds)
    assert rises(model, np.sum(rows.y**2)) <= 1e-13


def test_below_the_bound_the_lagrangian_can_rise():
    problem = {
        "seed": 0, "m": 5, "n": 40, "p": 3, "share": 0.4, "strength": 1.0, "fit_intercept": False,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        rows, model = fit(problem, rho=1.0, max_iter=60, max_rounds=8)
    assert rises(model, np.sum(rows.y**2)) > 1e-3
