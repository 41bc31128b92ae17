"""The default on data that used to break it: open directions, wild rows, ties, few rows."""

import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import HuberRegressor, LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from easyfirst import SelfPacedRegressor
from easyfirst.consensus.checks.diagnosis import (
    SecondModelEvidence,
    doubts_about,
    find_second_model,
)
from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.robust.absolute import absolute_start
from easyfirst.consensus.rounds import calibrated as calibrated_rounds
from easyfirst.consensus.rounds.calibrated import Start
from easyfirst.consensus.rounds.common import RoundSettings
from easyfirst.consensus.solvers.gram import solve_normal, supported_basis
from easyfirst.consensus.solvers.polish import polish
from easyfirst.consensus.starts.found import SampleFit
from easyfirst.consensus.starts.sample import Sample
from easyfirst.consensus.starts.search import find_start
from easyfirst.consensus.starts.short_runs import ends_of
from easyfirst.consensus.statistics import Objective
from easyfirst.contracts import Pace
from easyfirst.engines import Inline
from easyfirst.errors import NoSingleModelWarning, RankWarning
from easyfirst.local.design import Coordinates
from easyfirst.local.weighing import Problem
from easyfirst.losses import Squared
from easyfirst.penalties import NoPenalty
from easyfirst.regularizers import Entropic
from easyfirst.schedules import Calibrated, CalibratedPace
from easyfirst.sources import ArraySource

NATURAL = Path(__file__).resolve().parents[2] / "shared" / "data" / "uci_natural"


def fitted(X, y, **settings):
    """Fit; doubts are welcome here, errors are not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SelfPacedRegressor(**({"engine": "inline"} | settings)).fit(X, y)


def rows(n, p, share, seed):
    """Draw rows with noise of sd 1 and coefficients of norm 2, and choose which are bad."""
    rng = np.random.default_rng([seed, n, p])
    X = rng.normal(size=(n, p))
    coef = rng.normal(size=p)
    coef *= 2.0 / np.linalg.norm(coef)
    y = X @ coef + 1.0 + rng.normal(size=n)
    bad = np.zeros(n, dtype=bool)
    bad[rng.choice(n, round(share * n), replace=False)] = True
    return rng, X, y, bad, coef


def ratio(model, X, y_clean, bad, coef):
    """The error over that of least squares on the clean rows."""
    design = np.column_stack([X, np.ones(len(X))])[~bad]
    truth = np.append(coef, 1.0)
    oracle = np.linalg.lstsq(design, y_clean[~bad], rcond=None)[0]
    found = np.append(model.coef_, model.intercept_)
    return np.linalg.norm(design @ (found - truth)) / np.linalg.norm(design @ (oracle - truth))


def natural(name, split):
    """Training and test rows of a table in which nothing is known to be wrong."""
    if not NATURAL.is_dir():
        pytest.skip(f"the table {name} is not here: no folder {NATURAL}")
    values = np.loadtxt(NATURAL / f"{name}_data.csv.gz", delimiter=",")
    test = np.loadtxt(NATURAL / f"{name}_test_mask.csv.gz", delimiter=",")[:, split] > 0
    return values[~test, :-1], values[~test, -1], values[test, :-1], values[test, -1]


# Directions that the kept rows hardly determine.


def nearly_equal_columns(seed):
    """Two columns that differ by rounding, which happens to follow y, and by much in three rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, 4))
    y = X @ [1.0, 1.0, 0.5, 0.0] + 0.5 * rng.normal(size=2000)
    X[:, 1] = X[:, 0] + 1e-5 * (rng.normal(size=2000) + 0.2 * y)
    X[:3, 1] += [0.5, -0.4, 0.3]
    return X, y


