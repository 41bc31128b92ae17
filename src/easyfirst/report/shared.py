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
ROUNDS = 5
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
    noise = rows.scale / np.exp(rows.transform.log_slope(rows.predicted))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.log(rows.given / rows.predicted)
        blur = noise / np.abs(rows.predicted)
    telling = np.isfinite(ratio) & (np.abs(ratio) > LEAST_FACTOR)
    if rows.transform.is_identity:  # others keep their sign, whatever the noise
        telling &= np.abs(rows.predicted) > 3.0 * rows.scale
    alike = _most_common(ratio[telling], blur[telling], counts[telling], REACH)
    if alike is not None:
        center = nearest_listed(alike[0])
        spread = float(np.hypot(alike[1], center - alike[0]))
        found.append(Shared(True, center, float(np.clip(spread, NARROWEST, WIDEST))))
    reach = SHIFT_REACH * float(np.median(noise))
    # One value in many rows, such as a cap that was scaled, is no shift.
    _, place, repeats = np.unique(rows.given, return_inverse=True, return_counts=True)
    alike = _most_common(rows.given - rows.predicted, noise, counts / repeats[place], reach)
    if alike is not None:
        found.append(Shared(False, *alike))
    return found


def _most_common(
    values: Vector, noise: Vector, counts: Vector, reach: float
) -> tuple[float, float] | None:
    """Return where most values lie within `reach`, and how far they spread besides their noise."""
    order = np.argsort(values, kind="stable")
    values, noise, counts = values[order], noise[order], counts[order]
    total = np.append(0.0, np.cumsum(counts))
    if total[-1] < FEWEST_ALIKE - 0.5:
        return None
    first = np.searchsorted(values, values - reach)
    last = np.searchsorted(values, values + reach, side="right")
    mass = total[last] - total[first]
    best = int(np.argmax(mass))
    if mass[best] < FEWEST_ALIKE - 0.5:
        return None
    alike = np.zeros(values.size, dtype=bool)
    alike[first[best] : last[best]] = True
    center, spread = float(values[best]), reach / 3.0
    for _ in range(ROUNDS):
        weight = (counts / (spread**2 + np.square(noise)))[alike]
        if not weight.sum() > 0.0:
            break
        center = float(np.average(values[alike], weights=weight))
        beyond = np.square(values - center) - np.square(noise)
        spread = float(np.sqrt(max(np.average(beyond[alike], weights=weight), 0.0)))
        spread = min(max(spread, 0.05 * reach), reach)
        alike = np.abs(values - center) <= np.maximum(2.5 * np.hypot(spread, noise), reach)
    return center, spread
