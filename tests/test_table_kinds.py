"""What columns hold, which of them are ids, and what makes a target senseless."""

import json
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import easyfirst
from easyfirst import files
from easyfirst.errors import ModelFileError
from easyfirst.tables import TableError, TableModel
from easyfirst.tables.column_reading import Reading
from easyfirst.tables.dates import FoundDates
from easyfirst.tables.identifiers import looks_like_id
from easyfirst.tables.kinds import Hints, has_leading_zeros, table_hints, understand
from easyfirst.tables.notation import Notation
from easyfirst.tables.targets import TargetWarning, read_target, response

RNG = np.random.default_rng(0)


def texts(*values):
    return pa.chunked_array([list(values)], pa.string())


def understood(*values, **hints):
    return understand("x", texts(*values), Hints(**hints))


# Kinds


@pytest.mark.parametrize(
    ("words", "truths"),
    [
        (("yes", "no"), ("yes",)),
        (("Y", "N", "y"), ("y",)),
        (("TRUE", "False"), ("true",)),
        (("ja", "nein"), ("ja",)),
        (("on", "off"), ("on",)),
        (("yes", "no", "-"), ("yes",)),
    ],
)
def test_words_for_yes_and_no_are_truth_values(words, truths):
    found = understood(*words)
    assert found.kind == "boolean"
    assert found.reading.truths == truths


@pytest.mark.parametrize("words", [("yes", "perhaps"), ("no", "no"), ("m", "f"), ("n", "s", "e")])
def test_other_words_are_categories(words):
    assert understood(*words).kind == "category"


def test_leading_zeros_make_text_where_they_are_no_slip():
    assert has_leading_zeros(texts("01085", "89073"))
    assert has_leading_zeros(texts("007", "12", "05"))
    assert not has_leading_zeros(texts(*map(str, range(200)), "05"))
    assert not has_leading_zeros(texts("0", "10", "0.5", "00.7"))


@given(st.integers(1, 6).flatmap(lambda n: st.lists(st.text("0123456789", min_size=n, max_size=n))))
def test_digits_of_one_length_are_text_exactly_if_one_starts_with_zero(codes):
    expected = any(len(code) > 1 and code[0] == "0" for code in codes)
    assert has_leading_zeros(texts(*codes)) == expected


def test_the_marks_of_other_columns_decide_what_a_column_leaves_open():
    table = pa.table({"a": ["1,5", "2,25"], "b": ["1.234", "5.678"]})
    hints = table_hints(table)
    assert hints.habit == ","
    assert understand("b", pa.chunked_array([table["b"]]), hints).reading.notation == Notation(
        ",", "."
    )


def test_codes_of_one_column_are_known_in_the_others():
    clear = np.concatenate([RNG.normal(20, 2, 200), np.full(20, -200.0)])
    assert table_hints(pa.table({"a": clear})).codes == {-200.0}


def test_dates_that_could_be_either_are_said():
    found = understood("01/02/2024", "05/03/2024", "02/01/2024")
    assert found.kind == "date"
    assert "dd/mm/yyyy would be possible too" in found.notes[0]
    assert FoundDates("%m/%d/%Y").rival is None


# Ids


def test_unique_numbers_are_ids_unless_they_have_to_do_with_the_target():
    inhabitants = RNG.permutation(10**6)[:300].astype(float)
    assert looks_like_id("contract", inhabitants, RNG.normal(size=300))
    assert not looks_like_id("inhabitants", inhabitants, np.log(inhabitants + 1))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.lognormal(9, 1.5, 400),
        lambda rng: rng.lognormal(10.5, 0.5, 400),
        lambda rng: rng.normal(50_000, 8_000, 400),
        lambda rng: 1e6 * rng.beta(2, 5, 400),
    ],
)
def test_quantities_are_no_ids_even_if_the_target_has_nothing_to_do_with_them(draw, seed):
    rng = np.random.default_rng(seed)
    assert not looks_like_id("income", np.rint(draw(rng)), rng.normal(size=400))


