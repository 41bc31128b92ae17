"""Tables in pieces: understood, fitted and written as tables in memory are."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather as pa_feather
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from easyfirst import SelfPacedRegressor
from easyfirst.cli.group import easyfirst as command
from easyfirst.engines.memory import resident_bytes
from easyfirst.tables import TableModel, large_runs, read_table
from easyfirst.tables.errors import TableError
from easyfirst.tables.large import fit_large
from easyfirst.tables.learning import Wanted, learn
from easyfirst.tables.origins import Origins
from easyfirst.tables.pieces import table_in_pieces
from easyfirst.tables.planning import Choice
from easyfirst.tables.reading import TableFormat
from easyfirst.tables.sketches import IdSketch, LevelSketch, NumberSketch

N = 6000
# Rows with a missing area lie far from what its median says.
pytestmark = pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")


def flats(seed, n=N):
    """A table with numbers, categories, dates, words, codes and missing values of all kinds."""
    rng = np.random.default_rng(seed)
    area, rooms = rng.gamma(5, 15, n).round(1), rng.integers(1, 8, n)
    age = rng.integers(0, 100, n).astype(float)
    city = rng.choice(["Ulm", "Bonn", "Berlin", "Köln"], n, p=[0.5, 0.3, 0.17, 0.03]).astype(object)
    day = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, n), "D")
    price = 300 + 9 * area + 40 * rooms - 1.5 * age + 80 * (city == "Bonn") + rng.normal(0, 30, n)
    wrong = rng.random(n) < 0.1
    price[wrong] += rng.uniform(500, 3000, wrong.sum())
    area[rng.random(n) < 0.03] = np.nan
    age[rng.random(n) < 0.02] = -999
    price[rng.random(n) < 0.01] = np.nan
    city[rng.random(n) < 0.05] = None
    return pd.DataFrame(
        {
            "number": np.arange(n),
            "area": area,
            "rooms": rooms,
            "age": age,
            "city": city,
            "since": day.strftime("%d.%m.%Y"),
            "furnished": rng.choice(["yes", "no"], n),
            "same": 7,
            "plate": [f"UL-{i}" for i in rng.permutation(n)],
            "price": price.round(2),
        }
    )


def written(frame, path):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=1700, write_page_checksum=True)
    elif path.suffix == ".feather":
        pa_feather.write_feather(table, path, chunksize=1700)
    else:
        pa_csv.write_csv(table, path)
    return path


def learnt_of(path, room, piece_bytes=100_000, **form):
    table = table_in_pieces(path, TableFormat(**form), piece_bytes)
    assert len(table.pieces) > 2
    return learn(table, Wanted(Choice("price"), room=room))


def in_memory(path):
    model = TableModel("price")
    rows = model.prepare(read_table(path))
    return model, rows


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".feather"])
@pytest.mark.parametrize("room", [5_000_000, 10**9])
def test_a_table_in_pieces_is_understood_as_one_in_memory(tmp_path, ending, room):
    for seed in (0, 1):
        path = written(flats(seed), tmp_path / f"flats{seed}{ending}")
        model, rows = in_memory(path)
        found = learnt_of(path, room)
        assert found.is_whole == (room == 10**9)
        assert found.recipe == model.recipe_
        assert [*model._without_target(found.n_missing), *found.notes] == model.notes_
        assert found.n_used == rows.y.size
        assert found.fill_spread.keys() == model.fill_spread_.keys()
        for name, sides in model.fill_spread_.items():
            assert found.fill_spread[name] == pytest.approx(sides, rel=1e-9)


def test_a_fit_in_pieces_has_the_bits_of_one_in_memory_with_the_same_batches(tmp_path):
    path = written(flats(2), tmp_path / "flats.parquet")
    table = table_in_pieces(path, piece_bytes=100_000)
    model = TableModel("price", exclude=("plate",))
    fit_large(model, table, resident_bytes() + 300_000_000)
    whole = TableModel("price", exclude=("plate",))
    rows = whole.prepare(read_table(path))
    number = np.repeat(np.arange(len(table.pieces)), [each.n_rows for each in table.pieces])
    expected = SelfPacedRegressor(engine="inline").fit(rows.X, rows.y, batches=number[rows.used])
    assert whole.recipe_ == model.recipe_
    assert model.regressor_.coef_.tobytes() == expected.coef_.tobytes()
    assert model.regressor_.noise_scale_ == expected.noise_scale_


def test_texts_that_contradict_the_sample_are_read_as_in_memory(tmp_path):
    frame = flats(3).astype({"rooms": object, "area": object})
    frame.loc[N - 5, "area"] = "ask"
    frame["code"] = [f"{i % 7 + 1}" for i in range(N)]
    frame.loc[N // 2 :, "code"] = [f"0{i % 7 + 1}" for i in range(N - N // 2)]
    frame["late"] = None
    frame.loc[N - 400 :, "late"] = np.arange(400) % 9 + 0.5
    path = tmp_path / "flats.csv"
    frame.to_csv(path, index=False)
    model, _ = in_memory(path)
    found = learnt_of(path, 5_000_000)
    assert not found.is_whole
    assert found.recipe == model.recipe_
    kinds = {each.name: each.kind for each in found.recipe.features}
    assert (kinds["code"], kinds["late"], kinds["area"]) == ("category", "number", "number")


def test_files_of_a_folder_with_partitions_are_one_table(tmp_path):
    frame, folder = flats(4), tmp_path / "flats"
    for year, part in frame.groupby(np.arange(N) // 2000):
        (folder / f"year={2020 + year}").mkdir(parents=True)
        written(part.drop(columns="number"), folder / f"year={2020 + year}" / "part.parquet")
    model, _ = in_memory(folder)
    found = learnt_of(folder, 5_000_000)
    assert found.recipe == model.recipe_
    assert "year" in [each.name for each in found.recipe.features]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_rows_of_a_folder_know_their_file_and_their_line_there(tmp_path, ending):
    folder = tmp_path / "flats"
    folder.mkdir()
    for number, size in enumerate((1500, 40, 2500)):
        written(flats(number).iloc[:size], folder / f"part{number}{ending}")
    whole = Origins.of(folder, read_table(folder), "utf-8")
    table = table_in_pieces(folder, piece_bytes=100_000)
    rows = np.array([0, 1499, 1500, 1539, 1540, 4039])
    found = table.origins(rows)
    assert [found.names[i] for i in found.files] == [whole.names[i] for i in whole.files[rows]]
    assert found.lines.tolist() == whole.lines[rows].tolist() == [2, 1501, 2, 41, 2, 2501]


def test_lines_before_the_heading_are_counted(tmp_path):
    path = written(flats(0), tmp_path / "flats.csv")
    path.write_text("Flats of a town\n\n" + path.read_text())
    table = table_in_pieces(path, piece_bytes=100_000)
    whole = Origins.of(path, read_table(path), "utf-8")
    rows = np.array([0, 1, N - 1])
    assert table.origins(rows).lines.tolist() == whole.lines[rows].tolist()


def test_row_groups_are_cut_to_pieces_of_a_size(tmp_path):
    path = tmp_path / "rows.parquet"
    frame = flats(5)
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path)  # a single row group
    table = table_in_pieces(path, piece_bytes=100_000)
    in_order = pa.concat_tables([rows for _, rows in table.tables()])
    alone = pa.concat_tables([piece.read(table.schema) for piece in table.pieces])
    assert len(table.pieces) > 3
    assert in_order.equals(alone)
    assert in_order.to_pandas()["price"].equals(frame["price"])


def run(*arguments):
    return CliRunner().invoke(command, [str(each) for each in arguments])


@pytest.fixture
def always_in_pieces(monkeypatch):
    monkeypatch.setattr(large_runs, "IN_MEMORY", 1e9)
    monkeypatch.setattr(large_runs, "MOST_TIMES_DISK", 1e9)
    monkeypatch.setattr(large_runs, "PIECE_BYTES", 1_000_000)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("most", [60, 100_000])
def test_a_run_in_pieces_writes_what_one_in_memory_does(
    tmp_path, ending, most, monkeypatch, always_in_pieces
):
    frame = flats(6, 20_000)
    frame.loc[[5, 17_000], "price"] = -999999.0
    frame.loc[[7, 9], "price"] = -999999.0
    path = written(frame, tmp_path / f"flats{ending}")
    with monkeypatch.context() as usual:
        usual.setattr(large_runs, "IN_MEMORY", 0.0)
        usual.setattr(large_runs, "ROW_BYTES", 0.0)
        done = run("fit", path, "-t", "price", "-o", tmp_path / "whole", "--no-report")
    assert done.exit_code == 0, done.output
    monkeypatch.setattr(large_runs, "MOST_SUSPECTS", most)
    monkeypatch.setattr("easyfirst.tables.learning.MOST_SAMPLED", 4000)
    done = run("fit", path, "-t", "price", "-o", tmp_path / "pieces")
    assert done.exit_code == 0, done.output
    assert "in pieces" in done.output
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    rows = [pq.read_table(each / "rows.parquet") for each in (whole, pieces)]
    assert rows[0].schema.equals(rows[1].schema)
    assert rows[0]["row_id"].equals(rows[1]["row_id"])
    flags = [np.array(each["is_label_issue"].to_pylist()) for each in rows]
    assert np.mean(flags[0] == flags[1]) > 0.99  # batches and the sample of the start differ
    n_wrong = int(np.sum(flags[1] == True))  # noqa: E712  # there are None among them
    assert read_table(pieces / f"clean{ending}").num_rows == len(frame) - n_wrong
    suspects = [pd.read_csv(each / "suspects.csv") for each in (whole, pieces)]
    assert list(suspects[0].columns) == list(suspects[1].columns)
    assert len(suspects[1]) == min(most, n_wrong)
    known = [json.loads((each / "summary.json").read_text()) for each in (whole, pieces)]
    assert known[0].keys() == known[1].keys()
    assert known[0]["rows"]["read"] == known[1]["rows"]["read"]
    assert known[0]["columns"] == known[1]["columns"]
    assert known[1]["rows"]["look_wrong"] + known[1]["rows"]["with_wrong_target"] == n_wrong
    assert [each.keys() for each in known[0]["suspects"]] == [
        each.keys() for each in known[1]["suspects"]
    ]
    assert (pieces / "report.html").exists()
    assert (pieces / "model.safetensors").exists()
    found = rows[1].to_pandas().query("is_label_issue == True and reason.isna()")
    found["label_quality"] = found["label_quality"].where(found["label_quality"] >= 1e-9, 0.0)
    found["size"] = -found["residual"].abs()
    in_order = found.sort_values(["label_quality", "size"], kind="stable")["row_id"].tolist()
    assert suspects[1]["row_id"].tolist()[: len(in_order)] == in_order[: len(suspects[1])]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-t", "furnished"], "classes are fitted in memory"),
        (["-t", "price", "--model", "boosting"], "linear model"),
        (["-t", "price", "--batches", "city"], "neighbouring rows"),
        (["-t", "price", "--decisions", "decisions.csv"], "allow more memory"),
        (["-t", "prize"], "did you mean 'price'"),
    ],
)
def test_what_needs_memory_is_refused_in_words(tmp_path, options, said, always_in_pieces):
    path = written(flats(7), tmp_path / "flats.csv")
    (tmp_path / "decisions.csv").write_text("row,decision\n1,wrong\n")
    options = [str(tmp_path / each) if each == "decisions.csv" else each for each in options]
    done = run("fit", path, *options, "-o", tmp_path / "out")
    assert done.exit_code != 0
    assert said in done.output
    assert not (tmp_path / "out").exists()


def test_a_torn_line_is_an_error_with_its_place(tmp_path):
    path = written(flats(8), tmp_path / "flats.csv")
    lines = path.read_text().splitlines()
    lines[4000] = lines[4000].rsplit(",", 2)[0]
    path.write_text("\n".join(lines))
    table = table_in_pieces(path, piece_bytes=100_000)
    with pytest.raises(TableError, match=r"flats\.csv, line .* values where the heading has"):
        list(table.tables())


def test_a_damaged_row_group_is_an_error_with_its_place(tmp_path):
    path = written(flats(9), tmp_path / "flats.parquet")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x55
    path.write_bytes(content)
    table = table_in_pieces(path, piece_bytes=100_000)
    with pytest.raises(TableError, match=r"flats\.parquet, row group \d"):
        list(table.tables())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["random", "sorted", "reversed", "few"]))
def test_medians_of_a_summary_are_exact_or_near(seed, order):
    rng = np.random.default_rng(seed)
    values = rng.lognormal(0.0, 2.0, 40_001)
    values = np.round(values) if order == "few" else values
    values = {"sorted": np.sort(values), "reversed": np.sort(values)[::-1]}.get(order, values)
    sketch = NumberSketch(1000)
    for part in np.array_split(values, 37):
        sketch.add(part)
    rank = np.mean(values < sketch.median()), np.mean(values <= sketch.median())
    assert sketch.n == values.size
    assert rank[0] - 0.01 <= 0.5 <= rank[1] + 0.01
    if np.unique(values).size <= 1000:
        assert sketch.median() == np.median(values)
        assert sketch.is_exact


def test_summaries_of_texts_and_ids_keep_what_is_frequent():
    rng = np.random.default_rng(0)
    levels, ids, repeated = LevelSketch(500), IdSketch(256), IdSketch(256)
    for part in range(40):
        texts = [f"t{part}-{i}" for i in range(300)] + ["often"] * 50
        levels.add({text: texts.count(text) for text in set(texts)})
        ids.add(np.arange(part * 1000, part * 1000 + 1000.0))
        repeated.add(rng.integers(0, 4000, 1000).astype(float))
    assert levels.counts["often"] == 40 * 50
    assert len(levels.counts) + levels.n_forgotten == 40 * 300 + 1
    assert ids.different == 1.0
    assert ids.ascends
    assert repeated.different == pytest.approx(0.1, rel=0.2)
    assert not repeated.ascends
