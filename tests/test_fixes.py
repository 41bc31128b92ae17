"""Likely fixes: known mistakes of the classics, injected ones, and none where there is no rule."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easyfirst import SelfPacedRegressor
from easyfirst.report import SwapPartner, likely_fixes
from easyfirst.report.digits import misread_digits, resolution, transposed_digits
from easyfirst.report.fixes import SUGGESTED
from easyfirst.report.mistakes import FACTORS
from easyfirst.report.true_values import TrueValues
from easyfirst.report.writing import Writing
from easyfirst.schedules import Constant

CLASSICS = Path(__file__).parent / "data" / "robust_classics"


def classic(name, target, features):
    table = pd.read_csv(CLASSICS / f"{name}.csv").dropna(subset=[target, *features])
    table = table.reset_index(drop=True)
    fitted = SelfPacedRegressor().fit(table[features], table[target])
    return table, fitted.suspects(table[features], table[target])


def houses(n=1200, seed=0):
    """Rows with a price around 500 and a noise of 20."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    price = 500.0 + X @ [100.0, 60.0, -40.0, 20.0] + 20.0 * rng.standard_normal(n)
    return rng, X, price.round(2)


# The classics


@pytest.mark.parametrize(("target", "other"), [("weight", "height"), ("height", "weight")])
def test_davis_had_weight_and_height_swapped_in_row_12(target, other):
    table, found = classic("carData__Davis", target, [other])
    worst = found.loc[11]
    assert worst["likely_fix"] == f"swap with {other}"
    assert worst["fixed_value"] == table.loc[11, other]
    assert worst["fix_probability"] > 0.99
    assert f"swapped with {other}?" in worst["reason"]


def test_knock_hill_took_18_65_minutes_and_not_78_65():
    table, found = classic("MASS__hills", "time", ["dist", "climb"])
    row = table.index[table["rownames"] == "Knock Hill"][0]
    assert found.loc[row, "likely_fix"] == "correct one digit"
    assert found.loc[row, "fixed_value"] == 18.65
    assert "a digit misread? 18.65 fits" in found.loc[row, "reason"]


def test_the_calls_of_1964_to_1969_are_in_another_unit():
    table, found = classic("robustbase__telef", "Calls", ["Year"])
    rows = table.index[table["Year"].between(64, 69)]
    fixes = found.loc[rows]
    assert len(set(fixes["likely_fix"])) == 1
    assert fixes["likely_fix"].iloc[0].startswith("divide by about ")
    assert fixes["reason"].str.contains("another unit").all()
    np.testing.assert_allclose(fixes["fixed_value"], fixes["predicted_label"], rtol=0.35)


# Injected mistakes


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("inverse", [False, True])
def test_a_unit_error_is_named_in_95_percent_of_the_rows(factor, inverse):
    rng, X, truth = houses()
    wrong = rng.random(truth.size) < 0.05
    times = 1.0 / factor if inverse else factor
    y = np.where(wrong, truth * times, truth)
    fitted = SelfPacedRegressor().fit(X, y)
    found = fitted.suspects(X, y).reindex(np.flatnonzero(wrong & (np.abs(y - truth) > 160.0)))
    name = f"{'multiply' if inverse else 'divide'} by {factor:g}"
    right = found["likely_fix"] == name
    assert right.mean() >= 0.95
    np.testing.assert_allclose(
        found["fixed_value"][right], truth[right.index[right]], rtol=1e-9, atol=1e-9
    )
    clean = fitted.suspects(X, y).drop(np.flatnonzero(wrong), errors="ignore")
    assert clean["likely_fix"].isna().all()


def test_a_wrong_sign_is_named():
    rng, X, truth = houses()
    wrong = rng.random(truth.size) < 0.03
    y = np.where(wrong, -truth, truth)
    found = SelfPacedRegressor().fit(X, y).suspects(X, y).loc[np.flatnonzero(wrong)]
    assert (found["likely_fix"] == "change the sign").mean() > 0.95


