"""Any classifier: labels are judged by models that have not seen them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import easyfirst
from easyfirst import SelfPaced
from easyfirst.errors import NoSingleModelWarning
from easyfirst.estimators.out_of_fold import folds
from easyfirst.regularizers import Hard

TREE = DecisionTreeClassifier(min_samples_leaf=20, random_state=0)
KINDS = np.array(["inside", "middle", "outside"])


@parametrize_with_checks([SelfPaced(LogisticRegression(), n_folds=2, n_repeats=1)])
def test_scikit_learns_check_passes(estimator, check):
    check(estimator)


def rings(n=1200, rates=(0.2, 0.2), seed=0):
    """Return points, labels by rings that no line separates, and which of them are wrong."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    right = np.digitize(np.hypot(X[:, 0], X[:, 1]), np.linspace(0.0, 2.4, len(rates) + 1)[1:-1])
    wrong = rng.random(n) < np.array(rates)[right]
    other = (right + rng.integers(1, len(rates), n)) % len(rates)
    return X, np.where(wrong, other, right), wrong, right


@pytest.mark.parametrize("rates", [(0.2, 0.2), (0.0, 0.35)])
def test_wrong_labels_are_found_around_a_curve(rates):
    X, y, wrong, right = rings(rates=rates)
    model = SelfPaced(TREE).fit(X, y)
    assert np.mean(wrong[~model.selected_]) > 0.85
    assert np.mean(~model.selected_[wrong]) > 0.6
    assert abs(model.corrupted_fraction_ - np.mean(wrong)) < 0.05
    rates_found = model.label_noise_[[0, 1], [1, 0]]
    np.testing.assert_allclose(rates_found, rates, atol=0.08)
    new, _, _, truth = rings(seed=1)
    assert model.score(new, truth) > clone(TREE).fit(X, y).score(new, truth)
    assert model.n_fits_ == 11  # ten out of fold, one in the end: the linear judge knew more
    low, high = model.corrupted_interval_
    assert low <= model.corrupted_fraction_ <= high
    del right


def test_where_labels_are_right_the_model_is_the_bare_one():
    X, y, *_ = rings(rates=(0.0, 0.0))
    model = SelfPaced(TREE).fit(X, y)
    assert model.selected_.all()
    np.testing.assert_array_equal(model.predict_proba(X), clone(TREE).fit(X, y).predict_proba(X))


def test_classes_with_names_in_a_frame_with_text():
    X, y, wrong, right = rings(1500, (0.25, 0.25, 0.25))
    frame = pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "side": np.where(X[:, 0] > 0, "r", "l")})
    columns = make_column_transformer((OneHotEncoder(), ["side"]), remainder="passthrough")
    model = SelfPaced(make_pipeline(columns, TREE)).fit(frame, KINDS[y])
    assert model.classes_.tolist() == KINDS.tolist()
    assert model.label_noise_.shape == (3, 3)
    assert np.mean(model.suggested_labels_ == KINDS[right]) > np.mean(~wrong) + 0.05
    suspects = model.suspects(frame, KINDS[y])
    assert set(suspects["given_label"]) <= set(KINDS)
    assert np.mean(wrong[suspects["row_id"]]) > 0.8
    assert model.out_of_fold_.shape == (1500, 3)


class Says(ClassifierMixin, BaseEstimator):
    """A classifier that tells nothing but its guess, and takes no weights."""

    def fit(self, X, y):
        self.inner_ = KNeighborsClassifier(25).fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict(self, X):
        return self.inner_.predict(X)


@pytest.mark.parametrize("estimator", [KNeighborsClassifier(25), Says()])
def test_estimators_without_sample_weights_get_the_selected_rows(estimator):
    X, y, wrong, _ = rings(rates=(0.3, 0.3))
    model = SelfPaced(estimator, n_repeats=1).fit(X, y)
    kept = getattr(model.estimator_, "inner_", model.estimator_).n_samples_fit_
    assert kept == model.selected_.sum() < y.size
    assert np.mean(wrong[~model.selected_]) > 0.85
    assert hasattr(model, "predict_proba") == hasattr(estimator, "predict_proba")


def test_scores_without_probabilities_are_calibrated():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3))
    right = (X[:, 0] > 0).astype(int)
    wrong = rng.random(1000) < 0.2
    model = SelfPaced(make_pipeline(StandardScaler(), LinearSVC()), n_repeats=1)
    model.fit(X, np.where(wrong, 1 - right, right))
    assert np.mean(wrong[~model.selected_]) > 0.9
    assert np.mean(~model.selected_[wrong]) > 0.8
    assert hasattr(model, "decision_function")


def test_answers_of_a_person_are_honoured():
    X, y, wrong, _ = rings()
    trusted, rejected = np.zeros((2, y.size), dtype=bool)
    trusted[np.flatnonzero(wrong)[:5]] = True
    rejected[-5:] = True
    model = SelfPaced(TREE).fit(X, y, trusted=trusted, rejected=rejected)
    assert np.all(model.weights_[trusted] == 1.0)
    assert np.all(model.weights_[rejected] == 0.0)
    assert np.all(model.suggested_labels_[trusted] == y[trusted])
    without = SelfPaced(TREE).fit(X[:-5], y[:-5], trusted=trusted[:-5])
    np.testing.assert_array_equal(model.weights_[:-5], without.weights_)


def test_a_bad_batch_is_named():
    X, y, _, right = rings(1800, (0.05, 0.05))
    batches = np.repeat(["a", "b", "c"], 600)
    flip = (batches == "b") & (np.arange(1800) % 10 < 4)
    y = np.where(flip, 1 - right, y)
    model = SelfPaced(TREE).fit(X, y, batches=batches)
    assert model.batch_clean_share_[1] < 0.75
    assert model.batch_clean_share_[[0, 2]].min() > 0.85
    assert "Batch 1 (" in " ".join(model.notes_)