@pytest.mark.parametrize("seed", range(3))
def test_rows_off_a_direction_that_hardly_any_row_knows_are_predicted_within_bounds(seed):
    X, y = nearly_equal_columns(seed)
    model = fitted(X[1:], y[1:])
    assert np.abs(model.predict(X[:1])[0] - np.median(y)) < 3.0 * np.ptp(y)
    assert "nearly redundant" in " ".join(model.notes_)
    assert "'0', '1'" in " ".join(model.notes_)
    scaled = fitted(X[1:] * [1e3, 1e-3, 1.0, 7.0], y[1:])
    assert scaled.coef_ * [1e3, 1e-3, 1.0, 7.0] == pytest.approx(model.coef_, rel=1e-6)


def test_no_penalty_is_the_exact_fit_whatever_it_predicts():
    X, y = nearly_equal_columns(0)
    X, y = X[3:], y[3:]
    model = fitted(X, y, penalty=NoPenalty())
    design = np.column_stack([X, np.ones(len(X))])
    exact = np.linalg.lstsq(design * [1e3, 1e3, 1, 1, 1], y, rcond=None)[0] * [1e3, 1e3, 1, 1, 1]
    assert np.abs(model.coef_[0] - exact[0]) < 0.3 * np.abs(exact[0])
    assert not any("redundant" in note for note in model.notes_)


@pytest.mark.parametrize("split", [2, 5])
def test_nearly_collinear_columns_do_not_throw_far_rows_out_of_range(split):
    X, y, X_new, y_new = natural("elevators", split)
    X, y = X[::3], y[::3]
    scaled = StandardScaler().fit(X)
    huber = HuberRegressor(max_iter=1000).fit(scaled.transform(X), y)
    best = np.mean(np.abs(huber.predict(scaled.transform(X_new)) - y_new))
    assert np.mean(np.abs(fitted(X, y).predict(X_new) - y_new)) < 1.05 * best


# Directions that the kept rows do not determine.


@pytest.mark.parametrize("value", [0.1, -7.3e5])
def test_a_constant_column_gets_a_zero_whatever_rounding_makes_of_it(value):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    X[:, 1] = value
    y = X[:, 0] ** 2 + X[:, 0] + 0.4 * rng.normal(size=3000)
    y[:300] += rng.uniform(-20.0, 20.0, 300)
    model = fitted(X, y, n_batches=3)
    assert model.coef_[1] == 0.0


@pytest.mark.parametrize("seed", [0, 5, 11])
def test_a_row_that_alone_knows_a_direction_is_believed(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 4))
    X[:, 0] *= 0.01
    X[0, 0] = 20.0
    y = X @ [0.05, 1.0, -1.0, 0.5] + 0.4 * rng.normal(size=200)
    y += (rng.random(200) < 0.05) * rng.normal(size=200) * 2.0
    model = fitted(X, y)
    assert abs(y[0] - model.predict(X[:1])[0]) < 0.1


@pytest.mark.parametrize("seed", range(3))
def test_a_few_typing_errors_in_x_do_not_count_as_knowing_a_direction(seed):
    rng = np.random.default_rng(seed)
    X, coef = rng.lognormal(size=(300, 5)), np.array([1.0, -1.0, 0.5, 2.0, -0.5])
    y = X @ coef + rng.normal(size=300)
    X[:3, 0] *= 1000.0
    model = fitted(X, y)
    assert not model.selected_[:3].any()
    assert np.abs(model.coef_ - coef).max() < 0.2
    assert any("column '0'" in note for note in model.notes_)


@pytest.mark.parametrize("split", [4, 7])
def test_a_lone_row_far_out_keeps_its_slope(split):
    X, y, X_new, y_new = natural("machine", split)
    scaled = StandardScaler().fit(X)
    huber = HuberRegressor(max_iter=1000).fit(scaled.transform(X), y)
    best = np.mean(np.abs(huber.predict(scaled.transform(X_new)) - y_new))
    assert np.mean(np.abs(fitted(X, y).predict(X_new) - y_new)) < 1.05 * best