def test_transposed_digits_are_put_back():
    _, X, truth = houses()
    y = truth.copy()
    text = pd.Series(truth).map("{:.2f}".format)
    first, second = text.str[0].astype(int), text.str[1].astype(int)
    rows = np.flatnonzero((first - second >= 3) & (second > 0))[:30]  # nobody writes 049.70
    y[rows] = (text.str[1] + text.str[0] + text.str[2:])[rows].astype(float)
    found = SelfPacedRegressor().fit(X, y).suspects(X, y).loc[rows]
    right = found["likely_fix"] == "transpose two digits"
    assert right.mean() > 0.9
    assert np.array_equal(found["fixed_value"][right], truth[rows][right])


@pytest.mark.parametrize("seed", [4201, 4202, 4203])
def test_misread_digits_are_corrected(seed):
    rng, X, truth = houses(seed=seed)
    rows = rng.choice(truth.size, 60, replace=False)
    y = truth.copy()
    for row in rows:
        text = f"{truth[row]:.2f}"
        other = rng.choice([digit for digit in "123456789" if digit != text[0]])
        y[row] = float(other + text[1:])
    rows = rows[np.abs(y - truth)[rows] > 160.0]
    found = SelfPacedRegressor().fit(X, y).suspects(X, y).loc[rows]
    right = found["likely_fix"] == "correct one digit"
    assert right.mean() >= 0.85
    # Five noise scales lie between two digits: now and then the next one fits as well.
    assert np.mean(found["fixed_value"][right] == truth[rows][right]) >= 0.95


def test_several_kinds_are_told_apart_in_one_table():
    rng, X, truth = houses(3000, seed=4300)
    kind = np.where(rng.random(truth.size) < 0.08, rng.integers(1, 6, truth.size), 0)
    made = [truth, 10 * truth, truth / 60, -truth, 2.54 * truth, truth + 2000 * rng.random(3000)]
    y = np.choose(kind, made).round(4)
    fixes = ["", "divide by 10", "multiply by 60", "change the sign", "divide by 2.54", ""]
    found = SelfPacedRegressor().fit(X, y).suspects(X, y)["likely_fix"].fillna("")
    for number in range(1, 5):
        named = found.reindex(np.flatnonzero((kind == number) & (np.abs(y - truth) > 160.0)))
        assert (named == fixes[number]).mean() >= 0.9
    random = found.reindex(np.flatnonzero(kind == 5)).dropna()
    assert (random != "").mean() <= 0.1


def test_a_spike_of_equal_values_is_a_missing_code():
    rng, X, y = houses()
    wrong = rng.random(y.size) < 0.03
    y[wrong] = -200.0
    found = SelfPacedRegressor().fit(X, y).suspects(X, y).loc[np.flatnonzero(wrong)]
    assert (found["likely_fix"] == "treat as missing").all()
    assert found["fixed_value"].isna().all()
    assert found["reason"].str.contains("-200, predicted .*: looks like a missing code").all()


def test_a_copy_of_the_row_above_is_named():
    _, X, y = houses()
    rows = np.flatnonzero(np.abs(np.diff(y)) > 200.0)[:12:2] + 1
    y[rows] = y[rows - 1]
    found = SelfPacedRegressor().fit(X, y).suspects(X, y).loc[rows]
    assert (found["likely_fix"] == "treat as missing (copied)").all()


def test_a_factor_that_only_these_rows_have_is_learned_from_them():
    rng, X, truth = houses()
    wrong = rng.random(truth.size) < 0.05
    y = np.where(wrong, 3.28 * truth, truth)
    found = SelfPacedRegressor().fit(X, y).suspects(X, y).loc[np.flatnonzero(wrong)]
    assert found["likely_fix"].eq("divide by about 3.3").mean() > 0.95


# What is not explained