def test_what_was_found_is_shown(tmp_path):
    X, y, wrong, _ = rings()
    model = SelfPaced(TREE).fit(X, y)
    assert is_classifier(model)
    assert "Self-paced classification" in str(model.summary())
    page = model.report(tmp_path / "page.html", X, y)
    assert "labels look wrong" in page.html
    assert "<h2>The model</h2>" not in page.html
    with pytest.raises(ValueError, match="lists labels only"):
        model.report(show_rows=True)
    unsure = model.weights_ * (1.0 - model.weights_)
    assert (
        model.to_review(X, y, k=3)["row_id"].tolist()
        == np.argsort(-unsure, kind="stable")[:3].tolist()
    )
    assert not hasattr(model, "predict_interval")
    new = model.clean_probability(X[:50], y[:50])
    assert np.mean(new[wrong[:50]]) < np.mean(new[~wrong[:50]]) - 0.5
    inside = make_pipeline(StandardScaler(), SelfPaced(TREE)).fit(X, y)
    assert np.mean(wrong[easyfirst.suspects(inside, X, y)["row_id"]]) > 0.85
    assert len(model.history_.to_frame()) == model.n_rounds_ == 1


def test_too_few_labels_are_taken_as_right_and_said_so():
    X, y, *_ = rings(60)
    model = SelfPaced(TREE).fit(X, y)
    assert model.selected_.all()
    assert model.n_fits_ == 1
    assert "not checked" in model.notes_[0]
    with pytest.raises(ValueError, match="one class only"):
        SelfPaced(TREE).fit(X, np.zeros(60))


def test_labels_that_are_mostly_wrong_raise_a_doubt():
    X, y, *_ = rings(rates=(0.0, 0.7))
    with pytest.warns(NoSingleModelWarning, match="Labels were not checked"):
        model = SelfPaced(TREE, n_repeats=1).fit(X, y)
    assert model.selected_.all()


def test_a_rule_of_all_or_nothing_gives_such_weights():
    X, y, wrong, _ = rings()
    model = SelfPaced(TREE, regularizer=Hard()).fit(X, y)
    assert set(np.unique(model.weights_)) == {0.0, 1.0}
    assert np.mean(wrong[~model.selected_]) > 0.85


def test_every_fold_has_rows_of_every_class():
    codes = np.repeat([0, 1], [95, 5])
    fold = folds(np.arange(100), 5, seed=0, codes=codes)
    assert np.bincount(fold[codes == 1]).tolist() == [1] * 5
    assert np.bincount(fold).tolist() == [20] * 5


def test_lightgbm_is_wrapped():
    lightgbm = pytest.importorskip("lightgbm")
    X, y, wrong, _ = rings(800)
    small = {"n_estimators": 20, "verbose": -1, "n_jobs": 1}
    model = SelfPaced(lightgbm.LGBMClassifier(**small), n_repeats=1).fit(X, y)
    assert np.mean(wrong[~model.selected_]) > 0.8
    values = X[:, 0] + 0.1 * np.random.default_rng(0).normal(size=800)
    values[:80] += 10.0
    model = SelfPaced(lightgbm.LGBMRegressor(**small), n_repeats=1, n_folds=3).fit(X, values)
    assert np.mean(~model.selected_[:80]) > 0.95
    assert np.mean(~model.selected_[80:]) < 0.05


@pytest.mark.filterwarnings("ignore:How often labels of False are wrong is in doubt")
def test_a_classifier_that_is_too_simple_takes_no_right_label_for_wrong():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 2))
    right = X[:, 0] + 2.0 * np.square(X[:, 1]) > 1.0  # of which a line tells a part
    alone = SelfPaced(LogisticRegression(), start=LogisticRegression()).fit(X, right)
    assert np.mean(~alone.selected_) > 0.01
    clean = SelfPaced(LogisticRegression()).fit(X, right)
    assert np.mean(~clean.selected_) <= 0.01
    wrong = rng.random(1000) < 0.2
    flagged = ~SelfPaced(LogisticRegression()).fit(X, right ^ wrong).selected_
    assert np.mean(wrong[flagged]) > 0.8
    assert np.mean(flagged[wrong]) > 0.4


def test_the_linear_judge_finds_what_the_classifier_cannot():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1200, 4))
    right = X @ [2.0, -1.0, 1.0, 0.0] > 0.0
    wrong = rng.random(1200) < 0.2
    y = np.where(wrong, ~right, right)
    stump = DecisionTreeClassifier(max_depth=1)
    model = SelfPaced(stump).fit(X, y)
    assert np.mean(wrong[~model.selected_]) > 0.9
    assert np.mean(~model.selected_[wrong]) > 0.7
    # With a judge that was named, no other one is asked.
    alone = SelfPaced(stump, start=stump).fit(X, y)
    assert alone.n_fits_ > model.n_fits_
    assert average_precision_score(wrong, -model.weights_) > 0.1 + average_precision_score(
        wrong, -alone.weights_
    )


@pytest.mark.parametrize("odd", [np.nan, 1e300])
def test_columns_that_the_linear_judge_cannot_take_are_left_to_the_classifier(odd):
    X, y, wrong, _ = rings()
    X = np.column_stack([X, np.where(np.arange(len(X)) % 50, 0.0, odd)])
    model = SelfPaced(HistGradientBoostingClassifier(max_iter=15)).fit(X, y)
    assert np.mean(wrong[~model.selected_]) > 0.8
