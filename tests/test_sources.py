"""Sources: tables and files of every kind become the same batches, or a clear refusal."""

import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import easyfirst
from clusters import digest
from easyfirst import SelfPacedRegressor
from easyfirst.contracts import Batch
from easyfirst.engines import Inline
from easyfirst.engines.residency import Answer, Work, carry_out, forget, in_batch_order
from easyfirst.sources import ArraySource, ParquetSource, read_frame, read_parquet
from easyfirst.sources.columns import Columns, check_batch
from problems import corrupted_rows

FEATURES = ["area", "rooms", "age"]
KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.fixture(scope="module")
def rows():
    return corrupted_rows(n=1200, p=3)


@pytest.fixture(scope="module")
def columns(rows):
    table = {name: rows.X[:, j] for j, name in enumerate(FEATURES)}
    return {**table, "price": rows.y, "flat": [f"flat {i}" for i in range(len(rows.y))]}


@pytest.fixture
def files(columns, tmp_path):
    """Three files of 400 rows, in row groups of 100."""
    table = pa.table(columns)
    for k in range(3):
        part = table.slice(400 * k, 400)
        pq.write_table(
            part, tmp_path / f"part-{k}.parquet", row_group_size=100, write_page_checksum=True
        )
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_of_any_library_gives_the_bits_of_its_arrays(rows, columns, kind):
    source = read_frame(KINDS[kind](columns), target="price", row_id="flat")
    model = SelfPacedRegressor(n_batches=4).fit(source)
    expected = SelfPacedRegressor(n_batches=4).fit(rows.X, rows.y)
    assert digest(model) == digest(expected)
    assert model.feature_names_in_.tolist() == FEATURES
    assert model.n_features_in_ == 3


def test_parquet_files_give_the_bits_of_their_rows(rows, files):
    source = read_parquet(files, target="price", row_id="flat", rows_per_batch=300)
    model = SelfPacedRegressor().fit(source)
    expected = SelfPacedRegressor(n_batches=4).fit(rows.X, rows.y)
    assert model.coef_.tobytes() == expected.coef_.tobytes()
    assert model.feature_names_in_.tolist() == FEATURES
    weights = np.concatenate([batch.weights for batch in model.weights_by_batch(source)])
    assert weights.tobytes() == expected.weights_.tobytes()


def test_batches_join_row_groups_across_files_and_never_cut_one(files):
    source = read_parquet(files, target="price", features=FEATURES, rows_per_batch=250)
    sizes = [part.load().n_samples for part in source.partitions()]
    assert sizes == [300, 300, 300, 300]
    joined = source.partitions()[1]
    assert [os.path.basename(group.path) for group in joined.groups] == [
        "part-0.parquet",
        "part-1.parquet",
        "part-1.parquet",
    ]


@pytest.mark.parametrize("how", ["directory", "pattern", "list", "path object"])
def test_files_can_be_named_in_every_usual_way(files, how):
    paths = {
        "directory": str(files),
        "pattern": str(files / "part-*.parquet"),
        "list": [str(files / f"part-{k}.parquet") for k in range(3)],
        "path object": files,
    }[how]
    source = read_parquet(paths, target="price", features=FEATURES)
    assert isinstance(source, ParquetSource)
    assert [group.n_rows for group in source.groups] == [100] * 12


def test_only_the_needed_columns_are_read(files):
    part = read_parquet(files, target="price", features=["age"]).partitions()[0]
    batch = part.load()
    assert batch.X.shape == (1200, 1)
    assert batch.row_ids is None


@given(
    counts=st.lists(st.integers(1, 50), min_size=1, max_size=30),
    rows_per_batch=st.integers(1, 120),
)
def test_every_row_group_is_in_one_batch_and_batches_are_full(counts, rows_per_batch):
    from easyfirst.sources.parquet import RowGroup

    groups = tuple(RowGroup("file", i, n) for i, n in enumerate(counts))
    source = ParquetSource(groups, Columns("y", ("x",)), rows_per_batch)
    batches = [part.groups for part in source.partitions()]
    assert sum(batches, ()) == groups
    sizes = [sum(group.n_rows for group in batch) for batch in batches]
    assert all(size >= rows_per_batch for size in sizes[:-1])
    assert all(
        size - batch[-1].n_rows < rows_per_batch for size, batch in zip(sizes, batches, strict=True)
    )


def test_a_flipped_bit_is_found_by_its_checksum(files):
    path = files / "part-1.parquet"
    metadata = pq.ParquetFile(path).metadata
    place = metadata.row_group(2).column(0).data_page_offset + 200
    content = bytearray(path.read_bytes())
    content[place] ^= 0x10
    path.write_bytes(bytes(content))
    source = read_parquet(files, target="price", features=FEATURES)
    with pytest.raises(ValueError, match=r"part-1\.parquet, row group 2: cannot be read"):
        SelfPacedRegressor().fit(source)


