"""One pass over the rows does what separate passes do, and what plain arithmetic says."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from easyfirst.contracts import Batch, Resident
from easyfirst.local import design as designs
from easyfirst.local import products, steps, weighing
from easyfirst.local.design import Coordinates
from easyfirst.local.far_rows import FarRule
from easyfirst.local.steps import Change
from easyfirst.local.weighing import Problem, Weighting
from easyfirst.losses import Squared
from easyfirst.regularizers import Entropic
from problems import corrupted_rows

COEF = np.linspace(-1.0, 1.0, 61)
NOW = Weighting(tuple(COEF), ((1.0, 3.0),), 0.5)
BEFORE = Weighting(tuple(COEF + 0.1), ((2.0, 2.0),), 0.5)
KINDS = ["dense", "float32", "sparse", "shifted", "sparse shifted", "bands", "weighted"]


def far_rule(p):
    return FarRule(
        directions=np.eye(p)[:, :2] / 2.0,
        offsets=np.zeros(2),
        columns=np.arange(3),
        center=np.zeros(3),
        inverse=np.full(3, 0.4),
    )


@pytest.fixture(params=KINDS)
def case(request):
    """A batch of several blocks, a problem, and the design in plain numbers."""
    rows = corrupted_rows(n=3 * designs.PIECE_ENTRIES // 60 + 7, p=60)
    X = rows.X.astype(np.float32) if request.param == "float32" else rows.X
    shift = np.linspace(3.0, 5.0, 60) if "shifted" in request.param else None
    problem = Problem(Coordinates(True, shift), Squared(), Entropic(), anchor=2.0)
    if request.param == "bands":
        problem = replace(problem, far_rule=far_rule(60))
    weight = np.arange(len(rows.y)) % 3.0 if request.param == "weighted" else None
    batch = Batch(sp.csr_array(X) if "sparse" in request.param else X, rows.y, weight)
    moved = X.astype(np.float64) - (0.0 if shift is None else shift)
    return batch, problem, np.column_stack([moved, np.ones(len(X))])


def test_a_sweep_counts_and_weighs_as_separate_passes_do(case):
    batch, problem, design = case
    counts, tally = steps.sweep(Resident(batch), Change(NOW, BEFORE), problem)
    np.testing.assert_array_equal(counts, steps.summarize(Resident(batch), NOW, problem))
    formed = steps.form(Resident(batch), Change(NOW, BEFORE), problem)
    for name in ("weight", "selected", "changed", "total"):
        assert getattr(tally, name) == pytest.approx(getattr(formed, name), rel=1e-12), name
    np.testing.assert_allclose(
        tally.rhs, formed.rhs - formed.gram @ COEF, atol=1e-9 * np.abs(formed.rhs).max()
    )
    residual = batch.y - design @ COEF
    s = np.ones(len(residual)) if batch.sample_weight is None else batch.sample_weight
    v = weighing.weigh(Resident(batch), NOW, problem)
    assert tally.square == pytest.approx(float(s * v @ residual**2), rel=1e-9)


def test_a_worker_that_forgot_the_sweep_finds_the_same_weights(case):
    batch, problem, _ = case
    kept = Resident(batch)
    steps.sweep(kept, Change(NOW, BEFORE), problem)
    remembered = weighing.weigh(kept, NOW, problem)
    afresh = weighing.weigh(Resident(batch), NOW, problem)
    assert remembered.tobytes() == afresh.tobytes()


def test_products_are_those_of_the_gram_matrix(case):
    batch, problem, _ = case
    formed = steps.form(Resident(batch), Change(NOW), problem)
    tolerance = 1e-9 * np.abs(formed.gram).max()
    direction = np.cos(np.arange(61.0))
    image = products.curve(Resident(batch), NOW, (problem, direction, None))
    np.testing.assert_allclose(image, formed.gram @ direction, atol=61 * tolerance)
    squares = products.column_squares(Resident(batch), NOW, problem)
    np.testing.assert_allclose(squares, np.diagonal(formed.gram), atol=tolerance)


def test_a_weighting_that_keeps_every_row_needs_no_width():
    rows = corrupted_rows(n=50, p=60)
    every = Weighting(tuple(COEF), ((np.inf, np.inf),))
    problem = Problem(Coordinates(True), Squared(), Entropic())
    tally = steps.sweep(Resident(Batch(rows.X, rows.y)), Change(every), problem)[1]
    assert tally.weight == tally.selected == 50