@pytest.mark.parametrize("seed", range(5))
def test_clean_rows_that_are_flagged_by_chance_get_no_fix(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((4000, 3))
    y = (100.0 + 10.0 * X @ [1.0, 2.0, 3.0] + rng.standard_normal(4000)).round(1)
    found = SelfPacedRegressor().fit(X, y).suspects(X, y, top=40)
    assert found["likely_fix"].isna().all()


SHAPES = {
    "uniform": lambda rng, n: rng.uniform(-60.0, 60.0, n),
    "normal": lambda rng, n: rng.normal(0.0, 30.0, n),
    "shifted": lambda rng, n: np.full(n, 20.0),
    "Cauchy": lambda rng, n: 10.0 * rng.standard_cauchy(n),
    "exponential": lambda rng, n: rng.exponential(15.0, n),
}


def around_zero(seed):
    """Rows with a target around zero and a noise of 0.3."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((1500, 6))
    return rng, X, X @ rng.standard_normal(6) + 0.3 * rng.standard_normal(1500)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("make", "noise"), [(lambda seed: houses(2000, seed), 20.0), (around_zero, 0.3)]
)
def test_errors_without_a_rule_rarely_get_a_fix(shape, make, noise):
    n_flagged = n_fixed = 0
    for seed in range(4100, 4105):
        rng, X, y = make(seed)
        wrong = rng.random(y.size) < 0.08
        y[wrong] = (y[wrong] + noise * SHAPES[shape](rng, wrong.sum())).round(2)
        found = SelfPacedRegressor().fit(X, y).suspects(X, y)
        n_flagged += len(found)
        n_fixed += int(found["likely_fix"].notna().sum())
    assert n_flagged > 300
    assert n_fixed <= 0.02 * n_flagged


def test_without_a_noise_scale_nothing_can_fit():
    rng, X, y = houses()
    y[rng.random(y.size) < 0.05] *= 10.0
    fixed_pace = SelfPacedRegressor(pace=Constant(pace=3600.0)).fit(X, y)
    found = fixed_pace.suspects(X, y, top=50)
    assert found["likely_fix"].isna().all()


# The function itself


def test_no_rows_have_no_fixes():
    assert likely_fixes(np.empty(0), np.empty(0), 1.0).fix.size == 0


def test_many_rows_are_fixed_in_blocks_like_few():
    rng = np.random.default_rng(0)
    predicted = rng.uniform(200.0, 900.0, 30_000)
    given = (10.0 * (predicted + rng.standard_normal(30_000))).round(2)
    fixes = likely_fixes(given, predicted, 1.0)
    assert (fixes.fix == "divide by 10").mean() > 0.999


def test_a_row_does_not_vouch_for_itself():
    """One row that miles and kilometres could explain is no evidence for them; thirty are."""
    one = likely_fixes(np.array([119.0]), np.array([75.5]), 7.9)
    assert one.fix.tolist() == [""]
    predicted = np.linspace(200.0, 400.0, 30)
    many = likely_fixes(1.609 * predicted, predicted, 5.0)
    assert set(many.fix) == {"divide by 1.609"}


def test_a_swap_must_suit_the_other_column_too():
    """166 as a height is usual; as a shoe size it is not."""
    row = {"given": np.array([166.0]), "predicted": np.array([60.0])}
    height = SwapPartner("height", np.array([57.0]), np.array([58.0]), 170.0, 9.0)
    shoe = SwapPartner("shoe", np.array([57.0]), np.array([58.0]), 41.0, 3.0)
    assert likely_fixes(**row, scale=3.0, partners=[height]).fix.tolist() == ["swap with height"]
    assert likely_fixes(**row, scale=3.0, partners=[shoe]).fix.tolist() != ["swap with shoe"]


def test_names_of_columns_may_hold_braces():
    partner = SwapPartner("{0} {x}", np.array([57.0]), np.array([58.0]), 170.0, 9.0)
    fixes = likely_fixes(np.array([166.0]), np.array([60.0]), 3.0, partners=[partner])
    assert fixes.cause.tolist() == ["swapped with {0} {x}? 57 fits"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(-1e9, 1e9, allow_subnormal=False),
            st.floats(-1e9, 1e9, allow_subnormal=False),
            st.floats(1e-6, 1e6),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_any_numbers_give_probabilities_and_finite_values(rows):
    given_, predicted, scale = map(np.array, zip(*rows, strict=True))
    fixes = likely_fixes(given_, predicted, scale, above=np.roll(given_, 1), others=given_)
    named = fixes.fix != ""
    assert np.all(
        (fixes.probability[named] >= SUGGESTED) & (fixes.probability[named] <= 1.0 + 1e-9)
    )
    assert np.all(np.isnan(fixes.probability[~named]))
    assert not np.any(np.isinf(fixes.value))


# Digits


@pytest.mark.parametrize("number", [7.0, 12.5, 0.034, 98765.25, -41.0, 0.0, 1e-9])
def test_misread_digits_differ_in_one_place(number):
    slips = misread_digits(np.array([number]))
    values = slips.value[0][slips.weight[0] > 0]
    step = resolution(np.array([number]))
    written = str(round(abs(number) / step))
    for value in values:
        other = str(round(abs(value) / step)).rjust(len(written), "0")
        assert sum(a != b for a, b in zip(other, written, strict=True)) == 1


def test_seven_is_taken_for_one_rather_than_for_four():
    slips = misread_digits(np.array([70.0]))
    weight = dict(zip(slips.value[0].round().tolist(), slips.weight[0].tolist(), strict=True))
    assert weight[10.0] > weight[40.0] > 0.0


def test_equal_digits_cannot_be_transposed():
    slips = transposed_digits(np.array([33.0, 31.0]))
    assert slips.weight[0].max() == 0.0
    assert slips.value[1][slips.weight[1] > 0].tolist() == [13.0]


def test_the_long_tail_of_prices_is_not_a_change_of_units():
    n_large = n_fixed = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        predicted, size = rng.uniform(60e3, 115e3, 12), 3.0 + rng.exponential(1.2, 12)
        given = (predicted + 13e3 * size).round(-2)
        clean = np.exp(5.0 - 2.0 * size).clip(0.0, 0.5)
        found = likely_fixes(given, predicted, 13e3, quality=clean)
        n_large += int(np.sum(size > 5.0))
        n_fixed += int(np.sum(found.fix != ""))
    assert n_large > 100
    assert n_fixed <= 0.03 * n_large


# Wide noise: rows vouch for each other


def noisy_houses(seed, n=500, relative=0.2):
    """Rows whose noise is a fifth of the price, in which no row alone tells 12 from 10."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    price = 500.0 + X @ [60.0, 40.0, -30.0, 20.0]
    return rng, X, (price + relative * 500.0 * rng.standard_normal(n)).round(1)


@pytest.mark.parametrize(("factor", "fix"), [(10.0, "divide by 10"), (12.0, "divide by 12")])
@pytest.mark.parametrize("seed", [11, 12])
def test_one_factor_is_named_for_all_rows_where_no_row_alone_can_tell(factor, fix, seed):
    rng, X, truth = noisy_houses(seed)
    wrong = rng.random(truth.size) < 0.08
    y = np.where(wrong, (factor * truth).round(1), truth)
    found = SelfPacedRegressor().fit(X, y).suspects(X, y).loc[np.flatnonzero(wrong)]
    assert (found["likely_fix"] == fix).mean() >= 0.95


def test_values_below_a_tenth_of_the_prediction_are_named_in_wide_noise():
    """What is far from the prediction was noticed, even if the true value was nearer."""
    predicted = 1000.0 * np.array([118.0, 134.0, 110.0, 133.0, 117.0, 121.0, 126.0, 115.0])
    truth = predicted * np.array([0.62, 1.1, 0.9, 0.8, 1.2, 1.0, 0.95, 1.05])
    fixes = likely_fixes(0.1 * truth, predicted, predicted / 6.0)
    assert fixes.fix.tolist() == ["multiply by 10"] * 8


def test_a_minus_in_a_column_of_positive_numbers_is_a_wrong_sign():
    """Noise is so wide and skewed that errors without a rule would explain the values as well."""
    rng = np.random.default_rng(3)
    predicted = rng.uniform(60.0, 400.0, 1500)
    scale = 20.0 + 0.3 * predicted
    # Gamma values around the prediction, with the standard deviation that `scale` says.
    shape = np.square(predicted / scale)
    truth = np.maximum(rng.gamma(shape, predicted / shape).round(), 1.0)
    y = np.where(np.arange(1500) < 80, -truth, truth)
    wrong = (np.arange(1500) < 80) & (np.abs(y - predicted) > 3.5 * scale)
    rest = ~(np.abs(y - predicted) > 3.5 * scale)
    clean = ((y - predicted) / scale)[rest]
    fixes = likely_fixes(y[wrong], predicted[wrong], scale[wrong], others=y, clean=clean).fix
    large = np.abs(y - predicted)[wrong] > 5.0 * scale[wrong]
    assert large.sum() >= 8
    assert np.mean(fixes[large] == "change the sign") >= 0.8


def test_a_cap_with_a_wrong_sign_is_no_missing_code():
    rng = np.random.default_rng(0)
    clean = np.clip(rng.normal(4.5, 2.0, 500).round(2), 2.0, 5.0)
    predicted = clean + rng.normal(0.0, 0.3, 500)
    y = np.where(np.arange(500) < 30, -clean, clean)
    fixes = likely_fixes(y[:30], predicted[:30], 0.3, others=y).fix
    assert np.sum(y[:30] == -5.0) >= 3
    assert set(fixes) == {"change the sign"}


@pytest.mark.parametrize("seed", range(3))
def test_a_long_tail_of_clean_rows_is_no_unit_error(seed):
    rng = np.random.default_rng(seed)
    predicted = rng.uniform(80.0, 200.0, 300)
    given = (predicted + 25.0 * 3.5 * (1.0 + rng.pareto(1.2, 300))).round()
    assert np.mean(likely_fixes(given, predicted, 25.0).fix != "") <= 0.02


def test_capped_values_are_no_unit_errors():
    rng = np.random.default_rng(0)
    clean = np.minimum(rng.normal(25.0, 8.0, 470).round(1), 50.0)
    capped = np.full(16, 50.0)
    given = np.concatenate([capped, (10.0 * clean[:20]).round(1)])
    predicted = np.concatenate([rng.normal(20.0, 2.0, 16), clean[:20] + rng.normal(0, 3.0, 20)])
    others = np.concatenate([capped[:9], clean[20:], capped[9:], given[16:]])
    fixes = likely_fixes(given, predicted, 3.5, others=others).fix
    assert not any(fixes[:16])
    assert np.mean(fixes[16:] == "divide by 10") >= 0.95


def test_equal_values_that_a_factor_makes_of_equal_ones_are_no_missing_code():
    rng = np.random.default_rng(0)
    clean = rng.integers(12, 40, 380).astype(float)
    predicted = clean[:40] + rng.normal(0.0, 2.0, 40)
    given = 100.0 * clean[:40]
    fixes = likely_fixes(given, predicted, 2.0, others=np.concatenate([clean[40:], given]))
    assert set(fixes.fix) == {"divide by 100"}


@pytest.mark.parametrize(("factor", "fix"), [(12.0, "divide by 12"), (2.54, "divide by 2.54")])
def test_whole_numbers_tell_a_factor_where_noise_is_wide(factor, fix):
    """Noise is a third of the values, but those of a factor are that many times a whole number."""
    rng = np.random.default_rng(4400)
    predicted = rng.uniform(60.0, 180.0, 430)
    clean = (predicted * np.exp(0.33 * rng.standard_normal(430))).round()
    given = (factor * clean[:30]).round(2)
    others = np.concatenate([clean[30:], given])
    fixes = likely_fixes(given, predicted[:30], 35.0, others=others).fix
    large = np.abs(given - predicted[:30]) > 5.0 * 35.0
    assert np.mean(fixes[large] == fix) >= 0.95


def test_a_ratio_close_to_a_listed_factor_is_that_factor():
    """Predictions that are 4 % off on the average do not make a unit of their own."""
    rng = np.random.default_rng(0)
    truth = rng.uniform(100.0, 300.0, 60)
    predicted = 1.04 * truth * np.exp(rng.normal(0.0, 0.1, 60))
    fixes = likely_fixes((10.0 * truth).round(), predicted, 10.0)
    assert np.mean(fixes.fix == "divide by 10") >= 0.95


@pytest.mark.parametrize("given", [105_000.0, 10_200.0, 102.0])
def test_no_slip_of_a_digit_leaves_a_zero_in_front(given):
    for slips in (transposed_digits(np.array([given])), misread_digits(np.array([given]))):
        assert slips.value[slips.weight > 0].min() >= 10.0 ** np.floor(np.log10(given))


# How values are written


@pytest.mark.parametrize(
    ("values", "step"),
    [
        (np.arange(200.0), 1.0),
        (np.arange(0.0, 20.0, 0.05).round(2), 0.05),
        (1000.0 * np.arange(50.0), 1000.0),
    ],
)
def test_the_step_of_a_column_is_found(values, step):
    assert Writing.of(values).steps[0] == pytest.approx(step)


def test_computed_values_have_no_step():
    assert Writing.of(np.sqrt(np.arange(2.0, 300.0) + 0.123)).steps.size == 0


def test_a_value_is_written_as_a_factor_makes_it_or_not():
    writing = Writing.of(np.random.default_rng(0).integers(10, 999, 500).astype(float))
    weight = writing.log_weight_of_factor(np.array([381.0, 382.0, 380.5]), 2.54)
    assert weight[0] > 0.0  # 150 times 2.54
    assert weight[1] == -np.inf
    assert weight[2] == -np.inf


def test_where_prices_are_round_a_round_one_tells_little():
    rng = np.random.default_rng(0)
    whole, round_ = (Writing.of(step * rng.integers(1, 100, 500)) for step in (1.0, 10.0))
    mixed = Writing.of(np.concatenate([10.0 * rng.integers(1, 30, 400), rng.integers(1, 300, 100)]))
    price = np.array([1230.0])
    told = [each.log_weight_of_factor(price, 10.0)[0] for each in (whole, mixed, round_)]
    assert told[0] > told[1] > told[2]


# Where true values lie


def test_true_values_lie_as_far_as_those_of_clean_rows_and_on_the_same_side():
    rng = np.random.default_rng(0)
    skewed = TrueValues.around(rng.exponential(1.5, 2000) - 0.5)
    above, below = skewed.log_density(np.array([4.0, -4.0]))
    assert above > below + 2.0
    grid = np.linspace(-60.0, 60.0, 24_001)
    assert np.trapezoid(np.exp(skewed.log_density(grid)), grid) == pytest.approx(1.0, abs=0.02)


def test_values_drawn_evenly_from_anywhere_are_without_a_rule_on_a_logarithm_too():
    with_fix = flagged = 0
    for seed in range(4300, 4304):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400, 3))
        y = np.exp(5.0 + X @ [0.5, 0.3, -0.2] + 0.1 * rng.normal(size=400)).round()
        wrong = rng.random(400) < 0.1
        y[wrong] = rng.uniform(1.0, 5.0 * y.max(), wrong.sum()).round()
        model = SelfPacedRegressor(target_transform="log").fit(X, np.maximum(y, 1.0))
        found = model.suspects(X, np.maximum(y, 1.0))
        with_fix, flagged = with_fix + found["likely_fix"].notna().sum(), flagged + len(found)
    assert with_fix <= 0.08 * flagged
