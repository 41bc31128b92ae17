"""What may be given to fit, and what is said about the rest."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from easyfirst import SelfPacedRegressor
from easyfirst.errors import NoRowSelectedError, RankWarning
from easyfirst.penalties import Penalty, Ridge
from easyfirst.regularizers import Linear
from easyfirst.schedules import Constant, Geometric, Quantile
from problems import corrupted_rows, least_squares, solution

PACE = Geometric(start=0.2, factor=1.5, ceiling=4.0)
EVERY_ROW = Constant(math.inf)
NAMES = ["age", "beds", "price"]


def columns(X):
    return {name: X[:, j] for j, name in enumerate(NAMES)}


CONTAINERS = {
    "list": (lambda X: X.tolist(), lambda y: y.tolist()),
    "fortran": (np.asfortranarray, np.asarray),
    "csr": (sp.csr_array, np.asarray),
    "csc": (sp.csc_array, np.asarray),
    "csr matrix": (sp.csr_matrix, np.asarray),
    "lil": (sp.lil_array, np.asarray),
    "pandas": (lambda X: pd.DataFrame(columns(X), index=np.arange(240)[::-1]), pd.Series),
    "polars": (lambda X: pl.DataFrame(columns(X)), lambda y: pl.Series("y", y)),
    "pyarrow": (lambda X: pa.table(columns(X)), lambda y: pa.chunked_array([y[:100], y[100:]])),
}


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize("n_batches", [1, 3])
def test_every_container_gives_the_same_fit(kind, n_batches):
    rows = corrupted_rows()
    make, make_y = CONTAINERS[kind]
    model = SelfPacedRegressor(pace=PACE, n_batches=n_batches)
    expected = model.fit(rows.X, rows.y)
    coef, weights, predicted = solution(expected), expected.weights_, expected.predict(rows.X)
    model.fit(make(rows.X), make_y(rows.y))
    np.testing.assert_allclose(solution(model), coef, rtol=1e-12)
    np.testing.assert_array_equal(model.weights_, weights)
    np.testing.assert_allclose(model.predict(make(rows.X)), predicted, rtol=1e-11)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_frames_keep_their_column_names(kind):
    rows = corrupted_rows()
    make, make_y = CONTAINERS[kind]
    model = SelfPacedRegressor(pace=PACE).fit(make(rows.X), make_y(rows.y))
    assert model.feature_names_in_.tolist() == NAMES
    wrong = make(rows.X[:, ::-1])
    swapped = wrong.rename_columns(NAMES[::-1]) if kind == "pyarrow" else wrong[NAMES[::-1]]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(swapped)


def test_arrays_leave_no_column_names():
    rows = corrupted_rows()
    assert not hasattr(SelfPacedRegressor(pace=PACE).fit(rows.X, rows.y), "feature_names_in_")


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "list"])
def test_sample_weight_and_batches_may_come_from_frames_too(kind):
    rows = corrupted_rows()
    make, make_y = CONTAINERS[kind]
    weight, batches = np.linspace(0.5, 1.5, 240), np.arange(240) % 3
    model = SelfPacedRegressor(pace=PACE)
    coef = solution(model.fit(rows.X, rows.y, sample_weight=weight, batches=batches))
    make_ids = make_y if kind != "pyarrow" else pa.array
    model.fit(
        make(rows.X), make_y(rows.y), sample_weight=make_ids(weight), batches=make_ids(batches)
    )
    np.testing.assert_allclose(solution(model), coef, rtol=1e-12)


def test_nullable_pandas_columns_work():
    rows = corrupted_rows()
    frame = pd.DataFrame(columns(rows.X)).convert_dtypes()
    assert str(frame.dtypes.iloc[0]) == "Float64"
    model = SelfPacedRegressor(pace=PACE).fit(frame, rows.y)
    np.testing.assert_array_equal(model.selected_, rows.clean)


def test_integers_work():
    X = np.random.default_rng(0).integers(-9, 9, size=(100, 2))
    model = SelfPacedRegressor(pace=EVERY_ROW).fit(X, 3 * X[:, 0] - X[:, 1] + 4)
    np.testing.assert_allclose(solution(model), [3.0, -1.0, 4.0], rtol=1e-12)


def test_a_lazy_frame_is_refused_with_the_way_out():
    rows = corrupted_rows()
    lazy = pl.LazyFrame(columns(rows.X))
    with pytest.raises(TypeError, match=r"polars data that is not computed yet .*\.collect\(\)"):
        SelfPacedRegressor(pace=PACE).fit(lazy, rows.y)
    model = SelfPacedRegressor(pace=PACE).fit(lazy.collect(), rows.y)
    with pytest.raises(TypeError, match=r"\.collect\(\)"):
        model.predict(lazy)


def spoiled(kind, value):
    X = corrupted_rows().X.copy()
    X[[3, 5], 1] = value
    return X if kind == "numpy" else CONTAINERS[kind][0](X)


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("numpy", "'column 1'"),
        ("list", "'column 1'"),
        ("csr", "'column 1'"),
        ("pandas", "'beds'"),
        ("polars", "'beds'"),
        ("pyarrow", "'beds'"),
    ],
)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_missing_and_infinite_values_are_refused_by_column(kind, column, value):
    y = corrupted_rows().y
    message = rf"(?s)Missing or infinite values in {column} \(2 rows\).*Input X contains "
    with pytest.raises(ValueError, match=message):
        SelfPacedRegressor(pace=PACE).fit(spoiled(kind, value), y)
    model = SelfPacedRegressor(pace=PACE).fit(spoiled(kind, 0.0), y)
    with pytest.raises(ValueError, match=message):
        model.predict(spoiled(kind, value))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_missing_and_infinite_responses_are_refused(value):
    rows = corrupted_rows()
    rows.y[7] = value
    with pytest.raises(ValueError, match="Input y contains"):
        SelfPacedRegressor(pace=PACE).fit(rows.X, rows.y)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pd", "pl", "pa"])
def test_strings_are_refused_by_column(make):
    rows = corrupted_rows()
    frame = make({**columns(rows.X), "city": ["Oslo", "Rome"] * 120})
    with pytest.raises(ValueError, match=r"(?s)Not numeric: 'city': encode them first"):
        SelfPacedRegressor(pace=PACE).fit(frame, rows.y)


def test_many_bad_columns_are_listed_shortly():
    with pytest.raises(ValueError, match=r"'column 4' \(1 rows\) and 7 more"):
        SelfPacedRegressor(pace=PACE).fit(np.full((1, 12), np.nan), [1.0])


@pytest.mark.parametrize(
    ("X", "y", "more", "message"),
    [
        (np.ones(5), np.ones(5), {}, "Expected 2D array"),
        (np.ones((5, 2)), np.ones(4), {}, "inconsistent numbers of samples"),
        (np.ones((5, 2)), np.ones((5, 2, 2)), {}, "1d array|dim 3"),
        (np.ones((5, 2)), None, {}, "requires y to be passed"),
        (np.ones((0, 2)), np.ones(0), {}, "0 sample"),
        (np.ones((5, 0)), np.ones(5), {}, "0 feature"),
        (np.ones((5, 2)), np.ones(5), {"sample_weight": np.ones(4)}, "sample_weight.shape"),
        (np.ones((5, 2)), np.ones(5), {"sample_weight": -np.ones(5)}, "Negative values"),
        (np.ones((5, 2)), np.ones(5), {"sample_weight": np.zeros(5)}, "non-?zero|zero for every"),
        (np.ones((5, 2)), np.ones(5), {"batches": np.ones(4)}, "inconsistent numbers"),
        (np.ones((5, 2)), np.ones(5), {"batches": np.ones((5, 2))}, r"one id per row.*\(5, 2\)"),
    ],
)
def test_wrong_shapes_and_weights_are_refused(X, y, more, message):
    with pytest.raises(ValueError, match=message):
        SelfPacedRegressor(pace=PACE).fit(X, y, **more)


def test_batches_and_n_batches_together_are_refused():
    rows = corrupted_rows()
    with pytest.raises(ValueError, match=r"either batches .* or n_batches, not both"):
        SelfPacedRegressor(n_batches=2).fit(rows.X, rows.y, batches=np.zeros(240))


def test_more_batches_than_rows_are_refused():
    with pytest.raises(ValueError, match="n_batches=6 is more than the 5 rows"):
        SelfPacedRegressor(n_batches=6).fit(np.ones((5, 2)), np.ones(5))


@pytest.mark.parametrize("solver", ["gram", "admm"])
def test_more_columns_than_rows_are_fitted_and_said(solver):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 9)), rng.normal(size=6)
    with pytest.warns(RankWarning, match="determine only 6 of 9 coefficients"):
        model = SelfPacedRegressor(pace=EVERY_ROW, solver=solver, fit_intercept=False).fit(X, y)
    assert np.all(np.isfinite(model.coef_))
    np.testing.assert_allclose(model.predict(X), y, atol=1e-6)


@pytest.mark.parametrize("solver", ["gram", "admm"])
def test_a_penalty_makes_more_columns_than_rows_no_special_case(solver):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 9)), rng.normal(size=6)
    model = SelfPacedRegressor(pace=EVERY_ROW, solver=solver, penalty=Ridge(0.5)).fit(X, y)
    np.testing.assert_allclose(
        solution(model), least_squares(X, y, np.ones(6), strength=0.5), rtol=1e-8
    )


@pytest.mark.parametrize("solver", ["gram", "admm"])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("value", [0.0, 3.0])
def test_a_constant_column_is_named_and_gets_no_say(solver, make, value):
    rows = corrupted_rows()
    X = np.insert(rows.X, 1, value, axis=1)
    with pytest.warns(RankWarning, match=r"4 of 5 coefficients \(constant: column 1\)"):
        model = SelfPacedRegressor(pace=PACE, solver=solver, n_batches=2).fit(make(X), rows.y)
    np.testing.assert_array_equal(model.selected_, rows.clean)
    without = SelfPacedRegressor(pace=PACE).fit(rows.X, rows.y)
    np.testing.assert_allclose(model.predict(X), without.predict(rows.X), rtol=1e-6, atol=1e-6)


def test_a_constant_column_of_a_frame_is_named_by_its_name():
    rows = corrupted_rows()
    rows.X[:, 1] = 5.0
    with pytest.warns(RankWarning, match="constant: beds"):
        SelfPacedRegressor(pace=PACE).fit(pd.DataFrame(columns(rows.X)), rows.y)


def test_a_repeated_column_is_said_and_predictions_are_unharmed():
    rows = corrupted_rows()
    X = np.column_stack([rows.X, rows.X[:, 0]])
    with pytest.warns(RankWarning, match="determine only 4 of 5 coefficients"):
        model = SelfPacedRegressor(pace=PACE).fit(X, rows.y)
    without = SelfPacedRegressor(pace=PACE).fit(rows.X, rows.y)
    np.testing.assert_allclose(model.predict(X), without.predict(rows.X), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("solver", ["gram", "admm"])
def test_batches_of_one_row_are_fine(solver):
    rows = corrupted_rows(n=60, p=2)
    model = SelfPacedRegressor(pace=PACE, n_batches=60, solver=solver).fit(rows.X, rows.y)
    expected = SelfPacedRegressor(pace=PACE, n_batches=1).fit(rows.X, rows.y)
    np.testing.assert_allclose(solution(model), solution(expected), rtol=1e-9)


@pytest.mark.parametrize("solver", ["gram", "admm"])
def test_a_batch_without_a_selected_or_weighted_row_is_fine(solver):
    rows = corrupted_rows(n=200, p=2, share=0.0)
    batches = np.repeat([0, 1, 2, 3], 50)
    rows.y[batches == 2] += 40.0
    weight = np.where(batches == 3, 0.0, 1.0)
    model = SelfPacedRegressor(pace=Quantile(0.3, 0.6, 0.1), solver=solver)
    model.fit(rows.X, rows.y, sample_weight=weight, batches=batches)
    shares = model.history_.rounds[-1].batch_selected_share
    assert shares[2] == shares[3] == 0.0
    assert np.linalg.norm(model.coef_ - rows.coef) < 0.1


def test_a_pace_that_rejects_every_row_says_what_scale_the_losses_have():
    rows = corrupted_rows(noise=1.0, share=0.0)
    y = 1000.0 * rows.y
    with pytest.raises(NoRowSelectedError) as caught:
        SelfPacedRegressor(pace=Constant(1e-6)).fit(rows.X, y)
    message = str(caught.value)
    median = float(message.split("median of ")[1].split(",")[0])
    losses = (y - SelfPacedRegressor(pace=EVERY_ROW).fit(rows.X, y).predict(rows.X)) ** 2
    assert median == pytest.approx(np.median(losses), rel=0.1)
    assert "1e-06" in message
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("pace", [None, Quantile(), Geometric(1e10, 2.0, 1e12)], ids=repr)
def test_a_response_of_pure_nonsense_still_gives_finite_coefficients(pace):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.uniform(-1e6, 1e6, size=200)
    model = SelfPacedRegressor(pace=pace).fit(X, y)
    assert np.all(np.isfinite(solution(model)))
    assert np.all((model.weights_ >= 0) & (model.weights_ <= 1))


@pytest.mark.parametrize("pace", [None, Quantile()], ids=repr)
@pytest.mark.parametrize("solver", ["gram", "admm"])
@pytest.mark.parametrize("constant", [0.0, 7.0, -1e9])
def test_a_constant_response_gives_zero_slopes(pace, solver, constant):
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = SelfPacedRegressor(pace=pace, solver=solver).fit(X, np.full(60, constant))
    np.testing.assert_allclose(model.coef_, 0.0, atol=1e-12 * max(1.0, abs(constant)))
    assert model.intercept_ == pytest.approx(constant, rel=1e-12)


def test_an_exact_fit_is_found_exactly():
    X = np.random.default_rng(0).normal(size=(100, 3))
    y = X @ [1.0, 2.0, 3.0] + 4.0
    y[::5] += 100.0
    model = SelfPacedRegressor(pace=Quantile(0.5, 0.75)).fit(X, y)
    np.testing.assert_allclose(solution(model), [1.0, 2.0, 3.0, 4.0], rtol=1e-10)
    assert not np.any(model.selected_[::5])


@pytest.mark.parametrize("solver", ["gram", "admm"])
@pytest.mark.parametrize("n_batches", [1, 4])
def test_columns_far_from_zero_lose_no_digits(solver, n_batches):
    rows = corrupted_rows(n=400, p=3)
    offset = np.array([1e8, -1e8, 1e6])
    near = SelfPacedRegressor(pace=PACE, n_batches=n_batches).fit(rows.X, rows.y)
    moved = rows.X + offset
    exact = least_squares(moved - offset, rows.y, near.weights_)
    far = SelfPacedRegressor(pace=PACE, n_batches=n_batches, solver=solver).fit(moved, rows.y)
    np.testing.assert_array_equal(far.weights_, near.weights_)
    np.testing.assert_allclose(far.coef_, exact[:3], rtol=1e-10)
    np.testing.assert_allclose(far.intercept_ + offset @ far.coef_, exact[3], atol=1e-6)


@pytest.mark.parametrize("solver", ["gram", "admm"])
def test_sparse_columns_far_from_zero_are_fitted_like_dense_ones(solver):
    rows = corrupted_rows(n=400, p=3)
    X = rows.X + np.array([0.0, 1e3, 0.0])
    model = SelfPacedRegressor(pace=PACE, n_batches=3, solver=solver)
    dense = model.fit(X, rows.y)
    coef, weights, predicted = dense.coef_, dense.weights_, dense.predict(X)
    model.fit(sp.csr_array(X), rows.y)
    np.testing.assert_allclose(model.coef_, coef, rtol=1e-8)
    np.testing.assert_array_equal(model.weights_, weights)
    np.testing.assert_allclose(model.predict(sp.csr_array(X)), predicted, rtol=1e-8, atol=1e-8)


class Absurd(Penalty):
    """A penalty without a closed form."""

    quadratic_strength = None

    def value(self, coef):
        return float(np.abs(coef).sum())

    def prox(self, point, step):
        return np.sign(point) * np.maximum(np.abs(point) - step, 0.0)

    def gradient(self, coef):
        return np.sign(coef)

    def __repr__(self):
        return "Absurd()"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pace", 0.5),
        ("pace", Quantile),
        ("regularizer", "hard"),
        ("regularizer", Linear),
        ("loss", "squared"),
        ("penalty", 1.0),
        ("penalty", Ridge),
        ("solver", "newton"),
        ("solver", None),
        ("rho", 0.0),
        ("rho", -1.0),
        ("rho", math.inf),
        ("rho", "big"),
        ("rho", None),
        ("over_relaxation", 0.0),
        ("over_relaxation", 2.0),
        ("over_relaxation", "much"),
        ("n_batches", 0),
        ("n_batches", -2),
        ("n_batches", 2.5),
        ("n_batches", True),
        ("n_batches", "all"),
        ("admm_on", "moon"),
        ("weights_from", "nowhere"),
        ("update_weights", "never"),
        ("fit_intercept", "no"),
        ("max_rounds", 0),
        ("max_rounds", 1.5),
        ("max_iter", 0),
        ("max_iter", None),
        ("tol", 0.0),
        ("tol", 1.0),
        ("tol", math.nan),
        ("tol", None),
        ("polish", "yes"),
        ("polish", None),
        ("engine", "cloud"),
        ("engine", 3),
        ("n_jobs", 0),
        ("n_jobs", 1.5),
        ("n_jobs", "all"),
        ("callbacks", 3),
    ],
)
def test_every_bad_parameter_is_refused_by_name_and_value(name, value):
    rows = corrupted_rows(n=50, p=2)
    with pytest.raises((ValueError, TypeError)) as caught:
        SelfPacedRegressor(**{name: value}).fit(rows.X, rows.y)
    assert str(caught.value).startswith(f"{name} must ")
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("solver", ["auto", "gram", "admm"])
def test_a_penalty_without_closed_form_is_minimised_by_its_proximal_map(solver):
    rows = corrupted_rows(n=200, p=3, share=0.0)
    model = SelfPacedRegressor(pace=EVERY_ROW, penalty=Absurd(), solver=solver, tol=1e-5)
    model.fit(rows.X, rows.y)
    gradient = 2 * rows.X.T @ (rows.y - model.predict(rows.X))
    np.testing.assert_allclose(gradient, np.sign(model.coef_), atol=0.05)


@pytest.mark.parametrize("order", ["C", "F", "strided", "float32"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
def test_one_bad_number_is_found_however_the_array_lies(order, value):
    rows = corrupted_rows(n=300, p=4)
    X = np.array(rows.X, order="F" if order == "F" else "C")
    if order == "strided":
        X = np.repeat(X, 2, axis=1)[:, ::2]
    if order == "float32":  # which holds no number too large for us
        X, value = X.astype(np.float32), np.inf if value == 1e200 else value
    X[217, 2] = value
    with pytest.raises(ValueError, match=r"X contains|NaN|infin|as large as"):
        SelfPacedRegressor().fit(X, rows.y)
