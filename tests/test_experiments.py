"""Experiments: what is planned, what is recorded, and what is drawn from the records."""

import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from easyfirst.baselines.method import Told
from easyfirst.baselines.methods import COMPARED, METHODS
from easyfirst.experiments import published
from easyfirst.experiments.base import Cell, Experiment, Record
from easyfirst.experiments.batches import batches
from easyfirst.experiments.catalogue import NAMES, define
from easyfirst.experiments.fig1 import fig1
from easyfirst.experiments.methods import run_method
from easyfirst.experiments.pace import pace
from easyfirst.experiments.problems import Adversarial, Recovery
from easyfirst.experiments.records import SCHEMA, Store
from easyfirst.experiments.rental import Rental, corrupt_prices, rental
from easyfirst.experiments.report import write_report
from easyfirst.experiments.runner import plan, run
from easyfirst.experiments.tables import Results, below_oracle, grid, losses

SPECS = [Recovery("batches", bad / 10, 150, 4) for bad in (4, 7)]
SMALL = Experiment(
    name="small",
    title="Small",
    axis="bad batches",
    cells=tuple(Cell("bad batches", spec.ratio, f"{spec.ratio}", spec) for spec in SPECS),
    methods=("oracle", "easyfirst", "spl", "torr25"),
    seeds=2,
    published={("bad batches", "0.4"): {"spl": 1e-6}, ("bad batches", "0.7"): {"spl": 0.5}},
)


def recorded(directory, experiment=SMALL, **options):
    run(plan([experiment], Store(directory), **options), directory)
    return Results(Store(directory).read())


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return recorded(tmp_path_factory.mktemp("records"))


def test_every_experiment_is_a_definition_with_known_methods():
    for name in NAMES:
        for quick in (False, True):
            for experiment in define(name, quick=quick, data=Path("data")):
                assert set(experiment.methods) <= METHODS.keys()
                assert {"oracle", "easyfirst"} <= set(experiment.methods)
                keys = [(cell.spec.key, cell.setting) for cell in experiment.cells]
                assert len(set(keys)) == len(keys)
                labels = {(cell.series, cell.label) for cell in experiment.cells}
                if not quick:
                    assert experiment.published.keys() <= labels


def test_an_unknown_experiment_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="fig1a, fig1b"):
        define("fig3")
    with pytest.raises(ValueError, match="needs the directory"):
        define("rental")


def test_the_table_and_figure_1a_share_their_problems(tmp_path):
    both = plan([batches(), fig1("a")], Store(tmp_path), seeds=1)
    assert len(both) == 18
    assert len({task.spec.key for task in both}) == 18


def test_methods_without_a_setting_run_once_for_all_paces(tmp_path):
    (task,) = plan([pace(quick=True)], Store(tmp_path), seeds=1)
    names = [name for name, _ in task.fits]
    assert names.count("easyfirst") == 1
    assert names.count("dspl-until") == len(pace(quick=True).cells)


def test_a_second_run_has_nothing_to_do_and_a_lost_record_is_made_again(tmp_path):
    recorded(tmp_path)
    assert plan([SMALL], Store(tmp_path)) == []
    assert len(plan([SMALL], Store(tmp_path), again=True)) == 4
    gone = Store(tmp_path).path(SPECS[0].key, 1, "spl", None)
    gone.unlink()
    (task,) = plan([SMALL], Store(tmp_path))
    assert (task.seed, task.fits) == (1, (("spl", None),))


def test_the_runs_can_be_restricted(tmp_path):
    tasks = plan([SMALL], Store(tmp_path), seeds=1, methods=["spl", "oracle"])
    assert [[name for name, _ in task.fits] for task in tasks] == [["oracle", "spl"]] * 2


@pytest.mark.slow
def test_two_processes_record_what_one_does(tmp_path):
    recorded(tmp_path / "one")
    done = []
    run(plan([SMALL], Store(tmp_path / "two")), tmp_path / "two", jobs=2, on_done=done.append)
    assert len(done) == 4

    def values(name):
        return {
            (record.spec, record.seed, record.method): record.value
            for record in Store(tmp_path / name).read()
        }

    assert values("one") == values("two")


def test_a_record_says_how_and_where_it_was_made(tmp_path):
    recorded(tmp_path, seeds=1, methods=["oracle"])
    path = Store(tmp_path).path(SPECS[0].key, 0, "oracle", None)
    row = pd.read_parquet(path).iloc[0]
    assert list(pd.read_parquet(path).columns) == SCHEMA.names
    assert row["seed"] == 0
    assert row["numpy"] == np.__version__
    assert row["cores"] >= 1
    assert row["status"] == "ok"
    assert not list(tmp_path.rglob("*.partial"))


