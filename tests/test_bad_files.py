"""Bad files: one error type that names file, row group and column; skipping counts and lists."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from easyfirst import SelfPacedRegressor, read_parquet
from easyfirst.errors import BadFileError
from easyfirst.tables import read_table, reading
from easyfirst.tables.errors import TableError
from easyfirst.tables.reading import row_counts
from problems import corrupted_rows


@pytest.fixture
def folder(tmp_path):
    """Four files of two row groups each."""
    rows = corrupted_rows(n=1600, p=2)
    table = pa.table({"a": rows.X[:, 0], "b": rows.X[:, 1], "y": rows.y})
    for k in range(4):
        path = tmp_path / f"{k}.parquet"
        part = table.slice(400 * k, 400)
        pq.write_table(part, path, row_group_size=200, write_page_checksum=True)
    return tmp_path


def flip_in_second_group(path):
    place = pq.ParquetFile(path).metadata.row_group(1).column(1).data_page_offset + 100
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))


def rewrite(path, **columns):
    table = pq.read_table(path, partitioning=None)
    for name, values in columns.items():
        index = table.column_names.index(name)
        table = table.set_column(index, name, pa.array(values))
    pq.write_table(table, path, row_group_size=200)


DAMAGE = {
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-9]), None, None, "not a valid"),
    "empty": (lambda path: path.write_bytes(b""), None, None, "not a valid"),
    "flipped": (flip_in_second_group, 1, None, "cannot be read"),
    "without a column": (
        lambda path: pq.write_table(pa.table({"a": [1.0], "y": [1.0]}), path), None, None, "'b'",
    ),
    "with a text": (lambda path: rewrite(path, b=["one"] * 400), 0, "b", "holds String"),
    "without targets": (lambda path: rewrite(path, y=[np.nan] * 400), 0, "y", "missing or inf"),
    "with a gap": (
        lambda path: rewrite(path, a=[1.0] * 300 + [None] + [2.0] * 99), 1, "a", r"\(1 rows\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_error_names_file_row_group_and_column(folder, damage):
    spoil, group, column, message = DAMAGE[damage]
    path = folder / "2.parquet"
    spoil(path)
    with pytest.raises(BadFileError, match=message) as caught:
        SelfPacedRegressor(engine="inline").fit(read_parquet(folder, "y", features=["a", "b"]))
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert (error.path, error.row_group, error.column) == (str(path), group, column)
        assert str(path) in str(error)


@pytest.mark.parametrize("damage", DAMAGE)
def test_bad_files_can_be_skipped_and_are_listed(folder, damage):
    spoil, group, *_ = DAMAGE[damage]
    spoil(folder / "2.parquet")
    source = read_parquet(folder, "y", features=["a", "b"], on_bad_file="skip")
    assert len(source.groups) == (7 if group == 1 else 6)
    assert len(source.skipped) == (2 if group == 0 else 1)
    assert all("2.parquet" in each for each in source.skipped)
    assert sum(part.load().n_samples for part in source.partitions()) == 200 * len(source.groups)


def test_the_fit_is_that_of_the_good_rows(folder):
    rows = corrupted_rows(n=1600, p=2)
    flip_in_second_group(folder / "2.parquet")
    source = read_parquet(folder, "y", on_bad_file="skip", rows_per_batch=200)
    good = np.delete(np.arange(1600), np.arange(1000, 1200))
    ours = SelfPacedRegressor(engine="inline").fit(source)
    theirs = SelfPacedRegressor(engine="inline", n_batches=7).fit(rows.X[good], rows.y[good])
    assert ours.coef_.tobytes() == theirs.coef_.tobytes()


def test_nothing_but_bad_files_is_no_data(tmp_path):
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"no rows in .*all were skipped, the first because"):
        read_parquet(tmp_path, "y", on_bad_file="skip")
    with pytest.raises(ValueError, match="on_bad_file must be 'raise' or 'skip', got 'ignore'"):
        read_parquet(tmp_path, "y", on_bad_file="ignore")


@pytest.mark.skipif(sys.platform != "linux", reason="limits on memory are those of Linux")
@pytest.mark.parametrize("count", [150, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("how", ["numbers", "pieces"])
def test_mutated_files_are_refused_or_unchanged(tmp_path, kind, count, how):
    script = Path(__file__).with_name("mutated_files.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), kind, str(tmp_path), str(count), "0", how],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["other"] == []
    # Any text is a value of a raw table of texts.
    assert found["refused"] > (0.5 if (kind, how) != ("csv", "pieces") else 0.1) * count
    if kind == "parquet":  # a digit that became another is a number as good as any in CSV
        assert found["silent"] == []


def test_a_footer_that_contradicts_itself_is_refused_in_memory_too(tmp_path, monkeypatch):
    """Pages have checksums and the footer has none: its counts of rows must agree."""
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": np.arange(10.0)}), path, row_group_size=5)
    groups = [SimpleNamespace(num_rows=5), SimpleNamespace(num_rows=5)]
    footer = SimpleNamespace(num_rows=5, num_row_groups=2, row_group=groups.__getitem__)
    with pytest.raises(pa.ArrowInvalid, match="contradict each other"):
        row_counts(footer)
    assert read_table(path).num_rows == 10
    monkeypatch.setattr(reading, "row_counts", lambda found: [5])
    with pytest.raises(TableError, match="it holds 10 rows and tells of 5"):
        read_table(path)
