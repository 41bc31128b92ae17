"""The documentation: its code runs, its links lead somewhere, and it builds without a warning."""

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))
outputs = importlib.import_module("outputs")
PAGES = sorted(
    path
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    if not {"_build", "gallery"} & set(path.parts)
)
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAME = re.compile(r"`(easyfirst(?:\.[A-Za-z_]\w*)+)")
# Other pages show fragments: calls on data, or on a cluster, that the reader has.
TO_RUN = [
    page
    for page in PAGES
    if page.name in ("README.md", "quick-start.md") or page.parent.name == "guide"
    if CODE.search(page.read_text(encoding="utf-8"))
]


def name(page):
    return page.relative_to(ROOT).as_posix()


def outside_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", TO_RUN, ids=name)
def test_the_code_of_a_page_runs_and_prints_what_the_page_shows(page, tmp_path, monkeypatch):
    pytest.importorskip("pandas", reason="the pages show tables")
    monkeypatch.chdir(tmp_path)
    blocks = outputs.blocks(page.read_text(encoding="utf-8"))
    if page.name == "README.md":
        blocks = blocks[:1]  # the next one needs a cluster
    printed = outputs.run([code for code, _ in blocks], name(page))
    for (code, shown), found in zip(blocks, printed, strict=True):
        assert outputs.alike(shown, found), f"{code}\nshows\n{shown}\nand prints\n{found}"


@pytest.mark.parametrize(
    ("shown", "found", "ok"),
    [
        ("error 0.731\n", "error  0.7312\n", True),
        ("error 0.731\n", "error 0.931\n", False),
        ("error 0.731\n", "mistake 0.731\n", False),
        ("1,234 rows", "1,234 rows", True),
        ("1,234 rows", "2 rows", False),
        ("", "1\n", False),
    ],
)
def test_outputs_are_alike_up_to_last_digits(shown, found, ok):
    assert outputs.alike(shown, found) is ok


def test_outputs_come_below_the_code_that_printed_them():
    page = "# T\n\n```python\nprint(6 * 7)\n```\n\n```python\nx = 1\n```\nend\n"
    once = outputs.refreshed(page, outputs.run([c for c, _ in outputs.blocks(page)], "page"))
    assert once == page.replace("7)\n```\n", "7)\n```\n\n```text\n42\n```\n")
    assert outputs.refreshed(once, ["42\n", ""]) == once


def test_pages_with_code_are_found():
    assert {"README.md", "docs/quick-start.md", "docs/guide/fit.md"} <= set(map(name, TO_RUN))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_to_files_lead_to_files(page):
    text = outside_code(page.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        target = link.partition("#")[0]
        # The gallery is made of the examples when the site is built.
        made = re.sub(r"(\.\./)?gallery/(\w+)\.rst", r"examples/\2.py", target)
        if made != target:
            assert (ROOT / made).exists() or made == "examples/index.py", link
        elif target and "://" not in target:
            assert (page.parent / target).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_name_of_the_package_that_a_page_mentions_exists(page):
    for mentioned in NAME.findall(page.read_text(encoding="utf-8")):
        parts, found = mentioned.split("."), importlib.import_module("easyfirst")
        for depth, part in enumerate(parts[1:], start=2):
            module = ".".join(parts[:depth])
            if not hasattr(found, part) and importlib.util.find_spec(module):
                importlib.import_module(module)
            assert hasattr(found, part), mentioned
            found = getattr(found, part)


def run(*command):
    return subprocess.run(
        [sys.executable, *map(os.fspath, command)], capture_output=True, text=True
    )


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_without_a_broken_link(tmp_path):
    for package in ("sphinx", "myst_parser", "numpydoc", "pydata_sphinx_theme", "sphinx_gallery"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs the docs extra ({package})")
    ignore = shutil.ignore_patterns("_build", "gallery")
    for folder in ("docs", "examples"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignore)
    included = ("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "SECURITY.md")
    for file in ("pyproject.toml", *included):
        shutil.copy(ROOT / file, tmp_path)
    (tmp_path / "src").symlink_to(ROOT / "src")
    site = tmp_path / "site"
    # The examples run in a test of their own.
    built = run("-m", "sphinx", "-q", "-W", "-D", "plot_gallery=0", tmp_path / "docs", site)
    assert built.returncode == 0, built.stderr
    for page in ("index", "guide/fit", "gallery/plot_first_fit", "reference/estimator", "method"):
        assert (site / f"{page}.html").is_file()
    assert "predict_interval" in (site / "reference/estimator.html").read_text(encoding="utf-8")
    checked = run(ROOT / "docs/check_links.py", site)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    ("link", "ok"),
    [("other.html", True), ("other.html#here", True), ("#top", True), ("none.html", False),
     ("other.html#gone", False), ("picture.png", False), ("https://example.org/", True)],
)  # fmt: skip
def test_the_link_checker_finds_what_is_broken(link, ok, tmp_path):
    (tmp_path / "page.html").write_text(f'<p id="top"><a href="{link}">x</a></p>')
    (tmp_path / "other.html").write_text('<p id="here"></p>')
    assert (run(ROOT / "docs/check_links.py", tmp_path).returncode == 0) is ok
