"""Numbers as people write them: every notation is found from the values, and read exactly."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from easyfirst.tables.notation import (
    DECIMALS,
    PLAIN,
    THOUSANDS,
    Notation,
    decimal_habit,
    infer,
    unit_name,
)


def texts(*values):
    return pa.chunked_array([list(values)], pa.string())


def written(value, decimal, thousands, before="", after="", digits=2):
    text = f"{abs(value):,.{digits}f}" if thousands else f"{abs(value):.{digits}f}"
    marks = {",": thousands, ".": decimal}
    return f"{'-' if value < 0 else ''}{before}{text.translate(str.maketrans(marks))}{after}"


marks = st.sampled_from([(d, t) for d in DECIMALS for t in ("", *THOUSANDS) if d != t])
units = st.sampled_from(
    [
        ("", ""),
        ("$", ""),
        ("", " €"),
        ("", "%"),
        ("", " m²"),
        ("EUR ", ""),
        ("", "km/h"),
        ("R$ ", ""),
    ]
)
cents = st.integers(-(10**12), 10**12).map(lambda whole: whole / 100)


@given(st.lists(cents, min_size=1, max_size=20), marks, units)
def test_numbers_in_every_notation_are_read_back_exactly(values, marks, unit):
    column = texts(*(written(value, *marks, *unit) for value in values))
    name = unit_name(unit[0] or unit[1])
    notation = Notation(*marks, (name,) if name else ())
    assert notation.parse(column).tolist() == values


@given(st.lists(cents, min_size=1, max_size=20), marks, units)
def test_a_notation_with_two_decimals_is_found_from_the_values_alone(values, marks, unit):
    column = texts(*(written(value, *marks, *unit) for value in values))
    found = infer(column)
    assert found is not None
    assert found.parse(column).tolist() == values


@given(st.text(max_size=12), marks)
def test_any_text_is_a_number_or_none_and_never_an_error(text, marks):
    column = texts(text)
    assert np.isfinite(Notation(*marks).parse(column)).sum() <= 1
    infer(column)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_plain_numbers_are_read_exactly(value):
    assert PLAIN.parse(texts(f" {value!r} ")).tolist() == [value]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(1,234.50)", -1234.5),
        ("1,234.50-", -1234.5),
        ("\u22121,234.50", -1234.5),
        ("-$1,234.50", -1234.5),
        ("$-1,234.50", -1234.5),
        ("'1,234.50", 1234.5),
        ("<1,234.50", 1234.5),
        ("1.2345e3", 1234.5),
        (".5", 0.5),
        ("1\u00a0234", np.nan),
        ("1,23,456.5", 123456.5),
        ("12,34", np.nan),
        ("--5", np.nan),
        ("5 kg", np.nan),
        ("1/2", np.nan),
        ("12:30", np.nan),
        ("nan", np.nan),
    ],
)
def test_signs_exponents_and_limits(text, value):
    found = Notation(".", ",", ("usd",)).parse(texts(text))[0]
    assert found == value or (np.isnan(found) and np.isnan(value))


def test_a_mark_with_three_digits_is_decided_by_the_other_values():
    assert infer(texts("1,234", "0,567")) == Notation(",")
    assert infer(texts("1,234", "1,234,567")) == Notation(".", ",")
    assert infer(texts("1.234", "1.234.567")) == Notation(",", ".")
    assert infer(texts("1.234", "12.5")) == PLAIN


def test_a_mark_that_no_value_decides_follows_the_other_columns():
    assert infer(texts("1,234", "5,678")) == Notation(".", ",")
    assert infer(texts("1,234", "5,678"), habit=",") == Notation(",")
    assert infer(texts("1.234", "5.678")) == PLAIN
    assert infer(texts("1.234", "5.678"), habit=",") == Notation(",", ".")


def test_points_mark_thousands_where_only_large_numbers_have_one():
    large = [f"{k}.{k}50" for k in range(1, 9)]
    assert infer(texts(*large, "980", "70", "415")) == Notation(",", ".")
    assert infer(texts(*large)) == PLAIN
    assert infer(texts(*large, "1500")) == PLAIN


def test_marks_that_the_user_names_are_taken():
    assert infer(texts("1,234", "5,678"), decimal=",") == Notation(",")
    assert infer(texts("1.234", "5.678"), thousands=".") == Notation(",", ".")


def test_the_habit_is_what_columns_show_beyond_doubt():
    assert decimal_habit([texts("1,5", "2,75"), texts("1,234")]) == ","
    assert decimal_habit([texts("1,5"), texts("1.5")]) is None
    assert decimal_habit([texts("Ulm"), texts("1,234")]) is None


def test_spellings_of_a_unit_are_one_unit_and_another_unit_is_no_number():
    column = texts("5 €", "6 EUR", "€7", "8", "9 kg")
    found = infer(column)
    assert found == Notation(units=("eur",))
    assert found.parse(column)[:4].tolist() == [5, 6, 7, 8]
    assert np.isnan(found.parse(column)[4])


def test_magnitudes_multiply():
    column = texts("950", "1.2k", "3.4M")
    assert infer(column).parse(column).tolist() == [950, 1200, 3.4e6]
    column = texts("$950", "$1.2k")
    assert infer(column).parse(column).tolist() == [950, 1200]


@pytest.mark.parametrize("text", ["flat 7", "A12", "key-5", "Room 3", "10:30", "3.4.2024", "1-2"])
def test_names_with_digits_are_no_numbers(text):
    assert infer(texts(text, text)) is None


@given(marks, st.lists(st.text(min_size=1, max_size=5), max_size=3), st.booleans())
def test_a_notation_survives_plain_data(marks, units, scaled):
    from dataclasses import asdict

    notation = Notation(*marks, tuple(units), scaled)
    assert Notation.from_data(asdict(notation)) == notation


@pytest.mark.parametrize(
    "data",
    [
        {"decimal": ";", "thousands": "", "units": [], "scaled": False},
        {"decimal": ".", "thousands": ".", "units": [], "scaled": False},
        {"decimal": ".", "thousands": "", "units": "kg", "scaled": False},
        {"decimal": ".", "thousands": "", "units": [3], "scaled": False},
        {"decimal": ".", "thousands": "", "units": [], "scaled": 1},
    ],
)
def test_data_that_make_no_notation_are_refused(data):
    with pytest.raises((TypeError, ValueError)):
        Notation.from_data(data)


def test_limits_of_both_kinds_are_categories_and_not_one_number():
    assert infer(texts("< 20 yrs", "> 20 yrs", "> 20 yrs", "< 20 yrs")) is None
    assert infer(texts("<5", "5-10", ">10", ">10")) is None
    # Below and above what an instrument can measure.
    assert infer(texts("<5", "7.5", "12", "9", ">100")) == PLAIN
