"""Every loss and penalty is minimised for what it is: beside peers, in batches, on workers."""

import pickle
import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn import linear_model, svm
from sklearn.exceptions import ConvergenceWarning

from easyfirst import SelfPacedRegressor, read_parquet
from easyfirst.contracts import Ledger, Resident
from easyfirst.engines import Inline
from easyfirst.engines.blas import one_blas_thread
from easyfirst.errors import NoRowSelectedError
from easyfirst.losses import (
    Absolute,
    Cauchy,
    GammaDeviance,
    Huber,
    Logistic,
    Loss,
    Pinball,
    PoissonDeviance,
    Squared,
    SquaredHinge,
)
from easyfirst.penalties import ElasticNet, Lasso, Ridge
from easyfirst.regularizers import Hard, Welsch
from easyfirst.schedules import Calibrated, Constant, Geometric, Quantile

N, P = 500, 4


class Data:
    """One X with a response of every kind, and a whole weight per row."""

    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P)) * np.array([1.0, 2.0, 0.5, 1.0])
    X[rng.random((N, P)) < 0.3] = 0.0
    eta = X @ np.array([0.5, -0.3, 1.0, 0.0]) + 0.2
    weight = rng.integers(1, 4, N).astype(float)
    total = weight.sum()
    number = 2.0 * eta + rng.standard_t(3, N)
    label = (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(float)
    count = rng.poisson(np.exp(eta)).astype(float)
    amount = rng.gamma(2.0, np.exp(eta) / 2.0)


def ridge():
    peer = linear_model.Ridge(alpha=3.0, tol=1e-12)
    return peer, Data.number, {"penalty": Ridge(3.0)}


def lasso():
    peer = linear_model.Lasso(alpha=0.1, tol=1e-13, max_iter=10**6)
    return peer, Data.number, {"penalty": Lasso(2 * Data.total * 0.1)}


def elastic_net():
    peer = linear_model.ElasticNet(alpha=0.2, l1_ratio=0.6, tol=1e-13, max_iter=10**6)
    penalty = ElasticNet(2 * Data.total * 0.12, Data.total * 0.08)
    return peer, Data.number, {"penalty": penalty}


def huber():
    class Patient(linear_model.HuberRegressor):
        """Its L-BFGS stops at 1e-6; starting again where it stopped goes on."""

        def fit(self, X, y, sample_weight):
            for _ in range(5):
                super().fit(X, y, sample_weight)
            return self

    peer = Patient(alpha=0.3, tol=1e-12, max_iter=10_000, warm_start=True)
    scale = peer.fit(Data.X, Data.number, Data.weight).scale_
    return peer, Data.number, {"loss": Huber(1.35 * scale), "penalty": Ridge(0.3 * scale)}


def quantile():
    peer = linear_model.QuantileRegressor(quantile=0.7, alpha=0.0, solver="highs")
    return peer, Data.number, {"loss": Pinball(0.7, smoothing=5e-7)}


def logistic():
    peer = linear_model.LogisticRegression(C=0.5, tol=1e-12, solver="newton-cholesky")
    return peer, Data.label, {"loss": Logistic(), "penalty": Ridge(1.0)}


def squared_hinge():
    peer = svm.LinearSVC(C=0.5, tol=1e-12, max_iter=10**6, fit_intercept=False, dual=False)
    settings = {"loss": SquaredHinge(), "penalty": Ridge(1.0), "fit_intercept": False}
    return peer, Data.label, settings


def poisson():
    peer = linear_model.PoissonRegressor(alpha=0.1, tol=1e-12, solver="newton-cholesky")
    return peer, Data.count, {"loss": PoissonDeviance(), "penalty": Ridge(0.1 * Data.total)}


def gamma():
    peer = linear_model.GammaRegressor(alpha=0.1, tol=1e-12, solver="newton-cholesky")
    return peer, Data.amount, {"loss": GammaDeviance(), "penalty": Ridge(0.1 * Data.total)}


PEERS = [ridge, lasso, elastic_net, huber, quantile, logistic, squared_hinge, poisson, gamma]


@pytest.fixture(scope="module")
def peers():
    """Fit every peer once."""
    fits = {}
    for make in PEERS:
        peer, y, settings = make()
        peer.fit(Data.X, y, sample_weight=Data.weight)
        fits[make] = np.append(np.ravel(peer.coef_), peer.intercept_), y, settings
    return fits


def coefficients(model):
    return np.append(model.coef_, model.intercept_)


@pytest.mark.parametrize("peer", PEERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("n_batches", [1, 4, 10])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_an_infinite_pace_gives_what_scikit_learn_gives(peers, peer, n_batches, container):
    expected, y, settings = peers[peer]
    model = SelfPacedRegressor(pace=Constant(), n_batches=n_batches, **settings)
    model.fit(container(Data.X), y, sample_weight=Data.weight)
    assert model.status_.converged
    np.testing.assert_allclose(coefficients(model), expected, atol=1e-6)


# Without the quantile at its nearly vanishing smoothing: batches agree on it only slowly.
@pytest.mark.parametrize("peer", [make for make in PEERS if make is not quantile])
@pytest.mark.parametrize("n_batches", [1, 4, 10])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_consensus_on_the_workers_gives_it_too(peers, peer, n_batches, container):
    expected, y, settings = peers[peer]
    model = SelfPacedRegressor(
        pace=Constant(), n_batches=n_batches, solver="admm", admm_on="workers", **settings
    )
    model.fit(container(Data.X), y, sample_weight=Data.weight)
    assert model.status_.converged
    np.testing.assert_allclose(coefficients(model), expected, atol=1e-6)


ANY_LOSS = {
    "Squared": (Squared(), Data.number),
    "Huber": (Huber(1.0), Data.number),
    "Absolute": (Absolute(0.3), Data.number),
    "Pinball": (Pinball(0.3, smoothing=0.3), Data.number),
    "Cauchy": (Cauchy(2.0), Data.number),
    "Logistic": (Logistic(), Data.label),
    "SquaredHinge": (SquaredHinge(), Data.label),
    "PoissonDeviance": (PoissonDeviance(), Data.count),
    "GammaDeviance": (GammaDeviance(), Data.amount),
}
any_loss = pytest.mark.parametrize("loss", ANY_LOSS)


@any_loss
def test_the_fit_of_all_rows_is_the_minimum_that_scipy_finds(loss):
    loss, y = ANY_LOSS[loss]

    def objective(coef):
        prediction = Data.X @ coef[:P] + coef[P]
        slope = Data.weight * loss.gradient(y, prediction)
        value = Data.weight @ loss.value(y, prediction) + 2.0 * coef[:P] @ coef[:P]
        gradient = np.append(Data.X.T @ slope + 4.0 * coef[:P], slope.sum())
        return value, gradient

    model = SelfPacedRegressor(pace=Constant(), loss=loss, penalty=Ridge(2.0), n_batches=3)
    found = coefficients(model.fit(Data.X, y, sample_weight=Data.weight))
    best = minimize(objective, found + 0.05, jac=True, tol=1e-14, options={"maxiter": 10_000})
    np.testing.assert_allclose(found, best.x, atol=1e-6)


@any_loss
@pytest.mark.parametrize("pace", [Quantile(0.5, 0.8, 0.1), "geometric"], ids=["quantile", "grow"])
def test_consensus_on_workers_on_the_driver_and_pooled_learning_agree(loss, pace):
    loss, y = ANY_LOSS[loss]
    if pace == "geometric":
        typical = float(np.median(loss.value(y, np.zeros(N))))
        pace = Geometric(0.5 * typical, 2.0, 2.0 * typical)
    settings = {"loss": loss, "pace": pace, "penalty": Ridge(1.0), "n_batches": 4, "tol": 1e-8}
    pooled = SelfPacedRegressor(**settings).fit(Data.X, y)
    places = ["workers", "driver"] if loss.quadratic else ["workers"]
    for place in places:
        model = SelfPacedRegressor(**settings, solver="admm", admm_on=place).fit(Data.X, y)
        assert model.status_.converged
        np.testing.assert_array_equal(model.selected_, pooled.selected_)
        np.testing.assert_allclose(coefficients(model), coefficients(pooled), atol=1e-6)
    assert 0.3 * N < pooled.selected_.sum() < N


@pytest.mark.parametrize("penalty", [None, Ridge(2.0), Lasso(20.0), ElasticNet(20.0, 2.0)])
@pytest.mark.parametrize("rho", ["auto", "adaptive", 50.0])
def test_the_squared_loss_has_one_consensus_wherever_it_is_iterated(penalty, rho):
    found = []
    for place in ("driver", "workers"):
        model = SelfPacedRegressor(
            pace=Constant(),
            penalty=penalty,
            solver="admm",
            admm_on=place,
            rho=rho,
            n_batches=5,
            tol=1e-8,
            max_iter=5000,
            polish=False,
        ).fit(Data.X, Data.number)
        assert model.status_.converged
        found.append(coefficients(model))
    np.testing.assert_allclose(found[0], found[1], atol=1e-8)


@pytest.mark.parametrize("loss", ["Squared", "Logistic"])
@pytest.mark.parametrize("weights_from", ["batch", "consensus"])
@pytest.mark.parametrize("update_weights", ["round", "iteration"])
def test_the_papers_weights_work_on_the_workers(loss, weights_from, update_weights):
    loss, y = ANY_LOSS[loss]
    model = SelfPacedRegressor.paper(
        loss=loss,
        pace=Quantile(0.6, 0.8, 0.1),
        admm_on="workers",
        weights_from=weights_from,
        update_weights=update_weights,
        fit_intercept=True,
        n_batches=4,
        tol=1e-4 if update_weights == "iteration" else 1e-6,
    ).fit(Data.X, y)
    plain = SelfPacedRegressor(loss=loss, pace=Quantile(0.6, 0.8, 0.1), penalty=Ridge(1.0))
    assert model.status_.converged
    if update_weights == "round":
        assert np.mean(model.selected_) == pytest.approx(0.8, abs=0.05)
        agrees = model.selected_ == plain.fit(Data.X, y).selected_
        assert np.mean(agrees) > 0.99


class LogCosh(Loss):
    """A loss of a user's own, as the page "Write your own loss" has it."""

    def value(self, y, prediction):
        r = y - prediction
        return np.logaddexp(r, -r) - np.log(2.0)

    def gradient(self, y, prediction):
        return np.tanh(prediction - y)

    def curvature(self, y, prediction):
        return 1.0 - np.tanh(prediction - y) ** 2


@pytest.mark.parametrize("settings", [{}, {"solver": "admm"}, {"solver": "cg"}], ids=str)
def test_a_users_own_loss_is_minimised_and_not_another(settings):
    loss = LogCosh()

    def objective(coef):
        prediction = Data.X @ coef[:P] + coef[P]
        return np.sum(loss.value(Data.number, prediction))

    best = minimize(objective, np.zeros(P + 1), tol=1e-14, method="BFGS", options={"gtol": 1e-9})
    model = SelfPacedRegressor(pace=Constant(), loss=loss, n_batches=3, tol=1e-7, **settings)
    model.fit(Data.X, Data.number)
    np.testing.assert_allclose(coefficients(model), best.x, atol=1e-6)
    least_squares = SelfPacedRegressor(pace=Constant()).fit(Data.X, Data.number)
    assert np.max(np.abs(model.coef_ - least_squares.coef_)) > 1e-2


@pytest.mark.parametrize("solver", ["gram", "admm", "cg"])
@pytest.mark.parametrize("name", ["value", "gradient", "curvature"])
def test_a_loss_that_raises_makes_the_fit_raise(solver, name):
    def refuse(self, y, prediction):
        raise RuntimeError(f"{name} is not here")

    broken = type("Broken", (LogCosh,), {name: refuse})()
    model = SelfPacedRegressor(pace=Constant(), loss=broken, solver=solver)
    with pytest.raises(RuntimeError, match=f"{name} is not here"):
        model.fit(Data.X, Data.number)


def test_a_loss_that_is_not_a_number_makes_the_fit_raise():
    class Broken(LogCosh):
        def gradient(self, y, prediction):
            return np.full(y.shape, np.nan)

    for solver in ("gram", "admm"):
        model = SelfPacedRegressor(pace=Constant(), loss=Broken(), solver=solver)
        with pytest.raises(ValueError, match="returned a gradient that is not a number"):
            model.fit(Data.X, Data.number)


class DeclaredQuadratic(LogCosh):
    quadratic = True


class Quartic(Ridge):
    def value(self, coef):
        return float(np.sum(coef**4))


class Growing(Hard):
    def weights(self, losses, pace):
        return 1.0 - super().weights(losses, pace)


class NotANumber(Hard):
    def weights(self, losses, pace):
        return np.full(losses.shape, np.nan)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": Logistic()}, r"calibrated pace .* loss=Logistic\(\) has none: .*pace=Quantile"),
        ({"loss": LogCosh(), "pace": Calibrated()}, r"give a schedule, .* pace=Constant\(\)"),
        ({"penalty": Quartic()}, r"quadratic_strength but .* leave `quadratic_strength` at None"),
        ({"regularizer": Growing(), "pace": Quantile()}, "must not grow with the loss"),
        ({"regularizer": NotANumber()}, r"weights \[nan, .* must lie between 0 and 1"),
        ({"penalty": Lasso(), "polish": True}, r"polish=True .* penalty=Lasso.* use polish='auto'"),
        (
            {"loss": Huber(), "pace": Quantile(), "polish": True},
            r"polish=True .* none for loss=Huber.* a smaller tol",
        ),
        ({"admm_on": "workers"}, r"solver='auto' iterates none: use solver='admm', or admm_on="),
        ({"loss": DeclaredQuadratic()}, r"declared quadratic but .* leave `quadratic` at False"),
        (
            {"loss": Huber(), "pace": Quantile(), "solver": "admm", "admm_on": "driver"},
            r"admm_on='driver' needs .* use admm_on='workers' or 'auto'",
        ),
        (
            {"penalty": Lasso(), "solver": "cg"},
            r"solver='cg' needs a quadratic penalty, got Lasso.* use solver='gram' or 'admm'",
        ),
        (
            {"solver": "admm", "admm_on": "workers"},
            r"calibrated pace needs the Gram matrices .* admm_on='driver' or 'auto'",
        ),
        ({"admm_on": "moon"}, "admm_on must be one of 'auto', 'driver', 'workers', got 'moon'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_parts_that_do_not_work_together_are_refused_before_any_row_is_read(settings, message):
    with pytest.raises(ValueError, match=message):
        SelfPacedRegressor(**settings).fit(None, None)


def test_responses_that_do_not_suit_the_loss_are_refused():
    model = SelfPacedRegressor(loss=Logistic(), pace=Constant())
    with pytest.raises(ValueError, match=r"Logistic\(\) needs responses that are 0 or 1, got"):
        model.fit(Data.X, Data.number)


@pytest.mark.parametrize("solver", ["auto", "admm"])
@pytest.mark.parametrize("penalty", [Lasso(60.0), ElasticNet(60.0, 5.0)], ids=str)
def test_a_lasso_converges_and_says_so(solver, penalty):
    model = SelfPacedRegressor(pace=Quantile(), penalty=penalty, solver=solver, n_batches=4)
    model.fit(Data.X, Data.number)
    assert model.status_.converged
    assert model.history_.rounds[-1].kkt_residual < 1e-8
    assert np.any(model.coef_ == 0)


def test_the_calibrated_pace_takes_a_lasso_and_claims_no_standard_errors():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1000, 8))
    y = X[:, 0] + 0.1 * rng.normal(size=1000)
    y[:200] += rng.uniform(5, 20, 200)
    model = SelfPacedRegressor(penalty=Lasso(40.0)).fit(X, y)
    assert np.flatnonzero(model.coef_).tolist() == [0]
    assert np.mean(~model.selected_[:200]) > 0.99
    assert np.all(np.isnan(model.coef_standard_errors_))
    with pytest.raises(AttributeError, match=r"needs standard errors, .* a smooth penalty"):
        model.confidence_intervals()


@pytest.mark.parametrize("rule", [Hard(), Welsch()], ids=repr)
def test_standard_errors_are_claimed_only_where_the_formula_holds(rule):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=400)
    model = SelfPacedRegressor(regularizer=rule).fit(X, y)
    assert np.all(np.isnan(model.coef_standard_errors_))
    with pytest.raises(AttributeError, match=r"known for regularizer=Entropic\(\)"):
        model.confidence_intervals()
    assert "standard error" not in str(model.summary())


