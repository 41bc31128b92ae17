"""Users who check their own code see the types of what they hand in and get back."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

import easyfirst
from easyfirst import SelfPacedRegressor, load
from easyfirst.tables import TableModel

X: NDArray[np.float64] = np.zeros((3, 1))
frame = pl.DataFrame({"x": [1.0, 2.0], "y": [1.0, 2.0]})

model = SelfPacedRegressor().fit(X, [1.0, 2.0, 3.0])
reveal_type(model)
reveal_type(model.predict(X))
reveal_type(model.predict([[1.0]]))
reveal_type(model.predict(frame))
reveal_type(model.predict_interval(X))
reveal_type(model.suspects(frame, frame["y"]))
reveal_type(model.suspects(X, [1.0, 2.0, 3.0], top=2))
reveal_type(easyfirst.suspects(model, frame, frame["y"]))

table = TableModel("y").fit(frame)
reveal_type(table.predict(frame))
reveal_type(table.suspects(frame))

reveal_type(load("m.safetensors"))
reveal_type(load("m.safetensors").predict(X))
reveal_type(load("m.safetensors", SelfPacedRegressor))
reveal_type(load("m.safetensors", TableModel).suspects(frame))

model.suspects(X, [1.0], top="three")
load(3)
"""
VECTOR = "numpy.ndarray[tuple[Any, ...], numpy.dtype[numpy.float64]]"
REVEALED = [
    "easyfirst.estimators.regressor.SelfPacedRegressor",
    *[VECTOR] * 4,
    "polars.dataframe.frame.DataFrame",
    "easyfirst.typing.TableOfColumns",
    "polars.dataframe.frame.DataFrame",
    VECTOR,
    "polars.dataframe.frame.DataFrame",
    "easyfirst.estimators.saving.LoadedModel",
    "numpy.ndarray[tuple[Any, ...], numpy.dtype[Any]]",
    "easyfirst.estimators.regressor.SelfPacedRegressor",
    "polars.dataframe.frame.DataFrame",
]


def test_a_user_script_is_checked_with_types_and_wrong_calls_are_found(tmp_path):
    pytest.importorskip("mypy", reason="mypy is part of the 'dev' extra")
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\nignore_missing_imports = true\n")
    cache = Path(__file__).parents[1] / ".mypy_cache" / "user"  # a second run takes seconds
    command = [sys.executable, "-m", "mypy", f"--cache-dir={cache}", "script.py"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900)
    lines = said.stdout.splitlines()
    shown = [line.split('"')[1] for line in lines if "Revealed type" in line]
    assert [each.replace("builtins.", "") for each in shown] == REVEALED, said.stdout + said.stderr
    errors = [line for line in lines if ": error:" in line]
    assert len(errors) == 2, said.stdout
    assert "[call-overload]" in errors[0]
    assert "load" in errors[1]
