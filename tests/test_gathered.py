"""Small tables: the driver holds their rows, and finds what messages about them would find."""

import numpy as np
import pytest
import scipy.sparse as sp

from easyfirst import SelfPacedRegressor
from easyfirst.consensus.fleet import Fleet
from easyfirst.consensus.solvers.gathered import _Rows
from easyfirst.contracts import Batch, Pace, Resident
from easyfirst.engines import Inline, Threads
from easyfirst.errors import NoRowSelectedError
from easyfirst.local.design import Coordinates
from easyfirst.local.weighing import Problem
from easyfirst.losses import Squared
from easyfirst.regularizers import Hard
from easyfirst.schedules import Constant, Geometric, Quantile
from easyfirst.workers import ResidentWorkers

LEARNED = ("pace", "selected", "changed", "iterations")
COMPUTED = ("objective", "lagrangian", "rho")


def table(seed=0, n=400, p=6, share=0.4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    y = X @ rng.normal(size=p) + 0.2 * rng.normal(size=n)
    bad = rng.random(n) < share
    y[bad] += rng.uniform(-8, 8, bad.sum())
    return X, y


def sparse_table():
    X, y = table(3)
    return sp.csr_array(X * (np.random.default_rng(3).random(X.shape) < 0.5)), y


CASES = {
    "as it is": lambda: (*table(1), {}, {}),
    "one batch": lambda: (*table(1), {"n_batches": 1}, {}),
    "an intercept, far from zero": lambda: (
        table(2)[0] + 1000.0,
        table(2)[1] + 7.0,
        {"fit_intercept": True},
        {},
    ),
    "sparse": lambda: (*sparse_table(), {"fit_intercept": True}, {}),
    "float32": lambda: (table(4)[0].astype(np.float32), table(4)[1], {}, {}),
    "columns first": lambda: (np.asfortranarray(table(5)[0]), table(5)[1], {}, {}),
    "sample weights, some of them zero": lambda: (
        *table(6),
        {},
        {"sample_weight": np.random.default_rng(6).integers(0, 4, 400) * 0.5},
    ),
    "trusted rows": lambda: (*table(7), {}, {"trusted": np.arange(400) % 40 == 0}),
    "batches of a row": lambda: (
        *table(8),
        {"n_batches": None},
        {"batches": np.minimum(np.arange(400), 9)},
    ),
    "solved at once": lambda: (*table(9), {"solver": "gram", "polish": "auto"}, {}),
    "a pace that follows the losses": lambda: (*table(10), {"pace": Quantile(0.3, 0.5)}, {}),
    "every row": lambda: (*table(11), {"pace": Constant()}, {}),
    "enough rows to build on the last sums": lambda: (*table(12, n=4000, p=12), {}, {}),
}


def fit(case, engine="inline"):
    X, y, settings, extra = CASES[case]()
    return SelfPacedRegressor.paper(**({"n_batches": 5, "engine": engine} | settings)).fit(
        X, y, **extra
    )


@pytest.mark.parametrize("case", CASES)
def test_the_driver_finds_what_messages_about_the_rows_find(case, monkeypatch):
    ours = fit(case)
    monkeypatch.setattr("easyfirst.consensus.solvers.gathered.MOST_ENTRIES", 0)
    theirs = fit(case)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(ours.weights_, theirs.weights_)
    assert ours.status_ == theirs.status_
    assert len(ours.history_.rounds) == len(theirs.history_.rounds) > 1
    for own, other in zip(ours.history_.rounds, theirs.history_.rounds, strict=True):
        for name in LEARNED:
            assert getattr(own, name) == pytest.approx(getattr(other, name)), name
        for name in COMPUTED:
            assert getattr(own, name) == pytest.approx(getattr(other, name), rel=1e-6), name
        assert own.batch_selected_share == pytest.approx(other.batch_selected_share)
        assert own.kkt_residual < 1e-9
    assert len(ours.history_.iterations) == len(theirs.history_.iterations)
    for own, other in zip(ours.history_.iterations, theirs.history_.iterations, strict=True):
        assert (own.round, own.iteration) == (other.round, other.iteration)
        assert own.lagrangian == pytest.approx(other.lagrangian, rel=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_the_engine_does_not_matter(case):
    ours, theirs = fit(case, Inline()), fit(case, Threads(3))
    assert ours.coef_.tobytes() == theirs.coef_.tobytes()
    assert ours.weights_.tobytes() == theirs.weights_.tobytes()


@pytest.fixture
def asked(monkeypatch):
    """The steps that the workers were asked to run."""
    steps, usual = [], ResidentWorkers.map

    def noting(workers, step, *args):
        steps.append(step.__name__)
        return usual(workers, step, *args)

    monkeypatch.setattr(ResidentWorkers, "map", noting)
    return steps


@pytest.mark.parametrize("factor", [1.5, 1.02])
def test_rounds_of_a_small_table_ask_the_workers_nothing(asked, factor):
    X, y = table(13)
    pace = Geometric(start=0.1, factor=factor, ceiling=1.0)
    model = SelfPacedRegressor.paper(pace=pace, n_batches=5).fit(X, y)
    assert model.n_rounds_ > 5
    assert asked == ["describe", "sample", "weights_of"]


def test_rows_that_take_all_digits_with_them_are_not_subtracted():
    X, y = table(14, n=3000, p=20, share=0.0)
    coef = np.linalg.lstsq(X, y, rcond=None)[0]
    X[7] *= 1e9
    y[7] = 0.0
    drawn = coef - X[7] * (X[7] @ coef) / (X[7] @ X[7])  # where row 7 fits, and most others do
    problem = Problem(Coordinates(fit_intercept=False), Squared(), Hard())
    residents = [Resident(Batch(X[:1000], y[:1000])), Resident(Batch(X[1000:], y[1000:]))]
    rows = _Rows.of(Fleet.meet(ResidentWorkers(residents), problem))
    pace = Pace(np.quantile(np.square(y - X @ drawn), 0.99))
    with_it = rows.turned_over(rows.all_of_them(), drawn, pace)
    assert rows.kept[7]
    without = rows.turned_over(with_it, coef, pace)
    assert not rows.kept[7]
    assert 1 < without.changed.sum() < 0.1 * 3000  # few enough to build on the last sums
    kept = X[rows.kept]
    np.testing.assert_allclose(without.pooled_gram, kept.T @ kept, rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(without.pooled_rhs, kept.T @ y[rows.kept], rtol=1e-9, atol=1e-6)


def test_a_pace_that_selects_no_row_says_so():
    X, y = table(15)
    with pytest.raises(NoRowSelectedError, match="selects no row"):
        SelfPacedRegressor.paper(pace=Geometric(1e-12, 1.1, 1e-11)).fit(X, y * 1e3)
