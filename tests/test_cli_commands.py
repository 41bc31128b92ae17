"""The commands as a user meets them: help, output, files, interruption, exit codes."""

import json
import os
import re
import signal
import subprocess
import sys
from importlib import resources
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import easyfirst
from clusters import local_dask
from easyfirst.cli.clusters import ENGINES
from easyfirst.cli.group import COMMANDS
from easyfirst.cli.group import easyfirst as command
from easyfirst.tables import TableModel, read_table
from easyfirst.tables.runs import RUN_FILES

SOURCE = os.fspath(resources.files(easyfirst).joinpath(".."))
HEAVY = {"numpy", "scipy", "sklearn", "pandas", "pyarrow", "matplotlib", "rich"}


def write_flats(path, n=400, seed=0):
    """A CSV file of flats with a linear rent, a fifth of it nonsense; returns the wrong rows."""
    rng = np.random.default_rng(seed)
    area = rng.uniform(20, 120, n)
    city = rng.choice(["Ulm", "Bonn", "Kiel"], n, p=[0.5, 0.3, 0.2])
    price = 9 * area + 150 * (city == "Bonn") + rng.normal(0, 10, n)
    wrong = rng.random(n) < 0.2
    price[wrong] += rng.choice([-1, 1], wrong.sum()) * rng.uniform(300, 3000, wrong.sum())
    lines = [
        f"f{i},{area[i]:.2f},{city[i]},{'' if i == 5 else format(price[i], '.2f')}"
        for i in range(n)
    ]
    path.write_text("flat,area,city,price\n" + "\n".join(lines) + "\n")
    wrong[5] = False
    return wrong


WRITTEN = set(RUN_FILES) - {"clean.parquet"}  # for a table that is CSV


