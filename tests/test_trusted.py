"""Rows that a person has judged: trusted ones are never set aside, rejected ones take no part."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from easyfirst import SelfPacedRegressor
from easyfirst.datasets import make_corrupted_regression
from easyfirst.engines.spark.spool import _map_batch, _save_batch
from easyfirst.errors import NoSingleModelWarning
from easyfirst.estimators.expected_change import most_telling
from easyfirst.sources.arrays import ArraySource


def two_models(seed, n=1000, p=5, share=0.5, n_trusted=None):
    """Rows of two models, some of the first one's trusted; returns X, y, trusted, both models."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    ours, theirs = rng.standard_normal((2, p)) * 3.0
    is_ours = rng.permutation(n) >= share * n
    y = np.where(is_ours, X @ ours, X @ theirs) + 0.1 * rng.standard_normal(n)
    trusted = np.zeros(n, dtype=bool)
    trusted[rng.choice(np.flatnonzero(is_ours), n_trusted or n // 100, replace=False)] = True
    return X, y, trusted, ours, theirs


def fitted(*arguments, engine="inline", **more):
    return SelfPacedRegressor(engine=engine).fit(*arguments, **more)


@pytest.mark.parametrize("seed", range(10))
def test_one_trusted_row_in_a_hundred_says_which_of_two_models_is_meant(seed):
    X, y, trusted, ours, theirs = two_models(seed)
    np.testing.assert_allclose(fitted(X, y, trusted=trusted).coef_, ours, atol=0.05)
    others = np.zeros_like(trusted)
    wrong = np.flatnonzero(np.abs(y - X @ theirs) < 0.3)
    others[wrong[:10]] = True
    np.testing.assert_allclose(fitted(X, y, trusted=others).coef_, theirs, atol=0.05)


def test_without_trusted_rows_two_models_of_equal_support_raise_a_doubt():
    X, y, *_ = two_models(0)
    with pytest.warns(NoSingleModelWarning, match="the data cannot tell which"):
        fitted(X, y)


@pytest.mark.parametrize(("p", "n_trusted"), [(20, 8), (5, 3)])
def test_fewer_trusted_rows_than_coefficients_still_tell_the_model(p, n_trusted):
    X, y, trusted, ours, _ = two_models(1, p=p, n_trusted=n_trusted)
    np.testing.assert_allclose(fitted(X, y, trusted=trusted).coef_, ours, atol=0.1)


def test_trusted_rows_win_against_a_majority():
    X, y, trusted, ours, _ = two_models(2, share=0.6, n_trusted=20)
    np.testing.assert_allclose(fitted(X, y, trusted=trusted).coef_, ours, atol=0.05)


def test_a_single_row_trusted_by_mistake_does_not_turn_the_model():
    X, y, trusted, ours, theirs = two_models(3, share=0.3)
    trusted[:] = False
    trusted[np.flatnonzero(np.abs(y - X @ theirs) < 0.3)[0]] = True
    np.testing.assert_allclose(fitted(X, y, trusted=trusted).coef_, ours, atol=0.1)


def test_a_handful_of_trusted_rows_is_found_among_many():
    X, y, trusted, ours, _ = two_models(4, n=60_000, n_trusted=30)
    np.testing.assert_allclose(fitted(X, y, trusted=trusted).coef_, ours, atol=0.05)


def corrupted(**more):
    data = make_corrupted_regression(300, 4, 5, corruption_ratio=0.3, random_state=0, **more)
    wrong = np.flatnonzero(~data.clean)
    return data, wrong


def mask(n, rows):
    chosen = np.zeros(n, dtype=bool)
    chosen[rows] = True
    return chosen


def test_trusted_rows_have_weight_one_however_far_they_lie():
    data, wrong = corrupted()
    trusted = mask(data.y.size, wrong[:5])
    model = fitted(data.X, data.y, trusted=trusted)
    assert np.all(model.weights_[trusted] == 1.0)
    assert np.mean(model.weights_[wrong[5:]] < 0.5) > 0.9
    assert not set(model.suspects(data.X, data.y)["row_id"]) & set(wrong[:5])


def test_rejected_rows_are_as_if_absent():
    data, _ = corrupted()
    rejected = mask(data.y.size, np.arange(0, data.y.size, 3))
    model = SelfPacedRegressor(engine="inline", n_batches=1)
    model.fit(data.X, data.y, rejected=rejected)
    there = SelfPacedRegressor(engine="inline", n_batches=1)
    there.fit(data.X[~rejected], data.y[~rejected])
    np.testing.assert_allclose(model.coef_, there.coef_, rtol=1e-9)
    assert model.noise_scale_ == pytest.approx(there.noise_scale_)
    assert model.corrupted_fraction_ == pytest.approx(there.corrupted_fraction_)
    assert np.all(model.weights_[rejected] == 0.0)
    np.testing.assert_allclose(model.weights_[~rejected], there.weights_, atol=1e-6)


def test_rows_that_are_rejected_can_no_longer_pull():
    X, y, _, ours, _ = two_models(5)
    rejected = np.abs(y - X @ ours) > 0.6
    model = fitted(X, y, rejected=rejected)
    np.testing.assert_allclose(model.coef_, ours, atol=0.05)
    assert model.corrupted_fraction_ < 0.02


def test_trusted_rows_anchor_the_noise():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2))
    noise = rng.standard_normal(400)
    wide = np.abs(noise) > 1.5
    y = X @ [1.0, 2.0] + np.where(wide, 3.0 * noise, noise)
    model, plain = fitted(X, y, trusted=wide), fitted(X, y)
    assert model.noise_scale_ > 1.2 * plain.noise_scale_
    assert model.corrupted_fraction_ < plain.corrupted_fraction_


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_engine_gives_the_same_bits(sparse, weighted):
    data, wrong = corrupted(mode="batches", n_bad_batches=2)
    n = data.y.size
    X = sp.csr_array(np.where(np.abs(data.X) < 0.5, 0.0, data.X)) if sparse else data.X
    weight = np.random.default_rng(0).integers(0, 3, n) if weighted else None
    given = {"sample_weight": weight, "batches": data.batches}
    given |= {"trusted": mask(n, wrong[:9]), "rejected": mask(n, wrong[9:30])}
    first, second = (fitted(X, data.y, engine=name, **given) for name in ("inline", "threads"))
    assert first.coef_.tobytes() == second.coef_.tobytes()
    assert first.weights_.tobytes() == second.weights_.tobytes()
    assert np.all(first.weights_[wrong[:9]] == 1.0)
    assert np.all(first.weights_[wrong[9:30]] == 0.0)


