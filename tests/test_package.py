"""What an import loads, and what the package ships."""

import os
import subprocess
import sys
from importlib import resources

import pytest

import easyfirst

FORBIDDEN = ["dask", "distributed", "matplotlib", "pandas", "polars", "pyarrow", "pyspark", "ray"]


@pytest.fixture
def stubs(tmp_path):
    """Empty packages of the forbidden names: also an import that expects to fail is seen."""
    for name in FORBIDDEN:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    return tmp_path


def loaded_after(code, stubs):
    program = f"import sys\n{code}\nprint(*(n for n in {FORBIDDEN} if n in sys.modules))"
    source = os.fspath(resources.files(easyfirst).joinpath(".."))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.fspath(stubs), source])}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_the_stubs_are_noticed(stubs):
    assert loaded_after("import dask, ray", stubs) == ["dask", "ray"]


def test_importing_easyfirst_loads_no_cluster_plotting_or_dataframe_library(stubs):
    # scikit-learn itself loads pandas where it is installed; nothing may come on top of that.
    unavoidable = loaded_after("import sklearn.utils.validation", stubs)
    assert set(unavoidable) <= {"pandas"}
    everything = "import easyfirst\nfor name in easyfirst.__all__: getattr(easyfirst, name)"
    assert loaded_after(everything, stubs) == unavoidable
    assert loaded_after("import easyfirst", stubs) == []


@pytest.mark.parametrize("bend", [0.0, 3.0])
def test_a_fit_loads_trees_only_where_the_residuals_depend_on_x(bend):
    program = f"""
import sys
import numpy as np
import sklearn.linear_model
before = set(sys.modules)
from easyfirst import SelfPacedRegressor
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 3))
y = X @ [1.0, 2.0, 3.0] + {bend} * X[:, 0] * X[:, 1] + rng.normal(size=400)
SelfPacedRegressor().fit(X, y)
print(*(name for name in set(sys.modules) - before if name.startswith("sklearn.")))
"""
    quiet = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=quiet, capture_output=True, text=True, check=True
    )
    assert ("sklearn.tree" in done.stdout.split()) == (bend > 0)
    assert bend > 0 or not done.stdout.split()


def test_the_package_is_marked_as_typed():
    assert resources.files(easyfirst).joinpath("py.typed").is_file()


def test_every_public_name_exists():
    for name in easyfirst.__all__:
        assert hasattr(easyfirst, name)
    for module in ("losses", "regularizers", "schedules", "penalties", "engines", "sources"):
        assert module in easyfirst.__all__