@pytest.mark.parametrize("where", [0.0, 0.5, 1e3])
def test_a_column_that_is_constant_among_the_rows_gets_a_zero(where):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=50), np.full(50, where) + 1e-17, np.ones(50)])
    y = 3.0 * X[:, 0] + 7.0 + 0.1 * rng.normal(size=50)
    coef, rank = solve_normal(X.T @ X, X.T @ y, has_intercept=True)
    assert rank == 2
    assert coef[1] == 0.0
    assert coef[[0, 2]] == pytest.approx(np.linalg.lstsq(X[:, [0, 2]], y, rcond=None)[0])


def test_where_zero_is_on_the_columns_does_not_change_what_open_directions_get():
    rng = np.random.default_rng(1)
    base = rng.normal(size=(60, 2))
    X = np.column_stack([base, base @ [1.0, 2.0]])
    y = base @ [1.0, -1.0] + 5.0

    def slopes(shift):
        design = np.column_stack([X + shift, np.ones(60)])
        coef, rank = solve_normal(design.T @ design, design.T @ y, has_intercept=True)
        assert rank == 3
        return coef[:3]

    assert slopes(np.array([0.3, -2.0, 9.0])) == pytest.approx(slopes(np.zeros(3)), abs=1e-9)


def test_directions_without_support_are_left_out_of_the_basis():
    rng = np.random.default_rng(2)
    design = np.column_stack([rng.normal(size=40), np.full(40, 0.5), np.ones(40), np.zeros(40)])
    basis = supported_basis(design.T @ design, 1e-8)
    assert basis.shape == (4, 2)
    np.testing.assert_allclose(basis.T @ design.T @ design @ basis, np.eye(2), atol=1e-9)
    assert np.abs(basis).max() < 10.0


@pytest.mark.parametrize("n", [300, 3000])
def test_a_column_that_only_wild_rows_vary_cannot_run_away(n):
    rng, X, y, bad, coef = rows(n, 4, 0.1, 3)
    X[:, 3] = 0.5
    X[bad, 3] += rng.normal(size=bad.sum())
    y[bad] += rng.uniform(-1e4, 1e4, bad.sum())
    model = fitted(X, y)
    assert model.coef_[:3] == pytest.approx(coef[:3], abs=0.5)
    # One of the wild rows may be fitted exactly, and no more can be asked of it than that.
    assert np.abs(model.predict(X)).max() < 3.0 * np.ptp(y)
    unit = X.std(axis=0)
    np.testing.assert_allclose(
        fitted(X / unit, y).predict(X[~bad] / unit), model.predict(X[~bad]), atol=5e-3
    )


def test_open_coefficients_are_named_in_the_summary_and_not_only_in_a_warning():
    _, X, y, _, _ = rows(200, 3, 0.0, 4)
    X[:, 1] = 2.0
    with pytest.warns(RankWarning, match=r"3 of 4 coefficients \(constant: column 1\)") as caught:
        model = SelfPacedRegressor(engine="inline").fit(X, y)
    assert len(caught) == 1
    assert "determine only 3 of 4 coefficients" in " ".join(model.doubts_)
    assert "determine only 3 of 4" in " ".join(str(model.summary()).split())


# Polishing, and the weights that belong to the coefficients.


def test_a_polish_by_the_matrix_of_other_weights_never_raises_the_objective():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(80, 3))
    X[0] = [400.0, 0.0, 0.0]
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=80)
    problem = Problem(Coordinates(fit_intercept=True), Squared(), Entropic())
    objective = Objective(NoPenalty(), fit_intercept=True)
    with Inline().open(ArraySource(X, y).partitions()) as workers:
        fleet = Fleet.meet(workers, problem)
        z = np.array([0.9, 2.0, 3.0, 0.0])
        without = fleet.weightings(z[None], Pace(25.0, width=1.0))
        everyone = fleet.every_row()
        old, now = fleet.form(without), fleet.form(everyone)
        assert old.pooled_gram[0, 0] < 0.01 * now.pooled_gram[0, 0]
        polished = polish(fleet, objective, old, everyone, z)
    assert now.loss(polished.coef) <= now.loss(z)
    assert np.abs(polished.coef).max() < 100.0