def test_the_paper_configuration_keeps_trusted_rows_too():
    data, wrong = corrupted()
    trusted = mask(data.y.size, wrong[:5])
    model = SelfPacedRegressor.paper(engine="inline").fit(data.X, data.y, trusted=trusted)
    assert np.all(model.weights_[trusted] == 1.0)
    assert np.any(model.weights_ == 0.0)


def test_weights_and_repeated_rows_are_the_same_for_trusted_rows():
    X, y, trusted, *_ = two_models(6, n=400, n_trusted=10)
    weight = np.random.default_rng(0).integers(1, 3, y.size)
    once = SelfPacedRegressor(engine="inline", n_batches=1)
    once.fit(X, y, sample_weight=weight, trusted=trusted)
    twice = SelfPacedRegressor(engine="inline", n_batches=1)
    twice.fit(np.repeat(X, weight, 0), np.repeat(y, weight), trusted=np.repeat(trusted, weight))
    np.testing.assert_allclose(once.coef_, twice.coef_, rtol=1e-4)


def test_masks_without_a_row_change_nothing():
    data, _ = corrupted()
    nothing = np.zeros(data.y.size, dtype=bool)
    plain = fitted(data.X, data.y)
    masked = fitted(data.X, data.y, trusted=nothing, rejected=nothing)
    assert plain.coef_.tobytes() == masked.coef_.tobytes()
    assert plain.weights_.tobytes() == masked.weights_.tobytes()


@pytest.mark.parametrize("way", ["pickle", "spool", "dask"])
def test_trust_travels_with_the_batch(tmp_path, way):
    X, y, trusted, *_ = two_models(0, n=100)
    part = ArraySource(X, y, n_batches=2, trusted=trusted).partitions()[1]
    if way == "pickle":
        batch = pickle.loads(pickle.dumps(part)).load()
    elif way == "spool":
        _save_batch(tmp_path, part.load())
        batch = _map_batch(tmp_path)
    else:
        tasks = pytest.importorskip("easyfirst.engines.dask.tasks")
        batch = tasks._as_batch(tasks._as_tuple(part.load))
    np.testing.assert_array_equal(batch.trusted, trusted[50:])


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ({"trusted": [True]}, r"trusted must hold one truth value per row: got shape \(1,\)"),
        ({"rejected": np.arange(100)}, "rejected must hold truth values"),
        ({"trusted": ["yes"] * 100}, "trusted must hold truth values"),
        ({"trusted": np.arange(100) < 5, "rejected": np.arange(100) < 2}, "2 rows are both"),
        ({"rejected": np.ones(100, dtype=bool)}, "every row is rejected"),
    ],
)
def test_masks_that_make_no_sense_are_refused(masks, message):
    X, y, *_ = two_models(0, n=100)
    with pytest.raises(ValueError, match=message):
        fitted(X, y, **masks)