def test_predictions_are_means_of_the_loss():
    label = SelfPacedRegressor(loss=Logistic(), pace=Constant()).fit(Data.X, Data.label)
    chance = label.predict(Data.X)
    assert np.all((chance > 0) & (chance < 1))
    np.testing.assert_allclose(np.mean(chance), np.mean(Data.label), atol=1e-8)
    count = SelfPacedRegressor(loss=PoissonDeviance(), pace=Constant()).fit(Data.X, Data.count)
    np.testing.assert_allclose(np.mean(count.predict(Data.X)), np.mean(Data.count))
    with pytest.raises(TypeError, match="no link"):
        count.to_sklearn()


def test_suspects_of_a_logistic_fit_are_the_rows_of_largest_loss():
    model = SelfPacedRegressor(loss=Logistic(), pace=Quantile(0.7, 0.9), penalty=Ridge(1.0))
    model.fit(Data.X, Data.label)
    judged = model.judge(Data.X, Data.label)
    losses = -np.log(np.abs(1.0 - Data.label - model.predict(Data.X)))
    assert set(judged.worst(20)) == set(np.argsort(-losses)[:20])
    np.testing.assert_array_equal(judged.is_wrong, ~model.selected_)


@pytest.mark.parametrize(("loss", "y"), ANY_LOSS.values(), ids=ANY_LOSS)
def test_a_model_with_any_loss_can_be_saved_and_loaded(loss, y, tmp_path):
    from easyfirst import load

    model = SelfPacedRegressor(loss=loss, pace=Quantile(0.6, 0.8), penalty=Ridge(1.0))
    model.fit(Data.X, y).save(tmp_path / "model.easyfirst")
    again = load(tmp_path / "model.easyfirst")
    assert again.loss == loss
    np.testing.assert_array_equal(again.predict(Data.X), model.predict(Data.X))


