"""What losses, regularizers, schedules and penalties share: parameters that can be searched."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, Self


class PlugIn:
    """A value that configures an estimator: it never changes, and a search can vary its parameters.

    `estimator.set_params(penalty__strength=2.0)` puts a changed copy in the place of the
    estimator's penalty, so `GridSearchCV` can search over `penalty__strength`.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep
            For scikit-learn; the parameters of a plug-in have no parameters of their own.
        """
        del deep
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **changes: Any) -> Self:
        """Return a copy with other parameters; the plug-in itself stays as it is."""
        known = self.get_params()
        for name in changes:
            if name not in known:
                listed = ", ".join(map(repr, known)) or "none"
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}; its parameters: {listed}"
                )
        return type(self)(**(known | changes)) if changes else self

    def __sklearn_clone__(self) -> Self:
        return self

    @classmethod
    def _parameter_names(cls) -> list[str]:
        if dataclasses.is_dataclass(cls):
            return [field.name for field in dataclasses.fields(cls) if field.init]
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        parameters = inspect.signature(cls).parameters.values()
        return [each.name for each in parameters if each.kind in named]
