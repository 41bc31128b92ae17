"""Files and databases as they are: the same bits whatever the rows come from, clear refusals."""

import gc
import os
import pickle
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import easyfirst
from easyfirst import SelfPacedRegressor
from easyfirst.engines import OutOfCore
from easyfirst.errors import BadFileError
from easyfirst.sources import csv as csv_module
from easyfirst.sources import read_arrow, read_csv, read_duckdb, read_parquet
from problems import corrupted_rows

N_BATCHES, IN_BATCH, P = 6, 500, 3
FEATURES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def rows():
    return corrupted_rows(n=N_BATCHES * IN_BATCH, p=P)


@pytest.fixture(scope="module")
def table(rows):
    columns = {name: rows.X[:, j] for j, name in enumerate(FEATURES)}
    n = len(rows.y)
    return pa.table({**columns, "y": rows.y, "number": np.arange(n), "k": np.arange(n) // 1500})


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    """The same rows as Parquet, Feather, CSV, a DuckDB database and a hive of Parquet files."""
    where = tmp_path_factory.mktemp("rows")
    pq.write_table(table, where / "rows.parquet", row_group_size=IN_BATCH, write_page_checksum=True)
    feather.write_feather(table, where / "rows.feather", chunksize=IN_BATCH)
    pa_csv.write_csv(table, where / "rows.csv")
    options = {"max_rows_per_group": IN_BATCH, "min_rows_per_group": IN_BATCH}
    ds.write_dataset(
        table, where / "hive", format="parquet", partitioning=["k"], partitioning_flavor="hive",
        **options,
    )  # fmt: skip
    with duckdb.connect(str(where / "rows.duckdb")) as database:
        database.register("given", table)
        database.sql("CREATE TABLE rows AS SELECT * FROM given ORDER BY hash(number)")
    return where


def open_source(kind, folder, **settings):
    settings = {"features": FEATURES, "rows_per_batch": IN_BATCH} | settings
    if kind == "parquet":
        return read_parquet(folder / "rows.parquet", "y", **settings)
    if kind == "csv":
        return read_csv(folder / "rows.csv", "y", **settings)
    if kind == "feather":
        return read_arrow(folder / "rows.feather", "y", **settings)
    if kind == "hive":
        return read_arrow(folder / "hive", "y", **settings)
    if kind == "dataset":
        return read_arrow(ds.dataset(folder / "rows.parquet"), "y", **settings)
    return read_duckdb(
        "SELECT * FROM rows ORDER BY number", "y", database=folder / "rows.duckdb", **settings
    )


KINDS = ["parquet", "csv", "feather", "hive", "dataset", "duckdb"]


@pytest.fixture(scope="module")
def expected(rows):
    return SelfPacedRegressor(n_batches=N_BATCHES, engine="inline").fit(rows.X, rows.y)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_source_gives_the_bits_of_arrays(kind, folder, rows, expected):
    source = open_source(kind, folder)
    parts = source.partitions()
    assert [part.load().n_samples for part in parts] == [IN_BATCH] * N_BATCHES
    travelled = pickle.loads(pickle.dumps(parts[2])).load()
    assert travelled.X.tobytes() == rows.X[2 * IN_BATCH : 3 * IN_BATCH].tobytes()
    assert travelled.y.tobytes() == rows.y[2 * IN_BATCH : 3 * IN_BATCH].tobytes()
    model = SelfPacedRegressor(engine=OutOfCore("3GB", n_jobs=1)).fit(source)
    assert model.coef_.tobytes() == expected.coef_.tobytes()
    assert model.feature_names_in_.tolist() == FEATURES
    assert model.noise_scale_ == expected.noise_scale_


@pytest.mark.cluster
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_source_gives_the_bits_of_arrays_on_dask(kind, folder, expected, client):
    model = SelfPacedRegressor(engine=client).fit(open_source(kind, folder))
    assert model.coef_.tobytes() == expected.coef_.tobytes()


@pytest.fixture(scope="module")
def client():
    from clusters import local_dask

    with local_dask(2) as client:
        yield client


def test_readers_are_found_on_the_package():
    for name in ("read_csv", "read_arrow", "read_duckdb"):
        assert getattr(easyfirst, name) is globals()[name]


def test_columns_of_hive_partitions_and_filters(folder, table):
    field = ds.field
    source = read_arrow(
        folder / "hive", "y", features=["a", "k"], rows_per_batch=IN_BATCH,
        filter=(field("k") == 1) & (field("a") > 0),
    )  # fmt: skip
    found = np.concatenate([part.load().X for part in source.partitions()])
    every = np.column_stack([table["a"], table["k"]]).astype(float)
    wanted = every[(every[:, 1] == 1) & (every[:, 0] > 0)]
    assert found.tobytes() == wanted.tobytes()
    with pytest.raises(ValueError, match="none that pass the filter"):
        read_arrow(folder / "hive", "y", filter=field("k") == 7)
    with pytest.raises(TypeError, match="data must be a pyarrow Dataset"):
        read_arrow(7, "y")


def test_relations_of_duckdb_are_run_once_and_leave_nothing(table, tmp_path):
    connection = duckdb.connect()
    relation = connection.from_arrow(table).order("number")
    source = read_duckdb(relation, "y", features=FEATURES, row_id="number", folder=tmp_path)
    batch = source.partitions()[0].load()
    assert batch.row_ids.tolist() == list(range(N_BATCHES * IN_BATCH))
    assert len(os.listdir(tmp_path)) == 1
    del source
    gc.collect()
    assert os.listdir(tmp_path) == []
    with pytest.raises(ValueError, match="the query returns no rows"):
        read_duckdb(relation.filter("number < 0"), "y", folder=tmp_path)
    with pytest.raises(ValueError, match=r"the query cannot be run: .*nowhere"):
        read_duckdb("SELECT * FROM nowhere", "y")
    with pytest.raises(TypeError, match="must be a DuckDB relation or SQL text"):
        read_duckdb(7, "y")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("chunk", [7, 64, 1 << 20])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_are_cut_outside_quotes_wherever_a_chunk_ends(tmp_path, monkeypatch, chunk, end):
    monkeypatch.setattr(csv_module, "CHUNK_BYTES", chunk)
    names = [f'row "{i}"{end}of two lines, {i}' for i in range(11)]
    quoted = [name.replace('"', '""') for name in names]
    lines = [f'{i}.5,"{name}",{i}' for i, name in enumerate(quoted)]
    lines.insert(4, "")  # a blank line is none
    for last in ("", end, end + end):
        path = tmp_path / "rows.csv"
        path.write_bytes((end.join(["x,id,y", *lines]) + last).encode())
        source = read_csv(path, "y", row_id="id", rows_per_batch=3)
        batches = [part.load() for part in source.partitions()]
        assert [batch.n_samples for batch in batches] == [3, 3, 3, 2]
        assert np.concatenate([batch.y for batch in batches]).tolist() == list(range(11))
        assert [name for batch in batches for name in batch.row_ids] == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("x,y\n", "there are no rows"),
        ("x,y", "there are no rows"),
        ("x,x\n1,2\n", "the column 'x' is there twice"),
        ("x,z\n1,2\n", "target names the column 'y'"),
        ('x,y\n1,"2\n', "a quote is never closed"),
        ("x,y\n1,2\n1\n", "rows 1 to 2: cannot be parsed"),
        ("x,y\n1,two\n", "rows 1 to 1: cannot be parsed"),
        ("x,y\n1,2\n,4\n", r"rows 1 to 2: missing or infinite values in 'x' \(1 rows\)"),
    ],
)
def test_what_is_wrong_with_a_csv_file_is_said(tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_csv(path, "y").partitions()[0].load()


def test_compressed_csv_files_are_refused(tmp_path):
    (tmp_path / "rows.csv.gz").write_bytes(b"")
    with pytest.raises(BadFileError, match="is compressed"):
        read_csv(tmp_path / "rows.csv.gz", "y")


class Ranges(SimpleHTTPRequestHandler):
    """Files with ranges of bytes, as stores serve them."""

    def do_GET(self):
        if not os.path.isfile(self.translate_path(self.path)):
            self.send_error(404)
            return
        wanted = self.headers.get("Range")
        with open(self.translate_path(self.path), "rb") as file:
            content = file.read()
        first, last = 0, len(content) - 1
        if wanted:
            begin, _, end = wanted.removeprefix("bytes=").partition("-")
            first, last = int(begin), min(int(end or last), last)
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(last - first + 1))
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.end_headers()
        self.wfile.write(content[first : last + 1])

    def end_headers(self):
        self.send_header("Accept-Ranges", "bytes")
        super().end_headers()

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(folder):
    handler = partial(Ranges, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_files_behind_an_address_give_the_same_bits(server, expected):
    pytest.importorskip("aiohttp", reason="fsspec needs aiohttp to speak to servers")
    for read, name in ((read_parquet, "rows.parquet"), (read_csv, "rows.csv")):
        source = read(f"{server}/{name}", "y", features=FEATURES, rows_per_batch=IN_BATCH)
        model = SelfPacedRegressor(engine="inline").fit(source)
        assert model.coef_.tobytes() == expected.coef_.tobytes()
    with pytest.raises(FileNotFoundError, match=r"nothing\.parquet: nothing is there"):
        read_parquet(f"{server}/nothing.parquet", "y")
