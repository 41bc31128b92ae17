"""Checking an estimator's parameters once, and turning them into the values a fit works with."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.utils import check_random_state

from easyfirst.consensus.rounds.common import RoundSettings
from easyfirst.consensus.solvers.admm import OVER_RELAXATION, AdmmSettings
from easyfirst.losses import Loss, Squared
from easyfirst.penalties import NoPenalty, Penalty
from easyfirst.regularizers import Entropic, Hard, SelfPacedRegularizer
from easyfirst.schedules import Calibrated, PaceSchedule
from easyfirst.transforms import TRANSFORMS

if TYPE_CHECKING:
    from easyfirst.estimators.regressor import SelfPacedRegressor

NOISE_FAMILIES = ("poisson", "gamma")
COLUMNS_FOR_MATRICES = 5_000  # beyond, products with the rows are cheaper than Gram matrices
COLUMNS_OF_FEW_ROWS = 500  # the same where there are more columns than rows
MOST_COLUMNS = 16_384  # beyond, one Gram matrix alone takes more than 2 GiB
AGREEMENT = 1e-2  # of tol: how exactly the batches agree within a round


def check_shared(model: Any) -> None:
    """Check the parameters that every estimator has."""
    _require_instance("pace", model.pace, PaceSchedule)
    _require_instance("regularizer", model.regularizer, SelfPacedRegularizer)
    _require_instance("penalty", model.penalty, Penalty)
    _require_choice("fit_intercept", model.fit_intercept, True, False)
    if model.callbacks is not None and not isinstance(model.callbacks, list | tuple):
        raise TypeError(f"callbacks must be None or a list of callbacks, got {model.callbacks!r}")
    _require_whole("max_rounds", model.max_rounds)
    _require_whole("max_iter", model.max_iter)
    if model.n_batches is not None:
        _require_whole("n_batches", model.n_batches)
    if not _is_between(model.tol, 0, 1):
        raise ValueError(f"tol must lie between 0 and 1, got {model.tol!r}")


def checked(model: SelfPacedRegressor) -> RoundSettings:
    """Return the settings of the rounds, or say which parameter is wrong and what it may be."""
    check_shared(model)
    _require_instance("loss", model.loss, Loss)
    _require_choice("center", model.center, "middle", "mean", "median")
    _require_choice("target_transform", model.target_transform, "auto", *TRANSFORMS)
    _require_choice("solver", model.solver, "auto", "admm", "gram", "cg")
    _require_choice("weights_from", model.weights_from, "consensus", "batch")
    _require_choice("update_weights", model.update_weights, "round", "iteration")
    _require_choice("polish", model.polish, "auto", True, False)
    _require_choice("admm_on", model.admm_on, "auto", "driver", "workers")
    _require_matching_parts(model)
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
            place=model.admm_on,
        ),
        weights_from=model.weights_from,
        update_weights=model.update_weights,
        max_rounds=int(model.max_rounds),
        tol=float(model.tol),
        leaves_out_weak=model.penalty is None,
        center=model.center,
    )


def with_room_for(
    settings: RoundSettings, solver: str, n_rows: int, n_features: int, by_products: bool
) -> RoundSettings:
    """Return settings whose solver can do with so many columns, or say that there is none.

    `by_products` says that the penalty permits to do without square matrices.
    """
    few_rows = n_rows < n_features and n_features > COLUMNS_OF_FEW_ROWS
    is_wide = n_features > COLUMNS_FOR_MATRICES or few_rows
    if settings.solver == "gram" and solver == "auto" and is_wide and by_products:
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
    return "gram" if model.solver == "auto" else model.solver


def _require_matching_parts(model: SelfPacedRegressor) -> None:
    """Refuse parts that cannot work together, before anything is fitted, and name the way out."""
    loss, penalty = model.loss or Squared(), model.penalty or NoPenalty()
    is_calibrated = isinstance(model.pace or Calibrated(), Calibrated)
    if loss.quadratic and not _is_squared(loss):
        raise ValueError(
            f"loss={loss!r} is declared quadratic but its value is not (y - prediction)**2: leave "
            f"`quadratic` at False, and it is minimised by its derivatives"
        )
    if penalty.quadratic_strength is not None and not _is_quadratic(penalty):
        raise ValueError(
            f"penalty={penalty!r} has a quadratic_strength but its value is not that strength "
            f"times the sum of squares: leave `quadratic_strength` at None, and it is handled by "
            f"its `prox`"
        )
    if model.polish is True and not (loss.quadratic and penalty.quadratic_strength is not None):
        raise ValueError(
            f"polish=True solves once more in closed form, and there is none for loss={loss!r} "
            f"with penalty={penalty!r}: use polish='auto' or False, and a smaller tol for more "
            f"digits"
        )
    if model.admm_on != "auto" and model.solver != "admm":
        raise ValueError(
            f"admm_on={model.admm_on!r} says where consensus is iterated, and "
            f"solver={model.solver!r} iterates none: use solver='admm', or admm_on='auto'"
        )
    if model.target_transform is not None and loss.link != "identity":
        raise ValueError(
            f"target_transform={model.target_transform!r} is for losses of the difference between "
            f"y and prediction, and loss={loss!r} has a {loss.link} link, which does what a "
            f"transformation would: use target_transform=None"
        )
    if model.target_transform == "auto" and not is_calibrated:
        raise ValueError(
            f"target_transform='auto' compares models of the noise, which only the calibrated pace "
            f"(pace=None) has: give 'log' or 'sqrt' beside pace={model.pace!r}"
        )
    if is_calibrated:
        if not loss.quadratic:
            _require_noise_family(model, loss)
        if model.update_weights == "iteration":
            raise ValueError(
                "update_weights='iteration' needs a schedule that does not follow the residuals, "
                "such as pace=Quantile() or pace=Geometric(); the calibrated pace weighs once per "
                "'round'"
            )
        if model.admm_on == "workers" and model.solver == "admm":
            raise ValueError(
                "the calibrated pace needs the Gram matrices of the batches: use admm_on='driver' "
                "or 'auto', or give a schedule such as pace=Quantile()"
            )
    if model.center != "middle" and not (is_calibrated and model.fit_intercept):
        raise ValueError(
            f"center={model.center!r} moves the intercept by what the calibrated pace knows of the "
            f"clean noise: use pace=None and fit_intercept=True, or center='middle'"
        )
    rule = model.regularizer or Hard()
    _require_weights(rule)
    if not rule.separable and (is_calibrated or model.solver == "cg"):
        raise ValueError(
            f"regularizer={rule!r} weighs the rows of a batch together: give a schedule such as "
            f"pace=Quantile() or pace=Geometric(), and solver='gram' or 'admm'"
        )
    if model.solver == "cg" and penalty.quadratic_strength is None:
        raise ValueError(
            f"solver='cg' needs a quadratic penalty, got {penalty!r}; use solver='gram' or 'admm'"
        )
    if model.admm_on == "driver" and not loss.quadratic:
        raise ValueError(
            f"admm_on='driver' needs a loss that Gram matrices say everything about, and "
            f"loss={loss!r} is none: use admm_on='workers' or 'auto'"
        )


def _require_noise_family(model: SelfPacedRegressor, loss: Loss) -> None:
    """Refuse losses of which the calibrated pace does not know how clean rows are distributed."""
    if loss.noise_family not in NOISE_FAMILIES:
        raise ValueError(
            f"the calibrated pace (pace=None) reads a noise scale off squared residuals, or a "
            f"dispersion off counts and amounts (PoissonDeviance, GammaDeviance), and "
            f"loss={loss!r} has none: give a schedule, such as pace=Quantile(0.5, 0.8) for a "
            f"growing share of the rows, or pace=Constant() to keep every row"
        )
    if not (model.regularizer or Entropic()).is_posterior:
        raise ValueError(
            f"the calibrated pace weighs counts and amounts by the probability that they are "
            f"clean, got regularizer={model.regularizer!r}: use None, or give a schedule such as "
            f"pace=Quantile(0.5, 0.8)"
        )


def _is_squared(loss: Loss) -> bool:
    y, prediction = np.array([0.0, 1.0, -3.0]), np.array([0.5, 1.0, 2.0])
    return bool(np.allclose(loss.value(y, prediction), np.square(y - prediction)))


def _is_quadratic(penalty: Penalty) -> bool:
    coef, strength = np.array([0.5, -2.0, 0.0]), float(penalty.quadratic_strength or 0.0)
    return bool(np.isclose(penalty.value(coef), strength * (coef @ coef)))


def _require_weights(rule: SelfPacedRegularizer) -> None:
    """Refuse a rule whose weights cannot be ones: on rising losses, between 0 and 1 and falling."""
    weights = np.asarray(rule.weights(np.array([0.0, 0.3, 1.0, 4.0, 1e4]), 1.0))
    falls = not rule.separable or np.all(np.diff(weights) <= 1e-12)
    if weights.shape == (5,) and np.all((weights >= 0) & (weights <= 1)) and falls:
        return
    raise ValueError(
        f"regularizer={rule!r} gives losses of 0, 0.3, 1, 4 and 10,000 the weights "
        f"{weights.tolist()} at a pace of 1: weights must lie between 0 and 1, one per row, and "
        f"must not grow with the loss"
    )


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
