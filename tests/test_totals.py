"""Rows that sum up others are no data, and rows that only say so are."""

import pyarrow as pa
import pytest

from easyfirst.tables.totals import total_rows


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
    found = total_rows(table(city=word, rent=4045.0), "rent")
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
    assert not total_rows(table(**last), "rent").any()


def test_a_frequent_word_is_a_category():
    flats = table(city="Ulm")
    words = pa.array(["total"] * 11)
    assert not total_rows(flats.set_column(0, "city", words), "rent").any()