class Counting:
    """Workers that forget everything between two steps, and pickle what is sent as a cluster does.

    `sent` and `received` have the name of each step and its bytes.
    """

    @contextmanager
    def open(self, partitions):
        self.partitions, self.calls = partitions, []
        self.ledger = Ledger([0.0] * len(partitions))
        with one_blas_thread():
            yield self

    def map(self, step, per_batch, broadcast, only=None):
        assert only is None
        messages = per_batch or [None] * len(self.partitions)
        name = getattr(step, "__name__", "")
        sent = received = len(pickle.dumps(broadcast))
        replies = []
        for part, message in zip(self.partitions, messages, strict=True):
            blob = pickle.dumps(message)
            reply = pickle.dumps(step(Resident(part.load()), pickle.loads(blob), broadcast))
            sent, received = sent + len(blob), received + len(reply)
            replies.append(pickle.loads(reply))
        self.calls.append((name, sent, received))
        return replies


def iteration_bytes(n_features, n_batches):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40 * n_batches, n_features))
    y = (X[:, 0] + rng.normal(size=len(X)) > 0).astype(float)
    engine = Counting()
    SelfPacedRegressor(
        loss=Logistic(),
        pace=Constant(),
        penalty=Ridge(1.0),
        solver="admm",
        engine=engine,
        n_batches=n_batches,
        tol=1e-3,
    ).fit(X, y)
    return max(sent + received for name, sent, received in engine.calls if name == "respond")


