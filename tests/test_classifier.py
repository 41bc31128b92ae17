"""Noisy labels: what is found of them, and that the model is not misled."""

import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, log_loss
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import easyfirst
from easyfirst import SelfPaced, SelfPacedClassifier
from easyfirst.consensus.labels import models as label_models
from easyfirst.consensus.labels.levels import Levels
from easyfirst.consensus.labels.noise import (
    LabelNoise,
    _rows_of_class,
    estimate_noise,
    refined_noise,
)
from easyfirst.consensus.labels.pairs import evidence_of_pairs
from easyfirst.engines import Inline, Threads
from easyfirst.errors import ModelFileError, NoSingleModelWarning
from easyfirst.local import labels
from easyfirst.local.label_judge import FOLDS, Forest, folds_of, without_noise
from easyfirst.local.labels import expected_counts
from easyfirst.penalties import Lasso, NoPenalty, Ridge
from easyfirst.schedules import Geometric, Quantile
from test_engines import Forgetful

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "classification_label_noise"


# The checks fit a handful of rows and noise, on purpose, and do not mind being told.
@pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([SelfPacedClassifier(), SelfPacedClassifier.paper()])
def test_scikit_learns_check_passes(estimator, check):
    check(estimator)


def clouds(n=3000, noise=(0.2, 0.2), seed=0, n_classes=2):
    """Clouds of rows that overlap a little, with flipped labels: X, right and given labels."""
    rng = np.random.default_rng(seed)
    right = rng.integers(0, n_classes, n)
    centers = 4.0 * np.eye(n_classes, 4)
    X = centers[right] + rng.normal(size=(n, 4))
    flipped = rng.random(n) < np.array(noise)[right]
    return X, right, np.where(flipped, (right + 1) % n_classes, right)


@pytest.mark.parametrize("noise", [(0.1, 0.1), (0.3, 0.3), (0.0, 0.4)], ids=str)
def test_flips_are_found_and_do_no_harm(noise):
    X, right, given = clouds(noise=noise)
    test, truth, _ = clouds(seed=1)
    model = SelfPacedClassifier().fit(X, given)
    wrong = right != given
    rates = [wrong[right == 0].mean(), wrong[right == 1].mean()]
    np.testing.assert_allclose(model.label_noise_[[0, 1], [1, 0]], rates, atol=0.05)
    assert model.corrupted_fraction_ == pytest.approx(wrong.mean(), abs=0.03)
    low, high = model.corrupted_interval_
    assert low <= model.corrupted_fraction_ <= high
    assert np.mean(model.selected_ == ~wrong) > 0.97
    assert np.mean(model.suggested_labels_ == right) > 0.97
    assert average_precision_score(wrong, 1.0 - model.weights_) > 0.9
    plain = LogisticRegression().fit(X, given)
    oracle = LogisticRegression().fit(X, right)
    losses = [log_loss(truth, fit.predict_proba(test)) for fit in (model, plain, oracle)]
    assert losses[0] < 0.5 * losses[1] + 0.5 * losses[2]
    assert model.score(test, truth) > oracle.score(test, truth) - 0.01


def test_right_labels_give_a_plain_logistic_regression():
    X, right, _ = clouds()
    model = SelfPacedClassifier().fit(X, right)
    plain = LogisticRegression(tol=1e-10, max_iter=1000).fit(X, right)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-4)
    np.testing.assert_allclose(model.intercept_, plain.intercept_, rtol=1e-4)
    np.testing.assert_array_equal(model.label_noise_, np.eye(2))
    assert model.selected_.all()
    assert model.corrupted_fraction_ == 0.0
    assert model.doubts_ == ()


def test_several_classes_with_names_and_weights():
    X, right, given = clouds(4000, (0.3, 0.0, 0.2), n_classes=3)
    names = np.array(["ash", "beech", "cedar"])
    model = SelfPacedClassifier(class_weight={"ash": 2.0}).fit(X, names[given])
    assert model.classes_.tolist() == names.tolist()
    expected = np.array([[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.2, 0.0, 0.8]])
    np.testing.assert_allclose(model.label_noise_, expected, atol=0.05)
    assert np.mean(model.suggested_labels_ == names[right]) > 0.97
    assert model.coef_.shape == (3, 4)
    assert model.predict_proba(X).shape == (4000, 3)
    assert np.mean(model.predict(X) == names[right]) > 0.97
    heavier = SelfPacedClassifier(class_weight="balanced").fit(X, names[given])
    assert not np.allclose(heavier.intercept_, model.intercept_)


