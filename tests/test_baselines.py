"""The baselines: what each recovers, where each breaks, and the contract they share."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from easyfirst import SelfPacedRegressor
from easyfirst.baselines import (
    DRLR,
    ORLR,
    RLHH,
    SPL,
    STIR,
    SVAM,
    LeastSquares,
    Torrent,
    Torrent25,
    Zeros,
)
from easyfirst.baselines.consolidation import geometric_median, majority
from easyfirst.baselines.drlr import consistent_size
from easyfirst.baselines.method import Told
from easyfirst.baselines.methods import METHODS
from easyfirst.baselines.rlhh import heuristic_size
from easyfirst.baselines.rows import Rows, SubsetLeastSquares
from easyfirst.datasets import make_corrupted_regression
from easyfirst.errors import NoRowSelectedError, RankWarning
from easyfirst.schedules import Geometric

EVERY = [
    LeastSquares(),
    Zeros(),
    Torrent(),
    Torrent(variant="gradient", max_iter=2000),
    Torrent(variant="hybrid"),
    Torrent25(n_ratios=3),
    RLHH(),
    DRLR(),
    ORLR(),
    SPL(),
    STIR(),
    SVAM(),
]
# A baseline in a new file joins by itself, in the way its methods are built.
OTHERS = [each.build(Told()) for each in METHODS.values() if not each.needs_pace]
EVERY += [
    model
    for model in OTHERS
    if type(model).__module__.startswith("easyfirst.baselines")
    and type(model) not in map(type, EVERY)
]
ROBUST = [
    Torrent(corruption_ratio=0.1, tol=0.0),
    Torrent(corruption_ratio=0.1, variant="gradient", tol=1e-12, max_iter=2000),
    Torrent(corruption_ratio=0.1, variant="hybrid", tol=0.0),
    Torrent25(corruption_ratio=0.2, tol=0.0),
    RLHH(tol=0.0),
    DRLR(tol=0.0),
    ORLR(tol=0.0),
    SPL(),
    STIR(tol=1e-9),
    SVAM(),
]
BY_BATCH = [Torrent(), RLHH(), SPL(), STIR(scope="batches"), LeastSquares(scope="batches")]


def name(model) -> str:
    kind = getattr(model, "variant", "")
    return f"{type(model).__name__}-{kind}" if kind else type(model).__name__


def noiseless(n=400, p=8, share=0.08, seed=0):
    """Clean rows without noise, and a few responses far off to both sides."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    coef, intercept = rng.uniform(0.0, 0.4, p), 1.5
    y = X @ coef + intercept
    bad = rng.choice(n, int(share * n), replace=False)
    y[bad] += rng.uniform(3.0, 10.0, bad.size) * rng.choice([-1.0, 1.0], bad.size)
    clean = np.ones(n, dtype=bool)
    clean[bad] = False
    return X, y, coef, intercept, clean


def error(model, truth) -> float:
    return float(np.linalg.norm(model.coef_ - truth))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::easyfirst.errors.RankWarning")
@parametrize_with_checks([model for model in EVERY if getattr(model, "variant", "fc") == "fc"])
def test_every_baseline_passes_the_common_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("model", ROBUST, ids=name)
def test_few_corrupted_rows_without_noise_are_found_and_ignored_exactly(model):
    X, y, coef, intercept, clean = noiseless()
    model = clone(model).fit(X, y)
    assert model.status_.converged
    np.testing.assert_allclose(model.coef_, coef, atol=1e-7)
    assert model.intercept_ == pytest.approx(intercept, abs=1e-7)
    assert not model.selected_[~clean].any()


@pytest.mark.parametrize("model", [Torrent(tol=0.0), DRLR(tol=0.0), STIR(), SVAM()], ids=name)
def test_multiplying_y_multiplies_the_model(model):
    X, y, _, _, _ = noiseless()
    y = y + 0.3 * np.random.default_rng(1).standard_normal(len(y))
    once, often = clone(model).fit(X, y), clone(model).fit(X, 1024.0 * y)
    np.testing.assert_allclose(often.coef_, 1024.0 * once.coef_, rtol=1e-9)
    np.testing.assert_array_equal(often.selected_, once.selected_)


