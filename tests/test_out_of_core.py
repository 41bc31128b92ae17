"""Rows that do not fit into memory: same bits, bounded memory, nothing left on the disk."""

import gc
import os
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from easyfirst import SelfPacedClassifier, SelfPacedRegressor, read_parquet
from easyfirst.contracts import Batch
from easyfirst.engines import Inline, OutOfCore, Threads, memory, out_of_core
from easyfirst.engines.block_cache import BlockCache
from easyfirst.errors import ManyPassesWarning
from easyfirst.estimators import clusters
from easyfirst.losses import PoissonDeviance
from easyfirst.schedules import Geometric
from problems import corrupted_rows

N_BATCHES, IN_BATCH, P = 12, 800, 4
N = N_BATCHES * IN_BATCH


@pytest.fixture(scope="module")
def rows():
    return corrupted_rows(n=N, p=P)


@pytest.fixture(scope="module")
def folder(rows, tmp_path_factory):
    """Two files, twelve row groups."""
    where = tmp_path_factory.mktemp("rows")
    columns = {f"x{j}": rows.X[:, j] for j in range(P)}
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            **columns,
            "y": rows.y,
            "name": [f"row {i}" for i in range(N)],
            "weight": rng.integers(0, 3, N).astype(float),
        }
    )
    for k in range(2):
        part = table.slice(k * N // 2, N // 2)
        pq.write_table(
            part, where / f"{k}.parquet", row_group_size=IN_BATCH, write_page_checksum=True
        )
    return where


@pytest.fixture
def source(folder):
    features = [f"x{j}" for j in range(P)]
    return read_parquet(folder, "y", features=features, row_id="name", rows_per_batch=IN_BATCH)


@pytest.fixture
def room(monkeypatch):
    """Return a function that leaves this many batches' sizes of room beside the process."""

    def leave(sizes):
        monkeypatch.setattr(out_of_core, "resident_bytes", lambda: 0)
        return int(sizes * IN_BATCH * 8 * (P + 2))

    return leave


@pytest.fixture(scope="module")
def reference(rows):
    return SelfPacedRegressor(n_batches=N_BATCHES, engine=Inline()).fit(rows.X, rows.y)


def same_bits(model, reference):
    return (
        model.coef_.tobytes() == reference.coef_.tobytes()
        and model.intercept_ == reference.intercept_
        and model.noise_scale_ == reference.noise_scale_
    )


@pytest.mark.parametrize(
    ("sizes", "cache_limit", "n_jobs"),
    [
        (6.0, 0, 1),
        (6.0, "100kB", 2),
        (6.0, None, 1),
        (20.0, 0, 2),
        (20.0, None, 2),
        (1000.0, None, 2),
    ],
)
def test_whatever_fits_the_bits_are_those_of_inline(
    source, reference, room, tmp_path, sizes, cache_limit, n_jobs
):
    engine = OutOfCore(room(sizes), tmp_path, cache_limit, n_jobs)
    model = SelfPacedRegressor(engine=engine).fit(source)
    assert same_bits(model, reference)
    found = model.reading_
    assert found.batches == N_BATCHES
    assert found.passes > 2
    if sizes == 1000.0:
        assert found.batches_kept == N_BATCHES
        assert found.bytes_from_source == found.bytes_in_all
    else:
        assert found.batches_kept < N_BATCHES
        assert found.bytes_from_source + found.bytes_from_cache > 2 * found.bytes_in_all
    if cache_limit is None and sizes == 6.0:
        assert found.bytes_from_source == found.bytes_in_all
    assert os.listdir(tmp_path) == []


def test_weights_are_those_of_inline_row_for_row(source, reference, room):
    engine = OutOfCore(room(10.0))
    model = SelfPacedRegressor(engine=engine).fit(source)
    parts = list(model.weights_by_batch(source))
    assert np.concatenate([part.weights for part in parts]).tobytes() == (
        reference.weights_.tobytes()
    )
    assert parts[1].row_ids[0] == f"row {IN_BATCH}"


def test_arrays_are_held_already_and_cost_nothing(rows, reference):
    model = SelfPacedRegressor(n_batches=N_BATCHES, engine=OutOfCore(1)).fit(rows.X, rows.y)
    assert same_bits(model, reference)
    assert model.weights_.tobytes() == reference.weights_.tobytes()
    assert model.reading_.bytes_from_source == 0


def test_sample_weights_and_transformed_targets_too(folder, room):
    source = read_parquet(
        folder, "y", features=["x0", "x1"], sample_weight="weight", rows_per_batch=IN_BATCH
    )
    ours, theirs = (
        SelfPacedRegressor(engine=engine).fit(source)
        for engine in (OutOfCore(room(6.0)), Threads(1))
    )
    assert same_bits(ours, theirs)
    assert not hasattr(theirs, "reading_")


def test_schedules_and_solvers_give_the_same_bits_after_a_warning(source, room):
    settings = {
        "pace": Geometric(start=0.2, factor=2.0, ceiling=4.0),
        "solver": "admm",
        "max_iter": 60,
        "max_rounds": 9,
        "tol": 1e-2,
    }
    with pytest.warns(ManyPassesWarning, match="up to 9 rounds: use pace=None"):
        ours = SelfPacedRegressor(engine=OutOfCore(room(6.0)), **settings).fit(source)
    theirs = SelfPacedRegressor(engine="inline", **settings).fit(source)
    assert ours.coef_.tobytes() == theirs.coef_.tobytes()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_labels_give_the_same_bits(rows, tmp_path, room):
    table = {f"x{j}": rows.X[:, j] for j in range(P)} | {"y": (rows.y > 0).astype(int)}
    pq.write_table(pa.table(table), tmp_path / "labels.parquet", row_group_size=IN_BATCH)
    source = read_parquet(tmp_path, "y", rows_per_batch=IN_BATCH)
    settings = {"max_rounds": 1, "max_iter": 3}
    with pytest.warns(ManyPassesWarning, match="as classes need it: give the engine a larger"):
        ours = SelfPacedClassifier.paper(engine=OutOfCore(room(6.0)), **settings).fit(source)
    theirs = SelfPacedClassifier.paper(engine="inline", **settings).fit(source)
    assert ours.coef_.tobytes() == theirs.coef_.tobytes()


@pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")
def test_counts_are_read_many_times_and_a_warning_says_so(rows, tmp_path, room):
    counts = np.random.default_rng(0).poisson(np.exp(0.3 * rows.X[:, 0])).astype(float)
    table = {f"x{j}": rows.X[:, j] for j in range(P)} | {"y": counts}
    pq.write_table(pa.table(table), tmp_path / "counts.parquet", row_group_size=IN_BATCH)
    source = read_parquet(tmp_path, "y", rows_per_batch=IN_BATCH)
    with pytest.warns(ManyPassesWarning, match=r"as PoissonDeviance\(\) needs it: give the engine"):
        SelfPacedRegressor(loss=PoissonDeviance(), engine=OutOfCore(room(6.0))).fit(source)


def test_a_limit_without_room_for_a_batch_is_refused_with_the_one_that_has(source, room):
    with pytest.raises(MemoryError, match=r"batch 0 takes .*set it to \d.* or more, or make") as no:
        SelfPacedRegressor(engine=OutOfCore(room(2.0))).fit(source)
    assert "rows_per_batch" in str(no.value)


def test_errors_of_a_batch_reach_the_user_and_leave_nothing(source, folder, room, tmp_path):
    path = sorted(folder.iterdir())[1]
    content = path.read_bytes()
    try:
        path.write_bytes(content[: len(content) // 2])
        with pytest.raises(ValueError, match=r"1\.parquet, row group 0: cannot be read"):
            SelfPacedRegressor(engine=OutOfCore(room(6.0), tmp_path)).fit(source)
    finally:
        path.write_bytes(content)
    assert os.listdir(tmp_path) == []


def test_a_full_disk_costs_time_only(source, reference, room, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(BlockCache, "_write", full)
    model = SelfPacedRegressor(engine=OutOfCore(room(6.0))).fit(source)
    assert same_bits(model, reference)
    assert model.reading_.bytes_from_cache == 0
    assert "No space left on device" in caplog.text


def test_the_cache_returns_what_it_was_given(tmp_path):
    rng = np.random.default_rng(0)
    ids = np.array(["a", "ü", ""], dtype=object)
    batches = [
        Batch(rng.normal(size=(3, 2)), rng.normal(size=3), rng.random(3), ids),
        Batch(rng.normal(size=(3, 2)).astype(np.float32), np.ones(3), row_ids=np.arange(3)),
        Batch(sp.csr_array(np.eye(3, 5)), np.ones(3), trusted=np.array([True, False, True])),
    ]
    cache = BlockCache(tmp_path, None)
    assert all(cache.store(number, batch) for number, batch in enumerate(batches))
    assert cache.load(7) is None
    for number, batch in enumerate(batches):
        found = cache.load(number)
        dense = [b.X.toarray() if sp.issparse(b.X) else b.X for b in (found, batch)]
        assert dense[0].dtype == dense[1].dtype
        np.testing.assert_array_equal(*dense)
        for name in ("y", "sample_weight", "row_ids", "trusted"):
            ours, theirs = getattr(found, name), getattr(batch, name)
            assert (ours is None) == (theirs is None)
            if ours is not None:
                assert ours.dtype == theirs.dtype
                np.testing.assert_array_equal(ours, theirs)
    assert os.listdir(tmp_path) == []
    cache.close()


def test_what_the_cache_cannot_hold_it_leaves(tmp_path):
    numbers = np.array([1, "b"], dtype=object)
    cache = BlockCache(tmp_path, 200)
    assert not cache.store(0, Batch(np.ones((2, 1)), np.ones(2), row_ids=numbers))
    assert not cache.store(0, Batch(np.ones((50, 1)), np.ones(50)))
    assert cache.store(0, Batch(np.ones((2, 1)), np.ones(2)))
    assert cache.store(0, Batch(np.ones((2, 1)), np.ones(2)))
    assert not cache.store(1, Batch(np.ones((2, 1)), np.ones(2)))
    cache.close()


@pytest.mark.parametrize("given", ["many", "1XB", -1, True, "", "1 GB 2", None.__class__])
def test_sizes_that_mean_nothing_are_refused(given):
    with pytest.raises(ValueError, match="memory_limit must be a size such as '1GB'"):
        OutOfCore(given)
    with pytest.raises(ValueError, match="n_jobs must be"):
        OutOfCore("1GB", n_jobs=0)


def test_files_larger_than_memory_are_not_loaded_as_a_whole(source, monkeypatch):
    assert isinstance(clusters.find_engine("auto", None, source), Threads)
    monkeypatch.setattr(clusters, "available_bytes", lambda: 2 * source.n_bytes - 1)
    assert isinstance(clusters.find_engine("auto", 2, source), OutOfCore)
    assert clusters.find_engine("out-of-core", 2, source) == OutOfCore(n_jobs=2)


def test_memory_is_asked_of_the_system():
    assert 10**6 < memory.resident_bytes() < 10**12
    free = memory.available_bytes()
    assert free is None or free > 0
    assert OutOfCore().limit > 10**6


FIT = """
    import resource, sys
    import numpy as np
    import easyfirst
    from easyfirst.engines import OutOfCore
    folder, cache, limit, hard = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    rows = easyfirst.read_parquet(folder, "y", rows_per_batch=16384)
    model = easyfirst.SelfPacedRegressor(engine=OutOfCore(limit, cache)).fit(rows)
    print(model.reading_, file=sys.stderr)
    # What getrusage says would include the process that started this one.
    status = open("/proc/self/status").read()
    print(int(status.partition("VmHWM:")[2].split()[0]) * 1024)
    print(model.coef_.tobytes().hex())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits on memory are those of Linux")
def test_300_mb_of_parquet_are_fitted_within_a_hard_limit(tmp_path):
    n, p = 750_000, 50
    rows = corrupted_rows(n=n, p=p)
    data = tmp_path / "data"
    data.mkdir()
    table = pa.table({f"x{j}": rows.X[:, j] for j in range(p)} | {"y": rows.y})
    pq.write_table(table, data / "rows.parquet", row_group_size=16384)
    assert sum(file.stat().st_size for file in data.iterdir()) > 290e6
    source = read_parquet(data, "y", rows_per_batch=16384)
    expected = SelfPacedRegressor(engine="inline").fit(source)
    del rows, table
    gc.collect()
    limit = 400_000_000
    # Arrow's own allocator and BLAS reserve addresses that they never use: the hard limit on
    # addresses is wider than the one on memory, which is measured.
    environment = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}
    cache = tmp_path / "cache"
    cache.mkdir()
    arguments = [str(data), str(cache), str(limit), str(3 * limit)]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(FIT), *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment | {"OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"},
    )
    assert done.returncode == 0, done.stderr
    peak, coef = done.stdout.split()
    assert int(peak) < limit
    assert coef == expected.coef_.tobytes().hex()
    assert os.listdir(cache) == []
