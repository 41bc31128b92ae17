"""Input that once broke a promise; each test keeps one such door shut."""

import threading
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import easyfirst
from easyfirst import SelfPacedRegressor
from easyfirst.cli.group import easyfirst as command
from easyfirst.tables import TableModel, read_table
from easyfirst.tables.errors import OutputError, TableError
from easyfirst.tables.outputs import new_directory


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X @ [1.0, -2.0, 3.0] + 1.0 + 0.1 * rng.normal(size=300)
    y[:90] += 20.0 * rng.normal(size=90) + 10.0
    return X, y


@pytest.fixture
def frame(rows):
    X, y = rows
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)


def run(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


@pytest.mark.parametrize("weight", [2**46, 2**60, 1e100])
def test_enormous_equal_weights_say_no_more_than_equal_weights(rows, weight):
    X, y = rows
    model = SelfPacedRegressor().fit(X, y, sample_weight=np.full(300, weight))
    # Weights that are one but for rounding go another way to the same end, which rounds reach to a
    # hundredth of a standard error: 7e-5 here.
    np.testing.assert_allclose(model.coef_, SelfPacedRegressor().fit(X, y).coef_, rtol=1e-5)


def test_weights_whose_sum_overflows_are_refused(rows):
    with pytest.raises(ValueError, match="rescale sample_weight"):
        SelfPacedRegressor().fit(*rows, sample_weight=np.full(300, 1e307))


def test_a_source_in_memory_is_cut_into_no_more_batches_than_it_has_rows(frame):
    with pytest.raises(ValueError, match="n_batches=301 is more than the 300 rows"):
        SelfPacedRegressor(n_batches=301).fit(easyfirst.read_frame(frame, target="y"))


def test_a_frame_of_tiny_responses_is_refused_as_an_array_of_them_is(frame):
    with pytest.raises(ValueError, match="rescale y"):
        SelfPacedRegressor().fit(easyfirst.read_frame(frame.assign(y=1e-200), target="y"))


def test_a_frame_without_rows_is_refused(frame):
    with pytest.raises(ValueError, match="no rows"):
        easyfirst.read_frame(frame.iloc[:0], target="y")


@pytest.mark.parametrize("narrow", ["1.parquet", "2.parquet"])
def test_a_column_that_one_file_lacks_is_never_dropped_in_silence(frame, tmp_path, narrow):
    for name in ("1.parquet", "2.parquet"):
        part = frame.drop(columns="b") if name == narrow else frame
        pq.write_table(pa.Table.from_pandas(part, preserve_index=False), tmp_path / name)
    with pytest.raises(ValueError, match=r"2\.parquet.*'b'"):
        easyfirst.read_parquet(tmp_path, target="y")
    chosen = easyfirst.read_parquet(tmp_path, target="y", features=["c", "a"])
    assert chosen.feature_names == ("c", "a")


def test_every_callback_is_told_the_end_though_one_fails_there(rows):
    class Failing:
        def on_fit_end(self, status):
            raise RuntimeError("lost")

    class Noting:
        ended = None

        def on_fit_end(self, status):
            self.ended = status.code

    first, last = Noting(), Noting()
    with pytest.raises(RuntimeError, match="lost"):
        SelfPacedRegressor(callbacks=[first, Failing(), last]).fit(*rows)
    assert first.ended == last.ended == "converged"


def test_a_heading_in_another_encoding_is_a_mistake_of_the_data(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes("größe,y\n1,2\n2,4\n3,7\n".encode("latin-1"))
    options = ("--target", "y", "--encoding", "utf-8", "--output", tmp_path / "out")
    result = run("fit", path, *options)
    assert result.exit_code == 3
    assert "--encoding latin-1" in result.output


def test_the_work_per_column_does_not_grow_with_the_number_of_columns():
    def seconds(n_columns):
        values = np.random.default_rng(0).normal(size=(20, n_columns + 1))
        names = [*(f"c{j}" for j in range(n_columns)), "y"]
        table = pa.table(dict(zip(names, values.T, strict=True)))
        began = time.process_time()
        TableModel("y").prepare(table)
        return time.process_time() - began

    seconds(10)
    few, many = seconds(400), seconds(3200)
    assert many < 24 * few  # in proportion: 8


def test_names_given_twice_are_found_among_thousands(tmp_path):
    path = tmp_path / "table.csv"
    names = [f"c{j}" for j in range(20_000)]
    path.write_text(",".join([*names, "c77"]) + "\n" + ",".join(["1"] * 20_001) + "\n")
    with pytest.raises(TableError, match="more than one column named 'c77'"):
        read_table(path)


@pytest.mark.parametrize("force", [False, True])
def test_a_directory_in_the_place_of_a_result_is_left_alone(tmp_path, force):
    (tmp_path / "out" / "rows").mkdir(parents=True)
    with (
        pytest.raises(OutputError, match="holds a directory named 'rows'"),
        new_directory(tmp_path / "out", ["model", "rows"], force),
    ):
        pass
    assert (tmp_path / "out" / "rows").is_dir()


def test_a_name_that_is_too_long_is_a_failure_of_the_output(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("x,y\n1,2\n2,4\n3,7\n")
    result = run("fit", path, "--target", "y", "--output", tmp_path / ("a" * 300))
    assert result.exit_code == 5
    assert "cannot be written" in result.output


def test_of_two_runs_into_one_folder_the_slower_replaces_nothing(tmp_path):
    target, names = tmp_path / "out", ["model", "rows"]
    both_began, refused = threading.Barrier(2), []

    def write(who, wait_for):
        try:
            with new_directory(target, names, force=False) as folder:
                both_began.wait()
                for name in names:
                    (folder / name).write_text(who)
                if wait_for is not None:
                    wait_for.join()
        except OutputError:
            refused.append(who)

    fast = threading.Thread(target=write, args=("fast", None))
    slow = threading.Thread(target=write, args=("slow", fast))
    fast.start()
    slow.start()
    slow.join()
    assert refused == ["slow"]
    assert {(target / name).read_text() for name in names} == {"fast"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("n_given", [1, 299])
def test_each_row_needs_its_own_y_to_be_judged(rows, n_given):
    X, y = rows
    model = SelfPacedRegressor().fit(X, y)
    with pytest.raises(ValueError, match=f"300, {n_given}"):
        model.clean_probability(X, y[:n_given])
    np.testing.assert_array_equal(
        model.clean_probability(X, y[:, None]), model.clean_probability(X, y)
    )
