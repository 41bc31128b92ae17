"""Estimators whose plug-ins can be changed by name, as in `set_params(penalty__strength=2.0)`."""

from __future__ import annotations

from typing import Any, Self

from easyfirst.plugins import PlugIn


class PlugInParamsMixin:
    """`set_params` that replaces plug-ins, which never change, instead of changing them."""

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the estimator, or of a plug-in as in `penalty__strength=2.0`."""
        model: Any = self
        inner: dict[str, dict[str, Any]] = {}
        outer: dict[str, Any] = {}
        for key, value in params.items():
            name, _, parameter = key.partition("__")
            if parameter and name in model.get_params(deep=False):
                inner.setdefault(name, {})[parameter] = value
            else:
                outer[key] = value
        parent: Any = super()
        parent.set_params(**outer)  # first: a new plug-in may come with changes to it
        for name, changes in inner.items():
            setattr(self, name, _changed(name, getattr(self, name), changes))
        return self


def _changed(name: str, value: Any, changes: dict[str, Any]) -> Any:
    """Return a parameter's value with parameters of its own changed."""
    if isinstance(value, PlugIn):
        return value.set_params(**changes)
    if hasattr(value, "set_params"):
        return value.set_params(**changes)
    raise ValueError(
        f"{name}__{next(iter(changes))} cannot be set because {name} is {value!r}, which has no "
        f"parameters: give the estimator a {name} first, such as one from easyfirst"
    )