@pytest.mark.parametrize("seed", range(5))
def test_sequences_and_even_numbers_are_ids_in_any_order(seed):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=400)
    assert looks_like_id("ref", rng.permutation(400) + 1.0, y)
    assert looks_like_id("contract", rng.integers(10**8, 10**9, 400).astype(float), y)
    assert looks_like_id("order", np.cumsum(1.0 + np.rint(rng.lognormal(1, 1, 400))), y)


def test_a_name_says_that_numbers_are_ids():
    numbers = RNG.permutation(10**6)[:300].astype(float)
    assert looks_like_id("customer_id", numbers, numbers)


@pytest.mark.parametrize(
    "numbers",
    [
        np.arange(1990.0, 2090.0),
        RNG.integers(0, 50, 300).astype(float),
        RNG.normal(size=300),
        np.arange(20.0),
    ],
)
def test_years_repeated_numbers_fractions_and_short_columns_are_no_ids(numbers):
    assert not looks_like_id("x", numbers, RNG.normal(size=numbers.size))


# Targets


def line(n=200, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(1, 9, n)
    return pd.DataFrame({"x": x, "z": rng.normal(size=n), "y": 5 * x + rng.normal(0, 0.1, n)})


def test_rows_with_a_code_in_the_target_are_left_out_listed_and_have_no_weight():
    frame = line()
    frame.loc[::10, "y"] = -200.0
    model = TableModel("y").fit(frame)
    assert model.regressor_.weights_.size == 180
    found = model.suspects(frame)
    coded = found[found["given_label"] == -200.0]
    assert sorted(coded["row_id"]) == list(range(0, 200, 10))
    assert (coded["weight"] == 0).all()
    assert set(coded["reason"]) == {"the target -200 looks like a missing code"}
    assert "20 rows" in model.notes_[0]
    assert abs(model.regressor_.coef_[0] - 5) < 0.1


def test_the_worst_rows_that_the_model_finds_come_before_codes():
    frame = line()
    frame.loc[::10, "y"] = -200.0
    frame.loc[3, "y"] = 500.0
    model = TableModel("y").fit(frame)
    assert model.suspects(frame, top=3)["row_id"].tolist()[0] == 3
    assert len(model.suspects(frame, top=3)) == 3


def test_a_word_in_the_target_is_a_wrong_row_with_that_reason():
    frame = line().astype({"y": object})
    frame.loc[7, "y"] = "sold"
    table = frame.assign(y=frame["y"].astype(str))
    model = TableModel("y").fit(table)
    found = model.suspects(table)
    assert found.loc[found["row_id"] == 7, "reason"].tolist() == ["'sold' is not a number"]
    assert found.loc[found["row_id"] == 7, "given_label"].isna().all()


def test_new_rows_with_the_code_are_judged_alike():
    frame = line()
    frame.loc[::10, "y"] = -200.0
    model = TableModel("y").fit(frame)
    one = frame.iloc[[10]]
    assert model.suspects(one)["reason"].tolist() == ["the target -200 looks like a missing code"]


def test_a_constant_target_is_refused():
    with pytest.raises(TableError, match="has the value 7 in all 200 rows"):
        TableModel("y").fit(line().assign(y=7))


def test_a_target_of_two_values_is_fitted_with_a_warning():
    frame = line()
    with pytest.warns(TargetWarning, match="only two values, 0 and 1") as caught:
        TableModel("y").prepare(frame.assign(y=(frame["z"] > 0).astype(int)))
    assert "TableClassifier" in str(caught[0].message)


@pytest.mark.parametrize(
    ("copy", "where"),
    [
        (lambda y: y, "exactly"),
        (lambda y: 1.19 * y + 3, "exactly"),
        (lambda y: np.where(np.arange(200) % 25 == 0, 0.0, y), "exactly in 96 % of the rows"),
        (lambda y: y * (1 + 1e-5 * np.cos(np.arange(200))), "to 0.1 % of its range"),
    ],
)
def test_a_column_that_reproduces_the_target_is_named(copy, where):
    frame = line()
    frame["y2"] = copy(frame["y"])
    with pytest.warns(TargetWarning, match=f"'y2' reproduces 'y' {where}: leakage"):
        TableModel("y").prepare(frame)


def test_a_strong_feature_is_no_leakage():
    frame = line()
    frame["almost"] = frame["y"] * (1 + 1e-2 * frame["z"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableModel("y").prepare(frame)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["yes", "no"] * 30, "the words 'yes', 'no'.*TableClassifier"),
        (["a", "b"] * 30, "TableClassifier"),
        ([f"flat {number}" for number in range(60)], "60 different texts, which are names"),
        (["2024-01-31", "2024-02-01"] * 30, "dates such as '2024-01-31'"),
    ],
)
def test_senseless_targets_are_refused_with_the_reason_and_never_advised_to_be_missing(
    column, message
):
    with pytest.raises(TableError, match=message) as caught:
        read_target(pa.table({"y": column}), "y", Hints())
    assert "--na" not in str(caught.value)