@pytest.mark.parametrize("model", [m for m in ROBUST if name(m) != "Torrent-gradient"], ids=name)
def test_moving_columns_and_y_moves_only_the_intercept(model):
    X, y, _, _, _ = noiseless()
    y = y + 0.3 * np.random.default_rng(1).standard_normal(len(y))
    still, moved = clone(model).fit(X, y), clone(model).fit(X + 100.0, y + 7.0)
    np.testing.assert_allclose(moved.coef_, still.coef_, atol=1e-8)
    expected = still.intercept_ + 7.0 - 100.0 * still.coef_.sum()
    assert moved.intercept_ == pytest.approx(expected, abs=1e-6)


def test_the_size_of_rlhh_depends_on_the_unit_of_y():
    X, y, _, _, _ = noiseless(share=0.3)
    y = y + 0.3 * np.random.default_rng(1).standard_normal(len(y))
    sizes = {int(RLHH(tol=0.0).fit(X, unit * y).selected_.sum()) for unit in (1.0, 1e-3)}
    assert len(sizes) == 2


@pytest.mark.parametrize("model", EVERY, ids=name)
def test_sparse_rows_give_the_same_model_as_dense_ones(model):
    X, y, _, _, _ = noiseless()
    y = y + 0.3 * np.random.default_rng(1).standard_normal(len(y))
    X[np.abs(X) < 0.5] = 0.0
    dense, sparse = clone(model).fit(X, y), clone(model).fit(sp.csr_array(X), y)
    atol = 1e-3 if name(model) == "Torrent-gradient" else 1e-7
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=atol)
    np.testing.assert_allclose(sparse.predict(sp.csr_array(X)), dense.predict(X), atol=10 * atol)


@pytest.mark.parametrize("model", BY_BATCH, ids=name)
def test_batches_are_fitted_alone_and_averaged(model):
    X, y, _, _, _ = noiseless()
    y = y + 0.3 * np.random.default_rng(1).standard_normal(len(y))
    ids = np.array(["b", "a"])[np.arange(len(y)) % 2]
    together = clone(model).set_params(fit_intercept=False).fit(X, y, batches=ids)
    alone = [
        clone(model).set_params(fit_intercept=False).fit(X[ids == i], y[ids == i]) for i in "ab"
    ]
    np.testing.assert_allclose(together.batch_coef_, [m.coef_ for m in alone], rtol=1e-12)
    np.testing.assert_allclose(together.coef_, np.mean([m.coef_ for m in alone], axis=0))
    np.testing.assert_array_equal(together.selected_[ids == "a"], alone[0].selected_)


@pytest.mark.parametrize("model", BY_BATCH, ids=name)
def test_pooled_scope_ignores_the_batches(model):
    X, y, _, _, _ = noiseless()
    model = clone(model).set_params(scope="pooled")
    ids = np.arange(len(y)) % 4
    given = clone(model).fit(X, y, batches=ids)
    np.testing.assert_array_equal(given.coef_, clone(model).fit(X, y).coef_)


@pytest.mark.parametrize("model", [LeastSquares(scope="batches"), SPL()], ids=name)
def test_a_batch_without_weight_has_no_part_in_the_mean(model):
    X, y, _, _, _ = noiseless()
    ids = np.arange(len(y)) % 4
    kept = ids < 3
    weighted = clone(model).fit(X, y, sample_weight=kept.astype(float), batches=ids)
    removed = clone(model).fit(X[kept], y[kept], batches=ids[kept])
    np.testing.assert_allclose(weighted.coef_, removed.coef_, atol=1e-12)


# Least squares on subsets