def test_bytes_per_iteration_grow_with_batches_times_columns():
    small = iteration_bytes(50, 4)
    assert iteration_bytes(100, 4) < 2.2 * small
    assert iteration_bytes(50, 8) < 2.2 * small
    assert small < 4 * 51 * 8 * 10  # ten vectors per batch


@pytest.mark.parametrize("loss", ["Squared", "Logistic"])
@pytest.mark.parametrize("update_weights", ["round", "iteration"])
def test_workers_that_forget_their_factors_change_no_bit(loss, update_weights):
    loss, y = ANY_LOSS[loss]
    settings = {
        "loss": loss,
        "pace": Quantile(0.6, 0.8, 0.2),
        "solver": "admm",
        "admm_on": "workers",
        "update_weights": update_weights,
        "weights_from": "batch",
        "n_batches": 3,
        "penalty": Ridge(1.0),
        "tol": 1e-4,
    }
    found = [
        SelfPacedRegressor(**settings, engine=engine).fit(Data.X[:120], y[:120])
        for engine in (Inline(), Counting(), "threads")
    ]
    for model in found[1:]:
        np.testing.assert_array_equal(coefficients(model), coefficients(found[0]))
        np.testing.assert_array_equal(model.weights_, found[0].weights_)


@pytest.mark.slow
def test_many_batches_of_many_columns_need_no_square_matrices():
    rng = np.random.default_rng(0)
    n_batches, n_features = 200, 2000
    X = rng.normal(size=(5 * n_batches, n_features))
    y = X[:, 0] + 0.1 * rng.normal(size=len(X))
    tracemalloc.start()
    model = SelfPacedRegressor.paper(pace=Constant(), n_batches=n_batches, max_iter=3)
    model.set_params(weights_from="consensus")
    with pytest.warns(ConvergenceWarning, match="not agreed within 3 iterations"):
        model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.n_iter_ > 0
    # One Gram matrix of each batch would be 6.4 GB.
    assert peak < 1e9


