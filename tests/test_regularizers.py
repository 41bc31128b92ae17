"""Every self-paced regularizer keeps the contract of `SelfPacedRegularizer`."""

import copy
import pickle

import numpy as np
import pytest

from easyfirst import SelfPacedRegressor
from easyfirst.regularizers import (
    CauchyWeight,
    Diverse,
    Entropic,
    GemanMcClure,
    Hard,
    HuberWeight,
    Linear,
    Logarithmic,
    LogisticWeight,
    Mixture,
    Polynomial,
    SelfPacedRegularizer,
    SoftMixture,
    TruncatedSquares,
    Welsch,
)
from easyfirst.schedules import Geometric
from problems import members

VARIANTS = [
    Polynomial(1.5),
    Polynomial(10.0),
    Mixture(inner=0.5, outer=3.0),
    Welsch(0.4),
    Entropic(softness=1.0),
    Entropic(width=0.3),
    Logarithmic(0.3),
    SoftMixture(0.4),
    LogisticWeight(10.0),
    CauchyWeight(0.5),
    GemanMcClure(3.0),
    TruncatedSquares(5.0),
]
EVERY = [cls() for cls in members(SelfPacedRegularizer)] + VARIANTS
RULES = [rule for rule in EVERY if rule.separable]
every_rule = pytest.mark.parametrize("rule", RULES, ids=repr)
LOSSES = np.random.default_rng(0).exponential(size=120) * np.repeat([0.1, 1.0, 10.0], 40)
PACES = np.random.default_rng(1).uniform(0.05, 5.0, size=120)


def rescaled(rule, factor):
    """The same rule in another unit of the loss; only an explicit width has a unit."""
    width = getattr(rule, "width", None)
    return rule if width is None else rule.with_width(width * factor)


def test_the_battery_covers_every_rule_of_the_issue():
    named = {Hard, Linear, Mixture, Polynomial, Welsch, Entropic, Logarithmic, SoftMixture}
    more = {LogisticWeight, CauchyWeight, HuberWeight, GemanMcClure, TruncatedSquares}
    assert named | more == {type(rule) for rule in RULES}
    assert [rule for rule in EVERY if not rule.separable] == [Diverse()]


@every_rule
@pytest.mark.parametrize("pace", [0.07, 1.0, 4.0, PACES], ids=["low", "one", "high", "per row"])
def test_the_weights_beat_a_fine_grid(rule, pace):
    grid = np.linspace(0.0, 1.0, 2001)
    best = rule.weights(LOSSES, pace)
    reached = best * LOSSES + rule.value(best, pace)
    pace_by_row = np.broadcast_to(pace, LOSSES.shape)
    for i, loss in enumerate(LOSSES):
        others = grid * loss + rule.value(grid, pace_by_row[i])
        assert reached[i] <= others.min() + 1e-12 * (1 + abs(reached[i]))


@every_rule
def test_the_weights_lie_between_zero_and_one(rule):
    extreme = np.concatenate([[0.0, 1e-300, 1e300], LOSSES])
    for pace in (1e-6, 1.0, 1e6):
        weights = rule.weights(extreme, pace)
        assert np.all((weights >= 0) & (weights <= 1))


@every_rule
def test_the_weights_fall_with_the_loss_and_grow_with_the_pace(rule):
    weights = rule.weights(np.sort(LOSSES), 1.0)
    assert np.all(np.diff(weights) <= 0)
    assert weights[0] > 0.7
    assert weights[-1] < 0.2
    assert np.all(rule.weights(LOSSES, 2.0) >= rule.weights(LOSSES, 1.0))


@every_rule
@pytest.mark.parametrize("factor", [2.0**-20, 4.0, 1e6])
def test_scaling_losses_and_pace_together_changes_nothing(rule, factor):
    np.testing.assert_allclose(
        rescaled(rule, factor).weights(LOSSES * factor, PACES * factor),
        rule.weights(LOSSES, PACES),
        rtol=1e-12,
        atol=1e-15,
    )


@every_rule
def test_scaling_the_pace_scales_the_value(rule):
    v = np.linspace(0.0, 1.0, 11)
    # A rule whose value is not homogeneous has a constant in it: compare differences.
    one, seven = rule.value(v, 2.0), rescaled(rule, 7.0).value(v, 14.0)
    np.testing.assert_allclose(seven - seven[0], 7.0 * (one - one[0]), rtol=1e-12, atol=1e-13)


@every_rule
def test_a_pace_per_row_judges_each_row_by_its_own(rule):
    together = rule.weights(LOSSES, PACES)
    values = rule.value(together, PACES)
    for i in range(0, LOSSES.size, 7):
        assert rule.weights(LOSSES[i : i + 1], float(PACES[i]))[0] == together[i]
        np.testing.assert_allclose(
            rule.value(together[i : i + 1], float(PACES[i]))[0], values[i], rtol=1e-12
        )
    assert values.shape == LOSSES.shape


