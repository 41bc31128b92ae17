"""Rows that sum up others are no data, and rows that only say so are."""

import numpy as np
import pyarrow as pa
import pytest

from easyfirst.tables.totals import total_rows


def totals(found):
    """Return which rows of a table sum up others."""
    return total_rows(found, "rent", found["rent"].to_numpy().astype(float))


def table(**last):
    """Ten flats and a last row."""
    columns = {
        "city": ["Ulm", "Bonn"] * 5,
        "area": [float(each) for each in range(20, 30)],
        "rooms": [1, 2] * 5,
        "rent": [400.0 + each for each in range(10)],
    }
    return pa.table({name: [*values, last.get(name)] for name, values in columns.items()})


@pytest.mark.parametrize("word", ["Total", "TOTAL:", "sum", "Summe", "Grand Total"])
def test_a_last_row_that_sums_up_the_others_is_found(word):
    found = totals(table(city=word, rent=4045.0))
    assert found.tolist() == [False] * 10 + [True]


@pytest.mark.parametrize(
    "last",
    [
        {"city": "Total", "area": 25.0, "rooms": 2, "rent": 405.0},
        {"city": "Totalbank", "rent": 405.0},
        {"rent": 405.0},
    ],
)
def test_complete_rows_and_other_words_are_data(last):
    assert not totals(table(**last)).any()


def test_a_frequent_word_is_a_category():
    flats = table(city="Ulm")
    words = pa.array(["total"] * 11)
    assert not totals(flats.set_column(0, "city", words)).any()


@pytest.mark.parametrize(
    "word", ["Total", "Summe:", "Grand total", "Total (all)", "All flats total"]
)
@pytest.mark.parametrize("rent", [4045.0, 404.5, 4044.99])
def test_a_complete_row_that_is_the_sum_or_the_mean_is_found(word, rent):
    found = totals(table(city=word, area=245.0, rooms=15, rent=rent))
    assert found.tolist() == [False] * 10 + [True]


def test_subtotals_of_groups_and_the_grand_total_are_found():
    city = ["Ulm", "Ulm", "Ulm", "Ulm Total", "Bonn", "Bonn", "Bonn Total", "Grand Total"]
    rent = [400.0, 410.0, 420.0, 1230.0, 500.0, 520.0, 1020.0, 2250.0]
    area = [20.0, 21.0, 22.0, 63.0, 30.0, 31.0, 61.0, 124.0]
    found = totals(pa.table({"city": city, "area": area, "rent": rent}))
    assert np.flatnonzero(found).tolist() == [3, 6, 7]


def test_a_total_above_the_rows_is_found():
    city, rent = ["Total", "Ulm", "Bonn", "Kiel"], [1230.0, 400.0, 410.0, 420.0]
    assert totals(pa.table({"city": city, "rent": rent})).tolist() == [True, False, False, False]


def test_sums_by_product_are_rows_like_others():
    """Each says "total", and is no sum of its neighbours."""
    names = [f"{each} total" for each in "abcdefghij"]
    assert not totals(table(city="k").set_column(0, "city", pa.array([*names, "k total"]))).any()