def labels(X, truth, rng):
    return (rng.random(len(X)) < 1 / (1 + np.exp(-4.0 * (X @ truth)))).astype(float)


@pytest.mark.parametrize("seed", range(2))
def test_self_paced_classification_leaves_flipped_labels_out(seed):
    rng = np.random.default_rng(seed)
    truth = np.array([2.0, -1.0, 1.0, 0.5, 0.0])
    X, new = rng.normal(size=(1500, 5)), rng.normal(size=(5000, 5))
    label, expected = labels(X, truth, rng), labels(new, truth, rng)
    batches = np.arange(1500) // 150
    wrong = (batches < 4) & (rng.random(1500) < 0.3)
    y = np.where(wrong, 1.0 - label, label)

    def fitted(pace):
        model = SelfPacedRegressor.paper(loss=Logistic(), pace=pace)
        model.fit(X, y, batches=batches)
        chance = model.predict(new)
        log_loss = -np.mean(np.log(np.where(expected == 1, chance, 1.0 - chance)))
        return model, log_loss, np.mean((chance > 0.5) == expected)

    _, plain_loss, plain_accuracy = fitted(Constant())
    paced, paced_loss, paced_accuracy = fitted(Quantile(0.5, 0.85, 0.1))
    assert np.mean(~paced.selected_[wrong]) > 0.85
    assert np.mean(~paced.selected_[~wrong]) < 0.1
    # Flips that take no account of X hardly turn the boundary, but they hide how sharp it is.
    assert paced_loss < 0.7 * plain_loss
    assert paced_accuracy > plain_accuracy - 0.02