def test_rows_that_say_little_about_their_labels_are_in_doubt():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y = (rng.random(2000) < 0.04 + 0.08 * (X[:, 0] > 0)).astype(int)
    with pytest.warns(NoSingleModelWarning, match="not checked"):
        model = SelfPacedClassifier().fit(X, y)
    np.testing.assert_array_equal(model.label_noise_, np.eye(2))


def test_labels_without_any_signal_are_taken_as_right():
    rng = np.random.default_rng(0)
    model = SelfPacedClassifier().fit(rng.normal(size=(1000, 3)), rng.integers(0, 2, 1000))
    assert model.selected_.all()
    assert "no better than chance" in model.notes_[0]


def test_bad_batches_are_named():
    X, right, _ = clouds(4000)
    rng = np.random.default_rng(2)
    batches = np.repeat(np.arange(10), 400)
    rate = np.where(np.isin(batches, [2, 5, 6]), 0.45, 0.02)
    given = np.where(rng.random(4000) < rate, 1 - right, right)
    model = SelfPacedClassifier().fit(X, given, batches=batches)
    assert sorted(np.argsort(model.batch_clean_share_)[:3].tolist()) == [2, 5, 6]
    assert any("2 (4" in note and "5 (4" in note and "6 (4" in note for note in model.notes_)
    good = LogisticRegression().fit(X[rate < 0.1], right[rate < 0.1])
    assert model.score(X, right) > good.score(X, right) - 0.005


def test_the_result_is_the_same_on_every_engine():
    X, _, given = clouds(600)
    fits = [
        SelfPacedClassifier(engine=engine, n_batches=3).fit(X, given)
        for engine in (Inline(), Threads(2), Threads(3))
    ]
    for other in fits[1:]:
        np.testing.assert_array_equal(other.coef_, fits[0].coef_)
        np.testing.assert_array_equal(other.weights_, fits[0].weights_)
        np.testing.assert_array_equal(other.label_noise_, fits[0].label_noise_)


def test_sparse_rows_give_the_fit_of_dense_ones():
    X, _, given = clouds(600)
    X[np.abs(X) < 0.7] = 0.0
    dense = SelfPacedClassifier().fit(X, given)
    sparse = SelfPacedClassifier().fit(sp.csr_array(X), given)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-6)
    np.testing.assert_allclose(sparse.weights_, dense.weights_, atol=1e-6)


def test_folds_depend_on_what_rows_hold_alone():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 3)) * (rng.random((5000, 3)) < 0.5)
    folds = folds_of(X)
    np.testing.assert_array_equal(folds_of(sp.csr_array(X)), folds)
    np.testing.assert_array_equal(folds_of(X[::-1]), folds[::-1])
    dense = folds[np.all(X != 0, axis=1)]
    assert np.bincount(dense, minlength=FOLDS).min() > 0.12 * dense.size


def test_the_noise_follows_from_certain_rows_alone():
    rng = np.random.default_rng(0)
    chance = np.clip(rng.uniform(-0.1, 1.3, 6000), 0.0, 1.0)  # 1 in 14 is certain to be of class 0
    right = rng.random(6000) < chance
    given = np.where(rng.random(6000) < 0.25, ~right, right)
    seen = 0.25 + 0.5 * chance
    noise = estimate_noise(np.stack([1 - seen, seen], axis=1), given.astype(int), np.ones(6000))
    np.testing.assert_allclose(noise.matrix[[0, 1], [1, 0]], 0.25, atol=0.08)


def test_the_rows_of_a_rare_class_are_not_those_with_its_label():
    lines = np.array([[0.7, 0.3], [0.45, 0.55]])
    given = np.array([2704.0, 1296.0])  # by 30 % flips of 3,760 and 240 rows
    found = _rows_of_class(given, lines, variance=np.array([1e-4, 1e-2]))
    np.testing.assert_allclose(found, [3760.0, 240.0], rtol=1e-6)
    np.testing.assert_array_equal(_rows_of_class(given, lines, np.zeros(2)), given)


def test_a_class_without_certain_rows_has_the_rate_of_the_others():
    rng = np.random.default_rng(0)
    chance = np.clip(rng.uniform(-0.4, 0.85, 8000), 0.0, 1.0)  # no row is certain to be of class 1
    right = rng.random(8000) < chance
    given = np.where(rng.random(8000) < 0.2, ~right, right)
    seen = 0.2 + 0.6 * chance
    noise = estimate_noise(np.stack([1 - seen, seen], axis=1), given.astype(int), np.ones(8000))
    np.testing.assert_allclose(noise.matrix[[0, 1], [1, 0]], 0.2, atol=0.05)
    one_sided = np.where(right & (rng.random(8000) < 0.4), False, right)
    seen = 0.6 * chance
    noise = estimate_noise(np.stack([1 - seen, seen], axis=1), one_sided.astype(int), np.ones(8000))
    assert noise.matrix[0, 1] == 0.0
    assert noise.matrix[1, 0] > 0.3


