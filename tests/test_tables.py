"""Raw tables: reading, deciding what columns are, preprocessing, files, outputs, comparison."""

import datetime
import gzip
import json
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import easyfirst
from easyfirst import SelfPacedRegressor, files
from easyfirst.errors import ModelFileError
from easyfirst.tables import OutputError, TableError, TableFormat, TableModel, read_table, values
from easyfirst.tables import preprocessing as preprocessing_module
from easyfirst.tables.comparison import ComparisonPlan, compare
from easyfirst.tables.outputs import encode, new_directory, new_file
from easyfirst.tables.planning import Choice, make_recipe
from easyfirst.tables.preprocessing import Preprocessor
from easyfirst.tables.recipe import MISSING, RARE, Feature, Recipe
from easyfirst.tables.runs import FitRequest, fit_run


def rent(n=600, seed=0, corrupted=0.15):
    """Flats with a linear rent, some of it nonsense: (frame, which rows are wrong)."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "flat": [f"flat {i}" for i in range(n)],
            "area": np.round(rng.uniform(20, 120, n), 1),
            "rooms": rng.integers(1, 6, n).astype(float),
            "city": rng.choice(["Ulm", "Bonn", "Kiel"], n, p=[0.5, 0.3, 0.2]),
            "lift": rng.random(n) < 0.4,
            "built": pd.Timestamp("1990-01-01") + pd.to_timedelta(rng.integers(0, 9000, n), "D"),
        }
    )
    frame.loc[rng.random(n) < 0.1, "rooms"] = np.nan
    price = 9 * frame["area"] + 40 * frame["rooms"].fillna(3.0) + 150 * (frame["city"] == "Bonn")
    price += 30 * frame["lift"] + rng.normal(0, 10, n)
    wrong = rng.random(n) < corrupted
    price[wrong] = rng.uniform(0, 4000, wrong.sum())
    frame["price"] = np.round(price, 2)
    return frame, wrong


def recipe_of(frame, **choices):
    table = pa.Table.from_pandas(pd.DataFrame(frame), preserve_index=False)
    choice = Choice("y", **choices)
    return make_recipe(table, choice, np.ones(table.num_rows, dtype=bool))


def feature_of(values_, n=None):
    """The feature, or the reason for leaving it out, that a column becomes beside a usable one."""
    n = len(values_)
    recipe, notes = recipe_of({"x": values_, "other": np.sin(np.arange(n)), "y": np.arange(n)})
    found = [each for each in recipe.features if each.name == "x"]
    left = [each.reason for each in recipe.left_out if each.name == "x"]
    return (found or left)[0], notes


def test_without_its_packages_the_line_that_installs_them_is_given():
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "try:\n    import easyfirst.tables\n"
        "except ModuleNotFoundError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "pip install 'easyfirst[tool]'" in done.stdout


# Reading


def test_csv_and_parquet_give_the_same_table(tmp_path):
    frame, _ = rent(50)
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    text, binary = read_table(tmp_path / "a.csv"), read_table(tmp_path / "a.parquet")
    assert text.column_names == binary.column_names
    assert text["price"].to_pylist() == binary["price"].to_pylist()
    assert text["rooms"].null_count == binary["rooms"].null_count > 0


def test_a_compressed_csv_is_read(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n3,4\n"))
    assert read_table(tmp_path / "a.csv.gz")["b"].to_pylist() == [2, 4]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found_in_the_heading(tmp_path, delimiter):
    path = tmp_path / "a.csv"
    path.write_text(delimiter.join(['"a, b; c"', "d"]) + "\n" + delimiter.join("12") + "\n")
    assert read_table(path).column_names == ["a, b; c", "d"]


def test_decimal_commas_other_encodings_and_own_words_for_missing_are_understood(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("größe;ort\n1,5;Köln\nkeine;Ulm\n".encode("latin-1"))
    form = TableFormat(decimal=",", encoding="latin-1", missing=("keine",))
    table = read_table(path, form)
    assert table["größe"].to_pylist() == [1.5, None]
    assert table["ort"].to_pylist() == ["Köln", "Ulm"]


def test_line_breaks_inside_quotes_are_part_of_a_value(tmp_path):
    path = tmp_path / "a.csv"
    lines = [f'{i},"first\nsecond, {"x" * 2000}"' for i in range(5000)]
    path.write_text("a,b\n" + "\n".join(lines) + "\n")
    table = read_table(path)
    assert table.num_rows == 5000
    assert table["b"][4999].as_py().startswith("first\nsecond")


def test_a_column_that_turns_to_text_after_a_million_rows_is_text_throughout(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a\n" + "1\n" * 1_000_000 + "2.5\nx\n")
    assert read_table(path)["a"].type == pa.string()


def test_a_directory_of_parquet_files_is_one_table(tmp_path):
    for number in (1, 0):
        table = pa.table({"a": [number], "b": [1.0]})
        pq.write_table(table, tmp_path / f"part-{number}.parquet")
    assert read_table(tmp_path)["a"].to_pylist() == [0, 1]


def test_an_unnamed_column_gets_its_place_as_a_name(tmp_path):
    pd.DataFrame({"a": [3, 4]}).to_csv(tmp_path / "a.csv")
    assert read_table(tmp_path / "a.csv").column_names == ["column 1", "a"]


def test_categories_that_look_like_numbers_can_be_kept_as_text(tmp_path):
    (tmp_path / "a.csv").write_text("code,x\n01,1\n02,2\n")
    table = read_table(tmp_path / "a.csv", text_columns=["code", "absent"])
    assert table["code"].to_pylist() == ["01", "02"]


def test_a_flipped_bit_in_a_parquet_page_is_noticed(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"a": np.random.default_rng(0).random(1000)})
    pq.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    raw = bytearray(path.read_bytes())
    raw[4000] ^= 1
    path.write_bytes(raw)
    with pytest.raises(TableError, match="not a whole Parquet file"):
        read_table(path)


def mutated(raw, rng):
    """The bytes with bits flipped, a part cut out, doubled, zeroed, or the end missing."""
    raw = bytearray(raw)
    first, last = sorted(rng.integers(0, len(raw), 2))
    match rng.integers(0, 5):
        case 0:
            for place in rng.integers(0, len(raw), 3):
                raw[place] ^= 1 << int(rng.integers(0, 8))
        case 1:
            del raw[first : first + 40]
        case 2:
            raw[first:first] = raw[first : first + 40]
        case 3:
            raw[first : first + 40] = bytes(len(raw[first : first + 40]))
        case 4:
            del raw[last:]
    return bytes(raw)


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_damaged_files_are_read_or_refused_and_damaged_checksums_never_read(tmp_path, ending):
    frame, _ = rent(60)
    whole = pa.Table.from_pandas(frame, preserve_index=False)
    raw = encode(whole, ending.removesuffix(".gz"))
    raw = gzip.compress(raw) if ending.endswith("gz") else raw
    path = tmp_path / f"a.{ending}"
    rng = np.random.default_rng(0)
    refusals = []
    for _ in range(300):
        path.write_bytes(mutated(raw, rng))
        try:
            found = read_table(path)
        except TableError as error:
            refusals.append(str(error))
        else:
            assert ending != "parquet" or found.to_pylist() == whole.to_pylist()
    assert len(refusals) > (250 if ending == "parquet" else 30)
    assert all(path.name in message for message in refusals)


# Deciding what columns are


def test_numbers_are_filled_with_the_median_and_flagged_where_enough_are_missing():
    found, notes = feature_of([np.nan] * 10 + [1.0, 2.0, 4.0] * 30)
    assert found == Feature("x", "number", fill=2.0, indicator=True)
    assert "10 missing values replaced by the median, 2" in notes[0]


def test_a_few_missing_numbers_get_no_coefficient_that_would_fit_them_exactly():
    found, _ = feature_of([np.nan] + [1.0, 2.0, 4.0] * 30)
    assert not found.indicator


def test_infinite_numbers_count_as_missing():
    found, _ = feature_of([np.inf, -np.inf] + [1.0, 2.0, 4.0] * 30)
    assert found.fill == 2.0


def test_columns_missing_in_the_same_rows_are_flagged_once():
    gaps = np.where(np.arange(100) % 5 == 0, np.nan, np.arange(100.0))
    city = [None if i % 4 == 0 else "ab"[i % 2] for i in range(100)]
    partner = np.where(np.arange(100) % 4 == 0, np.nan, np.arange(100.0) ** 2)
    recipe, _ = recipe_of({"a": gaps, "b": gaps**2, "c": partner, "d": city, "y": gaps})
    assert [each.name for each in recipe.features if each.indicator] == ["a"]
    assert MISSING in recipe.features[3].categories


def test_the_most_frequent_category_is_what_others_are_compared_with():
    found, _ = feature_of(["a"] * 30 + ["b"] * 50 + ["c"] * 20)
    assert found.categories == ("b", "a", "c")
    assert not found.rare


def test_rare_categories_share_a_coefficient():
    found, notes = feature_of(["a"] * 60 + ["b"] * 50 + [f"c{i // 2}" for i in range(20)])
    assert found == Feature("x", "category", categories=("a", "b"), rare=True)
    assert "20 rows of rare categories (10 of 12) taken together" in notes[0]


def test_so_few_rare_rows_that_they_would_be_fitted_exactly_join_the_most_frequent_category():
    found, notes = feature_of(["a"] * 60 + ["b"] * 50 + ["c"])
    assert found == Feature("x", "category", categories=("a", "b"))
    assert "taken with 'a'" in notes[0]


def test_text_that_names_rows_is_left_out_and_said():
    reason, _ = feature_of([f"key {i}" for i in range(100)])
    assert reason == "has 100 different texts, too many to be categories"


@pytest.mark.parametrize("first", [0, 1])
def test_a_column_that_numbers_the_rows_is_left_out(first):
    reason, _ = feature_of(np.arange(first, first + 100))
    assert reason == "numbers the rows"


def test_years_in_order_are_no_row_numbers():
    found, _ = feature_of(np.arange(1990, 2090))
    assert found.kind == "number"


def test_a_column_asked_for_by_name_is_used_even_if_it_numbers_the_rows():
    recipe, _ = recipe_of({"x": np.arange(50), "y": np.arange(50.0)}, features=("x",))
    assert recipe.features[0].name == "x"


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ([7.0] * 50, "has the same value in every row"),
        ([None] * 50, "holds no values"),
        (["a"] * 50, "has the value 'a' in (almost) every row"),
        ([[1, 2]] * 50, "which is not a single value per row"),
        ([np.inf] * 50, "holds no finite numbers"),
    ],
)
def test_useless_columns_are_left_out_with_the_reason(column, reason):
    assert reason in feature_of(column)[0]


def test_a_few_words_among_numbers_are_missing_values():
    found, notes = feature_of(["broken", *(f"{i}.5" for i in range(99))])
    assert found == Feature("x", "number", fill=49.5)
    assert "1 of 100 values are not numbers, the first 'broken' in row 0" in notes[0]


def test_many_words_among_numbers_make_categories_and_are_explained():
    found, notes = feature_of(["low", "1"] * 50)
    assert found.kind == "category"
    assert "mixes numbers and text (50 of 100 values are not numbers" in notes[0]


def test_a_word_is_located_in_the_whole_table_when_rows_are_left_out():
    frame = pd.DataFrame({"x": ["bad", *map(str, range(49))], "y": np.arange(50.0) ** 2})
    frame.loc[50] = ["worse", np.nan]
    frame = frame.iloc[::-1]
    model = TableModel("y")
    model.prepare(frame)
    assert any("the first 'bad' in row 50" in note for note in model.notes_)


def test_dates_become_days():
    dates = [datetime.date(1970, 1, 1) + datetime.timedelta(days=i) for i in range(60)]
    found, _ = feature_of(dates)
    assert found.kind == "date"
    assert values.numbers(pa.chunked_array([dates[:3]])).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_become_days_whatever_their_unit(unit):
    noon = pa.chunked_array([[datetime.datetime(1970, 1, 2, 12), None]], pa.timestamp(unit))
    assert values.numbers(noon)[0] == 1.5
    assert np.isnan(values.numbers(noon)[1])
    span = pa.chunked_array([[datetime.timedelta(hours=6)]], pa.duration(unit))
    assert values.numbers(span).tolist() == [0.25]


def test_times_of_day_become_days():
    morning = datetime.time(6)
    for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        assert values.numbers(pa.chunked_array([[morning]], kind)).tolist() == [0.25]


def test_decimals_dictionaries_and_truth_values_become_numbers():
    import decimal

    exact = pa.chunked_array([[decimal.Decimal("1.25")]])
    assert values.numbers(exact).tolist() == [1.25]
    assert values.numbers(pa.chunked_array([[True, False]])).tolist() == [1.0, 0.0]
    coded = pa.chunked_array([pa.array(["2", "3"]).dictionary_encode()])
    assert values.numbers(coded).tolist() == [2.0, 3.0]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_written_as_text_are_read_exactly(number):
    column = pa.chunked_array([[f" {number!r} "]])
    assert values.odd_values(column) is None
    assert values.numbers(column)[0] == number


# Preprocessing


def test_the_design_matrix_is_what_the_recipe_says():
    recipe = Recipe(
        "y",
        (
            Feature("a", "number", fill=5.0, indicator=True),
            Feature("c", "category", categories=("p", "q", MISSING), rare=True),
            Feature("b", "boolean", fill=1.0),
        ),
    )
    table = pa.table(
        {
            "a": [1.0, None, 3.0, 4.0],
            "b": [True, None, False, True],
            "c": ["p", "q", None, "never seen"],
        }
    )
    assert recipe.design_names() == ["a", "b", "a is missing", "c=q", "c=(missing)", "c=(rare)"]
    expected = [
        [1.0, 1.0, 0.0, 0.0, 0.0, 0.0],
        [5.0, 1.0, 1.0, 1.0, 0.0, 0.0],
        [3.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        [4.0, 1.0, 0.0, 0.0, 0.0, 1.0],
    ]
    assert Preprocessor(recipe).matrix(table).tolist() == expected
    assert Preprocessor(recipe).unseen(table) == {"c": 1}


def test_an_unseen_category_without_rare_ones_is_like_the_most_frequent():
    recipe = Recipe("y", (Feature("c", "category", categories=("p", "q")),))
    table = pa.table({"c": ["p", "q", "new"]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Preprocessor(recipe).matrix(table).tolist() == [[0.0], [1.0], [0.0]]


def test_a_category_may_be_called_like_our_own_words():
    feature = Feature("c", "category", categories=("p", RARE), rare=True)
    table = pa.table({"c": ["p", RARE, "other"]})
    found = Preprocessor(Recipe("y", (feature,))).matrix(table)
    assert found.tolist() == [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]


def test_blocks_of_rows_make_the_same_matrix_as_all_rows_at_once(monkeypatch):
    frame, _ = rent(500)
    model = TableModel("price").fit(frame)
    table = pa.Table.from_pandas(frame)
    whole = Preprocessor(model.recipe_).matrix(table)
    monkeypatch.setattr(preprocessing_module, "BLOCK_ROWS", 37)
    assert np.array_equal(Preprocessor(model.recipe_).matrix(table), whole)


def test_a_matrix_too_large_for_memory_is_sparse_and_gives_the_same_model(monkeypatch):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"c": rng.integers(0, 30, 3000).astype(str), "x": rng.random(3000)})
    frame["c"] = "k" + frame["c"]
    frame["y"] = frame["x"] + frame["c"].str.len() + rng.normal(0, 0.1, 3000)
    dense = TableModel("y").fit(frame)
    monkeypatch.setattr(preprocessing_module, "DENSE_BYTES", 1000)
    thrifty = TableModel("y")
    rows = thrifty.prepare(frame)
    assert sp.issparse(rows.X.sparse.to_coo())
    thrifty.fit_rows(rows)
    np.testing.assert_allclose(thrifty.predict(frame), dense.predict(frame), atol=1e-9)
    assert list(thrifty.regressor_.feature_names_in_) == dense.recipe_.design_names()


# The model


def test_a_table_with_everything_in_it_is_fitted_and_its_wrong_rows_found():
    frame, wrong = rent(1500)
    model = TableModel("price", row_id="flat").fit(frame)
    coef = dict(zip(model.recipe_.design_names(), model.regressor_.coef_, strict=True))
    assert coef["area"] == pytest.approx(9, abs=0.1)
    assert coef["city=Bonn"] == pytest.approx(150, abs=5)
    found = model.suspects(frame)
    truly = set(frame["flat"][wrong])
    assert np.mean([each in truly for each in found["row_id"]]) > 0.95


def districts(seed, n=3000):
    """Rents in many districts of equal size, a fifth of them nonsense: (frame, wrong rows)."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "area": rng.uniform(20, 100, n),
            "rooms": rng.integers(1, 5, n),
            "city": rng.choice([f"c{k}" for k in range(8)], n),
            "type": rng.choice(list("abcdef"), n, p=[0.4, 0.2, 0.15, 0.1, 0.1, 0.05]),
            "district": rng.choice([f"z{k}" for k in range(20)], n),
        }
    )
    rent = 10 * frame["area"] + 100 * frame["city"].str[1].astype(int) + 20 * frame["rooms"]
    frame["rent"] = rent + 50 * (frame["type"] == "b") + rng.normal(0, 5, n)
    wrong = rng.random(n) < 0.2
    frame.loc[wrong, "rent"] = rng.uniform(0, 5000, wrong.sum())
    return frame, wrong


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", [2, 4])
def test_no_category_is_lost_because_others_are_compared_with_it(seed, sparse, monkeypatch):
    if sparse:
        monkeypatch.setattr(preprocessing_module, "DENSE_BYTES", 1000)
    frame, wrong = districts(seed)
    model = TableModel("rent")
    rows = model.fit_rows(model.prepare(frame))
    aside = ~model.regressor_.selected_
    assert np.sum(aside & ~wrong) <= 5
    assert np.sum(aside & wrong) > 0.98 * wrong.sum()
    assert list(rows.X.columns) == model.recipe_.design_names()
    expected = Preprocessor(model.recipe_).matrix(pa.Table.from_pandas(frame))
    assert np.array_equal(np.asarray(rows.X), expected.toarray() if sparse else expected)
    np.testing.assert_allclose(model.predict(frame), model.regressor_.predict(rows.X))


