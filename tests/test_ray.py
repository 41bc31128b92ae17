"""Ray, a real one on this machine: the same bits, dead workers survived, a dead head reported."""

import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from clusters import (
    PATIENCE,
    consensus_fit,
    default_fit,
    digest,
    kill_repeatedly,
    long_problem,
    long_settings,
    sixteen_batches,
    wait_until,
)
from easyfirst import SelfPacedRegressor, read_frame, read_parquet
from easyfirst.contracts import Batch
from easyfirst.engines.ray import RayEngine
from easyfirst.errors import EngineLostError
from easyfirst.losses import Logistic, Squared
from easyfirst.sources import ArraySource
from problems import corrupted_rows
from ray_cluster import at_work, local_ray, named, ray, started_workers

pytestmark = [
    pytest.mark.cluster,
    # What Ray Data says about defaults of its own.
    pytest.mark.filterwarnings(
        "ignore:`use_push_based_shuffle` is deprecated",
        "ignore:`use_polars` is deprecated",
        "ignore:`use_arrow_tensor_v2` is deprecated",
    ),
]

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def two_cpus():
    # Workers cannot import a test module, so its functions travel as they are.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with local_ray(2):
        yield


@pytest.fixture(scope="module")
def inline():
    return digest(sixteen_batches("inline"))


def run_alone(code, **variables):
    """Run code in a process of its own, which may have a Ray of its own."""
    path = os.pathsep.join([str(HERE), str(HERE.parent / "src")])
    script = f"import sys\nsys.path[:0] = {path.split(os.pathsep)!r}\n{code}"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"} | variables,
    )


def test_one_cpu_gives_the_same_bits(inline):
    done = run_alone(
        "from ray_cluster import local_ray\n"
        "from clusters import digest, sixteen_batches\n"
        "with local_ray(1):\n"
        "    print(digest(sixteen_batches('ray')))\n"
    )
    assert done.stdout.split() == [inline], done.stderr


def test_two_cpus_give_the_same_bits(two_cpus, inline):
    assert digest(sixteen_batches(RayEngine())) == inline


@pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=repr)
def test_consensus_on_the_workers_gives_the_same_bits(two_cpus, loss):
    assert digest(consensus_fit(RayEngine(), loss)) == digest(consensus_fit("inline", loss))


def test_sparse_rows_give_the_same_bits(two_cpus):
    rows = corrupted_rows(n=4000, p=10)
    X = sp.csr_array(np.where(np.abs(rows.X) > 0.5, rows.X, 0.0))
    models = [
        SelfPacedRegressor(n_batches=4, engine=engine).fit(X, rows.y)
        for engine in ("inline", RayEngine())
    ]
    assert digest(models[0]) == digest(models[1])


def echo(resident, message, broadcast):
    return float(resident.batch.y[0]), message, broadcast


def test_replies_come_in_batch_order_one_message_per_worker_and_are_booked(two_cpus):
    y = np.arange(40.0)
    source = ArraySource(y[:, None], y, n_batches=20)
    with RayEngine().open(source.partitions()) as workers:
        before = workers.ledger.messages
        replies = workers.map(echo, list(range(20)), "all")
        assert workers.ledger.messages - before == 2 * 2
        sent = workers.ledger.bytes_sent
        workers.map(echo, None, np.zeros(1000))
        assert 2 * 8000 < workers.ledger.bytes_sent - sent < 2 * 8000 + 10_000
    assert replies == [(2.0 * i, i, "all") for i in range(20)]
    assert workers.ledger.bytes_received > 0
    assert all(seconds > 0 for seconds in workers.ledger.seconds)


def test_rows_given_on_the_driver_travel_once(two_cpus):
    rows = corrupted_rows(n=20_000, p=10)
    partitions = ArraySource(rows.X, rows.y, n_batches=8).partitions()
    with RayEngine().open(partitions) as workers:
        size = rows.X.nbytes + rows.y.nbytes
        assert size < workers.ledger.bytes_sent < 1.1 * size
        workers.map(echo, None, None)
        assert workers.ledger.bytes_sent < 1.2 * size


