"""`easyfirst.suspects` looks into what scikit-learn wraps around a model."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import easyfirst
from easyfirst import SelfPacedRegressor
from easyfirst.penalties import Ridge
from problems import corrupted_rows

COLUMNS = ["given_label", "predicted_label", "residual", "label_quality"]


@pytest.fixture(scope="module")
def rows():
    return corrupted_rows(n=300, p=3)


@pytest.fixture(scope="module")
def plain(rows):
    return SelfPacedRegressor().fit(rows.X, rows.y).suspects(rows.X, rows.y)


def assert_alike(found, expected):
    assert list(found["row_id"]) == list(expected["row_id"])
    assert list(found.columns) == list(expected.columns)
    for name in COLUMNS:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-9)


def test_a_model_by_itself_gives_its_own_answer(rows, plain):
    model = SelfPacedRegressor().fit(rows.X, rows.y)
    pd.testing.assert_frame_equal(easyfirst.suspects(model, rows.X, rows.y), plain)


@pytest.mark.parametrize(
    "wrapped",
    [
        make_pipeline(StandardScaler(), SelfPacedRegressor()),
        Pipeline([("only", SelfPacedRegressor())]),
        make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), SelfPacedRegressor())),
        GridSearchCV(SelfPacedRegressor(), {"tol": [1e-6]}, cv=2),
        GridSearchCV(
            make_pipeline(StandardScaler(), SelfPacedRegressor(penalty=Ridge(0.0))),
            {"selfpacedregressor__penalty__strength": [0.0]},
            cv=2,
        ),
    ],
    ids=["pipeline", "one step", "nested", "search", "search of a pipeline"],
)
def test_wrappers_change_nothing(wrapped, rows, plain):
    wrapped.fit(rows.X, rows.y)
    assert_alike(easyfirst.suspects(wrapped, rows.X, rows.y), plain)


def test_the_rows_have_the_names_and_the_library_of_the_table(rows):
    table = pd.DataFrame(rows.X, columns=["a", "b", "c"], index=[f"r{i}" for i in range(300)])
    table["kind"] = ["u", "v"] * 150
    y = rows.y + 3.0 * (table["kind"] == "u")
    encode = make_column_transformer(
        (OneHotEncoder(drop="first"), ["kind"]), remainder="passthrough"
    )
    model = make_pipeline(encode, SelfPacedRegressor()).fit(table, y)
    found = easyfirst.suspects(model, table, y)
    assert set(found["row_id"]) == {f"r{i}" for i in np.flatnonzero(~rows.clean)}
    assert list(found.index) == list(found["row_id"])
    four = easyfirst.suspects(model, table, y, top=4, row_ids=np.arange(300))
    assert list(four["row_id"]) == [int(name[1:]) for name in found["row_id"][:4]]


def test_a_polars_table_gets_a_polars_answer(rows):
    table = pl.DataFrame(rows.X, schema=["a", "b", "c"])
    model = make_pipeline(StandardScaler(), SelfPacedRegressor()).fit(table, rows.y)
    found = easyfirst.suspects(model, table, rows.y)
    assert isinstance(found, pl.DataFrame)
    assert set(found["row_id"]) == set(np.flatnonzero(~rows.clean))


def test_a_transformed_target_is_reported_in_its_own_units(rows):
    price = np.exp(0.3 * rows.y)
    logs = TransformedTargetRegressor(
        make_pipeline(StandardScaler(), SelfPacedRegressor()), func=np.log, inverse_func=np.exp
    ).fit(rows.X, price)
    found = easyfirst.suspects(logs, rows.X, price)
    places = found["row_id"].to_numpy()
    assert set(places) == set(np.flatnonzero(~rows.clean))
    np.testing.assert_allclose(found["given_label"], price[places])
    np.testing.assert_allclose(found["predicted_label"], logs.predict(rows.X)[places])
    inner = logs.regressor_[-1]
    scale = (np.log(price) - np.log(logs.predict(rows.X)))[places] / inner.noise_scale_
    np.testing.assert_allclose(found["residual"], scale, rtol=1e-6)
    assert found["likely_fix"].isna().all()


def test_a_pipeline_around_a_transformed_target_works_too(rows):
    price = np.exp(0.3 * rows.y)
    logs = TransformedTargetRegressor(SelfPacedRegressor(), func=np.log, inverse_func=np.exp)
    model = make_pipeline(StandardScaler(), logs).fit(rows.X, price)
    found = easyfirst.suspects(model, rows.X, price)
    assert set(found["row_id"]) == set(np.flatnonzero(~rows.clean))


def test_a_table_model_needs_no_y(rows):
    from easyfirst.tables import TableModel

    table = pd.DataFrame(rows.X, columns=["a", "b", "c"]).assign(y=rows.y)
    model = TableModel("y").fit(table)
    pd.testing.assert_frame_equal(easyfirst.suspects(model, table), model.suspects(table))


def test_what_holds_no_such_model_is_refused(rows):
    with pytest.raises(TypeError, match=r"contains a SelfPacedRegressor.*got LinearRegression"):
        easyfirst.suspects(LinearRegression().fit(rows.X, rows.y), rows.X, rows.y)
    with pytest.raises(NotFittedError):
        easyfirst.suspects(SelfPacedRegressor(), rows.X, rows.y)
    with pytest.raises(NotFittedError):
        easyfirst.suspects(make_pipeline(StandardScaler(), SelfPacedRegressor()), rows.X, rows.y)


@pytest.mark.parametrize("top", [-1, 1.5, True])
def test_a_number_of_rows_that_is_none_is_refused(rows, top):
    model = make_pipeline(StandardScaler(), SelfPacedRegressor()).fit(rows.X, rows.y)
    with pytest.raises((TypeError, ValueError), match="top must be"):
        easyfirst.suspects(model, rows.X, rows.y, top=top)