@pytest.mark.parametrize("convert", [lambda f: f, pl.from_pandas, pa.Table.from_pandas])
def test_suspects_come_in_the_library_that_the_table_is_from(convert):
    frame, _ = rent(300)
    model = TableModel("price").fit(convert(frame))
    found = model.suspects(convert(frame), top=3)
    assert type(found) is type(convert(frame))
    assert len(found) == 3


def test_rows_without_a_target_are_left_out_and_counted():
    frame, _ = rent(300)
    frame.loc[[5, 7], "price"] = np.nan
    model = TableModel("price")
    rows = model.prepare(frame)
    assert rows.n_dropped == 2
    assert model.notes_[0] == "2 rows without a value of 'price' left out"
    assert not rows.used[[5, 7]].any()
    model.fit_rows(rows)
    assert len(model.predict(frame)) == 300


def test_batches_come_from_a_column_which_is_no_feature():
    frame, _ = rent(900)
    frame["office"] = np.where(np.arange(900) % 3 == 0, "bad", "good")
    spoilt = (frame["office"] == "bad") & (np.arange(900) % 2 == 0)
    frame.loc[spoilt, "price"] = 9999.0
    model = TableModel("price", batches="office").fit(frame)
    assert "office" not in {each.name for each in model.recipe_.features}
    bad, good = model.regressor_.batch_clean_share_
    assert bad < 0.6 < good