def complain(resident, message, broadcast):
    if message == 3:
        raise ValueError("column 'price' of batch 3 holds words")
    return message


def test_an_error_in_a_step_reaches_the_caller_as_it_is(two_cpus):
    partitions = ArraySource(np.ones((8, 1)), np.ones(8), n_batches=4).partitions()
    with RayEngine().open(partitions) as workers:
        with pytest.raises(ValueError, match=r"^column 'price' of batch 3 holds words$"):
            workers.map(complain, list(range(4)), None)
        assert workers.map(complain, [0, 1, 2, 4], None) == [0, 1, 2, 4]


def killing_ray(seed, every):
    rng = np.random.default_rng(seed)
    return kill_repeatedly(at_work, 3.0, rng, alive=started_workers, every=every)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_survives_the_death_of_a_worker_every_few_seconds(two_cpus):
    rows, settings = long_problem(), long_settings()
    expected = digest(sixteen_batches("threads", rows, **settings))
    assert digest(sixteen_batches(RayEngine(), rows, **settings)) == expected
    for seed in range(2):
        with killing_ray(seed, every=20) as killer:
            model = sixteen_batches(RayEngine(), rows, callbacks=[killer], **settings)
        assert digest(model) == expected
        assert killer.kills >= 3


def test_the_default_fit_has_the_same_bits_on_ray_also_while_workers_die(two_cpus):
    expected = digest(default_fit("inline"))
    assert digest(default_fit(RayEngine())) == expected
    with killing_ray(0, every=3) as killer:
        survived = default_fit(RayEngine(), callbacks=[killer])
    assert digest(survived) == expected
    assert killer.kills >= 2


def test_rows_that_ray_has_lost_are_stored_again(two_cpus):
    y = np.arange(40.0)
    partitions = ArraySource(y[:, None], y, n_batches=8).partitions()
    with RayEngine().open(partitions) as workers:
        before = workers.ledger.messages
        lose(workers, [2, 5])
        replies = workers.map(echo, None, None)
        assert replies == [(5.0 * i, None, None) for i in range(8)]
        # Two orders and two answers, then twice: the rows, an order for them, an answer.
        assert workers.ledger.messages - before == 2 + 2 + 2 * 3


def lose(workers, numbers):
    """Put what a lost object gives in the place of some batches, as the workers know them."""

    def gone():
        raise ray.exceptions.ObjectLostError("ab" * 28, None, "test")

    for number in numbers:
        workers._renewed[number] = ray.put(SimpleNamespace(load=gone))


def test_a_fit_leaves_no_worker_and_no_rows_behind(two_cpus):
    sixteen_batches(RayEngine())
    wait_until(
        lambda: not named("_Worker") and ray.available_resources().get("CPU") == 2,
        explain=lambda: (named("_Worker"), ray.available_resources()),
    )


@ray.remote(num_cpus=2)
class Hog:
    def ready(self):
        return True


def test_a_cluster_without_a_free_cpu_is_not_waited_for_forever(two_cpus):
    hog = Hog.remote()
    assert ray.get(hog.ready.remote())
    with pytest.raises(EngineLostError, match="no worker for this fit for 1 seconds"):
        sixteen_batches(RayEngine(patience=1.0))
    ray.kill(hog)


