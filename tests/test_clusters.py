"""Dask clusters, and what all clusters share: the same bits, dead workers survived."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from sklearn.base import clone

import easyfirst
from clusters import (
    N_BATCHES,
    PATIENCE,
    consensus_fit,
    dask_worker_pids,
    default_fit,
    digest,
    kill_repeatedly,
    local_dask,
    long_problem,
    long_settings,
    require,
    sixteen_batches,
    wait_until,
)
from easyfirst import SelfPacedRegressor
from easyfirst.baselines import DRLR, SPL
from easyfirst.contracts import HeldPartition
from easyfirst.engines import Inline, Threads
from easyfirst.engines.dask import DaskEngine
from easyfirst.errors import EngineLostError
from easyfirst.losses import Logistic, Squared
from easyfirst.schedules import Geometric, Quantile
from easyfirst.sources import ArraySource
from problems import corrupted_rows

da = require("dask.array")
dd = require("dask.dataframe")
distributed = require("distributed")
pd = require("pandas")

pytestmark = pytest.mark.cluster

FEATURES = [f"x{j}" for j in range(20)]


@pytest.fixture(scope="module")
def client():
    with local_dask(2) as client:
        yield client


@pytest.fixture(scope="module")
def rows():
    return corrupted_rows(n=N_BATCHES * 1500, p=20)


@pytest.fixture(scope="module")
def reference():
    return sixteen_batches(Inline())


@pytest.fixture(scope="module")
def frame(rows):
    table = pd.DataFrame(rows.X, columns=FEATURES)
    return table.assign(price=rows.y, name=[f"row {i}" for i in range(len(table))])


@pytest.fixture(scope="module")
def cut(frame):
    """The frame as 16 partitions."""
    return dd.from_pandas(frame, npartitions=N_BATCHES, sort=False)


@pytest.mark.parametrize("engine", ["inline", Threads(1), Threads(2), Threads(4)], ids=str)
def test_engines_in_this_process_give_one_digest(reference, engine):
    assert digest(sixteen_batches(engine)) == digest(reference)


@pytest.mark.parametrize(("n_workers", "threads"), [(1, 1), (2, 2)], ids=["1x1", "2x2"])
def test_every_dask_cluster_gives_the_same_digest(reference, n_workers, threads):
    with local_dask(n_workers, threads) as client:
        assert digest(sixteen_batches(client)) == digest(reference)


@pytest.mark.parametrize(
    "settings",
    [{}, {"solver": "admm", "weights_from": "batch"}, {"penalty": easyfirst.penalties.Ridge(5.0)}],
    ids=["gram", "admm", "ridge"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_two_dask_workers_give_the_digest_of_one_process(client, settings):
    short = {**settings, "max_rounds": 8, "max_iter": 100}
    there = sixteen_batches(DaskEngine(client), **short)
    here = sixteen_batches("inline", **short)
    assert digest(there) == digest(here)
    assert isinstance(there.coef_, np.ndarray)
    assert there.predict(np.zeros((3, 20))).shape == (3,)


def test_a_thousand_batches_give_the_same_bits_with_as_few_messages(client, monkeypatch):
    # As if they were too many rows for the driver to take them.
    monkeypatch.setattr("easyfirst.consensus.solvers.gathered.MOST_ENTRIES", 0)
    rows, pace = corrupted_rows(n=20_000, p=5), Geometric(start=0.5, factor=3.0, ceiling=4.0)
    here, there = (
        SelfPacedRegressor(n_batches=1000, pace=pace, engine=engine).fit(rows.X, rows.y)
        for engine in ("inline", client)
    )
    assert digest(there) == digest(here)
    # One step in a round, one message to each of two workers and one back.
    assert {record.messages for record in there.history_.rounds[1:]} == {4}


def test_the_rounds_of_few_rows_send_no_message(client):
    rows, pace = corrupted_rows(n=2000, p=5), Geometric(start=0.5, factor=3.0, ceiling=4.0)
    here, there = (
        SelfPacedRegressor(n_batches=10, pace=pace, engine=engine).fit(rows.X, rows.y)
        for engine in ("inline", client)
    )
    assert digest(there) == digest(here)
    assert {record.messages for record in there.history_.rounds[1:]} == {0}


@pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=repr)
def test_consensus_on_the_workers_has_the_bits_of_one_process_whoever_dies(loss):
    expected = digest(consensus_fit("inline", loss))
    with local_dask(2) as client:
        assert digest(consensus_fit(client, loss)) == expected
        with killing_dask(client, seed=0, every=1) as killer:
            assert digest(consensus_fit(client, loss, callbacks=[killer])) == expected
        assert killer.kills >= 1


def test_what_a_consensus_iteration_sends_grows_with_the_columns_not_with_their_squares(client):
    def bytes_per_iteration(p):
        last = consensus_fit(client, p=p).history_.rounds[-1]
        return (last.bytes_sent + last.bytes_received) / last.iterations

    assert bytes_per_iteration(200) < 2.5 * bytes_per_iteration(100)


def killing_dask(client, seed, every):
    def up():
        return dask_worker_pids(client)

    return kill_repeatedly(up, 2.0, np.random.default_rng(seed), alive=up, every=every)


@pytest.mark.parametrize("pace", [None, Quantile(0.5, 0.7)], ids=repr)
def test_several_targets_have_the_bits_of_one_process(client, pace):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    y = X @ rng.normal(size=(4, 3)) + 0.1 * rng.normal(size=(900, 3))
    y[:200] += rng.uniform(3, 9, size=(200, 3))
    fits = [
        SelfPacedRegressor(pace=pace, n_batches=3, engine=engine).fit(X, np.asfortranarray(y))
        for engine in ("inline", client)
    ]
    np.testing.assert_array_equal(fits[1].coef_, fits[0].coef_)
    np.testing.assert_array_equal(fits[1].weights_, fits[0].weights_)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_workers_killed_again_and_again_change_no_bit_and_stop_no_fit():
    rows, settings = long_problem(), long_settings()
    expected = digest(sixteen_batches("threads", rows, **settings))
    with local_dask(2) as client:
        engine = DaskEngine(client)
        assert digest(sixteen_batches(engine, rows, **settings)) == expected
        for seed in range(2):
            with killing_dask(client, seed, every=10) as killer:
                survived = sixteen_batches(engine, rows, callbacks=[killer], **settings)
            assert digest(survived) == expected
            assert killer.kills >= 5


def test_the_default_fit_has_the_same_bits_on_dask_also_while_workers_die():
    expected = digest(default_fit("inline"))
    with local_dask(2) as client:
        assert digest(default_fit(client)) == expected
        with killing_dask(client, 0, every=3) as killer:
            survived = default_fit(client, callbacks=[killer])
    assert digest(survived) == expected
    assert killer.kills >= 2


def test_batches_of_a_dead_worker_are_shared_out_and_come_back(client):
    y = np.arange(32.0)
    partitions = ArraySource(y[:, None], y, n_batches=8).partitions()

    def where(resident, message, broadcast):
        return os.getpid()

    with DaskEngine(client).open(partitions) as workers:
        before = workers.map(where, None, None)
        assert len(set(before)) == 2
        assert [before.count(pid) for pid in set(before)] == [4, 4]
        os.kill(before[0], signal.SIGKILL)
        assert before[0] not in workers.map(where, None, None)
        client.wait_for_workers(2, timeout=PATIENCE)
        wait_until(lambda: len(set(workers.map(where, None, None))) == 2)
        after = workers.map(where, None, None)
        assert [after.count(pid) for pid in set(after)] == [4, 4]


def test_a_batch_that_kills_every_worker_ends_in_an_error_that_says_so(client, monkeypatch):
    monkeypatch.setattr("easyfirst.engines.dask.workers.MOST_DEATHS", 0)
    partitions = ArraySource(np.ones((2, 1)), np.ones(2), n_batches=2).partitions()

    def die(resident, message, broadcast):
        os.kill(os.getpid(), signal.SIGKILL)

    with (
        DaskEngine(client).open(partitions) as workers,
        pytest.raises(EngineLostError, match=r"died .* over batches .* smaller batches"),
    ):
        workers.map(die, None, None)
    client.wait_for_workers(2, timeout=PATIENCE)


SCHEDULER = """
import asyncio, distributed

