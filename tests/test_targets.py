"""Several targets: one weight per row, and coefficients for each target."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import linear_model
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_regressor_multioutput

from easyfirst import SelfPacedClassifier, SelfPacedRegressor
from easyfirst.baselines import RLHH
from easyfirst.contracts import Resident
from easyfirst.engines import Inline
from easyfirst.losses import Huber
from easyfirst.penalties import Lasso, Ridge
from easyfirst.regularizers import Welsch
from easyfirst.schedules import Calibrated, Constant, Geometric, Quantile

N, P, K = 600, 4, 3


class Data:
    """Rows of which 30 % are wrong in every target, and whole sample weights."""

    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P)) * np.array([1.0, 2.0, 0.5, 1.0]) + np.array([0.0, 0.0, 3.0, 0.0])
    truth = rng.normal(size=(K, P))
    clean = X @ truth.T + np.array([1.0, -2.0, 0.5]) + 0.1 * rng.normal(size=(N, K))
    wrong = rng.random(N) < 0.3
    y = np.where(wrong[:, None], clean + rng.uniform(2, 8, size=(N, K)), clean)
    weight = rng.integers(1, 4, N).astype(float)


@pytest.mark.parametrize("n_batches", [1, 4, 10])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("solver", ["auto", "admm"])
def test_an_infinite_pace_gives_the_ridge_of_scikit_learn(n_batches, container, solver):
    expected = linear_model.Ridge(alpha=3.0, tol=1e-12).fit(Data.X, Data.y, Data.weight)
    model = SelfPacedRegressor(
        pace=Constant(), penalty=Ridge(3.0), n_batches=n_batches, solver=solver
    ).fit(container(Data.X), Data.y, sample_weight=Data.weight)
    assert model.status_.converged
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, atol=1e-6)
    np.testing.assert_allclose(model.predict(Data.X), expected.predict(Data.X), atol=1e-5)
    np.testing.assert_array_equal(model.weights_, np.ones(N))


@pytest.mark.parametrize("solver", ["auto", "admm"])
def test_an_infinite_pace_gives_the_lasso_of_scikit_learn(solver):
    expected = linear_model.Lasso(alpha=0.1, tol=1e-13, max_iter=10**6).fit(Data.X, Data.y)
    model = SelfPacedRegressor(
        pace=Constant(), penalty=Lasso(2 * N * 0.1), n_batches=4, solver=solver, tol=1e-8
    ).fit(Data.X, Data.y)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-6)
    assert np.any(model.coef_ == 0)


@pytest.mark.parametrize("regularizer", [None, Welsch()], ids=repr)
@pytest.mark.parametrize("settings", [{}, {"solver": "admm", "n_batches": 5}], ids=str)
def test_a_row_is_judged_by_the_sum_of_its_losses(regularizer, settings):
    model = SelfPacedRegressor(
        pace=Quantile(0.4, 0.6), regularizer=regularizer, tol=1e-9, max_rounds=1000, **settings
    ).fit(Data.X, Data.y, sample_weight=Data.weight)
    assert model.status_.converged
    assert model.weights_.shape == (N,)
    losses = np.sum((Data.y - model.predict(Data.X)) ** 2, axis=1)
    rule = regularizer or model.regularizer
    expected = losses < model.pace_ if rule is None else rule.weights(losses, model.pace_)
    np.testing.assert_allclose(model.weights_, expected, atol=1e-6)
    # And each target has the least squares of the rows by these weights.
    counted = Data.weight * model.weights_
    least = linear_model.LinearRegression().fit(Data.X, Data.y, counted)
    np.testing.assert_allclose(model.coef_, least.coef_, atol=1e-6)
    assert np.mean(model.selected_[Data.wrong]) < 0.02
    assert np.max(np.abs(model.coef_ - Data.truth)) < 0.05


def test_the_objective_of_a_round_is_that_of_all_targets():
    settings = {"pace": Geometric(10.0, 2.0, 100.0), "penalty": Ridge(2.0), "n_batches": 3}
    for solver in ("gram", "admm"):
        model = SelfPacedRegressor(**settings, solver=solver, tol=1e-9).fit(Data.X, Data.y)
        losses = np.sum((Data.y - model.predict(Data.X)) ** 2, axis=1)
        selected = model.selected_
        value = losses[selected].sum() - model.pace_ * selected.sum() + 2 * np.sum(model.coef_**2)
        last = model.history_.rounds[-1]
        np.testing.assert_allclose(last.objective, value, rtol=1e-9)
        np.testing.assert_allclose(last.lagrangian, value, rtol=1e-6)
        assert last.kkt_residual < 1e-8


def test_the_same_target_twice_has_the_coefficients_of_one():
    twice = np.column_stack([Data.y[:, 0], Data.y[:, 0]])
    one = SelfPacedRegressor(pace=Quantile()).fit(Data.X, Data.y[:, 0])
    two = SelfPacedRegressor(pace=Quantile()).fit(Data.X, twice)
    np.testing.assert_array_equal(two.selected_, one.selected_)
    np.testing.assert_allclose(two.coef_, [one.coef_, one.coef_], atol=1e-9)


def test_the_papers_weights_and_consensus_take_several_targets():
    model = SelfPacedRegressor.paper(pace=Quantile(0.5, 0.7), fit_intercept=True, n_batches=4).fit(
        Data.X, Data.y
    )
    assert model.status_.converged
    assert len(model.history_.iterations) == model.n_iter_
    assert np.max(np.abs(model.coef_ - Data.truth)) < 0.05


class Forgetful(Inline):
    """Workers that forget everything between two steps, and get copies of what is sent."""

    def open(self, partitions):
        opened = super().open(partitions)

        class Workers:
            def __enter__(self):
                self.inner = opened.__enter__()
                self.ledger = self.inner.ledger
                return self

            def __exit__(self, *error):
                return opened.__exit__(*error)

            def map(self, step, per_batch, broadcast, only=None):
                messages = per_batch or [None] * len(partitions)
                sent = pickle.loads(pickle.dumps((step, messages, broadcast)))
                pairs = zip(partitions, sent[1], strict=True)
                return [sent[0](Resident(part.load()), each, sent[2]) for part, each in pairs]

        return Workers()


@pytest.mark.parametrize("pace", [Quantile(0.5, 0.7), Calibrated()], ids=["schedule", "calibrated"])
def test_every_engine_gives_the_same_bits(pace):
    fits = [
        SelfPacedRegressor(pace=pace, n_batches=3, engine=engine).fit(Data.X, Data.y)
        for engine in ("inline", "threads", Forgetful())
    ]
    for model in fits[1:]:
        np.testing.assert_array_equal(model.coef_, fits[0].coef_)
        np.testing.assert_array_equal(model.weights_, fits[0].weights_)


def test_a_row_that_one_target_shows_to_be_wrong_is_left_out_for_all():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 3))
    truth = np.array([[1.0, 2.0, 0.0], [0.0, -1.0, 3.0]])
    y = X @ truth.T + 0.5 * rng.normal(size=(2000, 2))
    wrong = rng.random(2000) < 0.3
    # Far off in the first target; in the second by so little that it cannot be told from noise.
    y[wrong] += np.array([20.0, 0.5])
    model = SelfPacedRegressor().fit(X, y)
    alone = SelfPacedRegressor().fit(X, y[:, 1])
    assert np.mean(model.selected_ == ~wrong) > 0.99
    assert model.corrupted_fraction_ == pytest.approx(0.3, abs=0.03)
    assert abs(alone.intercept_) > 0.08
    assert abs(model.intercept_[1]) < 0.04
    np.testing.assert_allclose(model.coef_, truth, atol=0.06)
    np.testing.assert_allclose(model.noise_scale_, 0.5, rtol=0.1)
    assert model.coef_standard_errors_.shape == (2, 3)
    np.testing.assert_array_equal(model.outputs_[1].coef_, model.coef_[1])
    np.testing.assert_array_equal(
        model.weights_, np.minimum(model.outputs_[0].weights_, model.outputs_[1].weights_)
    )
    bounds = model.outputs_[0].predict_interval(X[~wrong])
    inside = (y[~wrong, 0] > bounds[:, 0]) & (y[~wrong, 0] < bounds[:, 1])
    assert np.mean(inside) == pytest.approx(0.9, abs=0.03)


def test_targets_that_are_right_everywhere_are_each_fitted_as_if_alone():
    model = SelfPacedRegressor().fit(Data.X, Data.clean)
    alone = [SelfPacedRegressor().fit(Data.X, y) for y in Data.clean.T]
    if all(own.selected_.all() for own in alone):
        np.testing.assert_array_equal(model.coef_, [own.coef_ for own in alone])
    np.testing.assert_allclose(model.coef_, [own.coef_ for own in alone], atol=1e-2)
    assert model.notes_ == ()


def test_rows_that_are_wrong_for_one_target_each_are_pointed_out():
    rng = np.random.default_rng(2)
    y = Data.clean.copy()
    for j in range(K):
        y[200 * j : 200 * j + 100, j] += rng.uniform(5, 10, size=100)
    model = SelfPacedRegressor().fit(Data.X, y)
    assert any(
        "left out for all" in note and "MultiOutputRegressor" in note for note in model.notes_
    )
    np.testing.assert_allclose(model.coef_, Data.truth, atol=0.05)


def test_rejected_and_trusted_rows_are_those_of_all_targets():
    trusted, rejected = np.zeros(N, dtype=bool), np.zeros(N, dtype=bool)
    trusted[np.flatnonzero(~Data.wrong)[3:30]] = True
    rejected[np.flatnonzero(~Data.wrong)[:3]] = True
    for pace in (None, Quantile(0.1, 0.2)):
        model = SelfPacedRegressor(pace=pace)
        model.fit(Data.X, Data.y, trusted=trusted, rejected=rejected)
        np.testing.assert_array_equal(model.weights_[trusted], 1.0)
        np.testing.assert_array_equal(model.weights_[rejected], 0.0)


@pytest.mark.filterwarnings("ignore:11 rows are too few to tell wrong ones")
@pytest.mark.parametrize("pace", [None, Quantile(0.5, 0.9), Constant()], ids=repr)
def test_scikit_learn_knows_that_several_targets_are_taken(pace):
    model = SelfPacedRegressor(pace=pace)
    assert model.__sklearn_tags__().target_tags.multi_output
    check_regressor_multioutput("SelfPacedRegressor", clone(model))
    assert cross_val_score(model, Data.X, Data.clean, cv=3).min() > 0.99


def test_a_data_frame_of_targets_is_taken():
    pd = pytest.importorskip("pandas")
    X, y = pd.DataFrame(Data.X, columns=list("abcd")), pd.DataFrame(Data.y, columns=list("uvw"))
    model = SelfPacedRegressor(pace=Quantile()).fit(X, y)
    assert model.feature_names_in_.tolist() == list("abcd")
    plain = SelfPacedRegressor(pace=Quantile()).fit(Data.X, Data.y)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-9)
    calibrated = SelfPacedRegressor().fit(X, y)
    assert calibrated.outputs_[0].feature_names_in_.tolist() == list("abcd")
    np.testing.assert_allclose(calibrated.to_sklearn().predict(X), calibrated.predict(X))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": Huber(), "pace": Quantile()}, r"loss=Huber\(.*\) is for one target"),
        ({"solver": "cg"}, "solver='cg' is for one target"),
        (
            {"pace": Quantile(), "solver": "admm", "admm_on": "workers"},
            "admm_on='workers' is for one target .*admm_on='driver' and 'auto'",
        ),
        ({"polish": True}, "polish=True is for one target"),
        ({"target_transform": "log"}, "TransformedTargetRegressor"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_what_takes_one_target_says_so_and_names_the_way_out(settings, message):
    model = SelfPacedRegressor(**settings)
    assert not model.__sklearn_tags__().target_tags.multi_output
    with pytest.raises(ValueError, match=f"MultiOutputRegressor does: .*{message}"):
        model.fit(Data.X, Data.y)


@pytest.mark.parametrize("pace", [None, Quantile()], ids=repr)
def test_what_is_told_of_one_target_is_refused_for_several(pace, tmp_path):
    model = SelfPacedRegressor(pace=pace).fit(Data.X, Data.y)
    where = r"outputs_\[0\] to outputs_\[2\]" if pace is None else "MultiOutputRegressor"
    for ask in (
        lambda: model.summary(),
        lambda: model.suspects(Data.X, Data.y),
        lambda: model.to_review(Data.X, Data.y),
        lambda: model.judge(Data.X, Data.y[:, 0]),
        lambda: model.report(),
        lambda: model.confidence_intervals(),
        lambda: model.predict_interval(Data.X),
        lambda: model.clean_probability(Data.X, Data.y),
        lambda: model.save(tmp_path / "model.safetensors"),
    ):
        with pytest.raises(
            AttributeError, match=f"is for one target, and this model has 3: .*{where}"
        ):
            ask()


def test_a_fit_of_one_target_leaves_nothing_of_several():
    model = SelfPacedRegressor().fit(Data.X, Data.y)
    model.fit(Data.X, Data.y[:, 0])
    assert model.coef_.shape == (P,)
    assert not hasattr(model, "outputs_")
    model.set_params(pace=Quantile()).fit(Data.X, Data.y)
    assert not hasattr(model, "noise_scale_")
    assert model.coef_.shape == (K, P)


def test_methods_of_one_target_name_the_way_out():
    for model in (RLHH(), SelfPacedClassifier()):
        with pytest.raises(ValueError, match=r"MultiOutputRegressor does: .* one target"):
            model.fit(Data.X, Data.y)
