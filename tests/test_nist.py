"""Correct digits on NIST's reference data sets, for any number of batches."""

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest

from easyfirst import SelfPacedRegressor
from easyfirst.schedules import Constant

DATA = Path(__file__).parent / "data" / "nist_strd"
DEGREE = {"norris": 1, "pontius": 2, "filip": 10} | {f"wampler{k}": 5 for k in range(1, 6)}
NAMES = ["longley", "noint1", "noint2", *DEGREE]


@pytest.fixture(scope="module")
def certified():
    return json.loads((DATA / "certified.json").read_text())


def load(name):
    """X without a column of ones, and y."""
    with (DATA / f"{name}.csv").open(encoding="utf-8-sig", newline="") as file:
        table = np.array(list(csv.reader(file))[1:], dtype=float)
    if name not in DEGREE:
        return table[:, 1:], table[:, 0]
    # Powers of the first column: the file's own columns of filip are rounded.
    return table[:, 1:2] ** np.arange(1, DEGREE[name] + 1), table[:, 0]


def correct_digits(found, certified):
    error = np.abs(found - certified) / np.abs(certified)
    return float(np.min(-np.log10(np.maximum(error, 1e-15))))


@pytest.mark.parametrize("n_batches", [1, 2, 4, 8])
@pytest.mark.parametrize("name", NAMES)
def test_every_certified_coefficient_is_met_for_any_number_of_batches(name, n_batches, certified):
    X, y = load(name)
    has_intercept = not name.startswith("noint")
    model = SelfPacedRegressor(
        pace=Constant(math.inf), n_batches=min(n_batches, len(y)), fit_intercept=has_intercept
    ).fit(X, y)
    found = np.append(model.intercept_, model.coef_) if has_intercept else model.coef_
    assert correct_digits(found, np.array(certified[name])) >= (7.5 if name == "filip" else 9.0)
