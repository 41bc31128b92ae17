"""Labels that arrive one batch at a time: a bounded state, bad beginnings, new classes, drift."""

import pickle
import warnings

import numpy as np
import pytest

from easyfirst import SelfPacedClassifier
from easyfirst.errors import DriftWarning
from easyfirst.schedules import Quantile

COEF = np.array([2.0, -1.0, 1.5])


def batches(n_batches, share=0.15, n=300, seed=0):
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n_batches):
        X = rng.standard_normal((n, 3))
        right = rng.random(n) < 1.0 / (1.0 + np.exp(-3.0 * X @ COEF))
        given = right ^ (rng.random(n) < share)
        made.append((X, np.where(given, "yes", "no"), np.where(right, "yes", "no")))
    return made


def streamed(parts, most=1500):
    model = SelfPacedClassifier(engine="inline")
    for X, y, _ in parts:
        model.partial_fit(X, y)
        model._stream.reservoir.most = most
    return model


def mistakes(model):
    X = np.random.default_rng(7).standard_normal((5000, 3))
    return float(np.mean((model.predict(X) == "yes") != (X @ COEF > 0)))


def test_the_model_is_about_that_of_one_fit():
    parts = batches(12)
    model = streamed(parts)
    X, y = np.vstack([each[0] for each in parts]), np.concatenate([each[1] for each in parts])
    one = SelfPacedClassifier(engine="inline").fit(X, y)
    assert mistakes(model) < mistakes(one) + 0.015
    assert model.corrupted_fraction_ == pytest.approx(0.15, abs=0.04)
    assert model.weights_.shape == model.suggested_labels_.shape == (300,)
    assert np.mean(model.suggested_labels_ == parts[-1][2]) > 0.93
    assert model.batch_clean_share_.shape == (12,)


def test_one_batch_is_one_fit():
    X, y, _ = batches(1)[0]
    here, there = SelfPacedClassifier().partial_fit(X, y), SelfPacedClassifier().fit(X, y)
    assert here.coef_.tobytes() == there.coef_.tobytes()


def test_what_is_kept_does_not_grow():
    few, many = streamed(batches(7)), streamed(batches(14))
    room = [len(pickle.dumps(model._stream)) for model in (few, many)]
    assert room[1] < room[0] + 7 * 200


def test_bad_batches_first_do_not_stay():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DriftWarning)
        model = streamed([*batches(2, share=0.85, seed=1), *batches(10)])
    assert mistakes(model) < 0.05
    assert model.batch_clean_share_[-1] > 0.75


def test_a_class_may_come_later():
    (X, y, _), (more, given, _) = batches(2)
    later = np.where(more[:, 1] > 0.5, "maybe", given)
    model = SelfPacedClassifier().partial_fit(X, y)
    assert model.classes_.tolist() == ["no", "yes"]
    model.partial_fit(more, later)
    assert model.classes_.tolist() == ["maybe", "no", "yes"]
    # What was kept of the first batch still has its labels.
    kept = model._stream.reservoir
    known = model._known_labels[kept.y.astype(int)]
    assert known[:300].tolist() == y.tolist()


def test_labels_that_were_not_announced_are_refused():
    X, y, _ = batches(1)[0]
    with pytest.raises(ValueError, match="none of the classes"):
        SelfPacedClassifier().partial_fit(X, y, classes=["no", "perhaps"])
    with pytest.raises(ValueError, match="one class only"):
        SelfPacedClassifier().partial_fit(X, np.full(300, "no"))
    with pytest.raises(ValueError, match="half_life must be a number of rows > 0"):
        SelfPacedClassifier().partial_fit(X, y, half_life=0)


def test_a_change_of_the_share_of_wrong_labels_raises_the_alarm():
    with warnings.catch_warnings():
        warnings.simplefilter("error", DriftWarning)
        model = streamed(batches(14, share=0.05))
    assert model.drift_ == ()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for X, y, _ in batches(4, share=0.4, seed=3):
            model.partial_fit(X, y)
    assert any("share of clean rows went from 9" in str(each.message) for each in caught)
    assert model.drift_[0].batch >= 14


def test_a_fit_begins_anew_and_a_schedule_has_no_stream():
    parts = batches(2)
    model = streamed(parts).fit(*parts[0][:2])
    assert not hasattr(model, "drift_")
    model.partial_fit(*parts[1][:2])
    assert model._stream.reservoir.seen == 300
    assert not hasattr(SelfPacedClassifier(pace=Quantile(0.5, 0.9, 0.05)), "partial_fit")
