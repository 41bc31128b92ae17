"""The order of labels by how sure they are, where nothing says that any of them is wrong."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

from easyfirst import SelfPaced, SelfPacedClassifier


def overlapping(seed, n=1500):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-1.5 * X[:, 0] - X[:, 1]))).astype(int)


@pytest.mark.parametrize("seed", [11, 12])
def test_no_label_is_called_wrong_but_the_least_probable_come_first(seed):
    X, y = overlapping(seed)
    model = SelfPacedClassifier().fit(X, y)
    np.testing.assert_array_equal(model.label_noise_, np.eye(2))
    assert model.selected_.all()
    assert model.corrupted_fraction_ == 0.0
    assert len(model.suspects(X, y)) == 0
    # By models that have not seen the rows, which here say about what the model itself says.
    given = model.predict_proba(X)[np.arange(len(y)), y]
    first = model.suspects(X, y, top=20)["row_id"]
    assert len(set(first) & set(np.argsort(given)[:40])) >= 18
    new = model.judge(X, y).quality
    assert np.corrcoef(new, model.weights_)[0, 1] > 0.95


def test_labels_that_are_known_to_be_right_are_certain():
    X, y = overlapping(13)
    trusted = np.arange(len(y)) < 10
    model = SelfPacedClassifier().fit(X, y, trusted=trusted)
    assert np.all(model.weights_[trusted] == 1.0)


def test_the_order_finds_flips_that_are_too_many_to_be_told_from_overlap():
    rng = np.random.default_rng(14)
    X, y = overlapping(14, n=600)
    wrong = rng.random(len(y)) < 0.3
    model = SelfPacedClassifier().fit(X, np.where(wrong, 1 - y, y))
    assert average_precision_score(wrong, 1.0 - model.weights_) > 1.2 * wrong.mean()


def test_the_order_knows_what_a_line_does_not():
    rng = np.random.default_rng(15)
    X = rng.normal(size=(1500, 2))
    along = rng.random(1500) < 1.0 / (1.0 + np.exp(-2.0 * X[:, 0] * X[:, 1]))
    y = along.astype(int)
    model = SelfPacedClassifier().fit(X, y)
    np.testing.assert_array_equal(model.label_noise_, np.eye(2))
    odd = np.where(y == 1, -1.0, 1.0) * X[:, 0] * X[:, 1] > 0.3  # labels against what X says
    assert np.mean(odd[np.argsort(model.weights_)[:50]]) > 0.9


def test_any_classifier_puts_labels_in_order_too():
    X, y = overlapping(15)
    trusted = np.arange(len(y)) < 10
    model = SelfPaced(LogisticRegression(), start=LogisticRegression()).fit(X, y, trusted=trusted)
    assert model.selected_.all()
    assert model.corrupted_fraction_ == 0.0
    assert np.all(model.weights_[trusted] == 1.0)
    given = model.predict_proba(X)[np.arange(len(y)), y]
    first = model.suspects(X, y, top=20)["row_id"]
    assert len(set(first) & set(np.argsort(given)[:40])) >= 18
    assert len(model.suspects(X, y)) == 0