def test_updated_gram_matrices_give_the_fit_of_each_subset():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 5)), rng.standard_normal(300)
    X[:3] *= 1e9  # rows whose removal cancels most digits
    solver = SubsetLeastSquares(Rows.of(X, y, None, center=None))
    solver.fit(np.ones(300, dtype=bool))
    for _ in range(5):
        kept = rng.uniform(size=300) < 0.9
        kept[:3] = False
        coef = solver.refined(solver.fit(kept))
        expected = np.linalg.lstsq(X[kept], y[kept], rcond=None)[0]
        np.testing.assert_allclose(coef, expected, rtol=1e-10)


# TORRENT


def test_hybrid_and_fully_corrective_torrent_end_at_the_same_model():
    X, y, _, _, _ = noiseless(share=0.2)
    y = y + 0.1 * np.random.default_rng(1).standard_normal(len(y))
    fc = Torrent(corruption_ratio=0.2, tol=0.0).fit(X, y)
    hybrid = Torrent(corruption_ratio=0.2, variant="hybrid", tol=0.0).fit(X, y)
    np.testing.assert_allclose(hybrid.coef_, fc.coef_, atol=1e-10)
    np.testing.assert_array_equal(hybrid.selected_, fc.selected_)
    assert hybrid.n_iter_ > 2  # at least two steps of descent came first
    descent = Torrent(corruption_ratio=0.2, variant="gradient", tol=1e-10, max_iter=2000)
    np.testing.assert_allclose(descent.fit(X, y).coef_, fc.coef_, atol=1e-6)


def test_torrent_keeps_the_share_that_the_ratio_leaves():
    X, y, _, _, _ = noiseless()
    for ratio in (0.0, 0.3, 0.77):
        assert Torrent(corruption_ratio=ratio).fit(X, y).selected_.sum() == 400 - 400 * ratio


def test_torrent_with_the_ratio_of_each_batch_beats_one_ratio_for_all():
    data = make_corrupted_regression(1000, 5, 4, mode="batches", n_bad_batches=2, random_state=0)
    ratios = [1.0 - data.clean[data.batches == i].mean() for i in range(4)]
    own = Torrent(corruption_ratio=ratios).fit(data.X, data.y, batches=data.batches)
    same = Torrent(corruption_ratio=0.5).fit(data.X, data.y, batches=data.batches)
    assert 3.0 * error(own, data.coef) < error(same, data.coef)
    assert [int(own.selected_[data.batches == i].sum()) for i in range(4)] == [
        round(1000 * (1.0 - ratio)) for ratio in ratios
    ]


def test_torrent_with_too_small_a_ratio_keeps_corrupted_rows():
    X, y, coef, _, clean = noiseless(share=0.2)
    model = Torrent(corruption_ratio=0.1, tol=0.0).fit(X, y)
    assert model.selected_[~clean].any()
    assert error(model, coef) > 1e-3


def test_torr25_holds_the_runs_of_torrent_at_each_ratio():
    data = make_corrupted_regression(500, 6, 2, corruption_ratio=0.4, random_state=0)
    many = Torrent25(corruption_ratio=0.4).fit(data.X, data.y, batches=data.batches)
    assert many.factors_[[0, 10, 20]] == pytest.approx([0.75, 1.0, 1.25])
    for row in (0, 10, 20):
        one = Torrent(corruption_ratio=0.4 * many.factors_[row])
        one.fit(data.X, data.y, batches=data.batches)
        np.testing.assert_allclose(many.ratio_coef_[row], one.coef_, atol=1e-10)
        assert many.ratio_intercept_[row] == pytest.approx(one.intercept_, abs=1e-10)
    np.testing.assert_allclose(many.coef_, many.ratio_coef_.mean(axis=0), atol=1e-12)


def test_torr25_never_keeps_fewer_than_three_rows_per_coefficient():
    data = make_corrupted_regression(500, 6, 1, corruption_ratio=0.9, random_state=0)
    many = Torrent25(corruption_ratio=0.9, fit_intercept=False).fit(data.X, data.y)
    cut = Torrent(corruption_ratio=1.0 - 18 / 500, fit_intercept=False).fit(data.X, data.y)
    np.testing.assert_allclose(many.ratio_coef_[-5:], np.tile(cut.coef_, (5, 1)), atol=1e-10)


