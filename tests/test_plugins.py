"""Plug-ins as values that scikit-learn can look into, copy and vary."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from easyfirst import SelfPacedRegressor
from easyfirst.losses import Loss
from easyfirst.penalties import Penalty, Ridge
from easyfirst.regularizers import SelfPacedRegularizer
from easyfirst.schedules import Geometric, PaceSchedule
from problems import corrupted_rows, members

KINDS = (Loss, Penalty, SelfPacedRegularizer, PaceSchedule)
PLUG_INS = [cls for kind in KINDS for cls in members(kind)]


@pytest.mark.parametrize("cls", PLUG_INS, ids=lambda cls: cls.__name__)
def test_parameters_make_an_equal_plug_in(cls):
    value = cls()
    assert cls(**value.get_params()) == value
    assert value.set_params(**value.get_params()) == value
    assert pickle.loads(pickle.dumps(value)) == value
    assert clone(SelfPacedRegressor(pace=value)).pace is value


def test_a_changed_plug_in_is_a_copy():
    weak = Ridge(1.0)
    strong = weak.set_params(strength=5.0)
    assert (weak, strong) == (Ridge(1.0), Ridge(5.0))


def test_a_parameter_that_a_plug_in_lacks_is_refused_with_those_it_has():
    with pytest.raises(ValueError, match=r"Ridge has no parameter 'alpha'.*'strength'"):
        Ridge().set_params(alpha=1.0)
    with pytest.raises(ValueError, match=r"Ridge has no parameter 'alpha'"):
        SelfPacedRegressor(penalty=Ridge()).set_params(penalty__alpha=1.0)


def test_the_parameters_of_plug_ins_are_parameters_of_the_estimator():
    model = SelfPacedRegressor(penalty=Ridge(3.0), pace=Geometric(start=0.5))
    deep = model.get_params()
    assert (deep["penalty__strength"], deep["pace__start"]) == (3.0, 0.5)
    shared = model.penalty
    model.set_params(penalty__strength=7.0, tol=1e-3)
    assert (model.penalty, model.tol) == (Ridge(7.0), 1e-3)
    assert shared == Ridge(3.0)


def test_a_new_plug_in_and_a_change_to_it_come_together():
    model = SelfPacedRegressor().set_params(penalty__strength=2.0, penalty=Ridge())
    assert model.penalty == Ridge(2.0)


def test_a_change_to_a_plug_in_that_is_not_there_says_what_to_do():
    with pytest.raises(ValueError, match=r"penalty__strength .* penalty is None.* first"):
        SelfPacedRegressor().set_params(penalty__strength=2.0)
    with pytest.raises(ValueError, match=r"tol__digits .* tol is 1e-06"):
        SelfPacedRegressor().set_params(tol__digits=2)
    with pytest.raises(ValueError, match="Invalid parameter 'punishment'"):
        SelfPacedRegressor().set_params(punishment__strength=2.0)


def test_a_bad_value_in_a_search_is_refused_by_the_plug_in():
    with pytest.raises(ValueError, match=r"strength must be .* got -1"):
        SelfPacedRegressor(penalty=Ridge()).set_params(penalty__strength=-1.0)


def test_a_grid_search_varies_the_strength_of_the_penalty():
    rows = corrupted_rows(n=300, p=3)
    model = make_pipeline(StandardScaler(), SelfPacedRegressor(penalty=Ridge()))
    grid = {"selfpacedregressor__penalty__strength": [0.01, 1e6]}
    search = GridSearchCV(model, grid, scoring="neg_median_absolute_error", cv=3)
    search.fit(rows.X, rows.y)
    assert search.best_params_ == {"selfpacedregressor__penalty__strength": 0.01}
    assert search.best_estimator_[-1].penalty == Ridge(0.01)
    scores = search.cv_results_["mean_test_score"]
    assert np.all(np.isfinite(scores))
    assert scores[0] > 5 * scores[1]
