"""Fitted models as files, and as plain scikit-learn models."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from numpy.typing import NDArray

from easyfirst.errors import ModelFileError
from easyfirst.typing import TableOfColumns

if TYPE_CHECKING:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.linear_model import LinearRegression

    from easyfirst.estimators.serialization import Arrays, State
    from easyfirst.files.layout import PathLike

KIND = "self-paced-regressor"

# What `load` knows: the kind of a file, the module that understands it, and its function from
# (state, arrays) to the model. Modules are named, because some lie above this one.
LOADERS: dict[str, tuple[str, str]] = {
    KIND: ("easyfirst.estimators.serialization", "deserialize_regressor"),
    "self-paced-classifier": (
        "easyfirst.estimators.label_serialization",
        "deserialize_classifier",
    ),
    "table-model": ("easyfirst.tables.saving", "deserialize_table_model"),
}

# What building a model out of wrong contents can run into.
INVALID_DATA = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


class SavingMixin:
    """`save` and `to_sklearn` for fitted models."""

    def save(self, path: PathLike, *, overwrite: bool = False, weights: bool = True) -> None:
        """Write the fitted model to a file that `easyfirst.load` reads.

        The file is a safetensors file with a digest: it holds numbers and text, never code, and
        a damaged one is refused. Every fitted attribute comes back bit-for-bit identical. Of the
        parameters, callbacks, engine instances and random generators are left out, because they
        belong to this process; a loaded model has the defaults in their place.

        Parameters
        ----------
        path
            Where to write; by convention the name ends in `.safetensors`.
        overwrite
            Whether a file that is already there may be replaced.
        weights
            Whether to store the weight of every training row (8 bytes each). Without, a loaded
            model has no `weights_` and no `selected_`, and all else.

        Examples
        --------
        >>> import tempfile
        >>> from easyfirst import SelfPacedRegressor, load
        >>> X = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0]]
        >>> model = SelfPacedRegressor().fit(X, [1.1, 2.9, 5.0, 7.1, 9.0, 10.8, 13.0, 15.1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model.safetensors")
        ...     again = load(f"{folder}/model.safetensors")
        >>> bool(again.coef_ == model.coef_)
        True
        """
        # Loaded on demand, as all that a fit does not need.
        from easyfirst import files
        from easyfirst.estimators.serialization import serialize_regressor

        state, arrays = serialize_regressor(self, weights)
        files.write(path, KIND, state, arrays, overwrite)

    def to_sklearn(self) -> LinearRegression | TransformedTargetRegressor:
        """Return scikit-learn's `LinearRegression` with these coefficients.

        It makes the same predictions and needs no easyfirst, so whatever works with
        scikit-learn's linear models (ONNX converters, for one) works with it. A model of log(y)
        becomes a `TransformedTargetRegressor` around it, which ONNX converters refuse: convert its
        `regressor_`, and take the exponential of what that returns.
        """
        # Loaded on demand: half of scikit-learn comes with it.
        from easyfirst.estimators.as_sklearn import as_sklearn

        return as_sklearn(self)


class LoadedModel(Protocol):
    """What the models of all kinds of file have."""

    def predict(self, X: Any, /) -> NDArray[Any]:
        """Return the prediction for each row."""
        ...

    def suspects(self, X: Any, /, *, top: int | None = None) -> TableOfColumns:
        """Return the rows that look wrong, the worst first."""
        ...

    def save(self, path: PathLike, *, overwrite: bool = False, weights: bool = True) -> None:
        """Write the model to a file."""
        ...


Model = TypeVar("Model")


@overload
def load(path: PathLike) -> LoadedModel: ...


@overload
def load(path: PathLike, kind: type[Model]) -> Model: ...


def load(path: PathLike, kind: type[Any] | None = None) -> Any:
    """Return the model that a file holds.

    Whatever is not a sound model file is refused with one `ModelFileError` that says what is
    wrong. Loading runs no code from the file. It does not prove who wrote the file: a model from
    a stranger is as safe to load as a table of numbers, and deserves as much trust.

    Parameters
    ----------
    path
        A file written by `save`.
    kind
        The class that the model must be of, such as `SelfPacedRegressor`: a file of another kind
        is refused, and type checkers know what comes back.

    Examples
    --------
    >>> import tempfile
    >>> from easyfirst import SelfPacedRegressor, load
    >>> X = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0]]
    >>> model = SelfPacedRegressor().fit(X, [0.0, 1.1, 1.9, 3.0, 4.1, 5.0, 5.9, 7.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/m.safetensors")
    ...     again = load(f"{folder}/m.safetensors", SelfPacedRegressor)
    >>> bool((again.coef_ == model.coef_).all())
    True
    """
    from easyfirst import files

    contents = files.read(path)
    if contents.kind not in LOADERS:
        raise ModelFileError(
            f"{path} holds a {contents.kind[:40]!r}, and this version of easyfirst knows "
            f"{', '.join(map(repr, LOADERS))}; upgrade easyfirst, or give another file"
        )
    try:
        model = _loader(contents.kind)(contents.state, contents.arrays)
    except ImportError as error:
        raise ImportError(
            f"{path} holds a {contents.kind}, which needs the 'tool' extra ({error}): "
            f"pip install 'easyfirst[tool]'"
        ) from error
    except INVALID_DATA as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ModelFileError(
            f"{path} is complete, but it does not describe a {contents.kind}: {what}; take "
            f"another copy, or fit and save the model again"
        ) from error
    if kind is not None and not isinstance(model, kind):
        raise TypeError(f"{path} holds a {type(model).__name__}, not a {kind.__name__}")
    return model


def _loader(kind: str) -> Callable[[State, Arrays], Any]:
    module, name = LOADERS[kind]
    loader: Callable[[State, Arrays], Any] = getattr(importlib.import_module(module), name)
    return loader