def test_text_where_dates_were_fitted_is_refused_with_a_way_out():
    days = pd.date_range("2024-01-01", periods=60)
    price = np.arange(60.0) + np.random.default_rng(0).normal(size=60)
    frame = pd.DataFrame({"day": days, "price": price})
    model = TableModel("price").fit(frame)
    as_text = frame.assign(day=days.strftime("%Y-%m-%d"))
    with pytest.raises(TableError, match=r"'day' held dates .* '2024-01-01'.*to_datetime"):
        model.predict(as_text)


def test_a_loaded_model_predicts_the_same_bits(tmp_path):
    frame, _ = rent(700)
    model = TableModel("price", row_id="flat", exclude=("built",)).fit(frame)
    model.save(tmp_path / "m.safetensors")
    again = easyfirst.load(tmp_path / "m.safetensors")
    new, _ = rent(200, seed=5)
    new.loc[3, "city"] = "Rom"
    assert np.array_equal(again.predict(new), model.predict(new))
    assert np.array_equal(again.predict_interval(new), model.predict_interval(new))
    assert again.suspects(frame).equals(model.suspects(frame))
    assert again.recipe_ == model.recipe_
    assert (again.row_id, again.exclude, again.notes_) == ("flat", ("built",), model.notes_)


texts = st.text(max_size=20)
features = st.one_of(
    st.builds(
        Feature,
        texts,
        st.sampled_from(["number", "boolean", "date"]),
        fill=st.floats(allow_nan=False, allow_infinity=False),
        indicator=st.booleans(),
    ),
    st.builds(
        Feature,
        texts,
        st.just("category"),
        categories=st.lists(texts, min_size=1, max_size=5, unique=True).map(tuple),
        rare=st.booleans(),
    ),
)


