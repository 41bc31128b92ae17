"""Small batches as one block: the bits that each has alone, whatever they differ in."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from easyfirst import SelfPacedRegressor, workers
from easyfirst.consensus.statistics import StackedStatistics
from easyfirst.contracts import Batch, Block, BlockStep, Resident
from easyfirst.local import design, steps
from easyfirst.local.design import Coordinates
from easyfirst.local.far_rows import FarRule
from easyfirst.local.steps import Change
from easyfirst.local.turnover import Sums, Turnover, turnover
from easyfirst.local.weighing import Problem, Weighting, weigh
from easyfirst.losses import Squared
from easyfirst.regularizers import Entropic, Hard
from easyfirst.sources.arrays import even_bounds
from problems import corrupted_rows


def batches(rng, lengths, p, weighted=False, trusted=False):
    n = sum(lengths)
    X, y = rng.normal(size=(n, p)), 3.0 * rng.standard_t(2, size=n)
    s, known = rng.random(n), rng.random(n) < 0.2
    bounds = np.cumsum([0, *lengths])
    return [
        Batch(
            X[a:b],
            y[a:b],
            s[a:b] if weighted else None,
            trusted=known[a:b] if trusted else None,
        )
        for a, b in pairwise(bounds)
    ]


def block_of(rows):
    (block,) = workers.blocks_of([Resident(batch) for batch in rows])
    assert len(block.residents) == len(rows)
    return block


def problem(fit_intercept=True, regularizer=None, shift=None, **settings):
    coordinates = Coordinates(fit_intercept, shift)
    return Problem(coordinates, Squared(), regularizer or Entropic(), anchor=2.5, **settings)


def far_rule(p):
    columns = np.arange(p)
    return FarRule(np.zeros((p, 0)), np.zeros(0), columns, np.zeros(p), np.full(p, 0.7))


def weightings(rng, k, size, width=0.7, bands=1):
    coef = tuple(rng.normal(size=size).tolist())
    levels = rng.uniform(0.1, 5.0, size=(k, bands, 2)).tolist()
    return [Weighting(coef, tuple(map(tuple, own)), width) for own in levels]


def same(ours, theirs):
    assert type(ours) is type(theirs)
    if isinstance(ours, tuple | list):
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    elif isinstance(ours, steps.Statistics | Turnover | Sums):
        for name in vars(ours):
            same(getattr(ours, name), getattr(theirs, name))
    else:
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


LENGTHS = st.one_of(
    st.tuples(st.integers(2, 7), st.integers(1, 90)).map(lambda both: [both[1]] * both[0]),
    st.lists(st.integers(1, 90), min_size=2, max_size=7),
)


@given(
    seed=st.integers(0, 10_000),
    lengths=LENGTHS,
    p=st.integers(1, 20),
    fit_intercept=st.booleans(),
    before=st.sampled_from([None, "every row", "others"]),
    small_pieces=st.booleans(),
    kind=st.sampled_from(["plain", "weighted", "trusted", "far rows", "shifted", "aside"]),
)
def test_a_sweep_of_a_block_has_the_bits_of_each_batch(
    seed, lengths, p, fit_intercept, before, small_pieces, kind
):
    rng = np.random.default_rng(seed)
    fit_intercept = fit_intercept or kind == "shifted"
    rows = batches(rng, lengths, p, kind == "weighted", kind == "trusted")
    task = problem(
        fit_intercept,
        shift=rng.normal(size=p) * 9 if kind == "shifted" else None,
        has_trusted=kind == "trusted",
        far_rule=far_rule(p) if kind == "far rows" else None,
        aside=(float(rows[0].y[0]), float(rows[1].y[-1])) if kind == "aside" else (),
    )
    k, size, bands = len(lengths), p + fit_intercept, 3 if kind == "far rows" else 1
    earlier = {
        None: [None] * k,
        "every row": [Weighting(None)] * k,
        "others": weightings(rng, k, size, bands=bands),
    }[before]
    changes = list(map(Change, weightings(rng, k, size, bands=bands), earlier))
    entries = design.PIECE_ENTRIES
    try:
        design.PIECE_ENTRIES = 40 * p if small_pieces else entries
        block, single = block_of(rows), [Resident(batch) for batch in rows]
        found = steps.sweep.on_block(block, changes, task)
        for i in range(k):
            same(found[i], steps.sweep(single[i], changes[i], task))
            for name in ("residual", "weights"):
                ours = block.residents[i].latest(name)
                np.testing.assert_array_equal(ours, single[i].latest(name))
    finally:
        design.PIECE_ENTRIES = entries


@given(seed=st.integers(0, 10_000), lengths=LENGTHS, weighted=st.booleans())
def test_the_influence_of_a_block_has_the_bits_of_each_batch(seed, lengths, weighted):
    rng = np.random.default_rng(seed)
    rows, task = batches(rng, lengths, 4, weighted), problem()
    messages = [(weighting, 0.8) for weighting in weightings(rng, len(lengths), 5)]
    block = block_of(rows)
    found = steps.influence.on_block(block, messages, task)
    for i, batch in enumerate(rows):
        np.testing.assert_array_equal(
            found[i], steps.influence(Resident(batch), *messages[i : i + 1], task)
        )
        np.testing.assert_array_equal(
            block.residents[i].latest("weights"), weigh(Resident(batch), messages[i][0], task)
        )


def apart(rng):
    spaced = np.empty((3, 30, 3))
    spaced[:] = rng.normal(size=spaced.shape)
    return [Batch(X[:20], rng.normal(size=20)) for X in spaced]


def cut_from_columns(rng):
    X, y = np.asfortranarray(rng.normal(size=(60, 3))), rng.normal(size=60)
    return [Batch(X[i : i + 20], y[i : i + 20]) for i in (0, 20, 40)]


def in_single_precision(rng):
    X = rng.normal(size=(60, 3)).astype(np.float32)
    return [Batch(X[i : i + 20], rng.normal(size=20)) for i in (0, 20, 40)]


def out_of_order(rng):
    return batches(rng, [20] * 3, 3)[::-1]


def some_weighted(rng):
    first, second, third = batches(rng, [20] * 3, 3)
    return [first, Batch(second.X, second.y, np.ones(20)), third]


@pytest.mark.parametrize(
    "make", [apart, cut_from_columns, in_single_precision, out_of_order, some_weighted]
)
def test_batches_that_do_not_continue_each_other_are_blocks_of_their_own(make):
    residents = [Resident(batch) for batch in make(np.random.default_rng(0))]
    blocks = list(workers.blocks_of(residents))
    assert [block.residents for block in blocks] == [(resident,) for resident in residents]
    assert all(block.rows is block.residents[0].batch for block in blocks)


@pytest.mark.parametrize("kind", ["all or nothing", "other coefficients", "one keeps every row"])
def test_batches_judged_otherwise_are_swept_one_by_one(kind):
    rng = np.random.default_rng(0)
    rows = batches(rng, [20] * 3, 3)
    task = problem(regularizer=Hard() if kind == "all or nothing" else None)
    now = weightings(rng, 3, 4)
    if kind == "other coefficients":
        now[1] = Weighting((1.0, 2.0, 3.0, 4.0), now[1].thresholds, now[1].width)
    if kind == "one keeps every row":
        now[1] = Weighting(now[0].coef)
    changes = [Change(weighting) for weighting in now]
    found = steps.sweep.on_block(block_of(rows), changes, task)
    for i in range(3):
        same(found[i], steps.sweep(Resident(rows[i]), changes[i], task))


@pytest.mark.parametrize("lengths", [[297] * 101, [100, 700, 50] * 30], ids=["even", "uneven"])
def test_a_fit_of_many_small_batches_has_the_bits_of_one_batch_at_a_time(monkeypatch, lengths):
    rows = corrupted_rows(n=sum(lengths), p=4)
    ids, swept, real = np.repeat(np.arange(len(lengths)), lengths), [], steps.sweep

    @BlockStep
    def watched(block, changes, task):
        swept.append(len(block.residents))
        return real.on_block(block, changes, task)

    with monkeypatch.context() as patched:
        patched.setattr("easyfirst.consensus.fleet.steps.sweep", watched)
        many = SelfPacedRegressor(n_jobs=2).fit(rows.X, rows.y, batches=ids)
    assert max(swept) > 50
    monkeypatch.setattr(workers, "IN_A_BLOCK", 0)
    single = SelfPacedRegressor(engine="inline").fit(rows.X, rows.y, batches=ids)
    np.testing.assert_array_equal(many.coef_, single.coef_)
    np.testing.assert_array_equal(many.weights_, single.weights_)
    np.testing.assert_array_equal(many.coef_standard_errors_, single.coef_standard_errors_)


def test_blocks_end_before_they_grow_too_large(monkeypatch):
    rows = batches(np.random.default_rng(0), [10] * 7 + [30, 5], 3)
    residents = [Resident(batch) for batch in rows]

    def sizes():
        return [len(block.residents) for block in workers.blocks_of(residents)]

    assert sizes() == [9]
    monkeypatch.setattr(workers, "IN_A_BLOCK", 95)
    assert sizes() == [3, 3, 1, 1, 1]
    monkeypatch.setattr(workers, "FOR_A_THREAD", 90)
    monkeypatch.setattr(workers, "IN_A_BLOCK", 1000)
    assert sizes() == [7, 1, 1]
    assert list(workers.blocks_of([])) == []


def test_a_block_knows_whose_each_row_is():
    block = block_of(batches(np.random.default_rng(0), [2, 2, 3, 1], 2))
    assert block.runs == (
        (0, slice(0, 4), (2, 2)),
        (2, slice(4, 7), (1, 3)),
        (3, slice(7, 8), (1, 1)),
    )
    assert block.batch_of.tolist() == [0, 0, 1, 1, 2, 2, 2, 3]
    assert [part.size for part in block.split(block.rows.y)] == [2, 2, 3, 1]
    assert Block.of(block.residents[2]).runs == ((0, slice(0, 3), (1, 3)),)


def test_a_step_on_blocks_travels_by_its_name():
    assert pickle.loads(pickle.dumps(steps.sweep)) is steps.sweep
    assert steps.sweep.__name__ == "sweep"


@given(n_rows=st.integers(1, 5000), n_batches=st.integers(1, 300))
def test_batches_differ_by_one_row_at_most_and_the_longer_come_first(n_rows, n_batches):
    n_batches = min(n_rows, n_batches)
    lengths = np.diff(even_bounds(n_rows, n_batches))
    assert len(lengths) == n_batches
    assert lengths.sum() == n_rows
    assert np.all(np.diff(lengths) <= 0)
    assert lengths[0] - lengths[-1] <= 1


def sides(rng, p, q):
    """The same threshold for all batches, at coefficients that leave some rows on either side."""
    coef = tuple((0.3 * rng.normal(size=q)).tolist())
    return Weighting(coef, ((rng.uniform(1.0, 9.0),) * 2,))


@given(
    seed=st.integers(0, 10_000),
    lengths=LENGTHS,
    p=st.integers(1, 20),
    fit_intercept=st.booleans(),
    kind=st.sampled_from(["plain", "weighted", "trusted"]),
    alike=st.booleans(),
)
def test_rows_that_change_sides_are_those_of_each_batch_and_add_up(
    seed, lengths, p, fit_intercept, kind, alike
):
    rng = np.random.default_rng(seed)
    rows = batches(rng, lengths, p, kind == "weighted", kind == "trusted")
    task = problem(fit_intercept, Hard(), has_trusted=kind == "trusted")
    k, q = len(lengths), p + fit_intercept
    before, now = (
        [sides(rng, p, q)] * k if alike else [sides(rng, p, q) for _ in range(k)] for _ in range(2)
    )
    block, single = block_of(rows), [Resident(batch) for batch in rows]
    first = [
        steps.form(resident, Change(own), task)
        for resident, own in zip(single, before, strict=True)
    ]
    same(steps.form.on_block(block, list(map(Change, before)), task), first)
    changes = list(map(Change, now, before))
    found = turnover.on_block(block, changes, task)
    for ours, resident, change in zip(found, single, changes, strict=True):
        same(ours, turnover(Resident(resident.batch), change, task))
    moved = StackedStatistics.added(first).turned_over(found)
    anew = StackedStatistics.added(
        [steps.form(*each, task) for each in zip(single, changes, strict=True)]
    )
    if moved is None:  # next to nothing is left of some column
        return
    scale = np.abs(StackedStatistics.added(first).pooled_gram).max() + 1.0
    np.testing.assert_allclose(moved.pooled_gram, anew.pooled_gram, atol=1e-12 * scale)
    np.testing.assert_allclose(moved.pooled_rhs, anew.pooled_rhs, atol=1e-10 * scale)
    np.testing.assert_allclose(moved.pooled_square, anew.pooled_square, rtol=1e-9, atol=1e-9)
    for name in ("pacing", "weight", "selected", "changed", "total"):
        np.testing.assert_array_equal(getattr(moved, name), getattr(anew, name))


def test_rows_that_leave_and_were_far_larger_than_the_rest_are_not_subtracted():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    X[:2] *= 1e4
    task, resident = problem(False, Hard()), Resident(Batch(X, y))
    every, none = Weighting((0.0,) * 3, ((1e3, 1e3),)), Weighting((1e-2,) * 3, ((9.0, 9.0),))
    whole = StackedStatistics.added([steps.form(resident, Change(every), task)])
    assert whole.turned_over([turnover(resident, Change(none, every), task)]) is None
    assert whole.turned_over([turnover(resident, Change(every, every), task)]) is not None