def test_a_class_of_which_no_row_is_certain_looks_half_wrong_and_is_in_doubt():
    rng = np.random.default_rng(0)
    seen = np.minimum(rng.uniform(0.0, 0.9, 8000), 0.52)  # of class 1: a plateau, and never sure
    given = (rng.random(8000) < seen).astype(int)
    noise = estimate_noise(np.stack([1 - seen, seen], axis=1), given, np.ones(8000))
    assert noise.matrix[1, 0] > 0.4
    assert 1 in noise.in_doubt


def test_rows_that_are_surely_wrong_keep_their_order():
    noise = np.array([[0.8, 0.2], [0.2, 0.8]])
    given = np.linspace(0.05, 0.95, 50)  # half of them beyond what the noise permits
    logits = without_noise(np.stack([1 - given, given], axis=1), noise)
    assert np.all(np.diff(logits[:, 1]) > 0)


def test_noise_is_counted_where_most_rows_are_certain():
    rng = np.random.default_rng(0)
    right = rng.integers(0, 4, 3000)
    given = np.where(rng.random(3000) < 0.3, (right + 1) % 4, right)
    sure = 0.01 / 3 * np.ones((3000, 4))
    sure[np.arange(3000), right] = 0.99
    off = LabelNoise(0.8 * np.eye(4) + 0.2 * np.roll(np.eye(4), 1, axis=1), np.full(4, 0.01))
    noise = refined_noise(off, sure, given, np.ones(3000))
    expected = 0.7 * np.eye(4) + 0.3 * np.roll(np.eye(4), 1, axis=1)
    np.testing.assert_allclose(noise.matrix, expected, atol=0.03)
    np.testing.assert_allclose(noise.matrix.sum(axis=1), 1.0)
    assert refined_noise(off, np.full((3000, 4), 0.25), given, np.ones(3000)) is off


@pytest.mark.parametrize("seed", [1, 9402])
def test_ten_digits_that_are_given_as_the_next_one_are_found(seed):
    X, right = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    given = np.where(rng.random(right.size) < 0.3, (right + 1) % 10, right)
    model = SelfPacedClassifier().fit(X / 16.0, given)
    expected = 0.7 * np.eye(10) + 0.3 * np.roll(np.eye(10), 1, axis=1)
    np.testing.assert_allclose(model.label_noise_, expected, atol=0.05)
    assert np.mean(model.suggested_labels_ == right) > 0.97


def test_flips_of_one_class_among_ten_are_found():
    X, right = load_digits(return_X_y=True)
    moved = (right == 3) & (np.random.default_rng(2).random(right.size) < 0.3)
    given = np.where(moved, 4, right)
    model = SelfPacedClassifier(n_jobs=1).fit(X / 16.0, given)
    share = moved[right == 3].mean()
    assert model.label_noise_[3, 4] == pytest.approx(share, abs=0.1)
    assert np.mean(~model.selected_[moved]) > 0.9
    assert np.mean(~model.selected_[~moved]) < 0.01


def _blobs(rng, n, n_classes, apart, noise):
    codes = rng.integers(n_classes, size=n)
    return rng.normal(0.0, apart, (n_classes, 4))[codes] + noise(size=(n, 4)), codes


@pytest.mark.parametrize("seed", range(3))
def test_overlapping_classes_with_wild_values_in_columns_are_left_alone(seed):
    rng = np.random.default_rng([seed, 1])
    X, right = _blobs(rng, 800, 4, 1.0, rng.standard_normal)
    wild = rng.random(X.shape) < 0.02
    X[wild] += rng.normal(0.0, 100.0, np.count_nonzero(wild))
    assert np.mean(~SelfPacedClassifier(n_jobs=1).fit(X, right).selected_) <= 0.01


def test_two_classes_that_columns_do_not_tell_apart_are_not_flipped():
    rng = np.random.default_rng(3)
    right = rng.integers(4, size=1000)
    X = np.array([0.0, 0.0, 8.0, 16.0])[right, None] + rng.standard_normal((1000, 4))
    with warnings.catch_warnings():  # of these two, the surest rows have either label
        warnings.simplefilter("ignore", NoSingleModelWarning)
        assert SelfPacedClassifier(n_jobs=1).fit(X, right).selected_.all()