def test_a_file_that_changes_during_a_fit_is_noticed(files, columns):
    source = read_parquet(files, target="price", features=FEATURES)
    fewer = {name: values[:350] for name, values in columns.items()}
    pq.write_table(pa.table(fewer), files / "part-2.parquet", row_group_size=50)
    with pytest.raises(ValueError, match=r"part-2\.parquet, row group 0: has 50 rows instead of"):
        SelfPacedRegressor().fit(source)
    os.remove(files / "part-2.parquet")
    with pytest.raises(ValueError, match=r"part-2\.parquet: the file is not there"):
        SelfPacedRegressor().fit(source)


def test_what_is_no_parquet_file_is_refused_by_name(tmp_path):
    (tmp_path / "bad.parquet").write_text("price,rooms\n1,2\n")
    with pytest.raises(ValueError, match=r"bad\.parquet: is not a valid Parquet file"):
        read_parquet(tmp_path, target="price")
    with pytest.raises(FileNotFoundError, match=r"nowhere: no such file"):
        read_parquet(tmp_path / "nowhere", target="price")
    with pytest.raises(ValueError, match="paths is empty"):
        read_parquet([], target="price")


def test_a_file_without_the_column_is_named(files, columns):
    pq.write_table(pa.table({"price": columns["price"]}), files / "part-9.parquet")
    with pytest.raises(ValueError, match=r"part-9\.parquet: features names the column 'area'"):
        read_parquet(files, target="price", features=FEATURES)


def test_files_without_rows_are_refused(files, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    pq.write_table(pa.table({"x": np.zeros(0), "y": np.zeros(0)}), empty / "none.parquet")
    with pytest.raises(ValueError, match=r"there are no rows in .*none\.parquet"):
        read_parquet(empty, target="y")
    with pytest.raises(ValueError, match=r"rows_per_batch must be .* got 0"):
        read_parquet(files, target="price", rows_per_batch=0)


def test_a_misspelt_column_is_answered_with_the_nearest_name(columns):
    frame = pd.DataFrame(columns)
    with pytest.raises(ValueError, match=r"target names the column 'prise'.*did you mean 'price'"):
        read_frame(frame, target="prise")
    with pytest.raises(ValueError, match=r"features names the column 'romms'.*'rooms'"):
        read_frame(frame, target="price", features=["area", "romms"])
    with pytest.raises(ValueError, match=r"row_id names the column 'flats'"):
        read_frame(frame, target="price", row_id="flats")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"features": ["area", "area"]}, "'?area'? is given twice"),
        ({"features": ["area", "price"]}, "'?price'? is given twice or is the target"),
        ({"features": []}, "no column is left to predict 'price' from"),
        ({"features": ["flat"]}, "column 'flat' holds String, not numbers"),
    ],
)
def test_columns_that_make_no_sense_are_refused(columns, settings, message):
    with pytest.raises(ValueError, match=message):
        read_frame(pl.DataFrame(columns), target="price", **settings)


def test_features_as_one_string_are_refused(columns):
    with pytest.raises(TypeError, match="features must be a list of column names, got 'area'"):
        read_frame(pd.DataFrame(columns), target="price", features="area")


def test_what_is_no_table_is_refused(rows):
    with pytest.raises(TypeError, match="frame must be a table with named columns"):
        read_frame(rows.X, target="price")
    with pytest.raises(TypeError, match=r"\.collect\(\)"):
        read_frame(pl.LazyFrame({"a": [1]}), target="a")


def test_whole_numbers_booleans_and_missing_values_are_understood():
    frame = pl.DataFrame({"n": [1, 2, None], "b": [True, False, True], "y": [1.0, 2.0, 3.0]})
    batch = Columns.choose(frame.columns, "y").batch(frame[:2], "here")
    assert batch.X.dtype == np.float64
    np.testing.assert_array_equal(batch.X, [[1.0, 1.0], [2.0, 0.0]])
    with pytest.raises(ValueError, match=r"there: missing or infinite values in 'n' \(1 rows\)"):
        Columns.choose(frame.columns, "y").batch(frame, "there")


def test_narrow_columns_stay_narrow_as_they_do_in_arrays():
    frame = pd.DataFrame({"a": np.ones(3, np.float32), "b": np.zeros(3, np.float32), "y": 1.0})
    assert Columns.choose(frame.columns, "y").batch(frame, "here").X.dtype == np.float32


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (Batch(np.array([[np.inf]]), np.ones(1)), r"missing or infinite values in column 0"),
        (Batch(np.ones((1, 1)), np.array([np.nan])), r"missing or infinite values in y"),
        (Batch(np.array([[1e200]]), np.ones(1)), r"column 0 \(1e\+200\)"),
        (Batch(np.ones((1, 1)), np.ones(1), -np.ones(1)), "must not be negative, but 1 are"),
        (Batch(np.ones((2, 1)), np.ones(1)), "X has 2 rows and y has 1"),
        (Batch(sp.csr_array([[np.nan, 1.0]]), np.ones(1)), "missing or infinite values in X"),
    ],
)
def test_rows_that_cannot_be_fitted_are_refused(batch, message):
    with pytest.raises(ValueError, match=f"^somewhere: .*{message}"):
        check_batch(batch, "somewhere")