# RLHH


def naive_heuristic_size(r):
    """Follow the definition candidate by candidate."""
    n = len(r)
    half = math.ceil(n / 2)
    best, best_score = half, None
    for tau in range(half + 1, n):
        count = tau - half
        q = math.sqrt(sum(value**2 for value in r[:count]) / count)
        o = min(range(n), key=lambda k: (abs(r[k] - q), k))
        last = r[tau - 1]
        if last > min(2 * tau * r[o] / (o + 1), (r[-1] + r[o]) / 2):
            continue
        slope = (r[-1] - last) / (n - tau)
        score = ((last + 1) / tau) / slope if slope > 0 else math.inf
        if best_score is None or score < best_score:
            best, best_score = tau, score
    return best


@pytest.mark.parametrize("seed", range(30))
def test_the_size_of_rlhh_is_that_of_a_loop_over_its_definition(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    r = np.abs(rng.standard_normal(n)) * np.where(rng.uniform(size=n) < 0.3, 20.0, 0.5)
    if seed % 3 == 0:
        r = np.round(r, 1)  # ties
    r.sort()
    assert heuristic_size(r) == naive_heuristic_size(r.tolist())


def test_rlhh_keeps_at_least_half_of_the_rows_whatever_they_are():
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 10, 11, 200):
        assert heuristic_size(np.sort(rng.exponential(size=n) ** 4)) >= n / 2
        assert heuristic_size(np.zeros(n)) >= n / 2


def test_rlhh_breaks_down_beyond_one_half():
    good = make_corrupted_regression(2000, 10, 1, corruption_ratio=0.4, random_state=0)
    bad = make_corrupted_regression(2000, 10, 1, corruption_ratio=0.8, random_state=0)
    fit = RLHH(fit_intercept=False).fit
    assert error(fit(good.X, good.y), good.coef) < 0.1
    assert error(fit(bad.X, bad.y), bad.coef) > 0.3
    assert SPL(fit_intercept=False).fit(bad.X, bad.y).selected_[~bad.clean].mean() < 0.2


# DRLR and ORLR


def naive_consistent_size(r, before, lowest):
    """Scan downwards as the definition says."""
    n = len(r)
    for tau in range(before, min(lowest, before) - 1, -1):
        count = math.floor(tau - n / 2)
        if count < 1:
            continue
        q = math.sqrt(sum(value**2 for value in r[:count]) / count)
        o = min(range(n), key=lambda k: (abs(r[k] - q), k))
        if r[tau - 1] <= 2 * tau * q / (o + 1):
            return tau
    return min(lowest, before)


@pytest.mark.parametrize("seed", range(30))
def test_the_size_of_hrr_is_that_of_a_downward_scan(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    r = np.sort(np.abs(rng.standard_normal(n)) * np.where(rng.uniform(size=n) < 0.4, 50.0, 0.5))
    before = int(rng.integers(1, n + 1))
    lowest = int(rng.integers(1, n + 1))
    assert consistent_size(r, before, lowest) == naive_consistent_size(r.tolist(), before, lowest)


@pytest.mark.parametrize("how", ["median", "mean"])
def test_drlr_breaks_down_once_half_of_the_batches_follow_another_model(how):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10 * 200, 5))
    ids = np.repeat(np.arange(10), 200)
    truth = np.ones(5)
    errors = {}
    for n_bad in (4, 6):
        y = X @ truth + 0.1 * rng.standard_normal(len(X))
        y[ids < n_bad] = X[ids < n_bad] @ -truth
        model = DRLR(consolidation=how, fit_intercept=False).fit(X, y, batches=ids)
        errors[n_bad] = error(model, truth)
        assert model.trusted_.sum() == 6
        assert model.trusted_[:n_bad].any() == (n_bad == 6)
        assert not model.selected_[~model.trusted_[ids]].any()
    assert errors[4] < 0.05
    assert errors[6] > 1.0