def test_heavy_tails_of_classes_are_flagged_seldom_and_never_without_a_doubt():
    rng = np.random.default_rng(9)
    X, right = _blobs(rng, 1000, 4, 1.0, lambda size: rng.standard_t(2, size))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoSingleModelWarning)
        model = SelfPacedClassifier(n_jobs=1).fit(X, right)
    flagged = np.mean(~model.selected_)
    assert flagged <= 0.15
    assert flagged <= 0.01 or model.doubts_


@pytest.mark.parametrize("n_classes", [4, 6])
def test_labels_that_go_to_any_other_class_have_one_rate(n_classes):
    rng = np.random.default_rng(n_classes)
    X, right = _blobs(rng, 1000, n_classes, 3.0, rng.standard_normal)
    moved = rng.random(1000) < 0.2
    given = np.where(moved, (right + rng.integers(1, n_classes, 1000)) % n_classes, right)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoSingleModelWarning)
        model = SelfPacedClassifier(n_jobs=1).fit(X, given)
    assert model.corrupted_fraction_ == pytest.approx(moved.mean(), abs=0.03)
    assert np.mean(model.suggested_labels_ == right) > 0.95


def test_flips_of_some_pairs_of_classes_leave_the_others_alone():
    rng = np.random.default_rng(5)
    right = rng.integers(4, size=1600)
    # The first two classes are far from all, the others overlap.
    centers = np.array([[0.0, 12.0], [12.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
    X = centers[right] + rng.standard_normal((1600, 2))
    moved = (right == 0) & (rng.random(1600) < 0.3)
    model = SelfPacedClassifier(n_jobs=1).fit(X, np.where(moved, 1, right))
    assert model.label_noise_[0, 1] == pytest.approx(0.3, abs=0.06)
    np.testing.assert_array_equal(model.label_noise_[2:, 2:], np.eye(2))
    np.testing.assert_array_equal(~model.selected_, moved)


@pytest.mark.parametrize(("is_curved", "fits"), [(False, 1), (True, FOLDS)])
def test_boosters_are_fitted_where_linear_models_miss_something(is_curved, fits):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 3))
    score = 4.0 * (np.square(X).sum(axis=1) - 2.5) if is_curved else 2.0 * X.sum(axis=1)
    right = (score + rng.logistic(size=12_000) > 0).astype(int)
    given = np.where(rng.random(12_000) < 0.2, 1 - right, right)
    with mock.patch.object(label_models, "booster", wraps=label_models.booster) as booster:
        model = SelfPacedClassifier().fit(X, given)
    assert booster.call_count == fits
    np.testing.assert_allclose(model.label_noise_[[0, 1], [1, 0]], 0.2, atol=0.05)


def test_more_rows_than_the_sample_are_fitted_to_the_optimum():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30_000, 3))
    X[:, 2] = rng.random(30_000) < 0.0005  # hardly a row of the sample has it
    y = (X[:, 0] - X[:, 1] + X[:, 2] + 0.1 * rng.logistic(size=30_000) > 0).astype(int)
    model = SelfPacedClassifier().fit(X, y)
    np.testing.assert_array_equal(model.label_noise_, np.eye(2))
    plain = LogisticRegression(solver="newton-cholesky", tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-5)
    np.testing.assert_allclose(model.intercept_, plain.intercept_, rtol=1e-5, atol=1e-6)


def test_rows_of_nearly_one_probability_count_as_one():
    rng = np.random.default_rng(0)
    second = rng.random(20_000)
    right = np.stack([1.0 - second, second], axis=1)
    given = np.eye(2)[(rng.random(20_000) < 0.1 + 0.7 * second).astype(int)]
    weight, start = rng.random(20_000), np.array([[0.9, 0.1], [0.1, 0.9]])
    joined = expected_counts(right, given, weight, start)
    with mock.patch.object(labels, "GRAINS", 10_000):
        alone = expected_counts(right, given, weight, start)
    np.testing.assert_allclose(joined, alone, rtol=1e-3)
    assert joined.sum() == pytest.approx(weight.sum())


def test_the_status_says_what_was_done():
    X, right, _ = clouds(400)
    assert str(SelfPacedClassifier().fit(X, right).status_).startswith("Labels were judged, then")
    few = SelfPacedClassifier().fit(X[:60], right[:60])
    assert str(few.status_).startswith("The fit converged in")
    with pytest.warns(ConvergenceWarning, match="within 1 steps; raise max_iter"):
        SelfPacedClassifier(max_iter=1).fit(X[:60], right[:60])