@every_rule
def test_copies_and_pickles_equal_the_original_and_differ_from_others(rule):
    assert copy.deepcopy(rule) == rule
    assert pickle.loads(pickle.dumps(rule)) == rule
    assert sum(rule == other for other in RULES) == 1


@every_rule
def test_a_width_reaches_only_rules_that_have_one(rule):
    assert rule.with_width(None) == rule
    narrow = rule.with_width(1e-3)
    assert (narrow != rule) == isinstance(rule, Entropic)


def test_the_hard_rule_excludes_a_loss_equal_to_the_pace():
    assert Hard().weights(np.array([1.0, np.nextafter(1.0, 0.0)]), 1.0).tolist() == [0.0, 1.0]


def test_the_closed_forms_have_their_documented_values():
    losses = np.array([0.0, 0.5, 1.0, 2.0])
    np.testing.assert_allclose(Linear().weights(losses, 1.0), [1, 0.5, 0, 0])
    np.testing.assert_allclose(Polynomial(2.0).weights(losses, 1.0), [1, 0.5, 0, 0])
    np.testing.assert_allclose(Welsch().weights(losses, 1.0), np.exp(-losses))
    np.testing.assert_allclose(Mixture(0.5, 1.5).weights(losses, 1.0), [1, 1, 0.25, 0])
    np.testing.assert_allclose(Entropic(width=0.5).weights(losses, 1.0)[2], 0.5)
    np.testing.assert_allclose(CauchyWeight().weights(losses, 1.0), [1, 2 / 3, 1 / 2, 1 / 3])
    np.testing.assert_allclose(HuberWeight().weights(losses, 0.5), [1, 1, 0.5**0.5, 0.5])
    np.testing.assert_allclose(GemanMcClure().weights(losses, 1.0), [1, 4 / 9, 1 / 4, 1 / 9])
    np.testing.assert_allclose(TruncatedSquares(1.0).weights(losses, 1.0), [1, 1, 2**0.5 - 1, 0])
    np.testing.assert_allclose(SoftMixture(1.0).weights(losses, 1.0), [1, 2**0.5 - 1, 0, 0])
    np.testing.assert_allclose(Logarithmic(0.5).weights(losses, 1.0), [1, np.log2(4 / 3), 0, 0])
    np.testing.assert_allclose(LogisticWeight(2.0).weights(losses, 1.0)[2], (1 + np.exp(-2)) / 2)


@pytest.mark.parametrize("diversity", [0.3, 2.0])
def test_diverse_weights_beat_every_other_selection_of_a_batch(diversity):
    rule, rng = Diverse(diversity), np.random.default_rng(0)
    for _ in range(30):
        losses = rng.exponential(size=8) * 3.0
        best = rule.weights(losses, 1.0)
        reached = best @ losses + rule.value(best, 1.0).sum()
        for bits in range(2**8):
            v = np.array([bits >> k & 1 for k in range(8)], dtype=float)
            assert reached <= v @ losses - v.sum() - diversity * np.linalg.norm(v) + 1e-12


def test_diverse_weights_take_rows_from_a_batch_of_hard_ones():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=300)
    batches = np.arange(300) // 100
    y[batches == 2] += rng.normal(size=100)
    pace = Geometric(0.02, 1.5, 0.1)

    def taken(rule):
        model = SelfPacedRegressor(pace=pace, regularizer=rule)
        return model.fit(X, y, batches=batches).selected_[batches == 2].sum()

    assert taken(Diverse(30.0)) > taken(Hard()) + 10
    with pytest.raises(ValueError, match="weighs the rows of a batch together: give a schedule"):
        SelfPacedRegressor(regularizer=Diverse()).fit(X, y)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Polynomial(1.0), "degree must be a finite number > 1, got 1.0"),
        (lambda: Polynomial(np.inf), "degree must be a finite number > 1, got inf"),
        (lambda: Mixture(inner=0.0), "inner must be a finite number > 0, got 0.0"),
        (lambda: Mixture(inner=2.0, outer=1.0), "outer must be a finite number > 2, got 1.0"),
        (lambda: Welsch(-1.0), "scale must be a finite number > 0, got -1.0"),
        (lambda: Entropic(softness=0.0), "softness must be a finite number > 0, got 0.0"),
        (lambda: Entropic(width=np.nan), "width must be a finite number > 0, got nan"),
    ],
)
def test_bad_parameters_are_refused_by_name_and_value(build, message):
    with pytest.raises(ValueError, match=message):
        build()