def test_a_method_that_fails_is_recorded_with_the_reason():
    problem = Recovery("uniform", 0.1, 50, 3).make(0)
    problem = replace(problem, y=problem.y * 1e9)
    outcome = run_method(METHODS["spl"], problem, None)
    assert math.isinf(outcome.figures["error"])
    assert outcome.status.startswith("failed: ")


def test_the_unit_gives_a_method_with_an_absolute_pace_its_scale_back():
    problem = Recovery("uniform", 0.3, 200, 3).make(0)
    scaled = replace(problem, y=problem.y * 1024.0, unit=1024.0)
    found = run_method(METHODS["spl"], scaled, None).figures["error"]
    # The truth is in the old unit, so the error is that of coefficients 1024 times too long.
    truth = run_method(METHODS["zeros"], problem, None).figures["error"]
    assert found == pytest.approx(1023 * truth, rel=0.1)


def test_torr25_reports_the_mean_error_of_its_runs():
    problem = SPECS[0].make(0)
    method, ratios = METHODS["torr25"], problem.batch_ratios().tolist()
    model = method.build(Told(False, batch_ratios=ratios)).fit(
        problem.X, problem.y, batches=problem.batches
    )
    errors = [problem.measure(each)["error"] for each in method.read(model).models]
    assert len(errors) == 21
    found = run_method(method, problem, None).figures["error"]
    assert found == pytest.approx(np.mean(errors))


def test_hostile_problems_are_drawn_from_their_seed():
    spec = Adversarial("one_sided", 0.2, 400, 3)
    assert np.array_equal(spec.make(3).y, spec.make(3).y)
    assert not np.array_equal(spec.make(3).y, spec.make(4).y)


def test_every_table_shows_the_oracle_and_the_paper_beside_us(results):
    rows = grid(SMALL, results, "bad batches")
    assert rows[0] == ["method", "0.4", "0.7"]
    names = [row[0] for row in rows[1:]]
    assert names[0].startswith("oracle")
    assert "paper: SPL" in names
    assert all(" ± " in text for text in rows[1][1:])


def test_a_published_value_below_the_oracle_is_marked(results):
    assert below_oracle(SMALL, results) == {("bad batches", "0.4", "spl")}
    row = next(row for row in grid(SMALL, results, "bad batches") if row[0] == "paper: SPL")
    assert row[1].endswith("†")
    assert not row[2].endswith("†")


def made_up(ours, theirs):
    spec = SPECS[0].key
    pairs = [("easyfirst", ours), ("torr25", theirs), ("oracle", [0.01] * len(ours))]
    return Results(
        Record(spec, seed, method, None, "error", value, 1.0, "ok")
        for method, values in pairs
        for seed, value in enumerate(values)
    )


def test_a_lost_cell_is_listed_with_what_the_rival_was_told():
    found = made_up([0.20, 0.22, 0.21], [0.10, 0.12, 0.11])
    (loss,) = losses(SMALL, found)
    assert loss.excess == pytest.approx(0.21 / 0.11 - 1)
    assert not loss.chance
    assert "the true corruption ratio" in loss.reason
    ours = next(row for row in grid(SMALL, found, "bad batches") if row[0].startswith("easyfirst"))
    assert ours[1].endswith("!")


def test_a_loss_within_the_noise_is_called_so():
    (loss,) = losses(SMALL, made_up([0.20, 0.10, 0.16], [0.10, 0.20, 0.15]))
    assert loss.chance
    assert "may be chance" in loss.reason
    (single,) = losses(SMALL, made_up([0.2], [0.1]))
    assert "one seed" in single.reason


def test_a_won_cell_is_no_loss():
    assert losses(SMALL, made_up([0.1, 0.1], [0.2, 0.2])) == []


def test_the_report_is_the_same_to_the_byte_when_written_again(tmp_path):
    experiment = pace(quick=False)
    spec = experiment.cells[0].spec.key
    store = Store(tmp_path / "records")
    for seed in range(2):
        for method, value in (("oracle", 0.01), ("easyfirst", 0.02 + 0.001 * seed)):
            store.write([Record(spec, seed, method, None, "error", value, 1.0, "ok")])
        for cell in experiment.cells:
            shared = {"spec": spec, "seed": seed, "method": "dspl-until", "setting": cell.setting}
            common = {"seconds": 1.0, "status": "ok"}
            error = Record(metric="error", value=0.1 + seed, **shared, **common)
            store.write([error, replace(error, metric="lagrangian", value=-cell.x)])
    first = write_report(tmp_path / "records", tmp_path / "docs")
    before = {path.name: path.read_bytes() for path in (tmp_path / "docs").rglob("*.*")}
    assert "Figure 2" in first.read_text()
    assert "Not run yet" in first.read_text()
    assert {"reproduction.md", "pace.svg", "records.parquet"} <= before.keys()
    # Without the directory of records, from the copy beside the figures.
    write_report(tmp_path / "nowhere", tmp_path / "docs")
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "docs").rglob("*.*")}


