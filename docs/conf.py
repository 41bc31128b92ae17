"""How Sphinx builds the site: `make docs`."""

import os
import re
import sys
import tomllib
import warnings
from pathlib import Path

HERE = Path(__file__).parent
# Examples start worker processes, which read the environment rather than sys.path.
os.environ["PYTHONPATH"] = os.fspath(HERE.parent / "src")
sys.path.insert(0, os.environ["PYTHONPATH"])

project = "easyfirst"
author = "The easyfirst developers"
copyright = author  # Sphinx's own name for it
with open(HERE.parent / "pyproject.toml", "rb") as file:
    release = version = tomllib.load(file)["project"]["version"]

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
toc_object_entries_show_parents = "hide"
default_role = "py:obj"  # a name in backticks becomes a link where there is something to link to

myst_heading_anchors = 3

copybutton_exclude = ".linenos, .gp, .go"  # prompts and outputs stay on the page
copybutton_selector = "div:not(.highlight-text):not(.output) > div.highlight pre"

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # types are in the source; signatures with them fill the screen
numpydoc_show_class_members = False  # methods follow one by one

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,  # how long a script took says more about the machine
    "within_subsection_order": "ExampleTitleSortKey",
}

html_theme = "pydata_sphinx_theme"
html_title = "easyfirst"
html_static_path = ["_static"]
html_css_files = ["easyfirst.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

QUOTED = re.compile(r"(``.*?``|`[^`]*`)")


def escape_formulas(app, what, name, obj, options, lines):
    """Let formulas in docstrings through: a power is not bold, |x| is not a substitution."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = QUOTED.split(line)
            parts[::2] = [re.sub(r"([*|])", r"\\\1", part) for part in parts[::2]]
            lines[number] = "".join(parts)


def setup(app):
    """Run before numpydoc, which writes bold names itself."""
    app.connect("autodoc-process-docstring", escape_formulas, priority=100)
