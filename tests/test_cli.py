"""The command line: quick to answer, clear about what is missing, and able to run a small case."""

import os
import subprocess
import sys
from importlib import resources

import pytest
from click.testing import CliRunner

import easyfirst
from easyfirst.cli.group import easyfirst as command

SOURCE = os.fspath(resources.files(easyfirst))

# The package without what its __init__ loads: shows what the command line itself imports.
ALONE = f"""
import sys, types
package = types.ModuleType("easyfirst")
package.__path__ = [{SOURCE!r}]
sys.modules["easyfirst"] = package
sys.argv = ["easyfirst", *{{arguments!r}}]
for name in {{absent!r}}:
    sys.modules[name] = None
from easyfirst.cli.main import main
try:
    main()
finally:
    heavy = ("numpy", "scipy", "sklearn", "pandas", "pyarrow", "matplotlib", "rich")
    print("loaded:", *(name for name in heavy if sys.modules.get(name)))
"""


def alone(*arguments, absent=()):
    program = ALONE.format(arguments=list(arguments), absent=list(absent))
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


def test_help_lists_the_commands_and_imports_none_of_them():
    done = alone("--help")
    assert done.returncode == 0
    assert "reproduce" in done.stdout
    assert done.stdout.splitlines()[-1] == "loaded:"


@pytest.mark.parametrize("name", ["click", "rich"])
def test_a_missing_extra_is_named_with_the_line_that_installs_it(name):
    done = alone("reproduce", "--help", absent=[name])
    assert done.returncode == 1
    assert "pip install 'easyfirst[tool]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["starlette", "uvicorn"])
def test_the_review_page_names_the_extra_that_it_needs(name):
    done = alone("review", "run", absent=[name])
    assert done.returncode == 1
    assert "pip install 'easyfirst[review]'" in done.stderr


def run(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_the_version_is_that_of_the_package():
    assert run("--version").output == f"easyfirst {easyfirst.__version__}\n"


def test_an_unknown_command_is_an_error():
    assert run("reproduze").exit_code == 2


def test_an_experiment_runs_prints_its_table_and_is_not_run_twice(tmp_path):
    arguments = ["reproduce", "pace", "--quick", "--seeds", "1", "--methods", "oracle,dspl-until"]
    first = run(*arguments, "--out", tmp_path)
    assert first.exit_code == 0, first.output
    assert "oracle" in first.stdout
    assert len(list((tmp_path / "quick").rglob("*.parquet"))) > 5
    again = run(*arguments, "--out", tmp_path)
    assert "Everything is recorded already" in again.output


def test_an_unknown_method_is_refused_with_the_known_ones(tmp_path):
    done = run("reproduce", "batches", "--methods", "magic", "--out", tmp_path)
    assert done.exit_code == 2
    assert "magic" in done.output
    assert "torr25" in done.output


def test_rental_asks_for_its_data(tmp_path):
    done = run("reproduce", "rental", "--out", tmp_path)
    assert done.exit_code == 2
    assert "--data" in done.output


def test_rental_says_which_city_is_missing(tmp_path):
    done = run("reproduce", "rental", "--quick", "--data", tmp_path, "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert "New York City" in done.output


def test_a_report_without_records_says_so(tmp_path):
    done = run("reproduce", "report", "--out", tmp_path / "out", "--docs", tmp_path / "docs")
    assert done.exit_code == 1
    assert "no records" in done.output


def test_the_names_of_the_command_line_are_those_of_the_catalogue():
    from easyfirst.cli.reproduce import EXPERIMENTS
    from easyfirst.experiments.catalogue import NAMES

    assert EXPERIMENTS == NAMES