@given(st.lists(features, max_size=5), texts)
def test_a_recipe_survives_json(found, target):
    recipe = Recipe(target, tuple(found))
    assert Recipe.from_data(json.loads(json.dumps(recipe.to_data()))) == recipe


def spoil(table, key, value):
    *path, last = key
    inner = table
    for step in path:
        inner = inner[step]
    inner[last] = value


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (["recipe", "target"], 5),
        (["recipe", "features"], {}),
        (["recipe", "features", 0, "kind"], "code"),
        (["recipe", "features", 0, "fill"], "x"),
        (["recipe", "features", 0, "fill"], 1e999),
        (["recipe", "features", 0, "indicator"], 1),
        (["recipe", "features", 0, "name"], "another"),
        (["recipe", "features", 0, "categories"], ["a"]),
        (["recipe", "left_out"], None),
        (["row_id"], 3),
        (["notes"], "text"),
    ],
)
def test_a_file_with_another_preprocessing_than_its_coefficients_is_refused(tmp_path, key, value):
    frame, _ = rent(200)
    TableModel("price").fit(frame).save(tmp_path / "m.safetensors")
    contents = files.read(tmp_path / "m.safetensors")
    table = json.loads(contents.arrays["table"].tobytes())
    spoil(table, key, value)
    text = np.frombuffer(json.dumps(table).encode(), np.uint8)
    arrays = contents.arrays | {"table": text}
    files.write(tmp_path / "b.safetensors", "table-model", contents.state, arrays)
    with pytest.raises(ModelFileError):
        easyfirst.load(tmp_path / "b.safetensors")