def run(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def entry(*arguments, cwd):
    """The real command, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "easyfirst.cli.main", *map(str, arguments)],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
    )


def environment():
    return {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def flats(tmp_path_factory):
    """A folder with data.csv and the run that was fitted to it."""
    folder = tmp_path_factory.mktemp("flats")
    wrong = write_flats(folder / "data.csv")
    done = run("fit", folder / "data.csv", "-t", "price", "--row-id", "flat", "-o", folder / "run")
    assert done.exit_code == 0, done.output
    return folder, wrong, done


# Help


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_explains_itself_and_its_exit_codes(name):
    done = run(name, "--help")
    assert done.exit_code == 0
    assert done.stdout.startswith(f"Usage: easyfirst {name}")
    for code in ("0    done", "3    the data cannot", "4    the model file", "130  interrupted"):
        assert code in done.stdout


@pytest.mark.parametrize(
    "name", ["compare", "demo", "diff", "fit", "inspect", "predict", "suspects"]
)
def test_the_help_of_a_command_loads_nothing_heavy(name, tmp_path):
    program = (
        f"import sys; sys.argv = ['easyfirst', {name!r}, '--help']\n"
        "from easyfirst.cli.main import main\n"
        "try:\n    main()\n"
        f"finally:\n    print('loaded:', *(n for n in {sorted(HEAVY)!r} if n in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == "loaded:"
    assert "Usage: easyfirst" in done.stdout


def test_the_engines_are_those_that_the_estimator_knows():
    from easyfirst.estimators.clusters import NAMES

    # The command line holds the whole table; only sources can be read part by part.
    assert {*ENGINES, "auto", "out-of-core"} == set(NAMES)


# Fit


def test_fit_prints_coefficients_suspects_share_noise_and_timing(flats):
    _, _, done = flats
    for part in (
        "Coefficients",
        "area",
        "city=Bonn",
        "95 % from",
        "The 10 most suspicious rows",
        "standard deviations",
        "rows that look wrong:",
        "estimated corrupted share:",
        "noise scale:",
        "seconds:",
        "written to:",
    ):
        assert part in done.stdout, part


def test_fit_says_on_standard_error_what_it_does_and_what_it_left_out(flats):
    _, _, done = flats
    for part in ("Reading", "Fitting ...", "Note: 1 row without a value of 'price' left out"):
        assert part in done.stderr
        assert part not in done.stdout


def test_fit_writes_the_model_the_rows_the_report_and_the_summary(flats):
    folder, wrong, _ = flats
    assert {each.name for each in (folder / "run").iterdir()} == WRITTEN
    assert {each.name for each in folder.iterdir()} == {"data.csv", "run"}
    assert (folder / "run" / "report.html").read_text().startswith("<!")
    rows = read_table(folder / "run" / "rows.parquet").to_pandas()
    flagged = rows["is_label_issue"].fillna(False).astype(bool)
    assert np.mean(wrong[flagged]) > 0.95
    assert np.mean(flagged[wrong]) > 0.95
    assert rows["row_id"][7] == "f7"


def test_the_pages_of_the_rows_carry_checksums(flats):
    folder, _, _ = flats
    raw = bytearray((folder / "run" / "rows.parquet").read_bytes())
    raw[len(raw) // 3] ^= 1
    (folder / "flipped.parquet").write_bytes(raw)
    try:
        with pytest.raises(OSError, match="CRC checksum"):
            pq.ParquetFile(folder / "flipped.parquet", page_checksum_verification=True).read()
    finally:
        (folder / "flipped.parquet").unlink()


def test_the_summary_names_the_worst_rows_and_the_share(flats):
    folder, wrong, _ = flats
    summary = json.loads((folder / "run" / "summary.json").read_text())
    assert summary["rows"] == {
        "read": 400,
        "without_target": 1,
        "with_wrong_target": 0,
        "fitted": 399,
        "look_wrong": pytest.approx(wrong.sum(), abs=5),
    }
    assert len(summary["suspects"]) == 10
    assert all(wrong[int(each["row_id"][1:])] for each in summary["suspects"])
    low, high = summary["corrupted_interval"]
    assert low < wrong.mean() < high
    assert {"read", "prepare", "fit", "write", "total"} == set(summary["seconds"])


def test_json_on_standard_output_is_the_summary_file(flats, tmp_path):
    folder, _, _ = flats
    done = run(
        "fit", folder / "data.csv", "-t", "price", "-o", tmp_path / "run", "--json", "--no-report"
    )
    assert json.loads(done.stdout) == json.loads((tmp_path / "run" / "summary.json").read_text())
    assert not (tmp_path / "run" / "report.html").exists()


def test_without_a_package_for_pictures_only_the_report_is_missing(flats, tmp_path, monkeypatch):
    folder, _, _ = flats
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = run("fit", folder / "data.csv", "-t", "price", "-o", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert "pip install 'easyfirst[tool,plot]'" in done.stderr
    written = {each.name for each in (tmp_path / "run").iterdir()}
    assert written == WRITTEN - {"report.html"}


def test_quiet_prints_nothing_when_all_is_well(flats, tmp_path):
    folder, _, _ = flats
    done = run(
        "fit", folder / "data.csv", "-t", "price", "-o", tmp_path / "run", "-q", "--no-report"
    )
    assert (done.exit_code, done.output) == (0, "")


def test_warnings_of_the_fit_are_shown_even_when_quiet(tmp_path):
    lines = [f"{i},{2 * i},{3 * i + i % 3}" for i in range(1, 60)]
    (tmp_path / "twins.csv").write_text("a,b,y\n" + "\n".join(lines))
    arguments = ["fit", tmp_path / "twins.csv", "-t", "y", "-o", tmp_path / "run", "--features"]
    done = run(*arguments, "a,b", "-q", "--no-report")
    assert done.exit_code == 0, done.output
    assert "Warning: The kept rows determine only" in done.stderr


def test_a_terminal_shows_round_pace_rows_and_time_left_and_is_tidied_up(tmp_path):
    pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
    write_flats(tmp_path / "data.csv", 1000)
    ours, theirs = pty.openpty()
    arguments = [sys.executable, "-m", "easyfirst.cli.main", "fit", "data.csv", "-t", "price"]
    with subprocess.Popen(
        [*arguments, "--no-report"],
        cwd=tmp_path,
        env=environment() | {"TERM": "xterm", "COLUMNS": "120"},
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        shown = b"".join(iter(lambda: read_terminal(ours), b"")).decode()
    os.close(ours)
    assert process.returncode == 0
    assert re.search(r"Fitting.*round \d+.*pace .*rows selected.*left", shown)
    assert "\x1b[2K" in shown  # lines are erased again


def read_terminal(descriptor):
    """What is written to a terminal next; nothing when its other end is closed."""
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""


def test_force_replaces_a_run_and_leaves_other_files(flats, tmp_path):
    folder, _, _ = flats
    arguments = ["fit", folder / "data.csv", "-t", "price", "-o", tmp_path, "-q", "--no-report"]
    assert run(*arguments).exit_code == 0
    (tmp_path / "mine.txt").write_text("mine")
    first = (tmp_path / "summary.json").read_bytes()
    assert run(*arguments).exit_code == 5
    assert (tmp_path / "summary.json").read_bytes() == first
    assert run(*arguments, "--force").exit_code == 0
    assert (tmp_path / "summary.json").read_bytes() != first  # the timing differs
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_options_come_from_a_file_and_the_command_line_comes_first(flats, tmp_path):
    folder, _, _ = flats
    (tmp_path / "fit.toml").write_text(
        'target = "area"\nexclude = ["city"]\nrow-id = "flat"\nno_report = true\nmax-rounds = 50\n'
        f"data = {json.dumps(str(folder / 'data.csv'))}\n"
    )
    done = run(
        "fit", "--config", tmp_path / "fit.toml", "-t", "price", "-o", tmp_path / "run", "--json"
    )
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert summary["target"] == "price"
    assert list(summary["columns"]["used"]) == ["area"]


def test_batches_are_named_the_worst_first(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.random(600)
    y = 5 * x + rng.normal(0, 0.1, 600)
    bad = (np.arange(600) % 3 == 0) & (rng.random(600) < 0.7)
    y[bad] += rng.uniform(5, 50, bad.sum())
    lines = [f"{x[i]},{y[i]},shop {i % 3}" for i in range(600)]
    (tmp_path / "shops.csv").write_text("x,y,shop\n" + "\n".join(lines))
    arguments = ["fit", tmp_path / "shops.csv", "-t", "y", "--batches", "shop", "--no-report"]
    done = run(*arguments, "-o", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert "Worst batches" in done.stdout
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["batches"][0]["batch"] == "shop 0"
    assert summary["batches"][0]["clean_share"] < 0.5 < summary["batches"][1]["clean_share"]


def test_engines_give_the_same_bits(flats, tmp_path):
    folder, _, _ = flats
    coefficients = []
    for engine in ("threads", "inline"):
        output = tmp_path / engine
        arguments = ["fit", folder / "data.csv", "-t", "price", "--row-id", "flat", "--json"]
        done = run(*arguments, "--engine", engine, "-o", output, "--no-report")
        coefficients.append(json.loads(done.stdout)["coefficients"])
    assert coefficients[0] == coefficients[1]


@pytest.mark.cluster
def test_a_fit_runs_on_a_dask_cluster_that_the_user_started(flats, tmp_path):
    pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
    folder, _, _ = flats
    arguments = ["fit", folder / "data.csv", "-t", "price", "--row-id", "flat", "--no-report"]
    with local_dask(1) as client:
        address = client.scheduler.address
        done = run(
            *arguments, "--engine", "dask", "--address", address, "-o", tmp_path / "run", "--json"
        )
    assert done.exit_code == 0, done.output
    here = json.loads((folder / "run" / "summary.json").read_text())["coefficients"]
    there = json.loads(done.stdout)["coefficients"]
    assert [each["name"] for each in there] == [each["name"] for each in here]
    np.testing.assert_allclose(
        [each["coef"] for each in there], [each["coef"] for each in here], rtol=1e-9
    )


def test_values_of_rows_can_be_kept_out_of_the_report(tmp_path):
    secret = "Hidden Lane"
    lines = [f"{i % 17},{secret if i % 2 else 'Main Road'},{i % 17}" for i in range(200)]
    lines[20] = f"3,{secret},999"
    (tmp_path / "a.csv").write_text("x,street,y\n" + "\n".join(lines))
    pages = []
    for option in (("--no-values",), ()):
        output = tmp_path / f"run{len(option)}"
        done = run("fit", tmp_path / "a.csv", "-t", "y", "-o", output, "-q", *option)
        assert done.exit_code == 0, done.output
        pages.append((output / "report.html").read_text())
    assert "999" not in pages[0]
    assert "999" in pages[1]


# Predict


def test_predictions_are_those_of_the_model_in_every_format(flats, tmp_path):
    folder, _, _ = flats
    model = easyfirst.load(folder / "run" / "model.safetensors")
    expected = model.predict(read_table(folder / "data.csv"))
    for ending in ("csv", "parquet"):
        path = tmp_path / f"out.{ending}"
        assert run("predict", folder / "run", folder / "data.csv", "-o", path).exit_code == 0
        assert np.array_equal(read_table(path)["prediction"].to_numpy(), expected)
    done = run("predict", folder / "run", folder / "data.csv", "--format", "json")
    found = json.loads(done.stdout)
    assert [each["prediction"] for each in found] == expected.tolist()
    assert found[7]["row_id"] == "f7"


def test_predictions_go_to_standard_output_and_need_no_target(flats, tmp_path):
    folder, _, _ = flats
    (tmp_path / "new.csv").write_text("city,area\nBonn,50\nRom,\n")
    model = folder / "run" / "model.safetensors"
    done = run("predict", model, tmp_path / "new.csv", "--interval", "0.9")
    assert done.exit_code == 0, done.output
    heading, first, second = done.stdout.splitlines()
    assert heading == '"row_id","prediction","lower","upper"'
    number, prediction, lower, upper = map(float, first.split(","))
    assert number == 0
    assert prediction == pytest.approx(600, abs=10)
    assert lower < prediction < upper
    assert second.startswith("1,")
    assert "1 row with a category" in done.stderr


# Suspects


def test_suspects_are_shown_with_reasons(flats):
    folder, wrong, _ = flats
    done = run("suspects", folder / "run", folder / "data.csv", "--top", "3")
    assert done.exit_code == 0
    shown = [line.split()[0] for line in done.stdout.splitlines() if line.strip().startswith("f")]
    assert len(shown) == 3
    assert all(wrong[int(name[1:])] for name in shown)
    assert "predicted" in done.stdout


def test_suspects_in_files_are_all_that_look_wrong(flats, tmp_path):
    folder, wrong, _ = flats
    tables = []
    for ending in ("csv", "parquet"):
        path = tmp_path / f"bad.{ending}"
        done = run("suspects", folder / "run", folder / "data.csv", "-o", path, "--values")
        assert done.exit_code == 0, done.output
        tables.append(read_table(path))
    assert tables[0]["row_id"].to_pylist() == tables[1]["row_id"].to_pylist()
    assert tables[0]["row_id"].to_pylist() == tables[0]["flat"].to_pylist()
    assert tables[0].num_rows == pytest.approx(wrong.sum(), abs=5)
    done = run("suspects", folder / "run", folder / "data.csv", "--format", "json", "--top", "2")
    found = json.loads(done.stdout)
    assert [each["row_id"] for each in found] == tables[0]["row_id"].to_pylist()[:2]
    assert {"is_label_issue", "label_quality", "given_label", "predicted_label"} <= set(found[0])


def test_a_clean_table_has_no_suspects(flats, tmp_path):
    folder, _, _ = flats
    heading, *lines = (folder / "data.csv").read_text().splitlines()
    model = easyfirst.load(folder / "run" / "model.safetensors")
    weights = model.regressor_.weights_
    fitted = np.delete(np.arange(400), 5)
    clean = [lines[i] for i, weight in zip(fitted, weights, strict=True) if weight > 0.9]
    (tmp_path / "clean.csv").write_text("\n".join([heading, *clean]))
    done = run("suspects", folder / "run", tmp_path / "clean.csv")
    assert done.stdout == f"None of the {len(clean)} rows looks wrong.\n"
    for ending in ("csv", "json", "parquet"):
        path = tmp_path / f"none.{ending}"
        done = run("suspects", folder / "run", tmp_path / "clean.csv", "--values", "-o", path)
        assert done.exit_code == 0, done.output
    assert (tmp_path / "none.csv").read_text().startswith('"row_id","line","is_label_issue"')
    assert json.loads((tmp_path / "none.json").read_text()) == []
    assert pq.read_schema(tmp_path / "none.parquet").field("weight").type == "double"


# Inspect


def test_inspect_says_what_the_model_is_when_and_how_it_was_fitted(flats):
    folder, _, _ = flats
    done = run("inspect", folder / "run", "--coefficients")
    assert done.exit_code == 0
    for part in (
        "a regression on a raw table",
        "fitted at:",
        "rows:                      399",
        "Converged",
        "target:                    price",
        "2 columns for categories compared with",
        "city=Bonn",
    ):
        assert part in done.stdout, part


def test_inspect_reads_bare_models_and_prints_json(tmp_path):
    model = easyfirst.SelfPacedRegressor().fit(np.arange(20.0)[:, None], np.arange(20.0))
    model.save(tmp_path / "m.safetensors")
    found = json.loads(run("inspect", tmp_path / "m.safetensors", "--json").stdout)
    assert found["kind"] == "a regression on numbers"
    assert found["coefficients"][0]["coef"] == pytest.approx(1.0)
    assert found["rows"] == 20


# Compare and demo


def test_compare_orders_the_methods_by_their_error(flats):
    folder, _, _ = flats
    arguments = ["compare", folder / "data.csv", "-t", "price", "--exclude", "flat", "--folds", 2]
    done = run(*arguments, "--methods", "ols,easyfirst", "--share", "0.7")
    assert done.exit_code == 0, done.output
    assert "Held-out error of the best 70 % of the rows" in done.stdout
    assert done.stdout.index("easyfirst") < done.stdout.index("least squares")


def test_compare_prints_json_and_says_that_it_took_a_sample(flats):
    folder, _, _ = flats
    arguments = ["compare", folder / "data.csv", "-t", "price", "--methods", "ols", "--json"]
    done = run(*arguments, "--sample", 100, "--folds", 2)
    found = json.loads(done.stdout)
    assert (found["rows"], found["compared"]) == (399, 100)
    assert len(found["scores"][0]["errors"]) == 2
    assert "compared on 100 of 399 rows" in done.stderr


@pytest.mark.slow
def test_the_demo_finds_the_corrupted_rows(tmp_path):
    done = entry("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "SelfPacedRegressor" in done.stdout
    assert "rows aside" in done.stdout
    assert list(tmp_path.iterdir()) == []


# The real entry point


def test_fit_predict_and_suspects_work_one_after_another(tmp_path):
    write_flats(tmp_path / "data.csv", 200)
    fitted = entry("fit", "data.csv", "-t", "price", "-o", "run", cwd=tmp_path)
    assert fitted.returncode == 0, fitted.stderr
    assert {each.name for each in (tmp_path / "run").iterdir()} == WRITTEN
    predicted = entry("predict", "run", "data.csv", cwd=tmp_path)
    assert predicted.returncode == 0
    assert len(predicted.stdout.splitlines()) == 201
    assert entry("suspects", "run", "data.csv", "-o", "bad.csv", cwd=tmp_path).returncode == 0
    assert isinstance(easyfirst.load(tmp_path / "run" / "model.safetensors"), TableModel)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["fit", "data.csv", "-t", "pirce"], 3, "did you mean 'price'?"),
        (["fit", "data.csv"], 2, "Missing option '-t' / '--target'"),
        (["inspect", "data.csv"], 4, "data.csv"),
        (["fit", "data.csv", "-t", "price", "-o", "data.csv/run"], 5, "not a directory"),
    ],
)
def test_a_mistake_ends_with_a_message_its_code_and_no_traceback(
    tmp_path, arguments, code, message
):
    write_flats(tmp_path / "data.csv", 50)
    done = entry(*arguments, cwd=tmp_path)
    assert done.returncode == code
    assert message in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["data.csv"]


@pytest.mark.parametrize("stage", ["Reading", "Fitting", "Writing the report"])
def test_ctrl_c_leaves_a_clean_state(tmp_path, stage):
    write_flats(tmp_path / "data.csv", 3000)
    assert interrupted(tmp_path, stage, signal.SIGINT) == 130
    assert [each.name for each in tmp_path.iterdir()] == ["data.csv"]


def test_termination_leaves_a_clean_state(tmp_path):
    write_flats(tmp_path / "data.csv", 3000)
    assert interrupted(tmp_path, "Writing the report", signal.SIGTERM) == 143
    assert [each.name for each in tmp_path.iterdir()] == ["data.csv"]


# The command, which gets a signal the moment it announces a stage, however fast it is.
SIGNALLED = """
import os, sys
from easyfirst.cli.main import main

stage, number = sys.argv.pop(1), int(sys.argv.pop(1))
write = sys.stderr.write

def watched(text):
    written = write(text)
    if text.startswith(stage):
        os.kill(os.getpid(), number)
    return written

sys.stderr.write = watched
main()
"""


def interrupted(folder: Path, stage: str, number: int) -> int:
    """Send a signal when the fit reaches a stage; return the exit code."""
    arguments = [stage, str(int(number)), "fit", "data.csv", "-t", "price"]
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED, *arguments],
        cwd=folder,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert stage in done.stderr
    assert "Traceback" not in done.stderr
    return done.returncode


def test_a_closed_pipe_is_no_failure_of_ours(flats):
    folder, _, _ = flats
    arguments = [sys.executable, "-m", "easyfirst.cli.main", "predict", "run", "data.csv"]
    with subprocess.Popen(
        arguments, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        message = process.stderr.read()
    assert b"Traceback" not in message


def test_the_package_runs_as_a_command(tmp_path):
    arguments = [sys.executable, "-m", "easyfirst", "--version"]
    done = subprocess.run(
        arguments, cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("easyfirst")


def test_a_defect_names_itself_and_shows_its_place_on_request(monkeypatch, tmp_path):
    write_flats(tmp_path / "data.csv", 50)

    def broken(*arguments, **options):
        raise KeyError("inner")

    monkeypatch.setattr("easyfirst.tables.runs.open_table", broken)
    arguments = ["fit", tmp_path / "data.csv", "-t", "price", "-o", tmp_path / "run"]
    done = run(*arguments)
    assert done.exit_code == 1
    assert "KeyError: 'inner'" in done.stderr
    assert "easyfirst --debug" in done.stderr
    assert isinstance(run("--debug", *arguments).exception, KeyError)
