"""Steps for losses of any form: value, slope and curvature of the weighted rows at a point."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from easyfirst.contracts import Block, Resident, Vector
from easyfirst.local.steps import Change, Statistics, weigh_and_count
from easyfirst.local.weighing import Problem
from easyfirst.losses import Loss


@dataclass(frozen=True, eq=False)
class Expansion:
    """Where to expand the loss of the weighted rows, and whether its diagonal is enough.

    `loss` is the problem's, or a stage on the way to it.
    """

    coef: Vector
    loss: Loss
    diagonal: bool = False


def expand(resident: Resident, change: Change, message: tuple[Problem, Expansion]) -> Statistics:
    """Weigh the rows and return the statistics of their loss around given coefficients.

    With `diagonal`, only the diagonal of the Gram matrix, as a vector.
    """
    problem, expansion = message
    batch, loss = resident.batch, expansion.loss
    design = problem.design(batch)
    row_weights, [tally] = weigh_and_count(Block.of(resident), [change], problem)
    prediction = predicted(resident, expansion.coef, problem)
    slope = evaluated(loss, "gradient", batch.y, prediction)
    bend = 0.5 * row_weights * evaluated(loss, "curvature", batch.y, prediction)
    matrix: Any
    if expansion.diagonal:
        matrix = design.squares(bend)
    else:
        matrix = design.gram(bend, batch.y, resident.spread)[0]
    return replace(
        tally,
        gram=matrix,
        rhs=design.transposed_times(-0.5 * row_weights * slope),
        square=float(row_weights @ evaluated(loss, "value", batch.y, prediction)),
        size=float(row_weights @ np.square(0.5 * loss.gradient(batch.y, np.zeros(batch.y.size)))),
        squares=design.squares(row_weights),
    )


def predicted(resident: Resident, coef: Vector, problem: Problem) -> Vector:
    """Return the linear prediction of each row."""
    found: Vector = resident.recall(
        "prediction",
        tuple(coef.tolist()),
        lambda: problem.design(resident.batch).times(coef),
    )
    return found


def evaluated(
    loss: Loss, what: Literal["value", "gradient", "curvature"], y: Vector, prediction: Vector
) -> Vector:
    """Return what a loss computes; what is not a number ends the fit with a sentence.

    A step may lead so far that a loss is infinite: it is then not taken.
    """
    with np.errstate(over="ignore"):
        values: Vector = getattr(loss, what)(y, prediction)
    if np.any(np.isnan(values)):
        raise ValueError(
            f"{loss!r} returned a {what} that is not a number: a loss must be defined for every "
            f"prediction"
        )
    return values
