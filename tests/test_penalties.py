"""Every penalty keeps the contract of `Penalty`."""

import copy
import math
import pickle

import numpy as np
import pytest

from easyfirst.penalties import ElasticNet, Lasso, NoPenalty, Penalty, Ridge
from problems import members

PENALTIES = [*[cls() for cls in members(Penalty)], Ridge(0.0), Ridge(37.5), Lasso(0.3)]
every_penalty = pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
POINT = np.random.default_rng(0).normal(scale=2.0, size=7)
VECTOR_STEP = np.random.default_rng(1).uniform(0.01, 3.0, size=7)
steps = pytest.mark.parametrize("step", [0.01, 1.0, 50.0, VECTOR_STEP], ids=str)


def test_the_battery_covers_the_penalties_of_the_issue():
    assert {ElasticNet, Lasso, NoPenalty, Ridge} <= {type(penalty) for penalty in PENALTIES}


@every_penalty
@steps
def test_the_prox_beats_random_perturbations(penalty, step):
    def cost(z):
        return penalty.value(z) + np.sum((z - POINT) ** 2 / (2 * step))

    best = penalty.prox(POINT, step)
    rng = np.random.default_rng(2)
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(50):
            assert cost(best) <= cost(best + size * rng.normal(size=7))


@every_penalty
def test_a_step_per_coefficient_moves_each_by_its_own(penalty):
    together = penalty.prox(POINT, VECTOR_STEP)
    alone = [penalty.prox(POINT[j : j + 1], float(VECTOR_STEP[j]))[0] for j in range(7)]
    np.testing.assert_allclose(together, alone, rtol=1e-14)


@every_penalty
def test_a_tiny_step_stays_at_the_point(penalty):
    np.testing.assert_allclose(penalty.prox(POINT, 1e-14), POINT, rtol=1e-9)


@every_penalty
def test_central_differences_equal_the_gradient(penalty):
    if not penalty.smooth:
        with pytest.raises(NotImplementedError, match="not declared smooth"):
            penalty.gradient(POINT)
        return
    h = 1e-5
    slope = [
        (penalty.value(POINT + h * unit) - penalty.value(POINT - h * unit)) / (2 * h)
        for unit in np.eye(7)
    ]
    np.testing.assert_allclose(penalty.gradient(POINT), slope, rtol=1e-6, atol=1e-7)


@every_penalty
def test_a_quadratic_strength_is_the_value_per_square(penalty):
    strength = penalty.quadratic_strength
    if strength is not None:
        assert penalty.value(POINT) == pytest.approx(strength * POINT @ POINT)


@every_penalty
def test_copies_and_pickles_equal_the_original_and_differ_from_others(penalty):
    assert copy.deepcopy(penalty) == penalty
    assert pickle.loads(pickle.dumps(penalty)) == penalty
    assert sum(penalty == other for other in PENALTIES) == 1


@every_penalty
@pytest.mark.parametrize("factor", [0.25, 3.0])
def test_a_scaled_penalty_is_so_many_times_as_strong(penalty, factor):
    scaled = penalty.scaled(factor)
    assert scaled.value(POINT) == pytest.approx(factor * penalty.value(POINT))
    np.testing.assert_allclose(
        scaled.prox(POINT, VECTOR_STEP), penalty.prox(POINT, factor * VECTOR_STEP), rtol=1e-12
    )
    assert (scaled.quadratic_strength is None) == (penalty.quadratic_strength is None)


def test_lasso_and_elastic_net_set_small_coefficients_to_zero():
    assert Lasso(2.0).prox(np.array([0.9, -3.0]), 0.5).tolist() == [0.0, -2.0]
    assert ElasticNet(2.0, 1.0).prox(np.array([0.9, -3.0]), 0.5).tolist() == [0.0, -1.0]


@pytest.mark.parametrize("strength", [-1.0, math.inf, math.nan])
def test_a_bad_strength_is_refused_by_name_and_value(strength):
    with pytest.raises(ValueError, match=f"strength must be a finite number >= 0, got {strength}"):
        Ridge(strength)
