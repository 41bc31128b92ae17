"""Fitted models as files, and as plain scikit-learn models."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.utils.validation import check_is_fitted

from easyfirst import files
from easyfirst.errors import ModelFileError
from easyfirst.estimators.contents import Arrays, Facts, regressor_to_contents
from easyfirst.files.layout import PathLike

KIND = "self-paced-regressor"

# What `load` knows: the kind of a file, the module that understands it, and its function from
# (facts, arrays) to the model. Modules are named, because some lie above this one.
LOADERS: dict[str, tuple[str, str]] = {
    KIND: ("easyfirst.estimators.contents", "regressor_from_contents"),
    "table-model": ("easyfirst.tables.saving", "table_model_from_contents"),
}

# What building a model out of wrong contents can run into.
WRONG_CONTENTS = (
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
        a damaged one is refused. Every fitted attribute comes back with the same bits. Of the
        parameters, callbacks, engine instances and random generators are left out, because they
        belong to this process; a loaded model has the defaults in their place.

        Parameters
        ----------
        path
            Where the file shall be; by custom it ends in `.safetensors`.
        overwrite
            Whether a file that is already there may be replaced.
        weights
            Whether to store the weight of every training row (8 bytes each). Without, a loaded
            model has no `weights_` and no `selected_`, and all else.

        Examples
        --------
        >>> import tempfile
        >>> from easyfirst import SelfPacedRegressor, load
        >>> model = SelfPacedRegressor().fit([[0.0], [1.0], [2.0], [3.0]], [1.0, 3.0, 5.0, 7.0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model.safetensors")
        ...     again = load(f"{folder}/model.safetensors")
        >>> bool(again.coef_ == model.coef_)
        True
        """
        facts, arrays = regressor_to_contents(self, weights)
        files.write(path, KIND, facts, arrays, overwrite)

    def to_sklearn(self) -> LinearRegression:
        """Return scikit-learn's `LinearRegression` with these coefficients.

        It makes the same predictions and needs no easyfirst, so whatever works with
        scikit-learn's linear models (ONNX converters, for one) works with it.
        """
        check_is_fitted(self)
        model: Any = self
        plain = LinearRegression(fit_intercept=bool(model.fit_intercept))
        plain.coef_ = model.coef_.copy()
        plain.intercept_ = np.float64(model.intercept_)  # some converters want NumPy's type
        plain.n_features_in_ = model.n_features_in_
        if hasattr(model, "feature_names_in_"):
            plain.feature_names_in_ = model.feature_names_in_.copy()
        return plain


def load(path: PathLike) -> Any:
    """Return the model that a file holds.

    Whatever is not a sound model file is refused with one `ModelFileError` that says what is
    wrong. Loading runs no code from the file. It does not prove who wrote the file: a model from
    a stranger is as safe to load as a table of numbers, and as much to be trusted.

    Parameters
    ----------
    path
        A file written by `save`.
    """
    contents = files.read(path)
    if contents.kind not in LOADERS:
        raise ModelFileError(
            f"{path} holds a {contents.kind[:40]!r}, and this version of easyfirst knows "
            f"{', '.join(map(repr, LOADERS))}; upgrade easyfirst, or give another file"
        )
    try:
        return _loader(contents.kind)(contents.facts, contents.arrays)
    except ImportError as error:
        raise ImportError(
            f"{path} holds a {contents.kind}, which needs the 'tool' extra ({error}): "
            f"pip install 'easyfirst[tool]'"
        ) from error
    except WRONG_CONTENTS as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ModelFileError(
            f"{path} is complete, but it does not describe a {contents.kind}: {what}; take "
            f"another copy, or fit and save the model again"
        ) from error


def _loader(kind: str) -> Callable[[Facts, Arrays], Any]:
    module, name = LOADERS[kind]
    loader: Callable[[Facts, Arrays], Any] = getattr(importlib.import_module(module), name)
    return loader
