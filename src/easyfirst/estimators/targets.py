"""Several targets for one regressor: a row has one weight, and each target its own coefficients.

By a schedule, one fit weighs the rows by their losses summed over the targets. The calibrated pace
needs the noise of each target, so each is a fit of its own, and then once more without the rows
that another target shows to be wrong: what is wrong is the row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.consensus.fitted import FittedModel
from easyfirst.consensus.rounds.common import RoundSettings
from easyfirst.estimators.callback_runner import CallbackRunner
from easyfirst.local.design import Coordinates
from easyfirst.losses import Loss, Squared
from easyfirst.sources import ArraySource

if TYPE_CHECKING:
    from easyfirst.estimators.regressor import SelfPacedRegressor

# Share of the rows, wrong for one target and right for the others, from which it is worth saying.
SCATTERED = 0.1

OF_EACH = (
    "coef_",
    "intercept_",
    "pace_",
    "noise_scale_",
    "coef_standard_errors_",
    "intercept_standard_error_",
)
ON_THEIR_OWN = "fit each target on its own, as sklearn.multioutput.MultiOutputRegressor does"


def refusal(model: Any) -> str | None:
    """Return why a model with these parameters takes one target only; None if it takes several."""
    loss = model.loss or Squared()
    if not (isinstance(loss, Loss) and loss.quadratic):
        return f"loss={loss!r} is for one target (the squared loss takes several)"
    if model.solver == "cg":
        return "solver='cg' is for one target (solver='auto', 'gram' and 'admm' take several)"
    if model.admm_on == "workers":
        return "admm_on='workers' is for one target (admm_on='driver' and 'auto' take several)"
    if model.polish is True:
        return "polish=True is for one target (polish='auto' and False take several)"
    if model.target_transform is not None:
        return (
            f"target_transform={model.target_transform!r} is for one target (transform y before, "
            f"or use sklearn.compose.TransformedTargetRegressor)"
        )
    return None


def require_one(model: Any, what: str) -> None:
    """Say that something is known for models of one target only, and where to find it."""
    n_targets = np.ndim(getattr(model, "intercept_", 0.0)) and len(model.intercept_)
    if not n_targets:
        return
    where = (
        f"outputs_[0] to outputs_[{n_targets - 1}] have it, each for its target"
        if hasattr(model, "outputs_")
        else ON_THEIR_OWN
    )
    raise AttributeError(f"{what} is for one target, and this model has {n_targets}: {where}")


def to_user(coordinates: Coordinates, coef: Any, n_targets: int) -> tuple[Any, Any]:
    """Return (coef_, intercept_) of the solver's coefficients, one line for each of several."""
    if n_targets == 1:
        return coordinates.to_user(coef)
    pairs = [coordinates.to_user(own) for own in np.split(coef, n_targets)]
    return np.array([own for own, _ in pairs]), np.array([last for _, last in pairs])


def fit_each(
    model: SelfPacedRegressor, source: ArraySource, settings: RoundSettings, runner: CallbackRunner
) -> list[tuple[SelfPacedRegressor, FittedModel]]:
    """Fit every target with a calibrated pace of its own, and store what they have in common."""

    def fitted(j: int, wrong: NDArray[np.bool_] | None) -> tuple[Any, FittedModel]:
        own = type(model)(**model.get_params(deep=False))
        own.__dict__.update(_columns_of(model))
        return own, own._fit_source(_one_target(source, j, wrong), settings, runner)

    n_targets = source.y.shape[1]
    fits = [fitted(j, None) for j in range(n_targets)]
    looks_wrong = np.array([~own.selected_ for own, _ in fits])
    for j in range(n_targets):
        by_others = np.any(np.delete(looks_wrong, j, axis=0), axis=0)
        if np.any(by_others & ~looks_wrong[j]) and not np.all(by_others):
            fits[j] = fitted(j, by_others)
    _store(model, [own for own, _ in fits], source)
    scattered = np.mean(looks_wrong.any(axis=0)) - np.max(looks_wrong.mean(axis=1))
    if scattered > SCATTERED:
        model.notes_ += (
            f"{100 * scattered:.2g} % of the rows look wrong for one target and right for others, "
            f"and are left out for all of them: {ON_THEIR_OWN}, to keep them.",
        )
    return fits


def _columns_of(model: Any) -> dict[str, Any]:
    """Return what validation noted on the model about its columns."""
    known = ("n_features_in_", "feature_names_in_")
    return {name: value for name, value in vars(model).items() if name in known}


def _one_target(source: ArraySource, j: int, wrong: NDArray[np.bool_] | None) -> ArraySource:
    own = replace(source, y=np.ascontiguousarray(source.y[:, j]))
    if wrong is None:
        return own
    rejected = wrong if source.rejected is None else wrong | source.rejected
    weight = np.ones(wrong.size) if source.sample_weight is None else source.sample_weight
    return replace(own, rejected=rejected, sample_weight=np.where(wrong, 0.0, weight))


def _store(model: Any, each: list[SelfPacedRegressor], source: ArraySource) -> None:
    """Store the fitted values of all targets as arrays whose first axis is the target."""
    model._forget_calibration()
    model.outputs_ = each
    for name in OF_EACH:
        setattr(model, name, np.array([getattr(own, name) for own in each]))
    model.weights_ = np.min([own.weights_ for own in each], axis=0)
    model.selected_ = model.weights_ >= 0.5
    counted = np.ones(len(model.weights_)) if source.sample_weight is None else source.sample_weight
    model.corrupted_fraction_ = 1.0 - float(np.average(model.weights_, weights=counted))
    model.target_transform_ = None
    model.status_ = next(
        (own.status_ for own in each if not own.status_.converged), each[0].status_
    )
    for name in ("doubts_", "notes_"):
        told = [f"Target {j}: {text}" for j, own in enumerate(each) for text in getattr(own, name)]
        setattr(model, name, tuple(told))
    history = each[0].history_
    for own in each[1:]:
        history = history.followed_by(own.history_)
    model._store_history(history)
