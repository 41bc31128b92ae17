"""The one list of methods, which the experiments, `easyfirst compare` and the docs go by.

Each module of `easyfirst.baselines` lists in `METHODS` the ways in which its estimator is run, and
all of them are found here: a new baseline is one file.
"""

from __future__ import annotations

import importlib
import pkgutil

from easyfirst import baselines
from easyfirst.baselines.method import Method


def _found() -> dict[str, Method]:
    names = [each.name for each in pkgutil.iter_modules(baselines.__path__)]
    found: list[Method] = []
    for name in names:
        if f"easyfirst.baselines.{name}" != __name__:
            module = importlib.import_module(f"easyfirst.baselines.{name}")
            found += vars(module).get("METHODS", ())
    return {each.name: each for each in sorted(found, key=lambda method: method.order)}


METHODS = _found()
COMPARED = {each.compare[0]: each for each in METHODS.values() if each.compare is not None}


def run_in(experiment: str) -> tuple[str, ...]:
    """Return the names of the methods that run in an experiment, in the order of its tables."""
    return tuple(each.name for each in METHODS.values() if experiment in each.experiments)