def test_a_source_says_all_itself(columns):
    source = read_frame(pd.DataFrame(columns), target="price", row_id="flat")
    with pytest.raises(ValueError, match="a source holds y and the sample weights itself"):
        SelfPacedRegressor().fit(source, columns["price"])
    with pytest.raises(ValueError, match="batches is for rows in memory"):
        SelfPacedRegressor().fit(source, batches=columns["price"])


def test_any_object_with_partitions_is_a_source(rows):
    class Mine:
        def partitions(self):
            return ArraySource(rows.X, rows.y, n_batches=4).partitions()

    model = SelfPacedRegressor().fit(Mine())
    expected = SelfPacedRegressor(n_batches=4).fit(rows.X, rows.y)
    assert model.coef_.tobytes() == expected.coef_.tobytes()
    assert model.n_features_in_ == 3
    assert not hasattr(model, "weights_")


def test_a_second_fit_leaves_nothing_of_the_first(rows, columns, files):
    model = SelfPacedRegressor().fit(rows.X, rows.y)
    model.fit(read_parquet(files, target="price", features=FEATURES))
    assert not hasattr(model, "weights_")
    assert model.feature_names_in_.tolist() == FEATURES
    model.fit(rows.X, rows.y)
    assert model.weights_.shape == (1200,)
    assert not hasattr(model, "feature_names_in_")
    with pytest.raises(AttributeError, match="whose weights are in weights_"):
        next(model.weights_by_batch(read_parquet(files, target="price", features=FEATURES)))


def test_weights_can_only_be_asked_for_the_source_that_was_fitted(files):
    source = read_parquet(files, target="price", features=FEATURES, rows_per_batch=300)
    model = SelfPacedRegressor().fit(source)
    other = read_parquet(files, target="price", features=FEATURES, rows_per_batch=100)
    with pytest.raises(ValueError, match="the source has 12 batches and the fit had 4"):
        next(model.weights_by_batch(other))


def test_batches_with_other_columns_are_refused(rows):
    class Ragged:
        def partitions(self):
            wide, narrow = rows.X, rows.X[:, :2]
            return [ArraySource(X, rows.y).partitions()[0] for X in (wide, narrow)]

    with pytest.raises(ValueError, match="batch 1 has 2 columns and batch 0 has 3"):
        SelfPacedRegressor(engine=Inline()).fit(Ragged())


def test_a_partition_of_arrays_travels_with_its_own_rows_alone(rows):
    part = ArraySource(rows.X, rows.y, rows.y**2, n_batches=4).partitions()[2]
    rebuild, arguments = part.__reduce__()
    assert arguments[0].shape == (300, 3)
    twin = rebuild(*arguments).load()
    np.testing.assert_array_equal(twin.X, part.load().X)
    np.testing.assert_array_equal(twin.sample_weight, part.load().sample_weight)


def test_an_unknown_engine_is_refused_with_all_that_are_known(rows):
    with pytest.raises(ValueError, match=re.escape("engine must be one of 'auto', 'threads'")):
        SelfPacedRegressor(engine="sparc").fit(rows.X, rows.y)
    with pytest.raises(ValueError, match="got 7"):
        SelfPacedRegressor(engine=7).fit(rows.X, rows.y)


def test_fitting_arrays_loads_no_cluster_library():
    program = (
        "import sys\n"
        "from easyfirst import SelfPacedRegressor\n"
        "SelfPacedRegressor().fit([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0])\n"
        "names = ('dask', 'distributed', 'ray', 'pyspark', 'pyarrow', 'polars')\n"
        "print([name for name in names if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    # scikit-learn loads pandas where it is installed, and pandas loads pyarrow.
    assert set(re.findall(r"'(\w+)'", done.stdout)) <= {"pyarrow"}


def test_a_worker_process_remembers_loads_once_and_forgets():
    loads = []

    def load():
        loads.append(1)
        return Batch(np.ones((2, 1)), np.ones(2))

    def step(resident, message, broadcast):
        return resident.recall("sum", message, lambda: float(resident.batch.y.sum())) + broadcast

    works = [Work(0, load, "a"), Work(1, load, "a")]
    for _ in range(2):
        answers = carry_out("fit", works, step, 1.0, threads=2)
        assert [answer.reply for answer in answers] == [3.0, 3.0]
    assert len(loads) == 2
    forget("fit")
    carry_out("fit", works, step, 1.0)
    assert len(loads) == 4
    forget("fit")


def test_the_error_of_the_first_batch_is_raised_and_seconds_are_booked():
    from easyfirst.contracts import Ledger

    ledger = Ledger([0.0, 0.0])
    assert in_batch_order([Answer(1, "b", 2.0), Answer(0, "a", 1.0)], ledger) == ["a", "b"]
    assert ledger.seconds == [1.0, 2.0]
    broken = [Answer(1, None, 0.0, KeyError("one")), Answer(0, None, 0.0, ValueError("zero"))]
    with pytest.raises(ValueError, match="zero"):
        in_batch_order(broken, ledger)


def test_public_readers_are_found_on_the_package():
    assert easyfirst.read_frame is read_frame
    assert easyfirst.read_parquet is read_parquet