@pytest.mark.parametrize("settings", [{}, {"solver": "admm"}, {"solver": "cg"}], ids=str)
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_columns_far_from_zero_lose_no_digits(settings, container):
    common = {"loss": Logistic(), "pace": Constant(), "penalty": Ridge(1.0), "n_batches": 3}
    near = SelfPacedRegressor(**common).fit(Data.X, Data.label)
    far = SelfPacedRegressor(**common, **settings).fit(container(Data.X + 1000.0), Data.label)
    np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-6)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("shift", [0.0, 30.0])
def test_batches_with_fewer_rows_than_columns_agree_too(container, shift):
    X = np.random.default_rng(0).normal(size=(60, 40)) + shift
    y = (X[:, 0] > shift).astype(float)
    common = {"loss": Logistic(), "pace": Constant(), "penalty": Ridge(1.0), "n_batches": 3}
    pooled = SelfPacedRegressor(**common).fit(X, y)
    agreed = SelfPacedRegressor(**common, solver="admm").fit(container(X), y)
    np.testing.assert_allclose(agreed.coef_, pooled.coef_, atol=1e-6)


def test_a_lasso_of_more_columns_than_rows_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 150))
    y = 3.0 * X[:, 0] + 0.1 * rng.normal(size=100)
    expected = linear_model.Lasso(alpha=0.1, tol=1e-13, max_iter=10**6).fit(X, y)
    for settings in ({}, {"solver": "admm", "n_batches": 2}):
        model = SelfPacedRegressor(pace=Constant(), penalty=Lasso(20.0), **settings).fit(X, y)
        assert model.status_.converged
        np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-6)


