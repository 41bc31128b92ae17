"""A fitted regressor as JSON facts and named arrays, and back.

What can be computed from the rest is not stored: a loaded model makes it again, in the same way
and with the same bits as `fit` did. Contents may come from anywhere, so everything is checked.
"""

from __future__ import annotations

import importlib
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy
import sklearn
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from easyfirst.consensus.history import History, IterationRecord, RoundRecord
from easyfirst.consensus.model import Calibration
from easyfirst.consensus.status import Status
from easyfirst.estimators import parameters
from easyfirst.estimators.records import records_from_arrays, records_to_arrays, take
from easyfirst.estimators.settings import settings_from_facts, settings_to_facts
from easyfirst.files import texts_from_array, texts_to_array
from easyfirst.summaries import N_BINS

if TYPE_CHECKING:
    from easyfirst.estimators.regressor import SelfPacedRegressor

Facts = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class FitNote:
    """When a model was fitted, and to how much."""

    at: str
    rows: int
    batches: int

    @classmethod
    def now(cls, batch_sizes: Any) -> Self:
        """Return a note of a fit that ends at this moment."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(at, int(sum(batch_sizes)), len(batch_sizes))


def regressor_to_contents(model: Any, weights: bool = True) -> tuple[Facts, Arrays]:
    """Return a fitted regressor as JSON facts and named arrays."""
    _require_storable(model)
    settings, left_out = settings_to_facts(model)
    note = vars(model).get("_fit_note")
    facts: Facts = {
        "settings": settings,
        "left_out": left_out,
        "fitted": None if note is None else asdict(note),
        "saved_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": _versions(),
        "status": asdict(model.status_),
        "doubts": list(model.doubts_),
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
    return facts, arrays


def regressor_from_contents(facts: Mapping[str, Any], arrays: Arrays) -> SelfPacedRegressor:
    """Return the regressor, or raise an error if the contents do not make one."""
    from easyfirst.estimators.regressor import SelfPacedRegressor

    model: SelfPacedRegressor = settings_from_facts(SelfPacedRegressor, facts["settings"])
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
    model.status_ = _status(facts["status"])
    model.doubts_ = tuple(_text(doubt) for doubt in facts["doubts"])
    model._store_history(_history(facts, arrays))
    if facts["calibrated"]:
        model._store_calibration(_calibration(arrays, coef.size, bool(model.fit_intercept)))
    if "weights" in arrays:
        model.weights_ = _weights(arrays)
        model.selected_ = model.weights_ >= 0.5
    if facts["rows_digest"] is not None:
        model._rows_digest = _text(facts["rows_digest"])
    if facts["fitted"] is not None:
        model._fit_note = _fit_note(facts["fitted"])
    return model


def _require_storable(model: Any) -> None:
    from easyfirst.estimators.regressor import SelfPacedRegressor

    check_is_fitted(model)
    if type(model) is not SelfPacedRegressor:
        raise TypeError(
            f"a model file holds a SelfPacedRegressor, and {type(model).__name__} may be more than "
            f"that: use to_sklearn() to pass the coefficients on"
        )
    parameters.checked(model)


def _versions() -> dict[str, str]:
    return {
        "easyfirst": importlib.import_module("easyfirst").__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "scikit-learn": sklearn.__version__,
        "scipy": scipy.__version__,
    }


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    return value


def _status(facts: Any) -> Status:
    status = Status(**facts)
    if not isinstance(status.converged, bool):
        raise ValueError("its status does not say whether the fit converged")
    return Status(_text(status.code), _text(status.message), status.converged)


def _history(facts: Mapping[str, Any], arrays: Arrays) -> History:
    n_rounds, n_iterations = _count(facts["rounds"], least=1), _count(facts["iterations"])
    return History(
        records_from_arrays(RoundRecord, n_rounds, arrays, "rounds"),
        records_from_arrays(IterationRecord, n_iterations, arrays, "iterations"),
    )


def _calibration(arrays: Arrays, n_features: int, fit_intercept: bool) -> Calibration:
    (found,) = records_from_arrays(Calibration, 1, arrays, "calibration")
    mixture = found.mixture
    shares = np.array(found.batch_shares)
    low, high = found.corrupted_interval
    sound = (
        all(0 < value < np.inf for value in (mixture.total, mixture.scale, mixture.clean))
        and all(0 <= value < np.inf for value in (mixture.below, mixture.above))
        and 0 < found.anchor < np.inf
        and found.clean_mass.shape == (N_BINS,)
        and bool(np.all((found.clean_mass >= 0) & (found.clean_mass < np.inf)))
        and found.standard_errors.shape == (n_features + fit_intercept,)
        and shares.size > 0
        and bool(np.all((shares >= 0) & (shares <= 1)))
        and 0 <= low <= high <= 1
        and 0 <= found.n_coef <= n_features + 1
    )
    if not sound:
        raise ValueError("its calibration is out of range")
    return found


def _weights(arrays: Arrays) -> NDArray[np.float64]:
    weights = take(arrays, "weights", np.float64, (None,))
    if not np.all((weights >= 0) & (weights <= 1)):
        raise ValueError("its weights do not lie between 0 and 1")
    return weights


def _fit_note(facts: Any) -> FitNote:
    note = FitNote(**facts)
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