def test_a_lost_head_is_one_clear_error_and_the_process_lives_on():
    done = run_alone(
        "import os, signal, threading, warnings\n"
        "warnings.simplefilter('ignore', ResourceWarning)  # Ray's own pipes to the dead\n"
        "from ray_cluster import at_work, local_ray, named, ray\n"
        "from clusters import long_problem, long_settings, sixteen_batches\n"
        "from easyfirst.engines.ray import RayEngine\n"
        "from easyfirst.errors import EngineLostError\n"
        "def kill_the_head():\n"
        "    while not at_work():\n"
        "        pass\n"
        "    for pid in named('gcs_server') + named('raylet'):\n"
        "        os.kill(pid, signal.SIGKILL)\n"
        "with local_ray(2):\n"
        "    threading.Thread(target=kill_the_head, daemon=True).start()\n"
        "    try:\n"
        "        sixteen_batches(RayEngine(patience=20.0), long_problem(), **long_settings())\n"
        "    except EngineLostError as error:\n"
        "        print(error)\n"
        "    print('alive', ray.is_initialized())\n"
    )
    assert done.returncode == 0, done.stderr
    message, last = done.stdout.splitlines()
    assert message.startswith("The head of the Ray cluster at 127.0.0.1:")
    assert "not answered for 20 seconds" in message
    assert "round" in message
    assert last == "alive False"


def test_without_a_running_ray_the_error_says_how_to_get_one():
    done = run_alone(
        "import ray_cluster\n"
        "from clusters import sixteen_batches\n"
        "from easyfirst.engines.ray import RayEngine\n"
        "for engine in ('ray', RayEngine()):\n"
        "    try:\n"
        "        sixteen_batches(engine)\n"
        "    except ConnectionError as error:\n"
        "        print(error)\n"
        "print(ray_cluster.ray.is_initialized(), ray_cluster.descendants())\n",
        RAY_ADDRESS="127.0.0.1:1",  # nobody listens there; else any Ray of this machine is found
    )
    assert done.returncode == 0, done.stderr
    *errors, state = done.stdout.splitlines()
    assert len(errors) == 2
    assert all("does not start one itself: run 'ray start --head'" in error for error in errors)
    assert state == "False {}"


