"""Checkpoints: a killed fit goes on to the same bits; damage costs steps, never the fit."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import killed_fits
from easyfirst import SelfPacedRegressor, read_duckdb, read_parquet
from easyfirst.contracts import Batch
from easyfirst.engines import Inline, OutOfCore
from easyfirst.errors import CheckpointError
from easyfirst.estimators import checkpoints
from easyfirst.estimators.reply_codec import decode, encode
from easyfirst.local.steps import Statistics
from easyfirst.penalties import Ridge
from easyfirst.schedules import Geometric
from problems import corrupted_rows

SETTINGS = {"n_batches": 4, "engine": "inline"}


@pytest.fixture(scope="module")
def rows():
    return corrupted_rows(n=3200, p=3)


@pytest.fixture(scope="module")
def expected(rows):
    return SelfPacedRegressor(**SETTINGS).fit(rows.X, rows.y)


@pytest.fixture
def complete(rows, tmp_path):
    """The checkpoint of a whole fit."""
    folder = tmp_path / "complete"
    SelfPacedRegressor(**SETTINGS).fit(rows.X, rows.y, checkpoint=folder)
    return folder


class Counting:
    """An engine that counts the steps it really runs."""

    def __init__(self):
        self.steps = 0

    @contextmanager
    def open(self, partitions):
        with Inline().open(partitions) as workers:
            run = workers.map

            def counted(step, *arguments, **named):
                self.steps += step is not checkpoints.digest_of_rows
                return run(step, *arguments, **named)

            object.__setattr__(workers, "map", counted)
            yield workers


def same_bits(model, expected):
    return (
        model.coef_.tobytes() == expected.coef_.tobytes()
        and model.intercept_ == expected.intercept_
        and model.weights_.tobytes() == expected.weights_.tobytes()
        and model.noise_scale_ == expected.noise_scale_
        and model.coef_standard_errors_.tobytes() == expected.coef_standard_errors_.tobytes()
    )


def files_of(folder):
    return sorted(path.name for path in folder.iterdir())


def resumed(rows, folder, engine=None):
    engine = engine or Counting()
    settings = SETTINGS | {"engine": engine}
    model = SelfPacedRegressor(**settings).fit(rows.X, rows.y, checkpoint=folder, resume=True)
    return model, engine.steps


def test_a_checkpoint_changes_nothing_and_a_complete_one_needs_no_rows(rows, expected, complete):
    model, steps = resumed(rows, complete)
    assert same_bits(model, expected)
    assert steps == 0
    assert model.history_.rounds[-1].objective == expected.history_.rounds[-1].objective


def test_a_fit_goes_on_after_the_last_step_that_was_kept(rows, expected, complete):
    names = files_of(complete)
    for name in names[3:-1]:
        os.remove(complete / name)
    model, steps = resumed(rows, complete)
    assert same_bits(model, expected)
    assert steps == len(names) - 4
    assert files_of(complete) == names


@pytest.mark.parametrize("damage", ["flip", "tear", "empty", "other"])
@pytest.mark.parametrize("number", [0, 2, -2])
def test_damaged_files_cost_the_steps_from_them_on(
    rows, expected, complete, damage, number, caplog
):
    names = files_of(complete)
    path = complete / names[:-1][number]
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 8
    elif damage == "tear":
        content = content[: len(content) // 2]
    elif damage == "empty":
        content = b""
    else:
        content = (complete / names[-1]).read_bytes()
    path.write_bytes(bytes(content))
    model, steps = resumed(rows, complete)
    assert same_bits(model, expected)
    assert steps == len(names) - 1 - (number % (len(names) - 1))
    assert "is damaged" in caplog.text


def test_a_damaged_description_begins_anew(rows, expected, complete, caplog):
    path = complete / "fit.checkpoint"
    path.write_bytes(path.read_bytes()[:-3])
    model, steps = resumed(rows, complete)
    assert same_bits(model, expected)
    assert steps == len(files_of(complete)) - 1
    assert "begins anew" in caplog.text


def test_what_differs_is_named(rows, complete, monkeypatch):
    def go_on(X, y, **settings):
        SelfPacedRegressor(**(SETTINGS | settings)).fit(X, y, checkpoint=complete, resume=True)

    with pytest.raises(CheckpointError, match=r"parameter 'tol' was 1e-06, and is 0.001"):
        go_on(rows.X, rows.y, tol=1e-3)
    with pytest.raises(CheckpointError, match=r"parameter 'penalty' was None, and is Ridge"):
        go_on(rows.X, rows.y, penalty=Ridge(1.0))
    other = rows.X.copy()
    other[2500, 1] += 1e-12
    with pytest.raises(CheckpointError, match=r"data 'batch 3' was"):
        go_on(other, rows.y)
    monkeypatch.setattr("easyfirst.__version__", "99")
    with pytest.raises(CheckpointError, match=r"version 'easyfirst' was .*, and is 99"):
        go_on(rows.X, rows.y)


def test_a_checkpoint_is_not_overwritten_unasked(rows, complete, tmp_path):
    model = SelfPacedRegressor(**SETTINGS)
    with pytest.raises(FileExistsError, match="resume=True goes on"):
        model.fit(rows.X, rows.y, checkpoint=complete)
    model.fit(rows.X, rows.y, checkpoint=tmp_path / "new" / "one", resume=True)
    assert files_of(tmp_path / "new" / "one") == files_of(complete)
    with pytest.raises(ValueError, match="fits of one target"):
        model.fit(rows.X, np.column_stack([rows.y, rows.y]), checkpoint=tmp_path / "two")
    with pytest.raises(ValueError, match="random_state that is a whole number"):
        SelfPacedRegressor(random_state=np.random.RandomState(0)).fit(
            rows.X, rows.y, checkpoint=tmp_path / "three"
        )


def test_files_go_on_on_another_engine_and_changed_ones_are_refused(rows, tmp_path):
    table = pa.table({"a": rows.X[:, 0], "b": rows.X[:, 1], "y": rows.y})
    path = tmp_path / "rows.parquet"
    pq.write_table(table, path, row_group_size=800)
    source = read_parquet(path, "y", rows_per_batch=800)
    folder = tmp_path / "checkpoint"
    first = SelfPacedRegressor(engine="inline").fit(source, checkpoint=folder)
    for name in files_of(folder)[2:-1]:
        os.remove(folder / name)
    engine = OutOfCore("3GB", n_jobs=1)
    second = SelfPacedRegressor(engine=engine).fit(source, checkpoint=folder, resume=True)
    assert second.coef_.tobytes() == first.coef_.tobytes()
    assert second.reading_.passes > 0
    pq.write_table(table.slice(0, 2400), path, row_group_size=800)
    with pytest.raises(CheckpointError, match=r"data '.*rows\.parquet' was \d+ bytes"):
        SelfPacedRegressor().fit(
            read_parquet(path, "y", rows_per_batch=800), checkpoint=folder, resume=True
        )


def test_queries_are_known_by_their_rows(rows, tmp_path):
    table = pa.table({"a": rows.X[:, 0], "n": np.arange(len(rows.y)), "y": rows.y})
    pq.write_table(table, tmp_path / "rows.parquet")
    settings = {"features": ["a"], "rows_per_batch": 800}
    query = f"SELECT * FROM '{tmp_path}/rows.parquet' ORDER BY n"
    first, second = (
        SelfPacedRegressor(engine="inline").fit(
            read_duckdb(query, "y", **settings), checkpoint=tmp_path / "checkpoint", resume=True
        )
        for _ in range(2)
    )
    assert first.coef_.tobytes() == second.coef_.tobytes()


def test_schedules_with_transformed_targets_and_weights_go_on_too(rows, tmp_path):
    y = np.exp(0.1 * rows.y)
    weight = np.random.default_rng(0).random(len(y))
    for name, settings in {
        "paper": {"pace": Geometric(0.1, 2.0, 4.0), "solver": "admm", "max_iter": 50, "tol": 1e-2},
        "auto": {"target_transform": "auto"},
    }.items():
        model = SelfPacedRegressor(**SETTINGS, **settings)
        expected = model.fit(rows.X, y, weight).coef_.tobytes()
        folder = tmp_path / name
        assert model.fit(rows.X, y, weight, checkpoint=folder).coef_.tobytes() == expected
        for file in files_of(folder)[4:-1]:
            os.remove(folder / file)
        again = model.fit(rows.X, y, weight, checkpoint=folder, resume=True)
        assert again.coef_.tobytes() == expected


def test_replies_come_back_with_their_bits():
    rng = np.random.default_rng(0)
    matrix = np.asfortranarray(rng.normal(size=(3, 2)))
    statistics = Statistics(matrix, np.zeros(0), 0.1, np.float64("nan"), 1.0, np.inf, -0.0, 5)
    sample = Batch(sp.csr_array(np.eye(3)), np.ones(3), trusted=np.array([True, False, True]))
    extended = np.arange(3, dtype=np.longdouble) / 3
    value = [statistics, (None, "ü", True, [np.int64(3)]), sample, extended, np.zeros((0, 0))]
    found = decode(encode(value))
    assert found[0].gram.tobytes("A") == matrix.tobytes("A")
    assert found[0].gram.flags.f_contiguous
    assert np.isnan(found[0].pacing)
    assert isinstance(found[0].pacing, np.float64)
    assert str(found[0].changed) == "-0.0"
    assert found[1] == (None, "ü", True, [3])
    np.testing.assert_array_equal(found[2].X.toarray(), np.eye(3))
    assert found[3].tobytes() == extended.tobytes()
    assert found[4].shape == (0, 0)


@pytest.mark.parametrize(
    "text",
    [
        {"class": "os:system", "fields": {}},
        {"class": "easyfirst.local.steps:np.load", "fields": {}},
        {"class": "easyfirst.local.steps:form", "fields": {}},
        {"class": "easyfirst.cli.main:main", "fields": {}},
        {"array": "O", "shape": [1], "order": "C"},
        {"array": "<f8", "shape": [9], "order": "C"},
        {"nothing": 1},
    ],
)
def test_other_code_is_never_reached(text):
    stored = encode([])
    import zlib

    stored["text"] = np.frombuffer(zlib.compress(json.dumps(text).encode()), np.uint8)
    with pytest.raises(ValueError, match=r"not what a worker|not permitted|numbers are missing"):
        decode(stored)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills are those of POSIX systems")
@pytest.mark.parametrize("engine", killed_fits.ENGINES)
@pytest.mark.parametrize("kills", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_fits_killed_at_random_moments_end_with_the_same_bits(tmp_path, kills, engine):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", killed_fits.__file__, tmp_path, str(kills), "0", engine],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] >= kills
    assert found["other_bits"] == found["left_behind"] == 0