def test_a_report_without_records_says_where_it_looked(tmp_path):
    with pytest.raises(FileNotFoundError, match="no records"):
        write_report(tmp_path / "nowhere", tmp_path / "docs")


def test_prices_are_corrupted_by_up_to_half_the_largest_of_their_batch():
    rng = np.random.RandomState(0)
    prices = np.concatenate([rng.uniform(10, 100, 500), rng.uniform(10, 1000, 500)])
    batch = np.repeat([0, 1], 500)
    y, clean = corrupt_prices(prices, batch, 0.4, rng)
    assert 1 - clean.mean() == pytest.approx(0.4, abs=0.002)
    assert np.array_equal(y[clean], prices[clean])
    assert np.abs(y - prices)[:500].max() <= 50
    assert np.abs(y - prices)[500:].max() > 50


def listings(n, snapshot, rng):
    beds = rng.integers(1, 5, n)
    return pd.DataFrame(
        {
            "neighbourhood": rng.choice(["a", "b", "c"], n),
            "room_type": rng.choice(["Private room", "Entire home/apt"], n),
            "property_type": rng.choice(["Apartment", "House"], n),
            "accommodates": beds + rng.integers(0, 3, n),
            "bathrooms": rng.integers(1, 3, n),
            "bedrooms": rng.integers(1, 4, n),
            "beds": beds,
            "price": 40.0 * beds + rng.uniform(0, 60, n),
            "snapshot": snapshot,
        }
    )


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    rng = np.random.default_rng(0)
    directory = tmp_path_factory.mktemp("listings")
    (directory / "nyc").mkdir()
    for snapshot in ("2015-06", "2016-06"):
        listings(4000, snapshot, rng).to_csv(directory / "nyc" / f"{snapshot}.csv", index=False)
    return directory


def test_the_published_protocol_measures_its_own_noise(city):
    as_published, honest = rental(directory=city)
    problem = as_published.cells[0].spec.make(0)
    assert problem.X.shape[1] == 6
    leak = problem.X[:, -1] - problem.y_clean
    assert leak.std() == pytest.approx(20, rel=0.1)
    # Prices of this made-up city vary by about as much as the leak, so the fit shrinks it.
    error = run_method(METHODS["oracle"], problem, None).figures["error"]
    assert error < math.sqrt(20 * math.sqrt(2 / math.pi))
    assert honest.cells[0].spec.make(0).fit_intercept


def test_honest_features_do_not_know_the_price_of_their_row(city):
    spec = rental(directory=city)[1].cells[0].spec
    assert isinstance(spec, Rental)
    problem = spec.make(0)
    assert np.allclose(problem.X.mean(axis=0), 0, atol=1e-9)
    correlations = [abs(np.corrcoef(column, problem.y_clean)[0, 1]) for column in problem.X.T]
    assert max(correlations) < 0.97


def test_the_published_values_are_complete():
    for rows in published.FIG1.values():
        assert all(len(values) == len(published.RATIOS) for values in rows.values())
    assert all(len(values) == 6 for values in published.BATCHES.values())
    for city, rows in published.RENTAL.items():
        assert rows.keys() == published.RENTAL_SPREAD[city].keys()


NEW_BASELINE = '''
"""The mean of y, and nothing else."""

from sklearn.dummy import DummyRegressor

from easyfirst.baselines.method import Method

METHODS = (
    Method(
        "mean",
        "mean of y",
        lambda told: DummyRegressor(),
        takes_batches=False,
        compare=("mean", "mean of y"),
    ),
)
'''


def test_a_baseline_is_one_file(tmp_path):
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra" / "mean.py").write_text(NEW_BASELINE)
    table = "".join(f"{i},{2 * i + 1}\n" for i in range(40))
    (tmp_path / "table.csv").write_text("x,y\n" + table)
    script = (
        "import sys, easyfirst.baselines\n"
        "easyfirst.baselines.__path__.append(sys.argv.pop(1))\n"
        "from easyfirst.baselines.methods import run_in\n"
        "names = run_in('recovery')\n"
        "assert names.index('svam') < names.index('mean') < names.index('least-squares')\n"
        "from easyfirst.cli.main import main\n"
        "main()"
    )
    given = ["compare", "table.csv", "--target", "y", "--folds", "2", "--methods", "mean,ols"]
    command = [sys.executable, "-c", script, str(tmp_path / "extra"), *given]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert shown.returncode == 0, shown.stderr
    assert "mean of y" in shown.stdout


def test_the_page_of_the_command_line_names_every_method_of_compare():
    page = (Path(__file__).parents[1] / "docs" / "cli.md").read_text(encoding="utf-8")
    sentence = page.partition("`--methods` takes some of ")[2].partition(".")[0]
    assert re.findall(r"`([^`]+)`", sentence) == list(COMPARED)