def test_categories_longer_than_the_header_of_a_file_fit_into_it(tmp_path):
    rng = np.random.default_rng(0)
    city = rng.integers(0, 60, 1200)
    frame = pd.DataFrame({"city": [f"{'long' * 5000} {i}" for i in city], "x": rng.random(1200)})
    frame["y"] = 3 * frame["x"] + city + rng.normal(0, 0.1, 1200)
    model = TableModel("y").fit(frame)
    model.save(tmp_path / "m.safetensors")
    again = easyfirst.load(tmp_path / "m.safetensors")
    assert np.array_equal(again.predict(frame), model.predict(frame))


# Outputs


def test_an_interrupted_run_leaves_nothing(tmp_path):
    def interrupted():
        with new_directory(tmp_path / "run", ["a"], False) as folder:
            (folder / "a").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_a_run_makes_the_folders_on_the_way_to_it(tmp_path):
    with new_directory(tmp_path / "a" / "b" / "run", ["x"], False) as folder:
        (folder / "x").write_text("done")
        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a" / "b" / "run" / "x").read_text() == "done"


def test_a_forced_run_replaces_its_own_files_and_no_others(tmp_path):
    target = tmp_path / "run"
    target.mkdir()
    for name in ("a", "b", "mine"):
        (target / name).write_text("old")
    with new_directory(target, ["a", "b"], force=True) as folder:
        (folder / "a").write_text("new")
    assert (target / "a").read_text() == "new"
    assert not (target / "b").exists()  # of the old run, and not made by this one
    assert (target / "mine").read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["run"]