def test_trusted_and_rejected_rows_are_what_they_are_said_to_be():
    X, right, given = clouds(800)
    wrong = np.flatnonzero(right != given)
    trusted, rejected = np.zeros(800, dtype=bool), np.zeros(800, dtype=bool)
    trusted[wrong[:5]] = rejected[wrong[5:10]] = True
    model = SelfPacedClassifier().fit(X, given, trusted=trusted, rejected=rejected)
    np.testing.assert_array_equal(model.weights_[trusted], 1.0)
    np.testing.assert_array_equal(model.weights_[rejected], 0.0)
    free = SelfPacedClassifier().fit(X, given)
    assert np.median(free.weights_[trusted]) < 0.5


@pytest.mark.parametrize("pace", [Quantile(0.5, 0.9, 0.1), Geometric(1e-3, 10.0, 0.1)], ids=repr)
def test_a_rare_class_is_never_dropped_by_a_pace(pace):
    rng = np.random.default_rng(0)
    right = (rng.random(3000) < 0.06).astype(int)
    X = rng.normal(size=(3000, 3)) + 1.5 * right[:, None]
    model = SelfPacedClassifier.paper(pace=pace).fit(X, right)
    assert model.selected_[right == 1].mean() >= 0.1
    assert model.predict(X)[right == 1].mean() > 0.1


def test_the_rare_class_of_census_income_is_not_dropped():
    path = DATA / "census_income_kdd.parquet"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    table = pd.read_parquet(path).iloc[:6000]
    numbers = table.select_dtypes("number")
    X = (numbers - numbers.mean()) / numbers.std().replace(0, 1)
    y = table["label"].astype(str)
    rare = y.value_counts().index[-1]
    model = SelfPacedClassifier.paper().fit(X.to_numpy(), y)
    assert model.selected_[(y == rare).to_numpy()].mean() > 0.5
    assert np.any(model.predict(X.to_numpy()) == rare)


def test_what_cannot_be_fitted_is_refused_with_a_way_out():
    X, right, _ = clouds(100)
    with pytest.raises(ValueError, match="one class only"):
        SelfPacedClassifier().fit(X, np.zeros(100))
    with pytest.raises(ValueError, match="continuous"):
        SelfPacedClassifier().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="quadratic penalties only"):
        SelfPacedClassifier(penalty=Lasso(1.0)).fit(X, right)
    with pytest.raises(ValueError, match="class_weight names the class 7"):
        SelfPacedClassifier(class_weight={7: 1.0}).fit(X, right)
    with pytest.raises(ValueError, match="tol must lie between"):
        SelfPacedClassifier(tol=2.0).fit(X, right)


def test_few_rows_are_not_checked_and_say_so():
    X, right, _ = clouds(60)
    model = SelfPacedClassifier(penalty=Ridge(1.0)).fit(X, right)
    assert "Labels were not checked" in model.notes_[0]


def test_suspects_have_the_columns_of_cleanlab_and_keep_the_frame():
    X, right, given = clouds(600)
    names = np.array(["no", "yes"])
    frame = pd.DataFrame(X, index=[f"row {i}" for i in range(600)])
    frame.columns = [f"c{j}" for j in range(4)]
    model = SelfPacedClassifier().fit(frame, names[given])
    found = model.suspects(frame, names[given])
    assert list(found.columns) == [
        "row_id", "is_label_issue", "label_quality", "given_label", "predicted_label", "reason",
    ]  # fmt: skip
    assert len(found) == np.sum(~model.selected_)
    assert found["label_quality"].is_monotonic_increasing
    assert np.mean(found["predicted_label"] != found["given_label"]) == 1.0
    wrong = frame.index[right != given]
    assert np.mean(found["row_id"].isin(wrong)) > 0.9
    fresh = model.judge(frame[:50], names[given[:50]])  # others: judged by the linear model alone
    assert np.mean(fresh.is_wrong == (right != given)[:50]) > 0.9
    with pytest.raises(ValueError, match="none of the classes"):
        model.suspects(frame, np.full(600, "perhaps"))
    pipeline = make_pipeline(StandardScaler(), SelfPacedClassifier()).fit(frame, names[given])
    assert len(easyfirst.suspects(pipeline, frame, names[given])) > 50


@pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")
def test_a_model_file_gives_every_bit_back(tmp_path):
    X, _, given = clouds(600, (0.3, 0.1, 0.0), n_classes=3)
    names = np.array(["ash", "beech", "cedar"])
    for y in (given, names[given], names[given].astype(object), given > 0):
        weight = dict.fromkeys(np.unique(y).tolist()[:1], 1.5)
        model = SelfPacedClassifier(class_weight=weight, n_batches=2).fit(X, y)
        path = tmp_path / "model.safetensors"
        model.save(path, overwrite=True)
        again = easyfirst.load(path)
        for name in (
            "classes_", "coef_", "intercept_", "label_noise_", "weights_", "selected_",
            "suggested_labels_", "batch_clean_share_", "corrupted_fraction_", "corrupted_interval_",
            "history_", "notes_", "doubts_", "status_", "n_features_in_",
        ):  # fmt: skip
            first, second = getattr(model, name), getattr(again, name)
            np.testing.assert_array_equal(np.asarray(second), np.asarray(first), err_msg=name)
        assert again.classes_.dtype == model.classes_.dtype
        assert again.class_weight[model.classes_.tolist()[0]] == 1.5
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert len(again.suspects(X, y)) == np.sum(~model.selected_)


@pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")
def test_a_damaged_model_is_refused(tmp_path):
    X, _, given = clouds(200)
    model = SelfPacedClassifier().fit(X, given)
    model.label_noise_ = 2.0 * model.label_noise_
    model.save(tmp_path / "model.safetensors")
    with pytest.raises(ModelFileError, match="label_noise"):
        easyfirst.load(tmp_path / "model.safetensors")


@pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_scikit_learns_model_and_its_onnx_predict_the_same(n_classes):
    X, _, given = clouds(300, (0.2,) * n_classes, n_classes=n_classes)
    model = SelfPacedClassifier().fit(X, given)
    plain = model.to_sklearn()
    np.testing.assert_allclose(plain.predict_proba(X), model.predict_proba(X), rtol=1e-10)
    onnx, runtime = pytest.importorskip("skl2onnx"), pytest.importorskip("onnxruntime")
    types = [("X", onnx.common.data_types.FloatTensorType([None, 4]))]
    converted = onnx.convert_sklearn(plain, initial_types=types)
    session = runtime.InferenceSession(
        converted.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    told = session.run(None, {"X": X.astype(np.float32)})[0]
    assert np.mean(told == model.predict(X)) > 0.99


def test_summary_and_report_say_what_was_found(tmp_path):
    X, _, given = clouds(600)
    model = SelfPacedClassifier(n_batches=2).fit(X, given)
    text = str(model.summary())
    assert "Labels that look wrong" in text
    assert "0 given as 1" in text
    assert list(model.summary().to_frame()["name"]) == ["x0", "x1", "x2", "x3", "(intercept)"]
    page = model.report(tmp_path / "report.html", X, given)
    assert "<script" not in page.html
    assert "labels look wrong" in page.html
    assert page.html.count('data-label="given"') == 50
    assert (tmp_path / "report.html").read_text() == page.html
    assert "Give the rows" in model.report().html


def test_a_source_of_named_columns_gives_the_bits_of_its_rows(tmp_path):
    X, _, given = clouds(900)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(label=given)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=300)
    source = easyfirst.read_parquet(tmp_path / "rows.parquet", target="label", rows_per_batch=300)
    here = SelfPacedClassifier(n_batches=3).fit(X, given)
    there = SelfPacedClassifier().fit(source)
    np.testing.assert_array_equal(there.coef_, here.coef_)
    np.testing.assert_array_equal(there.label_noise_, here.label_noise_)
    assert there.classes_.tolist() == [0, 1]
    assert there.feature_names_in_.tolist() == list("abcd")
    assert not hasattr(there, "weights_")


def test_workers_that_forget_everything_and_a_cluster_give_the_same_bits():
    X, _, given = clouds(600, (0.3, 0.1))
    here = SelfPacedClassifier(n_batches=3, engine="inline").fit(X, given)
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        there = SelfPacedClassifier(n_batches=3, engine=client).fit(X, given)
    for other in (there, SelfPacedClassifier(n_batches=3, engine=Forgetful()).fit(X, given)):
        np.testing.assert_array_equal(other.coef_, here.coef_)
        np.testing.assert_array_equal(other.weights_, here.weights_)


def test_classes_that_overlap_are_not_taken_for_noisy_ones():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((3000, 3))
    y = rng.random(3000) < expit(0.7 * X[:, 0] + 0.3 * X[:, 1])  # as a person's sex by age and wage
    model = SelfPacedClassifier().fit(X, y)
    assert model.selected_.all()
    assert any("between the classes" in note for note in model.notes_)
    plain = LogisticRegression().fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=0.01)
    flipped = (X[:, 0] > 0) ^ (rng.random(3000) < 0.3)
    found = SelfPacedClassifier().fit(X, flipped)
    assert found.corrupted_fraction_ == pytest.approx(0.3, abs=0.04)


