"""A fitted regressor as JSON state and named arrays, and back.

What can be computed from the rest is not stored: a loaded model recomputes it, bit-for-bit as
`fit` did. Files may come from anywhere, so everything is checked.
"""

from __future__ import annotations

import importlib
import platform
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
import sklearn
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from easyfirst.consensus.checks.transforming import Advice
from easyfirst.consensus.fitted import Calibration
from easyfirst.consensus.history import History, IterationRecord, RoundRecord
from easyfirst.consensus.status import Status
from easyfirst.estimators import parameters
from easyfirst.estimators.fit_note import FitNote
from easyfirst.estimators.records import records_from_arrays, records_to_arrays, take
from easyfirst.estimators.settings import settings_from_json, settings_to_json
from easyfirst.estimators.targets import require_one
from easyfirst.files import texts_from_array, texts_to_array
from easyfirst.noise import ScaleRule
from easyfirst.noise.counts import FACTORS, CountNoise
from easyfirst.summaries import N_BINS
from easyfirst.transforms import TRANSFORMS, TargetTransform

if TYPE_CHECKING:
    from easyfirst.estimators.regressor import SelfPacedRegressor

State = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


def serialize_regressor(model: Any, weights: bool = True) -> tuple[State, Arrays]:
    """Return a fitted regressor as JSON state and named arrays."""
    _require_storable(model)
    settings, left_out = settings_to_json(model)
    note = vars(model).get("_fit_note")
    state: State = {
        "settings": settings,
        "left_out": left_out,
        "fitted": None if note is None else asdict(note),
        "saved_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "target_transform": model.target_transform_,
        "advice": _advice_to_json(vars(model).get("_advice")),
        "status": asdict(model.status_),
        "doubts": list(model.doubts_),
        "notes": list(model.notes_),
        "rows_digest": vars(model).get("_rows_digest"),
        "rounds": len(model.history_.rounds),
        "iterations": len(model.history_.iterations),
        "calibrated": hasattr(model, "_calibration"),
    }
    arrays: Arrays = {
        "coef": model.coef_,
        "intercept": np.array(model.intercept_, dtype=np.float64),
        "pace": np.array(model.pace_, dtype=np.float64),
        **records_to_arrays(model.history_.rounds, RoundRecord, "rounds"),
        **records_to_arrays(model.history_.iterations, IterationRecord, "iterations"),
    }
    if hasattr(model, "_calibration"):
        arrays |= records_to_arrays([model._calibration], Calibration, "calibration")
    if hasattr(model, "feature_names_in_"):
        arrays["feature_names"] = texts_to_array(list(model.feature_names_in_))
    if weights and "weights_" in vars(model):
        arrays["weights"] = model.weights_
    return state, arrays


def deserialize_regressor(state: Mapping[str, Any], arrays: Arrays) -> SelfPacedRegressor:
    """Return the regressor, or raise an error if they do not describe one."""
    from easyfirst.estimators.regressor import SelfPacedRegressor

    model: SelfPacedRegressor = settings_from_json(SelfPacedRegressor, state["settings"])
    parameters.checked(model)
    coef = take(arrays, "coef", np.float64, (None,))
    if not coef.size:
        raise ValueError("it has no coefficients")
    model.coef_ = _finite("coef", coef)
    model.intercept_ = float(_finite("intercept", take(arrays, "intercept", np.float64, ())))
    model.pace_ = float(take(arrays, "pace", np.float64, ()))
    model.n_features_in_ = coef.size
    if "feature_names" in arrays:
        names = texts_from_array(arrays["feature_names"], coef.size)
        model.feature_names_in_ = np.array(names, dtype=object)
    model.target_transform_ = _transform(state.get("target_transform"))
    model._advice = _advice_from_json(state.get("advice"))
    restore_story(model, state, arrays)
    if state["calibrated"]:
        model._store_calibration(_calibration(arrays, coef.size, bool(model.fit_intercept)))
    if "weights" in arrays:
        model.weights_ = _weights(arrays)
        model.selected_ = model.weights_ >= 0.5
    return model


def restore_story(model: Any, state: Mapping[str, Any], arrays: Arrays) -> None:
    """Give a model back how its fit went: what every estimator stores."""
    model.status_ = _status(state["status"])
    model.doubts_ = tuple(_text(doubt) for doubt in state["doubts"])
    model.notes_ = tuple(_text(note) for note in state.get("notes", ()))
    model._store_history(_history(state, arrays))
    if state["rows_digest"] is not None:
        model._rows_digest = _text(state["rows_digest"])
    if state["fitted"] is not None:
        model._fit_note = _fit_note(state["fitted"])


def _require_storable(model: Any) -> None:
    from easyfirst.estimators.regressor import SelfPacedRegressor

    check_is_fitted(model)
    if type(model) is not SelfPacedRegressor:
        raise TypeError(
            f"a model file holds a SelfPacedRegressor, and {type(model).__name__} may be more than "
            f"that: use to_sklearn() to pass the coefficients on"
        )
    require_one(model, "a model file")
    parameters.checked(model)


