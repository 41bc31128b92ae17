"""Values that were filled in: where, and how far the predictions of such rows may be off.

A missing number becomes the median. The true value would have moved the prediction by its distance
from the median times the coefficient, so the prediction of such a row is uncertain by that much
more than others: by more on one side, if the column has a long tail there. What this explains is
not held against the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Matrix, Vector
from easyfirst.estimators.findings import Findings
from easyfirst.local.design import dense
from easyfirst.noise.model import MIDDLE_HALF
from easyfirst.tables.recipe import Recipe

Missing = Mapping[str, NDArray[np.bool_]]
Sides = tuple[float, float]  # how far values lie below what stands for a missing one, and above

OUTERMOST = 0.01  # of the values at each end, which count as if they were the next ones,
FAR_ABOVE = 3.0  # noise scales from which on what was filled in matters more than the noise
MEDIAN_ERROR = 1.2533141373155001  # of a median, in those of a mean of normal values
AT_THE_END = 2.3263478740408408  # and how many standard deviations of a normal lie before them


def spread_around(values: Vector, fill: float) -> Sides:
    """Return how far the present values of a column lie from what stands for a missing one."""
    present = values[np.isfinite(values)]
    if not present.size:
        return 0.0, 0.0
    low, high = np.quantile(present, (OUTERMOST, 1.0 - OUTERMOST))
    return sides_of(np.clip(present, low, high) - fill, np.ones(present.size))


def sides_of(distance: Vector, counts: Vector) -> Sides:
    """Return the root mean square of the distances below zero, and of those above.

    Of a long tail, the end counts: a normal as wide as the middle would not reach there.
    """
    squares = counts * np.square(distance)
    ties = 0.5 * float(counts @ (distance == 0.0))  # half of the values at the fill on each side
    below, above = distance < 0.0, distance > 0.0
    found = [
        float(np.sqrt(squares @ side / max(float(counts @ side) + ties, 1.0)))
        for side in (below, above)
    ]
    return (
        max(found[0], -float(distance.min()) / AT_THE_END),
        max(found[1], float(distance.max()) / AT_THE_END),
    )


def blur_of(
    recipe: Recipe, findings: Findings, spreads: Mapping[str, Sides], missing: Missing, X: Any
) -> Matrix | None:
    """Return the standard deviation that filled-in values give each prediction, if there are any.

    Its columns are for rows that lie below their prediction, and above. What the noise of the model
    already has in store for rows with missing values is not counted twice. The coefficients of the
    columns that become one number each come first.
    """
    if not missing or not findings.coef.size:
        return None
    variance = np.zeros((X.shape[0], 2))
    for place, feature in enumerate(recipe.numeric):
        if feature.name in missing:
            coef = findings.coef[place]
            sides = np.asarray(spreads.get(feature.name, (0.0, 0.0)))[:: 1 if coef > 0.0 else -1]
            variance += np.outer(missing[feature.name], np.square(coef * sides))
    return np.sqrt(np.maximum(variance - _in_store(recipe, findings, X)[:, None], 0.0))


def centered(
    recipe: Recipe, findings: Findings, spreads: Mapping[str, Sides], missing: Missing, miss: Vector
) -> dict[int, tuple[float, float]]:
    """Return what to add to the coefficients of missing values, and the errors these then have.

    Where filled-in values blur predictions by far more than the noise, nearly all such rows look
    wrong to a fit, and a coefficient that tells them from others rests on the few that happen to
    agree. Their middle says more. `miss` is how far the fit misses each row.
    """
    moved: dict[int, tuple[float, float]] = {}
    place, miss = len(recipe.numeric), miss.copy()
    for column, feature in enumerate(recipe.numeric):
        if not feature.indicator:
            continue
        rows, blur = (
            missing.get(feature.name),
            abs(findings.coef[column]) * max(spreads.get(feature.name, (0.0, 0.0))),
        )
        if rows is not None and blur > FAR_ABOVE * findings.unit:
            shift = float(np.median(miss[rows]))
            size = float(np.median(np.abs(miss[rows] - shift))) / MIDDLE_HALF
            moved[place] = shift, MEDIAN_ERROR * size / float(np.sqrt(rows.sum()))
            miss[rows] -= shift
        place += 1
    return moved


def allowing_for_shift(
    recipe: Recipe, findings: Findings, spreads: Mapping[str, Sides], missing: Missing, miss: Vector
) -> dict[str, Sides]:
    """Return the spreads with how far rows with a missing value are off in the middle.

    `miss` is how far the fit misses each row. Around a nearly exact fit, most rows with a filled-in
    value look wrong, and the coefficient that tells them from others may rest on a few of them.
    """
    found = dict(spreads)
    for place, feature in enumerate(recipe.numeric[: findings.coef.size]):
        coef, rows = findings.coef[place], missing.get(feature.name)
        if feature.indicator and rows is not None and coef != 0.0:
            shift = abs(float(np.median(miss[rows])) / coef)
            below, above = found[feature.name]
            found[feature.name] = float(np.hypot(below, shift)), float(np.hypot(above, shift))
    return found


def _in_store(recipe: Recipe, findings: Findings, X: Any) -> Vector:
    """Return the variance that rows have for the mere reason that a value is missing."""
    calibration = findings.calibration
    first = len(recipe.numeric)
    flags = slice(first, first + sum(each.indicator for each in recipe.numeric))
    if calibration is None or not np.any(calibration.scale_rule.slopes[flags]):
        return np.zeros(X.shape[0])
    rule = calibration.scale_rule
    columns = X.iloc[:, flags] if hasattr(X, "iloc") else X[:, flags]
    wider = np.exp(2.0 * np.maximum(dense(columns) @ rule.slopes[flags], 0.0))
    return np.asarray(np.square(rule.of(X) * findings.unit) * (1.0 - 1.0 / wider))
