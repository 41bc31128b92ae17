"""Codes for missing values: spikes far from the rest are found, and real values left alone."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easyfirst.tables import TableModel
from easyfirst.tables.missing_codes import find_codes, looks_like_code


def with_code(rest, code, count):
    return np.concatenate([rest, np.full(count, float(code))])


REST = {
    "ages": lambda rng: rng.integers(18, 91, 400).astype(float),
    "areas": lambda rng: rng.uniform(20, 180, 400),
    "temperatures": lambda rng: rng.normal(12, 8, 400),
    "incomes": lambda rng: rng.lognormal(8, 0.5, 400),
    "shares": lambda rng: rng.random(400),
}


@pytest.mark.parametrize("rest", REST)
@pytest.mark.parametrize("count", [5, 40, 390])
def test_far_codes_are_found_however_many_there_are(rest, count):
    values = REST[rest](np.random.default_rng(0))
    for code in (-99999, 99999, 1e30, 2147483647):
        assert find_codes(with_code(values, code, count)) == (code,)


@pytest.mark.parametrize(
    ("rest", "code"),
    [("ages", -1), ("areas", -1), ("areas", -200), ("areas", 999), ("ages", 999), ("incomes", -1)],
)
def test_usual_codes_are_found(rest, code):
    assert find_codes(with_code(REST[rest](np.random.default_rng(1)), code, 12)) == (code,)


def test_several_codes_are_found_together():
    answers = np.random.default_rng(0).integers(0, 11, 300).astype(float)
    assert find_codes(np.concatenate([answers, [97] * 5, [98] * 4, [99] * 9])) == (97, 98, 99)


@pytest.mark.parametrize("count", [5, 40])
def test_minus_one_beside_small_counts_that_begin_at_one_is_a_code(count):
    rooms = np.random.default_rng(0).integers(1, 6, 400).astype(float)
    assert find_codes(with_code(rooms, -1, count)) == (-1.0,)
    floors = rooms - 1.0  # -1 is the basement
    assert find_codes(with_code(floors, -1, count)) == ()


def test_a_code_of_other_columns_needs_less_evidence():
    skewed = np.random.default_rng(0).lognormal(5, 1, 500)
    values = with_code(np.minimum(skewed, 700), 999, 30)
    assert find_codes(values) == ()
    assert find_codes(values, known={999.0}) == (999.0,)


GENUINE = {
    "many zeros": lambda rng: rng.poisson(0.3, 500),
    "zeros beside large numbers": lambda rng: np.where(rng.random(500) < 0.4, 0, 5000),
    "capped from above": lambda rng: np.minimum(rng.lognormal(6, 1, 500), 999),
    "capped at a price": lambda rng: np.minimum(rng.lognormal(8, 1, 900), 9999),
    "clipped from below": lambda rng: np.maximum(rng.normal(0, 5, 500), -1),
    "clipped at -10": lambda rng: np.maximum(rng.normal(5, 9, 500), -10),
    "-1, 0 and 1": lambda rng: rng.integers(-1, 2, 500),
    "grades to 99": lambda rng: rng.integers(0, 100, 500),
    "frost": lambda rng: np.rint(rng.normal(9, 4, 500)),
    "round negative numbers": lambda rng: 10 * rng.integers(-20, 20, 500),
    "gains and losses": lambda rng: np.round(rng.normal(0, 100, 500), -1),
    "prices that end in 99": lambda rng: 100 * rng.integers(1, 90, 500) - 1,
    "two clusters": lambda rng: np.where(rng.random(500) < 0.5, rng.normal(0, 1, 500), 500),
    "years": lambda rng: rng.integers(1900, 2025, 500),
    "a constant": lambda rng: np.full(500, 999.0),
    "degrees of longitude": lambda rng: rng.uniform(-125, -100, 500),
    "counts with a long tail": lambda rng: np.rint(rng.pareto(1.0, 900) * 10),
}


@pytest.mark.parametrize("name", GENUINE)
@pytest.mark.parametrize("seed", range(5))
def test_genuine_values_are_no_codes(name, seed):
    values = np.asarray(GENUINE[name](np.random.default_rng(seed)), dtype=float)
    assert find_codes(values) == ()


@settings(deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.floats(-1e6, 1e6),
    st.floats(1e-3, 1e6),
    st.sampled_from(["normal", "uniform", "laplace"]),
)
def test_columns_without_a_spike_have_no_codes(seed, centre, spread, shape):
    rng = np.random.default_rng(seed)
    assert find_codes(centre + spread * getattr(rng, shape)(size=300)) == ()


def test_ordinary_numbers_do_not_look_like_codes():
    assert not any(looks_like_code(value) for value in (0, 1, 9, 10, 100, 500, 1e4, -3, -12.5, 90))
    assert all(looks_like_code(value) for value in (-1, -9, 99, 999, -99, 9999.0, 99.99, -200))


@pytest.mark.parametrize("form", ["numbers", "texts"])
def test_an_infinite_target_is_a_wrong_one_and_not_a_missing_one(form):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(120)
    y = (3.0 * x + 0.1 * rng.standard_normal(120)).round(3)
    y[[7, 40]], y[11] = (np.inf, -np.inf), np.nan
    target = pa.array(y) if form == "numbers" else pa.array(["" if v != v else f"{v}" for v in y])
    table = pa.table({"x": x, "y": target})
    model = TableModel("y").fit(table)
    found = model.suspects(table).to_pandas()
    assert {7, 40} <= set(found["row_id"])
    assert 11 not in set(found["row_id"])
    told = found.set_index("row_id").loc[[7, 40], "reason"]
    assert told.str.contains("infinite").all()
    assert "1 row without a value of 'y' left out" in model.notes_


@pytest.mark.parametrize("seed", range(5))
def test_99_beside_ages_is_a_code_only_as_a_spike_above_a_gap(seed):
    rng = np.random.default_rng(seed)
    ages = rng.integers(18, 90, 400).astype(float)
    assert find_codes(with_code(ages, 99, 20)) == (99.0,)
    assert find_codes(with_code(ages, 99, 4)) == ()
    assert find_codes(with_code(rng.integers(18, 99, 400).astype(float), 99, 30)) == ()
    assert find_codes(np.minimum(rng.normal(85, 10, 400).round(), 99.0)) == ()
    prices = rng.choice([199.0, 299.0, 399.0, 499.0, 599.0, 699.0, 799.0, 899.0, 999.0], 400)
    assert find_codes(prices) == ()
