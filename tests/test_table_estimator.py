"""A model of raw tables is an estimator like others."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score

from easyfirst import SelfPacedRegressor, penalties
from easyfirst.callbacks import ProgressBar
from easyfirst.tables import TableClassifier, TableModel


@pytest.fixture(scope="module")
def flats():
    rng = np.random.default_rng(0)
    n = 300
    table = pd.DataFrame(
        {"area": rng.uniform(20, 120, n).round(1), "city": rng.choice(["Ulm", "Bonn"], n)}
    )
    table["rent"] = 9 * table["area"] + 150 * (table["city"] == "Bonn") + rng.normal(0, 10, n)
    table.loc[:20, "rent"] *= 10
    return table


@pytest.fixture(scope="module")
def model(flats):
    return TableModel("rent").fit(flats)


def test_parameters_are_read_set_and_copied():
    model = TableModel("rent", exclude=("id",), regressor=SelfPacedRegressor(tol=1e-5))
    copy = clone(model)
    assert repr(copy) == repr(model)
    assert "TableModel" in repr(model)
    assert "target='rent'" in repr(model)
    assert copy.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    copy.set_params(target="price", regressor__tol=1e-4)
    assert (copy.target, copy.regressor.tol) == ("price", 1e-4)
    assert (model.target, model.regressor.tol) == ("rent", 1e-5)
    copy.set_params(regressor__penalty=penalties.Ridge(), regressor__penalty__strength=3.0)
    assert copy.regressor.penalty == penalties.Ridge(3.0)


def test_a_parameter_of_a_regressor_that_is_not_there_says_what_to_do():
    with pytest.raises(ValueError, match=r"regressor__tol .* regressor is None"):
        TableModel("rent").set_params(regressor__tol=1e-4)


def test_a_clone_is_unfitted_and_fits_alike(model, flats):
    copy = clone(model)
    with pytest.raises(NotFittedError):
        copy.summary()
    with pytest.raises(NotFittedError):
        copy.score(flats)
    again = copy.fit(flats)
    np.testing.assert_array_equal(again.predict(flats), model.predict(flats))


def test_the_score_is_r2_on_the_rows_with_a_target(model, flats):
    assert model.score(flats) == pytest.approx(r2_score(flats["rent"], model.predict(flats)))
    good = flats.iloc[21:]
    assert model.score(good) > 0.99
    assert model.score(good.drop(columns="rent"), good["rent"]) == model.score(good)
    gap = good.assign(rent=good["rent"].where(np.arange(len(good)) % 7 > 0))
    assert model.score(gap) > 0.99
    only = (np.arange(len(good)) < 5).astype(float)
    expected = r2_score(good["rent"][:5], model.predict(good)[:5])
    assert model.score(good, sample_weight=only) == pytest.approx(expected)


def test_the_summary_and_the_intervals_name_the_columns_of_the_design(model):
    text = str(model.summary())
    assert "area" in text
    assert "city=" in text
    names = list(model.confidence_intervals()["name"])
    assert names == [*model.recipe_.design_names(), "(intercept)"]


def test_the_report_shows_the_table(model, flats, tmp_path):
    page = model.report(tmp_path / "page.html", flats)
    assert (tmp_path / "page.html").read_text() == page.html
    assert "rent" in page.html
    with pytest.raises(FileExistsError):
        model.report(tmp_path / "page.html", flats)
    assert "<html" in model.report().html


def test_it_survives_pickling(model, flats):
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(flats), model.predict(flats))


def test_a_model_that_is_not_fitted_says_so():
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": [1.0, 2.0]})
    for ask in ("predict", "suspects", "score", "report", "predict_interval"):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(TableModel("y"), ask)(frame)


def test_a_table_in_place_of_the_path_of_a_report_is_explained():
    x = np.arange(40.0)
    frame = pd.DataFrame({"x": x, "y": 2 * x + np.sin(x)})
    model = TableModel("y").fit(frame)
    with pytest.raises(TypeError, match=r"got DataFrame; a table comes second"):
        model.report(frame)
    with pytest.raises(TypeError, match=r"rows come after it: report\(None, X, y\)"):
        model.regressor_.report(frame[["x"]], frame["y"])


def test_a_progress_bar_has_a_short_repr():
    assert repr(SelfPacedRegressor(callbacks=[ProgressBar()])) == (
        "SelfPacedRegressor(callbacks=[ProgressBar()])"
    )


def test_tools_that_give_y_beside_the_table_are_served(flats, model):
    without = flats.drop(columns="rent")
    given = TableModel("rent").fit(without, flats["rent"])
    assert np.array_equal(given.predict(flats), model.predict(flats))
    scores = [cross_val_score(TableModel("rent"), X, flats["rent"]) for X in (flats, without)]
    assert np.isfinite(scores).all()
    assert np.array_equal(*scores)
    labels = TableClassifier("city").fit(flats.drop(columns="city"), flats["city"])
    assert set(labels.classes_) == {"Ulm", "Bonn"}