@pytest.mark.parametrize("unit", [1.0, 1e4])
def test_weights_belong_to_the_coefficients_that_are_returned(unit):
    rng, X, y, bad, _ = rows(1500, 4, 0.3, 6)
    y[bad] += rng.uniform(-30, 30, bad.sum())
    model = fitted(unit * X, y)
    np.testing.assert_allclose(model.weights_, model.clean_probability(unit * X, y), atol=1e-4)


@pytest.mark.parametrize("split", [1, 4, 7])
def test_predictions_stay_near_the_range_of_y(split):
    X, y, X_new, _ = natural("machine", split)
    predicted = fitted(X, y).predict(X_new)
    assert y.min() - np.ptp(y) < predicted.min()
    assert predicted.max() < y.max() + np.ptp(y)


# Fits that did not end.


@pytest.mark.parametrize("n", [83, 90, 100])
def test_few_rows_per_coefficient_are_calibrated_and_kept(n):
    _, X, y, bad, coef = rows(n, 40, 0.0, 7)
    model = fitted(X, y)
    assert model.status_.converged
    assert hasattr(model, "noise_scale_")
    assert np.mean(model.selected_) > 0.9
    assert ratio(model, X, y, bad, coef) < 1.5


# Starts.


@pytest.mark.parametrize("p", [3, 15])
def test_absolute_deviations_are_not_moved_by_rows_of_any_size(p):
    _, X, y, bad, coef = rows(600, p, 0.3, 8)
    design = np.column_stack([X, np.ones(600)])
    y[bad] = 1e6
    found, scale = absolute_start(design, y, has_intercept=True)
    assert np.linalg.norm(found - np.append(coef, 1.0)) < 1.0
    assert 0.5 < scale < 3.0


CELLS = {
    "one far value, 500 x 20, 40 %": (500, 20, 0.4, lambda y, rng: np.full(y.size, 20.0)),
    "one far value, 100 x 10, 30 %": (100, 10, 0.3, lambda y, rng: np.full(y.size, 20.0)),
    "shift by 10 sd, 100 x 10, 30 %": (100, 10, 0.3, lambda y, rng: y + 10.0),
    "shift by 10 sd, 200 x 20, 30 %": (200, 20, 0.3, lambda y, rng: y + 10.0),
}


@pytest.mark.parametrize("name", CELLS)
def test_wrong_rows_on_one_side_do_not_win(name):
    n, p, share, wrong = CELLS[name]
    ratios = []
    for seed in range(4):
        rng, X, y, bad, coef = rows(n, p, share, seed)
        spoilt = y.copy()
        spoilt[bad] = wrong(y[bad], rng)
        ratios.append(ratio(fitted(X, spoilt), X, y, bad, coef))
    assert max(ratios) < 2.5  # a fit that the wrong rows have captured has 5 to 20


@pytest.mark.parametrize(("n", "p"), [(500, 15), (500, 5)])
def test_a_tight_cluster_far_out_does_not_win(n, p):
    ratios = []
    for seed in range(4):
        rng, X, y, bad, coef = rows(n, p, 0.2, seed)
        out = rng.normal(size=p)
        X[bad] = 8.0 * out / np.linalg.norm(out) + 0.1 * rng.normal(size=(bad.sum(), p))
        spoilt = y.copy()
        spoilt[bad] = y[bad].mean() + 15.0 + 0.1 * rng.normal(size=bad.sum())
        ratios.append(ratio(fitted(X, spoilt), X, y, bad, coef))
    assert max(ratios) < 1.5