def near_model(seed):
    """Rows of which 40 % follow a model so near that many of them are uncertain."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((800, 4))
    ours, theirs = rng.standard_normal((2, 4))
    wrong = rng.random(800) < 0.4
    y = np.where(wrong, X @ (ours + 1.5 * theirs), X @ ours) + rng.standard_normal(800)
    return X, y, wrong, ours


# What the near model leaves open is what the answers are for.
@pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")
def test_answers_about_the_rows_to_review_are_worth_twice_those_about_random_rows():
    gains = np.zeros(2)
    for seed in range(5):
        X, y, wrong, ours = near_model(seed)
        model = fitted(X, y)
        random = np.random.default_rng(seed).choice(y.size, 50, replace=False)
        telling = model.to_review(X, y, k=50)["row_id"].to_numpy()
        for place, rows in enumerate((random, telling)):
            asked = mask(y.size, rows)
            told = fitted(X, y, trusted=asked & ~wrong, rejected=asked & wrong)
            gains[place] += np.sum((model.coef_ - ours) ** 2) - np.sum((told.coef_ - ours) ** 2)
    assert gains[1] > 2.0 * max(gains[0], 0.0)


@pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")
def test_rows_that_were_answered_are_not_asked_again():
    X, y, wrong, _ = near_model(0)
    first = fitted(X, y).to_review(X, y, k=30)["row_id"].to_numpy()
    asked = mask(y.size, first)
    told = fitted(X, y, trusted=asked & ~wrong, rejected=asked & wrong)
    again = told.to_review(X, y, k=30)["row_id"].to_numpy()
    assert len(first) == len(again) == 30
    assert not set(first) & set(again)


@pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")
def test_no_more_rows_are_asked_for_than_are_uncertain():
    X, y, *_ = near_model(0)
    model = fitted(X, y)
    assert len(model.to_review(X, y, k=100_000)) <= y.size
    assert len(model.to_review(X, y, k=0)) == 0
    with pytest.raises(ValueError, match="must be >= 0"):
        model.to_review(X, y, k=-1)


class Elsewhere:
    """A source whose rows are not in memory."""

    def __init__(self, source):
        self.partitions = source.partitions


def test_rows_in_memory_alone_have_masks():
    X, y, trusted, *_ = two_models(0, n=100)
    source = ArraySource(X, y)
    assert np.all(fitted(source, trusted=trusted).weights_[trusted] == 1.0)
    with pytest.raises(ValueError, match="are for rows in memory"):
        fitted(Elsewhere(source), trusted=trusted)


def test_in_doubt_rows_of_both_sides_are_asked_about_in_turn():
    moves = np.array([5.0, 4.0, 3.0, 2.0, 1.0, 0.0])
    is_kept = np.array([False, False, False, True, True, True])
    assert most_telling(moves, is_kept, 4, in_doubt=False).tolist() == [0, 1, 2, 3]
    assert most_telling(moves, is_kept, 4, in_doubt=True).tolist() == [0, 3, 1, 4]
    assert most_telling(moves, is_kept, 9, in_doubt=True).tolist() == [0, 3, 1, 4, 2]


@pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")
def test_answers_about_chosen_rows_bring_rows_to_trust_whichever_model_was_found():
    X, y, _, ours, theirs = two_models(0)
    model = fitted(X, y)
    asked = model.to_review(X, y, k=10)["row_id"].to_numpy()
    for meant in (ours, theirs):
        is_right = np.abs(y[asked] - X[asked] @ meant) < 0.5
        assert 3 <= is_right.sum() <= 7
        told = {"trusted": mask(y.size, asked[is_right])}
        told["rejected"] = mask(y.size, asked[~is_right])
        np.testing.assert_allclose(fitted(X, y, **told).coef_, meant, atol=0.05)