def test_a_missing_ray_gives_the_install_line():
    done = run_alone(
        "import sys\n"
        "sys.modules['ray'] = None\n"
        "from easyfirst import SelfPacedRegressor\n"
        "try:\n"
        "    SelfPacedRegressor(engine='ray').fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    assert done.stdout.strip() == "RayEngine needs the 'ray' extra: pip install 'easyfirst[ray]'"


def test_another_address_than_the_connected_one_is_refused(two_cpus):
    with pytest.raises(ValueError, match=r"is connected to the Ray at 127\.0\.0\.1:"):
        sixteen_batches(RayEngine(address="10.0.0.1:6379"))


@pytest.mark.parametrize("setting", [{"n_workers": 0}, {"patience": 0}])
def test_settings_that_mean_nothing_are_refused_by_name(setting):
    with pytest.raises(ValueError, match=f"{next(iter(setting))} must be"):
        RayEngine(**setting)


def test_an_estimator_with_the_engine_can_be_cloned():
    assert clone(SelfPacedRegressor(engine=RayEngine(n_workers=3))).engine == RayEngine(n_workers=3)


def test_parquet_files_are_read_by_the_workers(two_cpus, tmp_path):
    table = a_table(40_000)
    for i in range(4):
        part = table.slice(i * 10_000, 10_000)
        pq.write_table(part, tmp_path / f"{i}.parquet")
    models = [
        SelfPacedRegressor(engine=engine).fit(read_parquet(tmp_path, target="price"))
        for engine in ("inline", RayEngine())
    ]
    assert digest(models[0]) == digest(models[1])


def a_table(n, p=5):
    rows = corrupted_rows(n=n, p=p)
    columns = {f"x{j}": rows.X[:, j] for j in range(p)}
    return pa.table(columns | {"price": rows.y, "name": np.arange(n)})


def dataset_of(table, n_blocks):
    bounds = [table.num_rows * i // n_blocks for i in range(n_blocks + 1)]
    parts = [table.slice(a, b - a) for a, b in pairwise(bounds)]
    return ray.data.from_arrow(parts)


@pytest.mark.parametrize("n_blocks", [1, 7])
def test_a_dataset_gives_the_bits_of_its_rows_in_memory_however_it_is_cut(two_cpus, n_blocks):
    table = a_table(40_000)
    source = read_frame(dataset_of(table, n_blocks), target="price", row_id="name")
    assert len(source.partitions()) == 3
    model = SelfPacedRegressor(engine="auto").fit(source)
    assert model.coef_.tobytes() == fit_in_memory(table).coef_.tobytes()
    assert list(model.feature_names_in_) == [f"x{j}" for j in range(5)]


def test_the_weights_of_a_dataset_are_streamed_with_the_names_of_its_rows(two_cpus):
    table = a_table(40_000)
    source = read_frame(dataset_of(table, 2), target="price", row_id="name")
    model = SelfPacedRegressor(engine="auto").fit(source)
    with pytest.raises(AttributeError, match="weights_by_batch"):
        _ = model.weights_
    judged = list(model.weights_by_batch(source))
    names = np.concatenate([rows.row_ids for rows in judged])
    weights = np.concatenate([rows.weights for rows in judged])
    np.testing.assert_array_equal(names, np.arange(40_000))
    np.testing.assert_array_equal(weights, fit_in_memory(table).weights_)


def fit_in_memory(table):
    X = np.column_stack([table.column(f"x{j}").to_numpy() for j in range(5)])
    return SelfPacedRegressor().fit(X, table.column("price").to_numpy())


def test_the_order_of_a_computed_dataset_is_kept(two_cpus):
    def slow_at_first(batch):
        time.sleep(1.0 if batch["name"][0] == 0 else 0.0)
        return batch

    table = a_table(4000)
    lazy = dataset_of(table, 4).map_batches(slow_at_first, batch_size=None)
    (part,) = read_frame(lazy, target="price", row_id="name").partitions()
    np.testing.assert_array_equal(part.load().row_ids, np.arange(4000))
    assert not lazy.context.execution_options.preserve_order


def test_a_bad_value_in_a_dataset_is_reported_with_its_place(two_cpus):
    table = a_table(40_000)
    broken = table.column("x2").to_numpy().copy()
    broken[20_000] = np.nan
    table = table.set_column(2, "x2", pa.array(broken))
    source = read_frame(dataset_of(table, 2), target="price")
    with pytest.raises(ValueError, match=r"^rows 13334 to 26666 .* missing .* 'x2' \(1 rows\)"):
        SelfPacedRegressor(engine="auto").fit(source)


def test_whole_and_fractional_columns_of_one_name_are_joined(two_cpus):
    parts = [pa.table({"x": [1, 2], "y": [1.0, 2.0]}), pa.table({"x": [0.5, 4.0], "y": [3.0, 4.0]})]
    (part,) = read_frame(ray.data.from_arrow(parts), target="y").partitions()
    batch = part.load()
    assert isinstance(batch, Batch)
    np.testing.assert_array_equal(batch.X, [[1.0], [2.0], [0.5], [4.0]])


def test_a_dataset_is_predicted_lazily_beside_its_own_columns(two_cpus):
    table = a_table(3000)
    model = SelfPacedRegressor().fit(table.drop_columns(["price", "name"]), table.column("price"))
    touched = []

    def touch(batch):
        touched.append(True)
        return batch

    predicted = model.predict(dataset_of(table, 3).map_batches(touch))
    assert not touched
    frame = pa.concat_tables(ray.get(predicted.to_arrow_refs())).sort_by("name")
    expected = model.predict(table.drop_columns(["price", "name"]))
    np.testing.assert_allclose(frame["prediction"], expected, rtol=1e-12)
    with pytest.raises(ValueError, match=r"missing: \['x4'\]"):
        model.predict(dataset_of(table.drop_columns(["x4"]), 1))


def test_an_empty_dataset_is_refused(two_cpus):
    empty = ray.data.from_arrow(a_table(10).slice(0, 0))
    with pytest.raises(ValueError, match=r"no rows|which is not there"):
        read_frame(empty, target="price").partitions()
