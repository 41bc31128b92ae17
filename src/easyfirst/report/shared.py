"""What wrong rows have in common that no listed kind of mistake has: a factor, or a shift."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from easyfirst.contracts import Vector
from easyfirst.report.mistakes import (
    Mistake,
    RowsInQuestion,
    common_factor,
    common_shift,
    nearest_listed,
)

FEWEST_ALIKE = 3  # rows that have something in common
REACH = 0.3  # half-width, in logarithms, in which factors count as alike
NARROWEST, WIDEST = 0.02, 0.2  # spread of a common factor's logarithm
LEAST_FACTOR = float(np.log(1.5))
SHIFT_REACH = 2.5  # half-width, in noise scales, in which shifts count as alike


@dataclass(frozen=True)
class Shared:
    """A factor (its logarithm) or a shift that rows share, and its spread."""

    is_factor: bool
    center: float
    spread: float

    def mistake(self, rows: RowsInQuestion) -> Mistake:
        """Return it as a kind of mistake."""
        return (common_factor if self.is_factor else common_shift)(rows, self.center, self.spread)


def shared_by(rows: RowsInQuestion, counts: Vector) -> list[Shared]:
    """Return the factor and the shift that most rows share."""
    found = []
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.log(rows.given / rows.predicted)
    telling = np.isfinite(ratio) & (np.abs(ratio) > LEAST_FACTOR)
    if rows.transform.is_identity:  # others keep their sign, whatever the noise
        telling &= np.abs(rows.predicted) > 3.0 * rows.scale
    alike = _most_common(ratio[telling], counts[telling], REACH)
    if alike is not None:
        center = nearest_listed(alike[0])
        spread = float(np.hypot(alike[1], center - alike[0]))
        found.append(Shared(True, center, float(np.clip(spread, NARROWEST, WIDEST))))
    noise = float(np.median(rows.scale / np.exp(rows.transform.log_slope(rows.predicted))))
    alike = _most_common(rows.given - rows.predicted, counts, SHIFT_REACH * noise)
    if alike is not None:
        beyond = np.sqrt(max(alike[1] ** 2 - noise**2, 0.0))
        found.append(Shared(False, alike[0], float(beyond)))
    return found


def _most_common(values: Vector, counts: Vector, reach: float) -> tuple[float, float] | None:
    """Return center and spread of the values within `reach` of one that most rows are near."""
    order = np.argsort(values, kind="stable")
    values, counts = values[order], counts[order]
    total = np.append(0.0, np.cumsum(counts))
    if total[-1] < FEWEST_ALIKE - 0.5:
        return None
    first = np.searchsorted(values, values - reach)
    last = np.searchsorted(values, values + reach, side="right")
    mass = total[last] - total[first]
    best = int(np.argmax(mass))
    if mass[best] < FEWEST_ALIKE - 0.5:
        return None
    alike, weight = values[first[best] : last[best]], counts[first[best] : last[best]]
    center = float(np.average(alike, weights=weight))
    return center, float(np.sqrt(np.average(np.square(alike - center), weights=weight)))
