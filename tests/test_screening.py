"""All-or-nothing weights: the same bits with and without a memory, and few rows predicted."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from easyfirst import SelfPacedRegressor
from easyfirst.contracts import Batch, Resident
from easyfirst.local import screening
from easyfirst.local.design import Coordinates, Design
from easyfirst.local.weighing import Problem, Weighting, weigh
from easyfirst.losses import Squared
from easyfirst.regularizers import Hard, Linear
from easyfirst.schedules import Geometric
from problems import corrupted_rows

NO_INTERCEPT = Coordinates(fit_intercept=False)


def problem(coordinates=NO_INTERCEPT, regularizer=None):
    return Problem(coordinates, Squared(), regularizer or Hard())


def weighting(coef, pace):
    return Weighting(tuple(np.asarray(coef, dtype=float).tolist()), ((pace, pace),))


def walk(rng, size, steps):
    """Coefficients that wander, in steps of very different length."""
    coef = rng.normal(size=size)
    for _ in range(steps):
        coef = coef + 10.0 ** rng.uniform(-12, 0.5) * rng.normal(size=size)
        yield coef


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 300),
    p=st.integers(1, 12),
    kind=st.sampled_from(["dense", "sparse", "float32", "columns first"]),
    shifted=st.booleans(),
)
def test_the_weights_have_the_same_bits_with_and_without_a_memory(seed, n, p, kind, shifted):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * 10.0 ** rng.integers(-3, 3)
    y = X @ rng.normal(size=p) + rng.standard_t(1, size=n)
    X = {
        "dense": X,
        "sparse": sp.csr_array(X * (rng.random((n, p)) < 0.5)),
        "float32": X.astype(np.float32),
        "columns first": np.asfortranarray(X),
    }[kind]
    coordinates = Coordinates(True, shift=rng.normal(size=p) * 20) if shifted else NO_INTERCEPT
    keeps = Resident(Batch(X=X, y=y))
    for coef in walk(rng, p + shifted, 12):
        now = weighting(coef, 10.0 ** rng.uniform(-2, 2))
        forgets = Resident(Batch(X=X, y=y))
        found = weigh(keeps, now, problem(coordinates))
        np.testing.assert_array_equal(found, weigh(forgets, now, problem(coordinates)))
        residual = y - Design(X, coordinates).times(coef)
        clear = np.abs(np.square(residual) - now.single) > 1e-6 * now.single
        np.testing.assert_array_equal(found[clear], (np.square(residual) < now.single)[clear])


@given(seed=st.integers(0, 10_000), n=st.integers(2, 200))
def test_rows_on_the_threshold_are_out_wherever_they_stand(seed, n):
    rng = np.random.default_rng(seed)
    X, coef = rng.integers(-3, 4, size=(n, 7)).astype(float), np.arange(7.0)
    y = X @ coef + rng.choice([0.0, 3.0, -3.0, 4.0], size=n)  # every loss is 0, 9 or 16
    on_it = weighting(coef, 9.0)
    order = rng.permutation(n)
    resident = Resident(Batch(X=X, y=y))
    weigh(resident, weighting(coef + 1e-3, 9.0), problem())
    found = weigh(resident, on_it, problem())
    np.testing.assert_array_equal(found, np.square(y - X @ coef) < 9.0)
    moved = weigh(Resident(Batch(X=X[order], y=y[order])), on_it, problem())
    np.testing.assert_array_equal(moved, found[order])


@given(seed=st.integers(0, 10_000), make=st.sampled_from([np.asarray, sp.csr_array]))
def test_rows_nearer_than_rounding_are_judged_alike_in_any_block(seed, make):
    rng = np.random.default_rng(seed)
    X, coef = rng.normal(size=(60, 33)), rng.normal(size=33)
    pace = 0.25
    y = X @ coef + 0.5 + rng.integers(-3, 4, size=60) * 1e-16
    X = make(X)
    whole = weigh(Resident(Batch(X=X, y=y)), weighting(coef, pace), problem())
    alone = [
        weigh(Resident(Batch(X=X[[i]], y=y[[i]])), weighting(coef, pace), problem())[0]
        for i in range(60)
    ]
    np.testing.assert_array_equal(whole, alone)


def test_few_rows_are_predicted_once_the_coefficients_hardly_move(monkeypatch):
    rng = np.random.default_rng(0)
    X, coef = rng.normal(size=(5000, 10)), np.ones(10)
    y = X @ coef + rng.normal(size=5000)
    predicted, times_of = [], Design.times_of

    def counted(self, chosen, coef):
        predicted.append(chosen.size)
        return times_of(self, chosen, coef)

    resident = Resident(Batch(X=X, y=y))
    weigh(resident, weighting(coef, 1.0), problem())
    assert predicted == []
    monkeypatch.setattr(Design, "times_of", counted)
    for k in range(1, 6):
        weigh(resident, weighting(coef + 1e-3 * k, 1.0), problem())
    assert len(predicted) == 5
    assert max(predicted) < 0.1 * len(y)
    # Five times as far from the start, yet rows that were looked at meanwhile are known from there.
    assert predicted[-1] < 3 * predicted[0]


def test_a_long_way_means_a_pass_over_all_rows(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 4)), rng.normal(size=500)
    resident = Resident(Batch(X=X, y=y))
    weigh(resident, weighting(np.zeros(4), 1.0), problem())
    monkeypatch.setattr(Design, "times_of", None)
    far = weighting(np.full(4, 9.0), 1.0)
    np.testing.assert_array_equal(
        weigh(resident, far, problem()), np.square(y - X @ np.full(4, 9.0)) < 1.0
    )


def test_wild_values_of_y_hide_no_other_row():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.normal(size=200)
    y[:3] = [1e150, -1e150, 1e75]
    resident = Resident(Batch(X=X, y=y))
    for step in (0.0, 1e-3, 2e-3):
        found = weigh(resident, weighting(np.full(3, step), 1.0), problem())
        np.testing.assert_array_equal(found, np.square(y - X @ np.full(3, step)) < 1.0)


def test_soft_weights_are_not_screened():
    assert screening.is_all_or_nothing(weighting(np.ones(2), 1.0), problem())
    assert not screening.is_all_or_nothing(
        weighting(np.ones(2), 1.0), problem(regularizer=Linear())
    )
    two = Weighting((1.0, 1.0), ((1.0, 2.0),))
    assert not screening.is_all_or_nothing(two, problem())


@pytest.mark.parametrize("solver", ["gram", "admm", "cg"])
def test_a_fit_ends_at_the_same_bits_without_any_memory(monkeypatch, solver):
    rows = corrupted_rows(n=800, p=5)
    settings = {"pace": Geometric(0.5, 1.3, 5.0), "solver": solver, "n_batches": 3}
    remembered = SelfPacedRegressor(**settings).fit(rows.X, rows.y)
    monkeypatch.setattr(Resident, "recall", lambda self, name, key, compute: compute())
    monkeypatch.setattr(Resident, "latest", lambda self, name: None)
    forgotten = SelfPacedRegressor(**settings).fit(rows.X, rows.y)
    np.testing.assert_array_equal(remembered.coef_, forgotten.coef_)
    np.testing.assert_array_equal(remembered.weights_, forgotten.weights_)