def _overlapping(kind, n, seed):
    """Rows whose labels are left to chance, and are all right."""
    rng = np.random.default_rng([seed, n])
    X = rng.standard_normal((n, 4))
    if kind == "weak line":
        return X, rng.random(n) < expit(0.5 * X[:, 0] + 0.4 * X[:, 1])
    if kind == "skewed column":
        X = np.exp(0.6 * X)
        return X, rng.random(n) < expit(0.8 * X[:, 0] - 0.5 * X[:, 1] - 0.5)
    if kind == "few values":
        X = (X > 0).astype(float)
        return X, rng.random(n) < expit(X[:, 0] - 1.2 * X[:, 1] + 0.4)
    y = rng.random(n) < 0.4
    return X * np.where(y, 1.6, 1.0)[:, None] + np.where(y, 0.7, 0.0)[:, None], y


@pytest.mark.parametrize("kind", ["weak line", "skewed column", "few values", "two spreads"])
@pytest.mark.parametrize("n", [400, 1000])
def test_labels_left_to_chance_are_not_flagged_however_few_rows_there_are(kind, n):
    flagged = [
        np.mean(~SelfPacedClassifier(n_jobs=1).fit(*_overlapping(kind, n, seed)).selected_) > 0.01
        for seed in range(5)
    ]
    assert sum(flagged) <= 1


@pytest.mark.parametrize("rates", [(0.35, 0.35), (0.0, 0.4)])
def test_flips_level_off_what_overlap_does_not(rates):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((4000, 6))
    right = rng.random(4000) < expit(4.0 * X[:, 0] + 3.0 * X[:, 1])
    given = right ^ (rng.random(4000) < np.where(right, rates[1], rates[0]))
    model = SelfPacedClassifier(n_jobs=1).fit(X, given)
    np.testing.assert_allclose(model.label_noise_[[0, 1], [1, 0]], rates, atol=0.1)
    clean = SelfPacedClassifier(n_jobs=1).fit(X, right)
    assert clean.selected_.all()


# Of so many, the rates are in doubt in some samples, as they should be.
@pytest.mark.parametrize("seed", [21, 22])
@pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")
def test_four_labels_in_ten_may_be_flipped(seed):
    # A forest knows a sphere of which boosters see little through so many flips.
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((4000, 8))
    right = np.sum(np.square(X[:, :4]), axis=1) > 3.4
    given = right ^ (rng.random(4000) < 0.4)
    model = SelfPacedClassifier(n_jobs=1).fit(X, given)
    assert model.corrupted_fraction_ == pytest.approx(0.4, abs=0.05)
    assert average_precision_score(given != right, 1.0 - model.weights_) > 0.8


def test_a_linear_model_with_flips_inside_shows_levels():
    rng = np.random.default_rng(32)
    X = rng.standard_normal((4000, 20))
    right = X[:, :10].sum(axis=1) > 0
    given = right ^ (rng.random(4000) < 0.38)
    model = SelfPacedClassifier(n_jobs=1).fit(X, given)
    np.testing.assert_allclose(model.label_noise_[[0, 1], [1, 0]], 0.38, atol=0.05)


def test_a_forest_takes_columns_of_any_unit():
    rng = np.random.default_rng(24)
    X = rng.standard_normal((600, 3))
    codes = (X[:, 0] > 0).astype(int)
    moved = X * [1e200, 1.0, 1e-200] + [0.0, 1e9, 0.0]
    moved = np.column_stack([moved, np.full(600, 3.0)])
    trees = [ExtraTreesClassifier(20, min_samples_leaf=5, random_state=0) for _ in range(2)]
    plain = Forest.of(trees[0], np.column_stack([X, np.full(600, 3.0)]), codes, None)
    far = Forest.of(trees[1], moved, codes, None)
    same = plain.predict_proba(np.column_stack([X, np.full(600, 3.0)]))
    np.testing.assert_allclose(far.predict_proba(moved), same, atol=0.1)
    far.predict_proba(np.full((1, 4), 1e300))  # further out than any row that was seen


def test_two_clouds_far_apart_show_their_flips_without_rows_between():
    rng = np.random.default_rng(6)
    right = rng.random(500) < 0.5
    X = np.where(right, 30.0, 10.0)[:, None] + rng.normal(0.0, 2.0, (500, 1))
    wrong = rng.random(500) < 0.1
    model = SelfPacedClassifier(n_jobs=1).fit(X, right ^ wrong)
    np.testing.assert_array_equal(~model.selected_, wrong)
    atoms = SelfPacedClassifier(n_jobs=1).fit(np.where(right, 1.0, 0.0)[:, None], right ^ wrong)
    assert atoms.selected_.all()  # two values and chance: nothing says that labels are wrong


