"""Gross rows among fewer than two per coefficient, of which no share can be told as clean.

So few rows always have a part that some fit suits closely. But mistakes of many times the noise
stand out even there: without them the sum of squares falls by more than it does for any choice of
as many good rows. The test counts every choice that there is, so that chance passes it in one
sample of a hundred at most, however the rows were found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray
from scipy.special import gammaln
from scipy.stats import beta

from easyfirst.consensus.robust.absolute import absolute_start
from easyfirst.consensus.robust.huber import bisquare
from easyfirst.consensus.rounds.calibrated import Start
from easyfirst.consensus.starts.sample import Sample
from easyfirst.contracts import Matrix, Vector
from easyfirst.schedules import has_too_few_rows

CHANCE = 0.01  # that good rows pass as gross
MOST_GROSS = 0.25  # of the rows
LEAST_LEFT = 3  # rows besides one per coefficient, of those that are kept
NO_SAY = 1e-8  # share of a row's residual that is left where it alone decides a coefficient


@dataclass(frozen=True, eq=False)
class Gross:
    """Rows that are too far off for chance, and least squares without them."""

    rows: NDArray[np.intp]
    start: Start
    sample: Sample  # with settings by which the other rows are taken as clean


def gross_rows(sample: Sample) -> Gross | None:
    """Return which of few rows are gross, if some are."""
    n, q = sample.n_samples, sample.fleet.n_coef
    is_plain = sample.rows.sample_weight is None and sample.objective.is_unpenalised
    most = min(int(MOST_GROSS * n), n - q - LEAST_LEFT)
    if not has_too_few_rows(n, q) or not is_plain or sample.trusted.size or most < 1:
        return None
    design, y = sample.design()
    best, log_chance = None, np.log(CHANCE)
    for order in _orders(design, y, most, sample.objective.fit_intercept):
        for count, log_p in enumerate(_log_chances(design, y, order[:most]), start=1):
            if log_p < log_chance:
                best, log_chance = order[:count], log_p
    if best is None:
        return None
    kept = np.setdiff1d(np.arange(n), best)
    coef, square = _least_squares(design[kept], y[kept])
    scale = float(np.sqrt(square / (kept.size - q)))
    schedule = replace(sample.settings.calibrated, granted=kept.size / n, per_coefficient=1.0)
    settings = replace(sample.settings, schedule=schedule)
    return Gross(best, Start(coef, scale), replace(sample, settings=settings))


def _orders(
    design: Matrix, y: Vector, most: int, fit_intercept: bool
) -> Iterator[NDArray[np.intp]]:
    """Yield the rows by how far they are off, farthest first, in the eyes of several fits."""
    coef = absolute_start(design, y, fit_intercept)[0]
    closer = bisquare(design, y, coef, np.ones(y.size))
    for at in (coef, closer):
        yield np.argsort(-np.abs(y - design @ at), kind="stable")
    yield _one_by_one(design, y, most)


def _one_by_one(design: Matrix, y: Vector, most: int) -> NDArray[np.intp]:
    """Return rows in the order in which leaving one out lowers the sum of squares most."""
    left = np.arange(y.size)
    found: list[int] = []
    for _ in range(most):
        basis = la.qr(design[left], mode="economic")[0]
        residual = y[left] - basis @ (basis.T @ y[left])
        free = np.maximum(1.0 - np.sum(np.square(basis), axis=1), NO_SAY)
        worst = int(np.argmax(np.square(residual) / free))
        found.append(int(left[worst]))
        left = np.delete(left, worst)
    return np.array(found, dtype=np.intp)


def _log_chances(design: Matrix, y: Vector, order: NDArray[np.intp]) -> Iterator[float]:
    """Yield, for one row left out, two and so on, the log of the chance of such a fall.

    That of the best choice of good rows is at most that of one choice times their number.
    """
    n, q = design.shape
    whole = _least_squares(design, y)[1]
    for count in range(1, order.size + 1):
        kept = np.setdiff1d(np.arange(n), order[:count])
        share = min(_least_squares(design[kept], y[kept])[1] / whole, 1.0) if whole > 0 else 1.0
        choices = gammaln(n + 1) - gammaln(count + 1) - gammaln(n - count + 1)
        yield float(beta.logcdf(share, (n - q - count) / 2.0, count / 2.0) + choices)


def _least_squares(design: Matrix, y: Vector) -> tuple[Vector, float]:
    """Return the coefficients and the sum of squares that they leave."""
    coef = np.linalg.lstsq(design, y, rcond=None)[0]
    return np.asarray(coef, dtype=np.float64), float(np.sum(np.square(y - design @ coef)))
