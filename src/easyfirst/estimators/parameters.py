"""Checking an estimator's parameters once, and turning them into the values a fit works with."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.utils import check_random_state

from easyfirst.consensus.admm import OVER_RELAXATION, AdmmSettings
from easyfirst.consensus.rounds import RoundSettings
from easyfirst.losses import Loss
from easyfirst.penalties import NoPenalty, Penalty
from easyfirst.regularizers import Entropic, Hard, SelfPacedRegularizer
from easyfirst.schedules import Calibrated, PaceSchedule

if TYPE_CHECKING:
    from easyfirst.estimators.regressor import SelfPacedRegressor

COLUMNS_FOR_MATRICES = 5_000  # beyond, products with the rows are cheaper than Gram matrices
MOST_COLUMNS = 16_384  # beyond, one Gram matrix alone takes more than 2 GiB
AGREEMENT = 1e-2  # of tol: how exactly the batches agree within a round


def checked(model: SelfPacedRegressor) -> RoundSettings:
    """Return the settings of the rounds, or say which parameter is wrong and what it may be."""
    _require_instance("pace", model.pace, PaceSchedule)
    _require_instance("regularizer", model.regularizer, SelfPacedRegularizer)
    _require_instance("loss", model.loss, Loss)
    _require_instance("penalty", model.penalty, Penalty)
    _require_choice("solver", model.solver, "auto", "admm", "gram", "cg")
    _require_choice("weights_from", model.weights_from, "consensus", "batch")
    _require_choice("update_weights", model.update_weights, "round", "iteration")
    _require_choice("polish", model.polish, "auto", True, False)
    _require_choice("fit_intercept", model.fit_intercept, True, False)
    if model.callbacks is not None and not isinstance(model.callbacks, list | tuple):
        raise TypeError(f"callbacks must be None or a list of callbacks, got {model.callbacks!r}")
    _require_whole("max_rounds", model.max_rounds)
    _require_whole("max_iter", model.max_iter)
    if model.n_batches is not None:
        _require_whole("n_batches", model.n_batches)
    if not _is_between(model.tol, 0, 1):
        raise ValueError(f"tol must lie between 0 and 1, got {model.tol!r}")
    return RoundSettings(
        schedule=model.pace or Calibrated(),
        solver=_solver(model),
        admm=AdmmSettings(
            rho=_rho(model.rho),
            # Rows weighed in the middle of a solve must not be judged where it overshoots, or in
            # directions that few rows determine at the moment.
            over_relaxation=_over_relaxation(model),
            follows_correlation=model.update_weights == "round",
            max_iter=int(model.max_iter),
            tol=AGREEMENT * float(model.tol),
        ),
        weights_from=model.weights_from,
        update_weights=model.update_weights,
        max_rounds=int(model.max_rounds),
        tol=float(model.tol),
    )


def with_room_for(settings: RoundSettings, solver: str, n_features: int) -> RoundSettings:
    """Return settings whose solver can do with so many columns, or say that there is none."""
    if settings.solver == "gram" and solver == "auto" and n_features > COLUMNS_FOR_MATRICES:
        return replace(settings, solver="cg")
    if settings.solver != "cg" and n_features > MOST_COLUMNS:
        raise ValueError(
            f"X has {n_features:,} columns, and solver={settings.solver!r} needs square matrices "
            f"of that size ({8e-9 * n_features**2:.1f} GB each), at most {MOST_COLUMNS:,} columns: "
            f"use solver='auto' with a quadratic penalty, or select or combine columns first"
        )
    return settings


def default_regularizer(schedule: PaceSchedule) -> SelfPacedRegularizer:
    """Return the rule a schedule is meant for."""
    return Entropic() if isinstance(schedule, Calibrated) else Hard()


def seed(random_state: Any) -> int:
    """Return a seed; None means a fixed one, so that two fits of the same rows agree."""
    if random_state is None:
        return 0
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def _over_relaxation(model: SelfPacedRegressor) -> float:
    given = model.over_relaxation
    if given == "auto":
        return OVER_RELAXATION if model.update_weights == "round" else 1.0
    if not _is_between(given, 0, 2):
        raise ValueError(f"over_relaxation must be 'auto' or lie between 0 and 2, got {given!r}")
    return float(given)


def _rho(rho: object) -> Literal["auto", "adaptive"] | float:
    if rho == "auto" or rho == "adaptive":
        return rho
    if isinstance(rho, int | float | np.number) and math.isfinite(rho) and rho > 0:
        return float(rho)
    raise ValueError(f"rho must be a number > 0, 'auto' or 'adaptive', got {rho!r}")


def _solver(model: SelfPacedRegressor) -> Literal["admm", "gram", "cg"]:
    closed_form = (model.penalty or NoPenalty()).quadratic_strength is not None
    if model.solver == "auto":
        return "gram" if closed_form else "admm"
    if model.solver in ("gram", "cg") and not closed_form:
        raise ValueError(
            f"solver={model.solver!r} needs a quadratic penalty, got {model.penalty!r}; "
            f"use solver='admm'"
        )
    return model.solver


def _require_instance(name: str, value: object, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        module = kind.__module__
        raise TypeError(f"{name} must be None or an instance from {module}, got {value!r}")


def _require_choice(name: str, value: object, *allowed: object) -> None:
    if not any(value is choice or value == choice for choice in allowed):
        listed = ", ".join(repr(choice) for choice in allowed)
        raise ValueError(f"{name} must be one of {listed}, got {value!r}")


def _require_whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number >= 1, got {value!r}")


def _is_between(value: object, low: float, high: float) -> bool:
    return isinstance(value, int | float | np.number) and bool(low < value < high)
