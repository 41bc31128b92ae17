"""The Spark engine and Spark frames, on a real Spark: the same bits, whatever dies."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import easyfirst
from clusters import (
    N_BATCHES,
    PATIENCE,
    consensus_fit,
    default_fit,
    digest,
    kill_repeatedly,
    long_problem,
    long_settings,
    require,
    sixteen_batches,
)
from easyfirst import SelfPacedRegressor
from easyfirst.engines.spark import SparkEngine
from easyfirst.losses import Logistic, Squared
from easyfirst.schedules import Geometric
from easyfirst.sources import ArraySource
from problems import corrupted_rows
from sparks import all_workers, busy_workers, free_port, java_pid, start_spark, stop_spark

for module in ("pyspark", "pyarrow", "pandas"):
    require(module)

pytestmark = [
    pytest.mark.cluster,
    # What Spark itself says of the pandas it finds.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

CONNECT_PORT = free_port()


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    session = start_spark(
        tmp_path_factory.mktemp("spark"),
        **{
            "spark.python.daemon.module": "easyfirst.engines.spark.daemon",
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(CONNECT_PORT),
        },
    )
    yield session
    stop_spark(session)


@pytest.fixture
def table(spark, tmp_path):
    """A Parquet table of four files, as a Spark frame and as arrays in the same order."""
    import pandas as pd

    rows = corrupted_rows(n=4 * 1200, p=5)
    names = ["rooms", "area.m2", "a`b", "floor", "age"]
    frame = pd.DataFrame(rows.X, columns=names)
    frame["price"] = rows.y
    frame["name"] = [f"row {i}" for i in range(len(frame))]
    for i in range(4):
        part = frame.iloc[i * 1200 : (i + 1) * 1200]
        part.to_parquet(tmp_path / f"part-{i}.parquet")
    return spark.read.parquet(str(tmp_path)).sortWithinPartitions("name"), names


def spooled(spark):
    from pyspark import SparkFiles

    return [path.name for path in Path(SparkFiles.getRootDirectory()).glob("easyfirst-*")]


@pytest.mark.parametrize("tasks", [None, 4, 16])
def test_any_number_of_tasks_gives_the_bits_of_one_process(spark, tasks):
    model = sixteen_batches(SparkEngine(spark, tasks=tasks))
    assert digest(model) == digest(sixteen_batches("inline"))
    last = model.history_.rounds[-1]
    assert min(last.messages, last.bytes_sent, last.bytes_received) > 0
    assert len(last.batch_seconds) == N_BATCHES
    assert spooled(spark) == []


def test_sparse_rows_with_sample_weights_give_the_bits_of_one_process(spark):
    rows = corrupted_rows(n=4000, p=8)
    X = sp.csr_array(np.where(np.abs(rows.X) > 0.5, rows.X, 0.0))
    weight = np.random.default_rng(3).integers(0, 3, size=4000).astype(float)
    fits = [
        SelfPacedRegressor(n_batches=5, engine=engine).fit(X, rows.y, sample_weight=weight)
        for engine in ("inline", SparkEngine(spark, tasks=2))
    ]
    assert digest(fits[0]) == digest(fits[1])


@pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=repr)
def test_consensus_on_the_workers_has_the_bits_of_one_process(spark, loss):
    there = consensus_fit(SparkEngine(spark), loss)
    assert digest(there) == digest(consensus_fit("inline", loss))


def test_a_session_stands_for_its_engine(spark):
    rows = corrupted_rows(n=2000, p=3)
    model = SelfPacedRegressor(n_batches=2, engine=spark).fit(rows.X, rows.y)
    assert digest(model) == digest(SelfPacedRegressor(n_batches=2).fit(rows.X, rows.y))


def test_local_workers_run_the_python_of_the_driver_by_themselves(spark, monkeypatch):
    rows = corrupted_rows(n=1000, p=3)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "no-such-python")
    monkeypatch.delenv("PYSPARK_PYTHON")
    model = SelfPacedRegressor(n_batches=2, engine=spark).fit(rows.X, rows.y)
    assert digest(model) == digest(SelfPacedRegressor(n_batches=2).fit(rows.X, rows.y))


def killing_spark(spark, seed, every):
    java = java_pid(spark)
    return kill_repeatedly(
        lambda: busy_workers(java),
        2.0,
        np.random.default_rng(seed),
        alive=lambda: all_workers(java),
        waits=False,  # Spark starts workers when there is work
        every=every,
    )


@pytest.mark.slow
def test_workers_killed_through_the_whole_fit_change_no_bit(spark):
    rows = long_problem()
    settings = long_settings() | {"pace": Geometric(start=0.01, factor=1.12, ceiling=4.0)}
    expected = digest(sixteen_batches("threads", rows, **settings))
    for seed in range(2):
        with killing_spark(spark, seed, every=5) as killer:
            model = sixteen_batches(SparkEngine(spark), rows, callbacks=[killer], **settings)
        assert digest(model) == expected
        assert killer.kills >= 5


def test_the_default_fit_has_the_same_bits_on_spark_also_while_workers_die(spark):
    expected = digest(default_fit("inline"))
    assert digest(default_fit(SparkEngine(spark))) == expected
    with killing_spark(spark, 0, every=3) as killer:
        survived = default_fit(SparkEngine(spark), callbacks=[killer])
    assert digest(survived) == expected
    assert killer.kills >= 2


def test_a_job_that_used_up_its_retries_is_run_again(spark, tmp_path):
    deaths = 9  # one more than the session's tasks may fail

    def die_often(resident, message, broadcast):
        import os
        import signal

        if message == 1 and len(os.listdir(broadcast)) < deaths:
            open(os.path.join(broadcast, str(os.getpid())), "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return message, resident.batch.n_samples

    with SparkEngine(spark).open(two_batches()) as workers:
        assert workers.map(die_often, [0, 1], str(tmp_path)) == [(0, 50), (1, 50)]
    assert len(list(tmp_path.iterdir())) == deaths


def test_batches_that_a_host_has_lost_are_sent_again(spark):
    def total(resident, message, broadcast):
        return float(resident.batch.y.sum()) + message + broadcast

    with SparkEngine(spark).open(two_batches()) as workers:
        before = workers.map(total, [1.0, 2.0], 0.5)
        sent = workers.ledger.bytes_sent
        workers._spool.remove()
        assert workers.map(total, [1.0, 2.0], 0.5) == before
        assert workers.ledger.bytes_sent - sent > 100 * 4 * 8  # the rows


def test_rows_of_a_frame_that_a_host_has_lost_are_read_again(spark, table):
    frame, _ = table

    def total(resident, message, broadcast):
        return float(resident.batch.y.sum())

    source = easyfirst.read_frame(frame, target="price", row_id="name")
    with SparkEngine(spark).open(source.partitions()) as workers:
        before = workers.map(total, None, None)
        workers._spool.remove()
        assert workers.map(total, None, None) == before


def two_batches():
    rows = corrupted_rows(n=100, p=3)
    return ArraySource(rows.X, rows.y, n_batches=2).partitions()


def test_errors_of_a_step_arrive_as_they_are(spark):
    def refuse(resident, message, broadcast):
        raise ValueError(f"batch {message} is bad")

    with (
        SparkEngine(spark).open(two_batches()) as workers,
        pytest.raises(ValueError, match=r"^batch 0 is bad$"),
    ):
        workers.map(refuse, [0, 1], None)


def test_workers_that_cannot_run_a_step_are_reported_in_one_sentence(spark):
    class Elsewhere:
        def __reduce__(self):
            return __import__, ("no_such_module",)

    with (
        SparkEngine(spark).open(two_batches()) as workers,
        pytest.raises(RuntimeError, match=r"cannot run easyfirst: .*No module named .*executors"),
    ):
        workers.map(np.shape, [Elsewhere(), 0], None)


def test_the_partitions_of_a_frame_are_fitted_where_they_are(spark, table):
    from pyspark.sql.functions import spark_partition_id

    frame, names = table
    source = easyfirst.read_frame(frame, target="price", row_id="name")
    model = SelfPacedRegressor(engine="auto").fit(source)
    local = frame.withColumn("part", spark_partition_id()).toArrow().to_pandas()
    X, y, part = (np.array(local[key], order="C") for key in (names, "price", "part"))
    twin = SelfPacedRegressor(engine="inline").fit(X, y, batches=part)
    assert list(model.feature_names_in_) == names
    assert model.coef_.tobytes() == twin.coef_.tobytes()
    judged = list(model.weights_by_batch(source))
    assert np.concatenate([rows.row_ids for rows in judged]).tolist() == local["name"].tolist()
    assert np.concatenate([rows.weights for rows in judged]).tobytes() == twin.weights_.tobytes()
    assert spooled(spark) == []


def test_prediction_of_a_frame_is_a_frame_not_yet_computed(spark, table):
    frame, names = table
    model = SelfPacedRegressor(engine=spark).fit(
        easyfirst.read_frame(frame, target="price", features=names)
    )
    predicted = model.predict(frame)
    assert predicted.columns == [*frame.columns, "prediction"]
    local = predicted.limit(50).toArrow().to_pandas()
    np.testing.assert_allclose(local["prediction"], model.predict(local[names]), rtol=1e-12)
    with pytest.raises(ValueError, match=r"missing: \['rooms'\]"):
        model.predict(frame.drop("rooms"))


def test_a_model_of_many_columns_can_predict_a_frame(spark):
    n = 300
    coef = np.arange(float(n))
    frame = spark.range(3).selectExpr(*(f"CAST(id AS DOUBLE) AS c{i}" for i in range(n)))
    from easyfirst.sources.spark import predict

    values = [row["prediction"] for row in predict(frame, coef, 1.0, None).collect()]
    assert sorted(values) == [1.0, 1.0 + coef.sum(), 1.0 + 2 * coef.sum()]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rooms": "CAST(rooms AS STRING)"}, "column 'rooms' .* holds string, not numbers"),
        ({"floor": "IF(name = 'row 7', NULL, floor)"}, "partition .* values in 'floor' .1 rows"),
        ({"age": "IF(name = 'row 7', DOUBLE('Infinity'), age)"}, "infinite values in 'age'"),
        ({"rooms": "array(rooms)"}, "column 'rooms' .* holds array<double>, not numbers"),
    ],
)
def test_values_that_cannot_be_fitted_are_refused_with_their_column(spark, table, change, message):
    from pyspark.sql.functions import expr

    frame, _ = table
    frame = frame.withColumns({name: expr(text) for name, text in change.items()})
    with pytest.raises(ValueError, match=message):
        SelfPacedRegressor(engine=spark).fit(
            easyfirst.read_frame(frame, target="price", row_id="name")
        )


def test_whole_numbers_decimals_and_truth_values_are_numbers(spark):
    frame = spark.range(0, 400, 1, 2).selectExpr(
        "id % 7 AS whole",
        "CAST(id % 11 AS DECIMAL(10, 2)) AS money",
        "id % 3 = 0 AS truth",
        "CAST(id AS DOUBLE) AS y",
    )
    model = SelfPacedRegressor(engine=spark).fit(easyfirst.read_frame(frame, target="y"))
    assert model.coef_.shape == (3,)
    assert np.isfinite(model.coef_).all()


def test_a_frame_that_changes_between_readings_is_refused(spark):
    from pyspark.sql.functions import rand

    frame = spark.range(0, 1000, 1, 2).selectExpr("CAST(id AS DOUBLE) AS x", "x AS y")
    source = easyfirst.read_frame(frame, target="y")
    source.partitions()
    source.frame = source.frame.where(rand() < 0.5)
    with pytest.raises(ValueError, match=r"had 500 rows .* cache\(\) or checkpoint\(\)"):
        SelfPacedRegressor(engine=spark).fit(source)


def test_an_empty_frame_is_refused_and_empty_partitions_are_left_out(spark):
    frame = spark.range(0, 300, 1, 3).selectExpr("CAST(id AS DOUBLE) AS x", "2 * x + 1 AS y")
    with pytest.raises(ValueError, match="has no rows"):
        SelfPacedRegressor(engine=spark).fit(easyfirst.read_frame(frame.where("x < 0"), target="y"))
    source = easyfirst.read_frame(frame.where("x < 100 OR x >= 200"), target="y")
    assert len(source.partitions()) == 2
    assert SelfPacedRegressor(engine=spark).fit(source).coef_[0] == pytest.approx(2.0)


def test_other_engines_say_that_a_spark_frame_needs_spark(spark):
    frame = spark.range(0, 100, 1, 2).selectExpr("CAST(id AS DOUBLE) AS x", "2 * x + 1 AS y")
    with pytest.raises(TypeError, match="use engine='spark'"):
        SelfPacedRegressor(engine="threads").fit(easyfirst.read_frame(frame, target="y"))


def test_what_is_no_session_or_no_number_of_tasks_is_refused(spark):
    with pytest.raises(TypeError, match="SparkSession, got 'local'"):
        SparkEngine("local")
    with pytest.raises(ValueError, match="tasks must be a whole number > 0 or None, got 0"):
        SparkEngine(spark, tasks=0)


def run_script(text, *arguments):
    """Run a script in a process of its own, with what it needs to import the helpers."""
    here = Path(__file__).parent
    paths = [str(here), str(here.parent / "src"), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(text), *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split("\n")


def test_spark_connect_gives_the_same_bits(spark):
    del spark  # it is the server
    for module in ("grpc", "grpc_status", "google.rpc", "zstandard"):
        require(module)
    lines = run_script(
        """
        import sys
        import easyfirst
        from clusters import digest, sixteen_batches
        from easyfirst.engines.spark import SparkEngine
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.remote(f"sc://127.0.0.1:{sys.argv[1]}").getOrCreate()
        print(type(spark).__module__)
        print(digest(sixteen_batches(SparkEngine(spark, tasks=2))))
        frame = spark.range(0, 400, 1, 2).selectExpr("CAST(id AS DOUBLE) AS x", "2 * x + 1 AS y")
        model = easyfirst.SelfPacedRegressor(engine=spark)
        model.fit(easyfirst.read_frame(frame, target="y"))
        print(model.predict(frame).where("abs(prediction - y) < 1e-6").count())
        """,
        CONNECT_PORT,
    )
    module, found, predicted, _ = lines
    assert module.startswith("pyspark.sql.connect")
    assert found == digest(sixteen_batches("inline"))
    assert int(predicted) == 400


def test_a_lost_driver_ends_the_fit_with_one_clear_error(tmp_path):
    lines = run_script(
        """
        import os, signal, sys
        from clusters import long_problem, long_settings
        from easyfirst import SelfPacedRegressor
        from easyfirst.errors import EngineLostError
        from sparks import java_pid, start_spark

        spark = start_spark(sys.argv[1])
        java = java_pid(spark)

        class KillJava:
            def on_round_end(self, record):
                if record.round == 3:
                    os.kill(java, signal.SIGKILL)

        rows = long_problem()
        model = SelfPacedRegressor(
            engine=spark, n_batches=4, callbacks=[KillJava()], **long_settings()
        )
        try:
            model.fit(rows.X, rows.y)
        except EngineLostError as error:
            print(error)
        """,
        tmp_path,
    )
    assert "The Spark application is gone" in lines[0]
    assert "round 3" in lines[0]
