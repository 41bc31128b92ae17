"""Dates in text and numbers: the format is found from all values."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easyfirst.tables import TableModel, dates
from easyfirst.tables.dates import FoundDates, find_format, find_number_format, parse

FORMATS = [
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%Y%m%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%d-%b-%Y",
    "%d %b %Y",
    "%d %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y %H.%M.%S",
    "%Y-%m-%dT%H:%M:%S",
    "%m/%d/%Y %I:%M %p",
    "%d%b%Y",
]


def texts(values):
    return pa.chunked_array([list(values)], pa.string())


moments = st.datetimes(datetime.datetime(1950, 1, 1), datetime.datetime(2080, 12, 31))


@settings(deadline=None)
@given(st.lists(moments, min_size=1, max_size=20), st.sampled_from(FORMATS))
def test_dates_are_read_back_in_every_format(moments, form):
    stamps = pd.Series(moments).dt.floor("D" if "%H" not in form and "%I" not in form else "min")
    if form == "%d.%m.%Y %H.%M.%S":
        stamps = stamps.dt.floor("s")
    # A day beyond the 12th decides which number is the day.
    stamps.loc[len(stamps)] = pd.Timestamp("2001-11-30 13:45")
    if "%H" not in form and "%I" not in form:
        stamps = stamps.dt.floor("D")
    column = texts(stamps.dt.strftime(form))
    found = find_format(column)
    assert found is not None
    expected = (stamps - pd.Timestamp(0)).dt.total_seconds() / 86400
    np.testing.assert_allclose(parse(column, found.format), expected, atol=1e-9)


@pytest.mark.parametrize("form", ["%H:%M", "%H:%M:%S", "%H.%M.%S", "%I:%M %p"])
def test_times_of_day_are_parts_of_a_day(form):
    stamps = [datetime.datetime(2000, 1, 1, hour, 30) for hour in (0, 6, 18)]
    column = texts(stamp.strftime(form) for stamp in stamps)
    found = find_format(column)
    assert parse(column, found.format).tolist() == pytest.approx([0.5 / 24, 6.5 / 24, 18.5 / 24])


def test_the_order_of_rows_decides_between_day_and_month():
    days = pd.date_range("2024-01-01", periods=12, freq="7D")
    column = texts(days[days.day <= 12].strftime("%d/%m/%Y"))
    assert find_format(column) == FoundDates("%d/%m/%Y", "%m/%d/%Y")


def test_without_any_sign_the_month_comes_first_and_the_other_reading_is_named():
    column = texts(["01/02/2024", "05/03/2024", "02/01/2024", "04/06/2024"])
    assert find_format(column) == FoundDates("%m/%d/%Y", "%d/%m/%Y")
    assert find_format(column, day_first=True).format == "%d/%m/%Y"


def test_points_put_the_day_first():
    assert find_format(texts(["01.02.2024", "05.03.2024", "02.01.2024"])).format == "%d.%m.%Y"


@pytest.mark.parametrize("values", [["Ulm", "Bonn"], ["12.5", "7.25"], ["1-2", "3-4"], ["5 kg"]])
def test_other_texts_are_no_dates(values):
    assert find_format(texts(values)) is None


def test_a_few_words_among_dates_are_missing():
    days = [*pd.date_range("2024-01-01", periods=60).strftime("%d.%m.%Y"), "soon"]
    found = find_format(texts(days))
    assert found.format == "%d.%m.%Y"
    assert np.isnan(parse(texts(days), found.format)[-1])


def test_numbers_that_are_days_or_count_from_1970_are_dates():
    assert find_number_format("x", np.array([20240131.0, 20231224.0])) == "%Y%m%d"
    assert find_number_format("x", np.array([20240131.0, 20231399.0])) is None
    seconds = np.array([1.60e9, 1.70e9])
    for unit, factor in dates.EPOCH_UNITS.items():
        assert find_number_format("x", seconds * factor) == f"epoch {unit}"
    assert find_number_format("created_at", np.array([7.0e8, 1.7e9])) == "epoch s"
    assert dates.from_numbers(np.array([86400.0]), "epoch s").tolist() == [1.0]


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("x", [1e9, 2.1e9]),
        ("order_id", [1.60e9, 1.61e9]),
        ("price", [1500.0, 2500.0]),
        ("x", [1.6e9 + 0.5, 1.7e9]),
    ],
)
def test_other_large_numbers_are_no_dates(name, numbers):
    assert find_number_format(name, np.array(numbers)) is None


def test_only_formats_that_can_be_found_are_formats():
    assert all(dates.is_format(form) for form in [*FORMATS, "epoch ms", "%H.%M.%S"])
    assert not any(dates.is_format(form) for form in ["", "%Q", "epoch days", "%Y; rm -rf"])


# Several formats in one column


def mixed(*forms, n=120, start="2021-03-01"):
    """A day after the other, each written in the next of the formats."""
    days = pd.date_range(start, periods=n)
    return days, texts(day.strftime(forms[i % len(forms)]) for i, day in enumerate(days))


def days_since_1970(days):
    return (days - pd.Timestamp(0)).days.to_numpy(float)


@pytest.mark.parametrize(
    "forms",
    [
        ("%Y-%m-%d", "%d.%m.%Y"),
        ("%m/%d/%Y", "%Y-%m-%d", "%d %b %Y"),
        ("%d.%m.%Y", "%d/%m/%Y", "%Y%m%d", "%B %d, %Y"),
    ],
)
def test_several_formats_in_one_column_are_read(forms):
    days, column = mixed(*forms)
    found = find_format(column)
    assert set(found.format.split(dates.OR)) == set(forms)
    assert found.rival is None
    assert np.array_equal(found.days, days_since_1970(days))
    assert np.array_equal(parse(column, found.format), found.days)
    assert dates.is_format(found.format)
    assert " or " in dates.shown(found.format)


def test_a_format_that_comes_late_in_the_file_is_read():
    first, last = mixed("%Y-%m-%d", n=150), mixed("%d.%m.%Y", n=40, start="2022-01-01")
    column = pa.chunked_array([first[1].combine_chunks(), last[1].combine_chunks()])
    found = find_format(column)
    assert np.array_equal(found.days[-40:], days_since_1970(last[0]))
    assert not np.isnan(found.days).any()


def test_codes_of_which_some_look_like_dates_stay_categories():
    column = texts([f"A{i:03d}" for i in range(60)] + ["2021-03-01", "01.03.2021"] * 30)
    assert find_format(column) is None


def test_a_table_with_dates_in_two_formats_is_fitted_and_says_so():
    rng = np.random.default_rng(0)
    days, column = mixed("%Y-%m-%d", "%d.%m.%Y", n=200)
    y = 0.5 * days_since_1970(days) + rng.normal(0.0, 2.0, 200)
    model = TableModel("y").fit(pa.table({"day": column, "y": y}))
    assert model.regressor_.coef_[0] == pytest.approx(0.5, abs=0.02)
    assert any("yyyy-mm-dd or dd.mm.yyyy" in note for note in model.notes_)


@pytest.mark.parametrize(
    "text", ["3 mars 2015", "3. März 2015", "3 de marzo de 2015", "3 Mrz. 2015", "3 March 2015"]
)
def test_months_are_read_in_several_languages(text):
    column = pa.chunked_array([[text] * 3])
    found = dates.find_format(column)
    assert found is not None
    assert dates.day(dates.parse(column, found.format)[0]) == "2015-03-03"
