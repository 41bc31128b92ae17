"""An estimator's constructor parameters as plain data, and back.

Losses, penalties, regularizers and schedules are stored by the name of their class and their
fields. Only classes of this package have a name here, so a file cannot ask for any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from easyfirst import losses, penalties, regularizers, schedules

KINDS = (
    losses.Loss,
    penalties.Penalty,
    regularizers.SelfPacedRegularizer,
    schedules.PaceSchedule,
)
# What the check of the other parameters leaves to the engine and to scikit-learn.
SESSION: dict[str, type] = {"engine": str, "n_jobs": int, "random_state": int, "verbose": int}
NOT_FINITE = ["inf", "-inf", "nan"]
PLUG_INS: dict[str, type[Any]] = {
    name: member
    for module in (losses, penalties, regularizers, schedules)
    for name, member in vars(module).items()
    if isinstance(member, type) and issubclass(member, KINDS) and is_dataclass(member)
    if not name.startswith("_")
}


def settings_to_json(estimator: BaseEstimator) -> tuple[dict[str, Any], list[str]]:
    """Return the parameters that can be stored, and the names of those that were left out.

    What belongs to a session rather than to the model is left out: callbacks, engine instances,
    random generators. A plug-in of the user's own is refused, because whoever loads the file may
    not have it.
    """
    stored, left_out = {}, []
    for name, value in estimator.get_params(deep=False).items():
        if _belongs_to_the_session(name, value):
            left_out.append(name)
        else:
            stored[name] = _to_plain(name, value)
    return stored, left_out


def settings_from_json(kind: type[BaseEstimator], given: Mapping[str, Any]) -> Any:
    """Return an unfitted estimator; what `given` does not name has its default."""
    unknown = sorted(set(given) - set(kind().get_params(deep=False)))
    if unknown:
        raise ValueError(f"{kind.__name__} has no parameter {unknown[0]!r}")
    for name, allowed in SESSION.items():
        if not isinstance(given.get(name), allowed | None):
            raise ValueError(f"parameter {name!r} is {given[name]!r:.60}")
    return kind(**{name: _from_plain(name, value) for name, value in given.items()})


def _belongs_to_the_session(name: str, value: object) -> bool:
    if name == "engine":
        return not isinstance(value, str)
    return isinstance(value, np.random.RandomState) or (name == "callbacks" and bool(value))


def _to_plain(name: str, value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple) and not value:  # no callbacks
        return None
    if PLUG_INS.get(type(value).__name__) is type(value):
        parts = {part.name: getattr(value, part.name) for part in fields(value)}
        return {
            "class": type(value).__name__,
            "fields": {part: _to_plain(f"{name}.{part}", inner) for part, inner in parts.items()},
        }
    raise TypeError(
        f"{name}={value!r} cannot be stored in a model file, which holds numbers, strings and the "
        f"plug-ins of easyfirst: use to_sklearn() to pass the coefficients on, or "
        f"set_params({name.partition('.')[0]}=None) before saving"
    )


def _from_plain(name: str, value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"class", "fields"}:
        kind, inner = value["class"], value["fields"]
        if kind not in list(PLUG_INS) or not isinstance(inner, dict):
            raise ValueError(f"parameter {name!r} is of no class that easyfirst has")
        return PLUG_INS[kind](**{part: _number(part, inner[part]) for part in inner})
    return value if isinstance(value, str) else _number(name, value)


def _number(name: str, value: Any) -> float | None:
    if isinstance(value, dict) and set(value) == {"float"} and value["float"] in NOT_FINITE:
        return float(value["float"])
    if value is None or isinstance(value, bool | int | float):
        return value
    raise ValueError(f"{name!r} is {value!r:.60} instead of a number")
