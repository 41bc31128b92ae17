"""A fitted classifier as JSON state and named arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from easyfirst.consensus.history import IterationRecord, RoundRecord
from easyfirst.estimators import serialization
from easyfirst.estimators.records import records_to_arrays, take
from easyfirst.estimators.serialization import Arrays, State
from easyfirst.estimators.settings import settings_from_json, settings_to_json
from easyfirst.files import texts_from_array, texts_to_array
from easyfirst.local.label_rates import Middles, RatesByColumns

if TYPE_CHECKING:
    from easyfirst.estimators.classifier import SelfPacedClassifier

KIND = "self-paced-classifier"
ROUNDING = 1e-9  # of sums of probabilities


def serialize_classifier(model: Any, weights: bool = True) -> tuple[State, Arrays]:
    """Return a fitted classifier as JSON state and named arrays."""
    from easyfirst.estimators.classifier import SelfPacedClassifier

    check_is_fitted(model)
    if type(model) is not SelfPacedClassifier:
        raise TypeError(
            f"a model file holds a SelfPacedClassifier, and {type(model).__name__} may be more "
            f"than that: use to_sklearn() to pass the coefficients on"
        )
    twin, by_class = copy(model), None
    if isinstance(model.class_weight, dict):
        by_class = [float(model.class_weight.get(name, 1.0)) for name in model.classes_.tolist()]
        twin.class_weight = None
    settings, left_out = settings_to_json(twin)
    note = vars(model).get("_fit_note")
    state: State = {
        "settings": settings,
        "left_out": left_out,
        "class_weight": by_class,
        "classes": _plain_classes(model.classes_),
        "fitted": None if note is None else asdict(note),
        "saved_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": serialization.versions(),
        "status": asdict(model.status_),
        "doubts": list(model.doubts_),
        "notes": list(model.notes_),
        "rows_digest": vars(model).get("_rows_digest"),
        "rounds": len(model.history_.rounds),
        "iterations": len(model.history_.iterations),
    }
    arrays: Arrays = {
        "coef": model.coef_,
        "intercept": model.intercept_,
        "pace": np.array(model.pace_, dtype=np.float64),
        "batch_clean_share": model.batch_clean_share_,
        **records_to_arrays(model.history_.rounds, RoundRecord, "rounds"),
        **records_to_arrays(model.history_.iterations, IterationRecord, "iterations"),
    }
    if hasattr(model, "label_noise_"):
        arrays["label_noise"] = model.label_noise_
        arrays["corrupted"] = np.array([model.corrupted_fraction_, *model.corrupted_interval_])
    rates = vars(model).get("_rates_by_columns")
    if rates is not None:
        names = ("rate_middle", "rate_scale", "rate_right", "rate_errors")
        arrays |= dict(zip(names, rates.parts, strict=True))
    if hasattr(model, "feature_names_in_"):
        arrays["feature_names"] = texts_to_array(list(model.feature_names_in_))
    if weights and "weights_" in vars(model):
        arrays["weights"] = model.weights_
        places = np.searchsorted(model.classes_, model.suggested_labels_)
        arrays["suggested"] = places.astype(np.int64)
    return state, arrays


def deserialize_classifier(state: Mapping[str, Any], arrays: Arrays) -> SelfPacedClassifier:
    """Return the classifier, or raise an error if they do not describe one."""
    from easyfirst.estimators.classifier import SelfPacedClassifier

    model: SelfPacedClassifier = settings_from_json(SelfPacedClassifier, state["settings"])
    model._checked()
    model.classes_ = _classes(state["classes"])
    n_classes = model.classes_.size
    by_class = state["class_weight"]
    if by_class is not None:
        names = model.classes_.tolist()
        model.class_weight = dict(zip(names, map(float, by_class), strict=True))
    lines = 1 if n_classes == 2 else n_classes
    model.coef_ = _finite("coef", take(arrays, "coef", np.float64, (lines, None)))
    model.intercept_ = _finite("intercept", take(arrays, "intercept", np.float64, (lines,)))
    model.pace_ = float(take(arrays, "pace", np.float64, ()))
    model.n_features_in_ = model.coef_.shape[1]
    if "feature_names" in arrays:
        texts = texts_from_array(arrays["feature_names"], model.n_features_in_)
        model.feature_names_in_ = np.array(texts, dtype=object)
    serialization.restore_story(model, state, arrays)
    model.batch_clean_share_ = _shares(
        "batch_clean_share", take(arrays, "batch_clean_share", np.float64, (None,))
    )
    if "label_noise" in arrays:
        _restore_noise(model, arrays, n_classes)
    if "rate_errors" in arrays:
        model._rates_by_columns = _rates(arrays, n_classes, model.n_features_in_)
    if "weights" in arrays:
        model.weights_ = _shares("weights", take(arrays, "weights", np.float64, (None,)))
        model.selected_ = model.weights_ >= 0.5
        places = take(arrays, "suggested", np.int64, (model.weights_.size,))
        if np.any(places < 0) or np.any(places >= n_classes):
            raise ValueError("its suggested labels are of no class that it has")
        model.suggested_labels_ = model.classes_[places]
    return model


def _restore_noise(model: Any, arrays: Arrays, n_classes: int) -> None:
    noise = _shares("label_noise", take(arrays, "label_noise", np.float64, (n_classes, n_classes)))
    if np.any(np.abs(noise.sum(axis=1) - 1.0) > ROUNDING):
        raise ValueError("the lines of its label_noise do not add up to one")
    share, low, high = _shares("corrupted", take(arrays, "corrupted", np.float64, (3,))).tolist()
    model.label_noise_ = noise
    model.corrupted_fraction_, model.corrupted_interval_ = share, (low, high)


def _rates(arrays: Arrays, n_classes: int, n_columns: int) -> RatesByColumns:
    """Return rates of wrong labels that follow the columns; older files hold none."""
    sizes = {"rate_middle": 0, "rate_scale": 0, "rate_right": 2, "rate_errors": 2}
    middle, scale, right, rates = (
        _finite(name, take(arrays, name, np.float64, (n_columns + more,)))
        for name, more in sizes.items()
    )
    if n_classes != 2 or np.any(scale <= 0.0):
        raise ValueError("its rates of wrong labels do not belong to its classes and columns")
    return RatesByColumns(Middles(middle, scale), right, rates)


def _plain_classes(classes: NDArray[Any]) -> dict[str, Any]:
    """Return labels as JSON; what is neither number nor text has no place in a model file."""
    names = classes.tolist()
    if classes.dtype.kind in "biuf" or all(isinstance(name, str) for name in names):
        kinds = {"O": "objects", "U": "texts"}
        kind = kinds.get(classes.dtype.kind, classes.dtype.str)
        return {"kind": kind, "names": names}
    raise TypeError(
        f"a model file holds labels that are numbers, truth values or texts, and these are "
        f"{classes.dtype}: use to_sklearn() to pass the coefficients on"
    )


def _classes(stored: Any) -> NDArray[Any]:
    names, kind = list(stored["names"]), stored["kind"]
    if kind in ("texts", "objects"):
        if not all(isinstance(name, str) for name in names):
            raise ValueError("its classes are not texts")
        classes = np.array(names, dtype=object if kind == "objects" else str)
    else:
        dtype = np.dtype(kind)
        if dtype.kind not in "biuf":
            raise ValueError(f"its classes are {kind!r:.20}")
        classes = np.array(names, dtype=dtype)
    if classes.size < 2 or classes.ndim != 1 or np.any(classes[:-1] >= classes[1:]):
        raise ValueError("its classes are not at least two labels in order")
    return classes


def _finite(name: str, values: NDArray[Any]) -> NDArray[Any]:
    if not np.all(np.isfinite(values)):
        raise ValueError(f"array {name!r} holds values that are not finite")
    return values


def _shares(name: str, values: NDArray[Any]) -> NDArray[Any]:
    if not np.all((values >= 0) & (values <= 1 + ROUNDING)):
        raise ValueError(f"array {name!r} holds values that do not lie between 0 and 1")
    return values
