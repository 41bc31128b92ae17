"""Small batches worked on together: the bits that each gets alone, in runs of the right length."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from easyfirst import SelfPacedRegressor, workers
from easyfirst.contracts import Batch, GroupStep, Resident
from easyfirst.local import passes, steps, together
from easyfirst.local.passes import Frame
from easyfirst.local.steps import Change
from easyfirst.local.weighing import Problem, Weighting, weigh
from easyfirst.losses import Squared
from easyfirst.regularizers import Entropic, Hard
from easyfirst.sources.arrays import even_bounds
from problems import corrupted_rows


def batches(rng, k, n, p):
    X, y = rng.normal(size=(k * n, p)), 3.0 * rng.standard_t(2, size=k * n)
    return [Batch(X[i * n : (i + 1) * n], y[i * n : (i + 1) * n]) for i in range(k)]


def problem(fit_intercept=True, **settings):
    regularizer = settings.pop("regularizer", Entropic())
    frame = Frame(fit_intercept, settings.pop("shift", None))
    return Problem(frame, Squared(), regularizer, anchor=2.5, **settings)


def weightings(rng, k, size, width=0.7):
    coef = tuple(rng.normal(size=size).tolist())
    levels = rng.uniform(0.1, 5.0, size=(k, 2)).tolist()
    return [Weighting(coef, ((below, above),), width) for below, above in levels]


def same(ours, theirs):
    assert type(ours) is type(theirs)
    if isinstance(ours, tuple):
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    elif isinstance(ours, steps.Statistics):
        for name in vars(ours):
            same(getattr(ours, name), getattr(theirs, name))
    else:
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


@given(
    seed=st.integers(0, 10_000),
    k=st.integers(2, 7),
    n=st.integers(1, 90),
    p=st.integers(1, 20),
    fit_intercept=st.booleans(),
    has_before=st.sampled_from([None, "every row", "others"]),
    several_blocks=st.booleans(),
)
def test_a_sweep_of_many_has_the_bits_of_each(
    seed, k, n, p, fit_intercept, has_before, several_blocks
):
    rng = np.random.default_rng(seed)
    rows, task = batches(rng, k, n, p), problem(fit_intercept)
    now = weightings(rng, k, p + fit_intercept)
    before = {
        None: [None] * k,
        "every row": [Weighting(None)] * k,
        "others": weightings(rng, k, p + fit_intercept),
    }[has_before]
    changes = list(map(Change, now, before))
    entries = passes.BLOCK_ENTRIES
    try:
        passes.BLOCK_ENTRIES = 8 * p if several_blocks else entries
        stacked, single = [Resident(b) for b in rows], [Resident(b) for b in rows]
        found = together.sweep.many(stacked, changes, task)
        for i in range(k):
            same(found[i], steps.sweep(single[i], changes[i], task))
            for name in ("residual", "weights"):
                np.testing.assert_array_equal(stacked[i].latest(name), single[i].latest(name))
    finally:
        passes.BLOCK_ENTRIES = entries


@given(seed=st.integers(0, 10_000), k=st.integers(2, 6), n=st.integers(1, 90))
def test_the_influence_of_many_has_the_bits_of_each(seed, k, n):
    rng = np.random.default_rng(seed)
    rows, task = batches(rng, k, n, 4), problem()
    messages = [(weighting, 0.8) for weighting in weightings(rng, k, 5)]
    stacked = [Resident(b) for b in rows]
    found = together.influence.many(stacked, messages, task)
    for i in range(k):
        np.testing.assert_array_equal(
            found[i], steps.influence(Resident(rows[i]), messages[i], task)
        )
        np.testing.assert_array_equal(
            stacked[i].latest("weights"), weigh(Resident(rows[i]), messages[i][0], task)
        )


def split(rng):
    return [Batch(rng.normal(size=(20, 3)), rng.normal(size=20)) for _ in range(3)]


def cut_from_columns(rng):
    X, y = np.asfortranarray(rng.normal(size=(60, 3))), rng.normal(size=60)
    return [Batch(X[i : i + 20], y[i : i + 20]) for i in (0, 20, 40)]


def weighted(rng):
    return [Batch(b.X, b.y, np.ones(20)) for b in batches(rng, 3, 20, 3)]


def in_single_precision(rng):
    X = rng.normal(size=(60, 3)).astype(np.float32)
    return [Batch(X[i : i + 20], rng.normal(size=20)) for i in (0, 20, 40)]


def out_of_order(rng):
    return batches(rng, 3, 20, 3)[::-1]


@pytest.mark.parametrize(
    "make", [split, cut_from_columns, weighted, in_single_precision, out_of_order]
)
def test_batches_that_form_no_stack_are_swept_one_by_one(make):
    rng = np.random.default_rng(0)
    rows, task = make(rng), problem()
    changes = [Change(now) for now in weightings(rng, 3, 4)]
    assert not together.sweep.suits([Resident(b) for b in rows], changes, task)
    found = together.sweep.many([Resident(b) for b in rows], changes, task)
    for i in range(3):
        same(found[i], steps.sweep(Resident(rows[i]), changes[i], task))


@pytest.mark.parametrize(
    "task",
    [problem(regularizer=Hard()), problem(shift=np.full(3, 9.0))],
    ids=["all or nothing", "shifted"],
)
def test_rows_judged_otherwise_are_swept_one_by_one(task):
    rng = np.random.default_rng(0)
    rows = batches(rng, 3, 20, 3)
    changes = [Change(now) for now in weightings(rng, 3, 4, width=None)]
    assert not together.sweep.suits([Resident(b) for b in rows], changes, task)
    found = together.sweep.many([Resident(b) for b in rows], changes, task)
    for i in range(3):
        same(found[i], steps.sweep(Resident(rows[i]), changes[i], task))


def test_a_fit_of_many_small_batches_has_the_bits_of_one_batch_at_a_time(monkeypatch):
    rows = corrupted_rows(n=30_000, p=4)
    swept, real = [], together.sweep

    def watched(residents, changes, task):
        swept.append(len(residents))
        return real.many(residents, changes, task)

    step = GroupStep(real.alone, watched, real.suits)
    with monkeypatch.context() as patched:
        patched.setattr("easyfirst.consensus.fleet.together.sweep", step)
        many = SelfPacedRegressor(n_batches=101, n_jobs=2).fit(rows.X, rows.y)
    assert max(swept) > 50
    monkeypatch.setattr(workers, "FOR_ITSELF", 0)
    single = SelfPacedRegressor(n_batches=101, engine="inline").fit(rows.X, rows.y)
    np.testing.assert_array_equal(many.coef_, single.coef_)
    np.testing.assert_array_equal(many.weights_, single.weights_)
    np.testing.assert_array_equal(many.coef_standard_errors_, single.coef_standard_errors_)


def test_runs_hold_equal_batches_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(workers, "IN_A_RUN", 100)
    assert workers.runs_of([]) == []
    assert workers.runs_of([30] * 7) == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert workers.runs_of([31, 31, 30, 30, 30, 30]) == [slice(0, 2), slice(2, 5), slice(5, 6)]
    assert workers.runs_of([500, 500]) == [slice(0, 1), slice(1, 2)]
    assert workers.runs_of([0, 0, 5]) == [slice(0, 2), slice(2, 3)]


@given(n_rows=st.integers(1, 5000), n_batches=st.integers(1, 300))
def test_batches_differ_by_one_row_at_most_and_the_longer_come_first(n_rows, n_batches):
    n_batches = min(n_rows, n_batches)
    lengths = np.diff(even_bounds(n_rows, n_batches))
    assert len(lengths) == n_batches
    assert lengths.sum() == n_rows
    assert np.all(np.diff(lengths) <= 0)
    assert lengths[0] - lengths[-1] <= 1