def test_a_rare_class_has_the_rate_of_all_where_nothing_says_otherwise():
    rng = np.random.default_rng(8)
    X = rng.standard_normal((4000, 8))
    right = rng.random(4000) < expit(3.0 * X[:, 0] + 3.0 * X[:, 1] - 7.0)  # 7 % of the rows
    given = right ^ (rng.random(4000) < 0.2)
    model = SelfPacedClassifier(n_jobs=1).fit(X, given)
    np.testing.assert_allclose(model.label_noise_[[0, 1], [1, 0]], 0.2, atol=0.04)
    of_one_class = right & (rng.random(4000) < 0.4)
    assert evidence_of_pairs(*_out_of_fold(X, given)).has_equal_rates
    assert not evidence_of_pairs(*_out_of_fold(X, right ^ of_one_class)).has_equal_rates


def _out_of_fold(X, y):
    told = cross_val_predict(LogisticRegression(), X, y, method="predict_proba")
    return told, y.astype(int), np.ones(len(y))


def test_a_frame_is_fitted_without_a_warning_about_its_names():
    """Labels that nothing is known about are put in order by the model, which knows the names."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((200, 2)), columns=["a", "b"])
    y = rng.integers(0, 2, 200)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="X does not have valid feature names")
        SelfPacedClassifier().fit(X, y)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_rows_without_a_label_are_refused_with_what_to_do(missing):
    X = np.arange(12.0).reshape(6, 2)
    y = np.array(["a", "b", "a", missing, "b", "a"], dtype=object)
    for fit in (
        SelfPacedClassifier().fit,
        SelfPacedClassifier().partial_fit,
        SelfPaced(LogisticRegression()).fit,
    ):
        with pytest.raises(ValueError, match=r"in 1 of 6 rows, the first at place 3.*Leave these"):
            fit(X, y)
    begun = SelfPacedClassifier().partial_fit(X, ["a", "b", "a", "b", "b", "a"])
    with pytest.raises(ValueError, match="the first at place 3"):
        begun.partial_fit(X, y)


def test_a_share_that_is_not_estimated_is_not_zero_for_sure():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((600, 3))
    y = rng.random(600) < expit(X[:, 0])  # overlap, which nothing tells from flips
    model = SelfPacedClassifier(n_jobs=1).fit(X, y)
    assert model.corrupted_fraction_ == 0.0
    assert model.corrupted_interval_ == (0.0, 1.0)
    assert "not estimated" in str(model.summary())
    assert "not estimated" in model.report().html
    told = SelfPacedClassifier(n_jobs=1).fit(X, X[:, 0] > 0)
    assert told.corrupted_interval_[1] < 0.1
    assert "not estimated" not in str(told.summary())


def test_a_column_that_is_there_twice_needs_no_penalty():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    X = np.column_stack([X, X[:, 0], np.zeros(500)])
    y = X[:, 0] + 0.5 * rng.logistic(size=500) > 0
    model = SelfPacedClassifier(penalty=NoPenalty()).fit(X, y)
    np.testing.assert_allclose(model.coef_[0, [0, 4]], [model.coef_[0, 3], 0.0], atol=1e-6)
    once = SelfPacedClassifier(penalty=NoPenalty()).fit(X[:, :3], y)
    np.testing.assert_allclose(model.predict_proba(X), once.predict_proba(X[:, :3]), atol=1e-4)


def test_rows_that_are_all_alike_tell_nothing_of_their_labels():
    y = np.repeat(["a", "b", "c"], [200, 150, 100])
    model = SelfPacedClassifier().fit(np.full((450, 1), 0.3), y)
    np.testing.assert_allclose(model.predict_proba([[0.3]])[0], [4 / 9, 3 / 9, 2 / 9], atol=0.01)
    assert model.selected_.all()
    assert model.doubts_ or model.notes_


def test_rates_that_differ_are_the_mean_of_surest_rows_and_levels():
    matrix = np.array([[1.0, 0.0], [0.2, 0.8]])
    noise = LabelNoise(matrix, np.array([0.0, 0.04**2]), told=(0, 1))
    levels = Levels(low=0.4, high=0.99, slope=2.0, offset=0.0, log_likelihood=0.0)
    found = noise.beside_levels(levels).matrix
    # Half a standard error is taken off; a class without errors among its surest rows has none.
    np.testing.assert_allclose(found, [[1.0, 0.0], [0.28, 0.72]])
