"""Every pace schedule keeps the contract of `PaceSchedule`."""

import copy
import math
import pickle
from typing import ClassVar

import numpy as np
import pytest

from easyfirst import SelfPacedRegressor
from easyfirst.contracts import Pace
from easyfirst.schedules import Constant, Geometric, PaceSchedule, Quantile
from easyfirst.summaries import LossSummary, histogram
from problems import corrupted_rows, members

VARIANTS = [
    Geometric(0.5, 1.5, 1.0),
    Geometric(1.0, 2.0, 1.0),
    Constant(0.3),
    Quantile(0.1, 1.0, 0.3),
    Quantile(0.6, 0.6),
]
SCHEDULES = [cls() for cls in members(PaceSchedule)] + VARIANTS
every_schedule = pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)


def summary(n_batches=3, seed=0):
    rng = np.random.default_rng(seed)
    residuals = rng.normal(scale=0.3, size=(n_batches, 400))
    residuals[:, :100] = rng.uniform(-8.0, 8.0, size=(n_batches, 100))
    counts = np.stack([histogram(r, None, 2.0) for r in residuals])
    return LossSummary(counts[:, None], anchor=2.0, n_coef=3)  # one band


def walk(schedule, losses, limit=1000):
    """The paces of a fit whose losses stand still, up to the first final one."""
    path = [schedule.first(losses)]
    while not schedule.is_final(path[-1]) and len(path) < limit:
        path.append(schedule.next(path[-1], losses))
    return path


def test_the_battery_covers_the_schedules_of_the_issue():
    assert {Geometric, Quantile, Constant} <= {type(schedule) for schedule in SCHEDULES}


@every_schedule
def test_a_schedule_reaches_its_end_and_stays_there(schedule):
    losses = summary()
    path = walk(schedule, losses)
    assert len(path) < 1000
    assert schedule.is_final(schedule.next(path[-1], losses))


@every_schedule
def test_every_pace_is_positive_and_counts_its_steps(schedule):
    path = walk(schedule, summary())
    assert all(pace.value > 0 for pace in path)
    assert [pace.step for pace in path] == list(range(len(path)))


@every_schedule
def test_a_schedule_keeps_no_memory_between_fits(schedule):
    assert walk(schedule, summary()) == walk(schedule, summary())


@every_schedule
def test_copies_and_pickles_equal_the_original_and_differ_from_others(schedule):
    assert copy.deepcopy(schedule) == schedule
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert sum(schedule == other for other in SCHEDULES) == 1


@pytest.mark.parametrize(
    "schedule", [Geometric(), Geometric(0.5, 1.5, 1.0), Geometric(1e-3, 3.0, 7.0)], ids=repr
)
def test_a_geometric_pace_rises_and_never_overshoots(schedule):
    values = [pace.value for pace in walk(schedule, None)]
    assert values[0] == schedule.start
    assert np.all(np.diff(values) > 0)
    assert values[-1] == schedule.ceiling
    assert max(values) == schedule.ceiling
    assert schedule.next(Pace(values[-1]), None).value == schedule.ceiling


def test_the_papers_pace_ends_on_one_instead_of_passing_it():
    values = [pace.value for pace in walk(Geometric(0.1, 1.1, 1.0), None)]
    # 0.1 * 1.1**24 = 0.985 and 0.1 * 1.1**25 = 1.083: the printed rule visits the latter.
    assert len(values) == 26
    np.testing.assert_allclose(values[:-1], 0.1 * 1.1 ** np.arange(25), rtol=1e-12)
    assert values[-1] == 1.0


def test_a_constant_pace_is_final_at_once():
    assert [pace.value for pace in walk(Constant(0.3), None)] == [0.3]
    assert math.isinf(walk(Constant(), None)[0].value)


def test_a_quantile_pace_lets_in_its_share_of_the_rows():
    rng = np.random.default_rng(0)
    residuals = rng.normal(size=5000)
    losses = LossSummary(histogram(residuals, None, 1.0)[None, None], anchor=1.0)
    shares = [np.mean(residuals**2 < pace.value) for pace in walk(Quantile(0.2, 0.9, 0.1), losses)]
    np.testing.assert_allclose(shares, [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.9], atol=0.01)


def test_the_last_quantile_is_followed_until_it_settles_but_not_for_ever():
    residuals = np.random.default_rng(0).normal(size=5000)

    def losses(scale):
        return LossSummary(histogram(scale * residuals, None, 1.0)[None, None], anchor=1.0)

    schedule = Quantile(0.5, 0.5)
    pace = schedule.first(losses(1.0))
    moved = schedule.next(pace, losses(2.0))
    assert moved.value == pytest.approx(4.0 * pace.value, rel=0.1)
    assert not schedule.is_final(moved)
    settled = schedule.next(moved, losses(2.0))
    assert schedule.is_final(settled)
    assert schedule.next(settled, losses(9.0)).value == settled.value
    for step in range(25):
        moved = schedule.next(moved, losses(2.0 ** (step % 2)))
    assert schedule.is_final(moved)


def test_a_quantile_pace_follows_the_scale_of_the_losses():
    residuals = np.random.default_rng(0).normal(size=500)
    one = LossSummary(histogram(residuals, None, 1.0)[None, None], anchor=1.0)
    far = LossSummary(histogram(1e3 * residuals, None, 1e3)[None, None], anchor=1e3)
    np.testing.assert_allclose(
        [pace.value for pace in walk(Quantile(), far)],
        [1e6 * pace.value for pace in walk(Quantile(), one)],
        rtol=1e-9,
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Geometric(start=0.0), r"start must be > 0 .* got 0\.0"),
        (lambda: Geometric(start=2.0), r"at most the ceiling 1\.0, got 2\.0"),
        (lambda: Geometric(start=math.nan), "start must be .* got nan"),
        (lambda: Geometric(factor=1.0), r"factor must be a finite number > 1, got 1\.0"),
        (lambda: Geometric(factor=math.inf), "factor must be a finite number > 1, got inf"),
        (lambda: Geometric(ceiling=math.inf), "ceiling must be .* got inf"),
        (lambda: Constant(0.0), r"pace must be > 0, got 0\.0"),
        (lambda: Constant(-1.0), r"pace must be > 0, got -1\.0"),
        (lambda: Constant(math.nan), "pace must be > 0, got nan"),
        (lambda: Quantile(start=0.0), r"0 < start <= end <= 1, got 0\.0 and 0\.75"),
        (lambda: Quantile(start=0.9, end=0.8), r"got 0\.9 and 0\.8"),
        (lambda: Quantile(end=1.5), r"got 0\.5 and 1\.5"),
        (lambda: Quantile(step=0.0), r"step must be > 0, got 0\.0"),
        (lambda: Quantile(step=math.nan), "step must be > 0, got nan"),
    ],
)
def test_bad_parameters_are_refused_by_name_and_value(build, message):
    with pytest.raises(ValueError, match=message):
        build()


class Curious(Geometric):
    """The paper's pace, but it wants to see the losses and keeps what it saw."""

    reads_losses = True
    seen: ClassVar[list[float]] = []

    def next(self, pace, losses):
        self.seen.append(losses.total)
        return super().next(pace, losses)


def test_losses_are_summed_up_only_for_schedules_that_look_at_them():
    rows = corrupted_rows(n=600, p=3)
    blind, curious = (
        SelfPacedRegressor(pace=pace, solver="gram", n_batches=3).fit(rows.X, rows.y)
        for pace in (Geometric(), Curious())
    )
    assert blind.coef_.tobytes() == curious.coef_.tobytes()
    assert set(Curious.seen) == {600.0}