def test_a_failed_file_leaves_the_old_one(tmp_path):
    target = tmp_path / "a.csv"
    target.write_text("old")

    def failing():
        with new_file(target, force=True) as path:
            path.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        failing()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_full_disk_is_named_and_a_lost_network_is_not_taken_for_one(tmp_path):
    import errno

    with pytest.raises(OutputError, match="No space left"), new_file(tmp_path / "a", False):
        raise OSError(errno.ENOSPC, "full")
    with pytest.raises(ConnectionError), new_file(tmp_path / "a", False):
        raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx"])
def test_text_cells_of_csv_are_no_formulas(text):
    assert f"'{text}".encode() in encode(pa.table({"a": [text]}), "csv")


def test_numbers_in_csv_keep_their_sign():
    assert encode(pa.table({"a": [-1.5]}), "csv") == b'"a"\n-1.5\n'


def test_json_has_null_for_what_it_has_no_word_for():
    found = json.loads(encode(pa.table({"a": [1.0, float("nan"), float("inf")]}), "json"))
    assert found == [{"a": 1.0}, {"a": None}, {"a": None}]


def test_nested_values_are_written_as_text_in_csv():
    assert b"[1, 2]" in encode(pa.table({"a": [[1, 2]]}), "csv")


# A run


def test_the_rows_of_a_run_stand_beside_those_of_the_table(tmp_path):
    frame, _ = rent(300)
    frame.loc[4, "price"] = np.nan
    frame.to_parquet(tmp_path / "data.parquet")
    model = TableModel("price", row_id="flat")
    request = FitRequest(tmp_path / "data.parquet", model, TableFormat(), report=False)
    fit_run(request, tmp_path, lambda stage: None)
    rows = read_table(tmp_path / "rows.parquet").to_pandas()
    assert rows["row_id"].tolist() == frame["flat"].tolist()
    assert rows.loc[4].drop("row_id").isna().all()
    used = rows.index != 4
    fitted = model.regressor_
    assert np.array_equal(rows["weight"][used], fitted.weights_)
    expected = (frame["price"] - model.predict(frame)) / fitted.noise_scale_
    whole = used & frame["rooms"].notna()  # others are judged more mildly
    np.testing.assert_allclose(rows["residual"][whole].astype(float), expected[whole])
    easy = rows["entry_pace"][used] < 0.5 * fitted.pace_
    assert (rows["weight"][used][easy] > 0.5).all()