@pytest.mark.parametrize("kind", ["times 1000", "-999"])
def test_wild_values_in_a_table_with_nearly_collinear_columns_do_not_spoil_the_start(kind):
    X, y, X_new, y_new = natural("elevators", 0)
    bad = np.random.default_rng(0).random(len(y)) < 0.1
    spoilt = np.where(bad, 1000.0 * y if kind == "times 1000" else -999.0, y)
    center, spread = X.mean(axis=0), X.std(axis=0)
    design = np.column_stack([(X - center) / spread, np.ones(len(y))])
    oracle = np.linalg.lstsq(design[~bad], y[~bad], rcond=None)[0]
    there = np.column_stack([(X_new - center) / spread, np.ones(len(y_new))]) @ oracle
    problem = Problem(Coordinates(fit_intercept=True), Squared(), Entropic())
    with Inline().open(ArraySource(X, spoilt).partitions()) as workers:
        fleet = Fleet.meet(workers, problem)
        objective = Objective(NoPenalty(), fit_intercept=True)
        found = find_start(fleet, objective, RoundSettings(Calibrated()), 0, lambda record: False)
        slopes, intercept = fleet.problem.coordinates.to_user(found.fit.solution.z)
    ours = X_new @ slopes + intercept
    assert np.mean(np.abs(ours - y_new)) < 1.05 * np.mean(np.abs(there - y_new))


# Which fit is returned.


@dataclass(frozen=True)
class LetsNothingIn(Calibrated):
    """A pace that no row of a growing phase is good enough for."""

    def first(self, losses):
        return Pace(-1e9, width=1.0)


def test_where_no_row_is_selected_every_row_is_kept_with_a_doubt():
    rng, X, y, bad, _ = rows(300, 3, 0.1, 0)
    y[bad] += 50.0 * rng.normal(size=bad.sum())
    problem = Problem(Coordinates(fit_intercept=True), Squared(), Entropic())
    with Inline().open(ArraySource(X, y).partitions()) as workers:
        fleet, objective = Fleet.meet(workers, problem), Objective(NoPenalty(), fit_intercept=True)
        settings = RoundSettings(LetsNothingIn())
        result = calibrated_rounds.run(fleet, objective, settings, lambda record: False)
        assert np.all(fleet.weights(result.weightings)[0] == 1.0)
    exact = np.linalg.lstsq(np.column_stack([X, np.ones(300)]), y, rcond=None)[0]
    assert result.solution.z == pytest.approx(exact, rel=1e-6)
    assert any(
        "every row was kept" in doubt for doubt in doubts_about(result, SecondModelEvidence())
    )


@dataclass(frozen=True)
class RunsAway(Calibrated):
    """A pace whose noise gets a billion times as wide in every round."""

    def next(self, pace, losses):
        found = super().next(pace, losses)
        if not isinstance(pace, CalibratedPace):
            return found
        wider = replace(found.mixture, scale=1e9 * pace.mixture.scale)
        return replace(found, mixture=wider)


def test_a_fit_whose_noise_grows_without_end_keeps_every_row():
    _, X, y, bad, _ = rows(300, 3, 0.3, 0)
    y[bad] *= 1000.0
    problem = Problem(Coordinates(fit_intercept=True), Squared(), Entropic())
    with Inline().open(ArraySource(X, y).partitions()) as workers:
        fleet, objective = Fleet.meet(workers, problem), Objective(NoPenalty(), fit_intercept=True)
        settings = RoundSettings(RunsAway(), max_rounds=12, tol=-1.0)
        result = calibrated_rounds.run(fleet, objective, settings, lambda record: False)
        assert np.all(fleet.weights(result.weightings)[0] == 1.0)
    assert np.all(np.isfinite(result.solution.z))