async def main():
    address = "tcp://127.0.0.1:0"
    async with distributed.Scheduler(host="127.0.0.1", port=0, dashboard=False,
                                     dashboard_address="127.0.0.1:0") as scheduler:
        async with distributed.Worker(scheduler.address, nthreads=1, host="127.0.0.1"):
            print(scheduler.address, flush=True)
            await scheduler.finished()

asyncio.run(main())
"""


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_lost_scheduler_is_one_clear_error_that_names_the_round():
    process = subprocess.Popen(
        [sys.executable, "-c", SCHEDULER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        address = process.stdout.readline().decode().strip()
        with distributed.Client(address, timeout=PATIENCE, set_as_default=False) as client:

            class KillTheScheduler:
                def on_round_end(self, record):
                    if record.round == 3:
                        process.kill()

            with pytest.raises(EngineLostError, match=r"Dask.*lost after round \d+ .*fit again"):
                sixteen_batches(
                    DaskEngine(client, patience=10),
                    callbacks=[KillTheScheduler()],
                    **long_settings(),
                )
    finally:
        process.kill()
        process.communicate()


def test_a_cluster_without_workers_is_an_error_after_the_time_given():
    with (
        local_dask(0) as client,
        pytest.raises(EngineLostError, match=r"no worker for 0.5 seconds"),
    ):
        sixteen_batches(DaskEngine(client, patience=0.5))


def test_an_error_in_a_step_reaches_the_caller_as_it_was(client):
    def step(resident, message, broadcast):
        raise ArithmeticError(f"batch of {resident.batch.y[0]:g}")

    y = np.arange(4.0)
    partitions = ArraySource(y[:, None], y, n_batches=4).partitions()
    with (
        DaskEngine(client).open(partitions) as workers,
        pytest.raises(ArithmeticError, match=r"^batch of 0$"),
    ):
        workers.map(step, None, None)


def test_a_step_is_one_message_to_each_worker_and_one_back(client, rows):
    def first_target(resident, message, broadcast):
        return float(resident.batch.y[0])

    partitions = ArraySource(rows.X, rows.y, n_batches=N_BATCHES).partitions()
    with DaskEngine(client).open(partitions) as workers:
        workers.map(first_target, None, None)
        before = workers.ledger.messages, workers.ledger.bytes_sent, workers.ledger.bytes_received
        assert workers.map(first_target, None, None) == rows.y[::1500].tolist()
        assert workers.ledger.messages - before[0] == 4
        # Neither rows nor anything like them: their bytes would be 240,000 per batch.
        assert 0 < workers.ledger.bytes_sent - before[1] < 10_000
        assert 0 < workers.ledger.bytes_received - before[2] < 10_000
        assert all(seconds > 0 for seconds in workers.ledger.seconds)


def test_the_history_says_what_was_sent_and_how_long_each_batch_took(client):
    model = sixteen_batches(client)
    last = model.history_.rounds[-1]
    assert last.messages >= 4
    assert last.bytes_received > 1000
    assert len(last.batch_seconds) == N_BATCHES
    assert min(last.batch_seconds) > 0
    assert len(last.batch_selected_share) == N_BATCHES


def test_workers_forget_a_fit_that_has_ended(client):
    before = set(client.futures)  # a failed fit may live on in its traceback
    sixteen_batches(client)

    def remembered():
        from easyfirst.engines import residency

        return len(residency._memories)

    wait_until(lambda: not any(client.run(remembered).values()))
    assert set(client.futures) <= before


def test_two_fits_can_share_a_cluster(client, reference):
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(digest(sixteen_batches(client))))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [digest(reference)] * 2


def test_dask_arrays_go_straight_in_and_chunks_become_batches(client, rows, reference):
    X = da.from_array(rows.X, chunks=(1500, 7))
    y = da.from_array(rows.y, chunks=4000)
    model = SelfPacedRegressor(engine=client).fit(X, y)
    assert model.coef_.tobytes() == reference.coef_.tobytes()
    assert len(model.batch_clean_share_) == N_BATCHES
    assert not hasattr(model, "feature_names_in_")
    predicted = model.predict(X)
    assert isinstance(predicted, da.Array)
    np.testing.assert_allclose(predicted.compute(), reference.predict(rows.X), rtol=1e-12)


def test_without_a_cluster_dask_arrays_are_read_chunk_by_chunk_here(rows, reference):
    X, y = da.from_array(rows.X, chunks=(1500, 20)), da.from_array(rows.y, chunks=1500)
    model = SelfPacedRegressor(engine="threads").fit(X, y)
    assert model.coef_.tobytes() == reference.coef_.tobytes()


def test_dask_frames_keep_their_names_and_give_the_same_bits(client, frame, cut, reference):
    source = easyfirst.read_frame(cut, target="price", row_id="name")
    model = SelfPacedRegressor().fit(source)
    assert model.coef_.tobytes() == reference.coef_.tobytes()
    assert model.feature_names_in_.tolist() == FEATURES
    assert model.history_.rounds[-1].messages > 0  # "auto" took the connected client
    predicted = model.predict(cut)
    assert isinstance(predicted, dd.Series)
    expected = model.predict(frame[FEATURES])
    np.testing.assert_allclose(predicted.compute().to_numpy(), expected, rtol=1e-12)


def test_a_dask_frame_with_its_own_target_column_works_as_x_and_y(client, cut, reference):
    model = SelfPacedRegressor(engine=client).fit(cut[FEATURES], cut["price"])
    assert model.coef_.tobytes() == reference.coef_.tobytes()
    assert model.feature_names_in_.tolist() == FEATURES


def test_weights_stay_on_the_cluster_and_can_be_streamed(client, cut, reference):
    source = easyfirst.read_frame(cut, target="price", row_id="name")
    model = SelfPacedRegressor(engine=client).fit(source)
    with pytest.raises(AttributeError, match=r"weights_by_batch.*write_weights"):
        _ = model.weights_
    assert not hasattr(model, "selected_")
    batches = list(model.weights_by_batch(source))
    assert len(batches) == N_BATCHES
    weights = np.concatenate([batch.weights for batch in batches])
    assert weights.tobytes() == reference.weights_.tobytes()
    assert batches[1].row_ids[:2].tolist() == ["row 1500", "row 1501"]


def test_weights_are_written_where_the_rows_are(client, cut, rows, reference, tmp_path):
    source = easyfirst.read_frame(cut, target="price", row_id="name")
    model = SelfPacedRegressor(engine=client).fit(source)
    paths = model.write_weights(source, folder=tmp_path / "weights")
    table = pd.concat([pd.read_parquet(path) for path in paths], ignore_index=True)
    assert table["row_id"].tolist() == [f"row {i}" for i in range(len(rows.y))]
    assert table["weight"].to_numpy().tobytes() == reference.weights_.tobytes()
    np.testing.assert_allclose(table["given_label"], rows.y)
    residual = (rows.y - table["predicted_label"]) / model.noise_scale_
    np.testing.assert_allclose(table["residual"], residual, rtol=1e-6, atol=1e-9)
    with pytest.raises(FileExistsError, match="not empty"):
        model.write_weights(source, folder=tmp_path / "weights")


def test_a_model_of_a_cluster_lists_the_suspects_that_one_in_memory_lists(
    client, cut, rows, reference
):
    source = easyfirst.read_frame(cut, target="price", features=FEATURES, row_id="name")
    model = SelfPacedRegressor(engine=client).fit(source)
    expected = reference.suspects(rows.X, rows.y, row_ids=[f"row {i}" for i in range(len(rows.y))])
    for found in (model.suspects(source), easyfirst.suspects(model, source)):
        assert found["row_id"].tolist() == expected["row_id"].tolist()
        assert list(found.columns) == list(expected.columns)
        assert found["weight"].to_numpy().tobytes() == expected["weight"].to_numpy().tobytes()
        np.testing.assert_allclose(found["residual"], expected["residual"], rtol=1e-9)


def test_fractional_weights_mean_the_same_on_a_cluster(client, rows, frame):
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(frame))
    weighed = dd.from_pandas(frame.assign(w=weight), npartitions=N_BATCHES, sort=False)
    source = easyfirst.read_frame(
        weighed, target="price", features=FEATURES, sample_weight="w", row_id="name"
    )
    here = SelfPacedRegressor(n_batches=N_BATCHES).fit(rows.X, rows.y, sample_weight=weight)
    there = SelfPacedRegressor(engine=client).fit(source)
    assert there.coef_.tobytes() == here.coef_.tobytes()


def test_empty_partitions_change_nothing(client, cut, reference):
    with_empty = dd.concat([cut, cut[cut["x0"] > 1e9]])
    source = easyfirst.read_frame(with_empty, target="price", features=FEATURES)
    model = SelfPacedRegressor(engine=client).fit(source)
    np.testing.assert_allclose(model.coef_, reference.coef_, rtol=1e-12)
    assert model.batch_clean_share_[N_BATCHES:].tolist() == [0.0] * N_BATCHES


def test_a_bad_value_is_one_error_that_names_partition_and_column(client, frame):
    broken = frame.assign(x3=frame["x3"].where(frame.index != 7000))
    source = easyfirst.read_frame(
        dd.from_pandas(broken, npartitions=N_BATCHES, sort=False), target="price", row_id="name"
    )
    with pytest.raises(ValueError, match=r"^partition 4 .*missing or infinite.*'x3' \(1 rows\)"):
        SelfPacedRegressor(engine=client).fit(source)


def test_text_among_the_features_is_refused_by_name(client, cut):
    source = easyfirst.read_frame(cut, target="price")
    with pytest.raises(ValueError, match=r"partition 0 .* column 'name' holds String"):
        SelfPacedRegressor(engine=client).fit(source)


def test_no_rows_at_all_are_refused(client, cut):
    source = easyfirst.read_frame(cut[cut["x0"] > 1e9], target="price", features=FEATURES)
    with pytest.raises(ValueError, match="none of the 16 batches holds a row"):
        SelfPacedRegressor(engine=client).fit(source)


def test_chunks_that_do_not_match_are_refused(client, rows):
    X, y = da.from_array(rows.X, chunks=(1500, 20)), da.from_array(rows.y, chunks=1500)
    with pytest.raises(ValueError, match="X has 24000 rows and y has 23999"):
        SelfPacedRegressor(engine=client).fit(X, y[:-1])
    with pytest.raises(ValueError, match="y is missing"):
        SelfPacedRegressor(engine=client).fit(X)
    with pytest.raises(ValueError, match="n_batches=3 is for rows in memory"):
        SelfPacedRegressor(engine=client, n_batches=3).fit(X, y)
    unknown = X[X[:, 0] > 0]
    with pytest.raises(ValueError, match=r"chunk \d+ .* X has \d+ rows and y has 1500"):
        SelfPacedRegressor(engine=client).fit(unknown, y)


@pytest.mark.parametrize("method", [DRLR(), SPL(start=1.0, ceiling=4.0)], ids=repr)
def test_baselines_fit_their_batches_on_a_cluster_too(client, rows, method):
    batches = np.arange(len(rows.y)) // 3000
    here = clone(method).fit(rows.X, rows.y, batches=batches)
    there = clone(method).set_params(engine=client).fit(rows.X, rows.y, batches=batches)
    assert there.coef_.tobytes() == here.coef_.tobytes()
    assert there.selected_.tobytes() == here.selected_.tobytes()
    assert clone(there).engine is client


def test_arrays_stay_in_this_process_unless_a_cluster_is_asked_for(client, rows):
    model = SelfPacedRegressor(max_rounds=100).fit(rows.X[:500], rows.y[:500])
    assert model.history_.rounds[-1].messages == 0


def test_clones_share_the_connection(client):
    model = SelfPacedRegressor(engine=client)
    assert clone(model).engine is client
    engine = DaskEngine(client)
    assert clone(SelfPacedRegressor(engine=engine)).engine is engine


def test_what_is_no_client_is_refused(client):
    with pytest.raises(TypeError, match=r"client must be .* got 'tcp://127.0.0.1:1'"):
        DaskEngine("tcp://127.0.0.1:1")
    with pytest.raises(ValueError, match=r"patience must be .* got 0"):
        DaskEngine(client, patience=0)


def test_a_held_block_that_no_engine_knows_is_read_as_it_is():
    batch = ArraySource(np.ones((2, 1)), np.ones(2)).partitions()[0].load()
    assert HeldPartition(batch, lambda block: block).load() is batch


def test_local_clusters_listen_on_loopback_only(client):
    psutil = pytest.importorskip("psutil", reason="psutil, which comes with distributed")
    here = psutil.Process()
    for process in [here, *here.children(recursive=True)]:
        for connection in process.net_connections():
            if connection.status == psutil.CONN_LISTEN:
                assert connection.laddr.ip in ("127.0.0.1", "::1"), connection


def test_a_missing_extra_gives_the_install_line():
    program = (
        "import sys\n"
        "sys.modules['distributed'] = None\n"
        "from easyfirst import SelfPacedRegressor\n"
        "SelfPacedRegressor(engine='dask').fit([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "needs the 'dask' extra: pip install 'easyfirst[dask]'" in done.stderr
