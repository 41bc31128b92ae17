"""What a fitted model thinks of single rows, as numbers; the words are in `easyfirst.report`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Matrix, Vector
from easyfirst.estimators.findings import Findings
from easyfirst.noise.model import LEAST

HOPELESS = 1e-9  # below, rows are equally certain to be wrong, and the larger residual is worse


@dataclass(frozen=True, eq=False, repr=False)
class JudgedRows:
    """Rows beside what the model thinks of them; all arrays have one entry per row.

    `residual` is in units of `scale`, the standard deviation that a clean row has around its
    prediction, both on the scale on which the target was fitted; `entry_pace` is the pace from
    which the row would have a weight of at least one half. `excused` is the share of rows that only
    their blur keeps from looking wrong.
    """

    given: Vector
    predicted: Vector
    residual: Vector
    scale: Vector
    weight: Vector
    quality: Vector
    entry_pace: Vector
    excused: float = 0.0

    @classmethod
    def none(cls) -> Self:
        """Return no rows."""
        empty = np.empty(0)
        return cls(empty, empty, empty, empty, empty, empty, empty)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of several parts as one."""
        names = [each.name for each in fields(cls) if each.name != "excused"]
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in names
        }
        return cls(**columns)

    def some(self, rows: NDArray[np.intp]) -> Self:
        """Return some of the rows."""
        names = [each.name for each in fields(self) if each.name != "excused"]
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def without(self, rows: NDArray[np.bool_]) -> Self:
        """Return the same with some rows certainly wrong."""
        weight, quality = (np.where(rows, 0.0, values) for values in (self.weight, self.quality))
        return replace(self, weight=weight, quality=quality)

    def with_excused(self, share: float) -> Self:
        """Return the same with another share of excused rows."""
        return replace(self, excused=share)

    def __repr__(self) -> str:
        wrong = np.count_nonzero(self.is_wrong)
        return f"JudgedRows({self.given.size:,} rows, of which {wrong:,} look wrong)"

    @property
    def is_wrong(self) -> NDArray[np.bool_]:
        """Which rows look wrong: more likely corrupted than clean."""
        return np.asarray(self.quality < 0.5)

    def order(self) -> NDArray[np.intp]:
        """Return the rows from the worst on; equally bad rows keep their order."""
        quality = np.where(self.quality < HOPELESS, 0.0, self.quality)
        return np.lexsort((-np.abs(self.residual), quality))

    def worst(self, top: int | None = None) -> NDArray[np.intp]:
        """Return `top` rows, the worst first; None is all rows that look wrong."""
        return self.order()[: np.count_nonzero(self.is_wrong) if top is None else top]


def judge(
    findings: Findings,
    given: Vector,
    predicted: Vector,
    residual: Vector,
    weights: Vector | None = None,
    blur: Vector | Matrix | None = None,
    own_scale: Vector | None = None,
) -> JudgedRows:
    """Judge rows by their residuals; `weights` are given for rows of the fit.

    `residual` is given minus predicted, of the transformed target if there is one, or, where the
    loss is not squared, the root of a row's loss with that sign. The weights of the fit know the
    batch of a row and how far out it lies, which new rows do not tell. `blur` is a standard
    deviation that a row's prediction has besides the noise, because something was filled in: what
    that explains is not held against the row; it may have two columns, for rows that lie below
    their prediction and above. `own_scale` is the noise of each row relative to a typical one.
    """
    own = np.ones(given.size) if own_scale is None else own_scale
    residual = residual / own
    if blur is not None:
        one_side = blur if blur.ndim == 1 else np.where(residual < 0.0, blur[:, 0], blur[:, 1])
        blur = one_side / own
    entry_pace = np.square(residual) / _loss_of_half_weight(findings)
    if weights is None:
        weights = _weights(findings, residual)
    quality = _quality(findings, residual, weights, entry_pace)
    scale, excused = np.full(given.size, findings.unit), 0.0
    if blur is not None and findings.calibration is not None:
        scale = np.hypot(scale, blur)
        milder = np.where(blur > 0, _blurred(findings, residual, scale), quality)
        excused = float(np.mean(milder - quality)) if given.size else 0.0
        quality = milder
    return JudgedRows(
        given=given,
        predicted=predicted,
        residual=residual / scale,
        scale=own * scale,
        weight=weights,
        quality=quality,
        entry_pace=entry_pace,
        excused=excused,
    )


def _weights(findings: Findings, residual: Vector) -> Vector:
    """Weigh rows that the fit has not seen, by the fit's rule and its final pace."""
    rule, loss = findings.regularizer, np.square(residual)
    if findings.calibration is None:
        if not np.isfinite(findings.pace):
            return np.ones(residual.size)
        return rule.weights(loss, findings.pace)
    noise = findings.calibration.noise
    if rule.is_posterior:
        return noise.posterior(residual)
    threshold = np.square(noise.reach)
    return rule.with_width(2.0 * noise.scale**2).weights(loss, threshold)


def _quality(findings: Findings, residual: Vector, weights: Vector, entry_pace: Vector) -> Vector:
    """Return a number in [0, 1] that is below one half where the row looks wrong.

    With a calibrated pace it is the probability that the row is clean.
    """
    if findings.calibration is None:
        pace = findings.pace
        return np.ones(residual.size) if not np.isfinite(pace) else pace / (pace + entry_pace)
    if findings.regularizer.is_posterior:
        return weights
    return _posterior(findings, residual)


def _posterior(findings: Findings, residual: Vector) -> Vector:
    assert findings.calibration is not None
    return findings.calibration.noise.posterior(residual)


def _blurred(findings: Findings, residual: Vector, scale: Vector) -> Vector:
    """Return the probability of being clean where clean rows are spread by `scale`.

    The clean density is that of the fit, stretched; the corrupted one is as it was.
    """
    assert findings.calibration is not None
    noise, stretch = findings.calibration.noise, scale / findings.unit
    clean = noise.clean_density(residual / stretch) / stretch
    return np.asarray(clean / np.maximum(clean + noise.corrupted_density(residual), LEAST))


def _loss_of_half_weight(findings: Findings) -> float:
    """Return the loss at which the weight falls below one half, for a pace of one.

    Rules are homogeneous, so one number tells it for every pace.
    """
    low, high = 0.0, 1.0
    while findings.regularizer.weights(np.array([high]), 1.0)[0] >= 0.5 and high < 1e6:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        inside = findings.regularizer.weights(np.array([middle]), 1.0)[0] >= 0.5
        low, high = (middle, high) if inside else (low, middle)
    return high