def test_drlr_by_the_mean_jumps_at_five_bad_batches_of_ten():
    errors = {}
    for n_bad in (4, 5):
        data = make_corrupted_regression(
            1000, 10, 10, mode="batches", n_bad_batches=n_bad, random_state=0
        )
        model = DRLR(consolidation="mean", fit_intercept=False)
        errors[n_bad] = error(model.fit(data.X, data.y, batches=data.batches), data.coef)
    assert errors[5] > 3.0 * errors[4]


def test_the_geometric_median_has_no_net_pull_or_sits_on_a_point():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((9, 4))
    at = geometric_median(points)
    away = points - at
    pull = (away / np.linalg.norm(away, axis=1)[:, None]).sum(axis=0)
    assert np.linalg.norm(pull) < 1e-6
    on_a_point = np.vstack([np.tile(points[0], (6, 1)), points[1:5]])
    np.testing.assert_allclose(geometric_median(on_a_point), points[0], atol=1e-9)
    np.testing.assert_allclose(geometric_median(points[:1]), points[0])


def test_the_majority_is_the_tightest_half_plus_one():
    points = np.array([[0.0], [10.0], [0.1], [11.0], [0.3], [50.0]])
    assert majority(points).tolist() == [0, 1, 2, 4]
    assert majority(points[:5]).tolist() == [0, 2, 4]
    assert majority(points[:1]).tolist() == [0]


def orlr_batches(slopes, p=3, n=60):
    rng = np.random.default_rng(0)
    for slope in slopes:
        X = rng.standard_normal((n, p)) + 5.0
        yield X, X @ np.full(p, slope) + 1.0


def test_orlr_taken_batch_by_batch_is_orlr_fitted_at_once():
    parts = list(orlr_batches([1.0, -2.0, 1.0, 1.0, 3.0, 1.0]))
    online = ORLR(window=4)
    for X, y in parts:
        online.partial_fit(X, y)
    X, y = np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts])
    at_once = ORLR(window=4).fit(X, y, batches=np.repeat(np.arange(6), 60))
    np.testing.assert_allclose(online.coef_, at_once.coef_, atol=1e-10)
    assert online.n_batches_seen_ == at_once.n_batches_seen_ == 6
    np.testing.assert_allclose(online.coef_, 1.0, atol=1e-8)


def test_orlr_forgets_the_oldest_estimate_outside_the_majority():
    model = ORLR(window=4, fit_intercept=False)
    for X, y in orlr_batches([1.0, 7.0, 1.0, 1.0, 9.0]):
        model.partial_fit(X, y - 1.0)
    np.testing.assert_allclose(model.batch_coef_[:, 0], [1.0, 1.0, 1.0, 9.0], atol=1e-8)
    assert model.trusted_.tolist() == [True, True, True, False]


def test_orlr_follows_a_window_full_of_bad_batches():
    model = ORLR(window=3)
    for X, y in orlr_batches([5.0, 5.0, 1.0, 1.0, 1.0]):
        model.partial_fit(X, y)
    np.testing.assert_allclose(model.coef_, 5.0, atol=1e-8)


def test_fitting_orlr_again_forgets_what_it_saw():
    model = ORLR()
    for X, y in orlr_batches([1.0, 2.0]):
        model.fit(X, y)
    assert model.n_batches_seen_ == 1
    np.testing.assert_allclose(model.coef_, 2.0, atol=1e-8)


def test_orlr_takes_dense_and_sparse_batches_of_one_stream():
    model = ORLR()
    for k, (X, y) in enumerate(orlr_batches([1.0, 1.0, 1.0])):
        model.partial_fit(sp.csr_array(X) if k == 1 else X, y)
    np.testing.assert_allclose(model.batch_coef_, 1.0, atol=1e-7)
    np.testing.assert_allclose(model.batch_intercept_, 1.0, atol=1e-6)


# SPL