def test_a_second_model_with_clearly_more_rows_is_the_one_returned():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2000, 2))
    y = X @ [1.0, -2.0] + 5.0 + 0.3 * rng.normal(size=2000)
    y[:500] = X[:500] @ [-3.0, 2.0] - 10.0 + 0.3 * rng.normal(size=500)
    problem = Problem(Coordinates(fit_intercept=True), Squared(), Entropic())
    objective = Objective(NoPenalty(), fit_intercept=True)
    with Inline().open(ArraySource(X, y).partitions()) as workers:
        fleet = Fleet.meet(workers, problem)
        sample = Sample.draw(fleet, objective, RoundSettings(Calibrated()), 2000, 0)
        minority = sample.fit(lambda record: False, Start(np.array([-3.0, 2.0, -10.0]), 0.3))
        assert minority.mixture.share == pytest.approx(0.25, abs=0.02)
        found, evidence = find_second_model(SampleFit(minority, sample))
    assert found.fit.mixture.share == pytest.approx(0.75, abs=0.02)
    assert found.fit.solution.z == pytest.approx([1.0, -2.0, 5.0], abs=0.05)
    assert evidence.support == pytest.approx(1.0 / 3.0, abs=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_the_column_is_named_along_which_errors_grow(seed):
    """Two models half and half, too close to each other to be told apart row by row."""
    rng = np.random.default_rng(seed)
    columns = {"floor": 1.0, "area": 50.0, "age": 10.0}
    X = pd.DataFrame({name: size * rng.normal(size=600) for name, size in columns.items()})
    side = rng.choice([-1.0, 1.0], 600)
    y = 2.0 * X["floor"] + 0.1 * X["age"] + side * X["area"] / 50.0 + 0.5 * rng.normal(size=600)
    with pytest.warns(NoSingleModelWarning, match="Errors grow along column 'area', as if two"):
        SelfPacedRegressor().fit(X, y)


@pytest.mark.parametrize("level", [3.0, 7.1, 1e6])
@pytest.mark.parametrize("seed", range(4))
def test_the_rounding_errors_of_an_exact_fit_are_no_structure(level, seed):
    X = np.random.default_rng(seed).normal(size=(200, 3))
    model = SelfPacedRegressor().fit(X, np.full(200, level))
    np.testing.assert_allclose(model.predict(X), level, rtol=1e-12)
    assert model.selected_.all()


# Fits of a part of the rows.


@pytest.mark.parametrize("kind", ["capped", "-999"])
def test_rows_far_along_a_curve_are_not_given_up(kind):
    X, y, X_new, y_new = natural("concrete", 0)
    bad = np.random.default_rng(0).random(len(y)) < 0.3
    cap = np.quantile(y, 0.7)
    spoilt = np.minimum(y, cap) if kind == "capped" else np.where(bad, -999.0, y)
    bad = y > cap if kind == "capped" else bad
    plain = make_pipeline(StandardScaler(), HuberRegressor(max_iter=1000))
    oracle = np.mean(np.abs(plain.fit(X[~bad], y[~bad]).predict(X_new) - y_new))
    ours = np.mean(np.abs(fitted(X, spoilt).predict(X_new) - y_new))
    assert ours < 1.15 * oracle


@pytest.mark.parametrize("seed", range(3))
def test_a_part_of_the_rows_that_is_fitted_exactly_is_not_the_model_of_all(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1500, 4))
    y = X @ [1.0, 2.0, -1.0, 0.5] + rng.normal(size=1500)
    kept = rng.random(1500) < 0.25
    y[kept] = X[kept, 3]  # an identity holds there to the last digit
    model = fitted(X, y)
    exact = np.linalg.lstsq(np.column_stack([X, np.ones(1500)]), y, rcond=None)[0]
    least = np.mean(np.abs(y - np.column_stack([X, np.ones(1500)]) @ exact))
    assert np.mean(np.abs(y - model.predict(X))) < 1.1 * least


def test_constant_columns_have_no_part_in_where_starts_lead():
    rng = np.random.default_rng(0)
    design = np.column_stack([rng.normal(size=(200, 2)), np.full(200, 1e-23), np.ones(200)])
    y = design @ [1.0, 2.0, 0.0, 3.0] + 0.1 * rng.normal(size=200)
    ends = ends_of(design, y, [np.zeros(4), np.array([1.0, 2.0, 0.0, 3.0])], [1.0, 0.1])
    assert np.all(ends.coefs[:, 2] == 0.0)
    assert ends.coefs[1] == pytest.approx([1.0, 2.0, 0.0, 3.0], abs=0.05)