def test_warnings_of_the_fit_are_kept(tmp_path):
    frame, _ = rent(200)
    frame["twice"] = 2 * frame["area"]
    frame.to_parquet(tmp_path / "data.parquet")
    request = FitRequest(tmp_path / "data.parquet", TableModel("price"), TableFormat(), False)
    run = fit_run(request, tmp_path, lambda stage: None)
    assert any("determine only" in doubt for doubt in run.doubts)


# Comparison


def test_ours_and_least_squares_are_told_apart_by_the_trimmed_error():
    frame, _ = rent(800, corrupted=0.25)
    found = compare(
        frame, ComparisonPlan("price", methods=("ols", "easyfirst"), folds=3, share=0.6)
    )
    assert [score.name for score in found.scores] == ["easyfirst", "ols"]
    assert found.scores[0].error < 0.5 * found.scores[1].error
    assert len(found.scores[0].errors) == 3


def test_rows_that_the_user_trusts_are_the_yardstick_when_marked():
    frame, wrong = rent(800, corrupted=0.25)
    frame["checked"] = ~wrong & (np.arange(800) % 2 == 0)
    plan = ComparisonPlan("price", trusted="checked", methods=("easyfirst",), folds=3)
    found = compare(frame, plan)
    assert "rows that 'checked' marks" in found.yardstick
    assert found.scores[0].error == pytest.approx(10, rel=0.25)  # the noise of the rent


def test_a_column_with_the_truth_is_the_yardstick_when_named():
    frame, _ = rent(800, corrupted=0.0)
    frame["truth"] = frame["price"]
    spoilt = np.arange(800) % 4 == 0
    frame.loc[spoilt, "price"] = 5000.0
    plan = ComparisonPlan("price", trusted="truth", methods=("easyfirst", "ols"), folds=3)
    found = compare(frame, plan)
    assert "true values in 'truth'" in found.yardstick
    assert found.scores[0].name == "easyfirst"
    assert found.scores[0].error < 15 < 500 < found.scores[1].error


def test_every_method_of_the_comparison_runs_and_says_why_if_not():
    frame, _ = rent(200)
    found = compare(frame[["area", "lift", "price"]], ComparisonPlan("price", folds=2, share=0.7))
    assert len(found.scores) == 14
    assert [score.failure for score in found.scores] == [None] * 14
    assert all(np.isfinite(score.error) for score in found.scores)


def test_a_large_table_is_compared_on_a_sample_that_the_seed_fixes():
    frame, _ = rent(500)
    plan = ComparisonPlan("price", methods=("ols",), folds=2, sample=100)
    first, again = compare(frame, plan), compare(frame, plan)
    assert (first.n_rows, first.n_compared) == (500, 100)
    assert first.scores[0].errors == again.scores[0].errors


def test_a_regressor_of_the_users_own_is_used():
    frame, _ = rent(300)
    model = TableModel("price", regressor=SelfPacedRegressor(max_rounds=1, fit_intercept=False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(frame)
    assert model.regressor_.intercept_ == 0.0