def test_pooled_spl_is_the_self_paced_regressor_with_the_same_pace():
    data = make_corrupted_regression(1000, 10, 4, corruption_ratio=0.5, random_state=0)
    spl = SPL(scope="pooled").fit(data.X, data.y, batches=data.batches)
    same = SelfPacedRegressor(pace=Geometric(0.1, 1.1, 1.0)).fit(data.X, data.y)
    np.testing.assert_allclose(spl.coef_, same.coef_, atol=1e-8)
    np.testing.assert_array_equal(spl.selected_, same.selected_)
    assert spl.pace_ == 1.0


def test_spl_says_when_even_the_last_pace_keeps_nothing():
    X, y, _, _, _ = noiseless()
    with pytest.raises(NoRowSelectedError, match="Rescale y"):
        SPL(start=1e-9, ceiling=1e-8).fit(X, 1e6 * y)


# Reweighting, least squares, zeros


@pytest.mark.parametrize("model", [STIR(), SVAM()], ids=name)
def test_reweighting_comes_close_to_the_fit_of_the_clean_rows(model):
    data = make_corrupted_regression(4000, 10, 1, corruption_ratio=0.4, random_state=0)
    oracle = LeastSquares().fit(data.X[data.clean], data.y[data.clean])
    model = clone(model).fit(data.X, data.y)
    assert error(model, data.coef) < 2.5 * error(oracle, data.coef)
    assert model.selected_[data.clean].mean() > 0.95
    assert model.selected_[~data.clean].mean() < 0.3


def test_least_squares_is_least_squares():
    X, y, _, _, _ = noiseless()
    model = LeastSquares(fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(model.coef_, np.linalg.lstsq(X, y, rcond=None)[0], rtol=1e-10)


def test_zeros_predict_the_median_or_zero():
    X, y, _, _, _ = noiseless()
    assert not Zeros().fit(X, y).coef_.any()
    np.testing.assert_array_equal(Zeros().fit(X, y).predict(X), np.median(y))
    np.testing.assert_array_equal(Zeros(fit_intercept=False).fit(X, y).predict(X), 0.0)


# Warnings and bad parameters


@pytest.mark.parametrize(
    "model", [m for m in ROBUST if not isinstance(m, Torrent) or m.variant == "fc"], ids=name
)
def test_an_iteration_that_was_cut_short_warns(model):
    X, y, _, _, _ = noiseless(share=0.3)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model = clone(model).set_params(max_iter=1).fit(X, y)
    assert model.n_iter_ == 1
    assert not model.status_.converged


def test_redundant_columns_warn():
    X, y, _, _, _ = noiseless()
    with pytest.warns(RankWarning, match="minimum-norm"):
        Torrent().fit(np.hstack([X, X[:, :1]]), y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Torrent(corruption_ratio=1.0), "corruption_ratio must lie in"),
        (Torrent(corruption_ratio=-0.1), "corruption_ratio must lie in"),
        (Torrent(corruption_ratio=[0.1, 0.2]), "one per batch"),
        (Torrent(variant="newton"), "variant must be one of 'fc'"),
        (Torrent(switch=-1.0), "switch must be"),
        (Torrent(scope="batch"), "scope must be one of"),
        (Torrent25(n_ratios=0), "n_ratios must be a whole number"),
        (Torrent25(spread=float("nan")), "spread must be"),
        (RLHH(max_iter=0), "max_iter must be a whole number"),
        (RLHH(tol=-1.0), "tol must be"),
        (DRLR(consolidation="mode"), "consolidation must be one of"),
        (ORLR(window=2.5), "window must be a whole number"),
        (SPL(start=2.0), "start must be"),
        (SPL(factor=1.0), "factor must be"),
        (SPL(ceiling="1"), "ceiling must be"),
        (STIR(growth=1.0), "growth must be"),
        (STIR(tol=0.0), "tol must be"),
        (SVAM(width=0.0), "width must be"),
        (LeastSquares(scope=None), "scope must be one of"),
    ],
)
def test_a_bad_parameter_is_named_with_its_value(model, message):
    X, y, _, _, _ = noiseless()
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
