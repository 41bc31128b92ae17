"""Rows with values that were filled in: judged by what the values may have been, and no wider."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from easyfirst.tables import TableModel
from easyfirst.tables.filling import sides_of, spread_around
from easyfirst.tables.saving import _sides


def flats(seed: int, share: float, spread: float, noise: float = 100.0) -> tuple[pd.DataFrame, ...]:
    """Return flats, which prices are ten times too high, and which sizes are missing."""
    rng = np.random.default_rng(seed)
    size, age = rng.lognormal(4.2, spread, 800), rng.uniform(0, 80, 800)
    price = 500 + 10 * size - 3 * age + noise * rng.normal(size=800)
    wrong, gone = rng.random(800) < 0.05, rng.random(800) < share
    frame = pd.DataFrame({"size": np.where(gone, np.nan, size), "age": age})
    return frame.assign(price=np.where(wrong, 10 * price, price)), wrong, gone


def flagged(model: TableModel, frame: pd.DataFrame) -> np.ndarray:
    found = np.zeros(len(frame), dtype=bool)
    found[model.suspects(frame)["row_id"].astype(int)] = True
    return found


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_few_clean_rows_are_flagged_where_a_long_tailed_value_was_filled_in(share):
    filled = []
    for seed in range(4):
        frame, wrong, gone = flats(seed, share, spread=0.6)
        found = flagged(TableModel("price").fit(frame), frame)
        filled.append(np.mean(found[gone & ~wrong]))
    assert np.mean(filled) <= 0.025


@pytest.mark.parametrize("noise", [10.0, 100.0])
def test_noise_that_is_wider_where_a_value_is_missing_is_not_counted_twice(noise):
    for seed in range(2):
        frame, wrong, gone = flats(seed, 0.3, spread=0.3, noise=noise)
        model = TableModel("price").fit(frame)
        assert not model.regressor_._calibration.scale_rule.is_even
        assert np.all(flagged(model, frame)[wrong & gone])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_nearly_exact_fit_does_not_blame_the_target_for_what_was_filled_in(seed):
    frame, wrong, gone = flats(seed, 0.05, spread=0.25, noise=1.0)
    model = TableModel("price").fit(frame)
    found = flagged(model, frame)
    assert np.all(found[wrong & ~gone])
    # Of 40 rows that lie 180 around their middle, some agree on another place: 325 off before.
    place = model.recipe_.design_names().index("size is missing")
    assert abs(model.regressor_.coef_[place]) < 150
    assert np.mean(found[gone & ~wrong]) <= 0.05


def test_both_sides_of_the_fill_have_a_spread_of_their_own():
    rng = np.random.default_rng(0)
    values = np.append(rng.lognormal(0.0, 1.0, 20_000), np.nan)
    below, above = spread_around(values, 1.0)
    assert 0.5 < below < 0.7
    assert 3.0 < above < 5.0
    even = rng.normal(size=20_000)
    assert spread_around(even, 0.0) == pytest.approx((1.0, 1.0), abs=0.03)
    # One of two below and one of two above, the two at the fill being half of each side.
    assert sides_of(np.array([-2.0, 0.0, 0.0, 3.0]), np.ones(4)) == pytest.approx(
        (np.sqrt(2.0), np.sqrt(4.5))
    )


def test_older_files_have_one_spread_for_both_sides():
    assert _sides({"area": 2.0, "age": [1.0, 3.0]}) == {"area": (2.0, 2.0), "age": (1.0, 3.0)}
    for broken in ({"area": [1.0]}, {"area": -1.0}, {"area": [1.0, float("inf")]}, [1.0]):
        with pytest.raises(ValueError, match=r"expected|range|unpack"):
            _sides(broken)
