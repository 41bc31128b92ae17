"""Labels of one class of which about half are wrong, and classes whose surest rows are not sure."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

from easyfirst import SelfPaced, SelfPacedClassifier
from easyfirst.consensus.labels.evidence import evidence_of_levels
from easyfirst.consensus.labels.noise import HALF, estimate_noise
from easyfirst.errors import NoSingleModelWarning


def test_rates_of_two_classes_are_at_most_one_half():
    rng = np.random.default_rng(0)
    seen = np.minimum(rng.uniform(0.0, 0.9, 8000), 0.47)  # of class 1: more than half are wrong
    given = (rng.random(8000) < seen).astype(int)
    noise = estimate_noise(np.stack([1 - seen, seen], axis=1), given, np.ones(8000))
    assert noise.matrix[1, 0] == HALF
    assert 1 in noise.in_doubt


@pytest.mark.parametrize(("top", "may_be"), [(0.48, True), (0.3, False), (None, False)])
def test_a_level_may_lie_at_one_half_but_not_clearly_beyond(top, may_be):
    rng = np.random.default_rng(1)
    score = rng.standard_normal(4000)
    right = expit(6.0 * (score - 1.0))
    chance = expit(1.5 * score - 2.0) if top is None else top * right
    given = rng.random(4000) < chance
    assert evidence_of_levels(1.0 - chance, ~given, np.ones(4000)).may_be_half == may_be
    assert evidence_of_levels(chance, given, np.ones(4000)).may_be_half == may_be


def test_flips_of_half_the_labels_of_a_class_are_found_with_a_doubt():
    rng = np.random.default_rng(66)
    X = rng.standard_normal((2500, 4))
    right = rng.random(2500) < expit(4.0 * (X[:, 0] + X[:, 1] - 1.2))
    given = right & ~(rng.random(2500) < 0.54)
    with pytest.warns(NoSingleModelWarning, match="in doubt"):
        model = SelfPacedClassifier(n_jobs=1).fit(X, given)
    np.testing.assert_allclose(model.label_noise_[[0, 1], [1, 0]], [0.0, 0.54], atol=0.06)
    assert average_precision_score(given != right, 1.0 - model.weights_) > 0.7
    assert np.mean(model.suggested_labels_ == right) > np.mean(given == right) + 0.03


@pytest.mark.parametrize("model", [SelfPacedClassifier(), SelfPaced(LogisticRegression())])
def test_right_labels_that_are_less_often_given_than_not_at_the_most_are_left_alone(model):
    rng = np.random.default_rng(10)
    X = rng.standard_normal((3000, 5))
    y = rng.random(3000) < np.where(X[:, 0] + 0.5 * X[:, 1] > 0.8, 0.35, 0.02)
    with pytest.warns(NoSingleModelWarning, match="were not checked"):
        model.fit(X, y)
    assert model.selected_.all()