def test_a_column_that_only_rows_set_aside_vary_gets_a_zero():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 4))
    X[:, 2] = -1.8073e-8
    X[:, 3] = -3e-8
    X[0, 3] = 2e-4
    y = X[:, 0] + 0.1 * rng.normal(size=500)
    y[:50] = -y[:50]
    model = fitted(X, y)
    assert model.coef_[2] == 0.0
    assert np.abs(model.predict(X)).max() < y.max() + np.ptp(y)


def test_nearly_all_rows_kept_with_noise_that_is_not_normal_pull_less_when_far():
    plain, ours = [], []
    for seed in range(3):
        rng, X, y, bad, coef = rows(2000, 5, 0.3, seed)
        y[bad] = rng.permutation(y[bad])
        design = np.column_stack([X, np.ones(len(X))])
        truth = np.append(coef, 1.0)
        least = np.linalg.lstsq(design, y, rcond=None)[0]
        model = fitted(X, y)
        plain.append(np.linalg.norm(least - truth))
        ours.append(np.linalg.norm(np.append(model.coef_, model.intercept_) - truth))
    assert np.mean(ours) < 0.97 * np.mean(plain)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_column_in_another_unit_is_bad_leverage_and_no_curve(seed):
    rng = np.random.default_rng(seed)
    area = rng.uniform(20, 120, 2000)
    rooms = np.clip(np.round(area / 30 + rng.normal(0, 0.7, 2000)), 1, 6)
    y = 100 + 9 * area + 40 * rooms + 40 * rng.normal(size=2000)
    wrong = rng.random(2000) < 0.1
    X = np.column_stack([np.where(wrong, 10.764 * area, area), rooms])  # in square feet
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoSingleModelWarning)
        model = SelfPacedRegressor(engine="inline").fit(X, y)
    np.testing.assert_allclose(model.coef_, [9.0, 40.0], rtol=0.1)
    assert np.mean(model.selected_ == ~wrong) > 0.99


@pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")
@pytest.mark.parametrize("share", [0.8, 0.9])
def test_a_minority_with_skewed_noise_is_found_among_wrong_rows_spread_like_a_bell(share):
    """Noise that was looked for as if most rows were clean took all of them in."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6000, 4))
    coef = np.array([1.0, -2.0, 0.5, 0.0])
    y = X @ coef + rng.lognormal(sigma=0.5, size=6000)
    wrong = rng.random(6000) < share
    y[wrong] += 15 * rng.normal(size=wrong.sum())
    model = SelfPacedRegressor().fit(X, y)
    assert abs(model.corrupted_fraction_ - share) < 0.05
    np.testing.assert_allclose(model.coef_, coef, atol=0.1)


@pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")
@pytest.mark.parametrize("seed", [0, 2])
def test_two_values_that_most_rows_are_near_are_no_bump_of_mistakes(seed):
    """Weeks worked in a year: none, some, or all of them. A plain fit keeps every kind."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3000, 4))
    kind = rng.random(3000) + 0.05 * X[:, 0]
    y = np.where(kind < 0.5, 0.0, np.where(kind > 0.7, 52.0, rng.integers(1, 52, 3000)))
    model = SelfPacedRegressor().fit(X, y)
    assert np.mean(~model.selected_) < 0.05


def test_slopes_beside_skewed_noise_are_better_than_those_of_least_squares():
    """No row is wrong; the intercept lies between those of the median and of the mean."""
    ours, least = 0.0, 0.0
    for seed in range(4):
        rng = np.random.default_rng([seed, 11])
        X, coef = rng.normal(size=(3000, 20)), np.linspace(-1.0, 1.0, 20)
        y = X @ coef + rng.lognormal(sigma=0.5, size=3000)
        model = SelfPacedRegressor().fit(X, y)
        left = y - model.predict(X)
        assert -0.1 < np.median(left) < 0.0 < np.mean(left) < 0.1
        ours += np.sum(np.square(model.coef_ - coef))
        least += np.sum(np.square(LinearRegression().fit(X, y).coef_ - coef))
    assert ours < 0.85 * least  # squares: 0.92 of the error
