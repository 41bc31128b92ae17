"""Labels that are flipped more often for some values of the columns than for others."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, log_loss

import easyfirst
from easyfirst import SelfPacedClassifier
from easyfirst.consensus.labels.by_columns import noise_by_columns
from easyfirst.estimators.label_serialization import deserialize_classifier, serialize_classifier


def table(seed, n=3000, n_columns=6, slope=6.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_columns))
    right = rng.random(n) < expit(slope * X[:, 0] + 0.5 * slope * X[:, 1])
    return rng, X, right


def flipped_along(rng, along, right):
    """Labels of which a tenth is wrong on one side, and nearly half on the other."""
    return right ^ (rng.random(len(right)) < 0.1 + 0.38 * expit(3.0 * along))


@pytest.mark.parametrize("seed", [51, 52])
def test_rates_that_follow_the_columns_are_found(seed):
    rng, X, right = table(seed)
    given = flipped_along(rng, X[:, 2], right)
    wrong = given != right
    model = SelfPacedClassifier(n_jobs=1).fit(X, given)
    assert model.corrupted_fraction_ == pytest.approx(wrong.mean(), abs=0.03)
    np.testing.assert_allclose(model.label_noise_[[0, 1], [1, 0]], wrong.mean(), atol=0.04)
    assert any("some values of the columns" in note for note in model.notes_)
    # Among labels that look alike otherwise, those where flips are frequent are less sure.
    assert average_precision_score(wrong, 1.0 - model.weights_) > 0.95
    assert np.mean(model.suggested_labels_ == right) > 0.9
    low, high = X[:, 2] < -1.0, X[:, 2] > 1.0
    for side in (low, high):
        assert np.mean(1.0 - model.weights_[side]) == pytest.approx(wrong[side].mean(), abs=0.05)
    _, X_new, y_new = table(seed + 100)
    plain = LogisticRegression().fit(X, given).predict_proba(X_new)
    assert log_loss(y_new, model.predict_proba(X_new)) < log_loss(y_new, plain) - 0.1


def test_rates_that_follow_a_curved_table_are_found():
    rng, X, _ = table(53, n=4000, n_columns=4)
    right = np.sum(np.square(X), axis=1) > 3.4
    given = flipped_along(rng, X[:, 0] + X[:, 1], right)
    model = SelfPacedClassifier(n_jobs=1).fit(X, given)
    assert any("some values of the columns" in note for note in model.notes_)
    assert model.corrupted_fraction_ == pytest.approx(np.mean(given != right), abs=0.05)


@pytest.mark.parametrize("rates", [(0.0, 0.0), (0.2, 0.2), (0.0, 0.4)])
@pytest.mark.parametrize("seed", [54, 55])
def test_rates_that_are_the_same_for_all_rows_stay_so(rates, seed):
    rng, X, right = table(seed)
    given = right ^ (rng.random(len(right)) < np.where(right, rates[1], rates[0]))
    model = SelfPacedClassifier(n_jobs=1).fit(X, given)
    assert not any("some values of the columns" in note for note in model.notes_)


@pytest.mark.parametrize("kind", ["overlap", "product", "spread", "long tails"])
def test_right_labels_of_any_shape_have_no_rates(kind):
    found = 0
    for seed in range(4):
        rng = np.random.default_rng([56, seed])
        X = rng.standard_normal((1000, 4))
        if kind == "long tails":
            X = rng.standard_t(3, (1000, 4))
        logit = 2.0 * X[:, 0] * X[:, 1] if kind == "product" else X[:, 0] + 0.5 * X[:, 1]
        y = rng.random(1000) < expit(logit)
        if kind == "spread":
            X = X * np.where(y, 1.7, 1.0)[:, None]
        model = SelfPacedClassifier(n_jobs=1).fit(X, y)
        found += any("some values of the columns" in note for note in model.notes_)
    assert found == 0


def test_too_few_rows_for_the_columns_are_not_asked():
    _, X, right = table(57, n=300, n_columns=20)
    told = np.stack([np.full(300, 0.5)] * 2, axis=1)
    assert noise_by_columns(X, told, right.astype(int), np.ones(300)) is None


def test_every_engine_and_batch_has_the_rates_of_rows():
    rng, X, right = table(58, n=2000)
    given = flipped_along(rng, X[:, 2], right)
    one = SelfPacedClassifier(n_jobs=1, n_batches=4).fit(X, given)
    two = SelfPacedClassifier(n_jobs=2, n_batches=4).fit(X, given)
    assert any("some values of the columns" in note for note in one.notes_)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.weights_, two.weights_)


def test_new_rows_are_judged_by_the_rates_of_rows_like_them(tmp_path):
    rng, X, right = table(61, n=4000)
    model = SelfPacedClassifier(n_jobs=1).fit(X, flipped_along(rng, X[:, 2], right))
    rng, X_new, right_new = table(62)
    given = flipped_along(rng, X_new[:, 2], right_new)
    wrong = given != right_new
    judged = model.judge(X_new, given)
    for side in (X_new[:, 2] < -1.0, X_new[:, 2] > 1.0):
        assert np.mean(1.0 - judged.quality[side]) == pytest.approx(wrong[side].mean(), abs=0.06)
    assert average_precision_score(wrong, 1.0 - judged.quality) > 0.95
    by_rate = SelfPacedClassifier(n_jobs=1).fit(X_new, given)
    assert np.mean(judged.is_wrong != ~by_rate.selected_) < 0.05
    model.save(tmp_path / "model.safetensors", weights=False)
    again = easyfirst.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.judge(X_new, given).quality, judged.quality)
    thin = sp.csr_array(X_new)
    np.testing.assert_allclose(model.judge(thin, given).quality, judged.quality, rtol=1e-12)
    model.fit(X_new, right_new)  # with no flips: nothing is left of the rates
    usual = SelfPacedClassifier(n_jobs=1).fit(X_new, right_new)
    np.testing.assert_array_equal(model.judge(X, right).quality, usual.judge(X, right).quality)


def test_batches_that_arrive_are_judged_by_the_rates_of_their_rows():
    model, wrong = SelfPacedClassifier(n_jobs=1), np.zeros(3000, dtype=bool)
    for seed in (63, 64):
        rng, X, right = table(seed)
        given = flipped_along(rng, X[:, 2], right)
        wrong = given != right
        model.partial_fit(X, given)
    for side in (X[:, 2] < -1.0, X[:, 2] > 1.0):
        assert np.mean(1.0 - model.weights_[side]) == pytest.approx(wrong[side].mean(), abs=0.06)


@pytest.mark.parametrize(
    ("name", "value"),
    [("rate_scale", np.zeros(6)), ("rate_errors", np.full(8, np.nan)), ("rate_middle", None)],
)
def test_damaged_rates_are_refused(name, value):
    rng, X, right = table(65)
    model = SelfPacedClassifier(n_jobs=1).fit(X, flipped_along(rng, X[:, 2], right))
    state, arrays = serialize_classifier(model)
    arrays[name] = arrays["rate_middle"][1:] if value is None else value
    with pytest.raises(ValueError, match="rate"):
        deserialize_classifier(state, arrays)


def test_a_bad_batch_is_named_where_rates_follow_the_columns():
    rng, X, right = table(59, n=4000)
    batches = rng.integers(0, 5, 4000)
    given = flipped_along(rng, X[:, 2], right)
    given = np.where(batches == 3, right ^ (rng.random(4000) < 0.45), given)
    model = SelfPacedClassifier(n_jobs=1).fit(X, given, batches=batches)
    assert int(np.argmin(model.batch_clean_share_)) == 3


def test_classes_of_few_rows_are_said_not_to_be_judged():
    rng = np.random.default_rng(60)
    X = rng.standard_normal((600, 3))
    y = np.where(X[:, 0] > 0, "a", "b").astype(object)
    y[:3] = ["c", "d", "d"]
    model = SelfPacedClassifier(n_jobs=1).fit(X, y)
    assert any("'c', 'd' could not be judged" in note for note in model.notes_)
    usual = SelfPacedClassifier(n_jobs=1).fit(X[3:], y[3:])
    assert not any("could not be judged" in note for note in usual.notes_)