def versions() -> dict[str, str]:
    """Return what a model was made with."""
    return {
        "easyfirst": importlib.import_module("easyfirst").__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "scikit-learn": sklearn.__version__,
        "scipy": scipy.__version__,
    }


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a string")
    return value


def _transform(value: Any) -> str | None:
    if value is not None and value not in list(TRANSFORMS):
        raise ValueError(f"its target is transformed by {value!r:.60}, which easyfirst does not do")
    return None if value is None else _text(value)


def _status(fields: Any) -> Status:
    status = Status(**fields)
    if not isinstance(status.converged, bool):
        raise ValueError("its status does not say whether the fit converged")
    return Status(_text(status.code), _text(status.message), status.converged)


def _history(state: Mapping[str, Any], arrays: Arrays) -> History:
    n_rounds, n_iterations = _count(state["rounds"], least=1), _count(state["iterations"])
    return History(
        records_from_arrays(RoundRecord, n_rounds, arrays, "rounds"),
        records_from_arrays(IterationRecord, n_iterations, arrays, "iterations"),
    )


def _calibration(arrays: Arrays, n_features: int, fit_intercept: bool) -> Calibration:
    (found,) = records_from_arrays(Calibration, 1, arrays, "calibration")
    noise = found.noise
    edges, levels = np.array(noise.edges), np.array(noise.levels)
    shares = np.array(found.batch_shares)
    low, high = found.corrupted_interval
    sound = (
        all(0 < value < np.inf for value in (noise.total, noise.below, noise.above))
        and 0 < noise.share <= 1
        and noise.dof > 0
        and bool(np.isfinite(noise.center))
        and 0 < edges.size == levels.size
        and bool(np.all(np.diff(edges) > 0) and np.all(edges < np.inf))
        and bool(np.all((levels >= 0) & (levels < np.inf)))
        and _sound_scales(found.scale_rule, n_features)
        and 0 < found.anchor < np.inf
        and found.clean_mass.shape == (2 * N_BINS,)
        and bool(np.all((found.clean_mass >= 0) & (found.clean_mass < np.inf)))
        and found.standard_errors.shape == (n_features + fit_intercept,)
        and shares.size > 0
        and bool(np.all((shares >= 0) & (shares <= 1)))
        and 0 <= low <= high <= 1
        and 0 <= found.n_coef <= n_features + 1
        and _sound_counts(found.counts)
    )
    if not sound:
        raise ValueError("its calibration is out of range")
    return found


def _sound_counts(counts: CountNoise) -> bool:
    if not counts.family:
        return True
    edges, steps = np.array(counts.edges), np.array([counts.usual, counts.levels])
    multiples = np.array(counts.multiples)
    return bool(
        counts.family in parameters.NOISE_FAMILIES
        and 0 < counts.share <= 1
        and 0 <= counts.strayed <= 1
        and multiples.size in (0, FACTORS.size)  # none in files of earlier versions
        and np.all((multiples >= 0) & (multiples <= 1))
        and (0 if counts.family == "poisson" else 1e-13) <= counts.dispersion < np.inf
        and steps.shape == (2, edges.size)
        and np.all((steps >= 0) & (steps < np.inf))
        and np.all(np.diff(edges) > 0)
        and np.all(np.isfinite(edges))
    )


def _sound_scales(rule: ScaleRule, n_features: int) -> bool:
    parts = (rule.reference, rule.knots, rule.values, rule.slopes)
    numbers = np.concatenate([*parts, [rule.intercept, rule.constant, rule.limit]])
    width = 0 if rule.is_even else n_features
    return bool(
        np.all(np.isfinite(numbers))
        and rule.knots.size == rule.values.size
        and rule.reference.size == rule.slopes.size == width
        and np.all(np.diff(rule.knots) > 0)
    )


def _advice_to_json(advice: Advice | None) -> dict[str, Any] | None:
    return None if advice is None else asdict(advice)


def _advice_from_json(fields: Any) -> Advice | None:
    if fields is None:
        return None
    advice = Advice(**{**fields, "transform": TargetTransform(**fields["transform"])})
    numbers = [getattr(advice, name) for name in ("gain", "wrong", "wrong_before", "error")]
    if advice.transform not in TRANSFORMS.values() or not all(
        isinstance(number, float) for number in numbers
    ):
        raise ValueError("its advice on the target is out of range")
    return advice


def _weights(arrays: Arrays) -> NDArray[np.float64]:
    weights = take(arrays, "weights", np.float64, (None,))
    if not np.all((weights >= 0) & (weights <= 1)):
        raise ValueError("its weights do not lie between 0 and 1")
    return weights


def _fit_note(fields: Any) -> FitNote:
    note = FitNote(**fields)
    if not (isinstance(note.at, str) and datetime.fromisoformat(note.at)):
        raise ValueError("the time of its fit is not a time")
    _count(note.rows, least=1)
    _count(note.batches, least=1)
    return note


def _count(value: Any, least: int = 0) -> int:
    if type(value) is not int or not least <= value < 1 << 60:
        raise ValueError(f"{value!r} is not a count")
    return value


def _finite(name: str, values: NDArray[Any]) -> NDArray[Any]:
    if not np.all(np.isfinite(values)):
        raise ValueError(f"array {name!r} holds values that are not finite")
    return values