def test_a_target_with_leading_zeros_is_numbers():
    table = pa.table({"y": ["007", "012", "105"]})
    reading, _ = read_target(table, "y", Hints())
    assert response(table, "y", reading).y.tolist() == [7.0, 12.0, 105.0]


# Files of models


def messy_frame():
    frame = line()
    return frame.assign(
        x=[f"{value:,.2f} m²".replace(".", ",") for value in frame["x"]],
        day=pd.date_range("2024-01-01", periods=200).strftime("%d.%m.%Y"),
        ok=np.where(frame["z"] > 0, "ja", "nein"),
        y=[f"$ {value:.4f}" for value in frame["y"]],
    )


def test_a_loaded_model_reads_a_single_new_row_as_the_table_of_the_fit(tmp_path):
    frame = messy_frame()
    model = TableModel("y").fit(frame)
    model.save(tmp_path / "m.safetensors")
    again = easyfirst.load(tmp_path / "m.safetensors")
    assert again.recipe_ == model.recipe_
    expected = model.predict(frame)
    for row in (0, 50, 199):
        assert again.predict(frame.iloc[[row]])[0] == pytest.approx(expected[row], abs=1e-9)


def test_a_new_table_in_another_notation_is_refused():
    frame = messy_frame()
    model = TableModel("y").fit(frame)
    with pytest.raises(TableError, match=r"as in the table of the fit \(decimal mark ','"):
        model.predict(frame.assign(x="5.5 kg"))
    with pytest.raises(TableError, match=r"written as dd.mm.yyyy"):
        model.predict(frame.assign(day="2024-13-01"))


def test_model_files_from_before_there_were_readings_load(tmp_path):
    frame = line()
    model = TableModel("y").fit(frame)
    model.save(tmp_path / "m.safetensors")
    contents = files.read(tmp_path / "m.safetensors")
    table = json.loads(contents.arrays["table"].tobytes())
    del table["recipe"]["target_reading"]
    for feature in table["recipe"]["features"]:
        del feature["reading"]
    text = np.frombuffer(json.dumps(table).encode(), np.uint8)
    arrays = contents.arrays | {"table": text}
    files.write(tmp_path / "old.safetensors", "table-model", contents.state, arrays)
    old = easyfirst.load(tmp_path / "old.safetensors")
    assert np.array_equal(old.predict(frame), model.predict(frame))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("date", "%Y; drop"),
        ("date", 5),
        ("codes", ["a"]),
        ("codes", [float("inf")]),
        ("truths", "yes"),
        ("words", [1]),
        ("notation", {"decimal": "x", "thousands": "", "units": [], "scaled": False}),
        ("notation", None),
    ],
)
def test_files_with_a_reading_that_is_none_are_refused(tmp_path, key, value):
    TableModel("y").fit(line()).save(tmp_path / "m.safetensors")
    contents = files.read(tmp_path / "m.safetensors")
    table = json.loads(contents.arrays["table"].tobytes())
    table["recipe"]["features"][0]["reading"][key] = value
    text = np.frombuffer(json.dumps(table).encode(), np.uint8)
    arrays = contents.arrays | {"table": text}
    files.write(tmp_path / "bad.safetensors", "table-model", contents.state, arrays)
    with pytest.raises(ModelFileError):
        easyfirst.load(tmp_path / "bad.safetensors")


def test_readings_are_plain_data():
    from dataclasses import asdict

    reading = Reading(Notation(",", ".", ("eur",)), codes=(-200.0,), words=("sold",))
    assert Reading.from_data(json.loads(json.dumps(asdict(reading)))) == reading
