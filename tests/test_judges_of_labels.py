"""The models that judge labels: what they have seen of them, and what each is worth."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from easyfirst import SelfPacedClassifier
from easyfirst.consensus.labels import fit_classes, judging, models
from easyfirst.consensus.labels.judging import _linear_logits
from easyfirst.consensus.labels.mixing import best_mix
from easyfirst.contracts import Batch
from easyfirst.local import labels
from easyfirst.local.design import Coordinates
from easyfirst.local.label_judge import folds_of, linear_logits
from easyfirst.local.labels import Labelling, LabelProblem
from easyfirst.regularizers import Hard


def symmetric(rate):
    return np.array([[1.0 - rate, rate], [rate, 1.0 - rate]])


def test_linear_judges_have_not_seen_the_labels_of_their_fold(monkeypatch):
    found = []

    def judge(*arguments):
        found.append(judging.judge_labels(*arguments))
        return found[-1]

    monkeypatch.setattr(fit_classes, "judge_labels", judge)
    told = []
    for seed in range(3):
        # One column says all; two hundred only let a model know single labels again.
        rng = np.random.default_rng(seed)
        right = rng.random(800) < 0.5
        X = rng.standard_normal((800, 200))
        X[:, 0] += np.where(right, 3.0, -3.0)
        wrong = rng.random(800) < 0.3
        SelfPacedClassifier(n_jobs=1).fit(X, right ^ wrong)
        judge_of_right = found[-1].judge.right
        logits = linear_logits(X, folds_of(X), judge_of_right.lines)
        for_right = np.where(right, 1.0, -1.0) * (logits[:, 1] - logits[:, 0])
        told.append(roc_auc_score(~wrong, for_right))
    assert np.mean(told) < 0.53  # by chance: 0.5


def test_the_fit_whose_levels_are_compared_has_converged():
    n, n_columns, rate = 3000, 40, 0.45
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n, n_columns))
    y = (rng.random(n) < expit(2.0 * X[:, :10].sum(axis=1))) ^ (rng.random(n) < rate)
    problem = LabelProblem(Coordinates(True), np.array([0.0, 1.0]), np.ones(2), Hard())
    folds = models.Folds(
        rows=Batch(X, y.astype(float)),
        problem=problem,
        penalty=np.append(np.full(n_columns, 0.5), 0.0),
        fold=folds_of(X),
        codes=y.astype(int),
        weight=np.ones(n),
        spread=lambda function, values: map(function, values),
        seed=0,
    )
    noise, design = symmetric(rate), np.column_stack([X, np.ones(n)])
    start = models.line(folds, labels.expand, Labelling(), None, None)

    def worth(coef):
        chance = rate + (1.0 - 2.0 * rate) * expit(design @ coef)
        return np.log(np.where(y, chance, 1.0 - chance)).sum() - folds.penalty @ np.square(coef)

    levelled = _linear_logits(folds, start, noise, np.zeros((n, 2))).levelled
    coef = np.linalg.lstsq(design, levelled[:, 1] - levelled[:, 0], rcond=None)[0]
    exact = models.line(folds, labels.expand_through_noise, noise, start, None, 1e-8)[0]
    assert worth(coef) > worth(exact) - 0.02
    assert worth(exact) > worth(start[0]) + 1.0  # where it began: there was a way to go


@pytest.mark.parametrize("rate", [0.45, 0.48, 0.49])
def test_the_less_flips_leave_the_more_a_mix_is_held(rate):
    away = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        right = rng.random(600) < 0.5
        codes = (right ^ (rng.random(600) < rate)).astype(int)
        chance = expit(np.where(right, 2.0, -2.0) + 0.8 * rng.standard_normal(600))
        seen = rate + (1.0 - 2.0 * rate) * chance
        own = np.stack([np.zeros(600), rng.standard_normal(600)], axis=1)
        told = np.stack([1.0 - seen, seen], axis=1)
        mix, _ = best_mix([told], own, symmetric(rate), codes, np.ones(600))
        away.append(abs(mix[0] - 1.0))
    assert np.mean(away) < 1.4


def test_where_labels_say_nothing_all_models_count_alike_and_those_mixed_before_have_all():
    told = [np.full((9, 2), 0.5), np.tile([0.7, 0.3], (9, 1))]
    own, codes, nothing = np.zeros((9, 2)), np.zeros(9, dtype=int), np.zeros(9)
    mix, offset = best_mix(told, own, np.eye(2), codes, nothing)
    np.testing.assert_allclose(mix, [1 / 3, 1 / 3, 1 / 3])
    np.testing.assert_array_equal(offset, 0.0)
    mix, _ = best_mix(told, own, symmetric(0.2), codes, nothing)
    np.testing.assert_allclose(mix, [0.5, 0.5, 0.0])


def test_a_class_whose_rows_are_all_alike_is_judged():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 3)), np.arange(400) % 2
    X[y == 1] = X[1]  # all in one fold: without it there is one class
    model = SelfPacedClassifier(n_jobs=1).fit(X, y)
    assert model.score(X, y) > 0.8  # a plane beside a point amid the others
    assert model.selected_.all()


def test_smooth_models_know_classes_in_shells_beside_many_flips(monkeypatch):
    rng = np.random.default_rng(1)
    right = rng.random(1500) < 0.5
    X = rng.standard_normal((1500, 10)) * np.where(right, 1.8, 1.0)[:, None]
    given = right ^ (rng.random(1500) < 0.3)

    def told():
        model = SelfPacedClassifier(n_jobs=1).fit(X, given)
        return roc_auc_score(given == right, model.weights_)

    with_all = told()
    monkeypatch.setattr(judging, "smooth_models", lambda folds: ())
    assert with_all > 0.93
    assert told() < with_all - 0.05