@pytest.mark.parametrize("loss", [Squared(), Huber(0.5), Absolute(0.01)], ids=repr)
def test_a_batch_of_which_no_row_is_kept_takes_part_in_the_consensus_all_the_same(loss):
    rng = np.random.default_rng(0)
    X, batches = rng.normal(size=(200, 3)), np.arange(200) // 50
    y = X[:, 0] + 0.05 * rng.normal(size=200)
    y[batches == 3] += 100.0
    settings = {"loss": loss, "pace": Quantile(0.4, 0.7, 0.1)}
    pooled = SelfPacedRegressor(**settings).fit(X, y, batches=batches)
    agreed = SelfPacedRegressor(**settings, solver="admm", admm_on="workers")
    agreed.fit(X, y, batches=batches)
    assert not np.any(agreed.selected_[batches == 3])
    np.testing.assert_allclose(agreed.coef_, pooled.coef_, atol=1e-6)


def test_a_pace_that_lets_no_row_in_is_answered_with_one_that_does():
    model = SelfPacedRegressor(loss=Huber(0.5), pace=Geometric(1e-9, 2.0, 1e-8))
    with pytest.raises(NoRowSelectedError, match=r"one that needs none: pace=Quantile\(\)"):
        model.fit(Data.X, Data.number)
    model.set_params(pace=Quantile()).fit(Data.X, Data.number)
    assert model.status_.converged


def test_rows_that_stay_where_they_are_are_judged_by_the_same_loss(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {f"x{j}": Data.X[:, j] for j in range(P)} | {"label": Data.label}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    source = read_parquet(tmp_path / "rows.parquet", target="label")
    settings = {"loss": Logistic(), "pace": Quantile(0.7, 0.9), "penalty": Ridge(1.0)}
    there = SelfPacedRegressor(**settings).fit(source)
    here = SelfPacedRegressor(**settings).fit(Data.X, Data.label)
    expected = here.judge(Data.X, Data.label)
    (streamed,) = there.weights_by_batch(source)
    np.testing.assert_allclose(streamed.prediction, expected.predicted, rtol=1e-9)
    np.testing.assert_array_equal(streamed.weights, expected.weight)
    unit = np.sqrt(here.pace_)
    np.testing.assert_allclose(streamed.signed / unit, expected.residual, rtol=1e-7)
