"""The files around the code: one version everywhere, and a workflow that runs what CI runs."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import easyfirst

ROOT = Path(__file__).parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VERSION = SETTINGS["project"]["version"]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_one_version_is_in_every_file_that_names_it():
    assert easyfirst.__version__ == VERSION
    assert yaml.safe_load(read("CITATION.cff"))["version"] == VERSION


def test_the_changelog_begins_with_what_is_unreleased_and_dates_every_release():
    first, *releases = re.findall(r"^## (.*)$", read("CHANGELOG.md"), re.MULTILINE)
    assert first == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", title) for title in releases)


def test_the_workflow_runs_the_whole_check_on_every_supported_python():
    job = yaml.safe_load(read(".github/workflows/check.yml"))["jobs"]["check"]
    listed = {
        name.rpartition(" ")[2]
        for name in SETTINGS["project"]["classifiers"]
        if re.search(r":: 3\.\d+$", name)
    }
    assert set(job["strategy"]["matrix"]["python"]) == listed
    assert min(listed, key=lambda text: int(text[2:])) == SETTINGS["project"]["requires-python"][2:]
    assert ".ci/run" in [step.get("run") for step in job["steps"]]


def test_ci_runs_the_command_that_the_readme_gives_to_newcomers():
    assert re.search(r"^\s*make test\b", read("README.md"), re.MULTILINE)
    commands = re.findall(r'^\s*make PYTHON="\$python" (\S+)', read(".ci/run"), re.MULTILINE)
    assert {"test", "test-rest", "docs", "fuzz", "wheel"} <= set(commands)


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda p: p.name)
def test_templates_and_workflows_are_valid_yaml(path):
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


def test_the_hooks_before_a_commit_are_the_linters_of_make_lint():
    (local,) = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"]
    hooks = {hook["entry"].partition(" ")[0] for hook in local["hooks"]}
    lint = read("Makefile").partition("\nlint:")[2].partition("\n\n")[0]
    assert hooks == {f".venv/bin/{name}" for name in re.findall(r"\$\(BIN\)/(\S+)", lint)}


def test_every_file_that_the_image_copies_exists():
    for sources in re.findall(r"^COPY (?!--)(.*) \S+$", read("Dockerfile"), re.MULTILINE):
        for name in sources.split():
            assert (ROOT / name).exists(), name
            assert f"!{name}" in read(".dockerignore").splitlines()
