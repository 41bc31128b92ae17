"""What a fitted model knows, gathered once; every summary, picture and page is made from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from scipy.special import stdtrit

from easyfirst.consensus.fitted import Calibration
from easyfirst.consensus.history import History
from easyfirst.consensus.status import Status
from easyfirst.contracts import Matrix, Vector
from easyfirst.estimators.targets import require_one
from easyfirst.regularizers import Entropic, Hard, SelfPacedRegularizer
from easyfirst.transforms import IDENTITY, TRANSFORMS, TargetTransform


class FittedRegressor(Protocol):
    """What every fitted model has; what only some have is asked for by name."""

    pace_: float
    status_: Status
    history_: History
    n_rounds_: int
    regularizer: SelfPacedRegularizer | None


@dataclass(frozen=True, eq=False)
class Findings:
    """A fitted model as plain values. `weights` are those of the rows of the fit, if kept.

    `calibration` and what follows from it are None for a model without a calibrated pace.
    """

    names: tuple[str, ...]
    coef: Vector
    intercept: float | None
    pace: float
    status: Status
    history: History
    n_rounds: int
    regularizer: SelfPacedRegularizer
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    calibration: Calibration | None = field(default=None, repr=False)
    weights: Vector | None = field(default=None, repr=False)
    fitted_at: str | None = None
    transform: TargetTransform = IDENTITY

    @property
    def n_rows(self) -> float | None:
        """Rows of the fit; where only sample weights are known, their sum."""
        if self.weights is not None:
            return float(self.weights.size)
        return None if self.calibration is None else self.calibration.noise.total

    @property
    def unit(self) -> float:
        """What residuals are measured in: the noise scale, or the largest residual selected."""
        if self.calibration is not None:
            return float(self.calibration.noise.scale)
        usable = np.isfinite(self.pace) and self.pace > 0
        return float(np.sqrt(self.pace)) if usable else 1.0

    @property
    def unit_name(self) -> str:
        """The unit in words that follow a number."""
        if self.calibration is not None:
            return "standard deviations"
        usable = np.isfinite(self.pace) and self.pace > 0
        return "times the largest selected residual" if usable else "units of y"

    @property
    def rounds_in_words(self) -> str:
        """How many rounds, and on what."""
        first = sum(record.rows == "sample" for record in self.history.rounds)
        if first == 0:
            return f"{self.n_rounds:,}"
        rest = len(self.history.rounds) - first
        return f"{first:,} on a sample to find the start, then {rest:,} on all rows"

    @property
    def standard_errors(self) -> Vector | None:
        """Standard errors of the coefficients, the intercept's last if there is one."""
        known = self.calibration is not None and self.calibration.has_standard_errors
        return self.calibration.standard_errors if self.calibration and known else None

    @property
    def values(self) -> Vector:
        """Coefficients, the intercept last if there is one."""
        tail = [] if self.intercept is None else [self.intercept]
        return np.append(self.coef, tail)

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each of `values`."""
        own = self.names[: self.coef.size]
        return own if self.intercept is None else (*own, "(intercept)")

    def moved(self, predicted: Vector, step: Vector) -> Vector:
        """Return predictions of y where the linear part is larger by a step."""
        return self.transform.back(self.transform.of(predicted) + step)

    def intervals(self, level: float) -> Matrix | None:
        """Return lower and upper bounds of `values`, shape (values, 2)."""
        errors = self.standard_errors
        if self.calibration is None or errors is None:
            return None
        left = max(self.calibration.noise.clean - self.calibration.n_coef, 1.0)
        half = stdtrit(left, (1.0 + level) / 2.0) * errors
        return np.stack([self.values - half, self.values + half], axis=1)


def findings_of(model: FittedRegressor) -> Findings:
    """Gather what a fitted model knows."""
    require_one(model, "presenting a model")
    calibration = getattr(model, "_calibration", None)
    note = vars(model).get("_fit_note")
    coef = np.asarray(getattr(model, "coef_", ()), dtype=np.float64)
    has_intercept = bool(getattr(model, "fit_intercept", False))
    return Findings(
        names=_names(model, coef.size or int(getattr(model, "n_features_in_", 0))),
        coef=coef,
        intercept=float(vars(model)["intercept_"]) if has_intercept else None,
        pace=float(model.pace_),
        status=model.status_,
        history=model.history_,
        n_rounds=int(model.n_rounds_),
        regularizer=model.regularizer or (Hard() if calibration is None else Entropic()),
        doubts=tuple(getattr(model, "doubts_", ())),
        notes=tuple(getattr(model, "notes_", ())),
        calibration=calibration,
        weights=getattr(model, "weights_", None),
        fitted_at=None if note is None else note.at,
        transform=TRANSFORMS[getattr(model, "target_transform_", None)],
    )


def _names(model: Any, n_features: int) -> tuple[str, ...]:
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return tuple(f"x{j}" for j in range(n_features))
    return tuple(str(name) for name in names)
